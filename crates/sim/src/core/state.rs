//! The simulator state: the owner of all simulated objects. All changes happen under one lock, in
//! an order determined by the calls and the schedule alone.
//!
//! A call enqueues operations ([`SimState::enqueue`]). An operation whose predecessors are complete
//! is *eligible*. The schedule picks an eligible operation and runs it ([`SimState::run`], in
//! `execute.rs`), which has its whole effect at once and fixes its start and finish in virtual
//! time. [`SimState::retire`] then makes its successors eligible.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use millstream_driver::{
    ContextHandle, EventHandle, EventKind, FunctionHandle, GraphExecHandle, GraphHandle,
    GraphNodeHandle, ModuleHandle, PoolHandle, ResultCode, StreamHandle, printable,
};
use millstream_ptx::Site;

use super::{
    capture::{CapturedPoint, Captures},
    context::{Context, Device},
    engine::Engines,
    fault_injection::ActiveFault,
    gpu::RunningKernel,
    graph::{Executable, Graph},
    host_functions::HostFunctions,
    kernel_view::PrintfOutput,
    module::{Function, LoadedModule},
    op::StreamOp,
    pools::MemoryPool,
    schedule::Scheduler,
};
use crate::{
    Report, ReportKind, Severity, SimConfig, Span,
    exec::KernelStats,
    ids::{HandleAllocator, OpId},
    memory::MemoryMap,
    race::RaceChecker,
};

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: ContextHandle,
    pub(crate) non_blocking: bool,
    pub(crate) priority: i32,
    /// The latest finish time of the stream's complete operations.
    pub(crate) last_finish_ns: u64,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
    /// Set once the stream is destroyed; it stays until its operations are complete (rule 21).
    pub(crate) destroyed: bool,
    /// The pending operations without the nodes of graphs, oldest first.
    pub(crate) pending: VecDeque<OpId>,
    /// The pending operations that count towards the queue limit, oldest first (rule 54: enqueueing
    /// into a full queue blocks the host).
    pub(crate) queued: VecDeque<OpId>,
    /// The stream's part in a capture.
    pub(crate) capture: Option<CapturedPoint>,
}

impl Stream {
    /// Returns the last enqueued operation, while it is not complete.
    pub(crate) fn last(&self) -> Option<OpId> {
        self.pending.back().copied()
    }
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextHandle,
    pub(crate) kind: EventKind,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
    /// The last record, if the event was recorded.
    pub(crate) capture: Option<Capture>,
    /// The point of a capture that the last record captured, if it was on a capturing stream.
    pub(crate) captured: Option<CapturedPoint>,
}

/// A recorded point of a stream (rule 22: a record captures the stream's work at the time of the
/// call).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    /// The record operation.
    pub(crate) op: OpId,
    /// The finish time of the record, once complete.
    pub(crate) finish_ns: Option<u64>,
}

/// A host thread's wait for a set of operations.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The operations of the wait set.
    pub(crate) ops: Vec<OpId>,
    /// The number of operations that are not complete.
    pub(crate) unmet: usize,
    /// The latest finish time of the complete operations.
    pub(crate) finish_ns: u64,
}

/// An error returned by a driver call.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    pub(crate) code: ResultCode,
    pub(crate) detail: Option<String>,
    /// The node of a graph that the call failed at.
    pub(crate) graph_node: Option<GraphNodeHandle>,
}

impl CallError {
    pub(crate) fn new(code: ResultCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: Some(detail.into()),
            graph_node: None,
        }
    }

    /// Adds the node of a graph that the call failed at.
    pub(crate) fn at_node(self, node: GraphNodeHandle) -> Self {
        Self {
            graph_node: Some(node),
            ..self
        }
    }
}

/// The result of a driver call.
pub(crate) type CallResult<T> = Result<T, CallError>;

