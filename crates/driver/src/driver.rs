//! The trait [`Driver`], with one method per driver function, and its argument types.

#![allow(
    unsafe_code,
    reason = "declares the unsafe methods of the driver interface; holds no unsafe block"
)]

use std::{ffi::c_void, fmt, ptr::NonNull, time::Duration};

use crate::{
    BlockSize, CaptureInfo, CaptureMode, ConditionHandle, ConditionalKind, ConditionalNode,
    ContextHandle, Copy2d, DeviceAttribute, DeviceOrdinal, DevicePtr, DriverError, EventHandle,
    FillPattern, FloatOperand, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle,
    GraphKernel, GraphNode, GraphNodeHandle, HostAccess, LaunchAttributes, LaunchDims,
    ManagedAdvice, ManagedLocation, MemoryReuse, ModuleHandle, P2pAttribute, PeerCopy, PeerCopy2d,
    PointerInfo, PoolHandle, ResultCode, StreamHandle,
};

type Result<T> = std::result::Result<T, DriverError>;

/// The minimum alignment of memory that a [`Driver`] allocates, in bytes: device, managed and
/// page-locked memory alike. CUDA guarantees it for every address that one of its memory allocation
/// routines returns.
///
/// Page-locked and managed memory usually begins at a page boundary, but no driver guarantees that.
///
/// ```
/// assert!(millstream_driver::ALLOCATION_ALIGNMENT >= align_of::<u128>());
/// ```
pub const ALLOCATION_ALIGNMENT: usize = 256;

/// The result of querying a stream or an event.
///
/// ```
/// use millstream_driver::Completion;
/// assert!(Completion::Complete.is_complete());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All the queried work has finished.
    Complete,
    /// Some of the queried work is still running or waiting.
    Pending,
}

impl Completion {
    /// Returns whether this is [`Completion::Complete`].
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }
}

/// The purpose of an event, which decides whether it records time.
///
/// ```
/// assert_ne!(millstream_driver::EventKind::Ordering, millstream_driver::EventKind::Timing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An event for ordering and completion (`CU_EVENT_DISABLE_TIMING`), the cheaper kind.
    Ordering,
    /// An event that also records a time stamp, for [`Driver::event_elapsed_ms`].
    Timing,
    /// An event for ordering that a capture refuses (`CU_EVENT_INTERPROCESS` and
    /// `CU_EVENT_DISABLE_TIMING`): a record on a capturing stream is
    /// [`ResultCode::STREAM_CAPTURE_UNSUPPORTED`](crate::ResultCode::STREAM_CAPTURE_UNSUPPORTED),
    /// changes nothing, and leaves the capture valid. A record may wait, on the device, for the
    /// event's earlier record.
    Interprocess,
}

/// The range of stream priorities of a device; lower numbers run first
/// (`cuCtxGetStreamPriorityRange`).
///
/// ```
/// let range = millstream_driver::PriorityRange { least: 0, greatest: -5 };
/// assert!(range.greatest <= range.least);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The number of the lowest priority, usually 0.
    pub least: i32,
    /// The number of the highest priority, usually negative.
    pub greatest: i32,
}

/// Memory statistics of a pool of the stream-ordered allocator, in bytes.
///
/// ```
/// assert_eq!(millstream_driver::PoolUsage::default().used_bytes, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Memory that is allocated and not yet freed.
    pub used_bytes: u64,
    /// The peak of `used_bytes`.
    pub used_peak_bytes: u64,
    /// Memory that the pool has reserved from the system, allocated or not.
    pub reserved_bytes: u64,
    /// The peak of `reserved_bytes`.
    pub reserved_peak_bytes: u64,
}

/// A host function that runs in stream order. It must not call the driver (rule 27).
pub type HostFunction = Box<dyn FnOnce() + Send>;

/// A GPU driver: libcuda or the simulated one.
///
/// Every method corresponds to the `cu*` function that its documentation names and has that
/// function's behaviour. Methods take the context that the function needs current as an argument,
/// and the implementation makes it current. Handles must come from the same driver. Any method may
/// be called from any thread at any time unless its documentation says otherwise.
///
/// # Errors
///
/// Every fallible method returns a [`DriverError`] that names the call. Because work is
/// asynchronous, any call may also return the failure of earlier work. A failure for which
/// [`ResultCode::is_sticky`](crate::ResultCode::is_sticky) holds means that the context is lost.
pub trait Driver: Send + Sync + fmt::Debug {
    /// Returns the driver's display name: `libcuda 13.0`, `the simulator`.
    fn name(&self) -> String;

    /// Returns a number that identifies this driver while it lives. Two references with the same
    /// number refer to the same driver.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Returns a number that identifies the set of handles this driver understands. A driver that
    /// wraps another returns the wrapped driver's number.
    fn handle_space(&self) -> usize {
        self.identity()
    }

    /// Returns whether the device is simulated.
    fn is_simulated(&self) -> bool;

    /// Returns the time on the host's clock in nanoseconds since a fixed point. With a simulated
    /// device this is virtual time.
    fn now_ns(&self) -> u64;

    /// Puts the calling thread to sleep for about `duration` on the clock of
    /// [`now_ns`](Self::now_ns). May return early.
    fn pause(&self, duration: Duration);

    /// Returns the stream's number in this driver's reports, counted from 1 in the order in which
    /// the streams of its device were created. `None` for default streams, and from drivers without
    /// reports.
    fn stream_number(&self, _stream: StreamHandle) -> Option<u64> {
        None
    }

