//! The simulated GPU as tests see it, and a call's way in: the lock, the clock, the schedule, the
//! way out.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use millstream_driver::{DriverError, ResultCode};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    host_functions::{self, Signal},
    schedule::Scheduler,
    state::{CallResult, SimState},
    wait_set::WaitSet,
};
use crate::{ReportKind, SimConfig, ids::OpId};

/// A GPU in software. A clone is the same GPU; the last one gone ends it.
///
/// It is itself a [`Driver`](millstream_driver::Driver); the methods here are the front door for
/// tests.
///
/// ```
/// use millstream_driver::{Driver, DeviceOrdinal};
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// assert_eq!(gpu.device_name(DeviceOrdinal::from_raw(0)).unwrap(), "Simulated GPU");
/// ```
#[derive(Clone)]
pub struct Gpu {
    pub(crate) inner: Arc<GpuInner>,
}

/// What the host's threads share.
pub(crate) struct GpuInner {
    /// The process that made it. Its threads are gone in a forked child, and its lock may be held
    /// there for ever.
    process: u32,
    pub(crate) state: Mutex<SimState>,
    /// Something ran, was released, or failed.
    pub(crate) changed: Condvar,
    /// Wakes the callback thread: a host function is pending or started, or the last clone of the
    /// GPU is dropped.
    pub(crate) callback: Arc<Signal>,
}

/// Guard of the simulator state: a driver call holds the lock with it.
pub(crate) struct StateGuard<'a> {
    state: MutexGuard<'a, SimState>,
    inner: &'a Arc<GpuInner>,
}

/// How long a call waits, in real time, for a host function that it started. Functions are short;
/// with this pause what follows them is the same on every run.
const SETTLE: Duration = Duration::from_millis(1);

impl Gpu {
    pub(crate) fn with_scheduler(config: SimConfig, scheduler: Scheduler) -> Self {
        Self {
            inner: Arc::new(GpuInner {
                process: std::process::id(),
                state: Mutex::new(SimState::new(config, scheduler)),
                changed: Condvar::new(),
                callback: Arc::default(),
            }),
        }
    }

    /// Makes a driver call: the clock moves by its cost, `body` does what the call does, the
    /// schedule runs what it runs.
    pub(crate) fn call<R>(
        &self,
        name: &'static str,
        cost_ns: impl FnOnce(&crate::CostModel) -> u64,
        body: impl FnOnce(&mut StateGuard<'_>) -> CallResult<R>,
    ) -> Result<R, DriverError> {
        if !self.is_of_this_process() {
            return Err(DriverError::new(name, ResultCode::NOT_INITIALIZED).with_detail(
                "this process was forked after the simulated GPU was made: open a device in the child",
            ));
        }
        let mut state = StateGuard {
            state: self.inner.state.lock(),
            inner: &self.inner,
        };
        let progress_before = state.progress;
        state.call = name;
        state.call_device = None;
        state.calls += 1;
        state.now_ns += cost_ns(&state.config.cost);
        let mut device_if_several = None;
        let answer = if host_functions::is_running_here(&self.inner) {
            let text = format!("a host function calls {name} (rule 27)");
            Err(state.violation(
                ReportKind::HostFunctionCalledDriver,
                ResultCode::NOT_PERMITTED,
                text,
            ))
        } else {
            let answer = match state.injected_error(name) {
                Some(error) => Err(error),
                None => body(&mut state),
            };
            device_if_several = state
                .call_device
                .filter(|_| state.handles.has_several_devices());
            state.run_after_call();
            state.settle();
            answer
        };
        if state.progress != progress_before {
            self.inner.changed.notify_all();
        }
        drop(state);
        answer.map_err(|call_error| {
            let error = DriverError::new(name, call_error.code);
            match (call_error.detail, device_if_several) {
                (Some(detail), Some(device)) => {
                    error.with_detail(format!("{detail} (on device {device})"))
                }
                (Some(detail), None) => error.with_detail(detail),
                (None, _) => error,
            }
        })
    }

    /// Whether this process made the GPU. In a child that was forked since, every call fails, as
    /// libcuda's do.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.inner.process == std::process::id()
    }

    /// Enters outside a driver call.
    pub(crate) fn enter(&self) -> StateGuard<'_> {
        StateGuard {
            state: self.inner.state.lock(),
            inner: &self.inner,
        }
    }
}

impl StateGuard<'_> {
    /// Blocks the host thread until the wait set is done, and moves the clock there. The lock is
    /// free while it sleeps.
    pub(crate) fn wait(&mut self, wait_set: &WaitSet) {
        self.with_call_restored(|state| state.wait_for(wait_set));
    }

    /// Does work during which other threads may call, and restores this call's name and device.
    pub(crate) fn with_call_restored<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let call = (self.call, self.call_device);
        let result = work(self);
        (self.call, self.call_device) = call;
        result
    }

    fn wait_for(&mut self, wait_set: &WaitSet) {
        let waiter = self.add_waiter(wait_set);
        while self.waiters[&waiter].unmet > 0 {
            let wanted = std::mem::take(&mut self.waiter(waiter).ops);
            let progress = self.advance_one(&wanted);
            self.waiter(waiter).ops = wanted;
            if !progress {
                self.inner.changed.wait(&mut self.state);
            }
        }
        let finish_ns = self.waiter(waiter).finish_ns;
        self.waiters.remove(&waiter);
        self.now_ns = self.now_ns.max(finish_ns);
    }

    /// Runs one operation for this thread, which waits for these. `false`: nothing that helps can
    /// run for now.
    pub(crate) fn advance_one(&mut self, wanted: &[OpId]) -> bool {
        let progress = self.advance(wanted);
        if progress {
            self.settle();
            self.inner.changed.notify_all();
            // Others get their turn: a wait may run many kernels.
            MutexGuard::bump(&mut self.state);
        }
        progress
    }

    fn waiter(&mut self, id: u64) -> &mut crate::core::state::Waiter {
        self.waiters
            .get_mut(&id)
            .expect("a waiter lives as long as its wait")
    }

    /// Gives host functions that were just started a moment to return, and runs what may run then.
    pub(crate) fn settle(&mut self) {
        while self.host_functions.take_started() {
            self.inner.callback.raise();
            let deadline = Instant::now() + SETTLE;
            while self.host_functions.running > 0
                && !self
                    .inner
                    .changed
                    .wait_until(&mut self.state, deadline)
                    .timed_out()
            {}
            self.run_after_call();
        }
    }

    /// Sleeps until something changes, `limit` of real time at most.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        self.inner.changed.wait_for(&mut self.state, limit);
    }

    /// The callback thread is there, for the functions now pending.
    pub(crate) fn wake_callback_thread(&mut self) {
        self.inner.ensure_callback_thread(&mut self.state);
        self.inner.callback.raise();
    }
}

impl Deref for StateGuard<'_> {
    type Target = SimState;

    fn deref(&self) -> &SimState {
        &self.state
    }
}

impl DerefMut for StateGuard<'_> {
    fn deref_mut(&mut self) -> &mut SimState {
        &mut self.state
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").finish_non_exhaustive()
    }
}
