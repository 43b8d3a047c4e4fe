//! The public handle of the simulated GPU, and the driver call path: lock, clock, schedule and
//! error conversion.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use millstream_driver::{DriverError, ResultCode};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    call_error::CallResult,
    host_functions, host_threads,
    objects::{host_functions::Signal, stream::WaitSet},
    printf_output::PrintfOutput,
    schedule::Scheduler,
    state::{KernelProgress, SimState},
};
use crate::{
    ReportKind, SimConfig,
    ids::OpId,
    race::{ClockSnapshot, Input},
};

/// A simulated GPU. Clones share one GPU; dropping the last clone ends it.
///
/// It implements [`Driver`](millstream_driver::Driver); the inherent methods serve tests.
#[derive(Clone)]
pub struct Gpu {
    pub(crate) inner: Arc<GpuInner>,
}

/// The state shared by all clones of a [`Gpu`] and by the callback thread.
pub(crate) struct GpuInner {
    /// The id of the process that created the GPU. A forked child has none of its threads, and the
    /// lock may be held there for ever.
    process: u32,
    state: Mutex<SimState>,
    /// The number of threads that wait for the lock. They may act, whatever their system call.
    entering: AtomicU32,
    /// Notified when an operation has run, was released or failed.
    pub(crate) changed: Condvar,
    /// Wakes the callback thread when a host function is pending or started, or when the last clone
    /// of the GPU is dropped.
    pub(crate) callback: Arc<Signal>,
    pub(crate) running_kernel: Arc<KernelProgress>,
    pub(crate) printf_output: Arc<PrintfOutput>,
}

/// The guard of the simulator state, held during a driver call.
pub(crate) struct StateGuard<'a> {
    state: MutexGuard<'a, SimState>,
    inner: &'a Arc<GpuInner>,
}

/// The real time that a call waits for a host function that it started. Host functions are short;
/// with this pause, the operations after them run at the same point on every run.
const SETTLE: Duration = Duration::from_millis(1);

/// The real time after which a blocked thread looks for writes of the host that a kernel waits for.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Gpu {
    pub(crate) fn with_scheduler(config: SimConfig, scheduler: Scheduler) -> Self {
        let state = SimState::new(config, scheduler);
        Self {
            inner: Arc::new(GpuInner {
                process: std::process::id(),
                running_kernel: Arc::clone(&state.running_kernel),
                printf_output: Arc::clone(&state.printf_output),
                state: Mutex::new(state),
                entering: AtomicU32::new(0),
                changed: Condvar::new(),
                callback: Arc::default(),
            }),
        }
    }

    /// Executes a driver call: advances the clock by the call's cost, runs `body`, then lets the
    /// schedule run operations.
    pub(crate) fn call<R>(
        &self,
        name: &'static str,
        cost_ns: impl FnOnce(&crate::CostModel) -> u64,
        body: impl FnOnce(&mut StateGuard<'_>) -> CallResult<R>,
    ) -> Result<R, DriverError> {
        if !self.is_of_this_process() {
            return Err(
                DriverError::new(name, ResultCode::NOT_INITIALIZED).with_detail(
                    "this process was forked after the simulated GPU was created: open a \
                 device in the child",
                ),
            );
        }
        let mut state = StateGuard {
            state: self.inner.lock(),
            inner: &self.inner,
        };
        let progress_before = state.progress;
        state.call = name;
        state.call_device = None;
        state.calls += 1;
        host_threads::calls(&mut state.callers, name.ends_with("Query"));
        state.now_ns += cost_ns(&state.config.cost);
        let mut device_if_several = None;
        let answer = if host_functions::is_running_here(&self.inner) {
            let text =
                format!("a host function calls {name}, but must not call the driver (rule 27)");
            Err(state.violation(
                ReportKind::HostFunctionCalledDriver,
                ResultCode::NOT_PERMITTED,
                text,
            ))
        } else {
            let answer = match state.injected_error(name) {
                Some(error) => Err(error),
                None => match state.check_captures() {
                    Ok(()) => body(&mut state),
                    Err(error) => Err(error),
                },
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
            let mut error = DriverError::new(name, call_error.code);
            if let Some(node) = call_error.graph_node {
                error = error.with_graph_node(node);
            }
            match (call_error.detail, device_if_several) {
                (Some(detail), Some(device)) => {
                    error.with_detail(format!("{detail} (on device {device})"))
                }
                (Some(detail), None) => error.with_detail(detail),
                (None, _) => error,
            }
        })
    }

    /// Returns whether this process created the GPU. In a forked child every call fails, as in
    /// libcuda.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.inner.process == std::process::id()
    }

    /// Locks the state outside a driver call.
    pub(crate) fn enter(&self) -> StateGuard<'_> {
        StateGuard {
            state: self.inner.lock(),
            inner: &self.inner,
        }
    }
}