    /// Records the beginning or the end of an access by the host, through its own loads and stores,
    /// to memory that a device may also use. The caller calls it once before the access and once
    /// after it. libcuda ignores it; the simulated driver checks the access for races.
    fn note_host_access(&self, _access: &HostAccess) {}

    /// Records that the caller reuses an allocation for new contents without freeing it. For all
    /// work enqueued later the contents are undefined, as after a new allocation. libcuda ignores
    /// it; the simulated driver then reports reads of the old contents.
    fn note_memory_reuse(&self, _reuse: &MemoryReuse) {}

    /// Declares which parameters of a kernel are arrays of floating-point numbers. libcuda ignores
    /// it; the simulated driver compares the declaration with the kernel's accesses.
    fn note_float_operands(&self, _function: FunctionHandle, _operands: &[FloatOperand]) {}

    /// Makes the context current on the calling thread (`cuCtxSetCurrent`), for functions of other
    /// libraries, such as cuBLAS, that work in the current context. A null handle leaves the thread
    /// without a current context. The methods of this trait do not need this call.
    /// [`CurrentContext`](crate::CurrentContext) restores the previous context afterwards.
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) unless the driver is
    /// libcuda: other libraries accept only libcuda's contexts.
    ///
    /// # Safety
    ///
    /// `context` is alive, or null.
    unsafe fn make_current(&self, _context: ContextHandle) -> Result<()> {
        Err(DriverError::new(
            "cuCtxSetCurrent",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Returns the context that is current on the calling thread (`cuCtxGetCurrent`), or a null
    /// handle if there is none.
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) unless the driver is
    /// libcuda.
    fn current_context(&self) -> Result<ContextHandle> {
        Err(DriverError::new(
            "cuCtxGetCurrent",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Returns the CUDA version that the driver supports, 1000 × major + 10 × minor
    /// (`cuDriverGetVersion`).
    fn driver_version(&self) -> Result<i32>;

    /// Returns the number of devices (`cuDeviceGetCount`).
    fn device_count(&self) -> Result<i32>;

    /// Returns the device's name (`cuDeviceGetName`).
    fn device_name(&self, device: DeviceOrdinal) -> Result<String>;

    /// Returns the device's 16-byte UUID, which `nvidia-smi -L` prints too (`cuDeviceGetUuid`).
    fn device_uuid(&self, device: DeviceOrdinal) -> Result<[u8; 16]>;

    /// Returns the device's total memory in bytes (`cuDeviceTotalMem`).
    fn device_total_bytes(&self, device: DeviceOrdinal) -> Result<u64>;

    /// Returns the value of a device attribute (`cuDeviceGetAttribute`).
    fn device_attribute(&self, device: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32>;

    /// Returns the device's PCI address, `domain:bus:device.function` in hexadecimal
    /// (`cuDeviceGetPCIBusId`).
    fn device_pci_bus_id(&self, device: DeviceOrdinal) -> Result<String>;

    /// Returns whether contexts of `device` can be given access to memory of `peer`
    /// (`cuDeviceCanAccessPeer`). False for a device and itself.
    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool>;

    /// Returns the value of an attribute of the link by which `from` accesses memory of `to`
    /// (`cuDeviceGetP2PAttribute`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_DEVICE`](crate::ResultCode::INVALID_DEVICE) if both are the same
    /// device, [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for an attribute
    /// that the driver does not know.
    fn device_p2p_attribute(
        &self,
        attribute: P2pAttribute,
        from: DeviceOrdinal,
        to: DeviceOrdinal,
    ) -> Result<i32>;

    /// Retains the device's primary context and creates it if necessary
    /// (`cuDevicePrimaryCtxRetain`).
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle>;

    /// Releases one reference to the device's primary context (`cuDevicePrimaryCtxRelease`).
    /// Releasing the last one destroys the context.
    ///
    /// # Safety
    ///
    /// The caller holds a reference. After the last one is released, no handle of the context is
    /// used again.
    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()>;

    /// Waits until all work of the context is complete (`cuCtxSynchronize`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()>;

    /// Lets `context` access the memory that the context `peer` allocates, now and later, except
    /// for pool memory (`cuCtxEnablePeerAccess`): a pool has access rights of its own, which
    /// [`pool_set_access`](Self::pool_set_access) sets (rule 38). The access is one-directional
    /// (rule 39) and lasts until either context is destroyed. Takes milliseconds.
    ///
    /// # Errors
    ///
    /// [`ResultCode::PEER_ACCESS_ALREADY_ENABLED`](crate::ResultCode::PEER_ACCESS_ALREADY_ENABLED)
    /// if this call was made before (rule 39),
    /// [`ResultCode::PEER_ACCESS_UNSUPPORTED`](crate::ResultCode::PEER_ACCESS_UNSUPPORTED) if
    /// [`device_can_access_peer`](Self::device_can_access_peer) is false, or both contexts are the
    /// same, [`ResultCode::TOO_MANY_PEERS`](crate::ResultCode::TOO_MANY_PEERS) beyond the number of
    /// peers that the device supports.
    ///
    /// # Safety
    ///
    /// `context` and `peer` are alive.
    unsafe fn context_enable_peer_access(
        &self,
        context: ContextHandle,
        peer: ContextHandle,
    ) -> Result<()>;

    /// Returns the range of stream priorities in the context (`cuCtxGetStreamPriorityRange`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn stream_priority_range(&self, context: ContextHandle) -> Result<PriorityRange>;

    /// Creates a stream (`cuStreamCreateWithPriority`). A non-blocking stream is exempt from the
    /// barriers that every operation on the legacy default stream puts between blocking streams
    /// (rules 17 and 18). A priority outside the range is clamped.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn stream_create(
        &self,
        context: ContextHandle,
        non_blocking: bool,
        priority: i32,
    ) -> Result<StreamHandle>;

    /// Destroys the stream (`cuStreamDestroy`). Returns at once; work already enqueued completes
    /// (rule 21).
    ///
    /// # Safety
    ///
    /// `stream` is alive, belongs to `context`, and is not used again.
    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// Returns whether all work enqueued on the stream so far is complete (`cuStreamQuery`). Never
    /// blocks.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_query(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<Completion>;

    /// Returns the context to which a stream belongs (`cuStreamGetCtx`).
    ///
    /// # Safety
    ///
    /// `stream` is alive, and is not a default stream, whose context is the current one.
    unsafe fn stream_context(&self, stream: StreamHandle) -> Result<ContextHandle>;

    /// Waits until all work enqueued on the stream so far is complete (`cuStreamSynchronize`).
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_synchronize(&self, context: ContextHandle, stream: StreamHandle)
    -> Result<()>;

    /// Makes later work of the stream wait, on the device, for the work that `event` captured when
    /// it was last recorded before this call (`cuStreamWaitEvent`, rules 22 to 24). The event may
    /// belong to another context (rule 26). Never blocks the host.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`; `event` is alive.
    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<()>;

    /// Creates an event (`cuEventCreate`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn event_create(&self, context: ContextHandle, kind: EventKind) -> Result<EventHandle>;

    /// Destroys the event (`cuEventDestroy`), which is allowed while the event is pending (rule
    /// 25).
    ///
    /// # Safety
    ///
    /// `event` is alive and is not used again.
    unsafe fn event_destroy(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Records the event: captures all work enqueued on the stream so far and replaces what the
    /// event captured before (`cuEventRecord`, rules 22 and 23). An event cannot be recorded on a
    /// stream of another context (rule 26).
    ///
    /// # Safety
    ///
    /// `event` and `stream` are alive and belong to `context`.
    unsafe fn event_record(
        &self,
        context: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Returns whether the work that the event captured is complete, which also holds for an event
    /// that was never recorded (`cuEventQuery`, rule 22). Never blocks.
    ///
    /// # Safety
    ///
    /// `event` is alive.
    unsafe fn event_query(&self, context: ContextHandle, event: EventHandle) -> Result<Completion>;

    /// Waits until the work that the event captured is complete (`cuEventSynchronize`).
    ///
    /// # Safety
    ///
    /// `event` is alive.
    unsafe fn event_synchronize(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Returns the milliseconds between two events (`cuEventElapsedTime`). Both must be of
    /// [`EventKind::Timing`] and complete.
    ///
    /// # Safety
    ///
    /// Both events are alive.
    unsafe fn event_elapsed_ms(
        &self,
        context: ContextHandle,
        start: EventHandle,
        end: EventHandle,
    ) -> Result<f32>;

    /// Returns the free and the total memory of the context's device in bytes (`cuMemGetInfo`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn mem_info(&self, context: ContextHandle) -> Result<(u64, u64)>;

    /// Returns the allocation that contains the address, or `None` if the driver knows of none
    /// (`cuPointerGetAttributes`).
    fn pointer_info(&self, pointer: DevicePtr) -> Result<Option<PointerInfo>>;

    /// Allocates device memory that every stream may use at once (`cuMemAlloc`). The contents are
    /// undefined. The address is a multiple of [`ALLOCATION_ALIGNMENT`], as are the addresses that
    /// the other allocation methods return.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn mem_alloc(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr>;

    /// Allocates managed memory, which the host and every device access at the same address
    /// (`cuMemAllocManaged` with global attachment, rule 49). The contents are undefined. The host
    /// obtains its pointer from the address by
    /// [`with_exposed_provenance_mut`](std::ptr::with_exposed_provenance_mut). The address is a
    /// multiple of [`ALLOCATION_ALIGNMENT`].
    ///
    /// Where [`CONCURRENT_MANAGED_ACCESS`](DeviceAttribute::CONCURRENT_MANAGED_ACCESS) is 0, the
    /// host must not access any managed memory while a kernel runs (rule 50).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) where
    /// [`MANAGED_MEMORY`](DeviceAttribute::MANAGED_MEMORY) is 0.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn mem_alloc_managed(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr>;

    /// Enqueues the migration of managed memory to `location` (`cuMemPrefetchAsync`). A prefetch
    /// changes no value (rule 51).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) if the driver has no such
    /// function, [`ResultCode::INVALID_DEVICE`](crate::ResultCode::INVALID_DEVICE) for a device
    /// whose [`CONCURRENT_MANAGED_ACCESS`](DeviceAttribute::CONCURRENT_MANAGED_ACCESS) is 0,
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for memory that is not
    /// managed.
    ///
    /// # Safety
    ///
    /// The range, of at least one byte, lies in one managed allocation that lives until the
    /// prefetch is done. `stream` is alive and belongs to `context`.
    unsafe fn mem_prefetch_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Advises the driver of the future use of managed memory (`cuMemAdvise`). The advice takes
    /// effect during the call, outside stream order, and changes no value (rule 51).
    ///
    /// # Errors
    ///
    /// As [`mem_prefetch_async`](Self::mem_prefetch_async).
    ///
    /// # Safety
    ///
    /// `context` is alive; the range, of at least one byte, lies in one live managed allocation.
    unsafe fn mem_advise(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        advice: ManagedAdvice,
        location: ManagedLocation,
    ) -> Result<()>;

    /// Frees memory of [`mem_alloc`](Self::mem_alloc),
    /// [`mem_alloc_managed`](Self::mem_alloc_managed) or [`mem_alloc_async`](Self::mem_alloc_async)
    /// (`cuMemFree`; both allocators accept both ways to free, rule 33). The host waits until the
    /// device is idle (rule 30).
    ///
    /// # Safety
    ///
    /// `pointer` is a live allocation's start, and no later operation uses the allocation.
    unsafe fn mem_free(&self, context: ContextHandle, pointer: DevicePtr) -> Result<()>;

    /// Allocates from the default pool of the stream's device, in stream order (`cuMemAllocAsync`).
    /// The address is known at once, but only work ordered after this point of the stream may
    /// access the memory (rule 32). The stream alone decides on which device the memory lies (rule
    /// 31).
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn mem_alloc_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePtr>;

    /// Frees in stream order (`cuMemFreeAsync`), also memory of [`mem_alloc`](Self::mem_alloc)
    /// (rule 33). The free must be ordered after every use (rule 32). Never blocks.
    ///
    /// # Safety
    ///
    /// `pointer` is a live allocation's start; every use of it is ordered before this point of the
    /// stream; no operation enqueued later, on any stream, uses it. `stream` is alive and belongs
    /// to `context`.
    unsafe fn mem_free_async(
        &self,
        context: ContextHandle,
        pointer: DevicePtr,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Returns the device's default pool (`cuDeviceGetDefaultMemPool`).
    fn default_pool(&self, device: DeviceOrdinal) -> Result<PoolHandle>;

    /// Sets the number of bytes that a pool keeps reserved when it returns freed memory to the
    /// system at the next synchronisation (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`, rule 36).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_set_release_threshold(&self, pool: PoolHandle, bytes: u64) -> Result<()>;

    /// Sets whether `device` may read and write the pool's memory, which already allocated memory
    /// is part of (`cuMemPoolSetAccess` with one descriptor, rule 38). Concerns kernels of that
    /// device and the path that peer copies take. Takes milliseconds.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_DEVICE`](crate::ResultCode::INVALID_DEVICE) if
    /// [`device_can_access_peer`](Self::device_can_access_peer) is false for `device` and the
    /// pool's device. The access of the pool's own device cannot be withdrawn.
    ///
    /// # Safety
    ///
    /// `pool` is alive. If access is withdrawn, no kernel of `device` that is enqueued or will be
    /// enqueued accesses the pool's memory.
    unsafe fn pool_set_access(
        &self,
        pool: PoolHandle,
        device: DeviceOrdinal,
        accessible: bool,
    ) -> Result<()>;

    /// Returns unused memory to the system until at most `keep_bytes` are reserved
    /// (`cuMemPoolTrimTo`). Memory whose free is not yet complete is skipped (rule 36).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_trim(&self, pool: PoolHandle, keep_bytes: usize) -> Result<()>;

    /// Returns the pool's memory statistics (`cuMemPoolGetAttribute`).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_usage(&self, pool: PoolHandle) -> Result<PoolUsage>;

    /// Allocates page-locked host memory that every context can use (`cuMemHostAlloc`, portable).
    /// Host and device share the address, a multiple of [`ALLOCATION_ALIGNMENT`]. The contents are
    /// undefined.
    ///
    /// # Safety
    ///
    /// `context` is alive; `bytes` is not 0.
    unsafe fn host_alloc(&self, context: ContextHandle, bytes: usize) -> Result<NonNull<u8>>;

    /// Frees page-locked host memory (`cuMemFreeHost`). The host waits until the device is idle
    /// (rule 30).
    ///
    /// # Safety
    ///
    /// `pointer` came from [`host_alloc`](Self::host_alloc), is not freed yet, and no later
    /// operation uses it.
    unsafe fn host_free(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()>;

    /// Page-locks existing host memory (`cuMemHostRegister`, portable).
    ///
    /// # Safety
    ///
    /// The range is valid host memory until it is unregistered.
    unsafe fn host_register(
        &self,
        context: ContextHandle,
        pointer: NonNull<u8>,
        bytes: usize,
    ) -> Result<()>;

    /// Unregisters memory of [`host_register`](Self::host_register) (`cuMemHostUnregister`). The
    /// host waits until the device is idle (rule 30).
    ///
    /// # Safety
    ///
    /// `pointer` is the start of a registered range that no later operation uses.
    unsafe fn host_unregister(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()>;

    /// Copies from host to device on the legacy default stream (`cuMemcpyHtoD`). From page-locked
    /// memory it returns when the copy is complete (rule 2). From pageable memory it may return
    /// when the source has been read (rule 1), and so may any copy of at most 64 KiB (rule 6).
    ///
    /// # Safety
    ///
    /// `source` is readable and `target` writable for `bytes`. Until the copy is complete, nothing
    /// else writes the source or accesses the target; with a pageable source that may be after the
    /// call returns.
    unsafe fn copy_host_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
    ) -> Result<()>;

    /// Copies from device to host on the legacy default stream (`cuMemcpyDtoH`). The copy is
    /// complete on return (rule 3).
    ///
    /// # Safety
    ///
    /// As for [`copy_host_to_device`](Self::copy_host_to_device), with source and target exchanged.
    unsafe fn copy_device_to_host(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Copies within the device on the legacy default stream (`cuMemcpyDtoD`). May return before
    /// the copy is complete (rule 4).
    ///
    /// # Safety
    ///
    /// Both ranges are live and do not overlap. Every operation that writes the source or accesses
    /// the target is ordered with the copy.
    unsafe fn copy_device_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Copies between two addresses of the unified address space, host or device, on the legacy
    /// default stream (`cuMemcpy`). A copy from host to host is fully synchronous (rule 5); any
    /// other behaves as the method for its direction.
    ///
    /// # Safety
    ///
    /// As for the method of the same direction.
    unsafe fn copy_unified(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Enqueues a copy from host to device that has read its source, page-locked or not, before the
    /// call returns (`cuMemcpyBatchAsync` of one copy with the source access order *during API
    /// call*, rule 14).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) with a driver older than
    /// CUDA 12.8.
    ///
    /// # Safety
    ///
    /// `source` is readable for `bytes` during the call. `target` is writable for `bytes`, and work
    /// that accesses it is ordered with the copy. `stream` is alive, belongs to `context`, and is
    /// not the legacy default stream.
    unsafe fn copy_captured_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy from host to device (`cuMemcpyHtoDAsync`). A page-locked source is read when
    /// the copy runs (rule 7). A pageable source may be read during the call, out of stream order
    /// (rule 10); the driver stages it, and the call may block meanwhile (rule 8).
    ///
    /// # Safety
    ///
    /// `source` is readable for `bytes` and not written until the copy is complete. `target` is
    /// writable for `bytes`. Work that accesses either is ordered with the copy. `stream` is alive
    /// and belongs to `context`.
    unsafe fn copy_host_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy from device to host (`cuMemcpyDtoHAsync`). A page-locked target is written
    /// when the copy runs (rule 7). With a pageable target the call may or may not block until the
    /// copy is complete, and callers must allow for both (rule 9).
    ///
    /// # Safety
    ///
    /// `target` is writable for `bytes` and not accessed until the copy is complete. `source` is
    /// readable for `bytes`. Work that accesses either is ordered with the copy. `stream` is alive
    /// and belongs to `context`.
    unsafe fn copy_device_to_host_async(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy within the device (`cuMemcpyDtoDAsync`).
    ///
    /// # Safety
    ///
    /// Both ranges are live for `bytes` and do not overlap. Work that accesses either is ordered
    /// with the copy. `stream` is alive and belongs to `context`.
    unsafe fn copy_device_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy between two addresses of the unified address space, host or device
    /// (`cuMemcpyAsync`). A copy from host to host is synchronous (rule 11).
    ///
    /// # Safety
    ///
    /// As for the method of the same direction.
    unsafe fn copy_unified_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a two-dimensional copy as a single operation (`cuMemcpy2DAsync`, rule 52). Either
    /// side follows the rules of a plain copy: a page-locked side is accessed when the copy runs
    /// (rule 7), with a pageable side the call may block (rules 8 to 10), and a copy from host to
    /// host is synchronous (rule 11). A copy of no bytes enqueues nothing.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a pitch shorter than the
    /// width or longer than [`MAX_PITCH`](DeviceAttribute::MAX_PITCH).
    ///
    /// # Safety
    ///
    /// Every row of the source is readable, every row of the target is writable, and no source row
    /// overlaps a target row. Until the copy is complete, a host source is not written and a host
    /// target is not accessed. Work that accesses the rows is ordered with the copy. Bytes between
    /// rows are not accessed. `stream` is alive and belongs to `context`.
    unsafe fn copy_2d_async(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy between the memory of two contexts, usually of two devices
    /// (`cuMemcpyPeerAsync`). Never blocks the host. It needs no peer access: without access to the
    /// other device's memory, which for pool memory is that of
    /// [`pool_set_access`](Self::pool_set_access) (rule 38), the driver stages the bytes in host
    /// memory, at a fraction of the link's bandwidth.
    ///
    /// The copy is an operation of `stream` alone: streams of the other device are ordered with it
    /// by events (rule 26).
    ///
    /// # Safety
    ///
    /// `target` is writable and `source` readable for `bytes`; each belongs to the context that
    /// `copy` names, and both contexts are alive. The ranges do not overlap. Work that accesses
    /// either range is ordered with the copy. `stream` is alive and belongs to `context`.
    unsafe fn copy_peer_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a two-dimensional copy between the memory of two contexts as a single operation
    /// (`cuMemcpy3DPeerAsync` of depth 1). Otherwise as
    /// [`copy_peer_async`](Self::copy_peer_async). A copy of no bytes enqueues nothing.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a pitch shorter than a
    /// row or longer than [`MAX_PITCH`](DeviceAttribute::MAX_PITCH).
    ///
    /// # Safety
    ///
    /// Every row of the source is readable, every row of the target is writable, and no source row
    /// overlaps a target row; each side belongs to the context that `copy` names, and both contexts
    /// are alive. Work that accesses the rows is ordered with the copy. Bytes between rows are not
    /// accessed. `stream` is alive and belongs to `context`.
    unsafe fn copy_peer_2d_async(
        &self,
        context: ContextHandle,
        copy: &PeerCopy2d,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a fill of `count` elements (`cuMemsetD8Async` and its wider forms). With a
    /// page-locked or managed target the call may block (rule 12).
    ///
    /// # Safety
    ///
    /// `target` is live for `count` elements and aligned to the element size. Work that accesses it
    /// is ordered with the fill. `stream` is alive and belongs to `context`.
    unsafe fn memset_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Loads a module from PTX text (`cuModuleLoadDataEx`). The text need not end in a zero byte.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_PTX`](crate::ResultCode::INVALID_PTX) or
    /// [`ResultCode::INVALID_IMAGE`](crate::ResultCode::INVALID_IMAGE) for a binary image, for any
    /// other bytes that are not PTX text, and for text with a zero byte inside. For PTX that does
    /// not compile, the detail is the compiler's log: line, opcode, reason.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn module_load(&self, context: ContextHandle, ptx: &[u8]) -> Result<ModuleHandle>;

    /// Loads a module from a binary image, a cubin or a fat binary (`cuModuleLoadData`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NO_BINARY_FOR_GPU`](crate::ResultCode::NO_BINARY_FOR_GPU) if the image has no
    /// code for the device, [`ResultCode::INVALID_IMAGE`](crate::ResultCode::INVALID_IMAGE) for
    /// bytes that are neither an ELF file nor a fat binary,
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) from a driver that runs PTX
    /// only.
    ///
    /// # Safety
    ///
    /// `context` is alive. The image is a complete, intact output of NVIDIA's tools: its own
    /// headers say how far the driver reads, and nothing checks the code in it.
    unsafe fn module_load_binary(
        &self,
        _context: ContextHandle,
        _image: &[u8],
    ) -> Result<ModuleHandle> {
        Err(DriverError::new(
            "cuModuleLoadData",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Unloads a module (`cuModuleUnload`).
    ///
    /// # Safety
    ///
    /// `module` is alive, no kernel of it is running or enqueued, and no handle of it is used
    /// again.
    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()>;

    /// Returns a kernel of the module by its name in the PTX (`cuModuleGetFunction`).
    ///
    /// # Safety
    ///
    /// `module` is alive.
    unsafe fn module_function(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<FunctionHandle>;

    /// Returns the address and the size in bytes of a module-scope variable (`cuModuleGetGlobal`).
    ///
    /// # Safety
    ///
    /// `module` is alive.
    unsafe fn module_global(
        &self,
        context: ContextHandle,
        module: ModuleHandle,
        name: &str,
    ) -> Result<(DevicePtr, usize)>;

    /// Loads the kernel's code onto the device (`cuFuncLoad`). Otherwise the first launch loads it
    /// and may then wait for running kernels (rule 53). A kernel that was loaded while others ran
    /// may still wait at its first launch.
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) with a driver older than
    /// CUDA 12.4.
    ///
    /// # Safety
    ///
    /// `function` is alive and belongs to `context`.
    unsafe fn function_load(&self, context: ContextHandle, function: FunctionHandle) -> Result<()>;

    /// Returns the value of a kernel attribute (`cuFuncGetAttribute`).
    ///
    /// # Safety
    ///
    /// `function` is alive and belongs to `context`.
    unsafe fn function_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<i32>;

    /// Sets a kernel attribute for all later launches (`cuFuncSetAttribute`). Of the attributes
    /// named in this crate only
    /// [`MAX_DYNAMIC_SHARED_BYTES`](FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES) can be set; a
    /// launch with more than 48 KiB of shared memory needs it (rule 57).
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a value that is out of
    /// range, or an attribute that cannot be set.
    ///
    /// # Safety
    ///
    /// `function` is alive and belongs to `context`.
    unsafe fn function_set_attribute(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<()>;

    /// Enqueues a kernel (`cuLaunchKernel`) without waiting for it (rule 13). The arguments are
    /// copied before the call returns.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a grid or block that the
    /// device does not support, and for more dynamic shared memory than
    /// [`FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES`] allows (rule 57).
    ///
    /// # Safety
    ///
    /// `params` holds one pointer per parameter of the kernel, each to a readable value of that
    /// parameter's size and alignment. All memory that the kernel accesses is live, and work that
    /// accesses the same memory is ordered with the launch. `stream` and `function` are alive and
    /// belong to `context`.
    unsafe fn launch_kernel(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()>;

    /// Enqueues a kernel with further attributes (`cuLaunchKernelEx`), otherwise as
    /// [`launch_kernel`](Self::launch_kernel).
    ///
    /// # Errors
    ///
    /// As [`launch_kernel`](Self::launch_kernel). `COOPERATIVE_LAUNCH_TOO_LARGE` for a cooperative
    /// grid whose blocks cannot all be resident at once, `NOT_SUPPORTED` for an attribute that the
    /// driver or the device does not support (see [`ResultCode`](crate::ResultCode)).
    ///
    /// # Safety
    ///
    /// As [`launch_kernel`](Self::launch_kernel).
    unsafe fn launch_kernel_with(
        &self,
        _context: ContextHandle,
        _function: FunctionHandle,
        _dims: &LaunchDims,
        _attributes: &LaunchAttributes,
        _stream: StreamHandle,
        _params: &[*const c_void],
    ) -> Result<()> {
        Err(DriverError::new(
            "cuLaunchKernelEx",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Returns the number of blocks of this size that can be resident on a multiprocessor at once
    /// (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a block without threads.
    ///
    /// # Safety
    ///
    /// `function` is alive and belongs to `context`.
    unsafe fn occupancy_blocks(
        &self,
        _context: ContextHandle,
        _function: FunctionHandle,
        _block_threads: u32,
        _dynamic_shared_bytes: usize,
    ) -> Result<i32> {
        Err(DriverError::new(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Returns the number of threads per block with which most threads of the kernel are resident,
    /// and the number of blocks that fill the device (`cuOccupancyMaxPotentialBlockSize`).
    ///
    /// # Safety
    ///
    /// `function` is alive and belongs to `context`.
    unsafe fn occupancy_block_size(
        &self,
        _context: ContextHandle,
        _function: FunctionHandle,
        _dynamic_shared_bytes: usize,
    ) -> Result<BlockSize> {
        Err(DriverError::new(
            "cuOccupancyMaxPotentialBlockSize",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    /// Enqueues a host function (`cuLaunchHostFunc`). It runs in stream order on a thread of the
    /// driver, and later work of the stream waits for it (rule 27). After a context error it is
    /// never called, and is leaked (rule 28). A panic in it is caught and dropped.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`. The function does not call the driver.
    unsafe fn launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: HostFunction,
    ) -> Result<()>;

    /// Creates an empty graph (`cuGraphCreate`).
    ///
    /// The driver does not synchronise calls that concern one graph or one executable graph: no two
    /// of them may run at the same time, from whatever threads. The methods below require it.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn graph_create(&self, context: ContextHandle) -> Result<GraphHandle>;

    /// Destroys a graph and its nodes (`cuGraphDestroy`). Executable graphs made from it, and other
    /// graphs that have a copy of it as a child, remain.
    ///
    /// # Safety
    ///
    /// `graph` is alive, is no body of a conditional node, no stream captures into it, and neither
    /// it nor its nodes are used again.
    unsafe fn graph_destroy(&self, context: ContextHandle, graph: GraphHandle) -> Result<()>;

    /// Creates a copy of a graph as it is now, with its child graphs (`cuGraphClone`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) for a graph with conditional
    /// nodes.
    ///
    /// # Safety
    ///
    /// `graph` is alive.
    unsafe fn graph_clone(&self, context: ContextHandle, graph: GraphHandle)
    -> Result<GraphHandle>;

    /// Adds a node that runs after `dependencies`, nodes of the same graph, none named twice. The
    /// memory that the node names is a plain address to the driver: nothing keeps it alive (rule
    /// 48).
    ///
    /// The body of a conditional node takes kernels, fills, copies between device memory, empty
    /// nodes, and children made of these.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a dependency that is no
    /// node of this graph or is named twice, a kernel with dimensions that the device does not
    /// have, or a copy or a fill whose parameters are out of range.
    ///
    /// # Safety
    ///
    /// `graph` and the dependencies are alive. What the method that enqueues the node's operation
    /// requires holds from each launch of an executable graph with this node until that launch has
    /// completed. A child graph is alive.
    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle>;

    /// Adds dependencies between nodes of a graph (`cuGraphAddDependencies`): each pair's second
    /// node runs after its first.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a node of another graph,
    /// a node that would run after itself, or a pair that exists already. A longer cycle is an
    /// error of instantiation.
    ///
    /// # Safety
    ///
    /// `graph` and the nodes are alive.
    unsafe fn graph_add_dependencies(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> Result<()>;

    /// Creates a condition for one conditional node of the graph
    /// (`cuGraphConditionalHandleCreate`). Each launch of the graph begins with `initial` as its
    /// value.
    ///
    /// A kernel of the graph, or of the conditional node's body, sets it. Its PTX, of at least ISA
    /// version 8.0, declares
    /// `.extern .func cudaGraphSetConditional(.param .b64, .param .b32)` and calls it with the
    /// number of the handle and the value; the driver provides the function.
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) with a driver older than
    /// CUDA 12.4.
    ///
    /// # Safety
    ///
    /// `graph` is alive. The condition is the condition of exactly one conditional node by the time
    /// the graph is instantiated.
    unsafe fn graph_condition(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32,
    ) -> Result<ConditionHandle>;

    /// Adds a conditional node with an empty body (`cuGraphAddNode`). The body sees the writes of
    /// the nodes in front of the conditional node.
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) with a driver older than
    /// CUDA 12.4.
    ///
    /// # Safety
    ///
    /// `graph` and the dependencies are alive. `condition` was created for this graph, or for the
    /// graph around this body, and no other node has it.
    unsafe fn graph_add_conditional(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> Result<ConditionalNode>;

    /// Makes an executable graph from the graph as it is now (`cuGraphInstantiateWithParams`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a graph with a cycle.
    /// The error may name a [node](DriverError::graph_node).
    ///
    /// # Safety
    ///
    /// `graph` is alive, and so is every kernel in it until the executable graph is destroyed.
    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphExecHandle>;

    /// Destroys an executable graph (`cuGraphExecDestroy`). Returns at once; launches already
    /// enqueued complete (rule 47).
    ///
    /// # Safety
    ///
    /// `exec` is alive and is not used again.
    unsafe fn graph_exec_destroy(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
    ) -> Result<()>;

    /// Prepares an executable graph on the device (`cuGraphUpload`), as its first launch does
    /// otherwise.
    ///
    /// # Safety
    ///
    /// `exec` and `stream` are alive and belong to `context`.
    unsafe fn graph_upload(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues the executable graph as one operation of the stream (`cuGraphLaunch`). Its launches
    /// run one after the other, on any streams (rule 46).
    ///
    /// # Safety
    ///
    /// `exec` and `stream` are alive and belong to `context`. What
    /// [`graph_add_node`](Self::graph_add_node) requires of the nodes' operands holds, and work
    /// that accesses the same memory is ordered with the launch.
    unsafe fn graph_launch(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Changes the operation of a node in later launches of an executable graph
    /// (`cuGraphExecKernelNodeSetParams` and its like). Launches already enqueued run as they were.
    ///
    /// `node` is a node of the graph that `exec` was made from, which keeps its own operation. A
    /// kernel may change its dimensions, its arguments and its function, within the same context; a
    /// copy of one row its addresses and its length, but not its kinds of memory; a fill
    /// everything; a child its nodes' parameters, for a graph of the same topology.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a node of another graph
    /// or another kind, or a change that is not possible.
    ///
    /// # Safety
    ///
    /// `exec` is alive; the graph it was made from is too, and `node` with it. As for
    /// [`graph_add_node`](Self::graph_add_node).
    unsafe fn graph_exec_set_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()>;

    /// Changes the operation of a node of a graph (`cuGraphKernelNodeSetParams` and its like).
    /// Executable graphs made from it are unchanged: [`graph_exec_update`](Self::graph_exec_update)
    /// with the graph changes them, for one call instead of one for each node.
    ///
    /// A kernel may change its dimensions, its arguments and its function, and keeps its
    /// attributes; a copy and a fill may change everything but the context that runs them.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for an operation of another
    /// kind, and for an empty node or a child.
    ///
    /// # Safety
    ///
    /// `graph` is alive, and `node` is a node of it. As for
    /// [`graph_add_node`](Self::graph_add_node).
    unsafe fn graph_set_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()>;

    /// Returns the kernels of a graph, each behind those that it depends on (`cuGraphGetNodes`,
    /// `cuGraphKernelNodeGetParams`). Kernel nodes made of them, one after the other, do what the
    /// graph does. `None` if the graph has another node, if a dependency is not the ordinary one,
    /// or if the driver does not tell the sizes of a kernel's arguments (older than CUDA 12.4).
    ///
    /// # Errors
    ///
    /// An error of the driver, as after a device failure.
    ///
    /// # Safety
    ///
    /// `graph` is alive.
    unsafe fn graph_kernels(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<Option<Vec<GraphKernel>>>;

    /// Changes later launches of an executable graph to those of a graph with the same topology
    /// (`cuGraphExecUpdate`): nodes and dependencies were added to `graph` in the same order as to
    /// the graph that `exec` was made from. Neither has conditional nodes. Launches already
    /// enqueued run as they were.
    ///
    /// # Errors
    ///
    /// [`ResultCode::GRAPH_EXEC_UPDATE_FAILURE`](crate::ResultCode::GRAPH_EXEC_UPDATE_FAILURE) if
    /// the two differ in more than parameters. The error says in what, and may name a
    /// [node](DriverError::graph_node) of `graph`; the executable graph is then unchanged, or, for
    /// parameters that cannot change, changed in part: it is to be made again.
    ///
    /// # Safety
    ///
    /// `exec` and `graph` are alive. As for [`graph_add_node`](Self::graph_add_node).
    unsafe fn graph_exec_update(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<()>;

    /// Begins to capture a stream (`cuStreamBeginCapture`): until the capture ends, each operation
    /// enqueued on the stream becomes a node of a new graph and does not run. A stream that waits
    /// for an event recorded in a capturing stream joins the capture (rule 41). What may not be
    /// called meanwhile: rules 40 to 44.
    ///
    /// # Errors
    ///
    /// [`ResultCode::STREAM_CAPTURE_UNSUPPORTED`](crate::ResultCode::STREAM_CAPTURE_UNSUPPORTED)
    /// for the legacy default stream (rule 40),
    /// [`ResultCode::ILLEGAL_STATE`](crate::ResultCode::ILLEGAL_STATE) for a stream that captures
    /// already.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`. Of the operations enqueued until the capture
    /// ends, the requirements are those of [`graph_add_node`](Self::graph_add_node).
    unsafe fn stream_begin_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> Result<()>;

    /// Ends the capture of the stream in which it began, and returns its graph, which the caller
    /// owns (`cuStreamEndCapture`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::STREAM_CAPTURE_INVALIDATED`](crate::ResultCode::STREAM_CAPTURE_INVALIDATED) if
    /// a violation made the capture invalid (rule 43),
    /// [`STREAM_CAPTURE_UNJOINED`](crate::ResultCode::STREAM_CAPTURE_UNJOINED) for a branch that
    /// was not joined (rule 41): the capture is over, without a graph.
    /// [`STREAM_CAPTURE_WRONG_THREAD`](crate::ResultCode::STREAM_CAPTURE_WRONG_THREAD) on another
    /// thread than the one that began it, unless in relaxed mode (rule 40; the capture ends),
    /// [`STREAM_CAPTURE_UNMATCHED`](crate::ResultCode::STREAM_CAPTURE_UNMATCHED) for a stream in
    /// which the capture did not begin, and
    /// [`ILLEGAL_STATE`](crate::ResultCode::ILLEGAL_STATE) for a stream that does not capture.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_end_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<GraphHandle>;

    /// Returns whether the stream captures, and what its next operation will depend on
    /// (`cuStreamGetCaptureInfo`).
    ///
    /// # Errors
    ///
    /// [`ResultCode::STREAM_CAPTURE_IMPLICIT`](crate::ResultCode::STREAM_CAPTURE_IMPLICIT) for the
    /// legacy default stream while a blocking stream of its context captures.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_capture_info(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<CaptureInfo>;

    /// Replaces the nodes on which the next operation of a capturing stream will depend
    /// (`cuStreamUpdateCaptureDependencies`), after nodes were added to the captured graph.
    ///
    /// # Errors
    ///
    /// [`ResultCode::ILLEGAL_STATE`](crate::ResultCode::ILLEGAL_STATE) for a stream that does not
    /// capture, [`INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a node of another graph.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`; the nodes are alive.
    unsafe fn stream_set_capture_dependencies(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[GraphNodeHandle],
    ) -> Result<()>;
}
