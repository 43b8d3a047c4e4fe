//! Capsules: the objects of Python that carry tensors of DLPack.

#![allow(unsafe_code, reason = "makes and empties capsules")]

use std::{ffi::CStr, ptr::NonNull};

use millstream::interop::dlpack::ManagedTensor;
use pyo3::{exceptions::PyBufferError, ffi, prelude::*};

const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
/// The names of capsules whose tensor was taken out.
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";

pub(crate) fn wrap<'py>(py: Python<'py>, tensor: ManagedTensor) -> PyResult<Bound<'py, PyAny>> {
    let (pointer, name) = match tensor.into_versioned() {
        Ok(raw) => (raw.as_ptr().cast(), VERSIONED),
        Err(tensor) => match tensor.into_unversioned() {
            Ok(raw) => (raw.as_ptr().cast(), UNVERSIONED),
            Err(_) => unreachable!("a tensor has one of two structures"),
        },
    };
    // SAFETY: the name lives for ever, and the destructor frees the tensor unless it was taken out.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy)) };
    // SAFETY: the capsule is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, attached to the interpreter.
    drop(unsafe { take_out(capsule) });
}

/// Takes the tensor out of a capsule that a producer has made.
pub(crate) fn unwrap(capsule: &Bound<'_, PyAny>) -> PyResult<ManagedTensor> {
    // SAFETY: the object is alive, and this thread is attached to the interpreter.
    unsafe { take_out(capsule.as_ptr()) }
        .ok_or_else(|| PyBufferError::new_err("this is no capsule of DLPack, or it is used up"))
}

/// Takes the tensor out of a capsule.
///
/// # Safety
///
/// The object is alive, and the thread is attached to the interpreter.
unsafe fn take_out(capsule: *mut ffi::PyObject) -> Option<ManagedTensor> {
    // SAFETY: this function's contract.
    let raw = unsafe { rename(capsule, VERSIONED, USED_VERSIONED) };
    if let Some(raw) = raw {
        // SAFETY: a capsule of this name holds this structure, and the new name says that it has
        // another owner now.
        return Some(unsafe { ManagedTensor::from_versioned(raw.cast()) });
    }
    // SAFETY: this function's contract.
    let raw = unsafe { rename(capsule, UNVERSIONED, USED_UNVERSIONED) }?;
    // SAFETY: as above.
    Some(unsafe { ManagedTensor::from_unversioned(raw.cast()) })
}

/// Renames a capsule, and returns its pointer, if it has this name.
///
/// # Safety
///
/// As for [`take_out`].
unsafe fn rename(
    capsule: *mut ffi::PyObject,
    from: &'static CStr,
    to: &'static CStr,
) -> Option<NonNull<std::ffi::c_void>> {
    // SAFETY: this function's contract.
    if unsafe { ffi::PyCapsule_IsValid(capsule, from.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the capsule is valid and has this name.
    let raw = unsafe { ffi::PyCapsule_GetPointer(capsule, from.as_ptr()) };
    // SAFETY: as above; the new name lives for ever.
    let renamed = unsafe { ffi::PyCapsule_SetName(capsule, to.as_ptr()) };
    NonNull::new(raw).filter(|_| renamed == 0)
}
