//! Host functions: they run on one thread of the world, outside its lock, in stream order (rule 27).
//!
//! The thread is started with the first function and ends with the world: it holds the world only weakly. It also plays
//! the part of the device that nobody watches: a function is awaited by whoever passed it, perhaps by a thread that
//! sleeps and makes no driver call. So when functions are pending and no call has been made for a while, this thread
//! forces the oldest of them to run, as a wait would.

use std::{
    cell::Cell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use millstream_driver::{ContextHandle, HostFunction, StreamHandle};
use parking_lot::MutexGuard;

use crate::{
    Gpu,
    gpu::{Session, Shared},
    ids::OpId,
    op::OpKind,
    world::{Answer, Goal, World},
};

/// How long, in real time, no call is made before a pending function is forced.
const QUIET: Duration = Duration::from_millis(2);

/// The world's side of the callback thread.
#[derive(Default)]
pub(crate) struct HostFunctions {
    queue: VecDeque<(OpId, HostFunction)>,
    /// Started and not yet returned.
    pub(crate) running: usize,
    /// Functions enqueued and not started, oldest first; those of a lost context drop out when they are looked at.
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

    /// Whether a function was started since this was last asked.
    pub(crate) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.started)
    }
}

thread_local! {
    /// Which world's callback thread this is, by the address of what its handles share; 0: none.
    static RUNS_FOR: Cell<usize> = const { Cell::new(0) };
}

/// Whether the calling thread is in a host function of this world.
pub(crate) fn is_running_here(shared: &Arc<Shared>) -> bool {
    RUNS_FOR.get() == Arc::as_ptr(shared).addr()
}

impl Session<'_> {
    pub(crate) fn launch_host_function(
        &mut self,
        context: ContextHandle,
        stream: StreamHandle,
        function: &mut Option<HostFunction>,
    ) -> Answer<()> {
        let stream = self.stream(context, stream)?;
        let id = self.enqueue(stream, OpKind::HostFunction(function.take()), &Goal::default());
        self.host_functions.pending.push_back(id);
        self.wake_callback_thread();
        Ok(())
    }
}

impl Shared {
    /// Starts the callback thread if there is none.
    pub(crate) fn ensure_callback_thread(self: &Arc<Self>, world: &mut MutexGuard<'_, World>) {
        if world.host_functions.has_thread {
            return;
        }
        world.host_functions.has_thread = true;
        let weak = Arc::downgrade(self);
        thread::Builder::new()
            .name("sim-host-functions".into())
            .spawn(move || serve(&weak))
            .expect("the host can start a thread");
    }
}

/// The callback thread: runs functions until there are none left to wait for, then ends; the next function starts it anew.
fn serve(world: &Weak<Shared>) {
    RUNS_FOR.set(world.as_ptr().addr());
    let mut calls_seen = 0;
    // The world is held only for a moment at a time, so that it can end.
    while let Some(shared) = world.upgrade() {
        let gpu = Gpu { shared };
        let mut session = gpu.enter();
        if let Some((id, function)) = session.host_functions.queue.pop_front() {
            if !session.ops.contains_key(&id) {
                // The context was lost meanwhile: never called, and leaked (rule 28).
                std::mem::forget(function);
                session.host_functions.running -= 1;
                continue;
            }
            drop(session);
            drop(gpu);
            // What a panic leaves behind is the function's own.
            let _ = catch_unwind(AssertUnwindSafe(function));
            if let Some(shared) = world.upgrade() {
                let gpu = Gpu { shared };
                let mut session = gpu.enter();
                session.host_function_returned(id);
                session.run_after_call();
                drop(session);
                gpu.shared.changed.notify_all();
            }
            continue;
        }
        while let Some(oldest) = session.host_functions.pending.front().copied()
            && !session.ops.contains_key(&oldest)
        {
            session.host_functions.pending.pop_front();
        }
        let Some(oldest) = session.host_functions.pending.front().copied() else {
            session.host_functions.has_thread = false;
            return;
        };
        if session.calls == calls_seen && session.advance(&[oldest]) {
            gpu.shared.changed.notify_all();
            continue;
        }
        calls_seen = session.calls;
        session.sleep_until_function(QUIET);
    }
}

impl std::fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunctions")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}
