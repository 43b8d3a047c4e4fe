//! The disposal thread, which runs destructors and log subscribers of the user.
//!
//! Destructors of values that users handed in, panic payloads and `tracing` subscribers are user
//! code. They may block, panic, or call back into this library. If they ran under one of its locks,
//! in a driver's host function, or on a thread that others wait for, they could deadlock or delay
//! unrelated work. One rule excludes that: **no user code runs in a host function, on a library
//! thread that others depend on, or under a lock.** Such values are sent to the disposal thread
//! instead. Nothing ever waits for this thread, so a destructor that blocks for ever only delays
//! other destructors and log messages.
//!
//! The queue has a bounded number of entries. Beyond the bound a value is leaked, and the number of
//! leaked values is logged once the thread makes progress. Values whose drop runs only the
//! allocator's code are not sent here: they would wait behind destructors that block.
//!
//! Wakers run on the reactor's leading thread, which another thread replaces if they do not return
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
use tracing::{Dispatch, subscriber::NoSubscriber};

use crate::sync::IdleCondvar;

/// The maximum number of queued entries. A destructor takes microseconds, so the queue only grows
/// this long behind one that blocks.
const TASKS_MAX: usize = 1024;

/// A task of the disposal thread: a value to drop or a log event to emit.
enum Task {
    Drop(Box<dyn Any + Send>),
    Log(Dispatch, Box<dyn FnOnce() + Send>),
}

#[derive(Default)]
struct DisposalQueue {
    tasks: VecDeque<Task>,
    has_thread: bool,
    /// The number of values leaked since the last log message about leaks.
    leaked: usize,
}

#[derive(Default)]
struct Disposal {
    queue: Mutex<DisposalQueue>,
    signal: IdleCondvar,
}

static DISPOSAL: PerProcess<Disposal> = PerProcess::new();

thread_local! {
    /// True if the calling thread drops values itself.
    static IN_PLACE: Cell<bool> = const { Cell::new(false) };
    /// The number of calls of user code by this library that the thread is inside.
    static USER_CODE: Cell<u32> = const { Cell::new(0) };
}

/// Sets whether the calling thread drops values itself, and returns the previous setting.
///
/// Threads that check a program (`LocalReactor`) drop values themselves, so that the driver calls
/// of destructors come in the same order on every run. Such a thread calls [`dispose`] without
/// holding a lock.
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
    // Clones a reference without calling the subscriber.
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    // No subscriber would see the event. Emitted nevertheless, while another thread's subscriber is
    // the only one, it would make `tracing` discard later events for that subscriber too.
    if dispatch.is::<NoSubscriber>() {
        return;
    }
    if let Err(Task::Log(dispatch, _)) = push(Task::Log(dispatch, Box::new(emit))) {
        // Dropping the last reference here would run the subscriber's destructor.
        mem::forget(dispatch);
    }
}

/// Enqueues a task. Returns it if the queue is full or the disposal thread cannot be started.
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
                        "values were leaked or log events discarded because the disposal \
                         queue was full: a destructor or subscriber did not return"
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

/// Drops a value on the calling thread and logs a panic of its destructor.
pub(crate) fn drop_value<T>(value: T) {
    if contain(|| drop(value)).is_none() {
        log!(
            error,
            "the destructor of a value passed to this library panicked"
        );
    }
}

/// Calls user code and returns `None` if it panics. The payload is leaked because its destructor
/// may panic too.
pub(crate) fn contain<R>(user_code: impl FnOnce() -> R) -> Option<R> {
    try_call(user_code).map_err(mem::forget).ok()
}

/// Calls user code and returns the payload if it panics. Meanwhile [`is_in_user_code`] is true.
pub(crate) fn try_call<R>(user_code: impl FnOnce() -> R) -> thread::Result<R> {
    let count = |change: fn(u32) -> u32| USER_CODE.with(|calls| calls.set(change(calls.get())));
    count(|calls| calls + 1);
    let result = catch_unwind(AssertUnwindSafe(user_code));
    count(|calls| calls - 1);
    result
}

/// Returns whether the calling thread is inside a waker or a destructor that this library called.
pub(crate) fn is_in_user_code() -> bool {
    USER_CODE.get() > 0
}

/// Logs an event through `tracing` on the disposal thread: the subscriber is user code, and most
/// events occur under a lock. The first argument is the level; the values named by the others are
/// moved.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($event:tt)+) => {
        $crate::log_later(move || $crate::__tracing::$level!($($event)+))
    };
}
pub(crate) use crate::__log as log;
