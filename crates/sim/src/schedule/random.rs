//! Random: after every call a random number of operations, in random order across streams. The seed decides all of it.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::Kind;
use crate::world::World;

/// How many operations run at once, at most, beyond those that must.
const BURST: u64 = 4;

/// The generator of a seed. The state is odd by its definition, so the seed goes above the lowest bit.
pub(crate) fn generator(seed: u64) -> Mcg128Xsl64 {
    Mcg128Xsl64::new(u128::from(seed) << 1 | 1 << 90 | 1)
}

fn draw(world: &mut World, below: u64) -> u64 {
    match &mut world.scheduler.kind {
        // The bias of the remainder is 2^-60 for the few choices there are.
        Kind::Random(generator) => generator.next_u64() % below,
        _ => 0,
    }
}

/// Runs one operation drawn from the eligible ones; a stream has at most one of them. Whether there was any.
pub(super) fn run_one(world: &mut World) -> bool {
    let count = world.eligible.len();
    if count == 0 {
        return false;
    }
    let chosen = draw(world, count as u64) as usize;
    if let Some(id) = world.eligible.iter().nth(chosen).copied() {
        world.run(id);
    }
    true
}

/// Runs `at_least` operations, if there are that many, and a random number more.
pub(super) fn run_some(world: &mut World, at_least: u64) {
    let count = at_least + draw(world, BURST);
    for _ in 0..count {
        run_one(world);
    }
}
