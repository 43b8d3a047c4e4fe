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

/// Converts an error of a region like [`python_error`].
#[must_use]
pub fn region_error(error: millstream_region::Error) -> PyErr {
    match error {
        millstream_region::Error::Device(error) => python_error(error),
        millstream_region::Error::Usage(usage_error) => {
            PyValueError::new_err(usage_error.to_string())
        }
        error => PyRuntimeError::new_err(error.to_string()),
    }
}
