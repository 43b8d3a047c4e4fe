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
    convert::{advice_number, capture_mode_number, launch_attributes, memcpy_2d, memcpy_3d_peer},
    fork, host_function,
    library::CudaVersion,
    module,
};
use crate::{
    BlockSize, CaptureInfo, CaptureMode, Completion, ConditionHandle, ConditionalKind,
    ConditionalNode, ContextHandle, Copy2d, CurrentContext, DeviceAttribute, DeviceOrdinal,
    DevicePtr, Driver, DriverError, EventHandle, EventKind, FillPattern, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, GraphKernel, GraphNode, GraphNodeHandle,
    HostFunction, LaunchAttributes, LaunchDims, ManagedAdvice, ManagedLocation, ModuleHandle,
    P2pAttribute, PeerCopy, PeerCopy2d, PointerInfo, PoolHandle, PoolUsage, PriorityRange,
    ResultCode, StreamHandle,
};

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

/// Converts a name to a C string.
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

    unsafe fn make_current(&self, context: ContextHandle) -> Result<()> {
        // SAFETY: the caller vouches for the context.
        unsafe { call!(self, cuCtxSetCurrent(context)) }
    }

    #[inline]
    fn current_context(&self) -> Result<ContextHandle> {
        let mut context = ContextHandle::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuCtxGetCurrent(&mut context)) }?;
        Ok(context)
    }

    fn driver_version(&self) -> Result<i32> {
        Ok(self.version)
    }

    fn device_count(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceGetCount(&mut count)) }?;
        Ok(count)
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

    fn device_attribute(&self, device: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32> {
        let device = self.device(device)?;
        let mut value = 0;
        // SAFETY: the result goes to a local.
        unsafe {
            call!(
                self,
                cuDeviceGetAttribute(&mut value, attribute.as_raw(), device)
            )
        }?;
        Ok(value)
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

    fn device_p2p_attribute(
        &self,
        attribute: P2pAttribute,
        from: DeviceOrdinal,
        to: DeviceOrdinal,
    ) -> Result<i32> {
        let (from, to) = (self.device(from)?, self.device(to)?);
        let mut value = 0;
        // SAFETY: the result goes to a local.
        unsafe {
            call!(
                self,
                cuDeviceGetP2PAttribute(&mut value, attribute.as_raw(), from, to)
            )
        }?;
        Ok(value)
    }

    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        let device = self.device(device)?;
        let mut context = ContextHandle::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDevicePrimaryCtxRetain(&mut context, device)) }?;
        Ok(context)
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        let device = self.device(device)?;
        // SAFETY: the caller releases a reference that it holds.
        unsafe { call!(self, cuDevicePrimaryCtxRelease(device)) }
    }

    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()> {
        enter!(self, context);
        // SAFETY: works on the current context.
        unsafe { call!(self, cuCtxSynchronize()) }
    }

    unsafe fn context_enable_peer_access(
        &self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for the peer; the function's flags must be 0.
        unsafe { call!(self, cuCtxEnablePeerAccess(peer, 0)) }
    }

    unsafe fn stream_priority_range(&self, context: ContextHandle) -> Result<PriorityRange> {
        enter!(self, context);
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the results go to locals.
        unsafe { call!(self, cuCtxGetStreamPriorityRange(&mut least, &mut greatest)) }?;
        Ok(PriorityRange { least, greatest })
    }

    unsafe fn stream_create(
        &self,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) -> Result<StreamHandle> {
        enter!(self, context);
        let flags = if non_blocking {
            api::STREAM_NON_BLOCKING
        } else {
            api::STREAM_DEFAULT
        };
        let mut stream = StreamHandle::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe {
            call!(
                self,
                cuStreamCreateWithPriority(&mut stream, flags, priority)
            )
        }?;
        Ok(stream)
    }

    unsafe fn stream_destroy(&self, _: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller destroys a live stream, once.
        unsafe { call!(self, cuStreamDestroy(stream)) }
    }

    unsafe fn stream_query(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<Completion> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for the stream.
        completion(unsafe { call!(self, cuStreamQuery(stream)) })
    }

    unsafe fn stream_context(&self, stream: StreamHandle) -> Result<ContextHandle> {
        let mut context = ContextHandle::from_raw(0);
        // SAFETY: the result goes to a local; the caller vouches for the stream.
        unsafe { call!(self, cuStreamGetCtx(stream, &mut context)) }?;
        Ok(context)
    }

    unsafe fn stream_synchronize(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for the stream.
        unsafe { call!(self, cuStreamSynchronize(stream)) }
    }

    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for stream and event.
        unsafe {
            call!(
                self,
                cuStreamWaitEvent(stream, event, api::EVENT_WAIT_DEFAULT)
            )
        }
    }

    unsafe fn event_create(&self, context: ContextHandle, kind: EventKind) -> Result<EventHandle> {
        enter!(self, context);
        let flags = match kind {
            EventKind::Ordering => api::EVENT_DISABLE_TIMING,
            EventKind::Timing => api::EVENT_DEFAULT,
            EventKind::Interprocess => api::EVENT_INTERPROCESS | api::EVENT_DISABLE_TIMING,
        };
        let mut event = EventHandle::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuEventCreate(&mut event, flags)) }?;
        Ok(event)
    }

    unsafe fn event_destroy(&self, _: ContextHandle, event: EventHandle) -> Result<()> {
        // SAFETY: the caller destroys a live event, once.
        unsafe { call!(self, cuEventDestroy(event)) }
    }

    unsafe fn event_record(
        &self,
        context: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for event and stream.
        unsafe { call!(self, cuEventRecord(event, stream)) }
    }

    unsafe fn event_query(&self, _: ContextHandle, event: EventHandle) -> Result<Completion> {
        // SAFETY: the caller vouches for the event.
        completion(unsafe { call!(self, cuEventQuery(event)) })
    }

    unsafe fn event_synchronize(&self, _: ContextHandle, event: EventHandle) -> Result<()> {
        // SAFETY: the caller vouches for the event.
        unsafe { call!(self, cuEventSynchronize(event)) }
    }

    unsafe fn event_elapsed_ms(
        &self,
        _: ContextHandle,
        start: EventHandle,
        end: EventHandle,
    ) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: the caller vouches for both events, and the result goes to a local.
        unsafe { call!(self, cuEventElapsedTime(&mut milliseconds, start, end)) }?;
        Ok(milliseconds)
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
            api::MEMORY_TYPE_HOST => false,
            api::MEMORY_TYPE_DEVICE => true,
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

    unsafe fn mem_alloc(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        enter!(self, context);
        let mut pointer = DevicePtr::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuMemAlloc(&mut pointer, bytes)) }?;
        Ok(pointer)
    }

    unsafe fn mem_alloc_managed(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        enter!(self, context);
        let mut pointer = DevicePtr::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe {
            call!(
                self,
                cuMemAllocManaged(&mut pointer, bytes, api::MEM_ATTACH_GLOBAL)
            )
        }?;
        Ok(pointer)
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

    unsafe fn mem_free(&self, context: ContextHandle, pointer: DevicePtr) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller frees a live allocation that no later operation uses.
        unsafe { call!(self, cuMemFree(pointer)) }
    }

    unsafe fn mem_alloc_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        enter_for!(self, context, stream);
        let mut pointer = DevicePtr::from_raw(0);
        // SAFETY: the caller vouches for the stream, and the result goes to a local.
        unsafe { call!(self, cuMemAllocAsync(&mut pointer, bytes, stream)) }?;
        Ok(pointer)
    }

    unsafe fn mem_free_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        stream: StreamHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller frees a live allocation whose uses are all ordered before this point
        // of the stream.
        unsafe { call!(self, cuMemFreeAsync(pointer, stream)) }
    }

    fn default_pool(&self, device: DeviceOrdinal) -> Result<PoolHandle> {
        let device = self.device(device)?;
        let mut pool = PoolHandle::from_raw(0);
        // SAFETY: the result goes to a local.
        unsafe { call!(self, cuDeviceGetDefaultMemPool(&mut pool, device)) }?;
        Ok(pool)
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

    unsafe fn pool_trim(&self, pool: PoolHandle, keep_bytes: usize) -> Result<()> {
        // SAFETY: the caller vouches for the pool.
        unsafe { call!(self, cuMemPoolTrimTo(pool, keep_bytes)) }
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

    unsafe fn host_free(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller frees memory of `host_alloc` that no later operation uses.
        unsafe { call!(self, cuMemFreeHost(pointer.as_ptr().cast())) }
    }

    unsafe fn host_register(
        &self,
        context: ContextHandle,
        pointer: NonNull<u8>,
        bytes: usize,
    ) -> Result<()> {
        enter!(self, context);
        let pointer = pointer.as_ptr().cast();
        // SAFETY: the caller vouches that the range is valid until it is unregistered.
        unsafe {
            call!(
                self,
                cuMemHostRegister(pointer, bytes, api::MEMHOSTREGISTER_PORTABLE)
            )
        }
    }

    unsafe fn host_unregister(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches that this is a registered range that no later operation uses.
        unsafe { call!(self, cuMemHostUnregister(pointer.as_ptr().cast())) }
    }

    unsafe fn copy_host_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges.
        unsafe { call!(self, cuMemcpyHtoD(target, source.cast(), bytes)) }
    }

    unsafe fn copy_device_to_host(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges.
        unsafe { call!(self, cuMemcpyDtoH(target.cast(), source, bytes)) }
    }

    unsafe fn copy_device_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges.
        unsafe { call!(self, cuMemcpyDtoD(target, source, bytes)) }
    }

    unsafe fn copy_host_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done, and for the stream.
        unsafe {
            call!(
                self,
                cuMemcpyHtoDAsync(target, source.cast(), bytes, stream)
            )
        }
    }

    unsafe fn copy_device_to_host_async(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done, and for the stream.
        unsafe {
            call!(
                self,
                cuMemcpyDtoHAsync(target.cast(), source, bytes, stream)
            )
        }
    }

    unsafe fn copy_device_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done, and for the stream.
        unsafe { call!(self, cuMemcpyDtoDAsync(target, source, bytes, stream)) }
    }

    unsafe fn copy_unified(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done.
        unsafe { call!(self, cuMemcpy(target, source, bytes)) }
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

    unsafe fn copy_unified_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done, and for the stream.
        unsafe { call!(self, cuMemcpyAsync(target, source, bytes, stream)) }
    }

    unsafe fn copy_2d_async(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        if copy.is_empty() {
            return Ok(());
        }
        enter!(self, context);
        // SAFETY: the caller vouches for both sides' rows until the copy is done, and for the
        // stream.
        unsafe { call!(self, cuMemcpy2DAsync(&memcpy_2d(copy), stream)) }
    }

    unsafe fn copy_peer_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy,
        stream: StreamHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both ranges until the copy is done, for the contexts and
        // for the stream.
        unsafe {
            call!(
                self,
                cuMemcpyPeerAsync(
                    copy.target,
                    copy.target_context,
                    copy.source,
                    copy.source_context,
                    copy.bytes,
                    stream,
                )
            )
        }
    }

    unsafe fn copy_peer_2d_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        if copy.is_empty() {
            return Ok(());
        }
        enter!(self, context);
        // SAFETY: the caller vouches for both sides' rows until the copy is done, for the contexts
        // and for the stream.
        unsafe { call!(self, cuMemcpy3DPeerAsync(&memcpy_3d_peer(copy), stream)) }
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

    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller unloads a live module whose kernels are not running.
        unsafe { call!(self, cuModuleUnload(module)) }
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

    unsafe fn function_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<i32> {
        enter!(self, context);
        let mut value = 0;
        // SAFETY: the caller vouches for the function, and the result goes to a local.
        unsafe {
            call!(
                self,
                cuFuncGetAttribute(&mut value, attribute.as_raw(), function)
            )
        }?;
        Ok(value)
    }

    unsafe fn function_set_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for the function.
        unsafe {
            call!(
                self,
                cuFuncSetAttribute(function, attribute.as_raw(), value)
            )
        }
    }

    unsafe fn launch_kernel(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        enter_for!(self, context, stream);
        let [grid_x, grid_y, grid_z] = dims.grid;
        let [block_x, block_y, block_z] = dims.block;
        // The driver only reads the list and the arguments, although the C declaration has no
        // `const`.
        let params = params.as_ptr().cast_mut().cast();
        // SAFETY: the caller vouches for function, stream, arguments and all that the kernel will
        // touch.
        unsafe {
            call!(
                self,
                cuLaunchKernel(
                    function,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    dims.shared_bytes,
                    stream,
                    params,
                    ptr::null_mut(),
                )
            )
        }
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

    unsafe fn occupancy_blocks(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        block_threads: u32,
        dynamic_shared_bytes: usize,
    ) -> Result<i32> {
        enter!(self, context);
        let mut blocks = 0;
        // SAFETY: the caller vouches for the function, and the result goes to a local.
        unsafe {
            call!(
                self,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    function,
                    c_int::try_from(block_threads).unwrap_or(c_int::MAX),
                    dynamic_shared_bytes,
                )
            )
        }?;
        Ok(blocks)
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

    unsafe fn graph_create(&self, context: ContextHandle) -> Result<GraphHandle> {
        enter!(self, context);
        let mut graph = GraphHandle::from_raw(0);
        // SAFETY: the result goes to a local, and 0 is the only valid value of the flags.
        unsafe { call!(self, cuGraphCreate(&mut graph, 0)) }?;
        Ok(graph)
    }

    unsafe fn graph_destroy(&self, context: ContextHandle, graph: GraphHandle) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for the graph, which is not used again.
        unsafe { call!(self, cuGraphDestroy(graph)) }
    }

    unsafe fn graph_clone(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphHandle> {
        enter!(self, context);
        let mut copy = GraphHandle::from_raw(0);
        // SAFETY: the caller vouches for the graph, and the result goes to a local.
        unsafe { call!(self, cuGraphClone(&mut copy, graph)) }?;
        Ok(copy)
    }

    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        enter!(self, context);
        // SAFETY: the caller vouches for graph, dependencies and operation; the context is current.
        unsafe { self.add_node(context, graph, dependencies, node) }
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

    unsafe fn graph_condition(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32,
    ) -> Result<ConditionHandle> {
        enter!(self, context);
        // SAFETY: the caller vouches for the graph, and the context is current.
        unsafe { self.create_condition(context, graph, initial) }
    }

    unsafe fn graph_add_conditional(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> Result<ConditionalNode> {
        enter!(self, context);
        // SAFETY: the caller vouches for graph, dependencies and condition; the context is current.
        unsafe { self.add_conditional(context, graph, dependencies, condition, kind) }
    }

    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphExecHandle> {
        enter!(self, context);
        // SAFETY: the caller vouches for the graph and its kernels; the context is current.
        unsafe { self.instantiate(graph) }
    }

    unsafe fn graph_exec_destroy(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for the executable graph, which is not used again.
        unsafe { call!(self, cuGraphExecDestroy(exec)) }
    }

    unsafe fn graph_upload(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for executable graph and stream.
        unsafe { call!(self, cuGraphUpload(exec, stream)) }
    }

    unsafe fn graph_launch(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for executable graph, stream and all that the nodes touch.
        unsafe { call!(self, cuGraphLaunch(exec, stream)) }
    }

    unsafe fn graph_exec_set_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for executable graph, node and operation; the context is
        // current.
        unsafe { self.set_node(context, exec, node, operation) }
    }

    unsafe fn graph_set_node(
        &self,
        context: ContextHandle,
        _: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for node and operation; the context is current.
        unsafe { self.set_template_node(node, operation) }
    }

    unsafe fn graph_kernels(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<Option<Vec<GraphKernel>>> {
        enter!(self, context);
        // SAFETY: the caller vouches for the graph; the context is current.
        unsafe { self.kernels_of(context, graph) }
    }

    unsafe fn graph_exec_update(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        enter!(self, context);
        // SAFETY: the caller vouches for both graphs; the context is current.
        unsafe { self.update_exec(exec, graph) }
    }

    unsafe fn stream_begin_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for the stream, and for what it enqueues from here on.
        unsafe {
            call!(
                self,
                cuStreamBeginCapture(stream, capture_mode_number(mode))
            )
        }
    }

    unsafe fn stream_end_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<GraphHandle> {
        enter_for!(self, context, stream);
        let mut graph = GraphHandle::from_raw(0);
        // SAFETY: the caller vouches for the stream, and the result goes to a local.
        unsafe { call!(self, cuStreamEndCapture(stream, &mut graph)) }?;
        Ok(graph)
    }

    unsafe fn stream_capture_info(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<CaptureInfo> {
        enter_for!(self, context, stream);
        // SAFETY: the caller vouches for the stream.
        unsafe { self.capture_info(stream) }
    }

    unsafe fn stream_set_capture_dependencies(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[GraphNodeHandle],
    ) -> Result<()> {
        enter_for!(self, context, stream);
        // The driver only reads the list, although the C declaration has no `const`.
        let list = dependencies.as_ptr().cast_mut();
        let flags = api::STREAM_SET_CAPTURE_DEPENDENCIES;
        // SAFETY: the caller vouches for stream and nodes, and the list has the stated length.
        unsafe {
            call!(
                self,
                cuStreamUpdateCaptureDependencies(stream, list, dependencies.len(), flags)
            )
        }
    }
}
