//! `fork`: libcuda is not called in a child of the process that initialised it.
//!
//! CUDA does not support such a child. Some calls answer with an error there, and others wait for
//! threads that only the parent has. A handler of the C library notes the fork, so that a call
//! costs one load of a flag; asking for the process's number would be a system call.

#![allow(unsafe_code, reason = "registers a handler with the C library")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::{DriverError, ResultCode};

/// Whether this process was forked from one that had loaded libcuda.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Begins to watch for forks. Called when libcuda has been initialised.
#[cfg(unix)]
pub(super) fn watch() {
    type Handler = Option<unsafe extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
    }
    unsafe extern "C" fn note() {
        FORKED.store(true, Relaxed);
    }
    // SAFETY: the declaration is POSIX's, and the handler only stores to a static. Without memory
    // for the handler nothing is registered, and forks go unnoticed.
    unsafe { pthread_atfork(None, None, Some(note)) };
}

#[cfg(not(unix))]
pub(super) fn watch() {}

/// An error in a forked child.
#[inline]
pub(super) fn check(call: &'static str) -> Result<(), DriverError> {
    if FORKED.load(Relaxed) {
        Err(refused(call))
    } else {
        Ok(())
    }
}

#[cold]
fn refused(call: &'static str) -> DriverError {
    DriverError::new(call, ResultCode::NOT_INITIALIZED).with_detail(
        "this process was forked from one that had loaded libcuda, which CUDA does not support: start a new program instead",
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_is_noted_and_its_parent_is_not() {
        watch();
        // SAFETY: the child only loads a flag and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = check("cuStreamQuery").is_err();
            // SAFETY: ends the child without the parent's clean-up.
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
