//! Policies without a view of the awaited work: eager, timed and random.

use rand_core::RngCore;
use rand_pcg::Mcg128Xsl64;

use super::policy::{Policy, SchedulePoint, View};
use crate::ids::OpId;

/// The exclusive upper bound of the number of operations run at once beyond the required ones.
const BURST: u64 = 4;

/// Creates the random generator of a seed. The state must be odd, so the seed starts above the
/// lowest bit.
pub(crate) fn generator(seed: u64) -> Mcg128Xsl64 {
    Mcg128Xsl64::new(u128::from(seed) << 1 | 1 << 90 | 1)
}

/// Draws a number below `below`. The modulo bias is at most 2^-50 for the small bounds in use.
pub(super) fn draw(generator: &mut Mcg128Xsl64, below: u64) -> u64 {
    generator.next_u64() % below
}

/// The eager policy: every eligible operation runs before the call returns, the oldest first.
#[derive(Debug)]
pub(super) struct Eager;

impl Policy for Eager {
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        view.eligible.first().copied()
    }
}

/// The timed policy, a discrete-event simulation: the eligible operation with the earliest start
/// runs next, at that time.
#[derive(Debug)]
pub(super) struct Timed;

impl Policy for Timed {
    fn pick(&mut self, point: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        let (start_ns, id) = next(view)?;
        // A waiting host advances the clock to the start.
        (point == SchedulePoint::Wait || start_ns <= view.now_ns).then_some(id)
    }

    fn goes_by_clock(&self) -> bool {
        true
    }
}

/// Returns the eligible operation with the earliest start, and that start. Ties go to the higher
/// priority, then to the older stream.
fn next(view: &View<'_>) -> Option<(u64, OpId)> {
    view.eligible
        .iter()
        .filter_map(|id| view.ops.get(id).map(|op| (*id, op)))
        .map(|(id, op)| {
            let priority = view
                .streams
                .get(&op.stream)
                .map_or(0, |stream| stream.priority);
            (
                op.start_ns(view.cost, view.devices),
                priority,
                op.stream,
                id,
            )
        })
        .min()
        .map(|(start_ns, _, _, id)| (start_ns, id))
}

/// The random policy: a random number of operations runs after every call, in random order across
/// streams, determined by the seed.
#[derive(Debug)]
pub(super) struct Random {
    generator: Mcg128Xsl64,
    /// The number of operations to run before the host goes on.
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
    fn begin(&mut self, point: SchedulePoint, _: &[OpId], _: &View<'_>) {
        self.left = match point {
            SchedulePoint::AfterCall | SchedulePoint::Query => draw(&mut self.generator, BURST),
            SchedulePoint::Pause => 1 + draw(&mut self.generator, BURST),
            SchedulePoint::Wait => 1,
        };
    }

    /// Picks one eligible operation at random; each stream has at most one.
    fn pick(&mut self, _: SchedulePoint, _: &[OpId], view: &View<'_>) -> Option<OpId> {
        self.left = self.left.checked_sub(1)?;
        let chosen = draw(&mut self.generator, view.eligible.len() as u64);
        view.eligible.iter().nth(chosen as usize).copied()
    }
}
