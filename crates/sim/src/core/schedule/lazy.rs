//! The lazy policy: no operation runs until the host forces it, and then only operations that the
//! awaited work depends on.

use std::collections::BTreeSet;

use super::{IdleQueries, Policy, SchedulePoint};
use crate::{core::state::SimState, ids::OpId};

/// The state of the lazy policy: the last queried operations, and the operations that the host
/// forces now.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    /// The unfinished operations of the last query.
    last_asked: Vec<OpId>,
    idle_queries: IdleQueries,
    /// The operations for which one step must run, if any.
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
    /// Handles a query of `awaited` and returns the operations that it forces.
    fn asked(&mut self, awaited: &[OpId]) -> Option<Vec<OpId>> {
        if !awaited.is_empty() {
            self.last_asked = awaited.to_vec();
        }
        let forced = self
            .idle_queries
            .force_progress(SchedulePoint::Query, awaited);
        forced.then(|| awaited.to_vec())
    }

    /// Returns the unfinished operations of the last query, or the oldest eligible operation if
    /// there are none.
    fn still_wanted(&self, state: &SimState) -> Vec<OpId> {
        let mut wanted = self.last_asked.clone();
        wanted.retain(|op| state.ops.contains_key(op));
        if wanted.is_empty() {
            wanted.extend(state.eligible.first());
        }
        wanted
    }
}

/// Returns the first eligible operation among `awaited` and their predecessors, predecessors first.
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

/// A policy that runs as few operations as late as legal, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AsLateAsPossible {
    idle_queries: IdleQueries,
    must_run: bool,
}

impl Policy for AsLateAsPossible {
    fn begin(&mut self, point: SchedulePoint, awaited: &[OpId], _: &SimState) {
        self.must_run = self.idle_queries.force_progress(point, awaited);
    }

    fn pick(&mut self, _: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        let must_run = std::mem::take(&mut self.must_run);
        state.eligible.first().copied().filter(|_| must_run)
    }
}
