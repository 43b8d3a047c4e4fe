//! The linear layout: consecutive segments, each with the tickets that last wrote and read it.

use std::ops::Range;

use smallvec::SmallVec;

use super::{AccessKind, StreamId, Ticket, extent::Extent, tickets::Tickets};

/// A range of bytes with the same tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The tickets for which a reader must wait: usually one. Writes of other devices, unordered
    /// writes, failed submissions and coarsening add more, at most one per stream.
    pub(super) writes: Tickets,
    /// The tickets for which a writer must wait besides `writes`: at most one per stream, sorted by
    /// stream.
    pub(super) reads: Tickets,
}

impl Segment {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Calls `found` with every ticket with which an access of this kind conflicts.
    #[inline(always)]
    pub(super) fn conflicts(&self, kind: AccessKind, found: &mut impl FnMut(Ticket)) {
        self.writes.for_each(found);
        if kind == AccessKind::Write {
            self.reads.for_each(found);
        }
    }

    /// Enters an ordered access, which runs after everything that it conflicts with. A write
    /// replaces the tickets of its device and those for which `is_done` holds: if its device is
    /// lost, later operations must find the tickets of other devices.
    #[inline]
    pub(super) fn enter(
        &mut self,
        kind: AccessKind,
        ticket: Ticket,
        is_done: &dyn Fn(Ticket) -> bool,
    ) {
        let device = ticket.stream.device();
        if kind == AccessKind::Read
            || (self.writes.are_of_device(device) && self.reads.are_of_device(device))
        {
            return self.enter_sole(kind, ticket);
        }
        let keeps = |earlier: Ticket| earlier.stream.device() != device && !is_done(earlier);
        self.writes.retain(keeps);
        self.writes.keep_highest(ticket);
        self.reads.retain(keeps);
    }

    /// Enters an ordered access to a segment whose tickets are all of the ticket's device.
    #[inline(always)]
    pub(super) fn enter_sole(&mut self, kind: AccessKind, ticket: Ticket) {
        match kind {
            AccessKind::Read => self.reads.keep_highest(ticket),
            AccessKind::Write => {
                self.writes.replace(ticket);
                self.reads.clear();
            }
        }
    }

    #[inline]
    pub(super) fn is_of(&self, stream: StreamId) -> bool {
        self.writes.are_of(stream) && self.reads.are_of(stream)
    }

    /// Extends the segment by the next one if their tickets are equal. Returns whether they are.
    fn extend(&mut self, next: &Self) -> bool {
        let is_equal = self.writes == next.writes && self.reads == next.reads;
        if is_equal {
            self.end = next.end;
        }
        is_equal
    }

    /// Merges the next segment into this one, with its tickets.
    fn absorb(&mut self, other: &Self) {
        self.end = other.end;
        let (writes, reads) = (&mut self.writes, &mut self.reads);
        other
            .writes
            .for_each(&mut |ticket| writes.keep_highest(ticket));
        other
            .reads
            .for_each(&mut |ticket| reads.keep_highest(ticket));
    }

    /// Splits the segment at `at`. This segment ends there; the returned one begins there.
    fn split_off(&mut self, at: u64) -> Self {
        let tail = Self {
            start: at,
            ..self.clone()
        };
        self.end = at;
        tail
    }
}

/// Disjoint segments that cover consecutive bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinearLayout {
    segments: SmallVec<[Segment; 1]>,
}

impl LinearLayout {
    /// Creates one segment of bytes 0 to `bytes`, without tickets.
    pub(super) fn new(bytes: u64) -> Self {
        let whole = Segment {
            start: 0,
            end: bytes,
            writes: Tickets::default(),
            reads: Tickets::default(),
        };
        Self {
            segments: SmallVec::from_buf([whole]),
        }
    }

    /// Creates an empty layout, to which segments are added with [`push`](Self::push).
    pub(super) fn with_capacity(segments: usize) -> Self {
        Self {
            segments: SmallVec::with_capacity(segments),
        }
    }

