//! Tickets: the identifier of an operation, as a stream and a sequence number.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// A stream's identifier: a number that is unique in the process, and the stream's index in its
/// device's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(NonZeroU64);

/// The number of bits of the identifier that hold the index.
const INDEX_BITS: u32 = 24;

impl StreamId {
    /// The number of possible indices.
    pub(crate) const INDICES: u32 = 1 << INDEX_BITS;

    /// Creates an identifier with a new number for a stream at this index, or returns `None` if the
    /// index is too large. At one stream per microsecond the numbers last for twelve days, and
    /// creating a stream takes longer than that.
    pub(crate) fn at(index: u32) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = (index < Self::INDICES).then(|| NEXT.fetch_add(1, Ordering::Relaxed))?;
        Some(Self::from_parts(number, index))
    }

    /// Returns the number without the index.
    #[cfg(test)]
    pub(crate) fn number(self) -> u64 {
        self.0.get() >> INDEX_BITS
    }

    /// Returns the stream's index, which is unique among the streams of its device.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0.get() % u64::from(Self::INDICES)) as u32
    }

    #[cfg(test)]
    pub(crate) fn of(number: u64) -> Self {
        Self::from_parts(number, 0)
    }

    fn from_parts(number: u64, index: u32) -> Self {
        let both = number << INDEX_BITS | u64::from(index);
        Self(NonZeroU64::new(both).expect("stream numbers start at 1"))
    }
}

/// The sequence number of an operation in its stream, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sequence(u64);

impl Sequence {
    /// The position before the first operation of a stream.
    pub(crate) const START: Self = Self(0);
    /// The sequence number of the first operation.
    pub(crate) const FIRST: Self = Self(1);
    /// The position behind all possible operations.
    pub(crate) const END: Self = Self(u64::MAX);

    /// Creates a sequence number.
    #[inline]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next sequence number.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the previous sequence number. The receiver is not [`START`](Self::START).
    #[inline]
    pub(crate) const fn previous(self) -> Self {
        Self(self.0 - 1)
    }
}

/// The identifier of an operation: its stream, and its sequence number there.
///
/// Operations of one stream run in the order of their numbers, so an operation that is ordered
/// after a ticket is ordered after every earlier ticket of that stream too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket {
    pub(crate) stream: StreamId,
    pub(crate) sequence: Sequence,
}

impl Ticket {
    pub(crate) fn new(stream: StreamId, sequence: Sequence) -> Self {
        Self { stream, sequence }
    }

    #[cfg(test)]
    pub(crate) fn of(stream: u64, sequence: u64) -> Self {
        Self::new(StreamId::of(stream), Sequence::of(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ids_have_unique_numbers_and_the_given_index() {
        assert_eq!(StreamId::of(7).number(), 7);
        let [first, second] = [5, 3].map(|index| StreamId::at(index).expect("the index is valid"));
        assert!(first.number() < second.number());
        assert_eq!([first, second].map(StreamId::index), [5, 3]);
        assert_eq!(StreamId::at(StreamId::INDICES), None);
    }
}
