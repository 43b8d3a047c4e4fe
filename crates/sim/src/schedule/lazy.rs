//! Lazy: nothing runs until the host forces it, and then only what the host waits for depends on.

use std::collections::BTreeSet;

use super::Kind;
use crate::{
    ids::OpId,
    world::{Goal, World},
};

/// After this many queries in vain one operation runs, so that a host which polls gets somewhere.
const QUERIES_IN_VAIN: u32 = 3;

/// What the host was last seen waiting for by asking.
#[derive(Debug, Default)]
pub(super) struct Patience {
    last_asked: Vec<OpId>,
    in_vain: u32,
}

/// The host asks whether `goal` is done.
pub(super) fn asked(world: &mut World, goal: &Goal) {
    let Kind::Lazy(patience) = &mut world.scheduler.kind else {
        return;
    };
    if goal.ops.is_empty() {
        patience.in_vain = 0;
        return;
    }
    patience.last_asked.clone_from(&goal.ops);
    patience.in_vain += 1;
    if patience.in_vain > QUERIES_IN_VAIN {
        patience.in_vain = 0;
        force(world, &goal.ops, 1);
    }
}

/// The host pauses: one step towards what it last asked about, or of the oldest work if that is done.
pub(super) fn paused(world: &mut World) {
    let Kind::Lazy(patience) = &mut world.scheduler.kind else {
        return;
    };
    let mut wanted = patience.last_asked.clone();
    wanted.retain(|op| world.ops.contains_key(op));
    if wanted.is_empty() {
        wanted.extend(world.eligible.first());
    }
    force(world, &wanted, 1);
}

/// Runs up to `steps` operations that `goal` is or depends on, predecessors first. Whether there was any.
pub(super) fn force(world: &mut World, goal: &[OpId], steps: usize) -> bool {
    let mut ran = 0;
    let mut seen = BTreeSet::new();
    let mut stack = goal.to_vec();
    while let Some(id) = stack.last().copied()
        && ran < steps
    {
        if world.eligible.contains(&id) {
            world.run(id);
            ran += 1;
            stack.pop();
        } else if seen.insert(id)
            && let Some(op) = world.ops.get(&id)
        {
            let in_flight = op
                .predecessors
                .iter()
                .rev()
                .filter(|op| world.ops.contains_key(op));
            stack.extend(in_flight);
        } else {
            stack.pop();
        }
    }
    ran > 0
}
