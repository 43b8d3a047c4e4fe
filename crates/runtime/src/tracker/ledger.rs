//! The ledger of one allocation: which operations last wrote and read each of its bytes.

use std::{
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{StreamId, Ticket};

/// How many segments a ledger may have before it gives up precision for space.
const SEGMENTS_MAX: usize = 1024;

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

/// Bytes that share one history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    start: u64,
    end: u64,
    /// What a reader must wait for. One ticket, unless unordered writes, a failed submission or coarsening added more;
    /// then at most one per stream.
    writes: SmallVec<[Ticket; 1]>,
    /// What, besides `writes`, a writer must wait for: at most one ticket per stream, sorted by stream.
    reads: SmallVec<[Ticket; 2]>,
}

/// Keeps the highest ticket of each stream, sorted by stream.
fn keep_highest<const N: usize>(tickets: &mut SmallVec<[Ticket; N]>, ticket: Ticket)
where
    [Ticket; N]: smallvec::Array<Item = Ticket>,
{
    match tickets.binary_search_by_key(&ticket.stream, |listed| listed.stream) {
        Ok(at) => tickets[at].sequence = tickets[at].sequence.max(ticket.sequence),
        Err(at) => tickets.insert(at, ticket),
    }
}

impl Segment {
    fn same_history(&self, other: &Self) -> bool {
        self.writes == other.writes && self.reads == other.reads
    }

    /// Takes in a neighbour's bytes and its history.
    fn absorb(&mut self, other: &Self) {
        self.end = other.end;
        for &ticket in &other.writes {
            keep_highest(&mut self.writes, ticket);
        }
        for &ticket in &other.reads {
            keep_highest(&mut self.reads, ticket);
        }
    }

    /// Cuts the segment at `at`; what is kept ends there, what is returned begins there.
    fn split_off(&mut self, at: u64) -> Self {
        let tail = Self {
            start: at,
            ..self.clone()
        };
        self.end = at;
        tail
    }
}

/// The history of an allocation, as disjoint segments that together cover it.
pub(crate) struct LedgerState {
    segments: SmallVec<[Segment; 1]>,
    /// The stream of the first operation.
    first_stream: Option<StreamId>,
    /// Whether a second stream has ever touched the allocation.
    shared: bool,
}

impl LedgerState {
    fn new(bytes: u64) -> Self {
        let whole = Segment {
            start: 0,
            end: bytes,
            writes: SmallVec::new(),
            reads: SmallVec::new(),
        };
        Self {
            segments: SmallVec::from_buf([whole]),
            first_stream: None,
            shared: false,
        }
    }

    /// Notes that `stream` touches the allocation; says whether it is shared between streams from now on.
    pub(super) fn note_stream(&mut self, stream: StreamId) -> bool {
        let first = *self.first_stream.get_or_insert(stream);
        self.shared |= first != stream;
        self.shared
    }

    /// Calls `found` with every ticket that an access of this kind to these bytes conflicts with. A ticket may come
    /// more than once.
    pub(super) fn conflicts(&self, range: &Range<u64>, kind: AccessKind, mut found: impl FnMut(Ticket)) {
        for segment in &self.segments[self.overlapping(range)] {
            segment.writes.iter().copied().for_each(&mut found);
            if kind == AccessKind::Write {
                segment.reads.iter().copied().for_each(&mut found);
            }
        }
    }

    /// Enters an ordered access: one that runs after everything it conflicts with.
    pub(super) fn enter(&mut self, range: &Range<u64>, kind: AccessKind, ticket: Ticket) {
        self.update(range, |segment| match kind {
            AccessKind::Read => keep_highest(&mut segment.reads, ticket),
            AccessKind::Write => {
                segment.writes.clear();
                segment.writes.push(ticket);
                segment.reads.clear();
            }
        });
    }

    /// Enters an access that was not ordered after what it conflicts with: the earlier history stays beside it.
    pub(super) fn enter_unordered(&mut self, range: &Range<u64>, kind: AccessKind, ticket: Ticket) {
        self.update(range, |segment| match kind {
            AccessKind::Read => keep_highest(&mut segment.reads, ticket),
            AccessKind::Write => keep_highest(&mut segment.writes, ticket),
        });
    }

