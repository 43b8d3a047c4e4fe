//! A package for Python with one kernel of Millstream.

#![allow(unsafe_code, reason = "vouches for the signature of a kernel")]

use millstream_python::{Array, import, open, python_error};
use pyo3::{exceptions::PyValueError, prelude::*};

millstream::kernels! {
    // SAFETY: the signature is that of kernels/vecadd.cu. With these clauses each access lies
    // within its array, and no two threads write one element.
    unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n,
                grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
    }
}

/// Returns the sum of two arrays of float32 of the same shape.
#[pyfunction]
fn add(py: Python<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Array> {
    let device = open(a)?;
    let stream = device.stream().map_err(python_error)?;
    let (a, shape) = import::<f32>(a, &stream)?;
    let (b, other) = import::<f32>(b, &stream)?;
    if shape != other {
        let reason = format!("the shapes are {shape:?} and {other:?}; they must be equal");
        return Err(PyValueError::new_err(reason));
    }
    let sum = py.detach(|| {
        let n = a.len();
        let mut sum = stream.zeros(n)?;
        sums::load(&device)?.vecadd(&stream, n.max(1), &a, &b, &mut sum, n as u64)?;
        Ok(sum)
    });
    Ok(Array::new(&device, sum.map_err(python_error)?, shape))
}

/// The module.
#[pymodule]
fn millstream_example(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Array>()?;
    module.add_function(wrap_pyfunction!(add, module)?)
}
