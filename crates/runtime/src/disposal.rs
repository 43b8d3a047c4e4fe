//! The disposal thread: user code that must not run where it turns up.
//!
//! Destructors of values that users handed in, panic payloads and `tracing` subscribers are the
//! user's code. They may block, panic, or call back into this library. Run under one of its locks,
//! in a driver's host function, or on a thread that others wait for, they would deadlock or hold up
//! work that has nothing to do with them. One rule excludes that: **no user code runs in a host
//! function, on a library thread that others depend on, or under a lock.** Such values come here
//! instead. Nothing ever waits for this thread, so all that a destructor which blocks for ever can
//! hold up is other destructors and log messages.
//!
//! The queue is bounded in entries. Beyond the bound a value is leaked, and the number of leaked
//! values is logged once the thread gets on. Values whose drop runs no code but the allocator's do
//! not come here: they would wait behind those that block.
//!
//! Wakers run on the reactor's leading thread, which another replaces if they do not return
//! (`context/polling/reactor.rs`).

use std::{
    any::Any,
    cell::Cell,
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use millstream_driver::PerProcess;
use parking_lot::Mutex;
use tracing::Dispatch;

use crate::sync::IdleCondvar;

/// The most entries that wait. A destructor takes microseconds; so many wait only behind one that
/// blocks.
const TASKS_MAX: usize = 1024;

/// A value to drop, or an event to log.
enum Task {
    Drop(Box<dyn Any + Send>),
    Log(Dispatch, Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct DisposalQueue {
    tasks: VecDeque<Task>,
    has_thread: bool,
    /// Values leaked since that was last logged.
    leaked: usize,
}

#[derive(Default)]
struct Disposal {
    queue: Mutex<DisposalQueue>,
    signal: IdleCondvar,
}

static DISPOSAL: PerProcess<Disposal> = PerProcess::new();

thread_local! {
    /// Whether the calling thread drops values itself.
    static IN_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether the calling thread drops values itself, and gives what was set before.
///
/// A thread that checks a program (`LocalReactor`) does, so that the destructors' own calls come in
/// the same order on every run; such a thread calls [`dispose`] without holding a lock.
pub(crate) fn set_in_place(in_place: bool) -> bool {
    IN_PLACE.replace(in_place)
}

/// Drops a value that may run user code, on the disposal thread or [in place](set_in_place).
pub(crate) fn dispose(value: Box<dyn Any + Send>) {
    if IN_PLACE.get() {
        return drop_value(value);
    }
    if let Err(Task::Drop(value)) = push(Task::Drop(value)) {
        mem::forget(value);
    }
}

/// Runs `emit`, which logs an event, on the disposal thread, with the calling thread's subscriber.
/// May be called with locks held.
pub fn log_later(emit: impl FnOnce() + Send + 'static) {
    if !tracing::dispatcher::has_been_set() {
        return;
    }
    // Takes a reference and calls nothing of the subscriber's.
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    if let Err(Task::Log(dispatch, _)) = push(Task::Log(dispatch, Box::new(emit))) {
        // The last reference would drop the subscriber here.
        mem::forget(dispatch);
    }
}

/// Adds an entry unless the queue is full or there is no thread for it.
fn push(task: Task) -> Result<(), Task> {
    let disposal = DISPOSAL.get_or_init(Disposal::default);
    let mut queue = disposal.queue.lock();
    if !queue.has_thread {
        let name = String::from("millstream-disposal");
        let started = thread::Builder::new().name(name).spawn(|| disposal.run());
        queue.has_thread = started.is_ok();
    }
    if !queue.has_thread || queue.tasks.len() >= TASKS_MAX {
        queue.leaked += 1;
        return Err(task);
    }
    queue.tasks.push_back(task);
    drop(queue);
    disposal.signal.notify_one();
    Ok(())
}

impl Disposal {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let task = queue.tasks.pop_front();
            let leaked = mem::take(&mut queue.leaked);
            if task.is_none() && leaked == 0 {
                self.signal.wait(&mut queue);
                continue;
            }
            drop(queue);
            if leaked > 0 {
                contain(|| {
                    tracing::error!(
                        leaked,
                        "values or events were dropped unseen: the destructors or subscribers before them did not return"
                    );
                });
            }
            match task {
                Some(Task::Drop(value)) => drop_value(value),
                Some(Task::Log(dispatch, emit)) => {
                    contain(|| tracing::dispatcher::with_default(&dispatch, emit));
                    contain(|| drop(dispatch));
                }
                None => {}
            }
            queue = self.queue.lock();
        }
    }
}

fn drop_value(value: Box<dyn Any + Send>) {
    if contain(|| drop(value)) {
        contain(|| tracing::error!("the destructor of a value that was handed over panicked"));
    }
}

/// Calls user code; says whether it panicked. The payload is leaked, for its destructor may panic
/// too.
fn contain(user_code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(user_code)) {
        Ok(()) => false,
        Err(payload) => {
            mem::forget(payload);
            true
        }
    }
}

/// Logs an event through `tracing`, later and on a thread of its own: the subscriber is the user's
/// code, and most events turn up under a lock. The first argument is the level; the values that the
/// others name are moved.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($event:tt)+) => {
        $crate::log_later(move || $crate::__tracing::$level!($($event)+))
    };
}
pub(crate) use crate::__log as log;
