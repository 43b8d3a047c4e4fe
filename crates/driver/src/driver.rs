//! The trait that both drivers implement: one method per driver function, no policy.

#![allow(
    unsafe_code,
    reason = "declares the unsafe methods of the seam; holds no unsafe block"
)]

use std::{ffi::c_void, fmt, ptr::NonNull, time::Duration};

use crate::{
    ContextHandle, Copy2d, DeviceAttribute, DeviceOrdinal, DevicePtr, DriverError, EventHandle,
    FloatOperand, FunctionAttribute, FunctionHandle, HostAccess, ManagedAdvice, ManagedLocation,
    MemoryReuse, ModuleHandle, PoolHandle, ResultCode, StreamHandle,
};

type Result<T> = std::result::Result<T, DriverError>;

/// The least alignment of memory that a [`Driver`] allocates, in bytes: device, managed and
/// page-locked memory alike. CUDA promises it of every address that one of its memory allocation
/// routines returns.
///
/// Page-locked and managed memory usually begins with a page. A driver need not keep to that.
///
/// ```
/// assert!(millstream_driver::ALLOCATION_ALIGNMENT >= align_of::<u128>());
/// ```
pub const ALLOCATION_ALIGNMENT: usize = 256;

/// What a query found.
///
/// ```
/// use millstream_driver::Completion;
/// assert!(Completion::Complete.is_complete());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All the work asked about has finished.
    Complete,
    /// Some of it has not.
    Pending,
}

impl Completion {
    /// Whether this is [`Completion::Complete`].
    #[must_use]
    pub fn is_complete(self) -> bool {
        self == Self::Complete
    }
}

/// What an event is for.
///
/// ```
/// assert_ne!(millstream_driver::EventKind::Ordering, millstream_driver::EventKind::Timing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Order and completion alone (`CU_EVENT_DISABLE_TIMING`): the cheap one.
    Ordering,
    /// Also a time stamp, for [`Driver::event_elapsed_ms`].
    Timing,
}

/// The element that a fill repeats.
///
/// ```
/// assert_eq!(millstream_driver::FillPattern::U16(7).size(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillPattern {
    /// One byte (`cuMemsetD8Async`).
    U8(u8),
    /// Two bytes; the target must be 2-byte aligned (`cuMemsetD16Async`).
    U16(u16),
    /// Four bytes; the target must be 4-byte aligned (`cuMemsetD32Async`).
    U32(u32),
}

impl FillPattern {
    /// Bytes in one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
        }
    }
}

/// The shape of a launch.
///
/// ```
/// let dims = millstream_driver::LaunchDims { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
/// assert_eq!(dims.threads(), 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchDims {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of each block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchDims {
    /// Threads of the whole launch. A product of six 32-bit numbers may not fit, so it saturates.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.grid
            .iter()
            .chain(&self.block)
            .fold(1, |n: u64, &d| n.saturating_mul(u64::from(d)))
    }
}

/// Priorities that a device's streams can have; lower numbers run first
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

/// What a pool of the stream-ordered allocator holds, in bytes.
///
/// ```
/// assert_eq!(millstream_driver::PoolUsage::default().used_bytes, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Given out and not yet freed.
    pub used_bytes: u64,
    /// The most that `used_bytes` has been.
    pub used_peak_bytes: u64,
    /// Held from the system, used or not.
    pub reserved_bytes: u64,
    /// The most that `reserved_bytes` has been.
    pub reserved_peak_bytes: u64,
}

/// A function that runs on the host in stream order. It must not call the driver (rule 27).
pub type HostFunction = Box<dyn FnOnce() + Send>;

/// One GPU driver.
///
/// Every method stands for the `cu*` function that its page names and has that function's
/// behaviour; the context that the function wants current is an argument, and the implementation
/// sees to it. Handles must come from the same driver. Any method may be called from any thread at
/// any time unless its page says otherwise.
///
/// # Errors
///
/// Every fallible method answers a [`DriverError`] that names the call. Because work is
/// asynchronous, any call may also answer the failure of earlier work; a failure for which
/// [`ResultCode::is_sticky`](crate::ResultCode::is_sticky) holds means that the context is lost.
pub trait Driver: Send + Sync + fmt::Debug {
    /// What stands behind the seam, for people: `libcuda 13.0`, `the simulator`.
    fn name(&self) -> String;

