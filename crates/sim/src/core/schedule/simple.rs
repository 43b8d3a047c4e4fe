//! The policies that look at nothing but the eligible operations: eager, timed and random.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::{Policy, SchedulePoint};
use crate::{core::state::SimState, ids::OpId};

/// How many operations run at once, at most, beyond those that must.
const BURST: u64 = 4;

/// The generator of a seed. The state is odd by its definition, so the seed goes above the lowest
/// bit.
pub(crate) fn generator(seed: u64) -> Mcg128Xsl64 {
    Mcg128Xsl64::new(u128::from(seed) << 1 | 1 << 90 | 1)
}

/// A number below `below`. The bias of the remainder is 2^-50 or less for the few choices there
/// are.
pub(super) fn draw(generator: &mut Mcg128Xsl64, below: u64) -> u64 {
    generator.next_u64() % below
}

/// Whatever may run has run when the call returns, the oldest first.
#[derive(Debug)]
pub(super) struct Eager;

impl Policy for Eager {
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        state.eligible.first().copied()
    }
}

/// A discrete-event simulation: the eligible operation with the earliest start runs next, at that
/// time.
#[derive(Debug)]
pub(super) struct Timed;

impl Policy for Timed {
    fn pick(&mut self, point: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        let (start_ns, id) = next(state)?;
        // A host that waits moves the clock.
        (point == SchedulePoint::Wait || start_ns <= state.now_ns).then_some(id)
    }

    fn goes_by_clock(&self) -> bool {
        true
    }
}

/// The eligible operation that starts first, and when. Ties go to the higher priority, then to the
/// older stream.
fn next(state: &SimState) -> Option<(u64, OpId)> {
    state
        .eligible
        .iter()
        .filter_map(|id| state.ops.get(id).map(|op| (*id, op)))
        .map(|(id, op)| {
            let priority = state
                .streams
                .get(&op.stream)
                .map_or(0, |stream| stream.priority);
            (state.start_ns(op), priority, op.stream, id)
        })
        .min()
        .map(|(start_ns, _, _, id)| (start_ns, id))
}

/// After every call a random number of operations, in random order across streams. The seed decides
/// all of it.
#[derive(Debug)]
pub(super) struct Random {
    generator: Mcg128Xsl64,
    /// How many operations still run before the host goes on.
    left: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            generator: generator(seed),
            left: 0,
        }
    }
}

impl Policy for Random {
    fn begin(&mut self, point: SchedulePoint, _: &[OpId], _: &SimState) {
        self.left = match point {
            SchedulePoint::AfterCall | SchedulePoint::Query => draw(&mut self.generator, BURST),
            SchedulePoint::Pause => 1 + draw(&mut self.generator, BURST),
            SchedulePoint::Wait => 1,
        };
    }

    /// One drawn from the eligible ones; a stream has at most one of them.
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], state: &SimState) -> Option<OpId> {
        self.left = self.left.checked_sub(1)?;
        let chosen = draw(&mut self.generator, state.eligible.len() as u64);
        state.eligible.iter().nth(chosen as usize).copied()
    }
}
