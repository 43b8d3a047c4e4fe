//! The limit of a stream's queue (rule 54): with that many pending kernels, copies and fills, a
//! call that enqueues another blocks the host until the oldest has run.
//!
//! Sometimes only the host can let the stream go on, with a release that follows the blocked call
//! in program order. On a GPU such a program hangs. The simulator reports the deadlock after a
//! while without any progress, and then removes the limit.

use std::time::{Duration, Instant};

use millstream_driver::{ContextHandle, StreamHandle};

use super::{call_error::CallResult, gpu::StateGuard, host_threads, objects::stream::WaitSet};
use crate::{
    ReportKind,
    ids::{OpId, name},
};

/// The real time without an operation or a driver call after which a full queue counts as a
/// deadlock.
const STUCK_AFTER: Duration = Duration::from_secs(5);

impl StateGuard<'_> {
    /// Blocks until the stream's queue has space for one more operation. Fails if the stream or its
    /// context does not survive the wait.
    pub(crate) fn wait_for_queue_space(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> CallResult<()> {
        let Some(most) = self.config.queue_operations_max else {
            return Ok(());
        };
        while let Some(oldest) = self.oldest_if_full(stream, most) {
            if !self.with_call_restored(|state| state.wait_for_oldest(oldest)) {
                let text = format!(
                    "the queue of {} is full with {most} kernels, copies and fills, and nothing \
                     makes progress: if only the calling thread can let the stream go on, the \
                     program deadlocks (rule 54)",
                    name(stream)
                );
                self.report(ReportKind::QueueFull, text);
                self.config.queue_operations_max = None;
                break;
            }
        }
        self.stream(context, stream).map(drop)
    }

    /// Returns the oldest queued operation of the stream if its queue holds `most` or more.
    fn oldest_if_full(&self, stream: StreamHandle, most: usize) -> Option<OpId> {
        let queued = &self.streams.get(&stream)?.queued;
        queued.front().copied().filter(|_| queued.len() >= most)
    }

    /// Runs operations until `oldest` is complete, and advances the clock to its finish time.
    /// Returns `false` if nothing makes progress for [`STUCK_AFTER`].
    fn wait_for_oldest(&mut self, oldest: OpId) -> bool {
        let wait_set = WaitSet {
            ops: vec![oldest],
            finish_ns: 0,
        };
        let waiter = self.add_waiter(&wait_set);
        let _blocked = host_threads::Blocked::new();
        let mut seen = (self.progress, self.calls);
        let mut since = Instant::now();
        while self.waiters[&waiter].unmet > 0 && since.elapsed() < STUCK_AFTER {
            if !self.advance_one(&wait_set.ops) {
                self.sleep_or_fail(Some(STUCK_AFTER / 10));
            }
            let now = (self.progress, self.calls);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        let waited = self
            .waiters
            .remove(&waiter)
            .expect("the waiter was added above");
        self.now_ns = self.now_ns.max(waited.finish_ns);
        waited.unmet == 0
    }
}
