//! What threads of the runtime share besides locks: condition variables and atomics, and what to do
//! while spinning.
//!
//! Locks come from `parking_lot`. With `--cfg shuttle` that is another crate of the same interface,
//! whose every step is one that the tests of `cargo xtask shuttle` choose; here is the rest of what
//! they must see.

#[cfg(not(shuttle))]
pub(crate) use parking_lot::Condvar;
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// A condition variable for locks of `parking_lot`, which shuttle does not have.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    /// How often anyone was notified.
    notified: shuttle::sync::Mutex<u64>,
    signal: shuttle::sync::Condvar,
}

#[cfg(shuttle)]
impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Gives the lock up until someone notifies.
    pub(crate) fn wait<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>) {
        // Taken before the lock is given up: a notification after that counts.
        let notified = self.notified();
        let before = *notified;
        parking_lot::MutexGuard::unlocked(guard, || {
            let woken = self.signal.wait_while(notified, |now| *now == before);
            drop(woken.unwrap_or_else(std::sync::PoisonError::into_inner));
        });
    }

    /// As [`wait`](Self::wait); no time passes here, so the time is never up.
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut parking_lot::MutexGuard<'_, T>,
        _timeout: std::time::Duration,
    ) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.notify_all();
    }

    pub(crate) fn notify_all(&self) {
        *self.notified() += 1;
        self.signal.notify_all();
    }

    fn notified(&self) -> shuttle::sync::MutexGuard<'_, u64> {
        // A panic of a test's own poisons it and changes nothing.
        self.notified
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(shuttle)]
pub(crate) use Condvar as IdleCondvar;

/// A condition variable for threads of this library that sleep while there is nothing to do.
///
/// `parking_lot` lists all parked threads of the process in a table of its own. A child made by
/// `fork` inherits the table, and its new threads take the places in memory of those that the table
/// still names, which breaks it: a thread then sleeps for ever. So threads that are asleep at a
/// fork must not be in that table. This is made of the standard library's parts, which have none,
/// and used with locks of `parking_lot`, which such threads do not hold.
#[cfg(not(shuttle))]
#[derive(Debug, Default)]
pub(crate) struct IdleCondvar {
    state: std::sync::Mutex<IdleState>,
    signal: std::sync::Condvar,
}

#[cfg(not(shuttle))]
#[derive(Debug, Default)]
struct IdleState {
    /// How often any thread was notified.
    notified: u64,
    waiting: usize,
}

#[cfg(not(shuttle))]
impl IdleCondvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Gives the lock up until another thread notifies this one.
    pub(crate) fn wait<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>) {
        self.sleep(guard, None);
    }

    /// As [`wait`](Self::wait), until the time is up.
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut parking_lot::MutexGuard<'_, T>,
        timeout: std::time::Duration,
    ) {
        self.sleep(guard, Some(timeout));
    }

    fn sleep<T>(
        &self,
        guard: &mut parking_lot::MutexGuard<'_, T>,
        timeout: Option<std::time::Duration>,
    ) {
        // Taken before the lock is given up: a notification after that counts.
        let mut state = self.state();
        state.waiting += 1;
        let before = state.notified;
        parking_lot::MutexGuard::unlocked(guard, || {
            let is_asleep = |state: &mut IdleState| state.notified == before;
            let mut state = match timeout {
                None => self
                    .signal
                    .wait_while(state, is_asleep)
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(timeout) => {
                    let woken = self.signal.wait_timeout_while(state, timeout, is_asleep);
                    woken.unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
            state.waiting -= 1;
        });
    }

    /// Wakes one of the waiting threads, if there is any.
    pub(crate) fn notify_one(&self) {
        if self.note() {
            self.signal.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub(crate) fn notify_all(&self) {
        if self.note() {
            self.signal.notify_all();
        }
    }

    /// Counts a notification, and returns whether any thread waits for it.
    fn note(&self) -> bool {
        let mut state = self.state();
        state.notified += 1;
        state.waiting > 0
    }

    fn state(&self) -> std::sync::MutexGuard<'_, IdleState> {
        // Nothing here panics with the lock held.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
