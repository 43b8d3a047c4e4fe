//! Eager: whatever may run has run when the call returns, the oldest first.

use crate::world::World;

/// Runs the oldest operation that may run. Whether there was one.
pub(super) fn run_one(world: &mut World) -> bool {
    let oldest = world.eligible.first().copied();
    oldest.inspect(|id| world.run(*id)).is_some()
}

/// Runs everything that may run.
pub(super) fn run_all(world: &mut World) {
    while run_one(world) {}
}