impl GpuInner {
    /// Locks the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SimState> {
        self.entering.fetch_add(1, SeqCst);
        let state = self.state.lock();
        self.entering.fetch_sub(1, SeqCst);
        state
    }
}

impl StateGuard<'_> {
    /// Blocks the host thread until the wait set is complete, and advances the clock to its finish
    /// time. The lock is released while the thread sleeps.
    pub(crate) fn wait(&mut self, wait_set: &WaitSet) {
        self.with_call_restored(|state| state.wait_for(wait_set));
    }

    /// Waits at a call of the program that synchronises, after which the host has seen that work.
    pub(crate) fn wait_of_program(&mut self, wait_set: &WaitSet, seen: ClockSnapshot) {
        let since_ns = self.now_ns;
        self.wait(wait_set);
        self.race_checker.take(Input::Observed(seen));
        let (call, ns) = (self.call, self.now_ns - since_ns);
        self.race_checker.note_wait(call, ns, None);
    }

    /// Runs `work`, during which other threads may call the driver, and restores this call's name
    /// and device afterwards.
    pub(crate) fn with_call_restored<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let call = (self.call, self.call_device);
        let result = work(self);
        (self.call, self.call_device) = call;
        result
    }

    /// Runs operations or sleeps until the wait set is complete.
    fn wait_for(&mut self, wait_set: &WaitSet) {
        let waiter = self.add_waiter(wait_set);
        let _blocked = host_threads::Blocked::new();
        while self.waiters[&waiter].unmet > 0 {
            let wanted = std::mem::take(&mut self.waiter(waiter).ops);
            let progress = self.advance_one(&wanted);
            self.waiter(waiter).ops = wanted;
            if !progress {
                self.sleep_or_fail(None);
            }
        }
        let finish_ns = self.waiter(waiter).finish_ns;
        self.waiters.remove(&waiter);
        self.now_ns = self.now_ns.max(finish_ns);
    }

    /// Runs one operation on behalf of a thread that waits for `wanted`. Returns `false` if no
    /// operation that helps can run now.
    pub(crate) fn advance_one(&mut self, wanted: &[OpId]) -> bool {
        let progress = self.advance(wanted);
        if progress {
            self.settle();
            self.inner.changed.notify_all();
            // Give other threads a turn: a wait may run many kernels.
            MutexGuard::bump(&mut self.state);
        }
        progress
    }

    fn waiter(&mut self, id: u64) -> &mut super::objects::stream::Waiter {
        self.waiters
            .get_mut(&id)
            .expect("a waiter was removed before its wait ended")
    }

    /// Waits up to [`SETTLE`] for host functions that were just started, then runs the operations
    /// that the schedule allows.
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
        if self.waits_for_host() {
            self.wake_callback_thread();
        }
    }

    /// Sleeps until the state changes, for at most `limit` of real time.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        self.inner.changed.wait_for(&mut self.state, limit);
    }

    /// Sleeps until the state may have changed, for at most `limit` of real time, or fails a kernel
    /// that the calling thread waits for in vain.
    pub(crate) fn sleep_or_fail(&mut self, limit: Option<Duration>) {
        let changed = &self.inner.changed;
        if self.waiting.is_empty() {
            match limit {
                Some(limit) => self.sleep(limit),
                None => changed.wait(&mut self.state),
            }
        } else if self.inner.entering.load(SeqCst) == 0 && self.fail_stuck_kernel() {
            changed.notify_all();
        } else {
            self.sleep(LOOK_EVERY);
        }
    }

    /// Starts the callback thread if necessary, and wakes it for the pending host functions.
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
