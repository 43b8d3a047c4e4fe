//! Progress: the operations that run when the host lets the schedule pick.

use super::{
    objects::stream::WaitSet,
    schedule::{Policy, ReplayStatus, SchedulePoint, View},
    state::SimState,
};
use crate::{ReportKind, ids::OpId};

impl SimState {
    /// Runs the operations that the schedule picks at the end of a call.
    pub(crate) fn run_after_call(&mut self) {
        self.run_picked(SchedulePoint::AfterCall, &[]);
    }

    /// Returns whether a wait set is complete as seen by the host, after running the operations
    /// that the schedule picks at a query.
    pub(crate) fn query(&mut self, awaited: impl Fn(&Self) -> WaitSet) -> bool {
        let asked = awaited(self);
        self.run_picked(SchedulePoint::Query, &asked.ops);
        // Operations that have just run have updated the finish times of their stream and event.
        let WaitSet { ops, finish_ns } = awaited(self);
        if !ops.is_empty() || !self.has_passed(finish_ns) {
            return false;
        }
        self.now_ns = self.now_ns.max(finish_ns);
        true
    }

    /// Returns whether work that finished at this time is complete as seen by the host. Only the
    /// timed schedule compares with the clock: other policies run operations ahead of it, and the
    /// clock advances when the host observes their completion.
    pub(crate) fn has_passed(&self, finish_ns: u64) -> bool {
        finish_ns <= self.now_ns || !self.scheduler.goes_by_clock
    }

    /// Runs the operations that the schedule picks at a pause of the host.
    pub(crate) fn pause(&mut self) {
        self.run_picked(SchedulePoint::Pause, &[]);
    }

    /// Runs one operation for a waiting host thread. Returns `false` if none that helps can run
    /// until a hold is released or a host function returns.
    pub(crate) fn advance(&mut self, awaited: &[OpId]) -> bool {
        self.run_picked(SchedulePoint::Wait, awaited)
    }

    /// Runs operations until the policy lets the host go on, at most one while it waits. Returns
    /// whether any ran.
    fn run_picked(&mut self, point: SchedulePoint, awaited: &[OpId]) -> bool {
        self.see_host_writes(point);
        let (policy, view) = self.policy();
        policy.begin(point, awaited, &view);
        let mut ran = false;
        while let Some(id) = self.pick(point, awaited) {
            if point == SchedulePoint::Wait
                && self.scheduler.goes_by_clock
                && let Some(op) = self.ops.get(&id)
            {
                self.now_ns = self
                    .now_ns
                    .max(op.start_ns(&self.config.cost, &self.devices));
            }
            self.run(id);
            ran = true;
            if point == SchedulePoint::Wait {
                break;
            }
        }
        ran
    }

    /// Lets the policy pick an operation, and logs the choice.
    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId]) -> Option<OpId> {
        if self.eligible.is_empty() {
            return None;
        }
        let (policy, view) = self.policy();
        let picked = policy.pick(point, awaited, &view);
        let place = picked.and_then(|id| self.eligible.iter().position(|other| *other == id));
        let choice = place.map_or(0, |place| place as u32 + 1);
        let scheduler = &mut self.scheduler;
        scheduler.choice_log.note(
            choice,
            [point as u64, self.eligible.len() as u64],
            self.call,
        );
        self.report_divergence();
        picked
    }

    /// Reports that the replay has diverged, once.
    pub(super) fn report_divergence(&mut self) {
        let scheduler = &mut self.scheduler;
        if let ReplayStatus::Diverged { choice, problem } =
            scheduler.policy.replay_status(&scheduler.choice_log)
            && !std::mem::replace(&mut scheduler.divergence_reported, true)
        {
            let text =
                format!("the replay diverges from the logged run at choice {choice}: {problem}");
            self.report_for_device(None, ReportKind::ReplayDiverged, text);
        }
    }

    fn policy(&mut self) -> (&mut dyn Policy, View<'_>) {
        let view = View {
            call: self.call,
            now_ns: self.now_ns,
            eligible: &self.eligible,
            some_wait: !self.waiting.is_empty(),
            ops: &self.ops,
            streams: &self.streams,
            devices: &self.devices,
            cost: &self.config.cost,
            choice_log: &self.scheduler.choice_log,
        };
        (&mut *self.scheduler.policy, view)
    }
}
