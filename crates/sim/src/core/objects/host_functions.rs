//! The queue of host functions, and the signal that wakes their thread.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use millstream_driver::HostFunction;

use crate::ids::OpId;

/// A host function that may run several times, as the node of a graph does.
#[derive(Clone)]
pub struct RepeatedFunction {
    /// The function.
    pub function: Arc<dyn Fn() + Send + Sync>,
    /// Two numbers of the caller, which [`Gpu::graph_nodes`](crate::Gpu::graph_nodes) returns.
    pub tag: [usize; 2],
}

impl std::fmt::Debug for RepeatedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepeatedFunction")
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

/// The part of the simulator state that the callback thread uses.
#[derive(Default)]
pub(crate) struct HostFunctions {
    /// The started functions that the callback thread has not taken yet.
    pub(crate) queue: VecDeque<(OpId, HostFunction)>,
    /// The number of functions that were started and have not returned.
    pub(crate) running: usize,
    /// The functions that are enqueued and not started, oldest first. Functions of a lost context
    /// are removed when the callback thread next inspects the queue.
    pub(crate) pending: BTreeSet<OpId>,
    /// Set if a function was started since the last [`take_started`](Self::take_started).
    started: bool,
    /// Set once the callback thread exists.
    pub(crate) has_thread: bool,
}

impl HostFunctions {
    /// Queues a function for the callback thread.
    pub(crate) fn start(&mut self, id: OpId, function: HostFunction) {
        self.queue.push_back((id, function));
        self.pending.remove(&id);
        self.running += 1;
        self.started = true;
    }

    /// Adds an enqueued function to the pending ones.
    pub(crate) fn enqueued(&mut self, id: OpId) {
        self.pending.insert(id);
    }

    /// Returns whether a function was started since the last call of this method.
    pub(crate) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.started)
    }
}

impl std::fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunctions")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

/// A flag that a thread can wait for.
///
/// It uses the locks of the standard library: `parking_lot` lists all parked threads of the
/// process, and a child of `fork` would inherit entries for threads that it does not have.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Sets the flag and wakes the waiting thread, or the next one to wait.
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until the flag is set, for at most `limit`, and clears it.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |raised: &mut bool| !*raised;
        let mut raised = match limit {
            None => self
                .changed
                .wait_while(raised, waits)
                .unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let woken = self.changed.wait_timeout_while(raised, limit, waits);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *raised = false;
    }
}
