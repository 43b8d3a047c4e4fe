//! The standard output of the C library, where what kernels print is in order with what the program
//! prints.

#![allow(unsafe_code, reason = "writes to the C library's standard output")]

use libc::FILE;

unsafe extern "C" {
    /// Standard C's `stdout`, which the program may replace.
    #[cfg_attr(target_vendor = "apple", link_name = "__stdoutp")]
    static mut stdout: *mut FILE;
}

/// Writes bytes to the standard output, and flushes it so that they are in order with those that
/// the program writes in other ways. What cannot be written is lost.
pub(crate) fn write(bytes: &[u8]) {
    // SAFETY: the C library initialises the variable, and a program does not change it while
    // another thread may print.
    let output = unsafe { stdout };
    // SAFETY: the bytes are readable, and the C library locks the stream.
    unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), output) };
    // SAFETY: as above.
    unsafe { libc::fflush(output) };
}
