//! A safe wrapper of the driver's calls for one device of any driver. The tests pass wrong handles
//! and addresses on purpose, and check the driver's response.

#![allow(unsafe_code, reason = "calls unsafe methods and accesses host memory")]

use std::{
    ffi::c_void,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{Ordering, compiler_fence},
    },
};

use millstream_driver::{
    Completion, ContextHandle, Copy2d, DeviceOrdinal, DevicePtr, Driver, DriverError, EventHandle,
    EventKind, FillPattern, FunctionAttribute, FunctionHandle, LaunchAttributes, LaunchDims,
    ManagedAdvice, ManagedLocation, ModuleHandle, PeerCopy, PeerCopy2d, PoolHandle, PoolUsage,
    StreamHandle,
};

pub(crate) type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Host memory that outlives its uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: the tests order conflicting accesses; a fence keeps them behind the call before them.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// Allocates pageable memory, which is never freed.
    pub(crate) fn pageable(bytes: usize) -> Self {
        let memory = Box::leak(vec![0u8; bytes.max(1)].into_boxed_slice());
        Self {
            pointer: NonNull::from(&mut memory[0]),
            bytes,
        }
    }

    pub(crate) fn filled(bytes: usize, value: u8) -> Self {
        let host = Self::pageable(bytes);
        host.fill(value);
        host
    }

    pub(crate) fn of(values: &[u8]) -> Self {
        let host = Self::pageable(values.len());
        host.write(values);
        host
    }

    pub(crate) fn fill(self, value: u8) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the bytes are inside the memory, which is live as long as the test uses it.
        unsafe { self.pointer.write_bytes(value, self.bytes) };
    }

    pub(crate) fn write(self, values: &[u8]) {
        assert_eq!(values.len(), self.bytes);
        let source = NonNull::from(values).cast();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `fill`; `values` has as many bytes.
        unsafe { self.pointer.copy_from_nonoverlapping(source, self.bytes) };
    }

    pub(crate) fn write_byte(self, index: usize, value: u8) {
        self.part(index, 1).fill(value);
    }

    pub(crate) fn read(self) -> Vec<u8> {
        let mut values = vec![0; self.bytes];
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `fill`; `values` has as many bytes.
        unsafe {
            self.pointer
                .copy_to_nonoverlapping(NonNull::from(&mut values[..]).cast(), self.bytes)
        };
        values
    }

    /// Returns whether every byte is `value`.
    pub(crate) fn is(self, value: u8) -> bool {
        self.read() == vec![value; self.bytes]
    }

    pub(crate) fn address(self) -> DevicePtr {
        DevicePtr::from_raw(self.pointer.as_ptr().expose_provenance() as u64)
    }

    pub(crate) fn part(self, at: usize, bytes: usize) -> Self {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the offset is inside the memory.
        let pointer = unsafe { self.pointer.add(at) };
        Self { pointer, bytes }
    }
}

/// Returns the shape of a launch without dynamic shared memory.
pub(crate) const fn dims(grid: [u32; 3], block: [u32; 3]) -> LaunchDims {
    LaunchDims {
        grid,
        block,
        shared_bytes: 0,
    }
}

/// A driver's device, with its primary context.
pub(crate) struct Harness {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) device: DeviceOrdinal,
    pub(crate) context: ContextHandle,
}

/// Defines methods that call one of the driver's copies from or to host memory.
macro_rules! host_copies {
    ($($name:ident($($operand:ident: $type:ty),*) = $call:ident($($argument:expr),*);)*) => {$(
        pub(crate) fn $name(&self, $($operand: $type),*) -> Result<()> {
            // SAFETY: host memory outlives its uses.
            unsafe { self.driver.$call(self.context, $($argument),*) }
        }
    )*};
}

macro_rules! calls {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {
        $(pub(crate) fn $name(&self, $($arg: $ty),*) -> Result<$ret> {
            // SAFETY: the simulator checks handles and device addresses. On a GPU the tests pass
            // live ones, or run where a fault does no damage. No host memory is involved.
            unsafe { self.driver.$name(self.context, $($arg),*) }
        })*
    };
}

