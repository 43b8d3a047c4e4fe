//! Lazy: nothing runs until the host forces it, and then only what the host waits for depends on.

use std::collections::BTreeSet;

use super::{IDLE_QUERIES_MAX, Policy, SchedulePoint};
use crate::{core::state::SimState, ids::OpId};

/// What the host was last seen waiting for by asking, and what it forces now.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    last_asked: Vec<OpId>,
    idle_queries: u32,
    /// What one operation may be run for, or nothing.
    forced: Option<Vec<OpId>>,
}

impl Policy for Lazy {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], state: &SimState) {
        self.forced = match point {
            SchedulePoint::AfterCall => None,
            SchedulePoint::Query => self.asked(awaited),
            SchedulePoint::Pause => Some(self.still_wanted(state)),
            SchedulePoint::Wait => Some(awaited.to_vec()),
        };
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        self.forced
            .take()
            .and_then(|wanted| first_step(state, wanted))
    }
}

impl Lazy {
    /// The host asks about `awaited`: what that forces.
    fn asked(&mut self, awaited: &[OpId]) -> Option<Vec<OpId>> {
        if awaited.is_empty() {
            self.idle_queries = 0;
            return None;
        }
        self.last_asked = awaited.to_vec();
        self.idle_queries += 1;
        if self.idle_queries <= IDLE_QUERIES_MAX {
            return None;
        }
        self.idle_queries = 0;
        Some(awaited.to_vec())
    }

    /// What the host last asked about, or the oldest work if that is done.
    fn still_wanted(&self, state: &SimState) -> Vec<OpId> {
        let mut wanted = self.last_asked.clone();
        wanted.retain(|op| state.ops.contains_key(op));
        if wanted.is_empty() {
            wanted.extend(state.eligible.first());
        }
        wanted
    }
}

/// The eligible operation that `awaited` is or depends on, predecessors first, if there is any.
pub(super) fn first_step(state: &SimState, awaited: Vec<OpId>) -> Option<OpId> {
    let mut seen = BTreeSet::new();
    let mut stack = awaited;
    while let Some(id) = stack.last().copied() {
        if state.eligible.contains(&id) {
            return Some(id);
        }
        if seen.insert(id)
            && let Some(op) = state.ops.get(&id)
        {
            let predecessors = op.predecessors.iter().rev();
            stack.extend(predecessors.filter(|op| state.ops.contains_key(op)));
        } else {
            stack.pop();
        }
    }
    None
}

/// Runs as little and as late as is legal, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AsLateAsPossible {
    idle_queries: u32,
    must_run: bool,
}

impl Policy for AsLateAsPossible {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], _: &SimState) {
        self.must_run = matches!(point, SchedulePoint::Pause | SchedulePoint::Wait);
        if point == SchedulePoint::Query {
            self.idle_queries = if awaited.is_empty() {
                0
            } else {
                self.idle_queries + 1
            };
            if self.idle_queries > IDLE_QUERIES_MAX {
                (self.idle_queries, self.must_run) = (0, true);
            }
        }
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        let must_run = std::mem::take(&mut self.must_run);
        state.eligible.first().copied().filter(|_| must_run)
    }
}
