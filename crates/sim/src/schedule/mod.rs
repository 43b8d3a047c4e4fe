//! Schedules: when eligible operations run. A policy only chooses among operations that may run; what may run, and what
//! running does, is the same for all.
//!
//! | policy | after a call | at a query | at a pause | while the host waits |
//! |---|---|---|---|---|
//! | timed | all that start by now | — | the clock moves | in order of start, until the goal is done |
//! | eager | all | — | — | all |
//! | lazy | nothing | one step, after a few in vain | one step | the goal and what it depends on |
//! | random | 0 to 3 | 0 to 3 | 1 to 4 | one after the other, until the goal is done |

mod eager;
mod lazy;
mod random;
mod timed;

use rand_pcg::Mcg128Xsl64;

pub(crate) use random::generator;

use crate::{
    Schedule,
    ids::OpId,
    world::{Goal, World},
};

/// A schedule with its state.
#[derive(Debug)]
pub(crate) struct Scheduler {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Timed,
    Eager,
    Lazy(lazy::Patience),
    Random(Mcg128Xsl64),
}

impl Scheduler {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self {
            kind: match schedule {
                Schedule::Timed => Kind::Timed,
                Schedule::Eager => Kind::Eager,
                Schedule::Lazy => Kind::Lazy(lazy::Patience::default()),
                Schedule::Random(seed) => Kind::Random(random::generator(seed)),
            },
        }
    }
}

impl World {
    /// Runs what the schedule runs at the end of a call.
    pub(crate) fn run_after_call(&mut self) {
        match self.scheduler.kind {
            Kind::Timed => timed::run_due(self),
            Kind::Eager => eager::run_all(self),
            Kind::Lazy(_) => {}
            Kind::Random(_) => random::run_some(self, 0),
        }
    }

    /// Whether a goal is done as far as the host can see, after such progress as a query brings about.
    pub(crate) fn query(&mut self, goal: impl Fn(&Self) -> Goal) -> bool {
        match self.scheduler.kind {
            Kind::Timed => timed::run_due(self),
            Kind::Eager => eager::run_all(self),
            Kind::Lazy(_) => lazy::asked(self, &goal(self)),
            Kind::Random(_) => random::run_some(self, 0),
        }
        // What has just run has told its finish to the stream and the event.
        let Goal { ops, finish_ns } = goal(self);
        if !ops.is_empty() || !self.has_passed(finish_ns) {
            return false;
        }
        self.now_ns = self.now_ns.max(finish_ns);
        true
    }

    /// Whether what finished at this time is done as far as the host can see. Only the timed schedule goes by the clock:
    /// others run operations ahead of it, and seeing one done moves the clock there.
    pub(crate) fn has_passed(&self, finish_ns: u64) -> bool {
        finish_ns <= self.now_ns || !matches!(self.scheduler.kind, Kind::Timed)
    }

    /// The host pauses.
    pub(crate) fn pause(&mut self) {
        match self.scheduler.kind {
            Kind::Timed => timed::run_due(self),
            Kind::Eager => eager::run_all(self),
            Kind::Lazy(_) => lazy::paused(self),
            Kind::Random(_) => random::run_some(self, 1),
        }
    }

    /// One stretch of progress for a host thread that waits. `false`: nothing can run until a hold is released or a host
    /// function returns.
    pub(crate) fn advance(&mut self, goal: &[OpId]) -> bool {
        match self.scheduler.kind {
            Kind::Timed => timed::run_next(self),
            Kind::Eager => eager::run_one(self),
            Kind::Lazy(_) => lazy::force(self, goal, usize::MAX),
            Kind::Random(_) => random::run_one(self),
        }
    }
}
