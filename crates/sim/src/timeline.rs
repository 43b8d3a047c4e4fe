//! What ran when, in virtual time.

use millstream_driver::StreamHandle;

/// One operation that has run: a bar of the timeline.
///
/// ```
/// # use millstream_sim::{Gpu, SimConfig};
/// assert!(Gpu::new(SimConfig::new().timeline(true)).timeline().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The operation's number; they rise from 1 in the order of enqueueing.
    pub operation: u64,
    /// The stream.
    pub stream: StreamHandle,
    /// The device, from 0.
    pub device: u32,
    /// What it did, in a few words.
    pub what: String,
    /// When it started.
    pub start_ns: u64,
    /// When it finished.
    pub finish_ns: u64,
}

impl Span {
    /// Whether the two ran at the same time for a while.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start_ns < other.finish_ns && other.start_ns < self.finish_ns
    }
}
