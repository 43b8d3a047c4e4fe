//! Operations that consist of several copies, of which each runs after the one before.

#![allow(unsafe_code, reason = "enqueues copies that depend on each other")]

use millstream_driver::{Copy2d, DevicePtr, DriverError, Side2d};

use super::{
    commands::{Command, CopyOnDevice, DriverStream},
    commands_2d::CopyRows,
};
use crate::context::recording::{NodeSink, NotRecorded};

/// Commands of one operation that run one after the other (rule 16: a stream is first in, first
/// out).
pub(crate) struct InTurn<I>(I);

impl<I> InTurn<I>
where
    I: Iterator<Item: Command<Output = ()>>,
{
    fn new(commands: I) -> Self {
        Self(commands)
    }
}

impl<I> Command for InTurn<I>
where
    I: Iterator<Item: Command<Output = ()>>,
{
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        for command in self.0 {
            // SAFETY: by this function's contract; other commands of the operation are ordered with
            // this one by the stream.
            unsafe { command.enqueue(driver_stream) }?;
        }
        Ok(())
    }

    fn record(
        mut self,
        driver_stream: DriverStream<'_>,
        sink: &mut dyn NodeSink,
    ) -> Result<(), NotRecorded> {
        self.0
            .try_for_each(|command| command.record(driver_stream, sink))
    }
}

/// Returns a fill of `bytes` bytes at `target` with the contents of its first `ready_bytes` bytes:
/// copies of the filled part that double its size.
pub(crate) fn repeat(
    target: DevicePtr,
    ready_bytes: usize,
    bytes: usize,
) -> impl Command<Output = ()> {
    InTurn::new(
        doublings(ready_bytes, bytes).map(move |(ready, more)| CopyOnDevice {
            target: target.offset(ready as u64),
            source: target,
            bytes: more,
        }),
    )
}

/// The rows of a rectangle of which the first is to be repeated.
pub(crate) struct RepeatedRows {
    pub(crate) first: DevicePtr,
    pub(crate) row_bytes: usize,
    pub(crate) pitch_bytes: usize,
    pub(crate) rows: usize,
    /// The maximum pitch of the driver, in bytes.
    pub(crate) pitch_bytes_max: usize,
}

impl RepeatedRows {
    /// Returns a fill of all rows with the first: copies of 1, 2, 4, … filled rows.
    pub(crate) fn fill(self) -> impl Command<Output = ()> {
        InTurn::new(doublings(1, self.rows).map(move |(ready, more)| {
            let offset = (ready * self.pitch_bytes) as u64;
            let copy = Copy2d {
                source: Side2d::device(self.first, self.pitch_bytes),
                target: Side2d::device(self.first.offset(offset), self.pitch_bytes),
                width_bytes: self.row_bytes,
                height: more,
            };
            CopyRows {
                copy,
                pitch_bytes_max: self.pitch_bytes_max,
            }
        }))
    }
}

/// Doubles what is ready until it is `all`: returns, for each copy, the number of ready units and
/// the number of units to copy. For 1 of 5 units: (1, 1), (2, 2), (4, 1).
fn doublings(ready: usize, all: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::successors(Some(ready), |ready| ready.checked_mul(2))
        .take_while(move |&ready| ready < all)
        .map(move |ready| (ready, ready.min(all - ready)))
}

/// A copy within the device between overlapping ranges, in chunks that do not overlap their own
/// targets. Their order makes sure that no chunk is overwritten before it is read.
pub(crate) struct OverlappingCopy {
    pub(crate) target: DevicePtr,
    pub(crate) source: DevicePtr,
    pub(crate) bytes: usize,
}

impl OverlappingCopy {
    /// Returns the distance between source and target in bytes, which is the maximum length of a
    /// chunk.
    fn distance(&self) -> usize {
        let distance = self.target.as_raw().abs_diff(self.source.as_raw());
        usize::try_from(distance).unwrap_or(usize::MAX)
    }

    pub(crate) fn chunks(&self) -> usize {
        self.bytes.div_ceil(self.distance().max(1))
    }

    /// Returns the copies: a chunk is no longer than the distance to its target, which the copies
    /// before have read.
    pub(crate) fn copies(self) -> impl Command<Output = ()> {
        let (chunks, chunk_bytes) = (self.chunks(), self.distance());
        let forward = self.target.as_raw() < self.source.as_raw();
        InTurn::new((0..chunks).map(move |number| {
            let chunk = if forward { number } else { chunks - 1 - number };
            let offset = chunk * chunk_bytes;
            CopyOnDevice {
                target: self.target.offset(offset as u64),
                source: self.source.offset(offset as u64),
                bytes: chunk_bytes.min(self.bytes - offset),
            }
        }))
    }
}