    /// Bounds the number of segments: first forgets what is done, then lets neighbours share their histories, which
    /// may cost a later operation a wait that it did not need, but never loses one that it does.
    pub(super) fn compact(&mut self, is_done: &dyn Fn(Ticket) -> bool) {
        if self.segments.len() <= SEGMENTS_MAX {
            return;
        }
        for segment in &mut self.segments {
            segment.writes.retain(|ticket| !is_done(*ticket));
            segment.reads.retain(|ticket| !is_done(*ticket));
        }
        self.merge_around(0, self.segments.len());
        while self.segments.len() > SEGMENTS_MAX / 2 {
            let mut halved: SmallVec<[Segment; 1]> = SmallVec::with_capacity(self.segments.len() / 2 + 1);
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

    /// Every ticket of the whole allocation, each stream's highest once.
    pub(super) fn all_tickets(&self) -> SmallVec<[Ticket; 4]> {
        let mut all = SmallVec::new();
        for segment in &self.segments {
            segment
                .writes
                .iter()
                .chain(&segment.reads)
                .for_each(|&ticket| keep_highest(&mut all, ticket));
        }
        all
    }

    /// The segments that share a byte with `range`.
    fn overlapping(&self, range: &Range<u64>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let first = self
            .segments
            .partition_point(|segment| segment.end <= range.start);
        let last = self.segments.partition_point(|segment| segment.start < range.end);
        first..last
    }

    /// Changes the history of exactly these bytes.
    fn update(&mut self, range: &Range<u64>, mut change: impl FnMut(&mut Segment)) {
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
        if self.segments.len() > 1 {
            self.merge_around(first, last);
        }
    }

    /// Joins neighbours of equal history among `first - 1 ..= last`.
    fn merge_around(&mut self, first: usize, last: usize) {
        let from = first.saturating_sub(1);
        let until = (last + 1).min(self.segments.len());
        let mut kept = from;
        for at in from + 1..until {
            if self.segments[kept].same_history(&self.segments[at]) {
                self.segments[kept].end = self.segments[at].end;
            } else {
                kept += 1;
                self.segments.swap(kept, at);
            }
        }
        self.segments.drain(kept + 1..until);
    }
}

/// The locked history of one allocation, with its place in the global lock order.
pub(crate) struct Ledger {
    id: u64,
    bytes: u64,
    state: Mutex<LedgerState>,
}

impl Ledger {
    /// An empty history of an allocation of `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            bytes,
            state: Mutex::new(LedgerState::new(bytes)),
        }
    }

    /// An empty history of an allocation whose operations each leave a point behind, as if several streams used it.
    pub(crate) fn shared(bytes: u64) -> Self {
        let mut ledger = Self::new(bytes);
        ledger.state.get_mut().shared = true;
        ledger
    }