    /// Adds a segment that begins at the end of the last one, and merges both if their tickets are
    /// equal.
    pub(super) fn push(&mut self, segment: Segment) {
        let last = self.segments.last_mut();
        if !last.is_some_and(|last| last.extend(&segment)) {
            self.segments.push(segment);
        }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the number of bytes that the segments cover.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end)
    }

    /// Returns the segment, if there is only one and the range covers it.
    #[inline]
    pub(super) fn only(&mut self, range: &Range<u64>) -> Option<&mut Segment> {
        match self.segments.as_mut_slice() {
            [only] if range.start <= only.start && only.end <= range.end && !range.is_empty() => {
                Some(only)
            }
            _ => None,
        }
    }

    pub(super) fn touched(&self, range: &Range<u64>) -> &[Segment] {
        &self.segments[self.overlapping(range)]
    }

    fn overlapping(&self, range: &Range<u64>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let first = self
            .segments
            .partition_point(|segment| segment.end <= range.start);
        let last = self
            .segments
            .partition_point(|segment| segment.start < range.end);
        first..last
    }

    /// Changes the tickets of exactly these bytes, splitting segments at their bounds.
    pub(super) fn update(&mut self, range: &Range<u64>, mut change: impl FnMut(&mut Segment)) {
        let touched = self.overlapping(range);
        if touched.is_empty() {
            return;
        }
        let (mut first, mut last) = (touched.start, touched.end);
        if self.segments[first].start < range.start {
            let tail = self.segments[first].split_off(range.start);
            self.segments.insert(first + 1, tail);
            first += 1;
            last += 1;
        }
        if self.segments[last - 1].end > range.end {
            let tail = self.segments[last - 1].split_off(range.end);
            self.segments.insert(last, tail);
        }
        self.segments[first..last].iter_mut().for_each(&mut change);
        self.merge_around(first, last);
    }

    /// Changes the tickets of exactly the rows of `extent`, of which there are several, in one pass
    /// over segments and rows.
    pub(super) fn update_rows(&mut self, extent: &Extent, mut change: impl FnMut(&mut Segment)) {
        let old = std::mem::take(&mut self.segments);
        let rows = usize::try_from(extent.rows()).unwrap_or(usize::MAX);
        *self = Self::with_capacity(old.len().saturating_add(rows.saturating_mul(2)));
        let mut number = 0;
        for mut rest in old {
            while number < extent.rows() && extent.row(number).start < rest.end {
                let row = extent.row(number);
                if rest.start < row.start {
                    let tail = rest.split_off(row.start);
                    self.push(std::mem::replace(&mut rest, tail));
                }
                if rest.end <= row.end {
                    change(&mut rest);
                    number += u64::from(rest.end == row.end);
                    break;
                }
                let tail = rest.split_off(row.end);
                change(&mut rest);
                self.push(std::mem::replace(&mut rest, tail));
                number += 1;
            }
            self.push(rest);
        }
    }

    /// Merges neighbours with equal tickets among `first - 1 ..= last`.
    fn merge_around(&mut self, first: usize, last: usize) {
        let merged = merge_neighbours(&mut self.segments, first, last, Segment::extend);
        self.segments.drain(merged);
    }

    /// Removes completed tickets, and merges neighbours whose tickets are then equal.
    pub(super) fn forget_done(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        for segment in &mut self.segments {
            segment.writes.retain(|ticket| !is_done(ticket));
            segment.reads.retain(|ticket| !is_done(ticket));
        }
        self.merge_around(0, self.segments.len());
    }

    /// Merges pairs of neighbours until at most `segments` are left. Later operations may then wait
    /// for more than necessary, but never for less.
    pub(super) fn coarsen(&mut self, segments: usize) {
        while self.segments.len() > segments.max(1) {
            let mut halved: SmallVec<[Segment; 1]> =
                SmallVec::with_capacity(self.segments.len() / 2 + 1);
            for pair in self.segments.chunks(2) {
                let mut joined = pair[0].clone();
                if let Some(second) = pair.get(1) {
                    joined.absorb(second);
                }
                halved.push(joined);
            }
            self.segments = halved;
        }
    }
}

