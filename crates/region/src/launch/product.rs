//! Launches of matrix products, whose kernels are not generated.

use std::sync::Arc;

use millstream::{Buffer, Stream};
use smallvec::SmallVec;

use crate::{
    error::Result,
    fuse::{FusedKernel, Strided},
    graph::{NodeRef, Storage},
    product::{self, ProductPrecision},
    shape::{RANK_MAX, Shape},
};

/// Enqueues the product of two factors, each stored or a view of a stored node.
pub(super) fn enqueue(
    stream: &Stream,
    kernel: &FusedKernel,
    (left, right): (&NodeRef, &NodeRef),
    precision: ProductPrecision,
    target: &mut Buffer<u8>,
) -> Result<()> {
    let node = &kernel.root;
    let (left, right) = (
        StridedFactor::of(kernel, left),
        StridedFactor::of(kernel, right),
    );
    let rank = node.shape.len();
    let (batch, matrix) = node.shape.split_at(rank - 2);
    let shape = product::ProductShape {
        batch,
        m: matrix[0],
        k: left.shape[rank - 1],
        n: matrix[1],
    };
    let factors = (left.factor(), right.factor());
    product::enqueue(
        stream,
        (node.dtype, precision),
        &shape,
        &factors.0,
        &factors.1,
        target,
        node.location,
    )?;
    Ok(())
}

/// A stored matrix or batch of matrices, with its strides.
struct StridedFactor {
    storage: Arc<Storage>,
    shape: Shape,
    offset: usize,
    strides: SmallVec<[isize; RANK_MAX]>,
}

impl StridedFactor {
    /// Returns the memory and the strides of a factor: its own, or those of the node that it views.
    fn of(kernel: &FusedKernel, node: &NodeRef) -> Self {
        let Strided {
            source,
            offset,
            strides,
        } = kernel.strided(node);
        Self {
            storage: source
                .storage()
                .expect("factors are enqueued before their product"),
            shape: node.shape.clone(),
            offset,
            strides,
        }
    }

    fn factor(&self) -> product::Factor<'_> {
        let (batch, matrix) = self.strides.split_at(self.strides.len() - 2);
        product::Factor {
            buffer: &self.storage.buffer,
            offset: self.offset,
            row_stride: matrix[0],
            column_stride: matrix[1],
            batch_strides: batch,
        }
    }
}
