//! The [`Driver`] of libcuda: each method makes its context current if the function requires one,
//! then calls the function.
//!
//! A launch, and a function that takes a stream or an event, requires no current context, because
//! the handle determines it. The legacy and the per-thread default stream are exceptions: all
//! contexts share their handles. Copies and fills require a current context too, because the driver
//! rejects them for pool memory while another device's context is current (rule 37: an asynchronous
//! copy of pool memory requires the stream's context to be current).

#![allow(unsafe_code, reason = "calls libcuda's functions")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    ptr::{self, NonNull},
    thread,
    time::{Duration, Instant},
};

use super::{
    Cuda, api,
    convert::{
        advice_number, capture_mode_number, event_flags, launch_attributes, memcpy_2d,
        memcpy_3d_peer, memcpy_box, stream_flags,
    },
    fork, host_function,
    library::CudaVersion,
    module,
};
use crate::*;

type Result<T> = std::result::Result<T, DriverError>;

/// The capacity of the buffer for the PTX compiler's messages, in bytes.
const LOG_CAPACITY: usize = 16 * 1024;

/// The shortest pause for which a thread sleeps. A sleep on Linux lasts 50 µs longer than asked, so
/// that a wait for a graph of 100 µs would take half as long again.
const SLEEP_MIN: Duration = Duration::from_micros(40);

/// Lets other threads run for this long.
fn pause(duration: Duration) {
    if duration >= SLEEP_MIN {
        return thread::sleep(duration);
    }
    let started = Instant::now();
    while started.elapsed() < duration {
        thread::yield_now();
    }
}

/// Calls one function under its own name: `call!(self, cuMemFree(pointer))`. The invocation belongs
/// in an `unsafe` block.
macro_rules! call {
    ($cuda:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match fork::check(stringify!($function)) {
            Ok(()) => $cuda.check(stringify!($function), ($cuda.api.$function)($($argument),*)),
            Err(error) => Err(error),
        }
    };
}

/// Makes the context that a [`Driver`] method received current until the method returns.
macro_rules! enter {
    ($cuda:expr, $context:expr) => {
        // SAFETY: every method of the trait that takes a context requires it to be alive.
        let _entered = unsafe { CurrentContext::enter($cuda, $context) }?;
    };
}

/// Makes the context that a [`Driver`] method received current until the method returns, but only
/// for a default stream, whose handle does not determine the context.
macro_rules! enter_for {
    ($cuda:expr, $context:expr, $stream:expr) => {
        let _entered = if $stream.as_raw() <= StreamHandle::PER_THREAD.as_raw() {
            // SAFETY: every method of the trait that takes a context requires it to be alive.
            Some(unsafe { CurrentContext::enter($cuda, $context) }?)
        } else {
            None
        };
    };
}

/// The value of a result before the driver has written it.
trait Unwritten {
    const UNWRITTEN: Self;
}

macro_rules! unwritten {
    ($($handle:ident)*) => {
        $(impl Unwritten for $handle {
            const UNWRITTEN: Self = Self::from_raw(0);
        })*
    };
}

unwritten! {
    ArrayHandle ContextHandle DevicePtr EventHandle GraphExecHandle GraphHandle PoolHandle
    StreamHandle SurfaceHandle TextureHandle
}

impl Unwritten for i32 {
    const UNWRITTEN: Self = 0;
}

impl Unwritten for f32 {
    const UNWRITTEN: Self = 0.0;
}

