//! `Overlap`: the busy time of a device and the concurrency of copies and computation.

use std::{fmt, ops::Range};

use super::{
    Trace,
    engine::{Engine, work},
    units::Time,
};

/// The times for which a device was busy, copying, computing, and doing both at once.
///
/// Each time is the length of a union of intervals: two kernels that run concurrently for 1 µs
/// count as 1 µs of computing. A copy that waits for the copy engine behind another copy counts
/// from the end of the other one. Allocations take no time and are not counted.
///
/// `Display` prints one line:
///
/// ```
/// use millstream::timeline::Overlap;
///
/// let overlap = Overlap {
///     busy_ns: 1_500,
///     copying_ns: 1_000,
///     computing_ns: 800,
///     both_ns: 300,
///     span_ns: 2_000,
/// };
/// assert_eq!(
///     overlap.to_string(),
///     "busy for 1.5 µs of 2 µs (75 %): copying 1 µs, computing 800 ns, both at once 300 ns"
/// );
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Overlap {
    /// The time for which any operation ran, in nanoseconds.
    pub busy_ns: u64,
    /// The time for which a copy between host and device ran, in either direction, in nanoseconds.
    pub copying_ns: u64,
    /// The time for which a kernel, a fill or a copy within the device ran, in nanoseconds.
    pub computing_ns: u64,
    /// The time for which the device was copying and computing at once, in nanoseconds.
    pub both_ns: u64,
    /// The time from the start of the first operation to the end of the last, in nanoseconds.
    pub span_ns: u64,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.span_ns == 0 {
            return f.write_str("nothing ran");
        }
        write!(
            f,
            "busy for {} of {} ({}): copying {}, computing {}, both at once {}",
            Time(self.busy_ns),
            Time(self.span_ns),
            Share(self.busy_ns, self.span_ns),
            Time(self.copying_ns),
            Time(self.computing_ns),
            Time(self.both_ns),
        )
    }
}

/// A fraction, displayed in percent. The denominator is not zero.
pub(super) struct Share(pub(super) u64, pub(super) u64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} %", 100.0 * self.0 as f64 / self.1 as f64)
    }
}

impl Trace {
    /// Computes how long the device was busy, and how long it was copying and computing at once.
    ///
    /// ```
    /// use millstream::{OperationKind, Trace, timeline::TimedOperation};
    ///
    /// let trace = Trace {
    ///     device: "A device".into(),
    ///     operations: vec![
    ///         TimedOperation::new("upload", OperationKind::HostToDevice, 1, 100..400),
    ///         TimedOperation::new("kernel", OperationKind::Kernel, 2, 300..700),
    ///         TimedOperation::new("download", OperationKind::DeviceToHost, 3, 900..1_000),
    ///     ],
    /// };
    /// let overlap = trace.overlap();
    /// assert_eq!((overlap.copying_ns, overlap.computing_ns), (400, 400));
    /// assert_eq!((overlap.busy_ns, overlap.span_ns), (700, 900));
    /// assert_eq!(overlap.both_ns, 100); // from 300 to 400
    /// ```
    #[must_use]
    pub fn overlap(&self) -> Overlap {
        let (computing, copying): (Vec<_>, Vec<_>) = work(&self.operations)
            .into_iter()
            .flatten()
            .partition(|work| work.engine == Engine::Compute);
        let computing = union(computing.into_iter().map(|work| work.time_ns));
        let copying = union(copying.into_iter().map(|work| work.time_ns));
        let all = union(computing.iter().chain(&copying).cloned());
        let (computing_ns, copying_ns, busy_ns) =
            (total_ns(&computing), total_ns(&copying), total_ns(&all));
        Overlap {
            busy_ns,
            copying_ns,
            computing_ns,
            both_ns: copying_ns + computing_ns - busy_ns,
            span_ns: match (all.first(), all.last()) {
                (Some(first), Some(last)) => last.end - first.start,
                _ => 0,
            },
        }
    }
}

/// Returns the union of the intervals, as disjoint intervals in ascending order.
pub(super) fn union(spans: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut spans: Vec<_> = spans.into_iter().filter(|span| !span.is_empty()).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let mut union: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match union.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => union.push(span),
        }
    }
    union
}

/// Returns the total length of disjoint intervals.
pub(super) fn total_ns(union: &[Range<u64>]) -> u64 {
    union.iter().map(|span| span.end - span.start).sum()
}

#[cfg(test)]
mod tests {
    use super::{
        super::samples::{operation, trace},
        *,
    };
    use crate::OperationKind;

    #[test]
    fn unions_merge_adjacent_intervals_and_drop_empty_ones() {
        assert_eq!(
            union([5..9, 0..2, 7..12, 2..3, 20..20, 14..15]),
            [0..3, 5..12, 14..15]
        );
        assert_eq!(total_ns(&[0..3, 5..12, 14..15]), 11);
    }

    #[test]
    fn copies_in_both_directions_at_once_count_once() {
        let overlap = trace(vec![
            operation(OperationKind::HostToDevice, 1, 10..30),
            operation(OperationKind::DeviceToHost, 2, 20..40),
            operation(OperationKind::Kernel, 3, 25..60),
            operation(OperationKind::Kernel, 4, 50..70),
            operation(OperationKind::Fill, 4, 90..100),
        ])
        .overlap();
        let expected = Overlap {
            busy_ns: 70,
            copying_ns: 30,
            computing_ns: 55,
            both_ns: 15,
            span_ns: 90,
        };
        assert_eq!(overlap, expected);
    }

    #[test]
    fn allocations_and_operations_of_zero_length_are_not_counted() {
        let overlap = trace(vec![
            operation(OperationKind::Allocation, 1, 0..5),
            operation(OperationKind::Kernel, 1, 7..7),
            operation(OperationKind::Kernel, 1, 10..12),
        ])
        .overlap();
        let expected = Overlap {
            busy_ns: 2,
            computing_ns: 2,
            span_ns: 2,
            ..Overlap::default()
        };
        assert_eq!(overlap, expected);
    }

    #[test]
    fn an_empty_trace_prints_nothing_ran() {
        assert_eq!(trace(Vec::new()).overlap(), Overlap::default());
        assert_eq!(Overlap::default().to_string(), "nothing ran");
    }
}
