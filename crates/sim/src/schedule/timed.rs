//! Timed: a discrete-event simulation. The eligible operation with the earliest start runs next, at that time.

use super::{Moment, Policy};
use crate::{ids::OpId, world::World};

#[derive(Debug)]
pub(super) struct Timed;

impl Policy for Timed {
    fn pick(&mut self, moment: Moment, _: &[OpId], world: &World) -> Option<OpId> {
        let (start_ns, id) = next(world)?;
        // A host that waits moves the clock.
        (moment == Moment::Wait || start_ns <= world.now_ns).then_some(id)
    }

    fn goes_by_clock(&self) -> bool {
        true
    }
}

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
