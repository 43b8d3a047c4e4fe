//! Arrays in memory as kernels read them through strides: factors of products, operands of
//! attention.

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::kernel::FusedKernel,
    product::FactorStrides,
    shape::{AxisMap, AxisSource, RANK_MAX, dense_strides},
};

/// An array in memory, or a view of one: its strides in the memory of a stored node, in elements.
pub(crate) struct Strided<'a> {
    pub(crate) source: &'a NodeRef,
    /// The position of the first element.
    pub(crate) offset: usize,
    /// The distance of neighbours along each axis.
    pub(crate) strides: SmallVec<[isize; RANK_MAX]>,
}

impl Strided<'_> {
    pub(crate) fn factor(&self) -> FactorStrides<'_> {
        let (batch, matrix) = self.strides.split_at(self.strides.len() - 2);
        FactorStrides {
            offset: self.offset,
            row: matrix[0],
            column: matrix[1],
            batch,
        }
    }
}

impl FusedKernel {
    /// Returns the strides of an operand that is an input or a view of one.
    pub(crate) fn strided<'a>(&'a self, node: &'a NodeRef) -> Strided<'a> {
        let whole: AxisMap;
        let (source, map) = match self.op(node) {
            Some(Op::View(source, map)) => (source, map),
            _ => {
                whole = (0..node.shape.len()).map(AxisSource::same).collect();
                (node, &whole)
            }
        };
        let dense = dense_strides(&source.shape);
        let mut offset = 0;
        let mut strides: SmallVec<[isize; RANK_MAX]> = SmallVec::from_elem(0, node.shape.len());
        for (from, &stride) in map.iter().zip(&dense) {
            offset += from.start * stride;
            if let Some(axis) = from.axis {
                strides[axis] += from.step * stride as isize;
            }
        }
        Strided {
            source,
            offset,
            strides,
        }
    }
}
