//! `Kept`: values whose drop runs Python's code.

use std::sync::{PoisonError, RwLock};

use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyCFunction, PyDict, PyTuple},
};

/// True once the interpreter ends. A drop holds the lock while it runs Python's code, and the end
/// waits for that: a thread that waits for an interpreter that has ended would not return.
static ENDS: RwLock<bool> = RwLock::new(false);

/// A value of Python's, such as an object or a tensor whose deleter is Python's code, that
/// Millstream keeps. Millstream drops it on a thread of its own: the drop attaches that thread to
/// the interpreter first. Once the interpreter ends the value is abandoned, because its code can no
/// longer run.
pub(crate) struct Kept<T>(Option<T>);

impl<T> Kept<T> {
    /// Keeps a value. [`abandon_at_exit`] was called before.
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let mut left = self.0.take();
        let ends = ENDS.read().unwrap_or_else(PoisonError::into_inner);
        if !*ends {
            Python::try_attach(|_| drop(left.take()));
        }
        std::mem::forget(left);
    }
}

/// Has the interpreter tell when it ends.
///
/// # Errors
///
/// If Python's module `atexit` fails.
pub(crate) fn abandon_at_exit(py: Python<'_>) -> PyResult<()> {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    let registered = REGISTERED.get_or_try_init(py, || {
        let end = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            // Detached: a drop on another thread may wait for the interpreter.
            arguments.py().detach(|| {
                *ENDS.write().unwrap_or_else(PoisonError::into_inner) = true;
            });
        };
        let end = PyCFunction::new_closure(py, None, None, end)?;
        py.import("atexit")?.call_method1("register", (end,))?;
        Ok::<_, PyErr>(())
    });
    registered.map(|_| ())
}
