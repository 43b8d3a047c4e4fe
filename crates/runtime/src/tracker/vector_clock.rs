//! Vector clocks: for every stream, the highest ticket ordered before a point in the program.

use smallvec::SmallVec;

use super::{DeviceNumber, Sequence, StreamId, Ticket};

/// The number of entries that are stored inline and searched linearly.
const FEW: usize = 8;

/// A vector clock: for every stream, the highest sequence number known to be ordered before a sync
/// point. A stream that is not listed has none.
///
/// Entries are sorted by stream. Programs usually have few streams, so the entries are stored
/// inline.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorClock {
    entries: SmallVec<[(StreamId, Sequence); FEW]>,
}

// Implemented by hand: `from_slice` copies the entries at once, the derived implementation one by
// one.
impl Clone for VectorClock {
    fn clone(&self) -> Self {
        Self {
            entries: SmallVec::from_slice(&self.entries),
        }
    }

    #[inline]
    fn clone_from(&mut self, other: &Self) {
        if self.entries.len() == other.entries.len() {
            self.entries.copy_from_slice(&other.entries);
        } else {
            self.entries.clear();
            self.entries.extend_from_slice(&other.entries);
        }
    }
}

impl VectorClock {
    /// Returns whether the ticket is ordered before this point.
    #[inline]
    pub(crate) fn covers(&self, ticket: Ticket) -> bool {
        let entries = &self.entries[..];
        find(entries, ticket.stream).is_ok_and(|at| entries[at].1 >= ticket.sequence)
    }

    /// Adds the ticket, and thereby all earlier ones of its stream.
    #[inline]
    pub(crate) fn advance(&mut self, ticket: Ticket) {
        let entries = &mut self.entries[..];
        match find(entries, ticket.stream) {
            Ok(at) => entries[at].1 = entries[at].1.max(ticket.sequence),
            Err(at) => self.insert(at, ticket),
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, ticket: Ticket) {
        self.entries.insert(at, (ticket.stream, ticket.sequence));
    }

    /// Adds everything that `other` covers.
    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        // Usually both list the same streams.
        let (own, others) = (&mut self.entries[..], &other.entries[..]);
        let mut alike = 0;
        while let (Some((stream, known)), Some((listed, sequence))) =
            (own.get_mut(alike), others.get(alike))
            && stream == listed
        {
            *known = (*known).max(*sequence);
            alike += 1;
        }
        if alike < others.len() {
            self.merge(alike, &others[alike..]);
        }
    }

    /// Adds everything that `other` covers on the streams of one device.
    #[cold]
    pub(crate) fn join_device(&mut self, other: &Self, device: DeviceNumber) {
        // The streams of a device are adjacent, because an identifier begins with the device.
        let device_of = |&(stream, _): &(StreamId, Sequence)| stream.device();
        let start = other
            .entries
            .partition_point(|entry| device_of(entry) < device);
        let end = other
            .entries
            .partition_point(|entry| device_of(entry) <= device);
        self.merge(0, &other.entries[start..end]);
    }

    /// Merges the remaining entries of the other clock, from the own entry `at` on.
    #[inline(never)]
    fn merge(&mut self, mut at: usize, entries: &[(StreamId, Sequence)]) {
        for &(stream, sequence) in entries {
            while self
                .entries
                .get(at)
                .is_some_and(|&(listed, _)| listed < stream)
            {
                at += 1;
            }
            match self.entries.get_mut(at) {
                Some((listed, known)) if *listed == stream => *known = sequence.max(*known),
                _ => self.entries.insert(at, (stream, sequence)),
            }
            at += 1;
        }
    }

    /// Removes completed tickets, after which no operation needs to be ordered any more.
    pub(crate) fn forget_done(&mut self, mut is_done: impl FnMut(Ticket) -> bool) {
        self.entries
            .retain(|&mut (stream, sequence)| !is_done(Ticket::new(stream, sequence)));
    }

    /// Iterates over the highest ticket of each stream.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.entries
            .iter()
            .map(|&(stream, sequence)| Ticket::new(stream, sequence))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Returns the index of the stream's entry, or the index at which it is to be inserted.
#[inline]
fn find(entries: &[(StreamId, Sequence)], stream: StreamId) -> Result<usize, usize> {
    if entries.len() > FEW {
        return find_among_many(entries, stream);
    }
    for (at, &(listed, _)) in entries.iter().enumerate() {
        if listed >= stream {
            return if listed == stream { Ok(at) } else { Err(at) };
        }
    }
    Err(entries.len())
}

#[inline(never)]
fn find_among_many(entries: &[(StreamId, Sequence)], stream: StreamId) -> Result<usize, usize> {
    entries.binary_search_by_key(&stream, |&(listed, _)| listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(stream: u64, sequence: u64) -> Ticket {
        Ticket::of(stream, sequence)
    }

    #[test]
    fn a_clock_covers_added_tickets_and_earlier_ones_only() {
        let mut clock = VectorClock::default();
        clock.advance(ticket(3, 5));
        clock.advance(ticket(1, 2));
        clock.advance(ticket(3, 4));
        assert!(
            clock.covers(ticket(3, 5)) && clock.covers(ticket(3, 1)) && clock.covers(ticket(1, 2))
        );
        assert!(!clock.covers(ticket(3, 6)) && !clock.covers(ticket(2, 1)));
    }

    #[test]
    fn join_takes_the_highest_of_each_stream() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        a.advance(ticket(1, 9));
        a.advance(ticket(2, 1));
        b.advance(ticket(2, 7));
        b.advance(ticket(4, 3));
        a.join(&b);
        let all: Vec<_> = a.tickets().collect();
        assert_eq!(all, [ticket(1, 9), ticket(2, 7), ticket(4, 3)]);
        assert_eq!(a.len(), 3);
    }

    #[test]
    fn the_part_of_one_device_is_joined() {
        let (mut a, mut b) = (VectorClock::default(), VectorClock::default());
        a.advance(ticket(1, 9));
        for (device, stream) in [(1, 1), (2, 1), (2, 2), (3, 1)] {
            b.advance(Ticket::of_device(device, stream, 10));
        }
        a.join_device(&b, DeviceNumber::of(2));
        let all: Vec<_> = a.tickets().collect();
        let joined = [1, 2].map(|stream| Ticket::of_device(2, stream, 10));
        assert_eq!(all, [ticket(1, 9), joined[0], joined[1]]);
    }

    #[test]
    fn completed_tickets_are_removed() {
        let mut clock = VectorClock::default();
        clock.advance(ticket(1, 9));
        clock.advance(ticket(2, 1));
        clock.forget_done(|t| t.stream == StreamId::of(1));
        assert_eq!(clock.len(), 1);
        assert!(!clock.covers(ticket(1, 9)) && clock.covers(ticket(2, 1)));
    }
}