    /// A number that tells living drivers apart: two that answer the same are the same driver
    /// behind two pointers.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// A number that two drivers share if their handles mean the same: a driver in front of another
    /// answers what that one does.
    fn handle_space(&self) -> usize {
        self.identity()
    }

    /// Whether the device is a simulation.
    fn is_simulated(&self) -> bool;

    /// Nanoseconds on the host's clock since some fixed point: real time, or the simulated device's
    /// virtual time.
    fn now_ns(&self) -> u64;

    /// Lets the calling thread sleep for about `duration` on that same clock. May return early.
    fn pause(&self, duration: Duration);

    /// The stream's number in the texts of this driver: from 1, in the order in which the streams
    /// of its device were created. `None` for default streams, and from drivers without such texts.
    fn stream_number(&self, _stream: StreamHandle) -> Option<u64> {
        None
    }

    /// Told by whoever touches memory with the host's own loads and stores that a device may use as
    /// well: at the beginning of the access and again at its end. A GPU's driver makes nothing of
    /// it; one that checks may.
    fn note_host_access(&self, _access: &HostAccess) {}

    /// Told by whoever gives an allocation out again without a call that would end its life and
    /// begin another's. For all that is enqueued later its content is undefined, as a new one's is.
    /// A GPU's driver makes nothing of it; one that checks may.
    fn note_memory_reuse(&self, _reuse: &MemoryReuse) {}

    /// Declares which parameters of a kernel are arrays of floating-point numbers. A GPU's driver
    /// ignores it; the simulated one compares it with the kernel's accesses.
    fn note_float_operands(&self, _function: FunctionHandle, _operands: &[FloatOperand]) {}

    /// Makes the context current on the calling thread (`cuCtxSetCurrent`), for functions of other
    /// libraries that work in the current one; a null handle makes none current. The methods here
    /// need no such call. Callers that are to leave the thread as they found it use
    /// [`CurrentContext`](crate::CurrentContext).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) unless the driver is
    /// libcuda: other libraries know nothing of any other's contexts.
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

    /// The context that is current on the calling thread (`cuCtxGetCurrent`); a null handle if
    /// there is none.
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

    /// The CUDA version that the driver supports, 1000 × major + 10 × minor (`cuDriverGetVersion`).
    fn driver_version(&self) -> Result<i32>;

    /// How many devices there are (`cuDeviceGetCount`).
    fn device_count(&self) -> Result<i32>;

    /// The device's name (`cuDeviceGetName`).
    fn device_name(&self, device: DeviceOrdinal) -> Result<String>;

    /// The 16 bytes that tell the device from every other one, as `nvidia-smi -L` prints them
    /// (`cuDeviceGetUuid`).
    fn device_uuid(&self, device: DeviceOrdinal) -> Result<[u8; 16]>;

    /// All of the device's memory, in bytes (`cuDeviceTotalMem`).
    fn device_total_bytes(&self, device: DeviceOrdinal) -> Result<u64>;

