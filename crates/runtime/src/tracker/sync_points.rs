//! The sync points of a stream: events recorded behind some of its tickets, with their vector
//! clocks.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use smallvec::SmallVec;

use super::{Dependencies, DeviceNumber, Sequence, StreamId, SyncPoint, Ticket, VectorClock};

/// The sync points of a stream and the last ticket submitted to it, which other threads read.
#[derive(Debug)]
pub(crate) struct SyncPoints<E> {
    stream: StreamId,
    /// The sync points in strictly ascending order of their sequence numbers.
    recorded: VecDeque<Arc<SyncPoint<E>>>,
    /// The highest ticket whose driver calls have all been made.
    submitted: Sequence,
    /// The clock of a sync point recorded now, behind ticket `submitted`. If it is `None`, the
    /// newest sync point's clock applies; if there is no sync point either, everything before is
    /// complete.
    tail: Option<VectorClock>,
    /// Tickets whose submission failed, with the tickets that each had displaced, for operations
    /// that were planned before these were restored.
    failed: Vec<(Sequence, Dependencies)>,
    /// The number of sync points at which the driver is next queried for the completion of older
    /// ones.
    query_at: usize,
}

/// The minimum number of sync points that are worth a query.
const QUERY_AT_MIN: usize = 64;
/// The maximum number of sync points that are kept.
const POINTS_MAX: usize = 2048;

/// The number of the newest sync points that are searched linearly before a binary search, because
/// most dependencies are on the last operations of a stream.
const NEWEST: usize = 4;

