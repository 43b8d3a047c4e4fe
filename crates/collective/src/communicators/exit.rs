//! The end of the process: it waits until the communicators of dropped and lost groups are ended.
//!
//! Such a group ends its communicators on a thread of its own. NCCL is not to be called while
//! the process runs the destructors of its libraries, so a handler that the process calls before
//! them waits for these threads, for a few seconds at most.

#![allow(unsafe_code, reason = "registers a handler for the end of the process")]

use millstream::groups::IdleCondvar;
use parking_lot::Mutex;

/// The number of groups whose communicators are being ended.
static ENDING: Mutex<usize> = Mutex::new(0);

/// A group whose communicators are being ended, or an abort in progress.
pub(super) struct EndingGroup(());

impl EndingGroup {
    pub(super) fn begin() -> Self {
        #[cfg(target_os = "linux")]
        handler::register();
        *ENDING.lock() += 1;
        Self(())
    }
}

impl Drop for EndingGroup {
    fn drop(&mut self) {
        *ENDING.lock() -= 1;
        changed().notify_all();
    }
}

fn changed() -> &'static IdleCondvar {
    static CHANGED: std::sync::OnceLock<IdleCondvar> = std::sync::OnceLock::new();
    CHANGED.get_or_init(IdleCondvar::new)
}

#[cfg(target_os = "linux")]
mod handler {
    //! The handler itself. NCCL is a library for Linux alone.

    use std::{
        sync::Once,
        time::{Duration, Instant},
    };

    /// The longest time that the end of the process is delayed.
    const WAIT_MAX: Duration = Duration::from_secs(5);

    /// Registers the handler. NCCL is loaded by now, so that its destructors run after the handler.
    pub(super) fn register() {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the handler takes a lock and waits with a timeout; it does not unwind.
            unsafe { libc::atexit(wait) };
        });
    }

    extern "C" fn wait() {
        let end = Instant::now() + WAIT_MAX;
        let mut ending = super::ENDING.lock();
        while *ending > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            super::changed().wait_for(&mut ending, left);
        }
    }
}
