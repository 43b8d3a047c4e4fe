//! A reactor without a thread: whoever checks a program asks on behalf of its futures himself, on the program's own thread, so
//! that the device's calls come in the same order on every run.

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

use super::reactor::{Asking, Wish, register as register_with_thread, settle, shortest_sleep};

thread_local! {
    /// The wishes of this thread's reactor, if it has one.
    static WISHES: RefCell<Option<Vec<Asking>>> = const { RefCell::new(None) };
}

/// How often the wishes that a program leaves behind are asked about before they are left to the other reactor.
const ROUNDS_MAX: usize = 10_000;

/// Hands a wish to the calling thread's own reactor.
///
/// # Errors
///
/// Gives the wish back if the thread has none, or ends.
pub(super) fn register(wish: Wish) -> Result<(), Wish> {
    let has_own = WISHES.try_with(|wishes| wishes.borrow().is_some());
    if !has_own.unwrap_or(false) {
        return Err(wish);
    }
    let asking = Asking::new(wish);
    WISHES.with_borrow_mut(|wishes| wishes.get_or_insert_default().push(asking));
    Ok(())
}

/// While this lives, the thread that made it has a reactor of its own, which works when it is told to.
pub(crate) struct LocalReactor {
    /// What the thread had before.
    before: Option<Vec<Asking>>,
}

impl LocalReactor {
    pub(crate) fn new() -> Self {
        Self {
            before: WISHES.replace(Some(Vec::new())),
        }
    }

    /// Asks about every wish once, and lets some of the device's time pass if none came true. Whether there was any.
    fn turn(&self) -> bool {
        // Taken out, for whoever is woken may wish again.
        let mut asking = WISHES.with_borrow_mut(|wishes| wishes.as_mut().map(mem::take).unwrap_or_default());
        let count = asking.len();
        asking.retain(|asking| !settle(&asking.wish));
        if asking.len() == count
            && let Some((sleep, entry)) = shortest_sleep(&asking)
        {
            entry.wish.device.driver.pause(sleep);
        }
        WISHES.with_borrow_mut(|wishes| {
            let wishes = wishes.get_or_insert_default();
            asking.append(wishes);
            *wishes = asking;
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

    /// Asks until every wish has come true.
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
        let left = WISHES.replace(self.before.take());
        for asking in left.unwrap_or_default() {
            // Without a thread nobody can tell when, so it is kept for ever.
            if let Err(wish) = register_with_thread(asking.wish) {
                mem::forget(wish);
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
