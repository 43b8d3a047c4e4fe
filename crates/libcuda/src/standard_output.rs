//! The standard output of the C library, where what kernels print is in order with what the program
//! prints.

#![allow(unsafe_code, reason = "writes to the C library's standard output")]

use libc::FILE;

unsafe extern "C" {
    /// Standard C's `stdout`, which the program may replace.
    #[cfg_attr(target_vendor = "apple", link_name = "__stdoutp")]
    static mut stdout: *mut FILE;
}

/// Writes bytes to the standard output, which is flushed so that they are in order with those that
/// the program writes in other ways. What cannot be written is lost.
pub(crate) fn write(bytes: &[u8]) {
    // SAFETY: as for a program that calls `printf`: the stream is that of the C library, which locks
    // it, and the bytes are readable.
    unsafe {
        libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
        libc::fflush(stdout);
    }
}
