//! Lazy: nothing runs until the host forces it, and then only what the host waits for depends on.

use std::collections::BTreeSet;

use super::{Moment, Policy, QUERIES_IN_VAIN};
use crate::{core::world::World, ids::OpId};

/// What the host was last seen waiting for by asking, and what it forces now.
#[derive(Debug, Default)]
pub(super) struct Lazy {
    last_asked: Vec<OpId>,
    in_vain: u32,
    /// What one operation may be run for, or nothing.
    forced: Option<Vec<OpId>>,
}

impl Policy for Lazy {
    fn begin(&mut self, moment: Moment, goal: &[OpId], world: &World) {
        self.forced = match moment {
            Moment::AfterCall => None,
            Moment::Query => self.asked(goal),
            Moment::Pause => Some(self.still_wanted(world)),
            Moment::Wait => Some(goal.to_vec()),
        };
    }

    fn pick(&mut self, _: Moment, _: &[OpId], world: &World) -> Option<OpId> {
        self.forced
            .take()
            .and_then(|wanted| first_step(world, wanted))
    }
}

impl Lazy {
    /// The host asks about `goal`: what that forces.
    fn asked(&mut self, goal: &[OpId]) -> Option<Vec<OpId>> {
        if goal.is_empty() {
            self.in_vain = 0;
            return None;
        }
        self.last_asked = goal.to_vec();
        self.in_vain += 1;
        if self.in_vain <= QUERIES_IN_VAIN {
            return None;
        }
        self.in_vain = 0;
        Some(goal.to_vec())
    }

    /// What the host last asked about, or the oldest work if that is done.
    fn still_wanted(&self, world: &World) -> Vec<OpId> {
        let mut wanted = self.last_asked.clone();
        wanted.retain(|op| world.ops.contains_key(op));
        if wanted.is_empty() {
            wanted.extend(world.eligible.first());
        }
        wanted
    }
}

/// The eligible operation that `goal` is or depends on, predecessors first, if there is any.
pub(super) fn first_step(world: &World, goal: Vec<OpId>) -> Option<OpId> {
    let mut seen = BTreeSet::new();
    let mut stack = goal;
    while let Some(id) = stack.last().copied() {
        if world.eligible.contains(&id) {
            return Some(id);
        }
        if seen.insert(id)
            && let Some(op) = world.ops.get(&id)
        {
            let predecessors = op.predecessors.iter().rev();
            stack.extend(predecessors.filter(|op| world.ops.contains_key(op)));
        } else {
            stack.pop();
        }
    }
    None
}

/// Runs as little and as late as is legal, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reluctant {
    in_vain: u32,
    must_run: bool,
}

impl Policy for Reluctant {
    fn begin(&mut self, moment: Moment, goal: &[OpId], _: &World) {
        self.must_run = matches!(moment, Moment::Pause | Moment::Wait);
        if moment == Moment::Query {
            self.in_vain = if goal.is_empty() { 0 } else { self.in_vain + 1 };
            if self.in_vain > QUERIES_IN_VAIN {
                (self.in_vain, self.must_run) = (0, true);
            }
        }
    }

    fn pick(&mut self, _: Moment, _: &[OpId], world: &World) -> Option<OpId> {
        let must_run = std::mem::take(&mut self.must_run);
        world.eligible.first().copied().filter(|_| must_run)
    }
}
