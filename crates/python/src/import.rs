//! Arguments: arrays of Python as arrays of Millstream.

#![allow(unsafe_code, reason = "adopts tensors that their producer describes")]

use millstream::{
    Buffer, Device, Select, Stream,
    interop::{
        After,
        dlpack::{DEVICE_CPU, DEVICE_CUDA, ManagedTensor},
    },
};
use pyo3::{
    exceptions::{PyBufferError, PyTypeError},
    prelude::*,
    types::PyDict,
};

use crate::{PythonElement, capsule, python_error};

/// Opens the device for a function with this argument: the argument's own GPU, or for one in the
/// host's memory the device that `MILLSTREAM_DEVICE` names, which without a GPU is a simulated one.
///
/// # Errors
///
/// If the object does not speak DLPack, or the device cannot be opened.
pub fn open(argument: &Bound<'_, PyAny>) -> PyResult<Device> {
    let select = match device_of(argument)? {
        (DEVICE_CUDA, ordinal) => Select::Cuda(ordinal),
        _ => Select::Auto,
    };
    argument
        .py()
        .detach(|| Device::open(select))
        .map_err(python_error)
}

/// Returns the device type and the ordinal of an array.
fn device_of(array: &Bound<'_, PyAny>) -> PyResult<(i32, i32)> {
    let device = array.call_method0("__dlpack_device__").map_err(|_| {
        PyTypeError::new_err("an array is wanted that has the methods of DLPack, as NumPy's have")
    })?;
    device.extract()
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

/// A tensor of a producer. Its deleter may be code of Python's, so that it is called attached to
/// the interpreter, and not at all once the interpreter ends.
struct Kept(Option<ManagedTensor>);

impl Drop for Kept {
    fn drop(&mut self) {
        let tensor = self.0.take();
        let mut left = Some(tensor);
        Python::try_attach(|_| drop(left.take()));
        std::mem::forget(left);
    }
}

/// Takes an argument as an array and its shape. Operations on the array run after the work that the
/// argument's framework has on its current stream, on the device; memory of the host is uploaded.
///
/// # Errors
///
/// If the object does not speak DLPack, has another type of elements, is not contiguous, or is on
/// another device than the stream; if it is read-only and on a GPU; or if the device is lost.
pub fn import<T: PythonElement>(
    argument: &Bound<'_, PyAny>,
    stream: &Stream,
) -> PyResult<(Buffer<T>, Vec<i64>)> {
    let device = stream.device();
    match device_of(argument)? {
        (DEVICE_CPU, _) => {
            let tensor = tensor_of(argument, None)?;
            let shape = tensor.shape().to_vec();
            // SAFETY: the producer vouches for the memory, and this thread stays attached to the
            // interpreter, so that no code of Python writes it meanwhile.
            let elements = unsafe { tensor.host_elements::<T>() }.map_err(python_error)?;
            let array = stream.upload(elements).map_err(python_error)?;
            drop(tensor);
            Ok((array, shape))
        }
        (DEVICE_CUDA, _) => {
            // The producer makes our stream wait for its current one.
            let tensor = tensor_of(argument, Some(stream.as_raw().as_raw()))?;
            let shape = tensor.shape().to_vec();
            let (after, keep) = (After::Stream(stream), |tensor| Kept(Some(tensor)));
            // SAFETY: the producer vouches for the memory until the deleter is called, and has
            // ordered its work before our stream.
            let array = unsafe { device.adopt_dlpack_with::<T, _>(tensor, after, keep) };
            Ok((array.map_err(python_error)?, shape))
        }
        other => Err(PyBufferError::new_err(format!(
            "the array is on a device of DLPack's type {}, which is neither the host nor CUDA",
            other.0
        ))),
    }
}
