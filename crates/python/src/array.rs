//! `Array`: a result, which its consumer takes over by DLPack or `__cuda_array_interface__`.

#![allow(unsafe_code, reason = "adopts the streams of consumers")]

use std::{
    any::Any,
    sync::{Mutex, PoisonError},
};

use millstream::{
    Buffer, Device, Error, Stream,
    driver::StreamHandle,
    interop::dlpack::{DEVICE_CPU, DEVICE_CUDA, DlDataType, Element, ManagedTensor},
};
use ndarray::Dimension;
use pyo3::{exceptions::PyBufferError, prelude::*, types::PyDict};

use crate::{capsule, import_stream, interface, python_error, region_error};

/// An element type of [`Array`]s.
pub trait PythonElement: Element {
    /// Wraps an array of this type.
    #[doc(hidden)]
    fn wrap(array: Buffer<Self>) -> AnyBuffer;
}

macro_rules! elements {
    ($($variant:ident: $element:ty;)+) => {
        /// An array of one of the element types.
        #[doc(hidden)]
        #[derive(Debug)]
        pub enum AnyBuffer {
            $(
                #[allow(missing_docs, reason = "named after the type")]
                $variant(Buffer<$element>),
            )+
        }

        $(impl PythonElement for $element {
            fn wrap(array: Buffer<Self>) -> AnyBuffer {
                AnyBuffer::$variant(array)
            }
        })+

        impl AnyBuffer {
            /// Makes a tensor in the host's memory. Waits for the device.
            fn to_host(
                &self,
                device: &Device,
                (shape, versioned): (&[i64], bool),
            ) -> Result<ManagedTensor, Error> {
                let stream = device.stream()?;
                match self {$(
                    Self::$variant(array) => {
                        let values = stream.download(array)?.wait()?;
                        match versioned {
                            true => ManagedTensor::versioned_on_host(values, shape),
                            false => ManagedTensor::unversioned_on_host(values, shape),
                        }
                    }
                )+}
            }

            /// Moves the array to a consumer that works on this stream.
            fn lend(self, theirs: &Stream) -> Result<Moved, Error> {
                match self {$(
                    Self::$variant(array) => {
                        let lease = array.into_lease(theirs)?;
                        Ok(Moved {
                            pointer: lease.as_raw().as_raw(),
                            kind: <$element as Element>::TYPE,
                            _lease: Mutex::new(Box::new(lease)),
                        })
                    }
                )+}
            }

            /// Makes a tensor for a consumer that works on this stream.
            fn into_tensor(
                self,
                theirs: &Stream,
                (shape, versioned): (&[i64], bool),
            ) -> Result<ManagedTensor, Error> {
                match self {$(
                    Self::$variant(array) => {
                        let exported = array.into_dlpack(theirs)?;
                        match versioned {
                            true => ManagedTensor::versioned(exported, shape),
                            false => ManagedTensor::unversioned(exported, shape),
                        }
                    }
                )+}
            }
        }
    };
}

elements! {
    I32: i32;
    I64: i64;
    U8: u8;
    F32: f32;
    F64: f64;
}

/// An array that was moved to a consumer's stream. Its drop frees the memory behind what the stream
/// holds then.
#[derive(Debug)]
struct Moved {
    pointer: u64,
    kind: DlDataType,
    _lease: Mutex<Box<dyn Any + Send>>,
}

/// A result of a function, which its consumer takes over, once: `torch.from_dlpack(array)`.
///
/// A consumer without DLPack takes it by `__cuda_array_interface__`, on a stream that it names:
/// `array.on(stream)`. On a simulated device `numpy.from_dlpack(array)` copies it to the host's
/// memory, any number of times.
#[pyclass(frozen, module = "millstream")]
#[derive(Debug)]
pub struct Array {
    /// `None` once a consumer has it.
    array: Mutex<Option<AnyBuffer>>,
    shape: Vec<i64>,
    device: Device,
}

impl Array {
    /// Wraps an array. The shape's lengths, multiplied, are its length.
    #[must_use]
    pub fn new<T: PythonElement>(device: &Device, array: Buffer<T>, shape: Vec<i64>) -> Self {
        Self {
            array: Mutex::new(Some(T::wrap(array))),
            shape,
            device: device.clone(),
        }
    }