/// Makes the call of a row of the table. `enter(context)` and `enter_for(context, stream)` make the
/// context current, `device(ordinal)` replaces an ordinal by the driver's handle,
/// `unless_empty(copy)` leaves out a copy of no bytes, `out(result)` declares the result, and
/// `poll` turns "not ready" into [`Completion::Pending`]. At the end stand the function's
/// arguments, or `by` and a method of [`Cuda`].
macro_rules! forward {
    ($cuda:ident $function:ident $value:ty; enter($context:ident) $($rest:tt)+) => {{
        enter!($cuda, $context);
        forward!($cuda $function $value; $($rest)+)
    }};
    ($cuda:ident $function:ident $value:ty; enter_for($context:ident, $stream:ident)
     $($rest:tt)+) => {{
        enter_for!($cuda, $context, $stream);
        forward!($cuda $function $value; $($rest)+)
    }};
    ($cuda:ident $function:ident $value:ty; device($device:ident) $($rest:tt)+) => {{
        let $device = $cuda.device($device)?;
        forward!($cuda $function $value; $($rest)+)
    }};
    ($cuda:ident $function:ident $value:ty; unless_empty($copy:ident) $($rest:tt)+) => {{
        if $copy.is_empty() {
            return Ok(());
        }
        forward!($cuda $function $value; $($rest)+)
    }};
    ($cuda:ident $function:ident $value:ty; out($result:ident) $($rest:tt)+) => {{
        let mut $result = <$value>::UNWRITTEN;
        forward!($cuda $function (); $($rest)+)?;
        Ok($result)
    }};
    ($cuda:ident $function:ident $value:ty; poll $($rest:tt)+) => {
        completion(forward!($cuda $function (); $($rest)+))
    };
    ($cuda:ident $function:ident $value:ty; by $method:ident($($argument:expr),*)) => {
        // SAFETY: the method requires of its caller what the trait's method does, and the context
        // is current.
        unsafe { $cuda.$method($($argument),*) }
    };
    ($cuda:ident $function:ident $value:ty; ($($argument:expr),*)) => {
        // SAFETY: the function requires of the arguments what the trait's method requires of its
        // caller, results go to locals, and a flag is a valid one. Lists are only read, although
        // some declarations in C have no `const`.
        unsafe { call!($cuda, $function($($argument),*)) }
    };
}

/// Implements a method from its row, unless it is implemented by hand.
macro_rules! method {
    ([$safety:ident] $function:ident {} $($signature:tt)*) => {};
    ([safe] $function:ident { $($call:tt)+ }
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty) => {
        #[inline]
        fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(let _ = $arg;)*
            forward!(self $function $value; $($call)+)
        }
    };
    ([unsafe] $function:ident { $($call:tt)+ }
     $name:ident($($arg:ident: $type:ty),*) -> $value:ty) => {
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(let _ = $arg;)*
            forward!(self $function $value; $($call)+)
        }
    };
}

