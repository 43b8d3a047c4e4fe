//! Matrix products: by cuBLAS where it is there, and by kernels of our own, for every type of
//! number and any strides.
//!
//! cuBLAS computes products of two `f32` or `f64` matrices on a GPU if it is installed, and each
//! factor has rows or columns of contiguous elements, and the batch is one with even distances.
//! Everything else, vectors included, is computed by kernels of our own, and all of it on the
//! simulated device.
//!
//! # Accuracy
//!
//! Integers wrap around. An element of `f32` or `f64` differs from the exact sum of its `k`
//! products `a·b` by at most `r·u·Σ|a·b|`, up to terms in `u²`, where `u` is half the distance from
//! 1 to the next number (2⁻²⁴ or 2⁻⁵³). For our own kernels `r` is the lesser of `k` and
//! `128 + ⌈k / 128⌉`, and the order of the additions depends on the shape and the strides alone:
//! the same product is the same to the bit on every run and on every device. cuBLAS, which neither
//! rounds elements to TF32 nor computes them from narrower ones here, states no bound; `k` is that
//! of any order of the additions.

mod builtin;
mod cublas;
mod operand;

use std::panic::Location;

use millstream::{Buffer, Device, Result, Stream};

pub use operand::{Factor, ProductShape};

use crate::{Number, element::DType};
use operand::CheckedProduct;

/// Enqueues `out[z] = a[z] · b[z]` for each `z` of the batch, for elements of type `T`. `out` is
/// contiguous, row-major, with `batch × m × n` elements; it may be uninitialised. With `k = 0` it
/// becomes zeros.
///
/// # Errors
///
/// If an operand is on another device than the stream, there is no room for what is needed besides,
/// or the device is lost.
///
/// # Panics
///
/// If a factor's elements do not lie within its buffer, `out` has another size, or the batch has
/// more than four dimensions that no two strides put together.
#[doc(hidden)]
#[track_caller]
pub fn multiply<T: Number>(
    stream: &Stream,
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    enqueue(stream, T::DTYPE, shape, a, b, out, Location::caller())
}

/// [`multiply`] by kernels of our own, whatever else is there: to compare with.
///
/// # Errors
///
/// As [`multiply`].
///
/// # Panics
///
/// As [`multiply`].
#[doc(hidden)]
#[track_caller]
pub fn multiply_without_libraries<T: Number>(
    stream: &Stream,
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    match prepare(stream, T::DTYPE, shape, a, b, out)? {
        Some(operands) => builtin::enqueue(stream, T::DTYPE, operands, out, Location::caller()),
        None => Ok(()),
    }
}

/// Which cuBLAS multiplies on this device, and where it was found; nothing if none does. The first
/// question starts it.
#[doc(hidden)]
pub fn library(device: &Device) -> Option<String> {
    cublas::description(device)
}

/// [`multiply`] for elements of a type that is known at run time, which is not [`DType::Bool`], on
/// behalf of a line of the program.
pub(crate) fn enqueue(
    stream: &Stream,
    dtype: DType,
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Result<()> {
    let Some(operands) = prepare(stream, dtype, shape, a, b, out)? else {
        return Ok(());
    };
    // A product with a vector reads its matrix once: our own kernels are as fast as memory.
    if operands.m > 1
        && operands.n > 1
        && let Some(answer) = cublas::enqueue(stream, dtype, &operands, out, location)
    {
        return answer;
    }
    builtin::enqueue(stream, dtype, operands, out, location)
}

/// Checks the operands; does what there is to do already and gives nothing if nothing is to be
/// multiplied.
#[track_caller]
fn prepare<'a>(
    stream: &Stream,
    dtype: DType,
    shape: &ProductShape<'_>,
    a: &'a Factor<'a>,
    b: &'a Factor<'a>,
    out: &mut Buffer<u8>,
) -> Result<Option<CheckedProduct<'a>>> {
    let out_bytes = shape.out_len().checked_mul(dtype.bytes());
    assert_eq!(
        Some(out.len()),
        out_bytes,
        "bytes of a product of {shape:?}"
    );
    if out.is_empty() {
        return Ok(None);
    }
    if shape.k == 0 {
        stream.fill(out, 0)?;
        return Ok(None);
    }
    Ok(Some(CheckedProduct::new(dtype, shape, a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "bytes of a product")]
    fn an_output_of_another_size_is_refused() {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let buffer = stream.zeros(16).unwrap();
        let factor = Factor {
            buffer: &buffer,
            offset: 0,
            row_stride: 2,
            column_stride: 1,
            batch_strides: &[],
        };
        let shape = ProductShape {
            batch: &[],
            m: 2,
            k: 2,
            n: 2,
        };
        let mut out = stream.zeros(12).unwrap();
        let _ = multiply::<f32>(&stream, &shape, &factor, &factor, &mut out);
    }
}
