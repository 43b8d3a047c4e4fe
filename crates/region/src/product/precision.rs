//! The precision of matrix products.

use crate::element::DType;

/// The precision in which [`Array::dot_with`](crate::Array::dot_with) and
/// [`Array::matmul_with`](crate::Array::matmul_with) multiply matrices of `f32`. Elements of other
/// types are always multiplied in full.
///
/// ```
/// use millstream_region::{ProductPrecision, RegionExt};
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
/// let square = device.region(|g| {
///     let x = g.array(&x);
///     x.dot_with(&x, ProductPrecision::Tf32)
/// })?;
/// assert_eq!(square.wait()?, x.dot(&x));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProductPrecision {
    /// The precision of the elements, as of [`Array::dot`](crate::Array::dot).
    #[default]
    Full,
    /// TF32 on tensor cores, if cuBLAS computes the product on a GPU of compute capability 8.0 or
    /// later. Otherwise the full precision: on other GPUs and on the simulated device, without
    /// cuBLAS, and for vectors.
    ///
    /// Each element is rounded or truncated to a mantissa of 10 bits, by less than 2⁻¹⁰ of it, and
    /// products are added as `f32`. A result differs from the exact sum of its `k` products `a·b`
    /// by at most `(2⁻⁹ + 3·k·u)·Σ|a·b|` with `u` of 2⁻²⁴, up to products of these errors. The
    /// environment variable `NVIDIA_TF32_OVERRIDE` with the value 0 makes cuBLAS compute in full.
    Tf32,
}

impl ProductPrecision {
    /// Returns the precision in which elements of a type are multiplied if this one is asked for.
    pub(crate) fn of_elements(self, dtype: DType) -> Self {
        match dtype {
            DType::F32 => self,
            _ => Self::Full,
        }
    }
}
