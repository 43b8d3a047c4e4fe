//! A driver that does nothing and reports two devices. Every call succeeds at once and moves no
//! data, so the measured time is Millstream's own. It stores only the word with which each address
//! was last filled, which the probe of peer access compares.

#![allow(unsafe_code, reason = "implements unsafe methods that require nothing")]

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

/// The answer of a method that has nothing to answer.
trait Answer: Sized {
    fn answer() -> Self;
}

macro_rules! answers {
    ($($type:ty: $answer:expr;)*) => {
        $(impl Answer for $type {
            fn answer() -> Self {
                $answer
            }
        })*
    };
}

answers! {
    (): ();
    bool: true;
    i32: 0;
    f32: 0.0;
    u64: u64::MAX;
    (u64, u64): (u64::MAX, u64::MAX);
    String: "no device".into();
    PriorityRange: PriorityRange { least: 0, greatest: 0 };
    PoolUsage: PoolUsage::default();
    CaptureInfo: CaptureInfo { status: CaptureStatus::None, active: None };
    ContextHandle: Self::from_raw(SOLE_HANDLE);
    PoolHandle: Self::from_raw(SOLE_HANDLE);
    ModuleHandle: Self::from_raw(SOLE_HANDLE);
    GraphHandle: Self::from_raw(SOLE_HANDLE);
    GraphNodeHandle: Self::from_raw(SOLE_HANDLE);
    GraphExecHandle: Self::from_raw(SOLE_HANDLE);
    ConditionHandle: Self::from_raw(SOLE_HANDLE as u64);
    ConditionalNode: Self { node: Answer::answer(), body: Answer::answer() };
}

impl<T> Answer for Option<T> {
    fn answer() -> Self {
        None
    }
}

/// Implements one method: it answers nothing, refuses, or lengthens the queue of its stream.
macro_rules! method {
    // These are implemented by hand.
    (driver_version $($rest:tt)*) => {};
    (device_count $($rest:tt)*) => {};
    (device_uuid $($rest:tt)*) => {};
    (device_attribute $($rest:tt)*) => {};
    (device_pci_bus_id $($rest:tt)*) => {};
    (primary_context_retain $($rest:tt)*) => {};
    (stream_create $($rest:tt)*) => {};
    (stream_query $($rest:tt)*) => {};
    (event_create $($rest:tt)*) => {};
    (event_destroy $($rest:tt)*) => {};
    (event_record $($rest:tt)*) => {};
    (event_query $($rest:tt)*) => {};
    (mem_alloc $($rest:tt)*) => {};
    (mem_alloc_async $($rest:tt)*) => {};
    (host_alloc $($rest:tt)*) => {};
    (module_function $($rest:tt)*) => {};
    (function_attribute $($rest:tt)*) => {};
    (launch_host_function $($rest:tt)*) => {};
    (memset_async $($rest:tt)*) => {};
    (copy_peer_async $($rest:tt)*) => {};
    (copy_device_to_host_async $($rest:tt)*) => {};
    // These are not supported.
    (mem_alloc_managed $($rest:tt)*) => {
        method! { @err NOT_SUPPORTED mem_alloc_managed $($rest)* }
    };
    (module_global $($rest:tt)*) => { method! { @err NOT_FOUND module_global $($rest)* } };
    (stream_begin_capture $($rest:tt)*) => {
        method! { @err NOT_SUPPORTED stream_begin_capture $($rest)* }
    };
    (stream_end_capture $($rest:tt)*) => {
        method! { @err ILLEGAL_STATE stream_end_capture $($rest)* }
    };
    (stream_set_capture_dependencies $($rest:tt)*) => {
        method! { @err ILLEGAL_STATE stream_set_capture_dependencies $($rest)* }
    };
    (@err $code:ident $name:ident [unsafe value] ($($arg:ident: $type:ty),*) -> $value:ty) => {
        unsafe fn $name(&self, $(_: $type),*) -> Result<$value> {
            Err(DriverError::new(stringify!($name), ResultCode::$code))
        }
    };
    ($name:ident [$kind:ident value optional] $($rest:tt)*) => {};
    ($name:ident [safe $class:ident] ($($arg:ident: $type:ty),*) -> $value:ty) => {
        fn $name(&self, $(_: $type),*) -> Result<$value> {
            Ok(Answer::answer())
        }
    };
    ($name:ident [unsafe $class:ident] ($($arg:ident: $type:ty),*) -> $value:ty) => {
        unsafe fn $name(&self, $(_: $type),*) -> Result<$value> {
            Ok(Answer::answer())
        }
    };
    ($name:ident [unsafe enqueue($stream:ident) $($optional:ident)?]
     ($($arg:ident: $type:ty),*) -> $value:ty) => {
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(let _ = $arg;)*
            self.enqueue($stream)
        }
    };
}

/// Implements the methods of the table.
macro_rules! implement {
    ($($(#[$doc:meta])* [$($class:tt)*]
       fn $name:ident $arguments:tt -> $value:ty = $function:ident $call:tt;)*) => {
        $(method! { $name [$($class)*] $arguments -> $value })*
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

    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        Ok(ContextHandle::from_raw(
            SOLE_HANDLE + device.as_raw() as usize,
        ))
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

    unsafe fn mem_alloc(&self, _: ContextHandle, bytes: usize) -> Result<DevicePtr> {
        self.allocate(bytes)
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

    /// Allocates memory that is never freed, because the program ends soon.
    unsafe fn host_alloc(&self, _: ContextHandle, bytes: usize) -> Result<NonNull<u8>> {
        let lines = vec![Line::default(); bytes.div_ceil(size_of::<Line>())];
        Ok(NonNull::from(Box::leak(lines.into_boxed_slice())).cast())
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

    driver_methods!(implement);
}
