//! Simulator state: the one owner of all simulated objects. Everything in it happens under one
//! lock, in an order that only the calls and the schedule decide.
//!
//! A call enqueues operations ([`SimState::enqueue`]). An operation whose predecessors are done is
//! *eligible*. The schedule picks when an eligible operation runs ([`SimState::run`], in
//! `execute.rs`); running it has its whole effect at once and fixes its place in virtual time.
//! [`SimState::retire`] then tells its successors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millstream_driver::{
    ContextHandle, EventHandle, EventKind, FunctionHandle, ModuleHandle, PoolHandle, ResultCode,
    StreamHandle,
};
use millstream_ptx::Site;

use super::{
    context::{Context, Device},
    engine::Engines,
    fault_injection::ActiveFault,
    host_functions::HostFunctions,
    kernel_view::PrintfOutput,
    module::{Function, LoadedModule},
    op::StreamOp,
    schedule::Scheduler,
};
use crate::{
    Report, ReportKind, Severity, SimConfig, Span,
    exec::KernelStats,
    ids::{HandleAllocator, OpId},
    memory::{MemoryMap, pool::Pool},
    race::RaceChecker,
};

/// A stream's queue, seen from its end.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: ContextHandle,
    pub(crate) non_blocking: bool,
    pub(crate) priority: i32,
    /// The last operation, while it is not done.
    pub(crate) last: Option<OpId>,
    /// When the last operation that is done was done.
    pub(crate) last_finish_ns: u64,
    /// The caller's label and source line at its creation, if there is one.
    pub(crate) site: Option<Site>,
    /// Given up; stays until its work is done (rule 21).
    pub(crate) destroyed: bool,
    /// The operations that its queue's bound is about, oldest first (rule 54).
    pub(crate) queued: VecDeque<OpId>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextHandle,
    pub(crate) kind: EventKind,
    /// The caller's label and source line at its creation, if there is one.
    pub(crate) site: Option<Site>,
    pub(crate) capture: Option<Capture>,
}

/// What an event captured (rule 22).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    pub(crate) op: OpId,
    /// When the record was done, once it is.
    pub(crate) finish_ns: Option<u64>,
}

/// A host thread's wait for operations.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ops: Vec<OpId>,
    pub(crate) unmet: usize,
    pub(crate) finish_ns: u64,
}

/// A call error: what the driver returns.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    pub(crate) code: ResultCode,
    pub(crate) detail: Option<String>,
}

impl CallError {
    pub(crate) fn new(code: ResultCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: Some(detail.into()),
        }
    }
}

pub(crate) type CallResult<T> = Result<T, CallError>;

/// All simulated state.
pub(crate) struct SimState {
    pub(crate) config: SimConfig,
    pub(crate) now_ns: u64,
    /// The driver function at work.
    pub(crate) call: &'static str,
    /// The device of the context that the driver function was given.
    pub(crate) call_device: Option<u32>,
    /// Rises whenever an operation runs or starts.
    pub(crate) progress: u64,
    /// How many calls there were.
    pub(crate) calls: u64,
    pub(crate) handles: HandleAllocator,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: BTreeMap<ContextHandle, Context>,
    pub(crate) streams: BTreeMap<StreamHandle, Stream>,
    pub(crate) events: BTreeMap<EventHandle, Event>,
    pub(crate) modules: BTreeMap<ModuleHandle, std::sync::Arc<LoadedModule>>,
    pub(crate) functions: BTreeMap<FunctionHandle, Function>,
    pub(crate) memory: MemoryMap,
    pub(crate) ops: BTreeMap<OpId, StreamOp>,
    pub(crate) ops_enqueued: u64,
    pub(crate) eligible: BTreeSet<OpId>,
    pub(crate) waiters: BTreeMap<u64, Waiter>,
    pub(crate) waiters_made: u64,
    pub(crate) scheduler: Scheduler,
    pub(crate) host_functions: HostFunctions,
    /// Faults at work, and how many calls or contexts they hit.
    pub(crate) faults: Vec<ActiveFault>,
    pub(crate) faults_injected: u64,
    pub(crate) race_checker: RaceChecker,
    pub(crate) printf_output: PrintfOutput,
    /// How many of the checker's findings are among the reports.
    pub(crate) findings_reported: usize,
    pub(crate) kernel_stats: KernelStats,
    pub(crate) reports: Vec<Report>,
    /// Remarks about the modules that were loaded, each once.
    pub(crate) notes: Vec<String>,
    pub(crate) timeline: Vec<Span>,
}

impl SimState {
    pub(crate) fn new(config: SimConfig, scheduler: Scheduler) -> Self {
        let mut handles = HandleAllocator::new(config.devices);
        let devices = (0..config.devices)
            .map(|_| Device {
                pool_handle: handles.next::<PoolHandle>(),
                pool: Pool::default(),
                non_pool_bytes: 0,
                context: None,
                references: 0,
                engines: Engines::new(config.cost.resident_threads),
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
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            memory: MemoryMap::new(config.devices, config.poison_max_bytes),
            ops: BTreeMap::new(),
            ops_enqueued: 0,
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
            kernel_stats: KernelStats::default(),
            reports: Vec::new(),
            notes: Vec::new(),
            timeline: Vec::new(),
            config,
        }
    }

    /// Adds a report about the call.
    pub(crate) fn report(&mut self, kind: ReportKind, text: String) {
        self.report_for_device(self.call_device, kind, text);
    }

    /// Adds a report about a device.
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
            text,
            time_ns: self.now_ns,
        });
    }

    /// Reports a violation of the caller's obligations and makes the call error.
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
