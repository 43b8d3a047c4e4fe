//! Operations: the elements of a stream's queue.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU32},
};

use millstream_driver::{
    ContextHandle, EventHandle, GraphExecHandle, HostFunction, LaunchDims, ManagedLocation,
    ModuleHandle, StreamHandle,
};
use millstream_ptx::Site;
use smallvec::SmallVec;

use super::{
    engine::Engine,
    graph::{ConditionalOp, Conditions, NodePlace},
    module::LoadedModule,
    objects::device::Device,
};
use crate::{
    CostModel,
    ids::OpId,
    memory::{Direction, Rows, host::HostRange},
    race::{ElementMismatch, OperationSummary},
};

/// An enqueued operation that is not complete.
pub(crate) struct StreamOp {
    pub(crate) stream: StreamHandle,
    pub(crate) context: ContextHandle,
    pub(crate) device: u32,
    pub(crate) kind: OpKind,
    /// The place of the operation in a graph, for a node.
    pub(crate) node: Option<NodePlace>,
    /// The label and source line of the enqueueing call, if recorded.
    pub(crate) site: Option<Site>,
    /// The operations that must complete first: the preceding one in the stream, and the ones from
    /// waits and barriers.
    pub(crate) predecessors: SmallVec<[OpId; 2]>,
    /// The number of predecessors that are not complete.
    pub(crate) unmet: usize,
    /// The latest finish time of the complete predecessors; at least the time of the enqueueing
    /// call.
    pub(crate) ready_ns: u64,
    /// The operations and waiters to update at completion.
    pub(crate) successors: SmallVec<[Successor; 2]>,
}

/// A dependant of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Successor {
    /// A later operation.
    Op(OpId),
    /// A waiting host thread, by the id of its [`Waiter`](super::objects::stream::Waiter).
    Waiter(u64),
}

pub(crate) enum OpKind {
    Kernel(Box<KernelLaunch>),
    Copy(CopyOp),
    Fill(FillOp),
    Prefetch(PrefetchOp),
    Record(EventHandle),
    /// A wait for an event, or another operation that only has predecessors.
    Marker,
    /// The start of a graph's launch, which sets the conditions to their initial values.
    GraphStart(Arc<Conditions>),
    /// The end of a graph's launch.
    GraphEnd(GraphExecHandle),
    /// A conditional node with its body.
    Conditional(Box<ConditionalOp>),
    /// A host function; `None` once it is handed to the callback thread.
    HostFunction(Option<HostFunction>),
    /// The start of a pool allocation's lifetime, by base address.
    Allocation(u64),
    /// The end of an allocation's lifetime, by base address.
    Free(u64),
    /// The start of the lifetime of a graph's memory in one launch, by base address.
    GraphAllocation(u64),
    /// The end of the lifetime of a graph's memory until the next launch, by base address.
    GraphFree(u64),
    /// A hold of a test; the release time once released.
    Hold(Option<u64>),
}

#[derive(Clone)]
pub(crate) struct KernelLaunch {
    pub(crate) module: Arc<LoadedModule>,
    pub(crate) module_handle: ModuleHandle,
    pub(crate) name: Arc<str>,
    pub(crate) dims: LaunchDims,
    pub(crate) cooperative: bool,
    pub(crate) params: Box<[u8]>,
    pub(crate) threads: u64,
    /// The floating-point accesses that do not match the declared element types.
    pub(crate) mismatches: Arc<[ElementMismatch]>,
    /// The number of launches of the function that have run under the check for races.
    pub(crate) launches: Arc<AtomicU32>,
}

#[derive(Clone, Debug)]
pub(crate) enum CopySource {
    /// An address in the memory map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory, read at call time (rules 8 and 10: pageable sources are staged).
    Captured(Box<[u8]>),
    /// Pageable memory, read when the copy runs, while the caller is blocked (rule 11: a copy
    /// between host addresses is synchronous).
    Host(HostRange),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyTarget {
    /// An address in the memory map: device, page-locked or managed memory.
    Mapped(u64),
    /// Pageable memory.
    Host(HostRange),
}

#[derive(Clone, Debug)]
pub(crate) struct CopyOp {
    pub(crate) source: CopySource,
    pub(crate) target: CopyTarget,
    pub(crate) rows: Rows,
    pub(crate) direction: Direction,
}

/// A prefetch of managed memory to a device or the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefetchOp {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) location: ManagedLocation,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FillOp {
    pub(crate) target: u64,
    pub(crate) bytes: u64,
    pub(crate) pattern: [u8; 4],
    /// The length of the pattern: 1, 2 or 4 bytes.
    pub(crate) pattern_bytes: usize,
}

impl KernelLaunch {
    /// Returns whether the kernel is a wait of a stream for a value, which the drop-in driver
    /// makes.
    pub(crate) fn is_wait_for_value(&self) -> bool {
        self.name.starts_with("cuStreamWaitValue")
    }
}

