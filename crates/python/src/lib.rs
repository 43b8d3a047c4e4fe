//! Arrays of Python's frameworks for functions of Millstream, and back, by DLPack.
//!
//! A crate with a PyO3 module takes arguments by [`import`] and returns an [`Array`]:
//!
//! | the argument is | what happens |
//! |---|---|
//! | on a GPU: PyTorch, CuPy, JAX, an [`Array`] | used where it is; its framework makes our stream wait for the caller's current stream |
//! | in the host's memory: NumPy, PyTorch | uploaded |
//!
//! The consumer of an [`Array`] (`torch.from_dlpack`, `numpy.from_dlpack`) names its stream, which
//! then waits for our work; on a simulated device the array is copied to the host's memory. No call
//! waits for a GPU.
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

pub use array::{Array, PythonElement};
pub use error::python_error;
pub use import::{import, open};
