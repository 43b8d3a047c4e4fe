//! What threads of the runtime share besides locks: condition variables and atomics, and what to do while spinning.
//!
//! Locks come from `parking_lot`. With `--cfg shuttle` that is another crate of the same interface, whose every step is
//! one that the tests of `cargo xtask shuttle` choose; here is the rest of what they must see.

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
