//! The access history of an allocation: the operations that last wrote and read each byte.

use crate::sync::ranked::{ACCESS_HISTORY, Ranked, RankedGuard};
use std::{
    fmt,
    ops::Range,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use smallvec::SmallVec;

use super::{
    Provenance, StreamId, Ticket,
    event_policy::EventPolicy,
    extent::{AccessKind, Extent},
    layout::HistoryLayout,
    leases::Leases,
    tickets::Tickets,
    users::Users,
};

/// The unlocked state of an access history: disjoint segments that cover the allocation.
pub(crate) struct HistoryState {
    layout: HistoryLayout,
    event_policy: EventPolicy,
    /// The only stream that uses the allocation: all tickets are of this stream, in one segment,
    /// and no other stream needs sync points behind them. Its accesses therefore conflict with
    /// nothing (rule 16: a stream is first in, first out).
    sole_stream: Option<StreamId>,
    users: Users,
    /// The parts that are lent to another library. While there are any, there is no sole stream.
    pub(super) leases: Leases,
}

impl HistoryState {
    fn new(bytes: u64) -> Self {
        Self {
            layout: HistoryLayout::new(bytes),
            event_policy: EventPolicy::default(),
            sole_stream: None,
            users: Users::default(),
            leases: Leases::default(),
        }
    }

    /// Enters an ordered access to the whole allocation if the ticket's stream is the sole stream.
    /// Returns whether it was entered.
    #[inline(always)]
    pub(super) fn access_exclusive(
        &mut self,
        extent: &Extent,
        kind: AccessKind,
        ticket: Ticket,
    ) -> bool {
        if self.sole_stream != Some(ticket.stream) {
            return false;
        }
        match self.layout.only(extent) {
            Some(only) => {
                only.enter_sole(kind, ticket);
                true
            }
            None => false,
        }
    }

    /// Enters an ordered access: calls `found` with every ticket that it conflicts with, and
    /// replaces those of the ticket's device and those that are done. A ticket may be reported more
    /// than once.
    #[inline]
    pub(super) fn access(
        &mut self,
        extent: &Extent,
        kind: AccessKind,
        ticket: Ticket,
        is_done: &dyn Fn(Ticket) -> bool,
        mut found: impl FnMut(Ticket),
    ) {
        let one_device = self.users.is_only(ticket.stream.device());
        match self.layout.only(extent) {
            Some(only) if one_device => {
                only.conflicts(kind, &mut found);
                only.enter_sole(kind, ticket);
            }
            _ => {
                self.conflicts(extent, kind, found);
                self.layout
                    .update(extent, |segment| segment.enter(kind, ticket, is_done));
            }
        }
    }

    /// Updates the event policy and the sole stream after an access. Returns the result of
    /// [`EventPolicy::record_access`].
    #[inline]
    pub(super) fn record_access(&mut self, stream: StreamId, waits: bool) -> bool {
        let records_event = self.event_policy.record_access(stream, waits);
        let is_sole_user = || self.layout.segment().is_some_and(|only| only.is_of(stream));
        let is_sole = !records_event && self.leases.are_none() && is_sole_user();
        self.sole_stream = is_sole.then_some(stream);
        records_event
    }

    /// Calls `found` with every ticket with which an access of this kind to these bytes conflicts.
    /// A ticket may be reported more than once.
    pub(super) fn conflicts(
        &mut self,
        extent: &Extent,
        kind: AccessKind,
        mut found: impl FnMut(Ticket),
    ) {
        if let Some(only) = self.layout.only(extent) {
            return only.conflicts(kind, &mut found);
        }
        self.layout
            .for_each_touched(extent, |segment| segment.conflicts(kind, &mut found));
    }

    /// Enters an access that is not ordered after its conflicts: the earlier tickets stay beside
    /// it.
    pub(super) fn enter_unordered(&mut self, extent: &Extent, kind: AccessKind, ticket: Ticket) {
        self.sole_stream = None;
        self.users.is_only(ticket.stream.device());
        self.layout.update(extent, |segment| match kind {
            AccessKind::Read => segment.reads.keep_highest(ticket),
            AccessKind::Write => segment.writes.keep_highest(ticket),
        });
    }

    /// Bounds the number of segments: see [`HistoryLayout::compact`].
    #[inline]
    pub(super) fn compact(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        self.layout.compact(is_done);
    }

    /// Returns the highest ticket of each stream in the history.
    pub(super) fn all_tickets(&self) -> SmallVec<[Ticket; 4]> {
        let mut all = Tickets::default();
        self.layout.for_each(|segment| {
            segment
                .writes
                .for_each(&mut |ticket| all.keep_highest(ticket));
            segment
                .reads
                .for_each(&mut |ticket| all.keep_highest(ticket));
        });
        all.iter().collect()
    }
}

/// The access history of one allocation, behind a lock, with its id in the global lock order.
pub(crate) struct AccessHistory {
    id: u64,
    bytes: u64,
    pub(super) state: Ranked<ACCESS_HISTORY, HistoryState>,
    /// The operations on several devices from which the contents come.
    pub(crate) provenance: Provenance,
    /// The reference-counted allocation that contains this history, for the layer above; null if
    /// there is none.
    pub(super) owner: AtomicPtr<()>,
}

impl AccessHistory {
    pub(crate) fn new(bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            bytes,
            state: Ranked::new(HistoryState::new(bytes)),
            provenance: Provenance::default(),
            owner: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Creates an empty history that requests a sync point behind every operation.
    pub(crate) fn always_recording(bytes: u64) -> Self {
        let mut history = Self::new(bytes);
        history.state.get_mut().event_policy = EventPolicy::Always;
        history
    }

    /// Returns the id, which is the position in the lock order of access histories.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn lock(&self) -> RankedGuard<'_, ACCESS_HISTORY, HistoryState> {
        self.state.lock()
    }

    /// Returns the tickets for which the host must wait before its own access of this kind.
    pub(crate) fn host_conflicts(
        &self,
        range: &Range<u64>,
        kind: AccessKind,
    ) -> SmallVec<[Ticket; 4]> {
        let mut tickets = Tickets::default();
        self.lock()
            .conflicts(&range.clone().into(), kind, |ticket| {
                tickets.keep_highest(ticket)
            });
        tickets.iter().collect()
    }

    /// Returns the same as [`all_tickets`](Self::all_tickets) for an allocation with no other user,
    /// without locking.
    pub(crate) fn last_tickets(&mut self) -> SmallVec<[Ticket; 4]> {
        self.state.get_mut().all_tickets()
    }

    /// Returns the tickets that must be complete before the allocation may be freed or reused.
    pub(crate) fn all_tickets(&self) -> SmallVec<[Ticket; 4]> {
        self.lock().all_tickets()
    }
}

impl fmt::Debug for AccessHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessHistory")
            .field("id", &self.id)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::layout::SEGMENTS_MAX, *};
    use AccessKind::{Read, Write};

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::of(stream, sequence)
    }

    /// Enters an ordered access and ignores its conflicts.
    fn enter(
        state: &mut HistoryState,
        extent: impl Into<Extent>,
        kind: AccessKind,
        ticket: impl Into<Ticket>,
    ) {
        state.access(&extent.into(), kind, ticket.into(), &|_| false, |_| ());
    }

    fn conflicts(
        state: &mut HistoryState,
        extent: impl Into<Extent>,
        kind: AccessKind,
    ) -> Vec<Ticket> {
        let mut found = Vec::new();
        state.conflicts(&extent.into(), kind, |ticket| found.push(ticket));
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn whole_accesses_of_a_sole_stream_are_entered_without_a_search() {
        let mut state = HistoryState::new(8);
        let mut is_exclusive = |range: Range<u64>, at: (u64, u64), records| {
            let (extent, ticket) = (range.into(), Ticket::from(at));
            let is_exclusive = state.access_exclusive(&extent, Write, ticket);
            if !is_exclusive {
                enter(&mut state, extent, Write, ticket);
                assert_eq!(state.record_access(ticket.stream, false), records);
            }
            is_exclusive
        };
        assert!(!is_exclusive(0..8, (1, 1), false) && is_exclusive(0..8, (1, 2), false));
        assert!(!is_exclusive(0..4, (1, 3), false) && !is_exclusive(0..8, (1, 4), false));
        assert!(is_exclusive(0..8, (1, 5), false));
        assert!(!is_exclusive(0..8, (2, 1), true));
        assert!(!is_exclusive(0..8, (2, 2), true), "another stream may wait");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
    fn segments_are_bounded_without_losing_conflicts() {
        let bytes = 8 * SEGMENTS_MAX as u64;
        let mut state = HistoryState::new(bytes);
        for at in 0..2 * SEGMENTS_MAX as u64 {
            enter(&mut state, 4 * at..4 * at + 2, Write, (1 + at % 3, 1 + at));
            state.compact(&|_| false);
            assert!(state.layout.len() <= SEGMENTS_MAX + 2);
            assert!(
                conflicts(&mut state, 4 * at..4 * at + 2, Read)
                    .contains(&ticket(1 + at % 3, 1 + at))
            );
        }
        for at in 0..2 * SEGMENTS_MAX as u64 {
            let found = conflicts(&mut state, 4 * at..4 * at + 1, Read);
            let waits = |t: &Ticket| t.stream == StreamId::of(1 + at % 3) && t.sequence.get() > at;
            assert!(found.iter().any(waits), "write {at} lost");
        }
        enter(&mut state, 0..1, Write, (9, 1));
        for at in 0..SEGMENTS_MAX as u64 {
            enter(&mut state, 8 * at..8 * at + 2, Write, (9, 2 + at));
        }
        state.compact(&|_| true);
        assert_eq!(state.layout.len(), 1, "completed tickets need no segments");
    }

    /// Columns of an image of 32 rows of 8 bytes.
    fn columns(range: Range<u64>) -> Extent {
        Extent::strided(range, 32, 8)
    }

    #[test]
    fn each_rectangle_costs_one_segment_and_equal_segments_merge() {
        let mut state = HistoryState::new(256);
        enter(&mut state, columns(0..4), Write, (1, 1));
        enter(&mut state, columns(4..8), Write, (2, 1));
        assert_eq!(state.layout.len(), 2);
        assert_eq!(conflicts(&mut state, columns(0..4), Write), [(1, 1)]);
        assert_eq!(conflicts(&mut state, 250..256, Read), [(1, 1), (2, 1)]);
        assert_eq!(conflicts(&mut state, 252..256, Read), [(2, 1)]);
        for tile in 0..16 {
            let first = 64 * (tile / 4) + 2 * (tile % 4);
            enter(
                &mut state,
                Extent::strided(first..first + 2, 8, 8),
                Write,
                (3, 1 + tile),
            );
        }
        state.layout.compact_now(&|_| false);
        assert_eq!(state.layout.len(), 16);
        enter(&mut state, 0..256, Write, (4, 1));
        assert_eq!(state.layout.len(), 1);
        assert!(matches!(state.layout, HistoryLayout::Linear(_)));
    }

    #[test]
    fn an_image_of_many_rows_stays_exact_with_several_pitches() {
        let (rows, pitch) = (4320, 7680);
        let mut state = HistoryState::new(rows * pitch);
        let half =
            |number| Extent::strided(number * pitch / 2..(number + 1) * pitch / 2, rows, pitch);
        let other = Extent::strided(0..1, rows / 2, 2 * pitch);
        enter(&mut state, half(0), Write, (1, 1));
        enter(&mut state, other, Read, (2, 1));
        enter(&mut state, half(1), Write, (3, 1));
        state.compact(&|_| false);
        assert_eq!(conflicts(&mut state, half(1), Write), [(3, 1)]);
        assert_eq!(conflicts(&mut state, half(0), Write), [(1, 1), (2, 1)]);
        assert_eq!(conflicts(&mut state, pitch..pitch + 1, Write), [(1, 1)]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri, and safe code")]
    fn a_pitched_layout_is_bounded_without_losing_conflicts() {
        let pitch = 512;
        let rows = 4 * SEGMENTS_MAX as u64 / pitch;
        let mut state = HistoryState::new(rows * pitch);
        for row in 0..rows / 2 {
            for column in 0..pitch / 2 {
                let first = 2 * row * pitch + 2 * column;
                let extent = Extent::strided(first..first + 1, 2, pitch);
                enter(&mut state, extent, Write, (1 + column % 3, 1 + row));
                state.compact(&|_| false);
                assert!(state.layout.len() <= SEGMENTS_MAX);
            }
        }
        for row in 0..rows / 2 {
            for column in 0..pitch / 2 {
                let first = 2 * row * pitch + 2 * column;
                let found = conflicts(&mut state, first..first + 1, Read);
                let waits =
                    |t: &Ticket| t.stream == StreamId::of(1 + column % 3) && t.sequence.get() > row;
                assert!(found.iter().any(waits), "write {row}, {column} lost");
            }
        }
    }
}
