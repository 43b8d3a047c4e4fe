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
    goal::Goal,
    host_functions::{self, Signal},
    schedule::Scheduler,
    world::{Answer, World},
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
    pub(crate) shared: Arc<Shared>,
}

/// What the host's threads share.
pub(crate) struct Shared {
    /// The process that made it. Its threads are gone in a forked child, and its lock may be held
    /// there for ever.
    process: u32,
    pub(crate) world: Mutex<World>,
    /// Something ran, was released, or failed.
    pub(crate) changed: Condvar,
    /// Wakes the callback thread: a host function is pending or started, or the world ends.
    pub(crate) callback: Arc<Signal>,
}

/// A call at work: it holds the world.
pub(crate) struct Session<'a> {
    world: MutexGuard<'a, World>,
    shared: &'a Arc<Shared>,
}

/// How long a call waits, in real time, for a host function that it started. Functions are short;
/// with this pause what follows them is the same on every run.
const SETTLE: Duration = Duration::from_millis(1);

impl Gpu {
    pub(crate) fn with_scheduler(config: SimConfig, scheduler: Scheduler) -> Self {
        Self {
            shared: Arc::new(Shared {
                process: std::process::id(),
                world: Mutex::new(World::new(config, scheduler)),
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
        body: impl FnOnce(&mut Session<'_>) -> Answer<R>,
    ) -> Result<R, DriverError> {
        if !self.is_of_this_process() {
            return Err(DriverError::new(name, ResultCode::NOT_INITIALIZED).with_detail(
                "this process was forked after the simulated GPU was made: open a device in the child",
            ));
        }
        let mut session = Session {
            world: self.shared.world.lock(),
            shared: &self.shared,
        };
        let progress_before = session.progress;
        session.call = name;
        session.call_device = None;
        session.calls += 1;
        session.now_ns += cost_ns(&session.config.cost);
        let mut told_device = None;
        let answer = if host_functions::is_running_here(&self.shared) {
            let text = format!("a host function calls {name} (rule 27)");
            Err(session.breach(
                ReportKind::HostFunctionCalledDriver,
                ResultCode::NOT_PERMITTED,
                text,
            ))
        } else {
            let answer = match session.injected(name) {
                Some(refusal) => Err(refusal),
                None => body(&mut session),
            };
            told_device = session
                .call_device
                .filter(|_| session.mint.has_several_devices());
            session.run_after_call();
            session.settle();
            answer
        };
        if session.progress != progress_before {
            self.shared.changed.notify_all();
        }
        drop(session);
        answer.map_err(|refusal| {
            let error = DriverError::new(name, refusal.code);
            match (refusal.detail, told_device) {
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
        self.shared.process == std::process::id()
    }

    /// Enters outside a driver call.
    pub(crate) fn enter(&self) -> Session<'_> {
        Session {
            world: self.shared.world.lock(),
            shared: &self.shared,
        }
    }
}

impl Session<'_> {
    /// Blocks the host thread until the goal is done, and moves the clock there. The lock is free
    /// while it sleeps.
    pub(crate) fn wait(&mut self, goal: &Goal) {
        self.beside_others(|session| session.wait_for(goal));
    }

    /// Does work during which other threads may call, and restores this call's name and device.
    pub(crate) fn beside_others<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let call = (self.call, self.call_device);
        let result = work(self);
        (self.call, self.call_device) = call;
        result
    }

    fn wait_for(&mut self, goal: &Goal) {
        let waiter = self.add_waiter(goal);
        while self.waiters[&waiter].unmet > 0 {
            let wanted = std::mem::take(&mut self.waiter(waiter).ops);
            let progress = self.advance_one(&wanted);
            self.waiter(waiter).ops = wanted;
            if !progress {
                self.shared.changed.wait(&mut self.world);
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
            self.shared.changed.notify_all();
            // Others get their turn: a wait may run many kernels.
            MutexGuard::bump(&mut self.world);
        }
        progress
    }

    fn waiter(&mut self, id: u64) -> &mut crate::core::world::Waiter {
        self.waiters
            .get_mut(&id)
            .expect("a waiter lives as long as its wait")
    }

    /// Gives host functions that were just started a moment to return, and runs what may run then.
    pub(crate) fn settle(&mut self) {
        while self.host_functions.take_started() {
            self.shared.callback.raise();
            let deadline = Instant::now() + SETTLE;
            while self.host_functions.running > 0
                && !self
                    .shared
                    .changed
                    .wait_until(&mut self.world, deadline)
                    .timed_out()
            {}
            self.run_after_call();
        }
    }

    /// Sleeps until something changes, `limit` of real time at most.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        self.shared.changed.wait_for(&mut self.world, limit);
    }

    /// The callback thread is there, for the functions now pending.
    pub(crate) fn wake_callback_thread(&mut self) {
        self.shared.ensure_callback_thread(&mut self.world);
        self.shared.callback.raise();
    }
}

impl Deref for Session<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").finish_non_exhaustive()
    }
}