    /// One attribute of the device (`cuDeviceGetAttribute`).
    fn device_attribute(&self, device: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32>;

    /// Takes a reference to the device's primary context, made if it is not there yet
    /// (`cuDevicePrimaryCtxRetain`).
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle>;

    /// Gives one reference back; the last one destroys the context (`cuDevicePrimaryCtxRelease`).
    ///
    /// # Safety
    ///
    /// The caller holds a reference, and after the last one no handle of the context is used again.
    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()>;

    /// Waits until all work of the context is done (`cuCtxSynchronize`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()>;

    /// The priorities that streams of the context can have (`cuCtxGetStreamPriorityRange`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn stream_priority_range(&self, context: ContextHandle) -> Result<PriorityRange>;

    /// Makes a stream (`cuStreamCreateWithPriority`). A non-blocking stream is exempt from the
    /// legacy default stream's barriers (rules 17 and 18). A priority outside the range is clamped.
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

    /// Gives the stream up (`cuStreamDestroy`). Returns at once; work already enqueued completes
    /// (rule 21).
    ///
    /// # Safety
    ///
    /// `stream` is alive, belongs to `context`, and is not used again.
    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// Whether all work enqueued so far is done (`cuStreamQuery`). Never blocks.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_query(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<Completion>;

    /// Waits until all work enqueued so far is done (`cuStreamSynchronize`).
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`.
    unsafe fn stream_synchronize(&self, context: ContextHandle, stream: StreamHandle)
    -> Result<()>;

    /// Holds back later work of the stream, on the device, until what `event` captured is done
    /// (`cuStreamWaitEvent`, rules 22 to 24). The event may belong to another context (rule 26).
    /// Never blocks the host.
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

    /// Makes an event (`cuEventCreate`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn event_create(&self, context: ContextHandle, kind: EventKind) -> Result<EventHandle>;

    /// Gives the event up; allowed while it is pending (`cuEventDestroy`, rule 25).
    ///
    /// # Safety
    ///
    /// `event` is alive and is not used again.
    unsafe fn event_destroy(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Captures the stream's work as of now (`cuEventRecord`, rules 22, 23 and 26).
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

    /// Whether what the event captured is done; a never-recorded event is (`cuEventQuery`, rule
    /// 22). Never blocks.
    ///
    /// # Safety
    ///
    /// `event` is alive.
    unsafe fn event_query(&self, context: ContextHandle, event: EventHandle) -> Result<Completion>;

    /// Waits until what the event captured is done (`cuEventSynchronize`).
    ///
    /// # Safety
    ///
    /// `event` is alive.
    unsafe fn event_synchronize(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Milliseconds from one event to the other (`cuEventElapsedTime`); both of
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

    /// Free and total memory of the context's device, in bytes (`cuMemGetInfo`).
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn mem_info(&self, context: ContextHandle) -> Result<(u64, u64)>;

    /// Allocates device memory, usable at once on every stream (`cuMemAlloc`). The content is
    /// undefined. The address is a multiple of [`ALLOCATION_ALIGNMENT`], and so are those of the
    /// other allocations.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn mem_alloc(&self, context: ContextHandle, bytes: usize) -> Result<DevicePtr>;

    /// Allocates managed memory, which the host and every device reach at the same address
    /// (`cuMemAllocManaged`, attached globally, rule 49). The content is undefined. The host's
    /// pointer is [`with_exposed_provenance_mut`](std::ptr::with_exposed_provenance_mut) of the
    /// address, a multiple of [`ALLOCATION_ALIGNMENT`].
    ///
    /// Where [`CONCURRENT_MANAGED_ACCESS`](DeviceAttribute::CONCURRENT_MANAGED_ACCESS) is 0, the
    /// host must not touch any managed memory while a kernel runs (rule 50).
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

    /// Moves managed memory to where it will be used, in stream order (`cuMemPrefetchAsync`, rule
    /// 51). No value changes.
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

    /// Tells how managed memory will be used (`cuMemAdvise`, rule 51): at once, outside stream
    /// order, and only a hint.
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

    /// Frees memory of [`mem_alloc`](Self::mem_alloc), [`mem_alloc_async`](Self::mem_alloc_async)
    /// (`cuMemFree`, rule 33) or [`mem_alloc_managed`](Self::mem_alloc_managed). The host waits
    /// until the device is idle (rule 30).
    ///
    /// # Safety
    ///
    /// `pointer` is a live allocation's start, and no later operation uses the allocation.
    unsafe fn mem_free(&self, context: ContextHandle, pointer: DevicePtr) -> Result<()>;

    /// Allocates from the default pool of the stream's device, in stream order (`cuMemAllocAsync`,
    /// rules 31 and 32): the address is known at once, but only work ordered after this point of
    /// the stream may touch it.
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

    /// Frees in stream order (`cuMemFreeAsync`, rules 32 and 33). Never blocks.
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

    /// The device's default pool (`cuDeviceGetDefaultMemPool`).
    fn default_pool(&self, device: DeviceOrdinal) -> Result<PoolHandle>;

    /// How much freed memory a pool keeps at the next synchronisation rather than give it back to
    /// the system (`CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`, rule 36).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_set_release_threshold(&self, pool: PoolHandle, bytes: u64) -> Result<()>;

    /// Gives unused memory back to the system until at most `keep_bytes` are reserved
    /// (`cuMemPoolTrimTo`, rule 36).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_trim(&self, pool: PoolHandle, keep_bytes: usize) -> Result<()>;

    /// What the pool holds (`cuMemPoolGetAttribute`).
    ///
    /// # Safety
    ///
    /// `pool` is alive.
    unsafe fn pool_usage(&self, pool: PoolHandle) -> Result<PoolUsage>;

    /// Allocates page-locked host memory that every context can use (`cuMemHostAlloc`, portable).
    /// Host and device share the address, a multiple of [`ALLOCATION_ALIGNMENT`]. The content is
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

    /// Page-locks memory that the host already has (`cuMemHostRegister`, portable).
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

    /// Undoes [`host_register`](Self::host_register) (`cuMemHostUnregister`). The host waits until
    /// the device is idle (rule 30).
    ///
    /// # Safety
    ///
    /// `pointer` is the start of a registered range that no later operation uses.
    unsafe fn host_unregister(&self, context: ContextHandle, pointer: NonNull<u8>) -> Result<()>;

    /// Copies from host to device on the legacy default stream (`cuMemcpyHtoD`, rules 1, 2 and 6).
    ///
    /// # Safety
    ///
    /// `source` is readable and `target` writable for `bytes`, and nothing else writes the one or
    /// uses the other until the copy is done, which for a pageable source may be after the call
    /// returns.
    unsafe fn copy_host_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
    ) -> Result<()>;

    /// Copies from device to host on the legacy default stream (`cuMemcpyDtoH`, rule 3).
    ///
    /// # Safety
    ///
    /// As [`copy_host_to_device`](Self::copy_host_to_device), the other way round; complete on
    /// return.
    unsafe fn copy_device_to_host(
        &self,
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Copies within the device on the legacy default stream (`cuMemcpyDtoD`, rule 4): may return
    /// before it is done.
    ///
    /// # Safety
    ///
    /// Both ranges are live and do not overlap, and nothing unordered with the copy writes the
    /// source or uses the target.
    unsafe fn copy_device_to_device(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Copies between two addresses of the unified address space, host or device, on the legacy
    /// default stream (`cuMemcpy`). From host to host it is fully synchronous (rule 5), else as the
    /// copy of that direction above.
    ///
    /// # Safety
    ///
    /// As the copy of the same direction above.
    unsafe fn copy_unified(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
    ) -> Result<()>;

    /// Enqueues a copy from host to device whose source, page-locked or not, has been read before
    /// the call returns (`cuMemcpyBatchAsync` of one copy, with the source's access order *during
    /// API call*, rule 14).
    ///
    /// # Errors
    ///
    /// [`ResultCode::NOT_SUPPORTED`](crate::ResultCode::NOT_SUPPORTED) with a driver older than
    /// CUDA 12.8.
    ///
    /// # Safety
    ///
    /// `source` is readable for `bytes` during the call; `target` is writable for `bytes`, and work
    /// that touches it is ordered with the copy. `stream` is alive, belongs to `context`, and is
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
    /// the copy runs (rule 7); a pageable one is staged first, and the call may block meanwhile
    /// (rules 8 and 10).
    ///
    /// # Safety
    ///
    /// `source` is readable for `bytes` and not written until the copy is done; `target` is
    /// writable for `bytes`; work that touches either is ordered with the copy. `stream` is alive
    /// and belongs to `context`.
    unsafe fn copy_host_to_device_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy from device to host (`cuMemcpyDtoHAsync`, rules 7 and 9). With a pageable
    /// target the call may block until the copy is done; whether it does is not to be relied on.
    ///
    /// # Safety
    ///
    /// `target` is writable for `bytes` and not touched until the copy is done; `source` is
    /// readable for `bytes`; work that touches either is ordered with the copy. `stream` is alive
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
    /// Both ranges are live for `bytes` and do not overlap; work that touches either is ordered
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
    /// (`cuMemcpyAsync`); from host to host it is synchronous (rule 11).
    ///
    /// # Safety
    ///
    /// As the copy of the same direction above.
    unsafe fn copy_unified_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a copy of rows (`cuMemcpy2DAsync`, rule 52). To each side the rules of the copy in
    /// that direction apply: a page-locked side is touched when the copy runs (rule 7), with a
    /// pageable one the call may block (rules 8 to 10), and from host to host it is synchronous
    /// (rule 11). A copy of no bytes enqueues nothing.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a pitch shorter than the
    /// width or longer than [`MAX_PITCH`](DeviceAttribute::MAX_PITCH).
    ///
    /// # Safety
    ///
    /// Every row of the source is readable and every row of the target writable, and no row of the
    /// one overlaps a row of the other. Until the copy is done, a host source is not written and a
    /// host target not touched. Work that touches the rows is ordered with the copy. Bytes between
    /// rows are not touched. `stream` is alive and belongs to `context`.
    unsafe fn copy_2d_async(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Enqueues a fill of `count` elements (`cuMemsetD8Async` and its wider forms, rule 12).
    ///
    /// # Safety
    ///
    /// `target` is live for `count` elements and aligned to one; work that touches it is ordered
    /// with the fill. `stream` is alive and belongs to `context`.
    unsafe fn memset_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Loads a module (`cuModuleLoadDataEx`) from PTX text, which need not end in a zero byte here.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_PTX`](crate::ResultCode::INVALID_PTX) or
    /// [`ResultCode::INVALID_IMAGE`](crate::ResultCode::INVALID_IMAGE) for what is not PTX text, a
    /// binary image for instance, or text with a zero byte inside. For PTX that does not compile,
    /// the detail is the compiler's log: line, opcode, reason.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn module_load(&self, context: ContextHandle, ptx: &[u8]) -> Result<ModuleHandle>;