/// Calls `extend` for neighbours among `first - 1 ..= last`, which extends one by the next if it
/// returns `true`. Returns the indices of the items that are then left over.
pub(super) fn merge_neighbours<T>(
    items: &mut [T],
    first: usize,
    last: usize,
    extend: impl Fn(&mut T, &T) -> bool,
) -> Range<usize> {
    let from = first.saturating_sub(1);
    let until = (last + 1).min(items.len());
    let mut end = from;
    for at in (from..until).skip(1) {
        let (merged, rest) = items.split_at_mut(at);
        if !extend(&mut merged[end], &rest[0]) {
            end += 1;
            items.swap(end, at);
        }
    }
    end + 1..until
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u64 = 40;

    /// Returns the tickets that last wrote each byte.
    fn writes(linear: &LinearLayout) -> Vec<Vec<Ticket>> {
        let bytes = linear
            .segments
            .iter()
            .flat_map(|segment| segment.range().map(|_| segment.writes.iter().collect()));
        bytes.collect()
    }

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::of(stream, sequence)
    }

    /// Creates segments of one byte each, written by streams 1 to 3 in turn and read by stream 9.
    fn bytewise(count: u64) -> LinearLayout {
        let mut linear = LinearLayout::new(count);
        for at in 0..count {
            linear.update(&(at..at + 1), |segment| {
                segment.enter_sole(AccessKind::Write, ticket(1 + at % 3, 1 + at));
                segment.enter_sole(AccessKind::Read, ticket(9, 1 + at));
            });
        }
        linear
    }

    #[test]
    fn coarsening_merges_no_more_than_necessary_and_keeps_all_tickets() {
        let exact = bytewise(10);
        for (most, left) in [(11, 10), (10, 10), (9, 5), (5, 5), (4, 3), (1, 1), (0, 1)] {
            let mut linear = exact.clone();
            linear.coarsen(most);
            assert_eq!(linear.segments().len(), left, "with a limit of {most}");
            for segment in exact.segments() {
                let [joined] = linear.touched(&segment.range()) else {
                    panic!("each byte is in exactly one segment");
                };
                let covers = |own: &Tickets, ticket: Ticket| {
                    own.iter()
                        .any(|own| own.stream == ticket.stream && own.sequence >= ticket.sequence)
                };
                assert!(
                    segment
                        .writes
                        .iter()
                        .all(|ticket| covers(&joined.writes, ticket))
                );
                assert!(
                    segment
                        .reads
                        .iter()
                        .all(|ticket| covers(&joined.reads, ticket))
                );
            }
        }
    }

    #[test]
    fn only_completed_tickets_are_removed() {
        let mut linear = bytewise(6);
        linear.forget_done(&|ticket| ticket.sequence.get() <= 4);
        assert_eq!(
            linear.segments().len(),
            3,
            "four bytes without tickets, and two bytes"
        );
        assert_eq!(linear.segments()[0].writes, Tickets::default());
        assert_eq!(linear.segments()[0].reads, Tickets::default());
        assert_eq!(linear.segments()[2].writes, Tickets::of(ticket(3, 6)));
        assert_eq!(linear.segments()[2].reads, Tickets::of(ticket(9, 6)));
    }

    proptest! {
        /// Compares an update of several rows in one pass with updates row by row.
        #[test]
        fn updating_rows_in_one_pass_equals_updating_them_one_by_one(
            before in prop::collection::vec((0..BYTES, 1..9_u64), 0..8),
            (start, len, rows, pitch) in (0..12_u64, 1..7_u64, 2..5_u64, 2..9_u64),
        ) {
            let mut linear = LinearLayout::new(BYTES);
            let ticket = |number| Ticket::of(1 + number % 3, 1 + number);
            for (number, (start, len)) in before.into_iter().enumerate() {
                linear.update(&(start..(start + len).min(BYTES)), |segment| {
                    segment.writes = Tickets::of(ticket(number as u64));
                });
            }
            let rows = Extent::strided(start..start + len.min(pitch), rows, pitch);
            prop_assume!(rows.as_range().is_none() && rows.hull().end <= BYTES);
            let mut one_by_one = linear.clone();
            for row in 0..rows.rows() {
                one_by_one.update(&rows.row(row), |segment| {
                    segment.writes.keep_highest(ticket(99));
                });
            }
            linear.update_rows(&rows, |segment| segment.writes.keep_highest(ticket(99)));
            prop_assert_eq!(writes(&linear), writes(&one_by_one));
            prop_assert_eq!(linear, one_by_one, "neighbours with equal tickets are merged");
        }
    }
}
