//! Timed: a discrete-event simulation. The eligible operation with the earliest start runs next, at that time.

use crate::{ids::OpId, world::World};

/// The eligible operation that starts first, and when. Ties go to the higher priority, then to the older stream.
fn next(world: &World) -> Option<(u64, OpId)> {
    world
        .eligible
        .iter()
        .filter_map(|id| world.ops.get(id).map(|op| (*id, op)))
        .map(|(id, op)| {
            let priority = world.streams.get(&op.stream).map_or(0, |stream| stream.priority);
            (world.start_ns(op), priority, op.stream, id)
        })
        .min()
        .map(|(start_ns, _, _, id)| (start_ns, id))
}

/// Runs all that starts by now.
pub(super) fn run_due(world: &mut World) {
    while let Some((start_ns, id)) = next(world)
        && start_ns <= world.now_ns
    {
        world.run(id);
    }
}

/// Runs what starts next, and moves the clock there.
pub(super) fn run_next(world: &mut World) -> bool {
    let Some((start_ns, id)) = next(world) else {
        return false;
    };
    world.now_ns = world.now_ns.max(start_ns);
    world.run(id);
    true
}