    /// Wraps an array of a region.
    ///
    /// # Errors
    ///
    /// As [`millstream_region::Array::into_buffer`].
    pub fn of_region<T, D>(array: millstream_region::Array<T, D>) -> PyResult<Self>
    where
        T: PythonElement + millstream_region::Element,
        D: Dimension,
    {
        let device = array.device().clone();
        let shape = array.shape().iter().map(|&length| length as i64).collect();
        let buffer = array.into_buffer().map_err(region_error)?;
        Ok(Self::new(&device, buffer, shape))
    }
}

#[pymethods]
impl Array {
    /// The length of each dimension.
    #[getter]
    fn shape(&self) -> Vec<i64> {
        self.shape.clone()
    }

    /// The type of device and its number, as DLPack has them.
    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.device.is_simulated() {
            true => (DEVICE_CPU, 0),
            false => (DEVICE_CUDA, self.device.ordinal()),
        }
    }

    /// Hands the array over: the later work of `stream` waits for ours.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = self.__dlpack_device__();
        if dl_device.is_some_and(|device| device != own)
            || (copy == Some(true) && own.0 == DEVICE_CUDA)
        {
            return Err(PyBufferError::new_err(
                "the array is handed over where it is, without a copy",
            ));
        }
        let form = (
            &self.shape[..],
            max_version.is_some_and(|(major, _)| major >= 1),
        );
        let tensor = py.detach(|| match own.0 {
            DEVICE_CPU => self.to_host(form),
            _ => self.hand_over(stream, form),
        })?;
        capsule::wrap(py, tensor)
    }

    /// Hands the array over to the later work of `stream`, an object with `__cuda_stream__`. The
    /// result has `__cuda_array_interface__`, as in `cupy.asarray(array.on(stream))`. When its
    /// consumer lets it go, the memory is reused behind what the stream holds then.
    fn on(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<LentArray> {
        let theirs = import_stream(stream, &self.device)?;
        let moved = py.detach(|| self.take()?.lend(&theirs).map_err(python_error))?;
        Ok(LentArray {
            moved,
            shape: self.shape.clone(),
            stream: theirs,
        })
    }
}

/// An array that was handed over to a stream, for consumers that know `__cuda_array_interface__`.
#[pyclass(frozen, module = "millstream")]
#[derive(Debug)]
pub struct LentArray {
    moved: Moved,
    shape: Vec<i64>,
    stream: Stream,
}

#[pymethods]
impl LentArray {
    /// The memory, and the stream that the array was handed over to.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let memory = (self.moved.pointer, self.moved.kind);
        interface::describe(py, memory, &self.shape, &self.stream)
    }
}

impl Array {
    fn to_host(&self, form: (&[i64], bool)) -> PyResult<ManagedTensor> {
        let array = self.array.lock().unwrap_or_else(PoisonError::into_inner);
        let array = array.as_ref().ok_or_else(used_up)?;
        array.to_host(&self.device, form).map_err(python_error)
    }

    fn hand_over(&self, stream: Option<i64>, form: (&[i64], bool)) -> PyResult<ManagedTensor> {
        // None, 0, 1 and 2 are CUDA's default streams, and -1 asks for no order.
        let raw = stream
            .and_then(|raw| usize::try_from(raw).ok())
            .filter(|&raw| raw > 2);
        let raw = raw.ok_or_else(|| {
            PyBufferError::new_err(
                "the consumer works on a default stream of CUDA: call it on a stream of its own, \
                 as in `with torch.cuda.stream(torch.cuda.Stream()):`",
            )
        })?;
        // SAFETY: the consumer vouches for its stream. Streams of PyTorch and CuPy's current stream
        // outlive the arrays that are used on them.
        let theirs = unsafe { self.device.adopt_stream(StreamHandle::from_raw(raw), ()) };
        let theirs = theirs.map_err(python_error)?;
        self.take()?
            .into_tensor(&theirs, form)
            .map_err(python_error)
    }

    fn take(&self) -> PyResult<AnyBuffer> {
        let mut array = self.array.lock().unwrap_or_else(PoisonError::into_inner);
        array.take().ok_or_else(used_up)
    }
}

fn used_up() -> PyErr {
    PyBufferError::new_err("the array was handed over before")
}
