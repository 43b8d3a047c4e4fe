//! Kernels that wait: they poll memory, and go on once another operation or the host has written
//! it.
//!
//! CUDA runs kernels of different streams at once if it can. Here one runs at a time, until it
//! ends or can only poll (`exec/polling.rs`). It then stays the first operation of its stream,
//! takes no time, and becomes eligible again when a polled byte has changed, so that the schedule
//! picks when it goes on. The bytes are compared after each operation and, if the host can write
//! them too, at each point where the host lets operations run. Whether a write of the host was
//! seen there is a choice of the run, so that a token repeats it.
//!
//! A launch that nothing can wake fails, at once: when the host blocks, no operation can run, and
//! no other thread of the host may act (`host_threads`). CUDA does not promise that kernels run at
//! once; the strict reading of rule 63 reports a kernel that another operation had to wake.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{
    execute::OpFailure,
    host_threads,
    objects::waiting::{KernelRecord, WaitingKernel},
    op::{OpKind, StreamOp, Successor},
    schedule::SchedulePoint,
    state::SimState,
};
use crate::{
    ReportKind,
    exec::GlobalMemory,
    ids::{OpId, name},
    race::Effect,
};

/// The real time that a replay waits for a write of the host that its token says was seen.
const REPLAY_PATIENCE: Duration = Duration::from_secs(2);

impl SimState {
    /// Keeps an operation whose kernel waits.
    pub(super) fn suspend(
        &mut self,
        id: OpId,
        op: StreamOp,
        mut waiting: Box<WaitingKernel>,
        start_ns: u64,
    ) {
        waiting.start_ns = start_ns;
        waiting.since.get_or_insert_with(Instant::now);
        let polled = waiting.polled().iter();
        waiting.host_can_write = polled
            .filter_map(|(address, _)| self.memory.around(*address))
            .any(|allocation| allocation.kind.is_everyones());
        self.ops.insert(id, op);
        self.waiting.insert(id, waiting);
        // Waiting threads look for others that can run now.
        self.progress += 1;
        self.show_waiting();
    }

    /// Shows the oldest waiting kernel as the one that runs.
    pub(super) fn show_waiting(&self) {
        let progress = &self.running_kernel;
        let oldest = self.waiting.iter().next();
        let shown = oldest.and_then(|(id, waiting)| match &self.ops.get(id)?.kind {
            OpKind::Kernel(launch) => {
                let blocks = launch.dims.grid.map(u64::from);
                let blocks = blocks.into_iter().fold(1, u64::saturating_mul);
                Some((Arc::clone(&launch.name), blocks, waiting.since?))
            }
            _ => None,
        });
        progress.blocks_done.store(0, Relaxed);
        progress.waits.store(shown.is_some(), Relaxed);
        *progress.kernel.lock() = shown;
    }

    /// Returns whether a byte that a waiting kernel polls has another value than it has seen.
    fn is_woken(&self, id: OpId) -> bool {
        let (Some(op), Some(waiting)) = (self.ops.get(&id), self.waiting.get(&id)) else {
            return false;
        };
        let view = self.kernel_view((id, op), None, None);
        waiting.polled().iter().any(|(address, seen)| {
            let mut bytes = vec![0; seen.len()];
            let read = view.region(*address).and_then(|region| {
                let offset = (*address - region.base) as usize;
                region.bytes.copy_to(offset, &mut bytes)
            });
            read.is_none() || *bytes != **seen
        })
    }

    /// Makes a waiting kernel eligible.
    fn wake(&mut self, id: OpId, now_ns: u64) {
        let (Some(op), Some(waiting)) = (self.ops.get_mut(&id), self.waiting.get_mut(&id)) else {
            return;
        };
        let since_ns = now_ns.saturating_sub(waiting.start_ns);
        waiting.elapsed_ns = waiting.elapsed_ns.max(since_ns);
        op.ready_ns = op.ready_ns.max(now_ns);
        self.eligible.insert(id);
    }

    /// Returns the kernels that wait and are not woken.
    fn asleep(&self) -> impl Iterator<Item = OpId> {
        let waiting = self.waiting.keys().copied();
        waiting.filter(|id| !self.eligible.contains(id))
    }

    /// Returns the kernels that wait for a write which is not there yet.
    pub(super) fn asleep_and_unwritten(&self) -> Vec<OpId> {
        self.asleep().filter(|id| !self.is_woken(*id)).collect()
    }

    /// Wakes those of the kernels that poll bytes which an operation, given in words, has just
    /// written.
    pub(super) fn wake_after(&mut self, asleep: Vec<OpId>, writer: &str, now_ns: u64) {
        self.show_waiting();
        for id in asleep {
            if !self.is_woken(id) {
                continue;
            }
            self.wake(id, now_ns);
            if let Some(waiting) = self.waiting.get_mut(&id) {
                let WaitingKernel { grid, record, .. } = &mut **waiting;
                let polled = grid.iter().flat_map(|grid| &grid.polled);
                let polled = polled.map(|(start, bytes)| *start..*start + bytes.len() as u64);
                record.waited.extend(polled);
                record.waited.sort_by_key(|range| (range.start, range.end));
                record.waited.dedup();
            }
            if self.config.rules.concurrent_kernels.is_strict() {
                self.report_reliance(id, writer);
            }
        }
    }

