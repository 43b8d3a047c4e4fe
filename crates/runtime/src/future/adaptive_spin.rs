//! A short wait when a future is polled first: most operations are over before a thread could be
//! woken for them.
//!
//! Waking a thread, and being woken by it, takes longer than a small kernel. So the first poll asks
//! again and again for a few microseconds, as long as that has paid of late. Each time that it has
//! not, twice as many futures go without it: a thousand that are awaited together for long cost a
//! handful of such waits, not a thousand.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::Result;

/// How long a first poll asks: what a launch and a copy of a few bytes take, about.
const SPIN: Duration = Duration::from_micros(20);
/// However often it was in vain, one future in so many, as a power of two, tries it again.
const FAILURES_MAX: u32 = 10;

/// Whether asking at once has paid of late.
#[derive(Debug)]
pub(super) struct AdaptiveSpin {
    /// How often in a row it was in vain.
    failures: AtomicU32,
    /// How many futures go without it before one tries again.
    to_skip: AtomicU32,
}

/// That of the process.
pub(super) static ADAPTIVE_SPIN: AdaptiveSpin = AdaptiveSpin::new();

impl AdaptiveSpin {
    const fn new() -> Self {
        Self {
            failures: AtomicU32::new(0),
            to_skip: AtomicU32::new(0),
        }
    }

    /// Asks until the answer is yes, for a short while at most; perhaps not at all.
    pub(super) fn spin(&self, is_done: impl FnMut() -> Result<bool>) -> Result<bool> {
        self.spin_for(SPIN, is_done)
    }

    fn spin_for(
        &self,
        at_most: Duration,
        mut is_done: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        // Threads that read the same numbers at once try once too often or too seldom, which does
        // no harm.
        let to_skip = self.to_skip.load(Relaxed);
        if to_skip > 0 {
            self.to_skip.store(to_skip - 1, Relaxed);
            return Ok(false);
        }
        let started = Instant::now();
        while started.elapsed() < at_most {
            if is_done()? {
                self.failures.store(0, Relaxed);
                return Ok(true);
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
    fn what_is_in_vain_is_tried_less_and_less_often_until_it_pays() {
        let adaptive_spin = AdaptiveSpin::new();
        let mut asked = Vec::new();
        for future in 0..40 {
            let mut tried = false;
            let answer = adaptive_spin.spin_for(Duration::from_micros(1), || {
                tried = true;
                Ok(false)
            });
            assert!(!answer.expect("it does not fail"));
            if tried {
                asked.push(future);
            }
        }
        assert_eq!(asked, [0, 2, 6, 14, 30]);
        let pays = || {
            adaptive_spin
                .spin_for(Duration::from_secs(1), || Ok(true))
                .expect("it does not fail")
        };
        while !pays() {}
        assert!(pays(), "and again at once");
    }

    #[test]
    fn what_is_over_at_once_is_seen_and_what_never_is_is_not() {
        assert!(
            AdaptiveSpin::new()
                .spin(|| Ok(true))
                .expect("it does not fail")
        );
        assert!(
            !AdaptiveSpin::new()
                .spin(|| Ok(false))
                .expect("it does not fail")
        );
    }
}
