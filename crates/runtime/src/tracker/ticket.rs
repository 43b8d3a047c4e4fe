//! Tickets: the identifier of an operation, as a stream and a sequence number.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// An opened device's number, unique in the process: a device that is opened again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DeviceNumber(u64);

impl DeviceNumber {
    /// Returns a new number. The numbers suffice for a new device every microsecond for twelve
    /// days.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number, at least 1 and less than that of any later device.
    #[inline]
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }
}

/// A stream's identifier: its device's number and its index in the device's table. It is unique in
/// the process, because a table's indices are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(NonZeroU64);

/// The number of bits of the identifier that hold the index.
const INDEX_BITS: u32 = 24;

impl StreamId {
    pub(crate) const INDICES: u32 = 1 << INDEX_BITS;

    /// Creates the identifier of the device's stream at this index, or returns `None` if the index
    /// is too large.
    pub(crate) fn new(device: DeviceNumber, index: u32) -> Option<Self> {
        (index < Self::INDICES).then(|| Self::from_parts(device.0, index))
    }

    #[inline]
    pub(crate) fn device(self) -> DeviceNumber {
        DeviceNumber(self.0.get() >> INDEX_BITS)
    }

    /// Returns the number of a stream created with [`of`](Self::of).
    #[cfg(test)]
    pub(crate) fn number(self) -> u64 {
        self.index().into()
    }

    /// Returns the stream's index, which is unique among the streams of its device.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0.get() % u64::from(Self::INDICES)) as u32
    }

    /// Creates the identifier of a stream of device 1.
    #[cfg(test)]
    pub(crate) fn of(number: u64) -> Self {
        Self::from_parts(1, number as u32)
    }

    fn from_parts(number: u64, index: u32) -> Self {
        let both = (number << INDEX_BITS) + u64::from(index);
        Self(NonZeroU64::new(both).expect("device numbers start at 1"))
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

    #[inline]
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

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

    #[cfg(test)]
    pub(crate) fn of_device(device: u64, stream: u32, sequence: u64) -> Self {
        let stream = StreamId::from_parts(device, stream);
        Self::new(stream, Sequence::of(sequence))
    }
}

#[cfg(test)]
impl From<(u64, u64)> for Ticket {
    fn from((stream, sequence): (u64, u64)) -> Self {
        Self::of(stream, sequence)
    }
}

#[cfg(test)]
impl PartialEq<(u64, u64)> for Ticket {
    fn eq(&self, other: &(u64, u64)) -> bool {
        *self == Self::from(*other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_sequence_number_is_the_one_before() {
        let next = Sequence::START.next();
        assert!(next > Sequence::START && next.previous() == Sequence::START);
    }

    #[test]
    fn stream_ids_have_the_given_device_and_index() {
        assert_eq!(StreamId::of(7).number(), 7);
        let devices = [(); 2].map(|()| DeviceNumber::next());
        assert!(devices[0] < devices[1]);
        let id = |device, index| StreamId::new(device, index).expect("the index is valid");
        let [first, second] = [id(devices[0], 5), id(devices[1], 3)];
        assert_eq!([first, second].map(StreamId::index), [5, 3]);
        assert_eq!([first, second].map(StreamId::device), devices);
        assert_eq!(StreamId::new(devices[0], StreamId::INDICES), None);
    }
}
