//! A reactor without a thread: whoever checks a program asks on behalf of its futures himself, on
//! the program's own thread, so that the device's calls come in the same order on every run.

use std::{
    cell::RefCell,
    future::Future,
    mem,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use super::reactor::{
    PollEntry, Polled, Registration, register as register_with_thread, shortest_sleep, wake,
};
use crate::disposal::set_in_place;

thread_local! {
    /// What this thread's reactor polls, if it has one.
    static ENTRIES: RefCell<Option<Vec<PollEntry>>> = const { RefCell::new(None) };
}

/// How often the registrations that a program leaves behind are polled before they are left to the
/// other reactor.
const ROUNDS_MAX: usize = 10_000;

/// Whether the calling thread has a reactor of its own.
fn has_local_reactor() -> bool {
    let has_own = ENTRIES.try_with(|entries| entries.borrow().is_some());
    has_own.unwrap_or(false)
}

/// Hands a registration to the calling thread's own reactor.
///
/// # Errors
///
/// Gives the registration back if the thread has none, or ends.
pub(super) fn register(registration: Registration) -> Result<(), Registration> {
    if !has_local_reactor() {
        return Err(registration);
    }
    let entry = PollEntry::new(registration);
    ENTRIES.with_borrow_mut(|entries| entries.get_or_insert_default().push(entry));
    Ok(())
}

/// While this lives, the thread that made it has a reactor of its own, which works when it is told
/// to.
pub(crate) struct LocalReactor {
    /// What the thread had before.
    before: Option<Vec<PollEntry>>,
    /// Whether the thread dropped values itself before.
    disposed_in_place: bool,
}

impl LocalReactor {
    pub(crate) fn new() -> Self {
        Self {
            before: ENTRIES.replace(Some(Vec::new())),
            disposed_in_place: set_in_place(true),
        }
    }

    /// Polls every registration once, and lets some of the device's time pass if none was complete.
    /// Whether there was any.
    fn turn(&self) -> bool {
        // Taken out, for a waker may register again.
        let mut polled =
            ENTRIES.with_borrow_mut(|entries| entries.as_mut().map(mem::take).unwrap_or_default());
        let count = polled.len();
        polled.retain_mut(|entry| match entry.registration.poll() {
            Polled::Pending => true,
            Polled::Settled => false,
            Polled::Ready(waker) => {
                wake(waker);
                false
            }
        });
        if polled.len() == count
            && let Some((sleep, entry)) = shortest_sleep(&mut polled)
        {
            entry.registration.device.driver.pause(sleep);
        }
        ENTRIES.with_borrow_mut(|entries| {
            let entries = entries.get_or_insert_default();
            polled.append(entries);
            *entries = polled;
        });
        count > 0
    }

    /// Polls the future on this thread until it is ready.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let woken = Arc::new(Woken {
            flag: AtomicBool::new(false),
            thread: thread::current(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            while !woken.flag.swap(false, Ordering::Acquire) {
                if !self.turn() {
                    // Someone else is to wake it; parking returns at once if that has happened.
                    thread::park();
                }
            }
        }
    }

    /// Polls until every registration is settled.
    pub(crate) fn finish(&self) {
        for _ in 0..ROUNDS_MAX {
            if !self.turn() {
                break;
            }
        }
    }
}

impl Drop for LocalReactor {
    fn drop(&mut self) {
        let left = ENTRIES.replace(self.before.take());
        set_in_place(self.disposed_in_place);
        for entry in left.unwrap_or_default() {
            // Without a reactor no thread polls for the end, so it is kept for ever.
            if let Err(registration) = register_with_thread(entry.registration) {
                mem::forget(registration);
            }
        }
    }
}

/// Notes that a future is to be polled again.
struct Woken {
    flag: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
