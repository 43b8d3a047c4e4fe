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
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Generates tickets of many streams of two devices.
    fn tickets() -> impl Strategy<Value = Vec<Ticket>> {
        let ticket = (1..3_u64, 0..FEW as u32, 1..9_u64)
            .prop_map(|(device, stream, sequence)| Ticket::of_device(device, stream, sequence));
        prop::collection::vec(ticket, 0..30)
    }

    proptest! {
        #[test]
        fn a_clock_covers_added_tickets_and_earlier_ones_only(
            (mut added, mut others) in (tickets(), tickets()),
            (of_device, done) in (any::<bool>(), 0..9_u64),
        ) {
            let [mut clock, mut other] = [(); 2].map(|()| VectorClock::default());
            added.iter().for_each(|&ticket| clock.advance(ticket));
            others.iter().for_each(|&ticket| other.advance(ticket));
            let device = DeviceNumber::of(2);
            if of_device {
                clock.join_device(&other, device);
                others.retain(|ticket| ticket.stream.device() == device);
            } else {
                clock.join(&other);
            }
            clock.forget_done(|ticket| ticket.sequence.get() <= done);
            added.extend(others);
            added.sort();
            let pair = |ticket: Ticket| (ticket.stream, ticket.sequence);
            let mut highest: BTreeMap<_, _> = added.iter().copied().map(pair).collect();
            highest.retain(|_, sequence| sequence.get() > done);
            prop_assert_eq!(clock.len(), highest.len());
            prop_assert!(clock.tickets().map(pair).eq(highest.clone()));
            for Ticket { stream, sequence } in added {
                for sequence in [sequence.previous(), sequence, sequence.next()] {
                    let covers = highest.get(&stream).is_some_and(|&last| last >= sequence);
                    prop_assert_eq!(clock.covers(Ticket::new(stream, sequence)), covers);
                }
            }
        }
    }
}
