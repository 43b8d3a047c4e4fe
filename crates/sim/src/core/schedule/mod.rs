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
//! | replay | as logged | as logged | as logged | as logged |
//! | search | nothing | any number in any order | at least one, likewise | in any order |
//!
//! A: all operations that start by now. B: until the wait set is complete. C: one step, after a few
//! idle queries. D: streams that rank above the host.
//!
//! Every decision of a policy is logged as a number: 0 lets the host go on, n runs the n-th
//! eligible operation. If kernels poll memory that the host can write, each point begins with one
//! more: which of them see a write, a bit each. Besides the driver calls, a run depends on nothing
//! else, so these numbers replay it.

mod choice_log;
mod lazy;
mod pct;
mod policy;
mod replay;
mod simple;

use crate::{ReplayToken, Schedule, SimConfig};

pub use choice_log::ReplayStatus;
pub(crate) use lazy::AsLateAsPossible;
pub(crate) use policy::{Policy, SchedulePoint, View};
pub(crate) use simple::generator;

use choice_log::ChoiceLog;

/// A policy and the log of its choices.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) policy: Box<dyn Policy>,
    pub(super) goes_by_clock: bool,
    pub(crate) choice_log: ChoiceLog,
    pub(super) divergence_reported: bool,
}

impl Scheduler {
    /// Creates the scheduler of a configuration: a replay if it has a token, else its schedule.
    pub(crate) fn new(config: &SimConfig) -> Self {
        let scheduler = Self::of(match &config.replay {
            Some(token) => Box::new(replay::Replay::new(token.clone())),
            None => policy(config.schedule),
        });
        Self {
            // A replay compares its choices with the log.
            choice_log: ChoiceLog::new(config.log_choices || config.replay.is_some()),
            ..scheduler
        }
    }

    pub(crate) fn of(policy: Box<dyn Policy>) -> Self {
        Self {
            goes_by_clock: policy.goes_by_clock(),
            policy,
            choice_log: ChoiceLog::default(),
            divergence_reported: false,
        }
    }

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
