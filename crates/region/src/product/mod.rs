//! Matrix products, by cuBLAS where it is available and by built-in kernels otherwise.
//!
//! cuBLAS computes a product if it is installed, the device is a GPU, the elements are `f32`,
//! `f64`, `f16` or `bf16` (`bf16` from compute capability 8.0 on), neither factor is a vector, each
//! factor has contiguous rows or columns, and the batch, once merged, has a single non-negative
//! stride. The built-in kernels compute all other products, and all products on the simulated
//! device. They take any strides, and every numeric type except integers of 16 bits. Of `f16` and
//! `bf16` they use tensor cores where the device has those of compute capability 8.0 or later, both
//! factors have at least 64 rows or columns beside `k`, and their lines begin at multiples of 16
//! bytes. If such a product has an epilogue and a `k` of 16, 24 and so on to 256, it is not left to
//! cuBLAS on GPUs of compute capability 9.0, because one kernel is faster than two. There its
//! elements have the bits of cuBLAS's, as measured; a test compares them
//! (docs/measurements/2026-11-28-products-of-halves.md).
//!
//! A built-in kernel also computes element-wise functions of the product, its epilogue: the code
//! generator puts them in the place of the stores of elements (`emit/product.rs`). An element of
//! `f16` or `bf16` is rounded before. cuBLAS's products have their epilogue in a kernel of its own.
//!
//! # Accuracy
//! Integers wrap around. An element of `f32` or `f64` differs from the exact sum of its `k`
//! products `a·b` by at most `r·u·Σ|a·b|`, up to terms in `u²`, where `u` is half the distance from
//! 1 to the next number (2⁻²⁴ or 2⁻⁵³). For the built-in kernels, `r` is the lesser of `k` and `128
//! + ⌈k / 128⌉`. The order of their additions depends on the shape and the strides alone: a product
//! has the same bits on every run and on every device, but those on tensor cores only on devices
//! whose tensor cores round alike: GPUs of compute capability 9.0 and the simulated device. cuBLAS
//! states no bound: `r` is `k`, the bound of any order of the additions. It rounds elements to TF32
//! only for [`ProductPrecision::Tf32`], and never emulates them by narrower types.
//!
//! The products of `f16` and `bf16` are exact in `f32`, within its range. Their sum has the bounds
//! above, with the `u` of `f32`, and is then rounded to the type once. Tensor cores align at least
//! four products and the sum so far to the largest of them, truncate them at its last bit, and
//! truncate the result. Each truncation has an error of up to `2u`, where a rounding has `u`: there
//! `r` is at most `3·k`, additions of partial sums included. NVIDIA documents no bound; this one
//! follows from published measurements of the tensor cores of V100, T4, A100 and H100
//! (docs/measurements/2026-11-28-matrix-products.md has ours of an H100). cuBLAS is configured to
//! make all additions in `f32`, those of partial sums
//! included. It adds products in TF32 in the same way.

mod builtin; // launches of the built-in kernels
mod cublas; // products by cuBLAS
mod launch_plan; // the choice of the built-in kernel, its grid, and the split of `k`
mod layout; // sizes and strides in a canonical form
mod operand; // factors, checked against their arrays
mod precision; // the precision of products of `f32`
mod source; // the text of the built-in kernels

use std::panic::Location;

use millstream::{Buffer, Device, Result, Stream};

pub(crate) use launch_plan::{
    BLOCKS_MAX, BuiltinKernel, LaunchPlan, RawShape, THREADS, capability, part_bytes,
};
pub(crate) use layout::{FactorStrides, ProductLayout};
pub use operand::{Factor, ProductShape};
pub use precision::ProductPrecision;
pub(crate) use source::{scalar, signature, slice, source};

use crate::{Number, element::DType};
use operand::CheckedProduct;

/// Enqueues `out[z] = a[z] · b[z]` for each `z` of the batch, for elements of type `T`. `out` is
/// row-major and contiguous, with `batch × m × n` elements; it may be uninitialised. With `k = 0`
/// it becomes zeros.
///
/// # Errors
///
/// If an operand and the stream are on different devices, memory for temporaries runs out, or the
/// device is lost.
///
/// # Panics
///
/// If a factor's elements do not lie within its buffer, `out` has a wrong size, or more than four
/// dimensions of the batch remain after merging those with joint strides.
#[doc(hidden)]
#[track_caller]
pub fn multiply<T: Number>(
    stream: &Stream,
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
) -> Result<()> {
    let arithmetic = (T::DTYPE, ProductPrecision::Full);
    enqueue(stream, arithmetic, shape, a, b, out, Location::caller())
}

/// Multiplies as [`multiply`], by the built-in kernels alone, for comparison with cuBLAS.
///
/// # Errors
///
/// The errors of [`multiply`].
///
/// # Panics
///
/// The panics of [`multiply`].
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

/// Returns the version and the path of the cuBLAS that multiplies on this device, or `None` without
/// cuBLAS. The first call initialises it.
#[doc(hidden)]
pub fn library(device: &Device) -> Option<String> {
    cublas::description(device)
}

/// Multiplies as [`multiply`], for elements of a type known at run time, except [`DType::Bool`],
/// and for the operation at `location`.
pub(crate) fn enqueue(
    stream: &Stream,
    (dtype, precision): (DType, ProductPrecision),
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
    out: &mut Buffer<u8>,
    location: &'static Location<'static>,
) -> Result<()> {
    let Some(operands) = prepare(stream, dtype, shape, a, b, out)? else {
        return Ok(());
    };
    if !operands.layout.is_of_vector()
        && let Some(answer) = cublas::enqueue(stream, (dtype, precision), &operands, out, location)
    {
        return answer;
    }
    builtin::enqueue(stream, dtype, operands, out, location)
}

/// Returns whether cuBLAS computes a product with at least one element that has an epilogue.
pub(crate) fn uses_library(
    stream: &Stream,
    (dtype, precision): (DType, ProductPrecision),
    shape: &ProductShape<'_>,
    a: &Factor<'_>,
    b: &Factor<'_>,
) -> bool {
    shape.k > 0 && {
        let operands = CheckedProduct::new(dtype, shape, a, b);
        !operands.layout.is_of_vector()
            && !operands.is_for_epilogue(dtype, &stream.device())
            && cublas::serves(stream, (dtype, precision), &operands)
    }
}

/// Checks the operands. Returns `None` if `out` is empty, or if `k` is 0, in which case `out` is
/// filled with zeros.
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
        "bytes of the output of a product of {shape:?}"
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
    #[should_panic(expected = "bytes of the output of a product")]
    fn an_output_of_the_wrong_size_is_rejected() {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let buffer = stream.zeros(16).unwrap();
        let factor = Factor {
            buffer: &buffer,
            offset: 0,
            row_stride: 2,
            column_stride: 1,
            batch_strides: &[],
        };
        let shape = ProductShape::of(&[2, 2], &[2, 2]);
        let mut out = stream.zeros(12).unwrap();
        let _ = multiply::<f32>(&stream, &shape, &factor, &factor, &mut out);
    }
}
