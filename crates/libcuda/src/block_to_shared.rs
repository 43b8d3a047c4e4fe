//! The program's function from block size to dynamic shared memory.

#![allow(unsafe_code, reason = "calls a function that the program passes")]

pub(crate) fn call(function: unsafe extern "C" fn(i32) -> usize, block: u32) -> usize {
    // SAFETY: the program gave the function for calls with block sizes during this call.
    unsafe { function(block as i32) }
}
