//! Operands of matrix products, checked against their buffers and reduced to a canonical form.

use millstream::{Buffer, View, driver::DevicePtr};
use smallvec::SmallVec;

use crate::element::DType;

/// The maximum number of batch dimensions of the kernels.
pub(super) const BATCH_DIMS: usize = 4;

/// The sizes of a matrix product or of a batch of products.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ProductShape<'a> {
    /// The sizes of the batch's dimensions, outermost first; empty for a single product.
    pub batch: &'a [usize],
    /// The number of rows of the first factor and of the product.
    pub m: usize,
    /// The number of columns of the first factor and of rows of the second.
    pub k: usize,
    /// The number of columns of the second factor and of the product.
    pub n: usize,
}

impl ProductShape<'_> {
    /// Returns the number of elements of the product.
    pub(super) fn out_len(&self) -> usize {
        let sizes = self.batch.iter().chain([&self.m, &self.n]);
        if sizes.clone().any(|&size| size == 0) {
            return 0;
        }
        sizes.fold(1, |len: usize, &size| len.saturating_mul(size))
    }
}

/// A factor of a product: a strided matrix or batch of matrices in an array. Strides count elements
/// and may be negative or 0.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Factor<'a> {
    /// The array that contains the elements.
    pub buffer: &'a Buffer<u8>,
    /// The position of the first element of the first matrix, in elements.
    pub offset: usize,
    /// The distance from an element to the one below it.
    pub row_stride: isize,
    /// The distance from an element to the one to its right.
    pub column_stride: isize,
    /// The distance from a matrix to the next along each dimension of the batch.
    pub batch_strides: &'a [isize],
}

impl Factor<'_> {
    /// Returns the address of the first element.
    fn address(&self, dtype: DType) -> DevicePtr {
        self.buffer
            .as_raw()
            .offset((self.offset * dtype.bytes()) as u64)
    }

    /// Returns the smallest view of the array that contains all elements, and the position of the
    /// first element in it.
    fn used_range(
        &self,
        dtype: DType,
        batch: &[usize],
        rows: usize,
        columns: usize,
    ) -> (View<'_, u8>, usize) {
        assert_eq!(
            batch.len(),
            self.batch_strides.len(),
            "a factor has one stride per dimension of the batch"
        );
        let dims = batch.iter().zip(self.batch_strides);
        let dims = dims.chain([(&rows, &self.row_stride), (&columns, &self.column_stride)]);
        let (mut first, mut last) = (self.offset as i128, self.offset as i128);
        for (&size, &stride) in dims {
            // With absurdly large sizes, the sum saturates and is rejected below.
            let span = (size as i128 - 1).saturating_mul(stride as i128);
            if span < 0 {
                first = first.saturating_add(span);
            } else {
                last = last.saturating_add(span);
            }
        }
        let len = self.buffer.len() / dtype.bytes();
        assert!(
            first >= 0 && last < len as i128,
            "a factor spans elements {first} to {last} of an array of {len}"
        );
        let (first, last) = (first as usize, last as usize);
        let bytes = first * dtype.bytes()..(last + 1) * dtype.bytes();
        (self.buffer.slice(bytes), self.offset - first)
    }
}

/// A factor within its buffer: the view with its elements, the position of the first element, and
/// the strides.
#[derive(Debug)]
pub(super) struct CheckedFactor<'a> {
    pub(super) view: View<'a, u8>,
    pub(super) offset: usize,
    /// The address of the first element.
    pub(super) address: DevicePtr,
    pub(super) row: isize,
    pub(super) column: isize,
    /// The batch strides, in the order of [`CheckedProduct::batch`].
    pub(super) batch: [isize; BATCH_DIMS],
}

impl CheckedFactor<'_> {
    /// Returns the transposed factor.
    pub(super) fn transposed(self) -> Self {
        Self {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}

/// A non-empty product whose factors lie within their arrays.
#[derive(Debug)]
pub(super) struct CheckedProduct<'a> {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    /// The sizes of the batch's dimensions, outermost first, padded with 1 at the front.
    pub(super) batch: [usize; BATCH_DIMS],
    pub(super) a: CheckedFactor<'a>,
    pub(super) b: CheckedFactor<'a>,
}

