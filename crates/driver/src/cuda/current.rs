//! Which context each host thread has current, as far as we made it so.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::ContextHandle;

/// Counts the times that a primary context was released. What threads remember from before such a time is void: the
/// context may be gone, and a later one may have the same handle.
static RELEASES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The context that this thread made current last, and the count of releases just before it did.
    static CURRENT: Cell<Option<(ContextHandle, u64)>> = const { Cell::new(None) };
}

/// A note taken before a context is made current, to be handed to [`remember`] afterwards.
#[derive(Clone, Copy)]
pub(super) struct Before(u64);

/// What there is to do so that `context` is current on the calling thread.
#[must_use]
pub(super) enum Need {
    /// Nothing: it is current already.
    Nothing,
    /// It must be made current, then remembered.
    MakeCurrent(Before),
}

/// Whether `context` has to be made current on the calling thread.
#[inline]
pub(super) fn need(context: ContextHandle) -> Need {
    // Acquire: whoever sees a context retained after a release also sees that release counted.
    let releases = RELEASES.load(Ordering::Acquire);
    if CURRENT.get() == Some((context, releases)) {
        Need::Nothing
    } else {
        Need::MakeCurrent(Before(releases))
    }
}

/// `context` is now current on the calling thread.
pub(super) fn remember(context: ContextHandle, before: Before) {
    CURRENT.set(Some((context, before.0)));
}

/// The calling thread no longer knows what is current.
pub(super) fn forget() {
    CURRENT.set(None);
}

/// A primary context is about to be released: no thread knows what is current.
pub(super) fn forget_on_every_thread() {
    RELEASES.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the context current in pretence; whether there was something to do.
    fn enter(context: ContextHandle) -> bool {
        match need(context) {
            Need::Nothing => false,
            Need::MakeCurrent(before) => {
                remember(context, before);
                true
            }
        }
    }

    // One test, because the count of releases is the process's.
    #[test]
    fn a_context_is_made_current_only_when_it_differs_or_was_forgotten() {
        let (a, b) = (ContextHandle::from_raw(0x10), ContextHandle::from_raw(0x20));
        assert!(enter(a));
        assert!(!enter(a), "still current");
        assert!(enter(b));
        assert!(enter(a), "another one was current meanwhile");
        std::thread::spawn(move || assert!(enter(a), "each thread has its own"))
            .join()
            .expect("the thread's assertion holds");

        forget();
        assert!(enter(a), "forgotten here");
        assert!(!enter(a));

        forget_on_every_thread();
        assert!(enter(a), "forgotten everywhere");
        assert!(!enter(a));
    }
}
