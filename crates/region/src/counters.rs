//! Counters of finished blocks, in device memory.
//!
//! Kernels in which several blocks share a result count their blocks, and leave the counters as 0.
//! So a session takes over the counters of an earlier one whose kernels come before its own,
//! without a fill. Counters of a launch that could not be enqueued are not taken over, because the
//! driver may fail after it has begun: they are dropped like any other array.

use millstream::{Buffer, Stream};

use crate::error::Result;

/// The number of counters of a stream: of the results that several blocks of a kernel share.
pub(crate) const COUNTERS: usize = 1024;

pub(crate) struct Counters {
    array: Buffer<u32>,
    /// The number of launches that began and were not enqueued.
    incomplete: usize,
}

impl Counters {
    /// Takes counters that are 0 between the kernels on the stream.
    pub(crate) fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            array: stream.reused_zeros(COUNTERS)?,
            incomplete: 0,
        })
    }

    /// Returns the array, for the recording of a graph.
    pub(crate) fn array(&self) -> &Buffer<u32> {
        &self.array
    }

    /// Begins a launch, which writes the array.
    pub(crate) fn begin_launch(&mut self) -> &mut Buffer<u32> {
        self.incomplete += 1;
        &mut self.array
    }

    pub(crate) fn end_launch(&mut self) {
        self.incomplete -= 1;
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        if self.incomplete == 0 {
            self.array.note_zeros();
        }
    }
}
