//! Condition variables, atomics, threads and the spin hint, replaceable for model checking.
//!
//! Locks come from `parking_lot`. With `--cfg shuttle` that name is a crate with the same interface
//! whose locks are scheduling points of the model checker (`cargo xtask shuttle`). This module
//! replaces the remaining synchronisation primitives in the same way.

pub(crate) mod ranked;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::Condvar;
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// A condition variable for `parking_lot` locks under shuttle, which provides none for them.
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub struct Condvar {
    /// The number of notifications so far.
    notified: shuttle::sync::Mutex<u64>,
    signal: shuttle::sync::Condvar,
}

#[cfg(shuttle)]
impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Releases the lock until the next notification.
    pub(crate) fn wait<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>) {
        // Locked before the caller's lock is released, so that no later notification is missed.
        let notified = self.notified();
        let before = *notified;
        parking_lot::MutexGuard::unlocked(guard, || {
            let woken = self.signal.wait_while(notified, |now| *now == before);
            drop(woken.unwrap_or_else(std::sync::PoisonError::into_inner));
        });
    }

    /// Waits like [`wait`](Self::wait). Shuttle has no time, so the timeout never expires.
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
        // Only a panic of the test itself poisons the lock, and the count stays valid.
        self.notified
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(shuttle)]
pub use Condvar as IdleCondvar;

/// A condition variable for idle threads of this library, safe across `fork`.
///
/// `parking_lot` keeps all parked threads of the process in one table. A child made by `fork`
/// inherits the table with entries of threads that do not exist in the child, and its new threads
/// may reuse their memory. The table is then inconsistent, and a thread can sleep for ever. Threads
/// that are asleep at a fork must therefore not be in that table. This condition variable is built
/// from the standard library's primitives, which have no such table, and is used with `parking_lot`
/// locks, which sleeping threads do not hold.
#[cfg(not(shuttle))]
#[derive(Debug, Default)]
pub struct IdleCondvar {
    state: std::sync::Mutex<IdleState>,
    signal: std::sync::Condvar,
}

#[cfg(not(shuttle))]
#[derive(Debug, Default)]
struct IdleState {
    /// The number of notifications so far.
    notified: u64,
    waiting: usize,
}

#[cfg(not(shuttle))]
impl IdleCondvar {
    /// Creates a condition variable.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the lock until another thread notifies this one.
    pub fn wait<T>(&self, guard: &mut parking_lot::MutexGuard<'_, T>) {
        self.sleep(guard, None);
    }

    /// Waits like [`wait`](Self::wait), at most until the timeout expires.
    pub fn wait_for<T>(
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
        // Locked before the caller's lock is released, so that no later notification is missed.
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

    /// Wakes one of the waiting threads, if there is one.
    pub fn notify_one(&self) {
        if self.note() {
            self.signal.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.note() {
            self.signal.notify_all();
        }
    }

    /// Counts a notification. Returns whether a thread waits for it.
    fn note(&self) -> bool {
        let mut state = self.state();
        state.notified += 1;
        state.waiting > 0
    }

    fn state(&self) -> std::sync::MutexGuard<'_, IdleState> {
        // No code panics while it holds this lock.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
