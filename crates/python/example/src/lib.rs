//! A package for Python with a kernel and two regions of Millstream.

#![allow(unsafe_code, reason = "vouches for the signature of a kernel")]

use millstream::Device;
use millstream_python::{
    Array, LentArray, Stream, import_array, import_stream, import_to_read, open, python_error,
    region_error,
};
use ndarray::{Ix1, Ix2};
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

/// The regions.
mod regions {
    use millstream_region::{Array, region};
    use ndarray::{Array1, Array2, Axis, Ix2};

    /// The probability of each class for each row of `x`, as in the example `digits`.
    #[region]
    pub(super) fn probabilities(
        x: &Array2<f32>,
        weights: &Array2<f32>,
        bias: &Array1<f32>,
    ) -> Array<f32, Ix2> {
        let odds = (x.dot(weights) + bias).exp();
        &odds / &odds.sum_axis(Axis(1)).insert_axis(Axis(1))
    }

    /// The gradient by the logarithms of the odds, from that by the probabilities.
    #[region]
    pub(super) fn odds_gradient(
        probabilities: &Array2<f32>,
        gradient: &Array2<f32>,
    ) -> Array<f32, Ix2> {
        let weighted = probabilities * gradient;
        let sum = weighted.sum_axis(Axis(1)).insert_axis(Axis(1));
        &weighted - &(probabilities * &sum)
    }
}

/// Returns the sum of two arrays of float32 of the same shape, computed on a stream of its own or
/// on one of the caller's.
#[pyfunction]
#[pyo3(signature = (a, b, *, stream=None))]
fn add(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyResult<Array> {
    let device = open(a)?;
    let stream = match stream {
        Some(theirs) => import_stream(theirs, &device)?,
        None => own_stream(&device)?,
    };
    let (a, shape) = import_to_read::<f32>(a, &stream)?;
    let (b, other) = import_to_read::<f32>(b, &stream)?;
    if shape != other {
        let reason = format!("the shapes are {shape:?} and {other:?}; they must be equal");
        return Err(PyValueError::new_err(reason));
    }
    let sum = py.detach(|| {
        let n = a.len();
        let mut sum = stream.zeros(n)?;
        sums::load(&device)?.vecadd(&stream, n.max(1), &*a, &*b, &mut sum, n as u64)?;
        Ok(sum)
    });
    Ok(Array::new(&device, sum.map_err(python_error)?, shape))
}

fn own_stream(device: &Device) -> PyResult<millstream::Stream> {
    device.stream().map_err(python_error)
}

/// Returns the probability of each class for each row of `x`: the softmax of `x @ weights + bias`.
#[pyfunction]
fn probabilities(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    bias: &Bound<'_, PyAny>,
) -> PyResult<Array> {
    let device = open(x)?;
    let stream = own_stream(&device)?;
    let x = import_array::<f32, Ix2>(x, &stream)?;
    let weights = import_array::<f32, Ix2>(weights, &stream)?;
    let bias = import_array::<f32, Ix1>(bias, &stream)?;
    py.detach(|| regions::probabilities(&device, &x, &weights, &bias)?.wait())
        .map_err(region_error)
        .and_then(Array::of_region)
}

/// Returns the gradient by `x @ weights + bias`, from that by the probabilities.
#[pyfunction]
fn odds_gradient(
    py: Python<'_>,
    probabilities: &Bound<'_, PyAny>,
    gradient: &Bound<'_, PyAny>,
) -> PyResult<Array> {
    let device = open(probabilities)?;
    let stream = own_stream(&device)?;
    let probabilities = import_array::<f32, Ix2>(probabilities, &stream)?;
    let gradient = import_array::<f32, Ix2>(gradient, &stream)?;
    py.detach(|| regions::odds_gradient(&device, &probabilities, &gradient)?.wait())
        .map_err(region_error)
        .and_then(Array::of_region)
}

/// Creates a stream on the GPU of an array.
#[pyfunction]
fn stream(array: &Bound<'_, PyAny>) -> PyResult<Stream> {
    Stream::new(&open(array)?)
}

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Array>()?;
    module.add_class::<LentArray>()?;
    module.add_class::<Stream>()?;
    module.add_function(wrap_pyfunction!(add, module)?)?;
    module.add_function(wrap_pyfunction!(probabilities, module)?)?;
    module.add_function(wrap_pyfunction!(odds_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(stream, module)?)
}