    /// The place in the order in which ledgers are locked.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The size of the allocation.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock()
    }

    /// What the host must wait for before it makes an access of this kind itself.
    pub(crate) fn host_conflicts(&self, range: &Range<u64>, kind: AccessKind) -> SmallVec<[Ticket; 4]> {
        let mut tickets = SmallVec::new();
        self.lock()
            .conflicts(range, kind, |ticket| keep_highest(&mut tickets, ticket));
        tickets
    }

    /// What must be over before the allocation may be freed or used for something else.
    pub(crate) fn all_tickets(&self) -> SmallVec<[Ticket; 4]> {
        self.lock().all_tickets()
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("id", &self.id)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessKind::{Read, Write};

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::new(StreamId::of(stream), sequence)
    }

    fn conflicts(state: &LedgerState, range: Range<u64>, kind: AccessKind) -> Vec<Ticket> {
        let mut found = Vec::new();
        state.conflicts(&range, kind, |ticket| found.push(ticket));
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn a_reader_waits_for_the_writer_and_a_writer_for_all_readers() {
        let mut state = LedgerState::new(100);
        state.enter(&(0..100), Write, ticket(1, 1));
        state.enter(&(0..100), Read, ticket(2, 1));
        state.enter(&(0..100), Read, ticket(3, 1));
        assert_eq!(conflicts(&state, 0..100, Read), [ticket(1, 1)]);
        assert_eq!(
            conflicts(&state, 0..100, Write),
            [ticket(1, 1), ticket(2, 1), ticket(3, 1)]
        );
        state.enter(&(0..100), Write, ticket(4, 1));
        assert_eq!(conflicts(&state, 0..100, Write), [ticket(4, 1)]);
    }

    #[test]
    fn disjoint_bytes_do_not_conflict_and_segments_merge_again() {
        let mut state = LedgerState::new(100);
        state.enter(&(0..50), Write, ticket(1, 1));
        state.enter(&(50..100), Write, ticket(2, 1));
        assert_eq!(conflicts(&state, 0..50, Write), [ticket(1, 1)]);
        assert_eq!(conflicts(&state, 49..51, Read), [ticket(1, 1), ticket(2, 1)]);
        assert_eq!(state.segments.len(), 2);
        state.enter(&(0..100), Write, ticket(3, 1));
        assert_eq!(state.segments.len(), 1);
    }

    #[test]
    fn a_partial_write_splits_in_three() {
        let mut state = LedgerState::new(100);
        state.enter(&(0..100), Write, ticket(1, 1));
        state.enter(&(40..60), Write, ticket(2, 1));
        assert_eq!(state.segments.len(), 3);
        assert_eq!(conflicts(&state, 0..40, Read), [ticket(1, 1)]);
        assert_eq!(conflicts(&state, 40..60, Read), [ticket(2, 1)]);
        assert_eq!(conflicts(&state, 60..100, Read), [ticket(1, 1)]);
    }

    #[test]
    fn an_empty_range_touches_nothing() {
        let mut state = LedgerState::new(10);
        state.enter(&(5..5), Write, ticket(1, 1));
        assert_eq!(state.segments.len(), 1);
        assert!(conflicts(&state, 0..10, Write).is_empty());
        let mut empty = LedgerState::new(0);
        empty.enter(&(0..0), Write, ticket(1, 1));
        assert!(conflicts(&empty, 0..0, Write).is_empty());
    }

    #[test]
    fn an_unordered_write_keeps_the_earlier_history() {
        let mut state = LedgerState::new(10);
        state.enter(&(0..10), Write, ticket(1, 1));
        state.enter(&(0..10), Read, ticket(2, 1));
        state.enter_unordered(&(0..10), Write, ticket(3, 1));
        assert_eq!(conflicts(&state, 0..10, Read), [ticket(1, 1), ticket(3, 1)]);
        assert_eq!(
            conflicts(&state, 0..10, Write),
            [ticket(1, 1), ticket(2, 1), ticket(3, 1)]
        );
    }

    #[test]
    fn space_is_bounded_and_nothing_is_lost_by_it() {
        let bytes = 8 * SEGMENTS_MAX as u64;
        let mut state = LedgerState::new(bytes);
        for at in 0..2 * SEGMENTS_MAX as u64 {
            state.enter(&(4 * at..4 * at + 2), Write, ticket(1 + at % 3, 1 + at));
            state.compact(&|_| false);
            assert!(state.segments.len() <= SEGMENTS_MAX + 2);
            assert!(conflicts(&state, 4 * at..4 * at + 2, Read).contains(&ticket(1 + at % 3, 1 + at)));
        }
        for at in 0..2 * SEGMENTS_MAX as u64 {
            let found = conflicts(&state, 4 * at..4 * at + 1, Read);
            let waits = |t: &Ticket| t.stream == StreamId::of(1 + at % 3) && t.sequence > at;
            assert!(found.iter().any(waits), "write {at} lost");
        }
        state.enter(&(0..1), Write, ticket(9, 1));
        for at in 0..SEGMENTS_MAX as u64 {
            state.enter(&(8 * at..8 * at + 2), Write, ticket(9, 2 + at));
        }
        state.compact(&|_| true);
        assert_eq!(state.segments.len(), 1, "what is done needs no segment");
    }
}
