//! `__cuda_array_interface__`: arrays of Numba, CuPy and others that name their memory and stream.

#![allow(unsafe_code, reason = "adopts memory that its owner describes")]

use std::error::Error;

use millstream::{
    Buffer, Device, Release, Stream,
    driver::{DevicePtr, Driver as _, cuda::Cuda},
    interop::{
        After,
        dlpack::{DlDataType, Element},
    },
};
use pyo3::{
    exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::{kept::Kept, python_error, stream};

const NAME: &str = "__cuda_array_interface__";
const VERSION: u32 = 3;

/// An array as its owner describes it.
pub(crate) struct Interface<'py> {
    owner: Bound<'py, PyAny>,
    dictionary: Bound<'py, PyDict>,
}

impl<'py> Interface<'py> {
    /// Returns the description of an array, or `None` if it has none.
    pub(crate) fn of(owner: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Some(found) = owner.getattr_opt(NAME)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            owner: owner.clone(),
            dictionary: found.cast_into::<PyDict>()?,
        }))
    }

    fn required<T: for<'a> FromPyObject<'a, 'py>>(&self, key: &str) -> PyResult<T> {
        let value = self.dictionary.get_item(key)?;
        let value = value.ok_or_else(|| PyTypeError::new_err(format!("{NAME} has no `{key}`")))?;
        value.extract().map_err(|_| {
            PyTypeError::new_err(format!("{NAME} has the {key} {value}, of another type"))
        })
    }

    /// Returns the value of a key, or `None` if it is missing or Python's `None`.
    fn optional<T: for<'a> FromPyObject<'a, 'py>>(&self, key: &str) -> PyResult<Option<T>> {
        match self.dictionary.get_item(key)? {
            Some(value) if !value.is_none() => self.required(key).map(Some),
            _ => Ok(None),
        }
    }

    fn pointer(&self) -> PyResult<(u64, bool)> {
        self.required("data")
    }

    /// Returns the ordinal of the GPU on which the memory is.
    pub(crate) fn ordinal(&self) -> PyResult<i32> {
        let (pointer, _) = self.pointer()?;
        if pointer == 0 {
            // An array without elements may have no memory.
            return Ok(0);
        }
        let failed = |error: &dyn Error| {
            PyRuntimeError::new_err(format!("cannot find the GPU of {NAME}: {error}"))
        };
        let driver = Cuda::load().map_err(|error| failed(&error))?;
        let info = driver.pointer_info(DevicePtr::from_raw(pointer));
        match info.map_err(|error| failed(&error))? {
            Some(info) if info.on_device => Ok(info.device.as_raw()),
            _ => Err(PyValueError::new_err(format!(
                "{NAME} has the address {pointer:#x}, which is no memory of a GPU"
            ))),
        }
    }

    /// Takes the array, which its owner's object keeps, in the order of the stream that it names.
    pub(crate) fn import<T: Element>(
        self,
        device: &Device,
        to_read: bool,
    ) -> PyResult<(Buffer<T>, Vec<i64>)> {
        let refused = |reason: String| Err(PyBufferError::new_err(format!("{NAME}: {reason}")));
        let version: u32 = self.required("version")?;
        if version < VERSION {
            return refused(format!(
                "version {version} names no stream; version {VERSION} is needed"
            ));
        }
        let kind: String = self.required("typestr")?;
        if kind != type_string(T::TYPE) {
            return refused(format!(
                "the elements are {kind}, not {}",
                type_string(T::TYPE)
            ));
        }
        if self.optional::<Bound<'_, PyAny>>("mask")?.is_some() {
            return refused(String::from("masked arrays have no form here"));
        }
        let (pointer, is_read_only) = self.pointer()?;
        if is_read_only && !to_read {
            return refused(String::from("the array is read-only: copy it"));
        }
        let shape: Vec<i64> = self.required("shape")?;
        let strides: Option<Vec<i64>> = self.optional("strides")?;
        let Some(len) = contiguous_len(&shape, strides.as_deref(), size_of::<T>()) else {
            return refused(format!(
                "the array of shape {shape:?} is not contiguous in row-major order: copy it"
            ));
        };
        let theirs = match self.optional::<usize>("stream")? {
            Some(raw) => Some(stream::adopt(device, raw, &self.owner)?),
            None => None,
        };
        let after = theirs.as_ref().map_or(After::Done, After::Stream);
        let release = Release::when_done(Kept::new(self.owner.unbind()));
        // SAFETY: the owner vouches for the memory as long as it lives, which is until all uses are
        // complete, and for the stream behind which it may be used.
        let array =
            unsafe { device.adopt_buffer(DevicePtr::from_raw(pointer), len, after, release) };
        Ok((array.map_err(python_error)?, shape))
    }
}

/// Returns NumPy's name of an element type.
pub(crate) fn type_string(kind: DlDataType) -> String {
    let code = match kind.code {
        0 => 'i',
        1 => 'u',
        _ => 'f',
    };
    let order = if kind.bits == 8 { '|' } else { '<' };
    format!("{order}{code}{}", kind.bits / 8)
}

/// Returns the number of elements of an array in row-major order, whose strides are in bytes.
fn contiguous_len(shape: &[i64], strides: Option<&[i64]>, bytes: usize) -> Option<usize> {
    if strides.is_some_and(|strides| strides.len() != shape.len()) {
        return None;
    }
    let is_empty = shape.contains(&0);
    let mut len = 1_usize;
    for (axis, &length) in shape.iter().enumerate().rev() {
        // The stride of an axis with one element is never used.
        let is_used = length != 1 && !is_empty;
        let distance = i64::try_from(len.checked_mul(bytes)?).ok()?;
        if is_used && strides.is_some_and(|strides| strides[axis] != distance) {
            return None;
        }
        len = len.checked_mul(usize::try_from(length).ok()?)?;
    }
    Some(len)
}

/// Describes an array on the stream that its consumer has named.
pub(crate) fn describe<'py>(
    py: Python<'py>,
    (pointer, kind): (u64, DlDataType),
    shape: &[i64],
    stream: &Stream,
) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    dictionary.set_item("version", VERSION)?;
    dictionary.set_item("shape", pyo3::types::PyTuple::new(py, shape)?)?;
    dictionary.set_item("typestr", type_string(kind))?;
    dictionary.set_item("data", (pointer, false))?;
    dictionary.set_item("strides", py.None())?;
    dictionary.set_item("stream", stream.as_raw().as_raw())?;
    Ok(dictionary)
}
