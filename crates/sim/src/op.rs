//! Operations: what a stream's queue holds.

use std::{fmt, sync::Arc};

use millstream_driver::{
    ContextHandle, EventHandle, HostFunction, LaunchDims, ManagedLocation, ModuleHandle, StreamHandle,
};
use smallvec::SmallVec;

use crate::{
    engine::Engine,
    ids::OpId,
    memory::host::HostRange,
    module::{LoadedModule, Mismatch},
    race::Site,
};

/// One operation that has not finished.
pub(crate) struct Op {
    pub(crate) stream: StreamHandle,
    pub(crate) context: ContextHandle,
    pub(crate) device: u32,
    pub(crate) kind: OpKind,
    /// The caller's label and source line, if there is one.
    pub(crate) site: Option<Site>,
    /// The operations that must be done first: the one before it in its stream, and those it was made to wait for.
    pub(crate) predecessors: SmallVec<[OpId; 2]>,
    /// How many of those are not done.
    pub(crate) unmet: usize,
    pub(crate) enqueued_ns: u64,
    /// When the last of the others was done; at least when it was enqueued.
    pub(crate) ready_ns: u64,
    /// Who is to be told when this one is done.
    pub(crate) successors: SmallVec<[Successor; 2]>,
}

/// Who waits for an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Successor {
    Op(OpId),
    Waiter(u64),
}

/// What an operation does.
pub(crate) enum OpKind {
    Kernel(Box<KernelLaunch>),
    Copy(Copy),
    Fill(Fill),
    Prefetch(Prefetch),
    Record(EventHandle),
    /// A wait for an event, or another point that only carries predecessors.
    Marker,
    /// `None` once it was handed to the callback thread.
    HostFunction(Option<HostFunction>),
    /// The life of pool memory begins.
    Allocation(u64),
    /// The life of an allocation ends.
    Free(u64),
    /// A test's gate; whether it was opened, and when.
    Hold(Option<u64>),
}

/// A kernel with its arguments.
pub(crate) struct KernelLaunch {
    pub(crate) module: Arc<LoadedModule>,
    pub(crate) module_handle: ModuleHandle,
    pub(crate) name: Arc<str>,
    pub(crate) dims: LaunchDims,
    pub(crate) params: Box<[u8]>,
    pub(crate) threads: u64,
    /// Floating-point accesses that do not fit the declared element types.
    pub(crate) mismatches: Arc<[Mismatch]>,
}

/// Where a copy reads.
#[derive(Debug)]
pub(crate) enum Source {
    /// An address of the map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory, read at call time (rules 8 and 10).
    Captured(Box<[u8]>),
    /// Pageable memory, read when the copy runs, while the caller is blocked (rule 11).
    Host(HostRange),
}

/// Where a copy writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// An address of the map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory.
    Host(HostRange),
}

/// Between which memories a copy goes, which decides its engine and speed. Managed memory counts as the device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    PinnedToDevice,
    PageableToDevice,
    DeviceToPinned,
    DeviceToPageable,
    WithinDevice,
    BetweenDevices,
    HostToHost,
}

/// A copy.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) source: Source,
    pub(crate) target: Target,
    pub(crate) rows: Rows,
    pub(crate) direction: Direction,
}

/// Which bytes a copy moves: `height` rows (not 0) of `width` bytes (not 0), on either side a pitch apart. A plain copy
/// is one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) width: u64,
    pub(crate) height: u64,
    pub(crate) source_pitch: u64,
    pub(crate) target_pitch: u64,
}

impl Rows {
    /// All the bytes together.
    pub(crate) fn one(bytes: u64) -> Self {
        Self {
            width: bytes,
            height: 1,
            source_pitch: bytes,
            target_pitch: bytes,
        }
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.width * self.height
    }

    /// From the first byte of the source to its last, what lies between rows included.
    pub(crate) fn source_span(&self) -> u64 {
        (self.height - 1) * self.source_pitch + self.width
    }

    /// From the first byte of the target to its last, what lies between rows included.
    pub(crate) fn target_span(&self) -> u64 {
        (self.height - 1) * self.target_pitch + self.width
    }

    /// Where each row begins, in the source and in the target.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self {
            source_pitch,
            target_pitch,
            ..
        } = *self;
        (0..self.height).map(move |row| (row * source_pitch, row * target_pitch))
    }
}

/// A move of managed memory to where it will be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefetch {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) location: ManagedLocation,
}

/// A fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) pattern: [u8; 4],
    pub(crate) pattern_bytes: usize,
}

/// An operation in a word.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Kernel(Arc<str>),
    Copy(Direction, Rows),
    Fill(u64),
    Prefetch(u64, ManagedLocation),
    Plain(&'static str),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(name) => write!(f, "kernel `{name}`"),
            Self::Copy(direction, rows) if rows.height > 1 => {
                write!(
                    f,
                    "copy ({direction:?}, {} rows of {} bytes)",
                    rows.height, rows.width
                )
            }
            Self::Copy(direction, rows) => write!(f, "copy ({direction:?}, {} bytes)", rows.bytes()),
            Self::Fill(bytes) => write!(f, "fill ({bytes} bytes)"),
            Self::Prefetch(bytes, ManagedLocation::Host) => write!(f, "prefetch ({bytes} bytes to the host)"),
            Self::Prefetch(bytes, ManagedLocation::Device(device)) => {
                write!(f, "prefetch ({bytes} bytes to device {})", device.as_raw())
            }
            Self::Plain(word) => f.write_str(word),
        }
    }
}

impl OpKind {
    /// The operation in a word, for reports.
    pub(crate) fn word(&self) -> Word {
        match self {
            Self::Kernel(launch) => Word::Kernel(Arc::clone(&launch.name)),
            Self::Copy(copy) => Word::Copy(copy.direction, copy.rows),
            Self::Fill(fill) => Word::Fill(fill.bytes),
            Self::Prefetch(prefetch) => Word::Prefetch(prefetch.bytes, prefetch.location),
            Self::Record(_) => Word::Plain("event record"),
            Self::Marker => Word::Plain("wait"),
            Self::HostFunction(_) => Word::Plain("host function"),
            Self::Allocation(_) => Word::Plain("allocation"),
            Self::Free(_) => Word::Plain("free"),
            Self::Hold(_) => Word::Plain("hold"),
        }
    }

    /// What the operation occupies; `bulk_threads` says how many threads a copy or fill takes.
    pub(crate) fn engine(&self, bulk_threads: impl Fn(u64) -> u64) -> Engine {
        match self {
            Self::Kernel(launch) => Engine::Compute(launch.threads),
            Self::Fill(fill) => Engine::Compute(bulk_threads(fill.bytes)),
            Self::Copy(copy) => match copy.direction {
                Direction::PinnedToDevice | Direction::PageableToDevice => Engine::Upload,
                Direction::DeviceToPinned | Direction::DeviceToPageable | Direction::BetweenDevices => {
                    Engine::Download
                }
                Direction::WithinDevice => Engine::Compute(bulk_threads(copy.rows.bytes())),
                Direction::HostToHost => Engine::None,
            },
            Self::Prefetch(prefetch) => match prefetch.location {
                ManagedLocation::Host => Engine::Download,
                ManagedLocation::Device(_) => Engine::Upload,
            },
            _ => Engine::None,
        }
    }
}