impl<E> SyncPoints<E> {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            recorded: VecDeque::new(),
            submitted: Sequence::START,
            tail: None,
            failed: Vec::new(),
            query_at: QUERY_AT_MIN,
        }
    }

    /// Notes that ticket `sequence` is submitted. `joined` is the stream's clock if waits have
    /// changed it; `point` is the sync point right behind the operation, with the same clock, if
    /// one was recorded.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        sequence: Sequence,
        joined: Option<&VectorClock>,
        point: Option<Arc<SyncPoint<E>>>,
    ) {
        debug_assert_eq!(
            sequence,
            self.submitted.next(),
            "tickets are submitted in order"
        );
        self.submitted = sequence;
        if joined.is_some() || point.is_some() {
            self.submit_changed(joined, point);
        }
    }

    /// Notes the clock and the sync point of a submitted ticket.
    #[inline(never)]
    fn submit_changed(&mut self, joined: Option<&VectorClock>, point: Option<Arc<SyncPoint<E>>>) {
        if let Some(point) = point {
            debug_assert_eq!(point.ticket, Ticket::new(self.stream, self.submitted));
            self.tail = None;
            self.recorded.push_back(point);
        } else if let Some(clock) = joined {
            self.tail = Some(clock.clone());
        }
    }

    /// Notes that the submission of ticket `sequence` failed: it counts as submitted, and may stand
    /// for no work.
    pub(crate) fn fail(
        &mut self,
        sequence: Sequence,
        displaced: Dependencies,
        is_done: &dyn Fn(Ticket) -> bool,
    ) {
        self.submitted = sequence;
        self.failed
            .retain(|(_, displaced)| !displaced.iter().all(|&ticket| is_done(ticket)));
        if !displaced.is_empty() {
            self.failed.push((sequence, displaced));
        }
    }

    /// Returns the sequence number of the highest submitted ticket, or [`Sequence::START`] if there
    /// is none.
    pub(crate) fn submitted(&self) -> Sequence {
        self.submitted
    }

    /// Returns the sequence number and the clock of an event that is recorded from now on.
    pub(crate) fn tail(&self) -> (Sequence, VectorClock) {
        let newest = || self.recorded.back().map(|point| &point.clock);
        let clock = self.tail.as_ref().or_else(newest);
        (self.submitted, clock.cloned().unwrap_or_default())
    }

    /// Adds a sync point that was recorded after its ticket and clock were read from
    /// [`tail`](Self::tail). More work may have been submitted since; the event covers the ticket
    /// and possibly more. If there is a sync point at that ticket already, it stays and the new one
    /// is passed to `recycle`. Returns the sync point that is kept.
    pub(crate) fn record_late(
        &mut self,
        point: Arc<SyncPoint<E>>,
        recycle: impl FnOnce(Arc<SyncPoint<E>>),
    ) -> Arc<SyncPoint<E>> {
        let at = self.first_at(point.ticket.sequence);
        match self.recorded.get(at) {
            Some(known) if known.ticket == point.ticket => {
                recycle(point);
                Arc::clone(known)
            }
            _ => {
                self.recorded.insert(at, Arc::clone(&point));
                point
            }
        }
    }

    /// Returns the earliest sync point at or behind ticket `sequence`, a wait for which includes
    /// the fewest later tickets.
    #[inline]
    pub(crate) fn covering(&self, sequence: Sequence) -> Option<&Arc<SyncPoint<E>>> {
        // Most dependencies are on the last operation of a stream.
        match self.recorded.back() {
            Some(newest) if newest.ticket.sequence == sequence => Some(newest),
            _ => self.recorded.get(self.first_at(sequence)),
        }
    }

    /// Calls `each` for the tickets that the submission of `sequence` displaced, if it failed.
    /// Operations that depend on this ticket must wait for these too; those that depend on a later
    /// ticket need not.
    ///
    /// An operation may find the failed ticket before its substitutes are entered. It then still
    /// holds the access histories locked, so no later ticket is published before its plan is
    /// complete.
    #[inline]
    pub(crate) fn each_displaced_by(&self, sequence: Sequence, each: impl FnMut(Ticket)) {
        if !self.failed.is_empty() {
            self.each_displaced_of_failed(sequence, each);
        }
    }

    #[cold]
    fn each_displaced_of_failed(&self, sequence: Sequence, each: impl FnMut(Ticket)) {
        let failed = self.failed.iter().filter(|(number, _)| *number == sequence);
        failed
            .flat_map(|(_, displaced)| displaced.iter().copied())
            .for_each(each);
    }

    /// Returns whether there are enough sync points that a query for the [`middle`](Self::middle)
    /// one is worthwhile.
    #[inline]
    pub(crate) fn are_worth_a_query(&self) -> bool {
        self.recorded.len() >= self.query_at
    }

    pub(crate) fn middle(&self) -> Option<&Arc<SyncPoint<E>>> {
        self.recorded.get(self.recorded.len() / 2)
    }

    /// Postpones the next query, after the [`middle`](Self::middle) sync point was still pending.
    /// If there are too many sync points, every second of the older half is removed unless
    /// `keeps_all`; a ticket without a sync point is covered by the next one.
    pub(crate) fn postpone_query(
        &mut self,
        keeps_all: bool,
        mut recycle: impl FnMut(Arc<SyncPoint<E>>),
    ) {
        if keeps_all || self.recorded.len() < POINTS_MAX {
            self.query_at = self.recorded.len() * 2;
            return;
        }
        let older = self.recorded.len() / 2;
        let mut remaining = VecDeque::with_capacity(self.recorded.len());
        for (at, point) in self.recorded.drain(..).enumerate() {
            if at < older && at % 2 == 0 {
                recycle(point);
            } else {
                remaining.push_back(point);
            }
        }
        self.recorded = remaining;
    }

    /// Removes the sync points of tickets up to `done`.
    pub(crate) fn retire(&mut self, done: Sequence, mut recycle: impl FnMut(Arc<SyncPoint<E>>)) {
        while self
            .recorded
            .front()
            .is_some_and(|point| point.ticket.sequence <= done)
        {
            if let Some(point) = self.recorded.pop_front() {
                recycle(point);
            }
        }
        self.query_at = QUERY_AT_MIN.max(self.recorded.len() + QUERY_AT_MIN / 2);
    }

    /// Returns the index of the first sync point at or behind ticket `sequence`.
    #[inline]
    fn first_at(&self, sequence: Sequence) -> usize {
        let mut at = self.recorded.len();
        for _ in 0..NEWEST {
            let before = at.wrapping_sub(1);
            let Some(point) = self.recorded.get(before) else {
                return 0;
            };
            match point.ticket.sequence.cmp(&sequence) {
                Ordering::Less => return at,
                Ordering::Equal => return before,
                Ordering::Greater => at = before,
            }
        }
        self.recorded
            .partition_point(|point| point.ticket.sequence < sequence)
    }
}