/// The simulator state.
pub(crate) struct SimState {
    pub(crate) config: SimConfig,
    /// The host clock, in nanoseconds of virtual time.
    pub(crate) now_ns: u64,
    /// The name of the driver function in progress.
    pub(crate) call: &'static str,
    /// The device of the context passed to the driver function.
    pub(crate) call_device: Option<u32>,
    /// A counter that rises whenever an operation is retired.
    pub(crate) progress: u64,
    /// The number of driver calls so far.
    pub(crate) calls: u64,
    pub(crate) handles: HandleAllocator,
    pub(crate) devices: Vec<Device>,
    pub(crate) pools: BTreeMap<PoolHandle, MemoryPool>,
    pub(crate) contexts: BTreeMap<ContextHandle, Context>,
    pub(crate) streams: BTreeMap<StreamHandle, Stream>,
    pub(crate) events: BTreeMap<EventHandle, Event>,
    pub(crate) modules: BTreeMap<ModuleHandle, Arc<LoadedModule>>,
    pub(crate) functions: BTreeMap<FunctionHandle, Function>,
    pub(crate) graphs: BTreeMap<GraphHandle, Graph>,
    pub(crate) executables: BTreeMap<GraphExecHandle, Executable>,
    /// The memory that graphs allocate (rule 45), by base address.
    pub(crate) graph_allocations: BTreeSet<u64>,
    pub(crate) captures: Captures,
    /// The number of conditions created for graphs so far.
    pub(crate) conditions_made: u64,
    pub(crate) memory: MemoryMap,
    pub(crate) ops: BTreeMap<OpId, StreamOp>,
    pub(crate) ops_enqueued: u64,
    /// The number of operations in `ops` that are nodes of graphs.
    pub(crate) node_ops: usize,
    /// The operations whose predecessors are complete.
    pub(crate) eligible: BTreeSet<OpId>,
    /// The waits of host threads, by id.
    pub(crate) waiters: BTreeMap<u64, Waiter>,
    pub(crate) waiters_made: u64,
    pub(crate) scheduler: Scheduler,
    pub(crate) host_functions: HostFunctions,
    /// The injected faults that are active.
    pub(crate) faults: Vec<ActiveFault>,
    /// The number of calls and contexts that injected faults have hit.
    pub(crate) faults_injected: u64,
    pub(crate) race_checker: RaceChecker,
    pub(crate) printf_output: PrintfOutput,
    /// The number of the race checker's findings that are already among the reports.
    pub(crate) findings_reported: usize,
    /// Set once a report says that some findings are only counted.
    pub(crate) omission_reported: bool,
    pub(crate) kernel_stats: KernelStats,
    pub(crate) running_kernel: Arc<RunningKernel>,
    pub(crate) reports: Vec<Report>,
    /// The notes about loaded modules, without duplicates.
    pub(crate) notes: Vec<String>,
    pub(crate) timeline: Vec<Span>,
}

impl SimState {
    pub(crate) fn new(config: SimConfig, scheduler: Scheduler) -> Self {
        let mut handles = HandleAllocator::new(config.devices);
        let mut pools = BTreeMap::new();
        let devices = (0..config.devices)
            .map(|device| {
                let pool = handles.next::<PoolHandle>();
                pools.insert(pool, MemoryPool::new(device, 0));
                Device {
                    default_pool: pool,
                    current_pool: pool,
                    non_pool_bytes: 0,
                    context: None,
                    references: 0,
                    engines: Engines::new(config.cost.resident_threads),
                }
            })
            .collect();
        Self {
            now_ns: 0,
            call: "",
            call_device: None,
            progress: 0,
            calls: 0,
            handles,
            devices,
            pools,
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            graph_allocations: BTreeSet::new(),
            captures: Captures::default(),
            conditions_made: 0,
            memory: MemoryMap::new(config.devices, config.poison_max_bytes),
            ops: BTreeMap::new(),
            ops_enqueued: 0,
            node_ops: 0,
            eligible: BTreeSet::new(),
            waiters: BTreeMap::new(),
            waiters_made: 0,
            scheduler,
            host_functions: HostFunctions::default(),
            faults: config
                .faults
                .iter()
                .cloned()
                .map(ActiveFault::new)
                .collect(),
            faults_injected: 0,
            race_checker: RaceChecker::new(&config),
            printf_output: PrintfOutput::default(),
            findings_reported: 0,
            omission_reported: false,
            kernel_stats: KernelStats::default(),
            running_kernel: Arc::default(),
            reports: Vec::new(),
            notes: Vec::new(),
            timeline: Vec::new(),
            config,
        }
    }

    /// Adds a report about the current call.
    pub(crate) fn report(&mut self, kind: ReportKind, text: String) {
        self.report_for_device(self.call_device, kind, text);
    }

    /// Adds a report, attributed to a device if one is given.
    pub(crate) fn report_for_device(
        &mut self,
        device: Option<u32>,
        kind: ReportKind,
        text: String,
    ) {
        self.reports.push(Report {
            kind,
            severity: Severity::Error,
            call: self.call,
            device: device.filter(|_| self.handles.has_several_devices()),
            text: printable(&text),
            time_ns: self.now_ns,
        });
    }

    /// Reports a violation of the caller's obligations and returns it as a call error.
    pub(crate) fn violation(
        &mut self,
        kind: ReportKind,
        code: ResultCode,
        text: String,
    ) -> CallError {
        self.report(kind, text.clone());
        CallError::new(code, text)
    }
}
