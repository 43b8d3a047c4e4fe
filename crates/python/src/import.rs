//! Arguments: arrays of Python as arrays of Millstream.

#![allow(unsafe_code, reason = "adopts tensors that their producer describes")]

use std::{mem, ops::Deref};

use millstream::{
    Buffer, Device, Select, Stream,
    interop::{
        After,
        dlpack::{DEVICE_CPU, DEVICE_CUDA, ManagedTensor},
    },
};
use millstream_region::{Array, Element};
use ndarray::{Dimension, IxDyn};
use pyo3::{
    exceptions::{PyBufferError, PyTypeError},
    prelude::*,
    types::PyDict,
};

use crate::{
    PythonElement, capsule,
    interface::Interface,
    kept::{Kept, abandon_at_exit},
    python_error, region_error,
};

/// Opens the device for a function with this argument: the argument's own GPU, or for one in the
/// host's memory the device that `MILLSTREAM_DEVICE` names, which without a GPU is a simulated one.
///
/// # Errors
///
/// If the object speaks neither DLPack nor `__cuda_array_interface__`, or the device cannot be
/// opened.
pub fn open(argument: &Bound<'_, PyAny>) -> PyResult<Device> {
    let select = match device_of(argument)? {
        Some((DEVICE_CUDA, ordinal)) => Select::Cuda(ordinal),
        Some(_) => Select::Auto,
        None => Select::Cuda(interface(argument)?.ordinal()?),
    };
    argument
        .py()
        .detach(|| Device::open(select))
        .map_err(python_error)
}

/// Returns DLPack's device type and ordinal of an array, or `None` without DLPack.
fn device_of(array: &Bound<'_, PyAny>) -> PyResult<Option<(i32, i32)>> {
    match array.getattr_opt("__dlpack_device__")? {
        Some(method) => Ok(Some(method.call0()?.extract()?)),
        None => Ok(None),
    }
}

fn interface<'py>(array: &Bound<'py, PyAny>) -> PyResult<Interface<'py>> {
    Interface::of(array)?.ok_or_else(|| {
        PyTypeError::new_err(
            "an array is wanted that has the methods of DLPack, as NumPy's have, or \
             __cuda_array_interface__",
        )
    })
}

/// Calls `__dlpack__`, of DLPack 1.x where the producer knows it.
fn tensor_of(array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<ManagedTensor> {
    let py = array.py();
    let keywords = PyDict::new(py);
    if let Some(stream) = stream {
        keywords.set_item("stream", stream)?;
    }
    let unversioned = keywords.copy()?;
    keywords.set_item("max_version", (1, 0))?;
    let capsule = array
        .call_method("__dlpack__", (), Some(&keywords))
        .or_else(|error| match error.is_instance_of::<PyTypeError>(py) {
            // A producer of before DLPack 1.0 does not know the keyword.
            true => array.call_method("__dlpack__", (), Some(&unversioned)),
            false => Err(error),
        })?;
    capsule::unwrap(&capsule)
}

/// Takes an argument as an array and its shape. Operations on the array run after the work that the
/// argument's framework has on its current stream, or on the stream that its
/// `__cuda_array_interface__` names, on the device; memory of the host is uploaded.
///
/// # Errors
///
/// If the object speaks neither DLPack nor `__cuda_array_interface__`, has another type of
/// elements, is not contiguous, or is on another device than the stream; if it is read-only and on
/// a GPU; if it names a default stream of CUDA; if its framework captures the stream of its work;
/// or if the device is lost.
pub fn import<T: PythonElement>(
    argument: &Bound<'_, PyAny>,
    stream: &Stream,
) -> PyResult<(Buffer<T>, Vec<i64>)> {
    adopt(argument, stream, false)
}

/// An argument that is only read.
#[derive(Debug)]
pub struct ReadOnly<T>(Buffer<T>);

impl<T> Deref for ReadOnly<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.0
    }
}

/// Takes an argument like [`import`], also a read-only one, such as an array of JAX.
///
/// # Errors
///
/// As [`import`], except that the argument may be read-only.
pub fn import_to_read<T: PythonElement>(
    argument: &Bound<'_, PyAny>,
    stream: &Stream,
) -> PyResult<(ReadOnly<T>, Vec<i64>)> {
    let (array, shape) = adopt(argument, stream, true)?;
    Ok((ReadOnly(array), shape))
}

/// Takes an argument like [`import_to_read`], as an array for regions, which never write it.
///
/// # Errors
///
/// As [`import_to_read`], and if it has another number of axes than `D`.
pub fn import_array<T: PythonElement + Element, D: Dimension>(
    argument: &Bound<'_, PyAny>,
    stream: &Stream,
) -> PyResult<Array<T, D>> {
    let (array, shape) = adopt::<T>(argument, stream, true)?;
    let lengths: Vec<usize> = shape.iter().map(|&length| length as usize).collect();
    let array = Array::from_buffer(array, IxDyn(&lengths)).map_err(region_error)?;
    array.into_dimensionality().map_err(region_error)
}

/// Takes an argument, which is not written if it is taken `to_read`.
fn adopt<T: PythonElement>(
    argument: &Bound<'_, PyAny>,
    stream: &Stream,
    to_read: bool,
) -> PyResult<(Buffer<T>, Vec<i64>)> {
    abandon_at_exit(argument.py())?;
    let device = stream.device();
    match device_of(argument)? {
        None => interface(argument)?.import(&device, to_read),
        Some((DEVICE_CPU, _)) => {
            let tensor = tensor_of(argument, None)?;
            let shape = tensor.shape().to_vec();
            // SAFETY: the producer vouches for the memory, and this thread stays attached to the
            // interpreter, so that no code of Python writes it meanwhile.
            let elements = unsafe { tensor.host_elements::<T>() }.map_err(python_error)?;
            let array = stream.upload(elements).map_err(python_error)?;
            drop(tensor);
            Ok((array, shape))
        }
        Some((DEVICE_CUDA, _)) => {
            // The producer makes a stream wait for its current one. If that is captured, the wait
            // draws the stream into the capture, so that it is one without other work.
            let waiting = device.stream().map_err(python_error)?;
            let tensor = tensor_of(argument, Some(waiting.as_raw().as_raw()))?;
            let shape = tensor.shape().to_vec();
            let (after, keep) = (After::Stream(&waiting), Kept::new);
            let array = match to_read {
                // SAFETY: the producer vouches for the memory until the deleter is called, and has
                // ordered its work before the stream. No operation writes the array.
                true => unsafe { device.adopt_dlpack_to_read::<T, _>(tensor, after, keep) },
                // SAFETY: as above.
                false => unsafe { device.adopt_dlpack_with::<T, _>(tensor, after, keep) },
            };
            if array.is_err() {
                // It may take part in a capture, so that it is not used again.
                mem::forget(waiting);
            }
            Ok((array.map_err(python_error)?, shape))
        }
        Some(other) => Err(PyBufferError::new_err(format!(
            "the array is on a device of DLPack's type {}, which is neither the host nor CUDA",
            other.0
        ))),
    }
}
