//! Tickets: the name of one operation, as a stream and a place in it.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// A stream, by a number that no other stream of this process ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(NonZeroU64);

impl StreamId {
    /// A number not given before. Counting from 1 at one stream a nanosecond lasts five centuries.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::from_number(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number itself, for people.
    pub(crate) fn number(self) -> u64 {
        self.0.get()
    }

    #[cfg(test)]
    pub(crate) fn of(number: u64) -> Self {
        Self::from_number(number)
    }

    fn from_number(number: u64) -> Self {
        Self(NonZeroU64::new(number).expect("streams are counted from 1"))
    }
}

/// One operation: the `sequence`-th of its stream, counting from 1.
///
/// Operations of one stream run in the order of their numbers, so whatever is ordered after a ticket is ordered after
/// every earlier ticket of that stream too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    pub(crate) stream: StreamId,
    pub(crate) sequence: u64,
}

impl Ticket {
    pub(crate) fn new(stream: StreamId, sequence: u64) -> Self {
        Self { stream, sequence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_number_to_itself() {
        assert_eq!(StreamId::of(7).number(), 7);
        assert!(StreamId::next() < StreamId::next());
    }
}
