//! Host functions: they run in stream order on one thread of the simulated GPU, outside the lock
//! (rule 27: a host function holds back later work of its stream and must not call the driver).
//!
//! The thread starts with the first host function, sleeps while there is none, and ends with the
//! simulated GPU. It also keeps an unattended device moving: a program may wait for a host function
//! with a sleeping thread that makes no driver call, or write memory that a kernel polls and wait
//! for its answer there. So when host functions are pending or kernels poll such memory, and no
//! driver call has been made for a while, this thread lets operations run, as a blocking call
//! would.

use std::{
    cell::Cell,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use millstream_driver::HostFunction;
use parking_lot::MutexGuard;

use super::{gpu::GpuInner, objects::host_functions::Signal, state::SimState};
use crate::{
    Gpu,
    ids::OpId,
    race::{Input, SnapshotOf},
};

/// The real time without a driver call after which a pending host function is forced to run.
const QUIET: Duration = Duration::from_millis(2);

thread_local! {
    /// The address of the [`GpuInner`] that this callback thread serves; 0 on any other thread.
    static RUNS_FOR: Cell<usize> = const { Cell::new(0) };
    /// The operation of the host function that this thread is running.
    static OPERATION: Cell<Option<OpId>> = const { Cell::new(None) };
}

/// Returns whether the calling thread is the callback thread of this simulated GPU.
pub(crate) fn is_running_here(inner: &Arc<GpuInner>) -> bool {
    RUNS_FOR.get() == Arc::as_ptr(inner).addr()
}

/// Returns the operation of this GPU's host function that the calling thread is running, if any.
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
            .expect("cannot start the thread for host functions");
    }
}

/// Runs the callback thread. It holds a reference to the simulated GPU while it looks for work and
/// while a function runs, because the function may use the GPU's memory. It holds none while it
/// sleeps, so that the simulated GPU can be dropped.
fn serve(weak: &Weak<GpuInner>, signal: &Signal) {
    RUNS_FOR.set(weak.as_ptr().addr());
    let mut calls_seen = 0;
    while let Some(inner) = weak.upgrade() {
        let gpu = Gpu { inner };
        match look(&gpu, &mut calls_seen) {
            CallbackAction::Run(id, function) => {
                OPERATION.set(Some(id));
                if let Err(payload) = catch_unwind(AssertUnwindSafe(function)) {
                    // The payload is leaked: its destructor may panic too, and this thread must go
                    // on serving other functions.
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

/// The next action of the callback thread.
enum CallbackAction {
    /// Run a host function.
    Run(OpId, HostFunction),
    /// Look for work again.
    Look,
    /// Sleep until signalled, for at most this time.
    Sleep(Option<Duration>),
}

/// Chooses the callback thread's next action. Without a driver call since the last look, forces the
/// oldest pending function to run.
fn look(gpu: &Gpu, calls_seen: &mut u64) -> CallbackAction {
    let mut state = gpu.enter();
    if let Some((id, function)) = state.host_functions.queue.pop_front() {
        if state.ops.contains_key(&id) {
            // A thread that the function wakes happens after everything ordered before the
            // function.
            let of = SnapshotOf::Operation(id, true);
            let seen = state.race_checker.snapshot(of);
            state.race_checker.take(Input::Called(seen));
            return CallbackAction::Run(id, function);
        }
        // The context was lost meanwhile: the function is never called, and is leaked (rule 28).
        std::mem::forget(function);
        state.host_functions.running -= 1;
        return CallbackAction::Look;
    }
    while let Some(oldest) = state.host_functions.pending.first().copied()
        && !state.ops.contains_key(&oldest)
    {
        state.host_functions.pending.pop_first();
    }
    let oldest = state.host_functions.pending.first().copied();
    if oldest.is_none() && !state.waits_for_host() {
        return CallbackAction::Sleep(None);
    }
    let quiet = state.calls == *calls_seen;
    *calls_seen = state.calls;
    if quiet && state.advance(oldest.as_slice()) {
        state.run_after_call();
        gpu.inner.changed.notify_all();
        return CallbackAction::Look;
    }
    CallbackAction::Sleep(Some(QUIET))
}

/// Completes operation `id` after its host function has returned.
fn returned(gpu: &Gpu, id: OpId) {
    let mut state = gpu.enter();
    state.host_function_returned(id);
    state.run_after_call();
    drop(state);
    gpu.inner.changed.notify_all();
}

impl Drop for GpuInner {
    fn drop(&mut self) {
        // The callback thread then finds the simulated GPU gone and ends.
        self.callback.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use millstream_driver::{DeviceOrdinal, StreamHandle};

    use super::*;
    use crate::{Schedule, SimConfig};

    #[test]
    fn the_gpu_lives_until_its_running_host_function_returns() {
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
        enqueued.expect("cannot enqueue the host function");
        let weak = Arc::downgrade(&gpu.inner);
        starts.recv().expect("the host function did not start");
        drop(gpu);
        assert!(
            weak.upgrade().is_some(),
            "the simulated GPU was dropped while its host function ran"
        );
        open.send(()).unwrap();
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