/// Implements the methods of the table.
macro_rules! implement {
    ($($(#[$doc:meta])* [$safety:ident $class:ident $(($stream:ident))? $($optional:ident)?]
       fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $function:ident $call:tt;)*) => {
        $(method! { [$safety] $function $call $name($($arg: $type),*) -> $value })*
    };
}

mod graph;
mod graph_kernels;

impl Cuda {
    #[inline]
    fn check(&self, call: &'static str, code: ResultCode) -> Result<()> {
        if code == ResultCode::SUCCESS {
            Ok(())
        } else {
            Err(self.failure(call, code))
        }
    }

    /// Creates the error for an unsuccessful result. If this crate has no name for the number, the
    /// error carries the driver's description.
    #[cold]
    fn failure(&self, call: &'static str, code: ResultCode) -> DriverError {
        let error = DriverError::new(call, code);
        if code.name().is_some() {
            return error;
        }
        let (mut name, mut text) = (ptr::null(), ptr::null());
        // SAFETY: the result goes to a local.
        let named = unsafe { (self.api.cuGetErrorName)(code, &mut name) };
        // SAFETY: the result goes to a local.
        let worded = unsafe { (self.api.cuGetErrorString)(code, &mut text) };
        if named != ResultCode::SUCCESS
            || worded != ResultCode::SUCCESS
            || name.is_null()
            || text.is_null()
        {
            return error;
        }
        // SAFETY: the driver returned a static string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // SAFETY: the driver returned a static string.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        error.with_detail(format!("{name}: {text}"))
    }

    /// Returns the driver's handle of the device at this ordinal (`cuDeviceGet`).
    fn device(&self, ordinal: DeviceOrdinal) -> Result<c_int> {
        let mut device = 0;
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceGet(&mut device, ordinal.as_raw())) }?;
        Ok(device)
    }

    /// Returns the driver's handle of a location of managed memory.
    fn location(&self, location: ManagedLocation) -> Result<c_int> {
        match location {
            ManagedLocation::Host => Ok(api::DEVICE_CPU),
            ManagedLocation::Device(ordinal) => self.device(ordinal),
        }
    }

    /// Returns one counter of a pool, in bytes.
    ///
    /// # Safety
    ///
    /// `pool` is alive, and `attribute` is one whose value has 64 bits.
    unsafe fn pool_attribute(&self, pool: PoolHandle, attribute: c_int) -> Result<u64> {
        let mut value = 0_u64;
        // SAFETY: the caller vouches for the pool, and the result goes to a local of the
        // attribute's size.
        unsafe {
            call!(
                self,
                cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast())
            )
        }?;
        Ok(value)
    }

    /// Returns the layout of a kernel's parameters among its arguments, as the driver sees it
    /// (`cuFuncGetParamInfo`). `None` if the driver is older than CUDA 12.4 and lacks the function.
    ///
    /// # Errors
    ///
    /// [`DriverError`] with the driver's result.
    ///
    /// # Safety
    ///
    /// `function` is a live kernel, of a module that was loaded in the live context `context`.
    pub unsafe fn function_params(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
    ) -> Result<Option<Vec<ParamLayout>>> {
        let Some(get_param_info) = self.api.cuFuncGetParamInfo else {
            return Ok(None);
        };
        enter!(self, context);
        let mut params = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the caller vouches for the function, and the results go to locals.
            let code = unsafe { get_param_info(function, params.len(), &mut offset, &mut size) };
            if code == ResultCode::INVALID_VALUE {
                // The index is past the last parameter.
                return Ok(Some(params));
            }
            self.check("cuFuncGetParamInfo", code)?;
            params.push(ParamLayout { offset, size });
        }
    }
}

/// The position of a kernel's parameter among its arguments, in bytes; see
/// [`Cuda::function_params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamLayout {
    /// The offset from the start of the arguments.
    pub offset: usize,
    /// The size of the parameter.
    pub size: usize,
}

/// Converts the result of a query: "not ready" is no error but [`Completion::Pending`].
fn completion(result: Result<()>) -> Result<Completion> {
    match result {
        Ok(()) => Ok(Completion::Complete),
        Err(error) if error.code() == ResultCode::NOT_READY => Ok(Completion::Pending),
        Err(error) => Err(error),
    }
}

/// Returns whether a failed call certainly enqueued nothing. After a result that reports the loss
/// of the context by earlier work, or an unknown error, the work may have been enqueued.
fn enqueued_nothing(code: ResultCode) -> bool {
    code.name().is_some() && !code.is_sticky() && code != ResultCode::UNKNOWN
}

/// Creates the error for an optional function that the driver lacks.
#[cold]
fn missing(call: &'static str, why: &'static str) -> DriverError {
    DriverError::new(call, ResultCode::NOT_SUPPORTED).with_detail(why)
}

/// Returns the text before the first zero byte.
fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&buffer[..end.unwrap_or(buffer.len())]).into_owned()
}

fn c_name(call: &'static str, name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| {
        DriverError::new(call, ResultCode::NOT_FOUND)
            .with_detail(format!("{name:?} has a zero byte in it"))
    })
}

impl Driver for Cuda {
    fn name(&self) -> String {
        format!("libcuda {}", CudaVersion(self.version))
    }

