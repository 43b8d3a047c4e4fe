//! The streams of a trace, and the waits between its operations.

use std::collections::{BTreeMap, BTreeSet};

use super::{TimedOperation, Trace};

/// The streams of the traced operations: a map from stream numbers to indices, in ascending
/// order.
pub(super) struct StreamIndices(BTreeMap<u64, usize>);

impl StreamIndices {
    pub(super) fn of(trace: &Trace) -> Self {
        let numbers: BTreeSet<_> = trace
            .operations
            .iter()
            .map(|operation| operation.stream)
            .collect();
        Self(numbers.into_iter().zip(0..).collect())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    pub(super) fn index(&self, stream: u64) -> usize {
        self.0[&stream]
    }
}

/// A wait of one operation for another, by their indices in the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    /// The index of the operation that was waited for.
    pub(super) earlier: usize,
    /// The index of the operation that waited.
    pub(super) later: usize,
}

/// Returns all waits between operations of one or several traces. Operations submitted before the
/// timeline began are not part of it.
pub(super) fn waits(operations: &[TimedOperation]) -> Vec<Wait> {
    let places: BTreeMap<_, _> = operations
        .iter()
        .enumerate()
        .map(|(place, operation)| ((operation.stream, operation.sequence), place))
        .collect();
    let mut waits = Vec::new();
    for (later, operation) in operations.iter().enumerate() {
        let earlier_operations = operation
            .waits
            .iter()
            .filter_map(|ticket| places.get(ticket));
        waits.extend(earlier_operations.map(|&earlier| Wait { earlier, later }));
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::{
        super::samples::{operation, trace},
        *,
    };
    use crate::OperationKind;

    #[test]
    fn streams_are_indexed_in_the_order_of_their_numbers() {
        let kernel = |stream| operation(OperationKind::Kernel, stream, 0..1);
        let streams = StreamIndices::of(&trace(vec![kernel(40), kernel(7), kernel(40), kernel(9)]));
        assert!(streams.numbers().eq([7, 9, 40]));
        assert_eq!([40, 7, 9].map(|stream| streams.index(stream)), [2, 0, 1]);
        assert_eq!(streams.count(), 3);
    }

    #[test]
    fn waits_for_operations_before_the_timeline_are_omitted() {
        let mut first = operation(OperationKind::Kernel, 1, 0..1);
        first.sequence = 8;
        let mut second = operation(OperationKind::Kernel, 2, 1..2);
        second.waits = vec![(1, 7), (1, 8)];
        assert_eq!(
            waits(&[first, second]),
            [Wait {
                earlier: 0,
                later: 1
            }]
        );
    }
}
