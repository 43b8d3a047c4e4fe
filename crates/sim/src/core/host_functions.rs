//! Host functions: they run on one thread of the simulated GPU, outside the lock, in stream order
//! (rule 27).
//!
//! The thread is started with the first function, sleeps while there is none, and ends with the
//! simulated GPU. It also plays the part of the device that nobody watches: a function is awaited
//! by whoever passed it, perhaps by a thread that sleeps and makes no driver call. So when
//! functions are pending and no call has been made for a while, this thread forces the oldest of
//! them to run, as a wait would.

use std::{
    cell::Cell,
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, Weak},
    thread,
    time::Duration,
};

use millstream_driver::HostFunction;
use parking_lot::MutexGuard;

use super::{gpu::GpuInner, state::SimState};
use crate::{Gpu, ids::OpId};

/// How long, in real time, no call is made before a pending function is forced.
const QUIET: Duration = Duration::from_millis(2);

/// The simulator state's side of the callback thread.
#[derive(Default)]
pub(crate) struct HostFunctions {
    queue: VecDeque<(OpId, HostFunction)>,
    /// Started and not yet returned.
    pub(crate) running: usize,
    /// Functions enqueued and not started, oldest first; those of a lost context drop out when they
    /// are looked at.
    pending: VecDeque<OpId>,
    started: bool,
    has_thread: bool,
}

impl HostFunctions {
    /// Hands a function to the callback thread.
    pub(crate) fn start(&mut self, id: OpId, function: HostFunction) {
        self.queue.push_back((id, function));
        self.pending.retain(|op| *op != id);
        self.running += 1;
        self.started = true;
    }

    /// Notes a function that was enqueued.
    pub(crate) fn enqueued(&mut self, id: OpId) {
        self.pending.push_back(id);
    }

    /// Whether a function was started since this was last asked.
    pub(crate) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.started)
    }
}

thread_local! {
    /// Which simulated GPU's callback thread this is, by the address of what its handles share; 0:
    /// none.
    static RUNS_FOR: Cell<usize> = const { Cell::new(0) };
    /// The host function's operation, while one runs.
    static OPERATION: Cell<Option<OpId>> = const { Cell::new(None) };
}

/// Whether the calling thread is in a host function of this simulated GPU.
pub(crate) fn is_running_here(inner: &Arc<GpuInner>) -> bool {
    RUNS_FOR.get() == Arc::as_ptr(inner).addr()
}

/// The operation of the host function of this simulated GPU that the calling thread is in, if it is
/// in one.
pub(crate) fn operation_here(inner: &Arc<GpuInner>) -> Option<OpId> {
    OPERATION.get().filter(|_| is_running_here(inner))
}

impl GpuInner {
    /// Starts the callback thread if there is none.
    pub(crate) fn ensure_callback_thread(self: &Arc<Self>, state: &mut MutexGuard<'_, SimState>) {
        if state.host_functions.has_thread {
            return;
        }
        state.host_functions.has_thread = true;
        let (gpu_of_thread, signal) = (Arc::downgrade(self), Arc::clone(&self.callback));
        thread::Builder::new()
            .name("sim-host-functions".into())
            .spawn(move || serve(&gpu_of_thread, &signal))
            .expect("the host can start a thread");
    }
}

/// The callback thread. It holds the simulated GPU while it looks, and while a function runs, for
/// that may use its memory; not while it sleeps, so that the simulated GPU can be dropped.
fn serve(weak: &Weak<GpuInner>, signal: &Signal) {
    RUNS_FOR.set(weak.as_ptr().addr());
    let mut calls_seen = 0;
    while let Some(inner) = weak.upgrade() {
        let gpu = Gpu { inner };
        match look(&gpu, &mut calls_seen) {
            CallbackAction::Run(id, function) => {
                OPERATION.set(Some(id));
                if let Err(payload) = catch_unwind(AssertUnwindSafe(function)) {
                    // Not dropped: a payload's destructor may panic too, and this thread serves
                    // others.
                    mem::forget(payload);
                }
                OPERATION.set(None);
                returned(&gpu, id);
            }
            CallbackAction::Look => {}
            CallbackAction::Sleep(limit) => {
                drop(gpu);
                signal.wait(limit);
            }
        }
    }
}

/// What the callback thread does next.
enum CallbackAction {
    Run(OpId, HostFunction),
    Look,
    /// Until it is signalled, or for this long.
    Sleep(Option<Duration>),
}

fn look(gpu: &Gpu, calls_seen: &mut u64) -> CallbackAction {
    let mut state = gpu.enter();
    if let Some((id, function)) = state.host_functions.queue.pop_front() {
        if state.ops.contains_key(&id) {
            // Whoever it wakes is behind all that is in front of it.
            let seen = state.race_checker.operation(id, true);
            state.race_checker.host_observed(&seen);
            return CallbackAction::Run(id, function);
        }
        // The context was lost meanwhile: never called, and leaked (rule 28).
        std::mem::forget(function);
        state.host_functions.running -= 1;
        return CallbackAction::Look;
    }
    while let Some(oldest) = state.host_functions.pending.front().copied()
        && !state.ops.contains_key(&oldest)
    {
        state.host_functions.pending.pop_front();
    }
    let Some(oldest) = state.host_functions.pending.front().copied() else {
        return CallbackAction::Sleep(None);
    };
    let quiet = state.calls == *calls_seen;
    *calls_seen = state.calls;
    if quiet && state.advance(&[oldest]) {
        gpu.inner.changed.notify_all();
        return CallbackAction::Look;
    }
    CallbackAction::Sleep(Some(QUIET))
}

/// The function of operation `id` has returned.
fn returned(gpu: &Gpu, id: OpId) {
    let mut state = gpu.enter();
    state.host_function_returned(id);
    state.run_after_call();
    drop(state);
    gpu.inner.changed.notify_all();
}

/// A flag that a thread waits for.
///
/// Made of the standard library's parts. `parking_lot` lists all parked threads of the process, and
/// a child made by `fork` inherits the list with threads that it does not have.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: std::sync::Mutex<bool>,
    changed: std::sync::Condvar,
}

impl Signal {
    /// Wakes the thread that waits, or the next that would.
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait(&self, limit: Option<Duration>) {
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

impl Drop for GpuInner {
    fn drop(&mut self) {
        // The callback thread finds the simulated GPU gone, and ends.
        self.callback.raise();
    }
}

impl std::fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunctions")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use millstream_driver::{DeviceOrdinal, StreamHandle};

    use super::*;
    use crate::{Schedule, SimConfig};

    #[test]
    fn a_world_lives_as_long_as_a_function_of_it_runs_and_no_longer() {
        let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Eager));
        let (open, gate) = mpsc::channel::<()>();
        let (started, starts) = mpsc::channel();
        let enqueued = gpu.call(
            "cuLaunchHostFunc",
            |_| 0,
            |state| {
                let context = state.primary_context_retain(DeviceOrdinal::from_raw(0))?;
                let mut function: Option<HostFunction> = Some(Box::new(move || {
                    started.send(()).unwrap();
                    gate.recv().unwrap();
                }));
                state.launch_host_function(context, StreamHandle::LEGACY, &mut function)
            },
        );
        enqueued.expect("it is enqueued");
        let weak = Arc::downgrade(&gpu.inner);
        starts.recv().expect("it starts");
        drop(gpu);
        assert!(
            weak.upgrade().is_some(),
            "the function may use the simulated GPU's memory"
        );
        open.send(()).unwrap();
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
