//! A driver without devices, which claims to have two. Every call succeeds at once and moves no
//! data, so the measured time is Millstream's own. Only what an address was last filled with is
//! known, because the probe of peer access compares it.

#![allow(
    unsafe_code,
    reason = "implements unsafe methods that require nothing of their caller"
)]

use std::{
    collections::BTreeMap,
    fmt,
    ptr::NonNull,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use millstream_driver::*;

type Result<T> = std::result::Result<T, DriverError>;

/// The maximum number of streams.
const STREAMS_MAX: usize = 64;
/// The maximum number of live events.
const EVENTS_MAX: usize = 1 << 18;
/// The handle of the first stream; lower numbers are the default streams.
const FIRST_STREAM: usize = 16;
/// The handle of the first device's context, and of the only module, function and pool.
const SOLE_HANDLE: usize = 1;
/// The first address that is allocated.
const FIRST_ADDRESS: u64 = 1 << 32;
/// The alignment of allocated addresses.
const ALIGNMENT: u64 = 256;
/// The number of bits in an event's word for its position in the stream; the other bits are the
/// stream.
const POSITION_BITS: u32 = 56;

/// A driver that does nothing. An operation counts as complete once `lag` later operations of its
/// stream are enqueued: with a lag of 0 at once, and with the depth of a real stream's queue as
/// late as on a real device, where a full queue blocks the next call (rule 54).
pub struct NullDriver {
    /// The number of later operations of its stream after which an operation is complete. It may be
    /// changed at any time.
    pub lag: AtomicU64,
    started: Instant,
    /// The number of operations enqueued on each stream.
    enqueued: Vec<AtomicU64>,
    streams: AtomicU64,
    /// The number of kernels that were found in modules.
    functions: AtomicU64,
    /// The stream and the position of each event's last record: the number of operations before it.
    events: Vec<AtomicU64>,
    free_events: Mutex<Vec<usize>>,
    next_address: AtomicU64,
    /// The word with which each address was last filled, by fills and by copies of filled memory.
    filled: Mutex<BTreeMap<u64, u32>>,
}

impl NullDriver {
    /// Creates a driver whose operations are complete once `lag` later ones of their stream are
    /// enqueued.
    pub fn new(lag: u64) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            lag: AtomicU64::new(lag),
            started: Instant::now(),
            enqueued: zeros(STREAMS_MAX),
            streams: AtomicU64::new(0),
            functions: AtomicU64::new(0),
            events: zeros(EVENTS_MAX),
            free_events: Mutex::new((0..EVENTS_MAX).rev().collect()),
            next_address: AtomicU64::new(FIRST_ADDRESS),
            filled: Mutex::new(BTreeMap::new()),
        }
    }

    /// Makes `to` hold what `from` was filled with.
    fn copy_filled(&self, to: DevicePtr, from: DevicePtr) {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&word) = filled.get(&from.as_raw()) {
            filled.insert(to.as_raw(), word);
        }
    }

    fn enqueue(&self, stream: StreamHandle) -> Result<()> {
        self.enqueued[stream.as_raw() - FIRST_STREAM].fetch_add(1, Relaxed);
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let bytes = (bytes as u64).next_multiple_of(ALIGNMENT);
        Ok(DevicePtr::from_raw(
            self.next_address.fetch_add(bytes, Relaxed),
        ))
    }

    fn completion(&self, stream: usize, position: u64) -> Completion {
        if self.enqueued[stream].load(Relaxed) >= position + self.lag.load(Relaxed) {
            Completion::Complete
        } else {
            Completion::Pending
        }
    }
}

impl fmt::Debug for NullDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Null(lag {})", self.lag.load(Relaxed))
    }
}

/// A unit of page-locked memory, with the alignment of allocations.
#[derive(Clone, Copy, Default)]
#[repr(align(256))]
struct Line {
    _words: [u128; 16],
}

/// Implements one method: it does nothing, or lengthens the queue of its stream. Methods of the
/// class `value`, and those that the probe of peer access needs, are implemented below.
macro_rules! noop_method {
    ([enqueue($stream:ident)] memset_async($($rest:tt)*)) => {};
    ([enqueue($stream:ident)] copy_peer_async($($rest:tt)*)) => {};
    ([enqueue($stream:ident)] copy_device_to_host_async($($rest:tt)*)) => {};
    ([call] $name:ident($($arg:ident: $type:ty),*)) => {
        unsafe fn $name(&self, $(_: $type),*) -> Result<()> {
            Ok(())
        }
    };
    ([enqueue($stream:ident)] $name:ident($($arg:ident: $type:ty),*)) => {
        unsafe fn $name(&self, $($arg: $type),*) -> Result<()> {
            $(let _ = $arg;)*
            self.enqueue($stream)
        }
    };
    ([value] $($rest:tt)*) => {};
}

