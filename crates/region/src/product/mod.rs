//! Matrix products: by kernels of our own, for every type of number and operands with any strides.
//!
//! # Accuracy
//!
//! Integers wrap around. An element of `f32` or `f64` differs from the exact sum of its `k` products `a·b` by at most
//! `r·u·Σ|a·b|`, up to terms in `u²`, where `u` is half the distance from 1 to the next number (2⁻²⁴ or 2⁻⁵³), and `r` is the
//! lesser of `k` and `128 + ⌈k / 128⌉`. The order of the additions depends on the shape and the strides alone, so the same
//! product is the same to the bit on every run and on every device.

mod operand;
mod own;

use millstream::{Buffer, Result, Stream};

pub use operand::{Factor, Shape};

use crate::{Number, element::DType};

/// Enqueues `out[z] = a[z] · b[z]` for each `z` of the batch, for elements of type `T`. `out` is contiguous, row-major, with
/// `batch × m × n` elements; it may be uninitialised. With `k = 0` it becomes zeros.
///
/// # Errors
///
/// If an operand is on another device than the stream, there is no room for what is needed besides, or the device is lost.
///
/// # Panics
///
/// If a factor's elements do not lie within its buffer, `out` has another size, or the batch has more than four
/// dimensions that no two strides put together.
#[doc(hidden)]
#[track_caller]
pub fn multiply<T: Number>(
    stream: &Stream,
    shape: &Shape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    enqueue(stream, T::DTYPE, shape, a, b, out)
}

/// [`multiply`] for elements of a type that is known at run time, which is not [`DType::Bool`].
#[track_caller]
pub(crate) fn enqueue(
    stream: &Stream,
    dtype: DType,
    shape: &Shape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    let out_bytes = shape.out_len().checked_mul(dtype.bytes());
    assert_eq!(Some(out.len()), out_bytes, "bytes of a product of {shape:?}");
    if out.is_empty() {
        return Ok(());
    }
    if shape.k == 0 {
        return stream.fill(out, 0);
    }
    let operands = operand::Operands::new(dtype, shape, a, b);
    own::enqueue(stream, dtype, operands, out)
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
        let shape = Shape {
            batch: &[],
            m: 2,
            k: 2,
            n: 2,
        };
        let mut out = stream.zeros(12).unwrap();
        let _ = multiply::<f32>(&stream, &shape, &factor, &factor, &mut out);
    }
}
