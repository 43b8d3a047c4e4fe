//! Closures as libcuda's host functions.

#![allow(unsafe_code, reason = "a closure passes through C as a pointer")]

use std::{
    ffi::c_void,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::HostFunction;

/// Converts the closure to the single pointer that a C callback receives. The closure is boxed
/// twice, because the pointer to a boxed closure is two words long.
pub(super) fn into_raw(function: HostFunction) -> *mut c_void {
    Box::into_raw(Box::new(function)).cast()
}

/// Converts the pointer back to the closure.
///
/// # Safety
///
/// `data` came from [`into_raw`] and is not used again.
pub(super) unsafe fn from_raw(data: *mut c_void) -> HostFunction {
    // SAFETY: the caller vouches that this is the box that `into_raw` leaked, reclaimed once.
    *unsafe { Box::from_raw(data.cast::<HostFunction>()) }
}

/// Runs the closure behind `data`. libcuda calls this function.
///
/// # Safety
///
/// `data` came from [`into_raw`] and is not used again.
pub(super) unsafe extern "C" fn trampoline(data: *mut c_void) {
    // SAFETY: this function has the same contract.
    let function = unsafe { from_raw(data) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(function)) {
        // The payload is leaked: its destructor may panic too, and no panic may reach the C code
        // that called this function.
        mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_closure_runs_once_and_is_dropped() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let entry = log.clone();
        let data = into_raw(Box::new(move || {
            entry.lock().expect("not poisoned").push(1)
        }));
        // SAFETY: fresh from `into_raw`, and not used again.
        unsafe { trampoline(data) };
        assert_eq!(*log.lock().expect("not poisoned"), [1]);
        assert_eq!(
            Arc::strong_count(&log),
            1,
            "what the closure held is dropped"
        );
    }

    #[test]
    fn a_panic_stops_at_the_trampoline() {
        struct PanicsOnDrop;
        impl Drop for PanicsOnDrop {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let data = into_raw(Box::new(|| std::panic::panic_any(PanicsOnDrop)));
        // SAFETY: fresh from `into_raw`, and not used again.
        unsafe { trampoline(data) };
    }
}
