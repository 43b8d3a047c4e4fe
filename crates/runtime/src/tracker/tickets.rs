//! A set of tickets with at most one per stream, the highest.

use super::{DeviceNumber, StreamId, Ticket};

/// The number of tickets besides the first up to which a linear search is faster than a binary one.
const LINEAR_SEARCH_MAX: usize = 8;

/// Tickets of different streams, sorted by stream. Usually there is at most one, which needs
/// neither a search nor an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tickets {
    first: Option<Ticket>,
    /// The remaining tickets; empty if `first` is `None`.
    others: Vec<Ticket>,
}

impl Tickets {
    #[cfg(test)]
    pub(super) fn of(ticket: Ticket) -> Self {
        let mut tickets = Self::default();
        tickets.keep_highest(ticket);
        tickets
    }

    #[inline]
    pub(super) fn are_of(&self, stream: StreamId) -> bool {
        self.others.is_empty() && self.first.is_none_or(|first| first.stream == stream)
    }

    /// Iterates over the tickets in the order of their streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    #[inline(always)]
    pub(super) fn for_each(&self, each: &mut impl FnMut(Ticket)) {
        let Some(first) = self.first else {
            return;
        };
        each(first);
        for &ticket in &self.others {
            each(ticket);
        }
    }

    /// Adds a ticket, unless there is a higher one of its stream.
    #[inline(always)]
    pub(super) fn keep_highest(&mut self, ticket: Ticket) {
        match &mut self.first {
            None => self.first = Some(ticket),
            Some(first) if first.stream == ticket.stream => {
                first.sequence = first.sequence.max(ticket.sequence)
            }
            Some(_) => self.keep_highest_of_several(ticket),
        }
    }

    #[inline(never)]
    fn keep_highest_of_several(&mut self, ticket: Ticket) {
        let precedes = |listed: &Ticket| listed.stream < ticket.stream;
        let at = if self.others.len() <= LINEAR_SEARCH_MAX {
            let listed = self.others.iter();
            listed.take_while(|&listed| precedes(listed)).count()
        } else {
            self.others.partition_point(precedes)
        };
        match self.others.get_mut(at) {
            Some(listed) if listed.stream == ticket.stream => {
                listed.sequence = listed.sequence.max(ticket.sequence);
            }
            _ => self.insert(at, ticket),
        }
    }

    /// Inserts the ticket of a stream that has none yet, as the first or at index `at` of the
    /// others.
    #[inline(never)]
    fn insert(&mut self, at: usize, ticket: Ticket) {
        match &mut self.first {
            Some(first) if ticket.stream < first.stream => {
                self.others.insert(0, std::mem::replace(first, ticket));
            }
            _ => self.others.insert(at, ticket),
        }
    }

    #[inline(always)]
    pub(super) fn replace(&mut self, ticket: Ticket) {
        self.first = Some(ticket);
        self.others.clear();
    }

    #[inline]
    pub(super) fn are_of_device(&self, device: DeviceNumber) -> bool {
        let is_of = |ticket: &Ticket| ticket.stream.device() == device;
        self.first.as_ref().is_none_or(is_of) && self.others.iter().all(is_of)
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }

    pub(super) fn retain(&mut self, mut keeps: impl FnMut(Ticket) -> bool) {
        self.others.retain(|&ticket| keeps(ticket));
        if !self.first.is_some_and(keeps) {
            self.first = (!self.others.is_empty()).then(|| self.others.remove(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn tickets_are_the_highest_of_each_stream_in_order(
            added in prop::collection::vec((1..6_u64, 0..9_u64), 0..12),
            done in 0..9_u64,
        ) {
            let (mut tickets, mut known) = (Tickets::default(), BTreeMap::new());
            for (stream, sequence) in added {
                tickets.keep_highest(Ticket::of(stream, sequence));
                let highest = known.entry(stream).or_insert(sequence);
                *highest = sequence.max(*highest);
            }
            let listed = |tickets: &Tickets| -> Vec<(u64, u64)> {
                let pair = |ticket: Ticket| (ticket.stream.number(), ticket.sequence.get());
                tickets.iter().map(pair).collect()
            };
            prop_assert_eq!(listed(&tickets), known.clone().into_iter().collect::<Vec<_>>());
            let mut each = Tickets::default();
            tickets.for_each(&mut |ticket| each.keep_highest(ticket));
            prop_assert_eq!(&each, &tickets);
            let strangers = known.keys().any(|&stream| stream != 3);
            prop_assert_eq!(tickets.are_of(StreamId::of(3)), !strangers);
            tickets.retain(|ticket| ticket.sequence.get() > done);
            known.retain(|_, sequence| *sequence > done);
            prop_assert_eq!(listed(&tickets), known.into_iter().collect::<Vec<_>>());
            prop_assert!(tickets.are_of_device(Ticket::of(1, 1).stream.device()));
            let mut several = tickets.clone();
            several.keep_highest(Ticket::of_device(2, 3, 1));
            prop_assert!(!several.are_of_device(Ticket::of(1, 1).stream.device()));
            tickets.replace(Ticket::of(3, 1));
            prop_assert_eq!(&tickets, &Tickets::of(Ticket::of(3, 1)));
            tickets.clear();
            prop_assert_eq!(&tickets, &Tickets::default());
        }
    }
}
