//! Errors of Millstream as exceptions of Python.

use millstream::Error;
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};

/// Converts an error to an exception: a `ValueError` for a usage error, else a `RuntimeError`.
#[must_use]
pub fn python_error(error: Error) -> PyErr {
    match error {
        Error::Usage(usage_error) => PyValueError::new_err(usage_error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}
