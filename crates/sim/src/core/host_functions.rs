//! Host functions: they run on one thread of the world, outside its lock, in stream order (rule
//! 27).
//!
//! The thread is started with the first function, sleeps while there is none, and ends with the
//! world. It also plays the part of the device that nobody watches: a function is awaited by
//! whoever passed it, perhaps by a thread that sleeps and makes no driver call. So when functions
//! are pending and no call has been made for a while, this thread forces the oldest of them to run,
//! as a wait would.

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

use super::{gpu::Shared, world::World};
use crate::{Gpu, ids::OpId};

/// How long, in real time, no call is made before a pending function is forced.
const QUIET: Duration = Duration::from_millis(2);

/// The world's side of the callback thread.
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
    /// Which world's callback thread this is, by the address of what its handles share; 0: none.
    static RUNS_FOR: Cell<usize> = const { Cell::new(0) };
    /// The host function's operation, while one runs.
    static OPERATION: Cell<Option<OpId>> = const { Cell::new(None) };
}

/// Whether the calling thread is in a host function of this world.
pub(crate) fn is_running_here(shared: &Arc<Shared>) -> bool {
    RUNS_FOR.get() == Arc::as_ptr(shared).addr()
}

/// The operation of the host function of this world that the calling thread is in, if it is in one.
pub(crate) fn operation_here(shared: &Arc<Shared>) -> Option<OpId> {
    OPERATION.get().filter(|_| is_running_here(shared))
}

impl Shared {
    /// Starts the callback thread if there is none.
    pub(crate) fn ensure_callback_thread(self: &Arc<Self>, world: &mut MutexGuard<'_, World>) {
        if world.host_functions.has_thread {
            return;
        }
        world.host_functions.has_thread = true;
        let (world_of_thread, signal) = (Arc::downgrade(self), Arc::clone(&self.callback));
        thread::Builder::new()
            .name("sim-host-functions".into())
            .spawn(move || serve(&world_of_thread, &signal))
            .expect("the host can start a thread");
    }
}

/// The callback thread. It holds the world while it looks, and while a function runs, for that may
/// use memory of the world's; not while it sleeps, so that the world can end.
fn serve(world: &Weak<Shared>, signal: &Signal) {
    RUNS_FOR.set(world.as_ptr().addr());
    let mut calls_seen = 0;
    while let Some(shared) = world.upgrade() {
        let gpu = Gpu { shared };
        match look(&gpu, &mut calls_seen) {
            Next::Run(id, function) => {
                OPERATION.set(Some(id));
                if let Err(payload) = catch_unwind(AssertUnwindSafe(function)) {
                    // Not dropped: a payload's destructor may panic too, and this thread serves
                    // others.
                    mem::forget(payload);
                }
                OPERATION.set(None);
                returned(&gpu, id);
            }
            Next::Look => {}
            Next::Sleep(limit) => {
                drop(gpu);
                signal.wait(limit);
            }
        }
    }
}

/// What the callback thread does next.
enum Next {
    Run(OpId, HostFunction),
    Look,
    /// Until it is signalled, or for this long.
    Sleep(Option<Duration>),
}

fn look(gpu: &Gpu, calls_seen: &mut u64) -> Next {
    let mut session = gpu.enter();
    if let Some((id, function)) = session.host_functions.queue.pop_front() {
        if session.ops.contains_key(&id) {
            // Whoever it wakes is behind all that is in front of it.
            let seen = session.race.operation(id, true);
            session.race.host_saw(&seen);
            return Next::Run(id, function);
        }
        // The context was lost meanwhile: never called, and leaked (rule 28).
        std::mem::forget(function);
        session.host_functions.running -= 1;
        return Next::Look;
    }
    while let Some(oldest) = session.host_functions.pending.front().copied()
        && !session.ops.contains_key(&oldest)
    {
        session.host_functions.pending.pop_front();
    }
    let Some(oldest) = session.host_functions.pending.front().copied() else {
        return Next::Sleep(None);
    };
    let quiet = session.calls == *calls_seen;
    *calls_seen = session.calls;
    if quiet && session.advance(&[oldest]) {
        gpu.shared.changed.notify_all();
        return Next::Look;
    }
    Next::Sleep(Some(QUIET))
}

/// The function of operation `id` has returned.
fn returned(gpu: &Gpu, id: OpId) {
    let mut session = gpu.enter();
    session.host_function_returned(id);
    session.run_after_call();
    drop(session);
    gpu.shared.changed.notify_all();
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

impl Drop for Shared {
    fn drop(&mut self) {
        // The callback thread finds the world gone, and ends.
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
            |session| {
                let context = session.primary_context_retain(DeviceOrdinal::from_raw(0))?;
                let mut function: Option<HostFunction> = Some(Box::new(move || {
                    started.send(()).unwrap();
                    gate.recv().unwrap();
                }));
                session.launch_host_function(context, StreamHandle::LEGACY, &mut function)
            },
        );
        enqueued.expect("it is enqueued");
        let world = Arc::downgrade(&gpu.shared);
        starts.recv().expect("it starts");
        drop(gpu);
        assert!(
            world.upgrade().is_some(),
            "the function may use the world's memory"
        );
        open.send(()).unwrap();
        while world.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
