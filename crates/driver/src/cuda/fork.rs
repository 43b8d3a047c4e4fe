//! Detection of forked children, in which libcuda must not be called.
//!
//! CUDA does not support a child of a process that has initialised libcuda. Some calls return an
//! error there, and others wait for threads that only the parent has. A handler of the C library
//! sets a flag in the child, so that each call costs one load of that flag; reading the process id
//! would cost a system call.

#![allow(unsafe_code, reason = "registers a handler with the C library")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::{DriverError, ResultCode};

/// Set if this process was forked from one that had loaded libcuda.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Registers the handler that detects forks. Called once libcuda has been initialised.
#[cfg(unix)]
pub(super) fn watch() {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
    }
    unsafe extern "C" fn set_flag() {
        FORKED.store(true, Relaxed);
    }
    // SAFETY: the declaration is POSIX's, and the handler only stores to a static. If there is no
    // memory for the handler, it is not registered and forks are not detected.
    unsafe { pthread_atfork(None, None, Some(set_flag)) };
}

#[cfg(not(unix))]
pub(super) fn watch() {}

/// Returns an error in a forked child.
#[inline]
pub(super) fn check(call: &'static str) -> Result<(), DriverError> {
    if FORKED.load(Relaxed) {
        Err(forked_error(call))
    } else {
        Ok(())
    }
}

#[cold]
fn forked_error(call: &'static str) -> DriverError {
    DriverError::new(call, ResultCode::NOT_INITIALIZED).with_detail(
        "this process was forked from one that had loaded libcuda, which CUDA does not support: \
         start a new program instead",
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_detected_in_the_child_and_not_in_the_parent() {
        watch();
        // SAFETY: the child only loads a flag and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = check("cuStreamQuery").is_err();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(refused)) };
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and the status goes to a local.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(waited, child);
        assert_eq!(status, 1 << 8, "the child found itself forked");
        assert!(check("cuStreamQuery").is_ok());
    }
}
