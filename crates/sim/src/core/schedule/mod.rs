//! Schedules: policies that decide when eligible operations run. A policy only chooses among
//! eligible operations; eligibility and the effect of an operation do not depend on the policy.
//!
//! | policy | after a call | at a query | at a pause | while the host waits |
//! |---|---|---|---|---|
//! | timed | A | — | A | in order of start, B |
//! | eager | all | — | — | all |
//! | lazy | nothing | C | one step | the wait set and its dependencies |
//! | random | 0 to 3 | 0 to 3 | 1 to 4 | one after the other, B |
//! | pct | D | D, C | one step or more | the stream of the highest rank |
//! | replay | as recorded | as recorded | as recorded | as recorded |
//! | search | nothing | any number in any order | at least one, likewise | in any order |
//!
//! A: all operations that start by now. B: until the wait set is complete. C: one step, after a few
//! idle queries. D: streams that rank above the host.
//!
//! Every decision of a policy passes through [`SimState::pick`], which records it as a number: 0
//! lets the host go on, n runs the n-th eligible operation. Besides the driver calls, a run depends
//! on nothing else, so these numbers replay it.

mod lazy;
mod pct;
mod replay;
mod simple;

use std::fmt::Debug;

use replay::ChoiceLog;

use super::{state::SimState, wait_set::WaitSet};
use crate::{ReplayToken, ReportKind, Schedule, SimConfig, ids::OpId};

pub(crate) use lazy::AsLateAsPossible;
pub use replay::ReplayStatus;
pub(crate) use simple::generator;

/// The number of consecutive idle queries after which one operation runs, so that a polling host
/// makes progress.
const IDLE_QUERIES_MAX: u32 = 3;

/// A point at which the host lets operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulePoint {
    /// At the end of a call.
    AfterCall,
    /// A query of a wait set.
    Query,
    /// A pause of the host.
    Pause,
    /// A wait for a wait set; an operation that the wait needs must run if one is eligible.
    Wait,
}

/// A scheduling policy.
pub(crate) trait Policy: Debug + Send {
    /// Begins a schedule point. `awaited` holds the unfinished operations that the host queries or
    /// waits for.
    fn begin(&mut self, _point: SchedulePoint, _awaited: &[OpId], _state: &SimState) {}

    /// Picks the next of the eligible operations, of which there is at least one. `None` lets the
    /// host go on.
    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) -> Option<OpId>;

    /// Returns whether an operation is complete only once the virtual clock has passed its finish.
    fn goes_by_clock(&self) -> bool {
        false
    }

    /// Returns the state of a replay, given the choices so far.
    fn replay_status(&self, _choice_log: &ChoiceLog) -> ReplayStatus {
        ReplayStatus::NotAsked
    }
}

/// A policy and the log of its choices.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) policy: Box<dyn Policy>,
    goes_by_clock: bool,
    pub(crate) choice_log: ChoiceLog,
    divergence_reported: bool,
}

impl Scheduler {
    /// Creates the scheduler of a configuration: a replay if it has a token, else its schedule.
    pub(crate) fn new(config: &SimConfig) -> Self {
        let scheduler = Self::of(match &config.replay {
            Some(token) => Box::new(replay::Replay::new(token.clone())),
            None => policy(config.schedule),
        });
        Self {
            // A replay compares its choices with the record.
            choice_log: ChoiceLog::new(config.record_choices || config.replay.is_some()),
            ..scheduler
        }
    }

    /// Creates a scheduler with this policy.
    pub(crate) fn of(policy: Box<dyn Policy>) -> Self {
        Self {
            goes_by_clock: policy.goes_by_clock(),
            policy,
            choice_log: ChoiceLog::default(),
            divergence_reported: false,
        }
    }

    /// Returns the choices so far as a token.
    pub(crate) fn token(&self) -> ReplayToken {
        ReplayToken {
            goes_by_clock: self.goes_by_clock,
            checksum: self.choice_log.checksum,
            choices: self.choice_log.choices.clone(),
        }
    }
}

/// Creates the policy of a schedule.
fn policy(schedule: Schedule) -> Box<dyn Policy> {
    match schedule {
        Schedule::Timed => Box::new(simple::Timed),
        Schedule::Eager => Box::new(simple::Eager),
        Schedule::Lazy => Box::new(lazy::Lazy::default()),
        Schedule::Random(seed) => Box::new(simple::Random::new(seed)),
        Schedule::Pct { seed, depth } => Box::new(pct::Pct::new(seed, depth)),
    }
}

/// The count of consecutive queries without progress, for policies that run operations late.
#[derive(Debug, Default)]
struct IdleQueries(u32);

impl IdleQueries {
    /// Returns whether an operation must run at `point` for the host to make progress: at a pause
    /// and a wait, and at a query of `awaited` after [`IDLE_QUERIES_MAX`] idle ones.
    fn force_progress(&mut self, point: SchedulePoint, awaited: &[OpId]) -> bool {
        match point {
            SchedulePoint::AfterCall => false,
            SchedulePoint::Pause | SchedulePoint::Wait => true,
            SchedulePoint::Query => {
                let idle = if awaited.is_empty() { 0 } else { self.0 + 1 };
                let forced = idle > IDLE_QUERIES_MAX;
                self.0 = if forced { 0 } else { idle };
                forced
            }
        }
    }
}

/// A placeholder while the policy borrows the simulator state.
#[derive(Debug)]
struct Placeholder;

impl Policy for Placeholder {
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], _: &SimState) -> Option<OpId> {
        None
    }
}

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
        self.with_policy(|policy, state| policy.begin(point, awaited, state));
        let mut ran = false;
        while let Some(id) = self.pick(point, awaited) {
            if point == SchedulePoint::Wait
                && self.scheduler.goes_by_clock
                && let Some(op) = self.ops.get(&id)
            {
                self.now_ns = self.now_ns.max(self.start_ns(op));
            }
            self.run(id);
            ran = true;
            if point == SchedulePoint::Wait {
                break;
            }
        }
        ran
    }

    /// Lets the policy pick an operation, and records the choice.
    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId]) -> Option<OpId> {
        if self.eligible.is_empty() {
            return None;
        }
        let picked = self.with_policy(|policy, state| policy.pick(point, awaited, state));
        let place = picked.and_then(|id| self.eligible.iter().position(|other| *other == id));
        let choice = place.map_or(0, |place| place as u32 + 1);
        let scheduler = &mut self.scheduler;
        scheduler.choice_log.note(
            choice,
            [point as u64, self.eligible.len() as u64],
            self.call,
        );
        if let ReplayStatus::Diverged { choice, problem } =
            scheduler.policy.replay_status(&scheduler.choice_log)
            && !std::mem::replace(&mut scheduler.divergence_reported, true)
        {
            let text =
                format!("the replay diverges from the recorded run at choice {choice}: {problem}");
            self.report_for_device(None, ReportKind::ReplayDiverged, text);
        }
        picked
    }

    /// Calls `work` with the policy taken out of the state, so that it can borrow the state.
    fn with_policy<R>(&mut self, work: impl FnOnce(&mut dyn Policy, &Self) -> R) -> R {
        let mut policy = std::mem::replace(&mut self.scheduler.policy, Box::new(Placeholder));
        let result = work(&mut *policy, self);
        self.scheduler.policy = policy;
        result
    }
}
