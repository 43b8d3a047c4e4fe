//! Schedules: when eligible operations run. A policy only chooses among operations that may run;
//! what may run, and what running does, is the same for all.
//!
//! | policy | after a call | at a query | at a pause | while the host waits |
//! |---|---|---|---|---|
//! | timed | all that start by now | — | the clock moves | in order of start, until the wait set is done |
//! | eager | all | — | — | all |
//! | lazy | nothing | one step, after a few idle queries | one step | the wait set and what it depends on |
//! | random | 0 to 3 | 0 to 3 | 1 to 4 | one after the other, until the wait set is done |
//! | pct | streams that rank above the host | the same; one step after a few idle queries | one step at least | the stream that ranks highest |
//! | replay | what a recorded run did | | | |
//! | search | nothing | every number of operations, in every order | at least one, likewise | in every order |
//!
//! Whatever a policy decides goes through [`SimState::pick`], and is recorded there as a number: 0
//! to let the host go on, n to run the n-th of the eligible operations. That is all a run depends
//! on besides the calls, so the numbers replay it.

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

/// After this many idle queries in a row one operation runs, so that a host which polls gets
/// somewhere.
const IDLE_QUERIES_MAX: u32 = 3;

/// Where the host is when operations may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulePoint {
    /// At the end of a call.
    AfterCall,
    /// It queries a wait set.
    Query,
    /// It pauses.
    Pause,
    /// It waits for a wait set, and another operation must run if one can that helps.
    Wait,
}

/// Decides what runs when.
pub(crate) trait Policy: Debug + Send {
    /// Operations may run from now on; `awaited` is what the host asks about or waits for and is
    /// not done.
    fn begin(&mut self, _point: SchedulePoint, _awaited: &[OpId], _state: &SimState) {}

    /// Which of the eligible operations, of which there is one at least, runs next. `None`: the
    /// host goes on.
    fn pick(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) -> Option<OpId>;

    /// Whether an operation that has run is complete only when the clock says so.
    fn goes_by_clock(&self) -> bool {
        false
    }

    /// How a replay stands; `choice_log` is what was decided so far.
    fn replay_status(&self, _choice_log: &ChoiceLog) -> ReplayStatus {
        ReplayStatus::NotAsked
    }
}

/// A policy, and what it has decided.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) policy: Box<dyn Policy>,
    goes_by_clock: bool,
    pub(crate) choice_log: ChoiceLog,
    divergence_reported: bool,
}

impl Scheduler {
    pub(crate) fn new(config: &SimConfig) -> Self {
        Self::of(match &config.replay {
            Some(token) => Box::new(replay::Replay::new(token.clone())),
            None => policy(config.schedule),
        })
    }

    pub(crate) fn of(policy: Box<dyn Policy>) -> Self {
        Self {
            goes_by_clock: policy.goes_by_clock(),
            policy,
            choice_log: ChoiceLog::default(),
            divergence_reported: false,
        }
    }

    /// The choices so far.
    pub(crate) fn token(&self) -> ReplayToken {
        ReplayToken {
            goes_by_clock: self.goes_by_clock,
            checksum: self.choice_log.checksum,
            choices: self.choice_log.choices.clone(),
        }
    }
}

fn policy(schedule: Schedule) -> Box<dyn Policy> {
    match schedule {
        Schedule::Timed => Box::new(simple::Timed),
        Schedule::Eager => Box::new(simple::Eager),
        Schedule::Lazy => Box::new(lazy::Lazy::default()),
        Schedule::Random(seed) => Box::new(simple::Random::new(seed)),
        Schedule::Pct { seed, depth } => Box::new(pct::Pct::new(seed, depth)),
    }
}

/// Stands in for the policy while that looks at the simulator state.
#[derive(Debug)]
struct Placeholder;

impl Policy for Placeholder {
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], _: &SimState) -> Option<OpId> {
        None
    }
}

impl SimState {
    /// Runs what the schedule runs at the end of a call.
    pub(crate) fn run_after_call(&mut self) {
        self.run_picked(SchedulePoint::AfterCall, &[]);
    }

    /// Whether a wait set is done as far as the host can see, after such progress as a query brings
    /// about.
    pub(crate) fn query(&mut self, awaited: impl Fn(&Self) -> WaitSet) -> bool {
        let asked = awaited(self);
        self.run_picked(SchedulePoint::Query, &asked.ops);
        // What has just run has told its finish to the stream and the event.
        let WaitSet { ops, finish_ns } = awaited(self);
        if !ops.is_empty() || !self.has_passed(finish_ns) {
            return false;
        }
        self.now_ns = self.now_ns.max(finish_ns);
        true
    }

    /// Whether what finished at this time is done as far as the host can see. Only the timed
    /// schedule goes by the clock: others run operations ahead of it, and seeing one done moves the
    /// clock there.
    pub(crate) fn has_passed(&self, finish_ns: u64) -> bool {
        finish_ns <= self.now_ns || !self.scheduler.goes_by_clock
    }

    /// The host pauses.
    pub(crate) fn pause(&mut self) {
        self.run_picked(SchedulePoint::Pause, &[]);
    }

    /// One operation for a host thread that waits. `false`: nothing that helps can run until a hold
    /// is released or a host function returns.
    pub(crate) fn advance(&mut self, awaited: &[OpId]) -> bool {
        self.run_picked(SchedulePoint::Wait, awaited)
    }

    /// Runs operations until the policy lets the host go on; one at most while it waits. Whether
    /// there was any.
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

    /// The policy's choice, recorded.
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
            let text = format!("the replay leaves the recorded run at choice {choice}: {problem}");
            self.report_for_device(None, ReportKind::ReplayDiverged, text);
        }
        picked
    }

    fn with_policy<R>(&mut self, work: impl FnOnce(&mut dyn Policy, &Self) -> R) -> R {
        let mut policy = std::mem::replace(&mut self.scheduler.policy, Box::new(Placeholder));
        let result = work(&mut *policy, self);
        self.scheduler.policy = policy;
        result
    }
}
