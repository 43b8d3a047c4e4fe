//! Relations between the events of an execution, as sets of bits.

use super::EVENTS_MAX;

/// Iterates over the numbers in a set.
fn each(set: u128) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let first = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            first
        })
    })
}

/// A set of pairs of events, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Relation {
    rows: Vec<u128>,
}

impl Default for Relation {
    fn default() -> Self {
        Self {
            rows: vec![0; EVENTS_MAX],
        }
    }
}

impl Relation {
    /// Relates each of the events to all behind it.
    pub(crate) fn of_sequence(events: &[usize]) -> Self {
        let mut relation = Self::default();
        for (at, event) in events.iter().enumerate() {
            for later in &events[at + 1..] {
                relation.set(*event, *later, true);
            }
        }
        relation
    }

    pub(crate) fn has(&self, one: usize, other: usize) -> bool {
        self.rows[one] >> other & 1 == 1
    }

    pub(crate) fn set(&mut self, one: usize, other: usize, related: bool) {
        self.rows[one] = self.rows[one] & !(1 << other) | u128::from(related) << other;
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(usize, usize) -> bool) {
        for (one, row) in self.rows.iter_mut().enumerate() {
            let kept = each(*row).filter(|other| keep(one, *other));
            *row = kept.fold(0, |row, other| row | 1 << other);
        }
    }

    fn zip(&self, other: &Self, both: impl Fn(u128, u128) -> u128) -> Self {
        let rows = self.rows.iter().zip(&other.rows);
        Self {
            rows: rows.map(|(one, other)| both(*one, *other)).collect(),
        }
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        self.zip(other, |one, other| one & other)
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        self.zip(other, |one, other| one | other)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        *self = self.or(other);
    }

    /// The pairs related by this relation and then the other.
    pub(crate) fn then(&self, other: &Self) -> Self {
        let through = |row: &u128| each(*row).fold(0, |row, at| row | other.rows[at]);
        Self {
            rows: self.rows.iter().map(through).collect(),
        }
    }

    /// The pairs the other way round.
    pub(crate) fn transposed(&self) -> Self {
        let mut transposed = Self::default();
        for (one, row) in self.rows.iter().enumerate() {
            each(*row).for_each(|other| transposed.set(other, one, true));
        }
        transposed
    }

    /// Relates what precedes an event to what follows it.
    pub(crate) fn connect(&mut self, through: usize) {
        let behind = self.rows[through];
        if behind == 0 {
            return;
        }
        for row in &mut self.rows {
            if *row >> through & 1 == 1 {
                *row |= behind;
            }
        }
    }

    /// Makes the relation transitive.
    pub(crate) fn close(&mut self) {
        (0..EVENTS_MAX).for_each(|through| self.connect(through));
    }

    pub(crate) fn is_irreflexive(&self) -> bool {
        (0..EVENTS_MAX).all(|at| !self.has(at, at))
    }

    pub(crate) fn is_acyclic(&self) -> bool {
        let mut closed = self.clone();
        closed.close();
        closed.is_irreflexive()
    }
}