pub(crate) mod graphs;

impl Harness {
    /// Retains the primary context of the device.
    pub(crate) fn open(driver: Arc<dyn Driver>, device: DeviceOrdinal) -> Result<Self> {
        let context = driver.primary_context_retain(device)?;
        Ok(Self {
            driver,
            device,
            context,
        })
    }

    calls! {
        context_synchronize() -> ();
        stream_create(non_blocking: bool, priority: i32) -> StreamHandle;
        stream_destroy(stream: StreamHandle) -> ();
        stream_query(stream: StreamHandle) -> Completion;
        stream_synchronize(stream: StreamHandle) -> ();
        stream_wait_event(stream: StreamHandle, event: EventHandle) -> ();
        event_create(kind: EventKind) -> EventHandle;
        event_destroy(event: EventHandle) -> ();
        event_record(event: EventHandle, stream: StreamHandle) -> ();
        event_query(event: EventHandle) -> Completion;
        event_synchronize(event: EventHandle) -> ();
        event_elapsed_ms(start: EventHandle, end: EventHandle) -> f32;
        mem_info() -> (u64, u64);
        mem_alloc(bytes: usize) -> DevicePtr;
        mem_alloc_managed(bytes: usize) -> DevicePtr;
        mem_prefetch_async(
            pointer: DevicePtr,
            bytes: usize,
            location: ManagedLocation,
            stream: StreamHandle,
        ) -> ();
        mem_advise(
            pointer: DevicePtr,
            bytes: usize,
            advice: ManagedAdvice,
            location: ManagedLocation,
        ) -> ();
        mem_free(pointer: DevicePtr) -> ();
        mem_alloc_async(bytes: usize, stream: StreamHandle) -> DevicePtr;
        mem_free_async(pointer: DevicePtr, stream: StreamHandle) -> ();
        memset_async(
            target: DevicePtr,
            pattern: FillPattern,
            count: usize,
            stream: StreamHandle,
        ) -> ();
        host_alloc(bytes: usize) -> NonNull<u8>;
        copy_device_to_device(target: DevicePtr, source: DevicePtr, bytes: usize) -> ();
        copy_device_to_device_async(
            target: DevicePtr,
            source: DevicePtr,
            bytes: usize,
            stream: StreamHandle,
        ) -> ();
        copy_unified(target: DevicePtr, source: DevicePtr, bytes: usize) -> ();
        copy_unified_async(
            target: DevicePtr,
            source: DevicePtr,
            bytes: usize,
            stream: StreamHandle,
        ) -> ();
        copy_2d_async(copy: &Copy2d, stream: StreamHandle) -> ();
        copy_peer_async(copy: &PeerCopy, stream: StreamHandle) -> ();
        copy_peer_2d_async(copy: &PeerCopy2d, stream: StreamHandle) -> ();
        context_enable_peer_access(peer: ContextHandle) -> ();
        function_load(function: FunctionHandle) -> ();
        module_load(image: &[u8]) -> ModuleHandle;
        module_unload(module: ModuleHandle) -> ();
        module_function(module: ModuleHandle, name: &str) -> FunctionHandle;
        module_global(module: ModuleHandle, name: &str) -> (DevicePtr, usize);
        function_attribute(function: FunctionHandle, attribute: FunctionAttribute) -> i32;
        function_set_attribute(
            function: FunctionHandle,
            attribute: FunctionAttribute,
            value: i32,
        ) -> ();
    }

    /// Allocates managed memory, and returns its host side.
    pub(crate) fn managed(&self, bytes: usize) -> Result<Host> {
        let address = self.mem_alloc_managed(bytes)?.as_raw() as usize;
        let pointer = NonNull::new(ptr::with_exposed_provenance_mut(address))
            .expect("a managed allocation at address 0");
        Ok(Host { pointer, bytes })
    }

    pub(crate) fn host_free(&self, host: Host) -> Result<()> {
        // SAFETY: the simulator checks the pointer; the tests do not touch the memory again.
        unsafe { self.driver.host_free(self.context, host.pointer) }
    }