    fn handle_space(&self) -> usize {
        // The process has one libcuda, however often it is loaded. Address 0 is the identity of no
        // driver.
        0
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pause(&self, duration: Duration) {
        pause(duration);
    }

    fn driver_version(&self) -> Result<i32> {
        Ok(self.version)
    }

    fn device_name(&self, device: DeviceOrdinal) -> Result<String> {
        const CAPACITY: usize = 256;
        let device = self.device(device)?;
        let mut name = [0_u8; CAPACITY];
        let buffer = name.as_mut_ptr().cast::<c_char>();
        // SAFETY: the buffer has the stated capacity.
        unsafe { call!(self, cuDeviceGetName(buffer, CAPACITY as c_int, device)) }?;
        Ok(text(&name))
    }

    fn device_uuid(&self, device: DeviceOrdinal) -> Result<[u8; 16]> {
        let device = self.device(device)?;
        let mut uuid = api::Uuid::default();
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceGetUuid(&mut uuid, device)) }?;
        Ok(uuid.bytes)
    }

    fn device_total_bytes(&self, device: DeviceOrdinal) -> Result<u64> {
        let device = self.device(device)?;
        let mut bytes = 0;
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceTotalMem(&mut bytes, device)) }?;
        Ok(bytes as u64)
    }

    fn device_pci_bus_id(&self, device: DeviceOrdinal) -> Result<String> {
        const CAPACITY: usize = 32;
        let device = self.device(device)?;
        let mut address = [0_u8; CAPACITY];
        let buffer = address.as_mut_ptr().cast::<c_char>();
        // SAFETY: the buffer has the stated capacity.
        unsafe { call!(self, cuDeviceGetPCIBusId(buffer, CAPACITY as c_int, device)) }?;
        Ok(text(&address))
    }

    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool> {
        let (device, peer) = (self.device(device)?, self.device(peer)?);
        let mut can_access = 0;
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceCanAccessPeer(&mut can_access, device, peer)) }?;
        Ok(can_access != 0)
    }

    unsafe fn stream_priority_range(&self, context: ContextHandle) -> Result<PriorityRange> {
        enter!(self, context);
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the results go to locals.
        unsafe { call!(self, cuCtxGetStreamPriorityRange(&mut least, &mut greatest)) }?;
        Ok(PriorityRange { least, greatest })
    }

    fn pointer_info(&self, pointer: DevicePtr) -> Result<Option<PointerInfo>> {
        let (mut kind, mut device): (c_int, c_int) = (0, -1);
        let (mut start, mut bytes) = (DevicePtr::from_raw(0), 0_usize);
        let mut attributes = [
            api::POINTER_MEMORY_TYPE,
            api::POINTER_DEVICE_ORDINAL,
            api::POINTER_RANGE_START,
            api::POINTER_RANGE_SIZE,
        ];
        let mut values = [
            ptr::from_mut(&mut kind).cast::<c_void>(),
            ptr::from_mut(&mut device).cast(),
            ptr::from_mut(&mut start).cast(),
            ptr::from_mut(&mut bytes).cast(),
        ];
        let (attributes, values) = (attributes.as_mut_ptr(), values.as_mut_ptr());
        // SAFETY: the results go to locals of the attributes' types. The driver looks up the
        // address and does not dereference it.
        unsafe { call!(self, cuPointerGetAttributes(4, attributes, values, pointer)) }?;
        let on_device = match kind {
            api::MEMORYTYPE_HOST => false,
            api::MEMORYTYPE_DEVICE => true,
            _ => return Ok(None),
        };
        Ok(Some(PointerInfo {
            device: DeviceOrdinal::from_raw(device),
            on_device,
            start,
            bytes: bytes as u64,
        }))
    }

    unsafe fn mem_info(&self, context: ContextHandle) -> Result<(u64, u64)> {
        enter!(self, context);
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results go to locals.
        unsafe { call!(self, cuMemGetInfo(&mut free, &mut total)) }?;
        Ok((free as u64, total as u64))
    }

    unsafe fn mem_prefetch_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
        stream: StreamHandle,
    ) -> Result<()> {
        const CALL: &str = "cuMemPrefetchAsync";
        let Some(prefetch) = self.api.cuMemPrefetchAsync else {
            return Err(missing(CALL, "the driver has no function of this name"));
        };
        fork::check(CALL)?;
        let device = self.location(location)?;
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for the range, as long as the prefetch takes, and for the
        // stream.
        self.check(CALL, unsafe { prefetch(pointer, bytes, device, stream) })
    }

    unsafe fn mem_advise(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        advice: ManagedAdvice,
        location: ManagedLocation,
    ) -> Result<()> {
        const CALL: &str = "cuMemAdvise";
        let Some(advise) = self.api.cuMemAdvise else {
            return Err(missing(CALL, "the driver has no function of this name"));
        };
        let device = if advice.uses_location() {
            self.location(location)?
        } else {
            api::DEVICE_CPU
        };
        enter!(self, context);
        // SAFETY: the caller vouches for the range.
        self.check(CALL, unsafe {
            advise(pointer, bytes, advice_number(advice), device)
        })
    }

    unsafe fn pool_set_release_threshold(&self, pool: PoolHandle, bytes: u64) -> Result<()> {
        let mut value = bytes;
        let (attribute, value) = (api::MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut value).cast());
        // SAFETY: the caller vouches for the pool, and this attribute's value has 64 bits.
        unsafe { call!(self, cuMemPoolSetAttribute(pool, attribute, value)) }
    }

    unsafe fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceOrdinal,
        accessible: bool,
    ) -> Result<()> {
        let access = api::MemoryAccess {
            location: api::MemoryLocation {
                kind: api::MEM_LOCATION_TYPE_DEVICE,
                id: self.device(device)?,
            },
            flags: if accessible {
                api::MEM_ACCESS_FLAGS_PROT_READWRITE
            } else {
                api::MEM_ACCESS_FLAGS_PROT_NONE
            },
        };
        // SAFETY: the caller vouches for the pool; the one descriptor is only read during the call.
        unsafe { call!(self, cuMemPoolSetAccess(pool, &access, 1)) }
    }

    unsafe fn pool_usage(&self, pool: PoolHandle) -> Result<PoolUsage> {
        Ok(PoolUsage {
            // SAFETY: the caller vouches for the pool, and the attribute's value has 64 bits.
            used_bytes: unsafe { self.pool_attribute(pool, api::MEMPOOL_ATTR_USED_MEM_CURRENT) }?,
            // SAFETY: as above.
            used_peak_bytes: unsafe { self.pool_attribute(pool, api::MEMPOOL_ATTR_USED_MEM_HIGH) }?,
            // SAFETY: as above.
            reserved_bytes: unsafe {
                self.pool_attribute(pool, api::MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
            }?,
            // SAFETY: as above.
            reserved_peak_bytes: unsafe {
                self.pool_attribute(pool, api::MEMPOOL_ATTR_RESERVED_MEM_HIGH)
            }?,
        })
    }

    unsafe fn host_alloc(&self, context: ContextHandle, bytes: usize) -> Result<NonNull<u8>> {
        enter!(self, context);
        let mut pointer = ptr::null_mut();
        // SAFETY: the result goes to a local.
        unsafe {
            call!(
                self,
                cuMemHostAlloc(&mut pointer, bytes, api::MEMHOSTALLOC_PORTABLE)
            )
        }?;
        NonNull::new(pointer.cast()).ok_or_else(|| {
            DriverError::new("cuMemHostAlloc", ResultCode::UNKNOWN)
                .with_detail("the driver reports success and a null pointer")
        })
    }

    unsafe fn copy_captured_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        const CALL: &str = "cuMemcpyBatchAsync";
        let Some(copy_batch) = self.api.cuMemcpyBatchAsync else {
            return Err(missing(CALL, "the driver is older than CUDA 12.8"));
        };
        enter!(self, context);
        let (mut target, mut size, mut start, mut failed_at) = (target, bytes, 0, 0);
        let mut source = DevicePtr::from_raw(source.expose_provenance() as u64);
        let mut attributes = api::CopyAttributes {
            source_access_order: api::MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
            ..Default::default()
        };
        // SAFETY: the arrays have one entry each and are only used during the call; the caller
        // vouches for both ranges and for the stream.
        let code = unsafe {
            copy_batch(
                &mut target,
                &mut source,
                &mut size,
                1,
                &mut attributes,
                &mut start,
                1,
                &mut failed_at,
                stream,
            )
        };
        self.check(CALL, code)
    }

    unsafe fn memset_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        match pattern {
            FillPattern::U8(value) => {
                // SAFETY: the caller vouches for the range, its alignment and the stream.
                unsafe { call!(self, cuMemsetD8Async(target, value, count, stream)) }
            }
            FillPattern::U16(value) => {
                // SAFETY: as above.
                unsafe { call!(self, cuMemsetD16Async(target, value, count, stream)) }
            }
            FillPattern::U32(value) => {
                // SAFETY: as above.
                unsafe { call!(self, cuMemsetD32Async(target, value, count, stream)) }
            }
        }
    }

    unsafe fn module_load(&self, context: ContextHandle, ptx: &[u8]) -> Result<ModuleHandle> {
        let text = module::prepare(ptx)?;
        enter!(self, context);
        let mut log = vec![0_u8; LOG_CAPACITY];
        let mut options = [
            api::JIT_ERROR_LOG_BUFFER,
            api::JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The second value is a number, passed as a pointer.
        let mut values = [
            log.as_mut_ptr().cast(),
            ptr::without_provenance_mut::<c_void>(LOG_CAPACITY),
        ];
        let mut handle = ModuleHandle::from_raw(0);
        // SAFETY: the image is text that ends in a zero byte, and no binary; each option has its
        // value, and the log has the stated capacity.
        let result = unsafe {
            call!(
                self,
                cuModuleLoadDataEx(
                    &mut handle,
                    text.as_ptr().cast(),
                    options.len() as c_uint,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            )
        };
        match (result, module::log_text(&log)) {
            (Ok(()), _) => Ok(handle),
            (Err(error), Some(log)) => Err(error.with_detail(log)),
            (Err(error), None) => Err(error),
        }
    }

    unsafe fn module_load_binary(
        &self,
        context: ContextHandle,
        image: &[u8],
    ) -> Result<ModuleHandle> {
        if !module::is_binary(image) {
            let start = image[..image.len().min(16)].escape_ascii();
            let detail = format!(
                "the image is neither a cubin nor a fat binary: it begins with \"{start}\""
            );
            let error = DriverError::new("cuModuleLoadData", ResultCode::INVALID_IMAGE);
            return Err(error.with_detail(detail));
        }
        enter!(self, context);
        let mut handle = ModuleHandle::from_raw(0);
        // SAFETY: the caller vouches for the image; there are no options.
        unsafe {
            call!(
                self,
                cuModuleLoadDataEx(
                    &mut handle,
                    image.as_ptr().cast(),
                    0,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            )
        }?;
        Ok(handle)
    }

    unsafe fn module_function(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle> {
        let c_name = c_name("cuModuleGetFunction", name)?;
        enter!(self, context);
        let mut function = FunctionHandle::from_raw(0);
        // SAFETY: the caller vouches for the module, the name ends in a zero byte, and the result
        // goes to a local.
        unsafe {
            call!(
                self,
                cuModuleGetFunction(&mut function, module, c_name.as_ptr())
            )
        }
        .map_err(|error| error.with_detail(format!("kernel `{name}`")))?;
        Ok(function)
    }

    unsafe fn module_global(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePtr, usize)> {
        let c_name = c_name("cuModuleGetGlobal", name)?;
        enter!(self, context);
        let (mut pointer, mut bytes) = (DevicePtr::from_raw(0), 0);
        // SAFETY: the caller vouches for the module, the name ends in a zero byte, and the results
        // go to locals.
        unsafe {
            call!(
                self,
                cuModuleGetGlobal(&mut pointer, &mut bytes, module, c_name.as_ptr())
            )
        }
        .map_err(|error| error.with_detail(format!("variable `{name}`")))?;
        Ok((pointer, bytes))
    }

    unsafe fn function_load(&self, context: ContextHandle, function: FunctionHandle) -> Result<()> {
        const CALL: &str = "cuFuncLoad";
        let Some(load) = self.api.cuFuncLoad else {
            return Err(missing(CALL, "the driver is older than CUDA 12.4"));
        };
        enter!(self, context);
        // SAFETY: the caller vouches for the function.
        self.check(CALL, unsafe { load(function) })
    }

    unsafe fn launch_kernel_with(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        attributes: &LaunchAttributes,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        let name = "cuLaunchKernelEx";
        let Some(launch) = self.api.cuLaunchKernelEx else {
            return Err(DriverError::new(name, ResultCode::NOT_SUPPORTED));
        };
        fork::check(name)?;
        enter_for!(self, context, stream);
        let attributes = launch_attributes(attributes);
        let config = api::LaunchConfig {
            grid: dims.grid,
            block: dims.block,
            shared_bytes: dims.shared_bytes,
            stream,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as c_uint,
        };
        let params = params.as_ptr().cast_mut().cast();
        // SAFETY: the caller vouches for function, stream, arguments and all that the kernel will
        // touch. The configuration and its attributes live until the call has returned.
        let code = unsafe { launch(&config, function, params, ptr::null_mut()) };
        self.check(name, code)
    }

    unsafe fn occupancy_block_size(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dynamic_shared_bytes: usize,
    ) -> Result<BlockSize> {
        enter!(self, context);
        let (mut min_blocks, mut threads) = (0, 0);
        // SAFETY: the caller vouches for the function, and the results go to locals. Without a
        // callback every block has the given bytes; 0 stands for the device's largest block.
        unsafe {
            call!(
                self,
                cuOccupancyMaxPotentialBlockSize(
                    &mut min_blocks,
                    &mut threads,
                    function,
                    None,
                    dynamic_shared_bytes,
                    0,
                )
            )
        }?;
        Ok(BlockSize {
            threads: u32::try_from(threads).unwrap_or(0),
            min_blocks: u32::try_from(min_blocks).unwrap_or(0),
        })
    }

    unsafe fn launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: HostFunction,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        let data = host_function::into_raw(function);
        // SAFETY: the caller vouches for the stream, and the callback gets what `into_raw` made,
        // once.
        let result = unsafe {
            call!(
                self,
                cuLaunchHostFunc(stream, Some(host_function::trampoline), data)
            )
        };
        if result
            .as_ref()
            .is_err_and(|error| enqueued_nothing(error.code()))
        {
            // SAFETY: the driver enqueued nothing, so the callback never runs and the closure can
            // be reclaimed.
            drop(unsafe { host_function::from_raw(data) });
        }
        result
    }

    unsafe fn graph_add_dependencies(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> Result<()> {
        enter!(self, context);
        let (from, to): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        // SAFETY: the caller vouches for graph and nodes, and both lists have the stated length.
        unsafe {
            call!(
                self,
                cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), pairs.len())
            )
        }
    }

    driver_methods!(implement);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_fails_by_itself_has_enqueued_nothing() {
        assert!(enqueued_nothing(ResultCode::INVALID_VALUE));
        let others = [ResultCode::ILLEGAL_ADDRESS, ResultCode::UNKNOWN];
        assert_eq!(others.map(enqueued_nothing), [false; 2]);
    }
}
