//! Execution of eligible operations: the whole effect at once, and the start and finish in virtual
//! time.

use std::{
    mem,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use millstream_driver::{ManagedLocation, ResultCode};
use parking_lot::Mutex;

use super::{
    objects::waiting::{KernelRecord, WaitingKernel},
    op::{CopyOp, CopySource, CopyTarget, FillOp, KernelLaunch, OpKind, PrefetchOp, StreamOp},
    peers::Reach,
    profile::{CHECKS, COPIES},
    state::SimState,
};
use crate::{
    PeerPool, ReportKind, Span,
    exec::{self, CheckOptions, GridStatus, KernelFault, KernelOrder, WaitingGrid},
    ids::OpId,
    memory::{AccessError, Direction, HeapChanges},
    race::Effect,
};

/// The number of launches of a function that are run again to try repairs of races within them. It
/// costs a copy of the memory that the kernel accesses.
const TRIED_LAUNCHES: u32 = 2;

/// The failure of an operation; it loses the operation's context.
pub(super) struct OpFailure {
    pub(super) kind: ReportKind,
    pub(super) code: ResultCode,
    pub(super) text: String,
    pub(super) fault: Option<Box<KernelFault>>,
}

impl OpFailure {
    /// Creates the failure of a memory access by a copy, fill or prefetch. The `verb` names the
    /// access.
    fn access(verb: &str, error: AccessError) -> Self {
        Self {
            kind: ReportKind::CopyFault,
            code: ResultCode::ILLEGAL_ADDRESS,
            text: format!("a {verb} failed: {error}"),
            fault: None,
        }
    }
}

/// The result of an operation's effect.
pub(super) enum Effected {
    /// It is complete, after this duration on the device in nanoseconds.
    Took(u64),
    /// It is a kernel that waits.
    Waits(Box<WaitingKernel>),
}

impl SimState {
    /// Runs an eligible operation. A host function is only started: it runs and finishes on the
    /// callback thread.
    pub(crate) fn run(&mut self, id: OpId) {
        self.eligible.remove(&id);
        let Some(mut op) = self.ops.remove(&id) else {
            return;
        };
        let waited = self.waiting.remove(&id);
        let start_ns = match &waited {
            Some(waited) => waited.start_ns,
            None => op.start_ns(&self.config.cost, &self.devices),
        };
        if let OpKind::HostFunction(function) = &mut op.kind {
            if let Some(function) = function.take() {
                self.host_functions.start(id, function);
            }
            op.ready_ns = start_ns;
            self.ops.insert(id, op);
            return;
        }
        let asleep = self.asleep_and_unwritten();
        let mut effects = self.effects_of(&op.kind);
        let outcome = match (&op.kind, waited) {
            (OpKind::Kernel(launch), Some(waited)) => {
                self.kernel_effect(id, &op, launch, Some(waited), &mut effects)
            }
            (kind, _) => self.effect(id, &op, kind, &mut effects),
        };
        // Another kernel may poll what this operation has written.
        let writer = (!asleep.is_empty()).then(|| op.describe(id));
        let elapsed_ns = match outcome {
            Ok(Effected::Waits(waiting)) => {
                let elapsed_ns = waiting.elapsed_ns;
                self.suspend(id, op, waiting, start_ns);
                elapsed_ns
            }
            outcome => {
                let timer = self.timer();
                self.race_done(id, effects);
                self.spent(timer, CHECKS, 0);
                let (duration_ns, failure) = match outcome {
                    Ok(Effected::Took(duration_ns)) => (duration_ns, None),
                    Ok(Effected::Waits(_)) => (0, None),
                    Err(failure) => (0, Some(failure)),
                };
                self.finish(id, op, start_ns, duration_ns, failure);
                duration_ns
            }
        };
        if let Some(writer) = writer {
            self.wake_after(asleep, &writer, start_ns.saturating_add(elapsed_ns));
        }
    }

    /// Completes the host function of operation `id` after the callback thread has run it.
    pub(crate) fn host_function_returned(&mut self, id: OpId) {
        self.host_functions.running -= 1;
        // The operation is gone if the context was lost meanwhile.
        if let Some(op) = self.ops.remove(&id) {
            let start_ns = op.ready_ns;
            self.race_done(id, vec![Effect::Output]);
            self.finish(id, op, start_ns, self.config.cost.host_function_ns, None);
        }
    }

    /// Retires an operation: occupies its engine, adds it to the timeline, and on a failure loses
    /// its context and reports the cause.
    pub(super) fn finish(
        &mut self,
        id: OpId,
        op: StreamOp,
        start_ns: u64,
        duration_ns: u64,
        failure: Option<OpFailure>,
    ) {
        let finish_ns = start_ns.saturating_add(duration_ns);
        for (device, engine) in op.engines(|bytes| self.config.cost.bulk_threads(bytes)) {
            self.devices[device as usize]
                .engines
                .occupy(engine, finish_ns);
        }
        if self.config.timeline {
            self.timeline.push(Span {
                operation: id.0,
                stream: op.stream,
                device: op.device,
                what: op.summary().to_string(),
                start_ns,
                finish_ns,
            });
        }
        let (context, device) = (op.context, op.device);
        let described = failure.is_some().then(|| op.describe(id));
        self.retire(id, op, finish_ns);
        if let (Some(failure), Some(described)) = (failure, described) {
            let text = format!("{described}: {}", failure.text);
            if !self.config.keep_going || failure.kind != ReportKind::KernelFault {
                self.lose_context(context, failure.code, &text);
            }
            self.report_for_device(Some(device), failure.kind, text);
        }
    }

    /// Executes the effect of `kind`, which is the operation's own or a node in the operation's
    /// body.
    pub(super) fn effect(
        &mut self,
        id: OpId,
        op: &StreamOp,
        kind: &OpKind,
        effects: &mut Vec<Effect>,
    ) -> Result<Effected, OpFailure> {
        self.work_done.add(kind);
        let timer = self.timer();
        let duration_ns = match kind {
            OpKind::Kernel(launch) => {
                return self.kernel_effect(id, op, launch, None, effects);
            }
            OpKind::Copy(_) | OpKind::Fill(_) => {
                let parts = self.parts_of(kind);
                let parts = parts.as_deref().unwrap_or(std::slice::from_ref(kind));
                let run = |part: &OpKind| match part {
                    OpKind::Copy(copy) => self.run_copy(id, op, copy),
                    OpKind::Fill(fill) => self.run_fill(id, op, fill),
                    _ => Ok(0),
                };
                parts.iter().map(run).sum()
            }
            OpKind::Prefetch(prefetch) => self.run_prefetch(id, prefetch),
            OpKind::Allocation(base) => {
                self.memory.begin(*base);
                Ok(0)
            }
            OpKind::Free(base) => {
                self.end_allocation(*base, Some(id));
                Ok(0)
            }
            OpKind::GraphStart(conditions) => {
                conditions.reset();
                Ok(self.config.cost.graph_latency_ns)
            }
            OpKind::Conditional(conditional) => self.run_conditional(id, op, conditional),
            // The memory is there from the capture to the end of the graph; its lifetimes concern
            // the race checker alone.
            OpKind::GraphAllocation(_)
            | OpKind::GraphFree(_)
            | OpKind::Record(_)
            | OpKind::Marker
            | OpKind::Hold(_)
            | OpKind::HostFunction(_)
            | OpKind::GraphEnd(_) => Ok(0),
        };
        if matches!(kind, OpKind::Copy(_) | OpKind::Fill(_)) {
            self.spent(timer, COPIES, 0);
        }
        duration_ns.map(Effected::Took)
    }

    /// Runs a kernel, or goes on with one that has waited.
    fn kernel_effect(
        &mut self,
        id: OpId,
        op: &StreamOp,
        launch: &KernelLaunch,
        waited: Option<Box<WaitingKernel>>,
        effects: &mut Vec<Effect>,
    ) -> Result<Effected, OpFailure> {
        let mut waiting = waited.unwrap_or_default();
        let grid = waiting.grid.take();
        let accessed = self.race_checker.is_on();
        let accessed = accessed.then(|| Mutex::new(self.go_on_recording(&mut waiting.record)));
        let timer = self.timer();
        let record = &mut waiting.record;
        let (outcome, heap) = self.run_kernel((id, op), launch, grid, accessed.as_ref(), record);
        let instructions = match &outcome {
            Ok(GridStatus::Ended(stats)) => stats.thread_instructions,
            _ => 0,
        };
        self.spent(timer, &launch.name, instructions);
        if matches!(outcome, Ok(GridStatus::Waiting(_)))
            && let Some(row) = self.profile.rows.get_mut(&launch.name)
        {
            // It counts once it has ended.
            row.count -= 1;
        }
        let changed = self.memory.change_heap(heap);
        for (all, new) in waiting.record.heap.iter_mut().zip(changed) {
            all.extend(new);
        }
        let outcome = outcome.map_err(|fault| self.explain_fault(id, op.device, launch, fault));
        if self.config.peer_pool == PeerPool::Zeros {
            self.memory.close_holes();
        }
        let accessed = accessed.map(Mutex::into_inner).unwrap_or_default();
        self.pause_recording(&mut waiting.record, accessed);
        let in_graph = op.node.is_some();
        let cost = &self.config.cost;
        let kernel_ns = |stats| cost.kernel_ns(stats, launch.threads, in_graph);
        let outcome = match outcome {
            Ok(GridStatus::Waiting(grid)) => {
                waiting.works_until(kernel_ns(&grid.stats));
                waiting.grid = Some(grid);
                return Ok(Effected::Waits(waiting));
            }
            Ok(GridStatus::Ended(stats)) => {
                waiting.works_until(kernel_ns(&stats));
                self.kernel_stats += stats;
                Ok(Effected::Took(waiting.elapsed_ns))
            }
            Err(failure) => Err(failure),
        };
        let failure = outcome.as_ref().err();
        let fault = failure.and_then(|failure| failure.fault.as_deref());
        let timer = self.timer();
        let faults = self.report_faults((id, op), launch, &waiting.record);
        let failures = faults.iter().chain(fault);
        *effects = self.effects_of_kernel(launch, waiting.record, failures);
        self.spent(timer, CHECKS, 0);
        outcome
    }

    fn run_kernel(
        &self,
        (id, op): (OpId, &StreamOp),
        launch: &KernelLaunch,
        waited: Option<Box<WaitingGrid>>,
        accessed: Option<&Mutex<Vec<u64>>>,
        record: &mut KernelRecord,
    ) -> (Result<GridStatus, KernelFault>, HeapChanges) {
        let kernel = launch
            .module
            .ptx
            .kernel(&launch.name)
            .expect("the module of a function handle contains its kernel");
        let context = self.contexts.get(&op.context);
        let limit = context
            .filter(|_| kernel.uses_heap())
            .map(|own| own.heap_bytes);
        let view = self.kernel_view((id, op), limit, accessed);
        let shape = exec::Launch {
            grid: launch.dims.grid,
            block: launch.dims.block,
            dynamic_shared_bytes: launch.dims.shared_bytes,
            params: &launch.params,
            variables: &launch.module.variables,
            step_limit: self.config.kernel_steps_max,
            cooperative: launch.cooperative,
            jit: self.config.jit,
            keep_going: self.config.keep_going.then_some(&record.faults),
        };
        let [x, y, z] = launch.dims.grid.map(u64::from);
        let blocks = x.saturating_mul(y).saturating_mul(z);
        let running = (Arc::clone(&launch.name), blocks, Instant::now());
        self.running_kernel.blocks_done.store(0, Relaxed);
        self.running_kernel.waits.store(false, Relaxed);
        *self.running_kernel.kernel.lock() = Some(running);
        let checks = waited.is_none();
        let mut traced_region: Vec<u32> = launch
            .mismatches
            .iter()
            .map(|mismatch| mismatch.pc)
            .collect();
        traced_region.sort_unstable();
        let kernel_race_check = self.config.kernel_race_check;
        let checked = CheckOptions {
            races: kernel_race_check.then_some(self.config.kernel_race_model),
            initialisation: self.config.kernel_init_check,
            orders: self.config.kernel_race_orders,
            instructions: &traced_region,
            text: launch
                .module
                .text
                .as_deref()
                .filter(|_| checks && launch.launches.fetch_add(1, Relaxed) < TRIED_LAUNCHES),
        };
        let findings = &mut record.findings;
        let is_checked = kernel_race_check || checked.initialisation || !traced_region.is_empty();
        let ran = if checks && accessed.is_some() && is_checked {
            let (ran, found) = exec::run_traced(kernel, &shape, &view, checked);
            *findings = found;
            ran
        } else {
            exec::run_suspending(kernel, &shape, &view, waited)
        };
        *self.running_kernel.kernel.lock() = None;
        let mut own = view.kernel_errors.of_order(KernelOrder::Index);
        if let Err(fault) = &ran {
            own.until(fault.block);
        }
        own.add_all(mem::take(&mut findings.kernel_errors));
        findings.kernel_errors = own;
        (ran, view.heap.finish())
    }

    fn run_copy(&self, id: OpId, op: &StreamOp, copy: &CopyOp) -> Result<u64, OpFailure> {
        let reach = self.copy_reach(id, op, copy);
        let (host_target, mapped_target);
        let (target, target_at) = match &copy.target {
            CopyTarget::Mapped(address) => {
                let writable = self.memory.check_writable(*address, op.device);
                writable.map_err(|error| OpFailure::access("write", error))?;
                let shared_bytes = self
                    .memory
                    .shared_bytes(*address, copy.rows.target_span(), id);
                mapped_target = shared_bytes.map_err(|error| OpFailure::access("write", error))?;
                mapped_target
            }
            CopyTarget::Host(range) => {
                host_target = *range;
                (host_target.shared_bytes(), 0)
            }
        };
        let (host_source, mapped_source);
        let source = match &copy.source {
            CopySource::Mapped(address) => {
                let shared_bytes = self
                    .memory
                    .shared_bytes(*address, copy.rows.source_span(), id);
                mapped_source = shared_bytes.map_err(|error| OpFailure::access("read", error))?;
                Some(mapped_source)
            }
            CopySource::Captured(_) => None,
            CopySource::Host(range) => {
                host_source = *range;
                Some((host_source.shared_bytes(), 0))
            }
        };
        let width = copy.rows.width as usize;
        for (from, to) in copy.rows.offsets() {
            let (from, to) = (from as usize, target_at + to as usize);
            let done = match (&source, &copy.source) {
                _ if reach.target == Reach::Zeros => Some(()),
                _ if reach.source == Reach::Zeros => target.fill(to, width, &[0]),
                (Some((source, source_at)), _) => {
                    target.copy_between(to, source, source_at + from, width)
                }
                (None, CopySource::Captured(bytes)) => {
                    target.copy_from(to, &bytes[from..from + width])
                }
                (None, _) => None,
            };
            done.expect("both ranges were located in full");
        }
        Ok(self.copy_ns(copy, reach.is_direct))
    }

    fn copy_ns(&self, copy: &CopyOp, is_direct: bool) -> u64 {
        let cost = &self.config.cost;
        let bytes = copy.rows.bytes();
        let (bytes, gb_s) = match copy.direction {
            Direction::PinnedToDevice => (bytes, cost.pinned_upload_gb_s),
            Direction::PageableToDevice => (bytes, cost.pageable_upload_gb_s),
            Direction::DeviceToPinned => (bytes, cost.pinned_download_gb_s),
            Direction::DeviceToPageable => (bytes, cost.pageable_download_gb_s),
            // A copy within a device reads and writes every byte.
            Direction::WithinDevice => (bytes * 2, cost.memory_gb_s),
            Direction::BetweenDevices { from, to } => {
                (bytes, self.peer_gb_s((from, to), is_direct))
            }
            Direction::HostToHost => (bytes, cost.host_memcpy_gb_s),
        };
        cost.copy_latency_ns
            .saturating_add(crate::CostModel::transfer_ns(bytes, gb_s))
    }

    /// Executes a prefetch. It changes no value; the memory must be live.
    fn run_prefetch(&self, id: OpId, prefetch: &PrefetchOp) -> Result<u64, OpFailure> {
        self.memory
            .shared_bytes(prefetch.start, prefetch.bytes, id)
            .map_err(|error| OpFailure::access("move", error))?;
        let cost = &self.config.cost;
        let gb_s = match prefetch.location {
            ManagedLocation::Host => cost.pinned_download_gb_s,
            ManagedLocation::Device(_) => cost.pinned_upload_gb_s,
        };
        Ok(cost
            .copy_latency_ns
            .saturating_add(crate::CostModel::transfer_ns(prefetch.bytes, gb_s)))
    }

    fn run_fill(&self, id: OpId, op: &StreamOp, fill: &FillOp) -> Result<u64, OpFailure> {
        let writable = self.memory.check_writable(fill.target, op.device);
        writable.map_err(|error| OpFailure::access("write", error))?;
        let shared_bytes = self.memory.shared_bytes(fill.target, fill.bytes, id);
        let (shared_bytes, at) = shared_bytes.map_err(|error| OpFailure::access("write", error))?;
        shared_bytes
            .fill(at, fill.bytes as usize, &fill.pattern[..fill.pattern_bytes])
            .expect("the range was located in full");
        let cost = &self.config.cost;
        Ok(cost
            .copy_latency_ns
            .saturating_add(crate::CostModel::transfer_ns(fill.bytes, cost.memory_gb_s)))
    }
}