/// Removes the sync points that others imply. The remaining ones must each be waited for.
///
/// A sync point implies another if its clock covers the other's ticket. If two imply each other,
/// one stays. A sync point of another device than `device`, which waits, implies only those of its
/// own device: if its device is lost, the wait for it ends, but the others must still be waited
/// for.
pub(crate) fn drop_implied<E>(points: &mut SmallVec<[Arc<SyncPoint<E>>; 8]>, device: DeviceNumber) {
    let mut at = 0;
    while at < points.len() {
        let ticket = points[at].ticket;
        let implied = points.iter().enumerate().any(|(other, point)| {
            let counts = || {
                let owner = point.ticket.stream.device();
                owner == device || owner == ticket.stream.device()
            };
            other != at && point.clock.covers(ticket) && counts()
        });
        if implied {
            points.remove(at);
        } else {
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nth(number: u64) -> Sequence {
        Sequence::of(number)
    }

    /// Creates a sync point behind a ticket of stream 1 with an otherwise empty clock.
    fn point<E>(sequence: u64, event: E) -> Arc<SyncPoint<E>> {
        late((nth(sequence), VectorClock::default()), event)
    }

    /// Creates a sync point at a tail of stream 1.
    fn late<E>((sequence, clock): (Sequence, VectorClock), event: E) -> Arc<SyncPoint<E>> {
        let tail = Ticket::new(StreamId::of(1), sequence);
        Arc::new(SyncPoint::new(tail, &clock, event))
    }

    #[test]
    fn the_second_late_sync_point_at_a_ticket_is_recycled() {
        let mut points = SyncPoints::new(StreamId::of(1));
        points.submit(nth(1), None, None);
        let tail = points.tail();
        let mut back = Vec::new();
        for event in ['x', 'y'] {
            let late = late(tail.clone(), event);
            let point = points.record_late(late, |point| back.push(point.event));
            assert_eq!(point.event, 'x');
        }
        assert_eq!(back, ['y']);
    }

    #[test]
    fn the_tail_includes_the_clock_of_the_newest_sync_point() {
        let mut points = SyncPoints::new(StreamId::of(1));
        let mut clock = VectorClock::default();
        clock.advance(Ticket::of(2, 7));
        let own = Arc::new(SyncPoint::new(Ticket::of(1, 1), &clock, 'a'));
        points.submit(nth(1), Some(&clock), Some(own));
        points.submit(nth(2), None, None);
        let (sequence, tail) = points.tail();
        assert!(sequence == nth(2) && tail.covers(Ticket::of(2, 7)));
        clock.advance(Ticket::of(2, 9));
        points.submit(nth(3), Some(&clock), None);
        assert!(points.tail().1.covers(Ticket::of(2, 9)));
    }

    #[test]
    fn a_late_sync_point_is_inserted_before_later_ones() {
        let mut points = SyncPoints::new(StreamId::of(1));
        points.submit(nth(1), None, None);
        let tail = points.tail();
        points.submit(nth(2), None, Some(point(2, 'b')));
        points.submit(nth(3), None, Some(point(3, 'c')));
        let late = late(tail.clone(), 'a');
        let point = points.record_late(late, |_| {
            unreachable!("there is no other sync point at ticket 1")
        });
        assert_eq!((point.ticket, point.event), (Ticket::of(1, 1), 'a'));
        for (sequence, event) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            assert_eq!(points.covering(nth(sequence)).map(|p| p.event), Some(event));
        }
    }

    /// Creates `count` sync points whose events are their sequence numbers.
    fn with_points(count: u64) -> SyncPoints<u64> {
        let mut points = SyncPoints::new(StreamId::of(1));
        (1..=count).for_each(|sequence| {
            points.submit(nth(sequence), None, Some(point(sequence, sequence)))
        });
        points
    }

    /// Adds sync points until a query is worthwhile. Returns their number.
    fn asked_at(points: &mut SyncPoints<u64>) -> usize {
        while !points.are_worth_a_query() {
            let next = points.submitted().get() + 1;
            points.submit(nth(next), None, Some(point(next, next)));
        }
        points.recorded.len()
    }

    #[test]
    fn the_middle_sync_point_is_queried_with_growing_intervals() {
        let mut points = with_points(3);
        assert_eq!(asked_at(&mut points), QUERY_AT_MIN);
        let middle = points.middle().expect("there are sync points");
        assert_eq!(middle.event, QUERY_AT_MIN as u64 / 2 + 1);
        points.postpone_query(false, |point| {
            unreachable!("{point:?} was removed below the limit")
        });
        assert_eq!(asked_at(&mut points), 2 * QUERY_AT_MIN);
        points.retire(nth(28), |_| {});
        assert_eq!(
            asked_at(&mut points),
            2 * QUERY_AT_MIN - 28 + QUERY_AT_MIN / 2
        );
        points.retire(points.submitted(), |_| {});
        assert_eq!(asked_at(&mut points), QUERY_AT_MIN);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
    fn above_the_limit_every_second_older_sync_point_is_removed() {
        let mut points = with_points(POINTS_MAX as u64);
        let mut gone = Vec::new();
        points.postpone_query(false, |point| gone.push(point.event));
        let older = 1..=POINTS_MAX as u64 / 2;
        assert_eq!(gone, older.step_by(2).collect::<Vec<_>>());
        assert_eq!(points.recorded.len() + gone.len(), POINTS_MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
    fn sync_points_stay_bounded_and_cover_every_ticket() {
        let mut points = SyncPoints::new(StreamId::of(1));
        for sequence in 1..20_000 {
            points.submit(nth(sequence), None, Some(point(sequence, sequence)));
            if points.are_worth_a_query() {
                points.postpone_query(false, |_| {});
            }
            assert!(points.recorded.len() <= POINTS_MAX + 1);
        }
        for sequence in 1..20_000 {
            let covering = points
                .covering(nth(sequence))
                .expect("every ticket has a sync point behind it");
            assert!(covering.event >= sequence);
        }
    }

    #[test]
    fn displaced_tickets_are_reported_until_they_are_complete() {
        let mut points: SyncPoints<()> = SyncPoints::new(StreamId::of(1));
        points.submit(nth(1), None, None);
        points.fail(nth(2), SmallVec::from_slice(&[Ticket::of(2, 3)]), &|_| {
            false
        });
        let displaced_by = |points: &SyncPoints<()>, sequence| {
            let mut displaced = Vec::new();
            points.each_displaced_by(nth(sequence), |ticket| displaced.push(ticket));
            displaced
        };
        assert!(displaced_by(&points, 1).is_empty() && displaced_by(&points, 3).is_empty());
        assert_eq!(displaced_by(&points, 2), [Ticket::of(2, 3)]);
        points.fail(nth(3), SmallVec::from_slice(&[Ticket::of(4, 1)]), &|done| {
            done == Ticket::of(2, 3)
        });
        assert!(displaced_by(&points, 2).is_empty());
        assert_eq!(displaced_by(&points, 3), [Ticket::of(4, 1)]);
    }
}
