//! The sizes and strides of matrix products, reduced to a canonical form.

use smallvec::SmallVec;

use crate::product::operand::ProductShape;

/// The maximum number of batch dimensions of the kernels.
pub(crate) const BATCH_DIMS: usize = 4;

/// The strides of a matrix or batch of matrices in an array, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides<B> {
    /// The position of the first element.
    pub(crate) offset: usize,
    pub(crate) row: isize,
    pub(crate) column: isize,
    /// The distance from a matrix to the next along each dimension of the batch.
    pub(crate) batch: B,
}

pub(crate) type FactorStrides<'a> = Strides<&'a [isize]>;

/// The strides of a factor with the dimensions of [`ProductLayout::batch`].
pub(crate) type FactorLayout = Strides<[isize; BATCH_DIMS]>;

/// The sizes of a product and the strides of its factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductLayout {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    /// The sizes of the batch's dimensions, outermost first, padded with 1 at the front.
    pub(crate) batch: [usize; BATCH_DIMS],
    pub(crate) a: FactorLayout,
    pub(crate) b: FactorLayout,
}

impl ProductLayout {
    /// Merges the dimensions of the batch.
    #[track_caller]
    pub(crate) fn new(
        shape: &ProductShape<'_>,
        a: FactorStrides<'_>,
        b: FactorStrides<'_>,
    ) -> Self {
        let &ProductShape { batch, m, k, n } = shape;
        let dims = merge_dims(batch, a.batch, b.batch);
        assert!(
            dims.len() <= BATCH_DIMS,
            "a batch of products has more than {BATCH_DIMS} dimensions after merging: {dims:?}"
        );
        let front = BATCH_DIMS - dims.len();
        let factor = |factor: FactorStrides<'_>, of: fn(&BatchDim) -> isize| FactorLayout {
            offset: factor.offset,
            row: factor.row,
            column: factor.column,
            batch: std::array::from_fn(|at| at.checked_sub(front).map_or(0, |at| of(&dims[at]))),
        };
        Self {
            m,
            k,
            n,
            batch: std::array::from_fn(|at| at.checked_sub(front).map_or(1, |at| dims[at].size)),
            a: factor(a, |dim| dim.a),
            b: factor(b, |dim| dim.b),
        }
    }

    /// Returns the transposed product, `outᵀ = bᵀ · aᵀ`. Its `out` is the same in memory if the
    /// product has one row or one column.
    pub(crate) fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            ..self
        }
    }

    /// Returns whether a factor is a vector. Such a product reads its matrix once, so that the
    /// built-in kernels are limited by memory bandwidth like those of cuBLAS.
    pub(crate) fn is_of_vector(&self) -> bool {
        self.m == 1 || self.n == 1
    }

    pub(crate) fn batches(&self) -> usize {
        self.batch.iter().product()
    }

    pub(crate) fn elements(&self) -> usize {
        self.batches() * self.m * self.n
    }
}

impl FactorLayout {
    fn transposed(self) -> Self {
        Self {
            row: self.column,
            column: self.row,
            ..self
        }
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
    let all = batch.iter().zip(a.iter().zip(b));
    for (&size, (&a, &b)) in all.filter(|(size, _)| **size != 1) {
        let goes_on = |outer: isize, inner: isize| {
            let length = isize::try_from(size).ok();
            length.and_then(|length| inner.checked_mul(length)) == Some(outer)
        };
        match dims.last_mut() {
            Some(outer) if goes_on(outer.a, a) && goes_on(outer.b, b) => {
                let size = outer.size * size;
                *outer = BatchDim { size, a, b };
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
}
