//! Vector clocks: for every stream, the last operation that happens before.

use std::sync::Arc;

/// A vector clock: for each stream, by its slot, the number of the last operation that happens
/// before; 0 for none.
///
/// Operations of one stream are ordered, so everything after one is after all operations before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VectorClock(Vec<u64>);

impl VectorClock {
    /// Returns the last operation of that stream that happens before.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        self.0.get(slot).copied().unwrap_or(0)
    }

    pub(super) fn raise(&mut self, slot: usize, op: u64) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = self.0[slot].max(op);
    }

    fn covers(&self, other: &Self) -> bool {
        let host_clock = self.0.iter().zip(&other.0).all(|(own, other)| own >= other);
        host_clock && other.0.iter().skip(self.0.len()).all(|op| *op == 0)
    }

    pub(super) fn join(this: &mut Arc<Self>, other: &Arc<Self>) {
        if Arc::ptr_eq(this, other) || this.covers(other) {
            return;
        }
        if other.covers(this) {
            this.clone_from(other);
            return;
        }
        let own = Arc::make_mut(this);
        for (slot, op) in other.0.iter().enumerate() {
            own.raise(slot, *op);
        }
    }
}

/// A place in the order of one stream: an operation, and what that is ordered after on other
/// streams.
#[derive(Clone, Debug)]
pub(super) struct Timestamp {
    pub(super) slot: usize,
    pub(super) op: u64,
    /// The operation before it in its stream; 0 for none.
    pub(super) previous: u64,
    pub(super) before: Arc<VectorClock>,
}

impl Timestamp {
    /// Returns the last operation of that stream that is this one or happens before it.
    pub(super) fn last_of(&self, slot: usize) -> u64 {
        if slot == self.slot {
            self.op
        } else {
            self.before.last_of(slot)
        }
    }

    /// Returns the clock of operations after this one.
    pub(super) fn join_into(&self, clock: &mut Arc<VectorClock>) {
        VectorClock::join(clock, &self.before);
        if clock.last_of(self.slot) < self.op {
            Arc::make_mut(clock).raise(self.slot, self.op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ops: &[u64]) -> Arc<VectorClock> {
        Arc::new(VectorClock(ops.to_vec()))
    }

    #[test]
    fn a_join_is_the_later_of_both_and_shares_when_it_can() {
        let mut one = clock(&[1, 5]);
        VectorClock::join(&mut one, &clock(&[2, 3, 0, 7]));
        assert_eq!(one, clock(&[2, 5, 0, 7]));
        let later = clock(&[2, 5, 0, 8]);
        VectorClock::join(&mut one, &later);
        assert!(Arc::ptr_eq(&one, &later));
        VectorClock::join(&mut one, &clock(&[0, 0, 0, 0, 0]));
        assert!(Arc::ptr_eq(&one, &later));
    }

    #[test]
    fn a_point_is_behind_its_own_stream_and_what_it_waited_for() {
        let timestamp = Timestamp {
            slot: 1,
            op: 9,
            previous: 3,
            before: clock(&[4, 2]),
        };
        assert_eq!([0, 1, 2].map(|slot| timestamp.last_of(slot)), [4, 9, 0]);
        let mut next = clock(&[]);
        timestamp.join_into(&mut next);
        assert_eq!(next, clock(&[4, 9]));
    }
}