    pub(crate) fn host_register(&self, host: Host) -> Result<()> {
        // SAFETY: host memory outlives its uses.
        unsafe {
            self.driver
                .host_register(self.context, host.pointer, host.bytes)
        }
    }

    pub(crate) fn host_unregister(&self, host: Host) -> Result<()> {
        // SAFETY: the simulator checks the pointer; on a GPU it is behind the last use.
        unsafe { self.driver.host_unregister(self.context, host.pointer) }
    }

    host_copies! {
        upload(target: DevicePtr, source: Host, stream: StreamHandle) =
            copy_host_to_device_async(target, source.pointer.as_ptr(), source.bytes, stream);
        upload_captured(target: DevicePtr, source: Host, stream: StreamHandle) =
            copy_captured_async(target, source.pointer.as_ptr(), source.bytes, stream);
        download(target: Host, source: DevicePtr, stream: StreamHandle) =
            copy_device_to_host_async(target.pointer.as_ptr(), source, target.bytes, stream);
        upload_now(target: DevicePtr, source: Host) =
            copy_host_to_device(target, source.pointer.as_ptr(), source.bytes);
        download_now(target: Host, source: DevicePtr) =
            copy_device_to_host(target.pointer.as_ptr(), source, target.bytes);
    }

    /// Enqueues a host function. Some tests call the driver in it on purpose.
    pub(crate) fn host_function(
        &self,
        stream: StreamHandle,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        // SAFETY: the simulator checks the stream; on a GPU it is alive.
        unsafe {
            self.driver
                .launch_host_function(self.context, stream, Box::new(function))
        }
    }

    /// Enqueues a kernel.
    ///
    /// # Safety
    ///
    /// Each of `params` is null or points to a value of its parameter's type.
    pub(crate) unsafe fn launch_kernel(
        &self,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller vouches for the parameters; the simulator refuses null pointers.
        unsafe {
            self.driver
                .launch_kernel(self.context, function, dims, stream, params)
        }
    }

    /// Enqueues a cooperative launch of a kernel.
    ///
    /// # Safety
    ///
    /// As [`launch_kernel`](Self::launch_kernel).
    pub(crate) unsafe fn launch_cooperative_kernel(
        &self,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        let attributes = LaunchAttributes {
            cooperative: true,
            ..LaunchAttributes::default()
        };
        // SAFETY: the caller vouches for the parameters.
        unsafe {
            self.driver.launch_kernel_with(
                self.context,
                function,
                dims,
                &attributes,
                stream,
                params,
            )
        }
    }

    pub(crate) fn default_pool(&self) -> Result<PoolHandle> {
        self.driver.default_pool(self.device)
    }

    /// Sets whether another device can access the memory of this device's pool.
    pub(crate) fn pool_set_access(&self, device: DeviceOrdinal, accessible: bool) -> Result<()> {
        let pool = self.default_pool()?;
        // SAFETY: the pool lives as long as the device. The simulator checks accesses; on a GPU no
        // kernel accesses the memory after access is withdrawn.
        unsafe { self.driver.pool_set_access(pool, device, accessible) }
    }

    /// Enqueues a copy from memory of another device to memory of this one.
    pub(crate) fn copy_from(
        &self,
        target: DevicePtr,
        other: &Self,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let copy = PeerCopy {
            target,
            target_context: self.context,
            source,
            source_context: other.context,
            bytes,
        };
        self.copy_peer_async(&copy, stream)
    }

    pub(crate) fn keep_pool_bytes(&self, bytes: u64) -> Result<()> {
        let pool = self.default_pool()?;
        // SAFETY: the pool lives as long as the device.
        unsafe { self.driver.pool_set_release_threshold(pool, bytes) }
    }

    pub(crate) fn trim(&self, keep_bytes: usize) -> Result<()> {
        let pool = self.default_pool()?;
        // SAFETY: the pool lives as long as the device.
        unsafe { self.driver.pool_trim(pool, keep_bytes) }
    }

    pub(crate) fn pool_usage(&self) -> Result<PoolUsage> {
        let pool = self.default_pool()?;
        // SAFETY: the pool lives as long as the device.
        unsafe { self.driver.pool_usage(pool) }
    }
}
