//! A reactor without a thread: a thread that checks a program polls on behalf of the program's
//! futures itself, so that the driver calls come in the same order on every run.

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
    /// The entries that this thread's own reactor polls, if it has one.
    static ENTRIES: RefCell<Option<Vec<PollEntry>>> = const { RefCell::new(None) };
}

/// The number of rounds in which the remaining registrations of a program are polled before they
/// are handed to the threaded reactor.
const ROUNDS_MAX: usize = 10_000;

/// Returns whether the calling thread has its own reactor.
fn has_local_reactor() -> bool {
    let has_own = ENTRIES.try_with(|entries| entries.borrow().is_some());
    has_own.unwrap_or(false)
}

/// Registers with the calling thread's own reactor.
///
/// # Errors
///
/// Returns the registration if the thread has no own reactor or is being destroyed.
pub(super) fn register(registration: Registration) -> Result<(), Registration> {
    if !has_local_reactor() {
        return Err(registration);
    }
    let entry = PollEntry::new(registration);
    ENTRIES.with_borrow_mut(|entries| entries.get_or_insert_default().push(entry));
    Ok(())
}

/// The own reactor of the thread that created it, as long as this value lives. It polls only within
/// its methods.
pub(crate) struct LocalReactor {
    /// The entries of the thread's previous reactor.
    before: Option<Vec<PollEntry>>,
    /// True if the thread dropped values itself before.
    disposed_in_place: bool,
}

impl LocalReactor {
    pub(crate) fn new() -> Self {
        Self {
            before: ENTRIES.replace(Some(Vec::new())),
            disposed_in_place: set_in_place(true),
        }
    }

    /// Polls every registration once, and lets device time pass if none was complete. Returns
    /// whether there was a registration.
    fn turn(&self) -> bool {
        // Taken out, because a waker may register again.
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
                    // Another thread has to wake the future; `park` returns at once if it already
                    // has.
                    thread::park();
                }
            }
        }
    }

    /// Polls until every registration is settled, for at most [`ROUNDS_MAX`] rounds.
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
            // Without a reactor no thread polls for completion, so the registration is leaked.
            if let Err(registration) = register_with_thread(entry.registration) {
                mem::forget(registration);
            }
        }
    }
}

/// A waker that sets a flag and unparks the thread.
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
