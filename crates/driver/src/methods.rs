//! The table of the driver's methods: documentation, signature, and the function of CUDA.
//!
//! The table is the only statement of a method's signature. From it come the trait
//! [`Driver`](crate::Driver), the calls of libcuda, the simulated device's calls, and drivers that
//! wrap another driver or do nothing. A new driver call is a row here, one in
//! `cuda/functions.rs`, and a method of the simulated device.

/// Applies the macro `$with` to the fallible methods of [`Driver`](crate::Driver).
///
/// Each row has the documentation of a method and reads
/// `[safety class optional] fn method(argument: Type, …) -> Value = cuFunction { call };`, for a
/// method that returns `Result<Value, DriverError>`:
///
/// - The safety is `safe` or `unsafe`.
/// - The class is `enqueue(stream)` for a method that only enqueues an operation on its argument
///   `stream`, `call` for a method that returns no value and that a driver without a device may
///   leave empty, and `value` for any other.
/// - A method marked `optional` returns `NOT_SUPPORTED` unless a driver implements it.
/// - `cuFunction` is the function of CUDA that errors name, and `call` its arguments, empty if the
///   implementation for libcuda is more than one call.
///
/// The types of the rows are names of this crate, so a program that uses the signatures imports
/// them: `use millstream_driver::*;`.
///
/// ```
/// use millstream_driver::driver_methods;
///
/// macro_rules! names {
///     ($($(#[$doc:meta])* [$($class:tt)*] fn $name:ident($($arguments:tt)*) -> $value:ty
///        = $function:ident $call:tt;)*) => {
///         &[$((stringify!($name), stringify!($function))),*]
///     };
/// }
/// let names: &[(&str, &str)] = driver_methods!(names);
/// assert!(names.contains(&("launch_kernel", "cuLaunchKernel")));
/// ```
#[macro_export]
macro_rules! driver_methods {
    ($with:ident) => { $with! {
        /// Makes the context current on the calling thread (`cuCtxSetCurrent`), for functions of
        /// other libraries, such as cuBLAS, that work in the current context. A null handle leaves
        /// the thread without a current context. The methods of this trait do not need this call.
        /// [`CurrentContext`] restores the previous context afterwards.
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] unless the driver is libcuda: other libraries accept only
        /// libcuda's contexts.
        ///
        /// # Safety
        ///
        /// `context` is alive, or null.
        [unsafe value optional] fn make_current(context: ContextHandle) -> ()
            = cuCtxSetCurrent { (context) };

        /// Returns the context that is current on the calling thread (`cuCtxGetCurrent`), or a null
        /// handle if there is none.
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] unless the driver is libcuda.
        [safe value optional] fn current_context() -> ContextHandle
            = cuCtxGetCurrent { out(context) (&mut context) };

        /// Returns the CUDA version that the driver supports, 1000 × major + 10 × minor
        /// (`cuDriverGetVersion`).
        [safe value] fn driver_version() -> i32
            = cuDriverGetVersion {};

        /// Returns the number of devices (`cuDeviceGetCount`).
        [safe value] fn device_count() -> i32
            = cuDeviceGetCount { out(count) (&mut count) };

        /// Returns the device's name (`cuDeviceGetName`).
        [safe value] fn device_name(device: DeviceOrdinal) -> String
            = cuDeviceGetName {};

        /// Returns the device's 16-byte UUID, which `nvidia-smi -L` prints too (`cuDeviceGetUuid`).
        [safe value] fn device_uuid(device: DeviceOrdinal) -> [u8; 16]
            = cuDeviceGetUuid {};

        /// Returns the device's total memory in bytes (`cuDeviceTotalMem`).
        [safe value] fn device_total_bytes(device: DeviceOrdinal) -> u64
            = cuDeviceTotalMem {};

        /// Returns the value of a device attribute (`cuDeviceGetAttribute`).
        [safe value] fn device_attribute(device: DeviceOrdinal, attribute: DeviceAttribute) -> i32
            = cuDeviceGetAttribute {
                device(device) out(value) (&mut value, attribute.as_raw(), device)
            };

        /// Returns the device's PCI address, `domain:bus:device.function` in hexadecimal
        /// (`cuDeviceGetPCIBusId`).
        [safe value] fn device_pci_bus_id(device: DeviceOrdinal) -> String
            = cuDeviceGetPCIBusId {};

        /// Returns whether contexts of `device` can be given access to memory of `peer`
        /// (`cuDeviceCanAccessPeer`). False for a device and itself.
        [safe value] fn device_can_access_peer(device: DeviceOrdinal, peer: DeviceOrdinal) -> bool
            = cuDeviceCanAccessPeer {};

        /// Returns the value of an attribute of the link by which `from` accesses memory of `to`
        /// (`cuDeviceGetP2PAttribute`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_DEVICE`] if both are the same device,
        /// [`ResultCode::INVALID_VALUE`] for an attribute that the driver does not know.
        [safe value] fn device_p2p_attribute(
            attribute: P2pAttribute, from: DeviceOrdinal, to: DeviceOrdinal
        ) -> i32
            = cuDeviceGetP2PAttribute {
                device(from) device(to) out(value) (&mut value, attribute.as_raw(), from, to)
            };

        /// Retains the device's primary context and creates it if necessary
        /// (`cuDevicePrimaryCtxRetain`).
        [safe value] fn primary_context_retain(device: DeviceOrdinal) -> ContextHandle
            = cuDevicePrimaryCtxRetain { device(device) out(context) (&mut context, device) };

        /// Releases one reference to the device's primary context (`cuDevicePrimaryCtxRelease`).
        /// Releasing the last one destroys the context.
        ///
        /// # Safety
        ///
        /// The caller holds a reference. After the last one is released, no handle of the context
        /// is used again.
        [unsafe call] fn primary_context_release(device: DeviceOrdinal) -> ()
            = cuDevicePrimaryCtxRelease { device(device) (device) };

        /// Waits until all work of the context is complete (`cuCtxSynchronize`).
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe call] fn context_synchronize(context: ContextHandle) -> ()
            = cuCtxSynchronize { enter(context) () };

        /// Lets `context` access the memory that the context `peer` allocates, now and later,
        /// except for pool memory (`cuCtxEnablePeerAccess`): a pool has access rights of its own,
        /// which [`pool_set_access`](Self::pool_set_access) sets (rule 38). The access is
        /// one-directional (rule 39) and lasts until either context is destroyed. Takes
        /// milliseconds.
        ///
        /// # Errors
        ///
        /// [`ResultCode::PEER_ACCESS_ALREADY_ENABLED`] if this call was made before (rule 39),
        /// [`ResultCode::PEER_ACCESS_UNSUPPORTED`] if
        /// [`device_can_access_peer`](Self::device_can_access_peer) is false, or both contexts are
        /// the same, [`ResultCode::TOO_MANY_PEERS`] beyond the number of peers that the device
        /// supports.
        ///
        /// # Safety
        ///
        /// `context` and `peer` are alive.
        [unsafe call] fn context_enable_peer_access(
            context: ContextHandle, peer: ContextHandle
        ) -> ()
            = cuCtxEnablePeerAccess { enter(context) (peer, 0) };

        /// Returns the range of stream priorities in the context (`cuCtxGetStreamPriorityRange`).
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn stream_priority_range(context: ContextHandle) -> PriorityRange
            = cuCtxGetStreamPriorityRange {};

        /// Creates a stream (`cuStreamCreateWithPriority`). A non-blocking stream is exempt from
        /// the barriers that every operation on the legacy default stream puts between blocking
        /// streams (rules 17 and 18). A priority outside the range is clamped.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn stream_create(
            context: ContextHandle, non_blocking: bool, priority: i32
        ) -> StreamHandle
            = cuStreamCreateWithPriority {
                enter(context) out(stream) (&mut stream, stream_flags(non_blocking), priority)
            };

        /// Destroys the stream (`cuStreamDestroy`). Returns at once; work already enqueued
        /// completes (rule 21).
        ///
        /// # Safety
        ///
        /// `stream` is alive, belongs to `context`, and is not used again.
        [unsafe call] fn stream_destroy(context: ContextHandle, stream: StreamHandle) -> ()
            = cuStreamDestroy { (stream) };

        /// Returns whether all work enqueued on the stream so far is complete (`cuStreamQuery`).
        /// Never blocks.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`.
        [unsafe value] fn stream_query(context: ContextHandle, stream: StreamHandle) -> Completion
            = cuStreamQuery { enter_for(context, stream) poll (stream) };

        /// Returns the context to which a stream belongs (`cuStreamGetCtx`).
        ///
        /// # Safety
        ///
        /// `stream` is alive, and is not a default stream, whose context is the current one.
        [unsafe value] fn stream_context(stream: StreamHandle) -> ContextHandle
            = cuStreamGetCtx { out(context) (stream, &mut context) };

        /// Waits until all work enqueued on the stream so far is complete (`cuStreamSynchronize`).
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`.
        [unsafe call] fn stream_synchronize(context: ContextHandle, stream: StreamHandle) -> ()
            = cuStreamSynchronize { enter_for(context, stream) (stream) };

        /// Makes later work of the stream wait, on the device, for the work that `event` captured
        /// when it was last recorded before this call (`cuStreamWaitEvent`, rules 22 to 24). The
        /// event may belong to another context (rule 26). Never blocks the host.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`; `event` is alive.
        [unsafe call] fn stream_wait_event(
            context: ContextHandle, stream: StreamHandle, event: EventHandle
        ) -> ()
            = cuStreamWaitEvent {
                enter_for(context, stream) (stream, event, api::EVENT_WAIT_DEFAULT)
            };

        /// Creates an event (`cuEventCreate`).
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn event_create(context: ContextHandle, kind: EventKind) -> EventHandle
            = cuEventCreate { enter(context) out(event) (&mut event, event_flags(kind)) };

        /// Destroys the event (`cuEventDestroy`), which is allowed while the event is pending (rule
        /// 25).
        ///
        /// # Safety
        ///
        /// `event` is alive and is not used again.
        [unsafe value] fn event_destroy(context: ContextHandle, event: EventHandle) -> ()
            = cuEventDestroy { (event) };

        /// Records the event: captures all work enqueued on the stream so far and replaces what the
        /// event captured before (`cuEventRecord`, rules 22 and 23). An event cannot be recorded on
        /// a stream of another context (rule 26).
        ///
        /// # Safety
        ///
        /// `event` and `stream` are alive and belong to `context`.
        [unsafe value] fn event_record(
            context: ContextHandle, event: EventHandle, stream: StreamHandle
        ) -> ()
            = cuEventRecord { enter_for(context, stream) (event, stream) };

        /// Returns whether the work that the event captured is complete, which also holds for an
        /// event that was never recorded (`cuEventQuery`, rule 22). Never blocks.
        ///
        /// # Safety
        ///
        /// `event` is alive.
        [unsafe value] fn event_query(context: ContextHandle, event: EventHandle) -> Completion
            = cuEventQuery { poll (event) };

        /// Waits until the work that the event captured is complete (`cuEventSynchronize`).
        ///
        /// # Safety
        ///
        /// `event` is alive.
        [unsafe call] fn event_synchronize(context: ContextHandle, event: EventHandle) -> ()
            = cuEventSynchronize { (event) };

        /// Returns the milliseconds between two events (`cuEventElapsedTime`). Both must be of
        /// [`EventKind::Timing`] and complete.
        ///
        /// # Safety
        ///
        /// Both events are alive.
        [unsafe value] fn event_elapsed_ms(
            context: ContextHandle, start: EventHandle, end: EventHandle
        ) -> f32
            = cuEventElapsedTime { out(milliseconds) (&mut milliseconds, start, end) };

        /// Returns the free and the total memory of the context's device in bytes (`cuMemGetInfo`).
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn mem_info(context: ContextHandle) -> (u64, u64)
            = cuMemGetInfo {};

        /// Returns the allocation that contains the address, or `None` if the driver knows of none
        /// (`cuPointerGetAttributes`).
        [safe value] fn pointer_info(pointer: DevicePtr) -> Option<PointerInfo>
            = cuPointerGetAttributes {};

        /// Allocates device memory that every stream may use at once (`cuMemAlloc`). The contents
        /// are undefined. The address is a multiple of [`ALLOCATION_ALIGNMENT`], as are the
        /// addresses that the other allocation methods return.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn mem_alloc(context: ContextHandle, bytes: usize) -> DevicePtr
            = cuMemAlloc { enter(context) out(pointer) (&mut pointer, bytes) };

        /// Allocates managed memory, which the host and every device access at the same address
        /// (`cuMemAllocManaged` with global attachment, rule 49). The contents are undefined. The
        /// host obtains its pointer from the address by
        /// [`with_exposed_provenance_mut`](std::ptr::with_exposed_provenance_mut). The address is a
        /// multiple of [`ALLOCATION_ALIGNMENT`].
        ///
        /// Where [`CONCURRENT_MANAGED_ACCESS`](DeviceAttribute::CONCURRENT_MANAGED_ACCESS) is 0,
        /// the host must not access any managed memory while a kernel runs (rule 50).
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] where [`MANAGED_MEMORY`](DeviceAttribute::MANAGED_MEMORY)
        /// is 0.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn mem_alloc_managed(context: ContextHandle, bytes: usize) -> DevicePtr
            = cuMemAllocManaged {
                enter(context) out(pointer) (&mut pointer, bytes, api::MEM_ATTACH_GLOBAL)
            };

        /// Enqueues the migration of managed memory to `location` (`cuMemPrefetchAsync`). A
        /// prefetch changes no value (rule 51).
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] if the driver has no such function,
        /// [`ResultCode::INVALID_DEVICE`] for a device whose
        /// [`CONCURRENT_MANAGED_ACCESS`](DeviceAttribute::CONCURRENT_MANAGED_ACCESS) is 0,
        /// [`ResultCode::INVALID_VALUE`] for memory that is not managed.
        ///
        /// # Safety
        ///
        /// The range, of at least one byte, lies in one managed allocation that lives until the
        /// prefetch is done. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn mem_prefetch_async(
            context: ContextHandle, pointer: DevicePtr, bytes: usize, location: ManagedLocation,
            stream: StreamHandle
        ) -> ()
            = cuMemPrefetchAsync {};

        /// Advises the driver of the future use of managed memory (`cuMemAdvise`). The advice takes
        /// effect during the call, outside stream order, and changes no value (rule 51).
        ///
        /// # Errors
        ///
        /// As [`mem_prefetch_async`](Self::mem_prefetch_async).
        ///
        /// # Safety
        ///
        /// `context` is alive; the range, of at least one byte, lies in one live managed
        /// allocation.
        [unsafe call] fn mem_advise(
            context: ContextHandle, pointer: DevicePtr, bytes: usize, advice: ManagedAdvice,
            location: ManagedLocation
        ) -> ()
            = cuMemAdvise {};

        /// Frees memory of [`mem_alloc`](Self::mem_alloc),
        /// [`mem_alloc_managed`](Self::mem_alloc_managed) or
        /// [`mem_alloc_async`](Self::mem_alloc_async) (`cuMemFree`; both allocators accept both
        /// ways to free, rule 33). The host waits until the device is idle (rule 30).
        ///
        /// # Safety
        ///
        /// `pointer` is a live allocation's start, and no later operation uses the allocation.
        [unsafe call] fn mem_free(context: ContextHandle, pointer: DevicePtr) -> ()
            = cuMemFree { enter(context) (pointer) };

        /// Allocates from the default pool of the stream's device, in stream order
        /// (`cuMemAllocAsync`). The address is known at once, but only work ordered after this
        /// point of the stream may access the memory (rule 32). The stream alone decides on which
        /// device the memory lies (rule 31).
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`.
        [unsafe value] fn mem_alloc_async(
            context: ContextHandle, bytes: usize, stream: StreamHandle
        ) -> DevicePtr
            = cuMemAllocAsync {
                enter_for(context, stream) out(pointer) (&mut pointer, bytes, stream)
            };

        /// Frees in stream order (`cuMemFreeAsync`), also memory of [`mem_alloc`](Self::mem_alloc)
        /// (rule 33). The free must be ordered after every use (rule 32). Never blocks.
        ///
        /// # Safety
        ///
        /// `pointer` is a live allocation's start; every use of it is ordered before this point of
        /// the stream; no operation enqueued later, on any stream, uses it. `stream` is alive and
        /// belongs to `context`.
        [unsafe enqueue(stream)] fn mem_free_async(
            context: ContextHandle, pointer: DevicePtr, stream: StreamHandle
        ) -> ()
            = cuMemFreeAsync { enter_for(context, stream) (pointer, stream) };

        /// Returns the device's default pool (`cuDeviceGetDefaultMemPool`).
        [safe value] fn default_pool(device: DeviceOrdinal) -> PoolHandle
            = cuDeviceGetDefaultMemPool { device(device) out(pool) (&mut pool, device) };

        /// Sets the number of bytes that a pool keeps reserved when it returns freed memory to the
        /// system at the next synchronisation (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`, rule 36).
        ///
        /// # Safety
        ///
        /// `pool` is alive.
        [unsafe call] fn pool_set_release_threshold(pool: PoolHandle, bytes: u64) -> ()
            = cuMemPoolSetAttribute {};

        /// Sets whether `device` may read and write the pool's memory, which already allocated
        /// memory is part of (`cuMemPoolSetAccess` with one descriptor, rule 38). Concerns kernels
        /// of that device and the path that peer copies take. Takes milliseconds.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_DEVICE`] if
        /// [`device_can_access_peer`](Self::device_can_access_peer) is false for `device` and the
        /// pool's device. The access of the pool's own device cannot be withdrawn.
        ///
        /// # Safety
        ///
        /// `pool` is alive. If access is withdrawn, no kernel of `device` that is enqueued or will
        /// be enqueued accesses the pool's memory.
        [unsafe call] fn pool_set_access(
            pool: PoolHandle, device: DeviceOrdinal, accessible: bool
        ) -> ()
            = cuMemPoolSetAccess {};

        /// Returns unused memory to the system until at most `keep_bytes` are reserved
        /// (`cuMemPoolTrimTo`). Memory whose free is not yet complete is skipped (rule 36).
        ///
        /// # Safety
        ///
        /// `pool` is alive.
        [unsafe call] fn pool_trim(pool: PoolHandle, keep_bytes: usize) -> ()
            = cuMemPoolTrimTo { (pool, keep_bytes) };

        /// Returns the pool's memory statistics (`cuMemPoolGetAttribute`).
        ///
        /// # Safety
        ///
        /// `pool` is alive.
        [unsafe value] fn pool_usage(pool: PoolHandle) -> PoolUsage
            = cuMemPoolGetAttribute {};

        /// Allocates page-locked host memory that every context can use (`cuMemHostAlloc`,
        /// portable). Host and device share the address, a multiple of [`ALLOCATION_ALIGNMENT`].
        /// The contents are undefined.
        ///
        /// # Safety
        ///
        /// `context` is alive; `bytes` is not 0.
        [unsafe value] fn host_alloc(context: ContextHandle, bytes: usize) -> std::ptr::NonNull<u8>
            = cuMemHostAlloc {};

        /// Frees page-locked host memory (`cuMemFreeHost`). The host waits until the device is idle
        /// (rule 30).
        ///
        /// # Safety
        ///
        /// `pointer` came from [`host_alloc`](Self::host_alloc), is not freed yet, and no later
        /// operation uses it.
        [unsafe call] fn host_free(context: ContextHandle, pointer: std::ptr::NonNull<u8>) -> ()
            = cuMemFreeHost { enter(context) (pointer.as_ptr().cast()) };

        /// Page-locks existing host memory (`cuMemHostRegister`, portable).
        ///
        /// # Safety
        ///
        /// The range is valid host memory until it is unregistered.
        [unsafe call] fn host_register(
            context: ContextHandle, pointer: std::ptr::NonNull<u8>, bytes: usize
        ) -> ()
            = cuMemHostRegister {
                enter(context) (pointer.as_ptr().cast(), bytes, api::MEMHOSTREGISTER_PORTABLE)
            };

        /// Unregisters memory of [`host_register`](Self::host_register) (`cuMemHostUnregister`).
        /// The host waits until the device is idle (rule 30).
        ///
        /// # Safety
        ///
        /// `pointer` is the start of a registered range that no later operation uses.
        [unsafe call] fn host_unregister(
            context: ContextHandle, pointer: std::ptr::NonNull<u8>
        ) -> ()
            = cuMemHostUnregister { enter(context) (pointer.as_ptr().cast()) };

        /// Copies from host to device on the legacy default stream (`cuMemcpyHtoD`). From
        /// page-locked memory it returns when the copy is complete (rule 2). From pageable memory
        /// it may return when the source has been read (rule 1), and so may any copy of at most 64
        /// KiB (rule 6).
        ///
        /// # Safety
        ///
        /// `source` is readable and `target` writable for `bytes`. Until the copy is complete,
        /// nothing else writes the source or accesses the target; with a pageable source that may
        /// be after the call returns.
        [unsafe call] fn copy_host_to_device(
            context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize
        ) -> ()
            = cuMemcpyHtoD { enter(context) (target, source.cast(), bytes) };

        /// Copies from device to host on the legacy default stream (`cuMemcpyDtoH`). The copy is
        /// complete on return (rule 3).
        ///
        /// # Safety
        ///
        /// As for [`copy_host_to_device`](Self::copy_host_to_device), with source and target
        /// exchanged.
        [unsafe call] fn copy_device_to_host(
            context: ContextHandle, target: *mut u8, source: DevicePtr, bytes: usize
        ) -> ()
            = cuMemcpyDtoH { enter(context) (target.cast(), source, bytes) };

        /// Copies within the device on the legacy default stream (`cuMemcpyDtoD`). May return
        /// before the copy is complete (rule 4).
        ///
        /// # Safety
        ///
        /// Both ranges are live and do not overlap. Every operation that writes the source or
        /// accesses the target is ordered with the copy.
        [unsafe call] fn copy_device_to_device(
            context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize
        ) -> ()
            = cuMemcpyDtoD { enter(context) (target, source, bytes) };

        /// Copies between two addresses of the unified address space, host or device, on the legacy
        /// default stream (`cuMemcpy`). A copy from host to host is fully synchronous (rule 5); any
        /// other behaves as the method for its direction.
        ///
        /// # Safety
        ///
        /// As for the method of the same direction.
        [unsafe call] fn copy_unified(
            context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize
        ) -> ()
            = cuMemcpy { enter(context) (target, source, bytes) };

        /// Enqueues a copy from host to device that has read its source, page-locked or not, before
        /// the call returns (`cuMemcpyBatchAsync` of one copy with the source access order *during
        /// API call*, rule 14).
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] with a driver older than CUDA 12.8.
        ///
        /// # Safety
        ///
        /// `source` is readable for `bytes` during the call. `target` is writable for `bytes`, and
        /// work that accesses it is ordered with the copy. `stream` is alive, belongs to `context`,
        /// and is not the legacy default stream.
        [unsafe enqueue(stream)] fn copy_captured_async(
            context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemcpyBatchAsync {};

        /// Enqueues a copy from host to device (`cuMemcpyHtoDAsync`). A page-locked source is read
        /// when the copy runs (rule 7). A pageable source may be read during the call, out of
        /// stream order (rule 10); the driver stages it, and the call may block meanwhile (rule 8).
        ///
        /// # Safety
        ///
        /// `source` is readable for `bytes` and not written until the copy is complete. `target` is
        /// writable for `bytes`. Work that accesses either is ordered with the copy. `stream` is
        /// alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_host_to_device_async(
            context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemcpyHtoDAsync { enter(context) (target, source.cast(), bytes, stream) };

        /// Enqueues a copy from device to host (`cuMemcpyDtoHAsync`). A page-locked target is
        /// written when the copy runs (rule 7). With a pageable target the call may or may not
        /// block until the copy is complete, and callers must allow for both (rule 9).
        ///
        /// # Safety
        ///
        /// `target` is writable for `bytes` and not accessed until the copy is complete. `source`
        /// is readable for `bytes`. Work that accesses either is ordered with the copy. `stream` is
        /// alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_device_to_host_async(
            context: ContextHandle, target: *mut u8, source: DevicePtr, bytes: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemcpyDtoHAsync { enter(context) (target.cast(), source, bytes, stream) };

        /// Enqueues a copy within the device (`cuMemcpyDtoDAsync`).
        ///
        /// # Safety
        ///
        /// Both ranges are live for `bytes` and do not overlap. Work that accesses either is
        /// ordered with the copy. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_device_to_device_async(
            context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemcpyDtoDAsync { enter(context) (target, source, bytes, stream) };

        /// Enqueues a copy between two addresses of the unified address space, host or device
        /// (`cuMemcpyAsync`). A copy from host to host is synchronous (rule 11).
        ///
        /// # Safety
        ///
        /// As for the method of the same direction.
        [unsafe enqueue(stream)] fn copy_unified_async(
            context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemcpyAsync { enter(context) (target, source, bytes, stream) };

        /// Enqueues a two-dimensional copy as a single operation (`cuMemcpy2DAsync`, rule 52).
        /// Either side follows the rules of a plain copy: a page-locked side is accessed when the
        /// copy runs (rule 7), with a pageable side the call may block (rules 8 to 10), and a copy
        /// from host to host is synchronous (rule 11). A copy of no bytes enqueues nothing.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a pitch shorter than the width or longer than
        /// [`MAX_PITCH`](DeviceAttribute::MAX_PITCH).
        ///
        /// # Safety
        ///
        /// Every row of the source is readable, every row of the target is writable, and no source
        /// row overlaps a target row. Until the copy is complete, a host source is not written and
        /// a host target is not accessed. Work that accesses the rows is ordered with the copy.
        /// Bytes between rows are not accessed. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_2d_async(
            context: ContextHandle, copy: &Copy2d, stream: StreamHandle
        ) -> ()
            = cuMemcpy2DAsync { unless_empty(copy) enter(context) (&memcpy_2d(copy), stream) };

        /// Creates an array in device memory (`cuArray3DCreate`). The contents are undefined.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a shape that the device cannot have.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value optional] fn array_create(
            context: ContextHandle, shape: &ArrayDescriptor
        ) -> ArrayHandle
            = cuArray3DCreate { enter(context) out(array) (&mut array, shape) };

        /// Destroys an array (`cuArrayDestroy`). The host waits until the device is idle (rule 30).
        ///
        /// # Safety
        ///
        /// `array` is alive, belongs to `context`, and no later operation uses it.
        [unsafe value optional] fn array_destroy(context: ContextHandle, array: ArrayHandle) -> ()
            = cuArrayDestroy { enter(context) (array) };

        /// Creates a texture (`cuTexObjectCreate`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a resource or a mode that the device cannot have.
        ///
        /// # Safety
        ///
        /// `context` and the memory of `resource` are alive.
        [unsafe value optional] fn texture_create(
            context: ContextHandle, resource: &ResourceDescriptor, mode: &TextureDescriptor
        ) -> TextureHandle
            = cuTexObjectCreate {
                enter(context) out(texture) (&mut texture, resource, mode, ptr::null())
            };

        /// Destroys a texture (`cuTexObjectDestroy`), but not the memory behind it.
        ///
        /// # Safety
        ///
        /// `texture` is alive, belongs to `context`, and no operation that is not complete, or is
        /// enqueued later, uses it.
        [unsafe value optional] fn texture_destroy(
            context: ContextHandle, texture: TextureHandle
        ) -> ()
            = cuTexObjectDestroy { enter(context) (texture) };

        /// Creates a surface of an array that allows it (`cuSurfObjectCreate`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for an array without the flag for surfaces.
        ///
        /// # Safety
        ///
        /// `context` and the array of `resource` are alive.
        [unsafe value optional] fn surface_create(
            context: ContextHandle, resource: &ResourceDescriptor
        ) -> SurfaceHandle
            = cuSurfObjectCreate { enter(context) out(surface) (&mut surface, resource) };

        /// Destroys a surface (`cuSurfObjectDestroy`), but not its array.
        ///
        /// # Safety
        ///
        /// As for [`texture_destroy`](Self::texture_destroy).
        [unsafe value optional] fn surface_destroy(
            context: ContextHandle, surface: SurfaceHandle
        ) -> ()
            = cuSurfObjectDestroy { enter(context) (surface) };

        /// Enqueues a three-dimensional copy (`cuMemcpy3DAsync`). Either side follows the rules of
        /// a plain copy, as in [`copy_2d_async`](Self::copy_2d_async). A copy of no bytes enqueues
        /// nothing.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a box that an array does not contain, and for a pitch
        /// or a height that is too small.
        ///
        /// # Safety
        ///
        /// As for [`copy_2d_async`](Self::copy_2d_async); arrays are alive.
        [unsafe enqueue(stream) optional] fn copy_3d_async(
            context: ContextHandle, copy: &Copy3d, stream: StreamHandle
        ) -> ()
            = cuMemcpy3DAsync { unless_empty(copy) enter(context) (&memcpy_box(copy), stream) };

        /// Enqueues a copy between the memory of two contexts, usually of two devices
        /// (`cuMemcpyPeerAsync`). Never blocks the host. It needs no peer access: without access to
        /// the other device's memory, which for pool memory is that of
        /// [`pool_set_access`](Self::pool_set_access) (rule 38), the driver stages the bytes in
        /// host memory, at a fraction of the link's bandwidth.
        ///
        /// The copy is an operation of `stream` alone: streams of the other device are ordered with
        /// it by events (rule 26).
        ///
        /// # Safety
        ///
        /// `target` is writable and `source` readable for `bytes`; each belongs to the context that
        /// `copy` names, and both contexts are alive. The ranges do not overlap. Work that accesses
        /// either range is ordered with the copy. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_peer_async(
            context: ContextHandle, copy: &PeerCopy, stream: StreamHandle
        ) -> ()
            = cuMemcpyPeerAsync {
                enter(context) (
                    copy.target, copy.target_context, copy.source, copy.source_context, copy.bytes,
                    stream
                )
            };

        /// Enqueues a two-dimensional copy between the memory of two contexts as a single operation
        /// (`cuMemcpy3DPeerAsync` of depth 1). Otherwise as
        /// [`copy_peer_async`](Self::copy_peer_async). A copy of no bytes enqueues nothing.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a pitch shorter than a row or longer than
        /// [`MAX_PITCH`](DeviceAttribute::MAX_PITCH).
        ///
        /// # Safety
        ///
        /// Every row of the source is readable, every row of the target is writable, and no source
        /// row overlaps a target row; each side belongs to the context that `copy` names, and both
        /// contexts are alive. Work that accesses the rows is ordered with the copy. Bytes between
        /// rows are not accessed. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn copy_peer_2d_async(
            context: ContextHandle, copy: &PeerCopy2d, stream: StreamHandle
        ) -> ()
            = cuMemcpy3DPeerAsync {
                unless_empty(copy) enter(context) (&memcpy_3d_peer(copy), stream)
            };

        /// Enqueues a fill of `count` elements (`cuMemsetD8Async` and its wider forms). With a
        /// page-locked or managed target the call may block (rule 12).
        ///
        /// # Safety
        ///
        /// `target` is live for `count` elements and aligned to the element size. Work that
        /// accesses it is ordered with the fill. `stream` is alive and belongs to `context`.
        [unsafe enqueue(stream)] fn memset_async(
            context: ContextHandle, target: DevicePtr, pattern: FillPattern, count: usize,
            stream: StreamHandle
        ) -> ()
            = cuMemsetD8Async {};

        /// Loads a module from PTX text (`cuModuleLoadDataEx`). The text need not end in a zero
        /// byte.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_PTX`] or [`ResultCode::INVALID_IMAGE`] for a binary image, for any
        /// other bytes that are not PTX text, and for text with a zero byte inside. For PTX that
        /// does not compile, the detail is the compiler's log: line, opcode, reason.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn module_load(context: ContextHandle, ptx: &[u8]) -> ModuleHandle
            = cuModuleLoadDataEx {};

        /// Loads a module from a binary image, a cubin or a fat binary (`cuModuleLoadData`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::NO_BINARY_FOR_GPU`] if the image has no code for the device,
        /// [`ResultCode::INVALID_IMAGE`] for bytes that are neither an ELF file nor a fat binary,
        /// [`ResultCode::NOT_SUPPORTED`] from a driver that runs PTX only.
        ///
        /// # Safety
        ///
        /// `context` is alive. The image is a complete, intact output of NVIDIA's tools: its own
        /// headers say how far the driver reads, and nothing checks the code in it.
        [unsafe value optional] fn module_load_binary(
            context: ContextHandle, image: &[u8]
        ) -> ModuleHandle
            = cuModuleLoadData {};

        /// Unloads a module (`cuModuleUnload`).
        ///
        /// # Safety
        ///
        /// `module` is alive, no kernel of it is running or enqueued, and no handle of it is used
        /// again.
        [unsafe call] fn module_unload(context: ContextHandle, module: ModuleHandle) -> ()
            = cuModuleUnload { enter(context) (module) };

        /// Returns a kernel of the module by its name in the PTX (`cuModuleGetFunction`).
        ///
        /// # Safety
        ///
        /// `module` is alive.
        [unsafe value] fn module_function(
            context: ContextHandle, module: ModuleHandle, name: &str
        ) -> FunctionHandle
            = cuModuleGetFunction {};

        /// Returns the address and the size in bytes of a module-scope variable
        /// (`cuModuleGetGlobal`).
        ///
        /// # Safety
        ///
        /// `module` is alive.
        [unsafe value] fn module_global(
            context: ContextHandle, module: ModuleHandle, name: &str
        ) -> (DevicePtr, usize)
            = cuModuleGetGlobal {};

        /// Loads the kernel's code onto the device (`cuFuncLoad`). Otherwise the first launch loads
        /// it and may then wait for running kernels (rule 53). A kernel that was loaded while
        /// others ran may still wait at its first launch.
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] with a driver older than CUDA 12.4.
        ///
        /// # Safety
        ///
        /// `function` is alive and belongs to `context`.
        [unsafe call] fn function_load(context: ContextHandle, function: FunctionHandle) -> ()
            = cuFuncLoad {};

        /// Returns the value of a kernel attribute (`cuFuncGetAttribute`).
        ///
        /// # Safety
        ///
        /// `function` is alive and belongs to `context`.
        [unsafe value] fn function_attribute(
            context: ContextHandle, function: FunctionHandle, attribute: FunctionAttribute
        ) -> i32
            = cuFuncGetAttribute {
                enter(context) out(value) (&mut value, attribute.as_raw(), function)
            };

        /// Sets a kernel attribute for all later launches (`cuFuncSetAttribute`). Of the attributes
        /// named in this crate only
        /// [`MAX_DYNAMIC_SHARED_BYTES`](FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES) can be set; a
        /// launch with more than 48 KiB of shared memory needs it (rule 57).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a value that is out of range, or an attribute that
        /// cannot be set.
        ///
        /// # Safety
        ///
        /// `function` is alive and belongs to `context`.
        [unsafe call] fn function_set_attribute(
            context: ContextHandle, function: FunctionHandle, attribute: FunctionAttribute,
            value: i32
        ) -> ()
            = cuFuncSetAttribute { enter(context) (function, attribute.as_raw(), value) };

        /// Enqueues a kernel (`cuLaunchKernel`) without waiting for it (rule 13). The arguments are
        /// copied before the call returns.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a grid or block that the device does not support, and
        /// for more dynamic shared memory than [`FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES`]
        /// allows (rule 57).
        ///
        /// # Safety
        ///
        /// `params` holds one pointer per parameter of the kernel, each to a readable value of that
        /// parameter's size and alignment. All memory that the kernel accesses is live, and work
        /// that accesses the same memory is ordered with the launch. `stream` and `function` are
        /// alive and belong to `context`.
        [unsafe enqueue(stream)] fn launch_kernel(
            context: ContextHandle, function: FunctionHandle, dims: &LaunchDims,
            stream: StreamHandle, params: &[*const std::ffi::c_void]
        ) -> ()
            = cuLaunchKernel {
                enter_for(context, stream) (
                    function, dims.grid[0], dims.grid[1], dims.grid[2], dims.block[0],
                    dims.block[1], dims.block[2], dims.shared_bytes, stream,
                    params.as_ptr().cast_mut().cast(), ptr::null_mut()
                )
            };

        /// Enqueues a kernel with further attributes (`cuLaunchKernelEx`), otherwise as
        /// [`launch_kernel`](Self::launch_kernel).
        ///
        /// # Errors
        ///
        /// As [`launch_kernel`](Self::launch_kernel). `COOPERATIVE_LAUNCH_TOO_LARGE` for a
        /// cooperative grid whose blocks cannot all be resident at once, `NOT_SUPPORTED` for an
        /// attribute that the driver or the device does not support (see
        /// [`ResultCode`](crate::ResultCode)).
        ///
        /// # Safety
        ///
        /// As [`launch_kernel`](Self::launch_kernel).
        [unsafe enqueue(stream) optional] fn launch_kernel_with(
            context: ContextHandle, function: FunctionHandle, dims: &LaunchDims,
            attributes: &LaunchAttributes, stream: StreamHandle, params: &[*const std::ffi::c_void]
        ) -> ()
            = cuLaunchKernelEx {};

        /// Returns the number of blocks of this size that can be resident on a multiprocessor at
        /// once (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a block without threads.
        ///
        /// # Safety
        ///
        /// `function` is alive and belongs to `context`.
        [unsafe value optional] fn occupancy_blocks(
            context: ContextHandle, function: FunctionHandle, block_threads: u32,
            dynamic_shared_bytes: usize
        ) -> i32
            = cuOccupancyMaxActiveBlocksPerMultiprocessor {
                enter(context) out(blocks) (
                    &mut blocks, function, c_int::try_from(block_threads).unwrap_or(c_int::MAX),
                    dynamic_shared_bytes
                )
            };

        /// Returns the number of threads per block with which most threads of the kernel are
        /// resident, and the number of blocks that fill the device
        /// (`cuOccupancyMaxPotentialBlockSize`).
        ///
        /// # Safety
        ///
        /// `function` is alive and belongs to `context`.
        [unsafe value optional] fn occupancy_block_size(
            context: ContextHandle, function: FunctionHandle, dynamic_shared_bytes: usize
        ) -> BlockSize
            = cuOccupancyMaxPotentialBlockSize {};

        /// Enqueues a host function (`cuLaunchHostFunc`). It runs in stream order on a thread of
        /// the driver, and later work of the stream waits for it (rule 27). After a context error
        /// it is never called, and is leaked (rule 28). A panic in it is caught and dropped.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`. The function does not call the driver.
        [unsafe value] fn launch_host_function(
            context: ContextHandle, stream: StreamHandle, function: HostFunction
        ) -> ()
            = cuLaunchHostFunc {};

        /// Creates an empty graph (`cuGraphCreate`).
        ///
        /// The driver does not synchronise calls that concern one graph or one executable graph: no
        /// two of them may run at the same time, from whatever threads. The methods below require
        /// it.
        ///
        /// # Safety
        ///
        /// `context` is alive.
        [unsafe value] fn graph_create(context: ContextHandle) -> GraphHandle
            = cuGraphCreate { enter(context) out(graph) (&mut graph, 0) };

        /// Destroys a graph and its nodes (`cuGraphDestroy`). Executable graphs made from it, and
        /// other graphs that have a copy of it as a child, remain.
        ///
        /// # Safety
        ///
        /// `graph` is alive, is no body of a conditional node, no stream captures into it, and
        /// neither it nor its nodes are used again.
        [unsafe call] fn graph_destroy(context: ContextHandle, graph: GraphHandle) -> ()
            = cuGraphDestroy { enter(context) (graph) };

        /// Creates a copy of a graph as it is now, with its child graphs (`cuGraphClone`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] for a graph with conditional nodes.
        ///
        /// # Safety
        ///
        /// `graph` is alive.
        [unsafe value] fn graph_clone(context: ContextHandle, graph: GraphHandle) -> GraphHandle
            = cuGraphClone { enter(context) out(copy) (&mut copy, graph) };

        /// Adds a node that runs after `dependencies`, nodes of the same graph, none named twice.
        /// The memory that the node names is a plain address to the driver: nothing keeps it alive
        /// (rule 48).
        ///
        /// The body of a conditional node takes kernels, fills, copies between device memory, empty
        /// nodes, and children made of these.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a dependency that is no node of this graph or is named
        /// twice, a kernel with dimensions that the device does not have, or a copy or a fill whose
        /// parameters are out of range.
        ///
        /// # Safety
        ///
        /// `graph` and the dependencies are alive. What the method that enqueues the node's
        /// operation requires holds from each launch of an executable graph with this node until
        /// that launch has completed. A child graph is alive.
        [unsafe value] fn graph_add_node(
            context: ContextHandle, graph: GraphHandle, dependencies: &[GraphNodeHandle],
            node: &GraphNode<'_>
        ) -> GraphNodeHandle
            = cuGraphAddNode { enter(context) by add_node(context, graph, dependencies, node) };

        /// Adds dependencies between nodes of a graph (`cuGraphAddDependencies`): each pair's
        /// second node runs after its first.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a node of another graph, a node that would run after
        /// itself, or a pair that exists already. A longer cycle is an error of instantiation.
        ///
        /// # Safety
        ///
        /// `graph` and the nodes are alive.
        [unsafe call] fn graph_add_dependencies(
            context: ContextHandle, graph: GraphHandle, pairs: &[(GraphNodeHandle, GraphNodeHandle)]
        ) -> ()
            = cuGraphAddDependencies {};

        /// Creates a condition for one conditional node of the graph
        /// (`cuGraphConditionalHandleCreate`). Each launch of the graph begins with `initial` as
        /// its value.
        ///
        /// A kernel of the graph, or of the conditional node's body, sets it. Its PTX, of at least
        /// ISA version 8.0, declares
        /// `.extern .func cudaGraphSetConditional(.param .b64, .param .b32)` and calls it with the
        /// number of the handle and the value; the driver provides the function.
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] with a driver older than CUDA 12.4.
        ///
        /// # Safety
        ///
        /// `graph` is alive. The condition is the condition of exactly one conditional node by the
        /// time the graph is instantiated.
        [unsafe value] fn graph_condition(
            context: ContextHandle, graph: GraphHandle, initial: u32
        ) -> ConditionHandle
            = cuGraphConditionalHandleCreate {
                enter(context) by create_condition(context, graph, initial)
            };

        /// Adds a conditional node with an empty body (`cuGraphAddNode`). The body sees the writes
        /// of the nodes in front of the conditional node.
        ///
        /// # Errors
        ///
        /// [`ResultCode::NOT_SUPPORTED`] with a driver older than CUDA 12.4.
        ///
        /// # Safety
        ///
        /// `graph` and the dependencies are alive. `condition` was created for this graph, or for
        /// the graph around this body, and no other node has it.
        [unsafe value] fn graph_add_conditional(
            context: ContextHandle, graph: GraphHandle, dependencies: &[GraphNodeHandle],
            condition: ConditionHandle, kind: ConditionalKind
        ) -> ConditionalNode
            = cuGraphAddNode {
                enter(context) by add_conditional(context, graph, dependencies, condition, kind)
            };

        /// Makes an executable graph from the graph as it is now (`cuGraphInstantiateWithParams`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a graph with a cycle. The error may name a
        /// [node](DriverError::graph_node).
        ///
        /// # Safety
        ///
        /// `graph` is alive, and so is every kernel in it until the executable graph is destroyed.
        [unsafe value] fn graph_instantiate(
            context: ContextHandle, graph: GraphHandle
        ) -> GraphExecHandle
            = cuGraphInstantiateWithParams { enter(context) by instantiate(graph) };

        /// Destroys an executable graph (`cuGraphExecDestroy`). Returns at once; launches already
        /// enqueued complete (rule 47).
        ///
        /// # Safety
        ///
        /// `exec` is alive and is not used again.
        [unsafe call] fn graph_exec_destroy(context: ContextHandle, exec: GraphExecHandle) -> ()
            = cuGraphExecDestroy { enter(context) (exec) };

        /// Prepares an executable graph on the device (`cuGraphUpload`), as its first launch does
        /// otherwise.
        ///
        /// # Safety
        ///
        /// `exec` and `stream` are alive and belong to `context`.
        [unsafe enqueue(stream)] fn graph_upload(
            context: ContextHandle, exec: GraphExecHandle, stream: StreamHandle
        ) -> ()
            = cuGraphUpload { enter_for(context, stream) (exec, stream) };

        /// Enqueues the executable graph as one operation of the stream (`cuGraphLaunch`). Its
        /// launches run one after the other, on any streams (rule 46).
        ///
        /// # Safety
        ///
        /// `exec` and `stream` are alive and belong to `context`. What
        /// [`graph_add_node`](Self::graph_add_node) requires of the nodes' operands holds, and work
        /// that accesses the same memory is ordered with the launch.
        [unsafe enqueue(stream)] fn graph_launch(
            context: ContextHandle, exec: GraphExecHandle, stream: StreamHandle
        ) -> ()
            = cuGraphLaunch { enter_for(context, stream) (exec, stream) };

        /// Changes the operation of a node in later launches of an executable graph
        /// (`cuGraphExecKernelNodeSetParams` and its like). Launches already enqueued run as they
        /// were.
        ///
        /// `node` is a node of the graph that `exec` was made from, which keeps its own operation.
        /// A kernel may change its dimensions, its arguments and its function, within the same
        /// context; a copy of one row its addresses and its length, but not its kinds of memory; a
        /// fill everything; a child its nodes' parameters, for a graph of the same topology.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for a node of another graph or another kind, or a change
        /// that is not possible.
        ///
        /// # Safety
        ///
        /// `exec` is alive; the graph it was made from is too, and `node` with it. As for
        /// [`graph_add_node`](Self::graph_add_node).
        [unsafe call] fn graph_exec_set_node(
            context: ContextHandle, exec: GraphExecHandle, node: GraphNodeHandle,
            operation: &GraphNode<'_>
        ) -> ()
            = cuGraphExecNodeSetParams {
                enter(context) by set_node(context, exec, node, operation)
            };

        /// Changes the operation of a node of a graph (`cuGraphKernelNodeSetParams` and its like).
        /// Executable graphs made from it are unchanged:
        /// [`graph_exec_update`](Self::graph_exec_update) with the graph changes them, for one call
        /// instead of one for each node.
        ///
        /// A kernel may change its dimensions, its arguments and its function, and keeps its
        /// attributes; a copy and a fill may change everything but the context that runs them.
        ///
        /// # Errors
        ///
        /// [`ResultCode::INVALID_VALUE`] for an operation of another kind, and for an empty node or
        /// a child.
        ///
        /// # Safety
        ///
        /// `graph` is alive, and `node` is a node of it. As for
        /// [`graph_add_node`](Self::graph_add_node).
        [unsafe call] fn graph_set_node(
            context: ContextHandle, graph: GraphHandle, node: GraphNodeHandle,
            operation: &GraphNode<'_>
        ) -> ()
            = cuGraphNodeSetParams { enter(context) by set_template_node(graph, node, operation) };

        /// Returns the kernels of a graph, each behind those that it depends on (`cuGraphGetNodes`,
        /// `cuGraphKernelNodeGetParams`). Kernel nodes made of them, one after the other, do what
        /// the graph does. `None` if the graph has another node, if a dependency is not the
        /// ordinary one, or if the driver does not tell the sizes of a kernel's arguments (older
        /// than CUDA 12.4).
        ///
        /// # Errors
        ///
        /// An error of the driver, as after a device failure.
        ///
        /// # Safety
        ///
        /// `graph` is alive.
        [unsafe value] fn graph_kernels(
            context: ContextHandle, graph: GraphHandle
        ) -> Option<Vec<GraphKernel>>
            = cuGraphGetNodes { enter(context) by kernels_of(context, graph) };

        /// Changes later launches of an executable graph to those of a graph with the same topology
        /// (`cuGraphExecUpdate`): nodes and dependencies were added to `graph` in the same order as
        /// to the graph that `exec` was made from. Neither has conditional nodes. Launches already
        /// enqueued run as they were.
        ///
        /// # Errors
        ///
        /// [`ResultCode::GRAPH_EXEC_UPDATE_FAILURE`] if the two differ in more than parameters. The
        /// error says in what, and may name a [node](DriverError::graph_node) of `graph`; the
        /// executable graph is then unchanged, or, for parameters that cannot change, changed in
        /// part: it is to be made again.
        ///
        /// # Safety
        ///
        /// `exec` and `graph` are alive. As for [`graph_add_node`](Self::graph_add_node).
        [unsafe call] fn graph_exec_update(
            context: ContextHandle, exec: GraphExecHandle, graph: GraphHandle
        ) -> ()
            = cuGraphExecUpdate { enter(context) by update_exec(exec, graph) };

        /// Begins to capture a stream (`cuStreamBeginCapture`): until the capture ends, each
        /// operation enqueued on the stream becomes a node of a new graph and does not run. A
        /// stream that waits for an event recorded in a capturing stream joins the capture (rule
        /// 41). What may not be called meanwhile: rules 40 to 44.
        ///
        /// # Errors
        ///
        /// [`ResultCode::STREAM_CAPTURE_UNSUPPORTED`] for the legacy default stream (rule 40),
        /// [`ResultCode::ILLEGAL_STATE`] for a stream that captures already.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`. Of the operations enqueued until the capture
        /// ends, the requirements are those of [`graph_add_node`](Self::graph_add_node).
        [unsafe value] fn stream_begin_capture(
            context: ContextHandle, stream: StreamHandle, mode: CaptureMode
        ) -> ()
            = cuStreamBeginCapture {
                enter_for(context, stream) (stream, capture_mode_number(mode))
            };

        /// Ends the capture of the stream in which it began, and returns its graph, which the
        /// caller owns (`cuStreamEndCapture`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::STREAM_CAPTURE_INVALIDATED`] if a violation made the capture invalid (rule
        /// 43), [`STREAM_CAPTURE_UNJOINED`](ResultCode::STREAM_CAPTURE_UNJOINED) for a branch that
        /// was not joined (rule 41): the capture is over, without a graph.
        /// [`STREAM_CAPTURE_WRONG_THREAD`](ResultCode::STREAM_CAPTURE_WRONG_THREAD) on another
        /// thread than the one that began it, unless in relaxed mode (rule 40; the capture ends),
        /// [`STREAM_CAPTURE_UNMATCHED`](ResultCode::STREAM_CAPTURE_UNMATCHED) for a stream in which
        /// the capture did not begin, and [`ILLEGAL_STATE`](ResultCode::ILLEGAL_STATE) for a stream
        /// that does not capture.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`.
        [unsafe value] fn stream_end_capture(
            context: ContextHandle, stream: StreamHandle
        ) -> GraphHandle
            = cuStreamEndCapture { enter_for(context, stream) out(graph) (stream, &mut graph) };

        /// Returns whether the stream captures, and what its next operation will depend on
        /// (`cuStreamGetCaptureInfo`).
        ///
        /// # Errors
        ///
        /// [`ResultCode::STREAM_CAPTURE_IMPLICIT`] for the legacy default stream while a blocking
        /// stream of its context captures.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`.
        [unsafe value] fn stream_capture_info(
            context: ContextHandle, stream: StreamHandle
        ) -> CaptureInfo
            = cuStreamGetCaptureInfo { enter_for(context, stream) by capture_info(stream) };

        /// Replaces the nodes on which the next operation of a capturing stream will depend
        /// (`cuStreamUpdateCaptureDependencies`), after nodes were added to the captured graph.
        ///
        /// # Errors
        ///
        /// [`ResultCode::ILLEGAL_STATE`] for a stream that does not capture,
        /// [`INVALID_VALUE`](ResultCode::INVALID_VALUE) for a node of another graph.
        ///
        /// # Safety
        ///
        /// `stream` is alive and belongs to `context`; the nodes are alive.
        [unsafe value] fn stream_set_capture_dependencies(
            context: ContextHandle, stream: StreamHandle, dependencies: &[GraphNodeHandle]
        ) -> ()
            = cuStreamUpdateCaptureDependencies {
                enter_for(context, stream) (
                    stream, dependencies.as_ptr().cast_mut(), dependencies.len(),
                    api::STREAM_SET_CAPTURE_DEPENDENCIES
                )
            };
    } };
}
