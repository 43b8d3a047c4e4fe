//! Eager: whatever may run has run when the call returns, the oldest first.

use super::{Moment, Policy};
use crate::{ids::OpId, world::World};

#[derive(Debug)]
pub(super) struct Eager;

impl Policy for Eager {
    fn pick(&mut self, _: Moment, _: &[OpId], world: &World) -> Option<OpId> {
        world.eligible.first().copied()
    }
}