impl OpKind {
    /// Returns a short description of the operation for reports.
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
            Self::GraphStart(_) | Self::GraphEnd(_) => OperationSummary::Plain("graph"),
            Self::Conditional(_) => OperationSummary::Plain("conditional node"),
            Self::HostFunction(_) => OperationSummary::Plain("host function"),
            Self::Allocation(_) | Self::GraphAllocation(_) => OperationSummary::Plain("allocation"),
            Self::Free(_) | Self::GraphFree(_) => OperationSummary::Plain("free"),
            Self::Hold(_) => OperationSummary::Plain("hold"),
        }
    }

    /// Returns whether the race checker tracks the operation. Markers, records and holds access no
    /// memory, and a prefetch changes no value (rule 51).
    pub(crate) fn accesses_memory(&self) -> bool {
        !matches!(
            self,
            Self::Marker
                | Self::Record(_)
                | Self::Hold(_)
                | Self::Prefetch(_)
                | Self::GraphStart(_)
                | Self::GraphEnd(_)
                | Self::Conditional(_)
        )
    }

    /// Returns whether the operation counts towards the stream's queue limit (rule 54: enqueueing
    /// into a full queue blocks the host). Records, waits, allocations and frees do not count.
    pub(crate) fn is_bounded(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Copy(_) | Self::Fill(_))
    }

    /// Returns the engine that the operation occupies on the stream's device. `bulk_threads` maps
    /// the bytes of a copy or fill to a thread count.
    fn engine(&self, device: u32, bulk_threads: impl Fn(u64) -> u64) -> Engine {
        match self {
            Self::Kernel(launch) => Engine::Compute(launch.threads),
            Self::Fill(fill) => Engine::Compute(bulk_threads(fill.bytes)),
            Self::Copy(copy) => match copy.direction {
                Direction::PinnedToDevice | Direction::PageableToDevice => Engine::Upload,
                Direction::DeviceToPinned | Direction::DeviceToPageable => Engine::Download,
                // A copy in each direction at the same time does not wait for the other.
                Direction::BetweenDevices { from, .. } if from != device => Engine::Upload,
                Direction::BetweenDevices { .. } => Engine::Download,
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

impl StreamOp {
    /// Returns a short description of the operation for reports, with its place in a graph.
    pub(crate) fn summary(&self) -> OperationSummary {
        let summary = self.kind.summary();
        match &self.node {
            Some(place) => place.summary(summary),
            None => summary,
        }
    }

    /// Returns the start time of an eligible operation if it ran next.
    pub(crate) fn start_ns(&self, cost: &CostModel, devices: &[Device]) -> u64 {
        let not_before_ns = match self.kind {
            OpKind::Hold(Some(released_ns)) => self.ready_ns.max(released_ns),
            OpKind::HostFunction(_) => self.ready_ns + cost.host_function_latency_ns,
            _ => self.ready_ns,
        };
        // Only the first engine may be the multiprocessors; a copy engine that is free at one time
        // is free at every later one.
        let engines = self.engines(|bytes| cost.bulk_threads(bytes)).into_iter();
        engines.fold(not_before_ns, |start_ns, (device, engine)| {
            let engines = &devices[device as usize].engines;
            engines.earliest_ns(engine, start_ns)
        })
    }

    /// Returns the engines that the operation occupies, each with its device: one of the stream's
    /// device, and for a copy from another device that device's copy engine too. `bulk_threads`
    /// maps the bytes of a copy or fill to a thread count.
    pub(crate) fn engines(
        &self,
        bulk_threads: impl Fn(u64) -> u64,
    ) -> SmallVec<[(u32, Engine); 2]> {
        let own = (self.device, self.kind.engine(self.device, bulk_threads));
        let source = match &self.kind {
            OpKind::Copy(CopyOp {
                direction: Direction::BetweenDevices { from, .. },
                ..
            }) if *from != self.device => Some((*from, Engine::Download)),
            _ => None,
        };
        std::iter::once(own).chain(source).collect()
    }
}

/// The work that has run so far.
///
/// ```
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// // A program that checks nothing has no kernels either.
/// assert!(gpu.with_work_done(|work| work.operations == 0 && work.launches.is_empty()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkDone {
    /// The number of kernels, copies, fills and prefetches. Nodes of graphs count once for each
    /// launch, and for each iteration of their loop.
    pub operations: u64,
    /// The number of launches of each kernel, by its name in the PTX.
    pub launches: BTreeMap<Arc<str>, u64>,
}

impl WorkDone {
    pub(crate) fn add(&mut self, kind: &OpKind) {
        match kind {
            OpKind::Kernel(launch) => match self.launches.get_mut(&launch.name) {
                Some(count) => *count += 1,
                None => drop(self.launches.insert(Arc::clone(&launch.name), 1)),
            },
            OpKind::Copy(_) | OpKind::Fill(_) | OpKind::Prefetch(_) => {}
            _ => return,
        }
        self.operations += 1;
    }
}

/// A completed operation in the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The operation's number; numbers rise from 1 in the order of enqueueing.
    pub operation: u64,
    /// The operation's stream.
    pub stream: StreamHandle,
    /// The device index, from 0.
    pub device: u32,
    /// A short description of the operation.
    pub what: String,
    /// The start, in nanoseconds of virtual time.
    pub start_ns: u64,
    /// The finish, in nanoseconds of virtual time.
    pub finish_ns: u64,
}

impl Span {
    /// Returns whether the two operations overlap in virtual time.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start_ns < other.finish_ns && other.start_ns < self.finish_ns
    }
}
