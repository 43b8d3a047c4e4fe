//! Arrays of Python's frameworks for functions of Millstream, and back, by DLPack or
//! `__cuda_array_interface__`.
//!
//! A crate with a PyO3 module takes arguments by [`import`], by [`import_to_read`] or, for a
//! region, by [`import_array`], and returns an [`Array`]:
//!
//! | the argument is | what happens |
//! |---|---|
//! | on a GPU, with DLPack: PyTorch, CuPy, JAX, an [`Array`] | used where it is; its framework makes our stream wait for the caller's current stream |
//! | on a GPU, with `__cuda_array_interface__` only: Numba, a [`LentArray`] | used where it is, behind the stream that it names |
//! | in the host's memory: NumPy, PyTorch, JAX | uploaded |
//!
//! The consumer of an [`Array`] (`torch.from_dlpack`, `numpy.from_dlpack`) names its stream, which
//! then waits for our work; on a simulated device the array is copied to the host's memory. No call
//! waits for a GPU. [`import_stream`] takes a stream of a framework by `__cuda_stream__`, and
//! [`Stream`] is one for a framework.
//!
//! Objects of Python that Millstream keeps are let go on a thread of Millstream, attached to the
//! interpreter, once all operations that need them are complete. Those that are left when the
//! interpreter ends are abandoned.
//!
//! ```no_run
//! use millstream_python::{Array, import, open, python_error};
//! use pyo3::prelude::*;
//!
//! /// Returns a copy of a vector of f32.
//! #[pyfunction]
//! fn copied(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Array> {
//!     let device = open(x)?;
//!     let stream = device.stream().map_err(python_error)?;
//!     let (x, shape) = import::<f32>(x, &stream)?;
//!     let copied = py.detach(|| {
//!         let mut copy = stream.zeros(x.len())?;
//!         stream.copy(&x, &mut copy)?;
//!         Ok(copy)
//!     });
//!     Ok(Array::new(&device, copied.map_err(python_error)?, shape))
//! }
//! ```

mod array;
mod capsule;
mod error;
mod import;
mod interface;
mod kept;
mod stream;

pub use array::{Array, LentArray, PythonElement};
pub use error::{python_error, region_error};
pub use import::{ReadOnly, import, import_array, import_to_read, open};
pub use stream::{Stream, import_stream};
