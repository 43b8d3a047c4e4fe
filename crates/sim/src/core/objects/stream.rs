//! Streams, events, and the work that the host waits for.

use std::collections::VecDeque;

use millstream_driver::{ContextHandle, EventKind};
use millstream_ptx::Site;

use super::captures::CapturedPoint;
use crate::ids::OpId;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: ContextHandle,
    pub(crate) non_blocking: bool,
    pub(crate) priority: i32,
    /// The latest finish time of the stream's complete operations.
    pub(crate) last_finish_ns: u64,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
    /// Set once the stream is destroyed; it stays until its operations are complete (rule 21).
    pub(crate) destroyed: bool,
    /// The pending operations without the nodes of graphs, oldest first.
    pub(crate) pending: VecDeque<OpId>,
    /// The pending operations that count towards the queue limit, oldest first (rule 54: enqueueing
    /// into a full queue blocks the host).
    pub(crate) queued: VecDeque<OpId>,
    /// The stream's part in a capture.
    pub(crate) capture: Option<CapturedPoint>,
}

impl Stream {
    /// Returns the last enqueued operation, while it is not complete.
    pub(crate) fn last(&self) -> Option<OpId> {
        self.pending.back().copied()
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: ContextHandle,
    pub(crate) kind: EventKind,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
    /// The last record, if the event was recorded.
    pub(crate) capture: Option<Capture>,
    /// The point of a capture that the last record captured, if it was on a capturing stream.
    pub(crate) captured: Option<CapturedPoint>,
}

/// A recorded point of a stream (rule 22: a record captures the stream's work at the time of the
/// call).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    /// The record operation.
    pub(crate) op: OpId,
    /// The finish time of the record, once complete.
    pub(crate) finish_ns: Option<u64>,
}

/// A host thread's wait for a set of operations.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The operations of the wait set.
    pub(crate) ops: Vec<OpId>,
    /// The number of operations that are not complete.
    pub(crate) unmet: usize,
    /// The latest finish time of the complete operations.
    pub(crate) finish_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WaitSet {
    /// The operations that were not complete when the set was made.
    pub(crate) ops: Vec<OpId>,
    /// The latest finish time of the operations that are complete.
    pub(crate) finish_ns: u64,
}

impl WaitSet {
    /// Records the finish time of an operation, if it is in the set.
    pub(crate) fn note(&mut self, op: OpId, finish_ns: u64) {
        if self.ops.contains(&op) {
            self.finish_ns = self.finish_ns.max(finish_ns);
        }
    }
}