impl<'a> CheckedProduct<'a> {
    /// Checks the factors of a product with at least one element and a `k` of at least 1.
    #[track_caller]
    pub(super) fn new(
        dtype: DType,
        shape: &ProductShape<'_>,
        a: &'a Factor<'a>,
        b: &'a Factor<'a>,
    ) -> Self {
        let &ProductShape { batch, m, k, n } = shape;
        let (a_view, a_offset) = a.used_range(dtype, batch, m, k);
        let (b_view, b_offset) = b.used_range(dtype, batch, k, n);
        let dims = merge_dims(batch, a.batch_strides, b.batch_strides);
        assert!(
            dims.len() <= BATCH_DIMS,
            "a batch of products has more than {BATCH_DIMS} dimensions after merging: {dims:?}"
        );
        let front = BATCH_DIMS - dims.len();
        let column = |of: fn(&BatchDim) -> isize| {
            std::array::from_fn(|at| at.checked_sub(front).map_or(0, |at| of(&dims[at])))
        };
        Self {
            m,
            k,
            n,
            batch: std::array::from_fn(|at| at.checked_sub(front).map_or(1, |at| dims[at].size)),
            a: CheckedFactor {
                view: a_view,
                offset: a_offset,
                address: a.address(dtype),
                row: a.row_stride,
                column: a.column_stride,
                batch: column(|dim| dim.a),
            },
            b: CheckedFactor {
                view: b_view,
                offset: b_offset,
                address: b.address(dtype),
                row: b.row_stride,
                column: b.column_stride,
                batch: column(|dim| dim.b),
            },
        }
    }

    /// Returns the transposed product, `outᵀ = bᵀ · aᵀ`. Its `out` is the same in memory if the
    /// product has one row or one column.
    pub(super) fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            ..self
        }
    }

    /// Returns the number of matrices in the batch.
    pub(super) fn batches(&self) -> usize {
        self.batch.iter().product()
    }
}

/// One dimension of a batch, with the strides of both factors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BatchDim {
    size: usize,
    a: isize,
    b: isize,
}

/// Returns the batch's dimensions without those of size 1, with neighbouring dimensions merged
/// where both factors continue with the same stride.
fn merge_dims(batch: &[usize], a: &[isize], b: &[isize]) -> SmallVec<[BatchDim; BATCH_DIMS]> {
    let mut dims: SmallVec<[BatchDim; BATCH_DIMS]> = SmallVec::new();
    for ((&size, &a), &b) in batch
        .iter()
        .zip(a)
        .zip(b)
        .filter(|((size, _), _)| **size != 1)
    {
        let goes_on = |outer: isize, inner: isize| {
            isize::try_from(size)
                .ok()
                .and_then(|size| inner.checked_mul(size))
                == Some(outer)
        };
        match dims.last_mut() {
            Some(outer) if goes_on(outer.a, a) && goes_on(outer.b, b) => {
                *outer = BatchDim {
                    size: outer.size * size,
                    a,
                    b,
                };
            }
            _ => dims.push(BatchDim { size, a, b }),
        }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_with_joint_strides_are_merged() {
        let dim = |size, a, b| BatchDim { size, a, b };
        assert_eq!(merge_dims(&[], &[], &[])[..], []);
        assert_eq!(merge_dims(&[1, 1], &[7, 9], &[0, 3])[..], []);
        assert_eq!(merge_dims(&[2, 3], &[30, 10], &[0, 0])[..], [dim(6, 10, 0)]);
        assert_eq!(
            merge_dims(&[2, 1, 3], &[-30, 5, -10], &[3, 5, 1])[..],
            [dim(6, -10, 1)]
        );
        assert_eq!(
            merge_dims(&[2, 3], &[30, 10], &[0, 4])[..],
            [dim(2, 30, 0), dim(3, 10, 4)]
        );
    }

    #[test]
    #[should_panic(expected = "a factor spans elements 0 to 6 of an array of 6")]
    fn a_factor_beyond_its_array_is_rejected() {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let buffer = stream.zeros(24).unwrap();
        let factor = Factor {
            buffer: &buffer,
            offset: 0,
            row_stride: 4,
            column_stride: 1,
            batch_strides: &[],
        };
        factor.used_range(DType::F32, &[], 2, 3);
    }

    #[test]
    fn negative_strides_reach_backwards() {
        let stream = millstream::Device::simulated().unwrap().stream().unwrap();
        let buffer = stream.zeros(100).unwrap();
        let factor = Factor {
            buffer: &buffer,
            offset: 20,
            row_stride: -5,
            column_stride: 1,
            batch_strides: &[0],
        };
        let (view, offset) = factor.used_range(DType::F32, &[9], 4, 3);
        assert_eq!((view.len(), offset), (4 * (20 + 2 - 5 + 1), 15));
    }
}
