//! `__cuda_stream__`: streams of Python's frameworks, and of Millstream for them.

#![allow(unsafe_code, reason = "adopts streams of frameworks")]

use millstream::{Device, driver::StreamHandle};
use pyo3::{
    exceptions::{PyBufferError, PyTypeError},
    prelude::*,
};

use crate::{
    kept::{Kept, abandon_at_exit},
    python_error,
};

const NAME: &str = "__cuda_stream__";

/// Takes the stream of an object with `__cuda_stream__`, such as one of CuPy or of `cuda.core`:
/// operations on it run in order with the framework's. The object is kept until they are complete.
///
/// # Errors
///
/// If the device is simulated, the object has no `__cuda_stream__` of version 0, or its stream is a
/// default stream of CUDA or belongs to another context; or if the device is lost.
pub fn import_stream(object: &Bound<'_, PyAny>, device: &Device) -> PyResult<millstream::Stream> {
    if device.is_simulated() {
        return Err(PyBufferError::new_err(
            "the device is simulated: no framework has a stream there",
        ));
    }
    let found = object.getattr_opt(NAME)?;
    let found = found.ok_or_else(|| {
        PyTypeError::new_err(format!("a stream is wanted that has the method {NAME}"))
    })?;
    // Older frameworks have a property.
    let pair = match found.is_callable() {
        true => found.call0()?,
        false => found,
    };
    let (version, raw): (i64, usize) = pair.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "{NAME} gives {pair}, which is no version and handle"
        ))
    })?;
    if version != 0 {
        return Err(PyBufferError::new_err(format!(
            "{NAME} is of version {version}; version 0 is known"
        )));
    }
    adopt(device, raw, object)
}

/// Adopts a stream that `owner` keeps alive.
pub(crate) fn adopt(
    device: &Device,
    raw: usize,
    owner: &Bound<'_, PyAny>,
) -> PyResult<millstream::Stream> {
    abandon_at_exit(owner.py())?;
    let keeper = Kept::new(owner.clone().unbind());
    // SAFETY: the owner vouches for its stream as long as it lives, which is until our operations
    // on the stream are complete.
    let adopted = unsafe { device.adopt_stream(StreamHandle::from_raw(raw), keeper) };
    adopted.map_err(python_error)
}

/// A stream of Millstream for frameworks: CuPy's `Stream.from_external` and `cuda.core` take it by
/// `__cuda_stream__`. It lives as long as this object. Frameworks may capture it.
#[pyclass(frozen, module = "millstream")]
#[derive(Debug)]
pub struct Stream(millstream::Stream);

impl Stream {
    /// Creates a stream on a device.
    ///
    /// # Errors
    ///
    /// As [`Device::stream_to_hand_out`].
    pub fn new(device: &Device) -> PyResult<Self> {
        let stream = device.stream_to_hand_out().map_err(python_error)?;
        Ok(Self(stream))
    }

    /// Returns the stream for operations of Millstream, which are in order with those of
    /// frameworks.
    #[must_use]
    pub fn stream(&self) -> &millstream::Stream {
        &self.0
    }
}

#[pymethods]
impl Stream {
    /// The version of the protocol, and the driver's handle.
    fn __cuda_stream__(&self) -> (i64, usize) {
        (0, self.0.as_raw().as_raw())
    }
}
