//! The simulator state: the owner of all simulated objects. All changes happen under one lock, in
//! an order determined by the calls and the schedule alone.
//!
//! A call enqueues operations ([`SimState::enqueue`]). An operation whose predecessors are complete
//! is *eligible*. The schedule picks an eligible operation and runs it ([`SimState::run`], in
//! `execute.rs`), which has its whole effect at once and fixes its start and finish in virtual
//! time. [`SimState::retire`] then makes its successors eligible.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Instant,
};

use millstream_driver::{
    ContextHandle, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, ModuleHandle,
    PoolHandle, ResultCode, StreamHandle, printable,
};
use parking_lot::Mutex;

use super::{
    call_error::CallError,
    engine::Engines,
    graph::{Executable, Graph},
    module::{Function, LoadedModule},
    objects::{
        captures::Captures,
        device::{Context, Device},
        fault::ActiveFault,
        host_functions::HostFunctions,
        image::Images,
        pool::MemoryPool,
        stream::{Event, Stream, Waiter},
        waiting::WaitingKernel,
    },
    op::{StreamOp, WorkDone},
    printf_output::PrintfOutput,
    profile::Profile,
    schedule::Scheduler,
};
use crate::{
    Report, ReportKind, Severity, SimConfig, Span,
    exec::KernelStats,
    ids::{HandleAllocator, OpId},
    memory::MemoryMap,
    race::RaceChecker,
};

/// The kernel that runs, for threads that must not wait for it.
#[derive(Default)]
pub(crate) struct KernelProgress {
    /// Its name, its number of blocks, and the time of its start.
    pub(crate) kernel: Mutex<Option<(Arc<str>, u64, Instant)>>,
    pub(crate) blocks_done: AtomicU64,
    /// Whether it waits for a write to memory.
    pub(crate) waits: AtomicBool,
}

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
    pub(crate) images: Images,
    pub(crate) memory: MemoryMap,
    pub(crate) ops: BTreeMap<OpId, StreamOp>,
    pub(crate) ops_enqueued: u64,
    /// The number of operations in `ops` that are nodes of graphs.
    pub(crate) node_ops: usize,
    /// The operations whose predecessors are complete.
    pub(crate) eligible: BTreeSet<OpId>,
    /// The kernels that have started and wait for a write. Those that are woken are eligible too.
    pub(crate) waiting: BTreeMap<OpId, Box<WaitingKernel>>,
    /// The kernels that are reported to rely on another one at the same time.
    pub(crate) reliances: BTreeSet<Arc<str>>,
    /// The numbers of calls and of progress when a kernel was found that nothing can wake. It fails
    /// if they are the same at the next look.
    pub(crate) suspected: Option<(u64, u64)>,
    /// The threads that have called the driver.
    pub(crate) callers: BTreeSet<u32>,
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
    pub(crate) printf_output: Arc<PrintfOutput>,
    /// The number of the race checker's findings that are already among the reports.
    pub(crate) findings_reported: usize,
    /// Set once a report says that some findings are only counted.
    pub(crate) omission_reported: bool,
    pub(crate) kernel_stats: KernelStats,
    pub(crate) work_done: WorkDone,
    /// The time of its creation.
    pub(crate) created: Instant,
    /// The real time that operations have taken, if the configuration asks for it.
    pub(crate) profile: Profile,
    pub(crate) running_kernel: Arc<KernelProgress>,
    pub(crate) reports: Vec<Report>,
    /// Gets each report in the place of `reports`.
    pub(crate) on_report: Option<OnReport>,
    /// The notes about loaded modules, without duplicates.
    pub(crate) notes: Vec<String>,
    pub(crate) timeline: Vec<Span>,
}

/// The caller's function for reports.
pub(crate) type OnReport = Box<dyn FnMut(Report) + Send>;

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
            images: Images::default(),
            memory: MemoryMap::new(config.devices, {
                let device = config.poison_max_bytes;
                [device, if config.poison_host_memory { device } else { 0 }]
            }),
            ops: BTreeMap::new(),
            ops_enqueued: 0,
            node_ops: 0,
            eligible: BTreeSet::new(),
            waiting: BTreeMap::new(),
            reliances: BTreeSet::new(),
            suspected: None,
            callers: BTreeSet::new(),
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
            printf_output: Arc::default(),
            findings_reported: 0,
            omission_reported: false,
            kernel_stats: KernelStats::default(),
            work_done: WorkDone::default(),
            created: Instant::now(),
            profile: Profile::default(),
            running_kernel: Arc::default(),
            reports: Vec::new(),
            on_report: None,
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
        self.add_report(Report {
            kind,
            severity: Severity::Error,
            call: self.call,
            device: device.filter(|_| self.handles.has_several_devices()),
            text: printable(&text),
            time_ns: self.now_ns,
        });
    }

    pub(crate) fn add_report(&mut self, report: Report) {
        match &mut self.on_report {
            Some(on_report) => on_report(report),
            None => self.reports.push(report),
        }
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
