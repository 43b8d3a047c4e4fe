//! The bound of a stream's queue (rule 54): with so many kernels, copies and fills in it that have
//! not run, the call that brings another blocks the host until the oldest has.
//!
//! Only the host may be able to let the stream go on, by a gate that it would open behind this
//! call. On a GPU such a program hangs. Here it is told so, when nothing at all has happened for a
//! while, and goes on as if the queue had no bound.

use std::time::{Duration, Instant};

use millstream_driver::{ContextHandle, StreamHandle};

use super::{gpu::StateGuard, state::CallResult, wait_set::WaitSet};
use crate::{
    ReportKind,
    ids::{OpId, name},
};

/// How long, in real time, nothing runs and nobody calls before a full queue counts as a deadlock.
const STUCK_AFTER: Duration = Duration::from_secs(5);

impl StateGuard<'_> {
    /// Blocks until the stream's queue has room for one operation more. Afterwards the stream may
    /// be gone, or its context lost.
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
                    "the queue of {} is full, with {most} kernels, copies and fills, and nothing moves: if only the thread \
                     that calls can let the stream go on, it never will (rule 54)",
                    name(stream)
                );
                self.report(ReportKind::QueueFull, text);
                self.config.queue_operations_max = None;
                break;
            }
        }
        self.stream(context, stream).map(drop)
    }

    fn oldest_if_full(&self, stream: StreamHandle, most: usize) -> Option<OpId> {
        let queued = &self.streams.get(&stream)?.queued;
        queued.front().copied().filter(|_| queued.len() >= most)
    }

    /// Runs what must run until the operation is done, and moves the clock there. `false`: nothing
    /// happens any more.
    fn wait_for_oldest(&mut self, oldest: OpId) -> bool {
        let wait_set = WaitSet {
            ops: vec![oldest],
            finish_ns: 0,
        };
        let waiter = self.add_waiter(&wait_set);
        let mut seen = (self.progress, self.calls);
        let mut since = Instant::now();
        while self.waiters[&waiter].unmet > 0 && since.elapsed() < STUCK_AFTER {
            if !self.advance_one(&wait_set.ops) {
                self.sleep(STUCK_AFTER / 10);
            }
            let now = (self.progress, self.calls);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        let waited = self.waiters.remove(&waiter).expect("added above");
        self.now_ns = self.now_ns.max(waited.finish_ns);
        waited.unmet == 0
    }
}
