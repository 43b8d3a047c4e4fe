//! Tickets: the name of one operation, as a stream and a place in it.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// A stream, by a number that no other stream of this process ever has. It says where its device
/// keeps the stream, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(NonZeroU64);

/// How many bits of a stream's number are its index.
const INDEX_BITS: u32 = 24;

impl StreamId {
    /// How many places there are.
    pub(crate) const INDICES: u32 = 1 << INDEX_BITS;

    /// A number not given before, of a stream at this index; none if there is no such index. At one
    /// stream a microsecond there are enough for twelve days, and a driver takes longer for one.
    pub(crate) fn at(index: u32) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = (index < Self::INDICES).then(|| NEXT.fetch_add(1, Ordering::Relaxed))?;
        Some(Self::from_parts(number, index))
    }

    /// The number without the index.
    #[cfg(test)]
    pub(crate) fn number(self) -> u64 {
        self.0.get() >> INDEX_BITS
    }

    /// Where its device keeps the stream: no other stream of the device has that index.
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
        Self(NonZeroU64::new(both).expect("streams are counted from 1"))
    }
}

/// The place of an operation in its stream, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sequence(u64);

impl Sequence {
    /// In front of the first operation: where a stream is that nothing was submitted to.
    pub(crate) const START: Self = Self(0);
    /// The first operation.
    pub(crate) const FIRST: Self = Self(1);
    /// Behind every operation that there will be.
    pub(crate) const END: Self = Self(u64::MAX);

    /// The place with this number.
    #[inline]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The place behind this one.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The place in front of this one, which is not the start.
    #[inline]
    pub(crate) const fn previous(self) -> Self {
        Self(self.0 - 1)
    }
}

/// One operation: the `sequence`-th of its stream, counting from 1.
///
/// Operations of one stream run in the order of their numbers, so whatever is ordered after a
/// ticket is ordered after every earlier ticket of that stream too.
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
    fn a_stream_has_its_number_to_itself() {
        assert_eq!(StreamId::of(7).number(), 7);
        let [first, second] =
            [5, 3].map(|index| StreamId::at(index).expect("there is such an index"));
        assert!(first.number() < second.number());
        assert_eq!([first, second].map(StreamId::index), [5, 3]);
        assert_eq!(StreamId::at(StreamId::INDICES), None);
    }
}
