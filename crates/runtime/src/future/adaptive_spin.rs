//! Adaptive spinning in the first poll of a future.
//!
//! Waking the reactor and being woken by it takes longer than a small kernel. The first poll of a
//! future therefore spins for a few microseconds, as long as spinning has recently succeeded. After
//! each failure twice as many futures skip it: a thousand futures that are awaited together for
//! long cost a handful of such spins, not a thousand.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::Result;

/// The maximum duration of a spin: about as long as a launch and a small copy take.
const SPIN: Duration = Duration::from_micros(20);
/// The bound of the backoff: after any number of failures, one future in 2^`FAILURES_MAX` still
/// spins.
const FAILURES_MAX: u32 = 10;

/// The success history of spinning.
#[derive(Debug)]
pub(super) struct AdaptiveSpin {
    /// The number of consecutive failed spins.
    failures: AtomicU32,
    /// The number of futures that skip the spin before one tries again.
    to_skip: AtomicU32,
}

/// The history shared by all futures of the process.
pub(super) static ADAPTIVE_SPIN: AdaptiveSpin = AdaptiveSpin::new();

impl AdaptiveSpin {
    const fn new() -> Self {
        Self {
            failures: AtomicU32::new(0),
            to_skip: AtomicU32::new(0),
        }
    }

    /// Spins until `is_done` returns `true`, for [`SPIN`] at most. Returns `false` at once if this
    /// future skips the spin.
    pub(super) fn spin(&self, is_done: impl FnMut() -> Result<bool>) -> Result<bool> {
        self.spin_for(SPIN, is_done)
    }

    fn spin_for(
        &self,
        at_most: Duration,
        mut is_done: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        // Relaxed, not atomic as a whole: threads that read the same numbers concurrently spin once
        // too often or too seldom, which is harmless.
        let to_skip = self.to_skip.load(Relaxed);
        if to_skip > 0 {
            self.to_skip.store(to_skip - 1, Relaxed);
            return Ok(false);
        }
        let started = Instant::now();
        loop {
            if is_done()? {
                self.failures.store(0, Relaxed);
                return Ok(true);
            }
            if started.elapsed() >= at_most {
                break;
            }
            std::hint::spin_loop();
        }
        let failures = (self.failures.load(Relaxed) + 1).min(FAILURES_MAX);
        self.failures.store(failures, Relaxed);
        self.to_skip.store((1 << failures) - 1, Relaxed);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_spins_back_off_until_one_succeeds() {
        let adaptive_spin = AdaptiveSpin::new();
        let mut spun = Vec::new();
        for future in 0..40 {
            let mut tried = false;
            let answer = adaptive_spin.spin_for(Duration::from_micros(1), || {
                tried = true;
                Ok(false)
            });
            assert!(!answer.expect("the closure never fails"));
            if tried {
                spun.push(future);
            }
        }
        assert_eq!(spun, [0, 2, 6, 14, 30]);
        let pays = || {
            adaptive_spin
                .spin_for(Duration::from_secs(1), || Ok(true))
                .expect("the closure never fails")
        };
        while !pays() {}
        assert!(pays(), "the next future spins too");
    }

    #[test]
    fn a_spin_sees_completed_operations_and_gives_up_on_others() {
        assert!(
            AdaptiveSpin::new()
                .spin(|| Ok(true))
                .expect("the closure never fails")
        );
        assert!(
            !AdaptiveSpin::new()
                .spin(|| Ok(false))
                .expect("the closure never fails")
        );
    }
}
