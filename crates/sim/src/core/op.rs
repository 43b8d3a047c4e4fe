//! Operations: what a stream's queue holds.

use std::sync::Arc;

use millstream_driver::{
    ContextHandle, EventHandle, HostFunction, LaunchDims, ManagedLocation, ModuleHandle,
    StreamHandle,
};
use millstream_ptx::Site;
use smallvec::SmallVec;

use super::{engine::Engine, module::LoadedModule};
use crate::{
    ids::OpId,
    memory::{Direction, Rows, host::HostRange},
    race::{ElementMismatch, OperationSummary},
};

/// One operation that has not finished.
pub(crate) struct StreamOp {
    pub(crate) stream: StreamHandle,
    pub(crate) context: ContextHandle,
    pub(crate) device: u32,
    pub(crate) kind: OpKind,
    /// The caller's label and source line, if there is one.
    pub(crate) site: Option<Site>,
    /// The operations that must be done first: the one before it in its stream, and those it was
    /// made to wait for.
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
    Copy(CopyOp),
    Fill(FillOp),
    Prefetch(PrefetchOp),
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
    pub(crate) mismatches: Arc<[ElementMismatch]>,
}

/// Where a copy reads.
#[derive(Debug)]
pub(crate) enum CopySource {
    /// An address of the map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory, read at call time (rules 8 and 10).
    Captured(Box<[u8]>),
    /// Pageable memory, read when the copy runs, while the caller is blocked (rule 11).
    Host(HostRange),
}

/// Where a copy writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyTarget {
    /// An address of the map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory.
    Host(HostRange),
}

/// A copy.
#[derive(Debug)]
pub(crate) struct CopyOp {
    pub(crate) source: CopySource,
    pub(crate) target: CopyTarget,
    pub(crate) rows: Rows,
    pub(crate) direction: Direction,
}

/// A move of managed memory to where it will be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchOp {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) location: ManagedLocation,
}

/// A fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillOp {
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) pattern: [u8; 4],
    pub(crate) pattern_bytes: usize,
}

impl OpKind {
    /// The operation in a word, for reports.
    pub(crate) fn summary(&self) -> OperationSummary {
        match self {
            Self::Kernel(launch) => OperationSummary::Kernel(Arc::clone(&launch.name)),
            Self::Copy(copy) => OperationSummary::Copy(copy.direction, copy.rows),
            Self::Fill(fill) => OperationSummary::Fill(fill.bytes),
            Self::Prefetch(prefetch) => {
                OperationSummary::Prefetch(prefetch.bytes, prefetch.location)
            }
            Self::Record(_) => OperationSummary::Plain("event record"),
            Self::Marker => OperationSummary::Plain("wait"),
            Self::HostFunction(_) => OperationSummary::Plain("host function"),
            Self::Allocation(_) => OperationSummary::Plain("allocation"),
            Self::Free(_) => OperationSummary::Plain("free"),
            Self::Hold(_) => OperationSummary::Plain("hold"),
        }
    }

    /// Whether the race checker has to know of the operation. Markers, records and holds touch
    /// nothing, and a prefetch changes nothing (rule 51).
    pub(crate) fn accesses_memory(&self) -> bool {
        !matches!(
            self,
            Self::Marker | Self::Record(_) | Self::Hold(_) | Self::Prefetch(_)
        )
    }

    /// Whether the operation counts towards the bound of a queue (rule 54). Records, waits,
    /// allocations and frees do not.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Copy(_) | Self::Fill(_))
    }

    /// What the operation occupies; `bulk_threads` says how many threads a copy or fill takes.
    pub(crate) fn engine(&self, bulk_threads: impl Fn(u64) -> u64) -> Engine {
        match self {
            Self::Kernel(launch) => Engine::Compute(launch.threads),
            Self::Fill(fill) => Engine::Compute(bulk_threads(fill.bytes)),
            Self::Copy(copy) => match copy.direction {
                Direction::PinnedToDevice | Direction::PageableToDevice => Engine::Upload,
                Direction::DeviceToPinned
                | Direction::DeviceToPageable
                | Direction::BetweenDevices => Engine::Download,
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

/// One operation that has run: a bar of the timeline.
///
/// ```
/// # use millstream_sim::{Gpu, SimConfig};
/// assert!(Gpu::new(SimConfig::new().timeline(true)).timeline().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The operation's number; they rise from 1 in the order of enqueueing.
    pub operation: u64,
    /// The stream.
    pub stream: StreamHandle,
    /// The device, from 0.
    pub device: u32,
    /// What it did, in a few words.
    pub what: String,
    /// When it started.
    pub start_ns: u64,
    /// When it finished.
    pub finish_ns: u64,
}

impl Span {
    /// Whether the two ran at the same time for a while.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start_ns < other.finish_ns && other.start_ns < self.finish_ns
    }
}