macro_rules! noop {
    ($($(#[$doc:meta])* [$kind:ident $class:ident $(($stream:ident))? $($optional:ident)?]
       fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $function:ident $call:tt;)*) => {
        $(noop_method!([$class $(($stream))?] $name($($arg: $type),*));)*
    };
}

impl Driver for NullDriver {
    fn name(&self) -> String {
        "no device".into()
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn driver_version(&self) -> Result<i32> {
        Ok(13_000)
    }

    fn device_count(&self) -> Result<i32> {
        Ok(2)
    }

    fn device_name(&self, _: DeviceOrdinal) -> Result<String> {
        Ok("no device".into())
    }

    fn device_total_bytes(&self, _: DeviceOrdinal) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn device_uuid(&self, device: DeviceOrdinal) -> Result<[u8; 16]> {
        Ok([device.as_raw() as u8; 16])
    }

    fn device_attribute(&self, _: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32> {
        Ok(match attribute {
            DeviceAttribute::MAX_BLOCK_DIM_Z => 64,
            DeviceAttribute::MAX_THREADS_PER_BLOCK
            | DeviceAttribute::MAX_BLOCK_DIM_X
            | DeviceAttribute::MAX_BLOCK_DIM_Y => 1024,
            DeviceAttribute::MANAGED_MEMORY => 0,
            DeviceAttribute::MEMORY_POOLS_SUPPORTED => 1,
            DeviceAttribute::COMPUTE_CAPABILITY_MAJOR => 9,
            DeviceAttribute::COMPUTE_CAPABILITY_MINOR => 0,
            _ => 65_535,
        })
    }

    fn device_pci_bus_id(&self, device: DeviceOrdinal) -> Result<String> {
        Ok(format!("0000:{:02x}:00.0", device.as_raw()))
    }

    fn device_can_access_peer(&self, _: DeviceOrdinal, _: DeviceOrdinal) -> Result<bool> {
        Ok(true)
    }

    fn device_p2p_attribute(
        &self,
        _: P2pAttribute,
        _: DeviceOrdinal,
        _: DeviceOrdinal,
    ) -> Result<i32> {
        Ok(0)
    }

    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        Ok(ContextHandle::from_raw(
            SOLE_HANDLE + device.as_raw() as usize,
        ))
    }

    unsafe fn stream_priority_range(&self, _: ContextHandle) -> Result<PriorityRange> {
        Ok(PriorityRange {
            least: 0,
            greatest: 0,
        })
    }

    unsafe fn stream_create(&self, _: ContextHandle, _: bool, _: i32) -> Result<StreamHandle> {
        let stream = self.streams.fetch_add(1, Relaxed) as usize;
        if stream >= STREAMS_MAX {
            return Err(DriverError::new("stream_create", ResultCode::OUT_OF_MEMORY));
        }
        Ok(StreamHandle::from_raw(FIRST_STREAM + stream))
    }

    unsafe fn stream_query(&self, _: ContextHandle, stream: StreamHandle) -> Result<Completion> {
        let stream = stream.as_raw() - FIRST_STREAM;
        Ok(self.completion(stream, self.enqueued[stream].load(Relaxed)))
    }

    unsafe fn event_create(&self, _: ContextHandle, _: EventKind) -> Result<EventHandle> {
        let free = self
            .free_events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.map(EventHandle::from_raw)
            .ok_or_else(|| DriverError::new("event_create", ResultCode::OUT_OF_MEMORY))
    }

    unsafe fn event_destroy(&self, _: ContextHandle, event: EventHandle) -> Result<()> {
        self.free_events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event.as_raw());
        Ok(())
    }

    unsafe fn event_record(
        &self,
        _: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        let stream = stream.as_raw() - FIRST_STREAM;
        let position = self.enqueued[stream].load(Relaxed);
        self.events[event.as_raw()].store((stream as u64) << POSITION_BITS | position, Relaxed);
        Ok(())
    }

    unsafe fn event_query(&self, _: ContextHandle, event: EventHandle) -> Result<Completion> {
        let point = self.events[event.as_raw()].load(Relaxed);
        Ok(self.completion(
            (point >> POSITION_BITS) as usize,
            point & ((1 << POSITION_BITS) - 1),
        ))
    }

    unsafe fn event_elapsed_ms(
        &self,
        _: ContextHandle,
        _: EventHandle,
        _: EventHandle,
    ) -> Result<f32> {
        Ok(0.0)
    }

    unsafe fn stream_context(&self, _: StreamHandle) -> Result<ContextHandle> {
        Ok(ContextHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn mem_info(&self, _: ContextHandle) -> Result<(u64, u64)> {
        Ok((u64::MAX, u64::MAX))
    }

    fn pointer_info(&self, _: DevicePtr) -> Result<Option<PointerInfo>> {
        Ok(None)
    }

    unsafe fn mem_alloc(&self, _: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        self.allocate(bytes)
    }

    unsafe fn mem_alloc_managed(&self, _: ContextHandle, _: usize) -> Result<DevicePtr> {
        Err(DriverError::new(
            "mem_alloc_managed",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    unsafe fn mem_alloc_async(
        &self,
        _: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        self.enqueue(stream)?;
        self.allocate(bytes)
    }

    fn default_pool(&self, _: DeviceOrdinal) -> Result<PoolHandle> {
        Ok(PoolHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn pool_usage(&self, _: PoolHandle) -> Result<PoolUsage> {
        Ok(PoolUsage::default())
    }

    /// Allocates memory that is never freed, because the program ends soon.
    unsafe fn host_alloc(&self, _: ContextHandle, bytes: usize) -> Result<NonNull<u8>> {
        let lines = vec![Line::default(); bytes.div_ceil(size_of::<Line>())];
        Ok(NonNull::from(Box::leak(lines.into_boxed_slice())).cast())
    }

    unsafe fn module_load(&self, _: ContextHandle, _: &[u8]) -> Result<ModuleHandle> {
        Ok(ModuleHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn module_function(
        &self,
        _: ContextHandle,
        _: ModuleHandle,
        _: &str,
    ) -> Result<FunctionHandle> {
        // Graphs find the parameters of a kernel by its handle.
        let handle = self.functions.fetch_add(1, Relaxed) as usize;
        Ok(FunctionHandle::from_raw(SOLE_HANDLE + handle))
    }

    unsafe fn module_global(
        &self,
        _: ContextHandle,
        _: ModuleHandle,
        _: &str,
    ) -> Result<(DevicePtr, usize)> {
        Err(DriverError::new("module_global", ResultCode::NOT_FOUND))
    }

    unsafe fn function_attribute(
        &self,
        _: ContextHandle,
        _: FunctionHandle,
        attribute: FunctionAttribute,
    ) -> Result<i32> {
        Ok(match attribute {
            FunctionAttribute::MAX_THREADS_PER_BLOCK => 1024,
            _ => 0,
        })
    }

    unsafe fn launch_host_function(
        &self,
        _: ContextHandle,
        stream: StreamHandle,
        function: HostFunction,
    ) -> Result<()> {
        function();
        self.enqueue(stream)
    }

    unsafe fn memset_async(
        &self,
        _: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        _: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        if let FillPattern::U32(word) = pattern {
            let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
            filled.insert(target.as_raw(), word);
        }
        self.enqueue(stream)
    }

    unsafe fn copy_peer_async(
        &self,
        _: ContextHandle,
        copy: &PeerCopy,
        stream: StreamHandle,
    ) -> Result<()> {
        self.copy_filled(copy.target, copy.source);
        self.enqueue(stream)
    }

    unsafe fn copy_device_to_host_async(
        &self,
        _: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&word) = filled.get(&source.as_raw()) {
            // SAFETY: the caller's memory at `target` has `bytes` bytes and no other user.
            let target = unsafe { std::slice::from_raw_parts_mut(target, bytes) };
            for bytes in target.chunks_exact_mut(size_of::<u32>()) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        }
        drop(filled);
        self.enqueue(stream)
    }

    unsafe fn graph_create(&self, _: ContextHandle) -> Result<GraphHandle> {
        Ok(GraphHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn graph_clone(&self, _: ContextHandle, _: GraphHandle) -> Result<GraphHandle> {
        Ok(GraphHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn graph_kernels(
        &self,
        _: ContextHandle,
        _: GraphHandle,
    ) -> Result<Option<Vec<GraphKernel>>> {
        Ok(None)
    }

    unsafe fn graph_add_node(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: &[GraphNodeHandle],
        _: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        Ok(GraphNodeHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn graph_condition(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: u32,
    ) -> Result<ConditionHandle> {
        Ok(ConditionHandle::from_raw(SOLE_HANDLE as u64))
    }

    unsafe fn graph_add_conditional(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: &[GraphNodeHandle],
        _: ConditionHandle,
        _: ConditionalKind,
    ) -> Result<ConditionalNode> {
        Ok(ConditionalNode {
            node: GraphNodeHandle::from_raw(SOLE_HANDLE),
            body: GraphHandle::from_raw(SOLE_HANDLE),
        })
    }

    unsafe fn graph_instantiate(
        &self,
        _: ContextHandle,
        _: GraphHandle,
    ) -> Result<GraphExecHandle> {
        Ok(GraphExecHandle::from_raw(SOLE_HANDLE))
    }

    unsafe fn stream_begin_capture(
        &self,
        _: ContextHandle,
        _: StreamHandle,
        _: CaptureMode,
    ) -> Result<()> {
        Err(DriverError::new(
            "stream_begin_capture",
            ResultCode::NOT_SUPPORTED,
        ))
    }

    unsafe fn stream_end_capture(&self, _: ContextHandle, _: StreamHandle) -> Result<GraphHandle> {
        Err(DriverError::new(
            "stream_end_capture",
            ResultCode::ILLEGAL_STATE,
        ))
    }

    unsafe fn stream_capture_info(&self, _: ContextHandle, _: StreamHandle) -> Result<CaptureInfo> {
        Ok(CaptureInfo {
            status: CaptureStatus::None,
            active: None,
        })
    }

    unsafe fn stream_set_capture_dependencies(
        &self,
        _: ContextHandle,
        _: StreamHandle,
        _: &[GraphNodeHandle],
    ) -> Result<()> {
        Err(DriverError::new(
            "stream_set_capture_dependencies",
            ResultCode::ILLEGAL_STATE,
        ))
    }

    driver_methods!(noop);
}
