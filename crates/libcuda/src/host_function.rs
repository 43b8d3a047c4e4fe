//! Functions of the program that a stream calls.

#![allow(unsafe_code, reason = "calls functions that the program passes")]

use std::{ffi::c_void, sync::Arc};

use millstream_driver::HostFunction;
use millstream_sim::RepeatedFunction;

use crate::{
    abi::{Handle, In},
    process,
};

/// The pointer that the program wants its function to receive.
struct Data(*mut c_void);

// SAFETY: the pointer is only handed back to the program, which asked for a call on a thread of the
// driver.
unsafe impl Send for Data {}
// SAFETY: as for `Send`; the pointer itself never changes.
unsafe impl Sync for Data {}

impl Data {
    fn of(pointer: In<c_void>) -> Self {
        Self(pointer.as_ptr().cast_mut())
    }

    /// Returns the pointer. A method, so that a closure captures the whole value.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

/// Returns the host function that calls a function of the program each time that it runs. Its tag
/// has the addresses of the function and of the data.
pub(crate) fn repeated(
    function: unsafe extern "C" fn(*mut c_void),
    data: In<c_void>,
) -> RepeatedFunction {
    let tag = [function as usize, data.as_ptr().expose_provenance()];
    let data = Data::of(data);
    RepeatedFunction {
        function: Arc::new(move || {
            // SAFETY: the program gave the function and the pointer for calls of this graph, for a
            // call on a stream, or for the end of an object.
            unsafe { function(data.pointer()) }
        }),
        tag,
    }
}

/// Returns the host function that writes what kernels have printed and calls a callback of the
/// program, with the result of the work before it: success, since it is not called after an error.
pub(crate) fn of_callback(
    callback: unsafe extern "C" fn(Handle, i32, *mut c_void),
    stream: Handle,
    data: In<c_void>,
) -> HostFunction {
    let data = Data::of(data);
    Box::new(move || {
        if let Ok(process) = process::process() {
            process.gpu.flush_printf();
        }
        // SAFETY: the program gave the callback and the pointer for exactly this call.
        unsafe { callback(stream, 0, data.pointer()) }
    })
}