    fn report_reliance(&mut self, id: OpId, writer: &str) {
        let (Some(op), Some(waiting)) = (self.ops.get(&id), self.waiting.get(&id)) else {
            return;
        };
        let (OpKind::Kernel(launch), Some(grid)) = (&op.kind, &waiting.grid) else {
            return;
        };
        // Waits of streams for values are no kernels on a GPU.
        if launch.is_wait_for_value() {
            return;
        }
        // Once for each kernel.
        if !self.reliances.insert(Arc::clone(&launch.name)) {
            return;
        }
        let text = format!(
            "{}: {}polls memory that {writer} writes: the program relies on two kernels running \
             together, which CUDA does not promise (rule 63)",
            op.describe(id),
            Self::line_of(launch, &grid.place)
        );
        let device = op.device;
        self.report_for_device(Some(device), ReportKind::ReliesOnConcurrency, text);
    }

    /// Wakes the kernels that poll bytes which the host has written, and logs the choice.
    pub(super) fn see_host_writes(&mut self, point: SchedulePoint) {
        if self.waiting.is_empty() {
            return;
        }
        let open = |state: &Self| -> Vec<OpId> {
            let open = state.asleep().filter(|id| state.waiting[id].host_can_write);
            open.take(32).collect()
        };
        let polling = open(self);
        if polling.is_empty() {
            return;
        }
        let written = |state: &Self| {
            let written = polling.iter().map(|id| u32::from(state.is_woken(*id)));
            written.zip(0..).fold(0, |set, (is, bit)| set | is << bit)
        };
        let mut seen = written(self);
        // The number of such looks depends on real time.
        if seen == 0 && point == SchedulePoint::Wait && self.eligible.is_empty() {
            return;
        }
        let logged = self.scheduler.policy.host_writes();
        if let Some(logged) = logged {
            let start = Instant::now();
            while seen & logged != logged && start.elapsed() < REPLAY_PATIENCE {
                std::thread::yield_now();
                seen = written(self);
            }
            seen &= logged;
        }
        let numbers = [point as u64, polling.len() as u64];
        self.scheduler.choice_log.note(seen, numbers, self.call);
        self.report_divergence();
        for (bit, id) in polling.into_iter().enumerate() {
            if seen >> bit & 1 == 1 {
                self.wake(id, self.now_ns);
            }
        }
    }

    /// Returns whether the host can wake a kernel without a call.
    pub(super) fn waits_for_host(&self) -> bool {
        self.asleep().any(|id| self.waiting[&id].host_can_write)
    }

    /// Fails the oldest waiting kernel if nothing can wake it while the calling thread is blocked.
    /// Returns whether it did.
    pub(crate) fn fail_stuck_kernel(&mut self) -> bool {
        let Some(id) = self.asleep().next() else {
            return false;
        };
        if !self.eligible.is_empty()
            || self.host_functions.running > 0
            || self.is_woken(id)
            || host_threads::others_may_act(&self.callers)
        {
            self.suspected = None;
            return false;
        }
        // A thread that was seen waiting for another may have been about to go on.
        let now = Some((self.calls, self.progress));
        if self.suspected != now {
            self.suspected = now;
            return false;
        }
        let (Some(waiting), Some(op)) = (self.waiting.remove(&id), self.ops.remove(&id)) else {
            return false;
        };
        let (start_ns, elapsed_ns) = (waiting.start_ns, waiting.elapsed_ns);
        let mut effects = Vec::new();
        let mut failure = self.never_woken((id, &op), &op.kind, *waiting, &mut effects);
        let behind = op.successors.iter().find_map(|successor| match successor {
            Successor::Op(next) => Some((*next, self.ops.get(next)?)),
            Successor::Waiter(_) => None,
        });
        failure.text += ", and no operation can: the host waits in ";
        failure.text += self.call;
        if let Some((next, behind)) = behind {
            failure.text += &format!(" and {} waits behind the kernel", behind.describe(next));
        }
        self.race_done(id, effects);
        self.finish(id, op, start_ns, elapsed_ns, Some(failure));
        self.show_waiting();
        true
    }

    /// Returns the failure of a kernel that nothing can wake, and its effects until then.
    pub(super) fn never_woken(
        &mut self,
        (id, op): (OpId, &StreamOp),
        kind: &OpKind,
        waiting: WaitingKernel,
        effects: &mut Vec<Effect>,
    ) -> OpFailure {
        let (OpKind::Kernel(launch), Some(grid)) = (kind, waiting.grid) else {
            unreachable!("only kernels wait, and only after they have run");
        };
        let faults = self.report_faults((id, op), launch, &waiting.record);
        *effects = self.effects_of_kernel(launch, waiting.record, faults.iter());
        self.explain_fault(id, op.device, launch, grid.place)
    }

    /// Begins to record the accesses of a kernel, or goes on. Returns the base addresses of the
    /// allocations that it has accessed.
    pub(super) fn go_on_recording(&mut self, record: &mut KernelRecord) -> Vec<u64> {
        let accesses = std::mem::take(&mut record.accesses);
        let mut bases = Vec::new();
        for (base, info, bitmap) in accesses {
            match self.memory.put_bitmap(base, &info, bitmap) {
                Some(bitmap) => record.accesses.push((base, info, bitmap)),
                None => bases.push(base),
            }
        }
        bases
    }

    /// Ends the recording of these allocations for now.
    pub(super) fn pause_recording(&mut self, record: &mut KernelRecord, bases: Vec<u64>) {
        for base in bases {
            let taken = self.memory.take_bitmap(base);
            record
                .accesses
                .extend(taken.map(|(info, bitmap)| (base, info, bitmap)));
        }
    }
}

impl StreamOp {
    /// Returns the operation with its number, stream and place, for reports.
    pub(super) fn describe(&self, id: OpId) -> String {
        let site = self.site.as_ref();
        let site = site.map_or_else(String::new, |site| format!(", {site}"));
        format!("{}, {id} on {}{site}", self.summary(), name(self.stream))
    }
}
