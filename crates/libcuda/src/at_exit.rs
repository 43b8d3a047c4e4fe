//! A handler for the normal end of the process.

#![allow(unsafe_code, reason = "registers a handler for the end of the process")]

/// Registers a function that the process calls when it ends by `exit` or by a return from `main`.
pub(crate) fn register(handler: extern "C" fn()) {
    // SAFETY: the handler has the required signature and does not unwind.
    // The result says only that there was no memory for the registration: then there is no report.
    unsafe { libc::atexit(handler) };
}