    /// Unloads a module (`cuModuleUnload`).
    ///
    /// # Safety
    ///
    /// `module` is alive, no kernel of it is running or enqueued, and no handle of it is used
    /// again.
    unsafe fn module_unload(&self, context: ContextHandle, module: ModuleHandle) -> Result<()>;

    /// A kernel of the module by its name in the PTX (`cuModuleGetFunction`).
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

    /// Address and size in bytes of a module-scope variable (`cuModuleGetGlobal`).
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

    /// Loads the kernel's code onto the device (`cuFuncLoad`, rule 53), which otherwise happens at
    /// its first launch and may then wait for kernels that run. So may the first launch of what is
    /// loaded while kernels run.
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

    /// One attribute of the kernel (`cuFuncGetAttribute`).
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

    /// Sets one attribute of the kernel, for launches from now on (`cuFuncSetAttribute`, rule 57).
    /// Of the attributes named here,
    /// [`MAX_DYNAMIC_SHARED_BYTES`](FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES) can be set.
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

    /// Enqueues a kernel (`cuLaunchKernel`, rule 13). The arguments are copied before the call
    /// returns.
    ///
    /// # Errors
    ///
    /// [`ResultCode::INVALID_VALUE`](crate::ResultCode::INVALID_VALUE) for a shape that the device
    /// cannot have, and for more dynamic shared memory than
    /// [`FunctionAttribute::MAX_DYNAMIC_SHARED_BYTES`] allows (rule 57).
    ///
    /// # Safety
    ///
    /// `params` holds one pointer per parameter of the kernel, each to a readable value of that
    /// parameter's size and alignment. What the kernel will touch through them is live, and work
    /// that touches the same is ordered with it. `stream` is alive and belongs to `context`, and so
    /// does `function`.
    unsafe fn launch_kernel(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()>;

    /// Enqueues a function of the host (`cuLaunchHostFunc`): runs in stream order on a thread of
    /// the driver and holds back later work of the stream (rule 27). After a context error it is
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
}
