//! The count of the calls with which this process has waited for the device on the host, by all
//! libraries. `interposed.c` counts them, if it was loaded with `LD_PRELOAD`.

#![allow(unsafe_code, reason = "finds and calls a function of C")]

use std::ffi::{c_char, c_ulong, c_void};

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns the number of waits so far, or `None` if they are not counted.
#[cfg(target_os = "linux")]
pub(crate) fn waits() -> Option<u64> {
    // SAFETY: a null handle stands for all libraries of the process.
    let found = unsafe { dlsym(std::ptr::null_mut(), c"interposed_waits".as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the function of this name has this type.
    let count =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_ulong>(found) };
    // SAFETY: it reads a counter.
    Some(unsafe { count() })
}

/// Returns `None`: the scenarios run on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn waits() -> Option<u64> {
    None
}
