//! Launches of matrix products, with their epilogues.

use std::{panic::Location, sync::Arc};

use millstream::{Buffer, Stream};

use crate::{
    error::Result,
    expr::{NodeRef, Op, Session, Storage},
    plan::{FusedKernel, Strided},
    product::{self, Factor, ProductPrecision, ProductShape},
    run::{
        bound::BoundKernel,
        launch::{self, allocate},
    },
};

/// Enqueues the product of two factors, each stored or a view of a stored node, and its epilogue if
/// it has one.
pub(crate) fn enqueue(
    session: &Session,
    stream: &Stream,
    bound: BoundKernel<'_>,
    target: &mut Buffer<u8>,
) -> Result<()> {
    let kernel = bound.fused();
    let product = Product::of(&kernel);
    if kernel.epilogue.is_empty() {
        product.enqueue(stream, target)
    } else if product.uses_library(stream) {
        product.enqueue_before_epilogue(session, stream, bound.separate_epilogue(), target)
    } else {
        launch::enqueue(session, stream, bound, &mut [target])
    }
}

struct Product<'a> {
    root: &'a NodeRef,
    precision: ProductPrecision,
    shape: ProductShape<'a>,
    left: StoredFactor<'a>,
    right: StoredFactor<'a>,
}

/// A stored matrix or batch of matrices, or a view of one.
struct StoredFactor<'a> {
    storage: Arc<Storage>,
    strided: Strided<'a>,
}

impl<'a> Product<'a> {
    fn of(kernel: &'a FusedKernel) -> Self {
        let root = &kernel.root;
        let Some(Op::MatrixProduct(left, right, precision)) = kernel.op(root) else {
            unreachable!("the plan of the kernel says that it is a product");
        };
        Self {
            root,
            precision: *precision,
            shape: ProductShape::of(&root.shape, &left.shape),
            left: StoredFactor::of(kernel, left),
            right: StoredFactor::of(kernel, right),
        }
    }

    /// Returns whether cuBLAS computes the product.
    fn uses_library(&self, stream: &Stream) -> bool {
        let arithmetic = (self.root.dtype, self.precision);
        let (left, right) = (self.left.factor(), self.right.factor());
        product::uses_library(stream, arithmetic, &self.shape, &left, &right)
    }

    /// Enqueues the product without an epilogue.
    fn enqueue(&self, stream: &Stream, target: &mut Buffer<u8>) -> Result<()> {
        let node = self.root;
        let location: &'static Location<'static> = node.location;
        product::enqueue(
            stream,
            (node.dtype, self.precision),
            &self.shape,
            &self.left.factor(),
            &self.right.factor(),
            target,
            location,
        )?;
        Ok(())
    }

    /// Enqueues the product, and its epilogue as a kernel of its own, which reads the product from
    /// memory.
    fn enqueue_before_epilogue(
        &self,
        session: &Session,
        stream: &Stream,
        epilogue: BoundKernel<'_>,
        target: &mut Buffer<u8>,
    ) -> Result<()> {
        let node = self.root;
        let mut buffer = allocate(stream, node.bytes())?;
        self.enqueue(stream, &mut buffer)?;
        let checks = session.deferred_checks([&*self.left.storage, &*self.right.storage])?;
        node.store(Arc::new(Storage { buffer, checks }));
        launch::enqueue(session, stream, epilogue, &mut [target])
    }
}

impl<'a> StoredFactor<'a> {
    /// Returns the memory and the strides of a factor: its own, or those of the node that it views.
    fn of(kernel: &'a FusedKernel, node: &'a NodeRef) -> Self {
        let strided = kernel.strided(node);
        Self {
            storage: strided
                .source
                .storage()
                .expect("factors are enqueued before their product"),
            strided,
        }
    }

    fn factor(&self) -> Factor<'_> {
        let strides = self.strided.factor();
        Factor {
            buffer: &self.storage.buffer,
            offset: strides.offset,
            row_stride: strides.row,
            column_stride: strides.column,
            batch_strides: strides.batch,
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Array2};

    use super::*;
    use crate::{
        Array, Region,
        plan::HeldNodes,
        run::plans::{Recalled, recall},
    };

    /// Without a GPU, the built-in kernels take the place of cuBLAS.
    #[test]
    fn an_epilogue_after_its_product_has_the_bits_of_one_in_the_kernel_of_the_product() {
        let region = Region::new(Device::simulated().unwrap());
        let session = region.session();
        let stream = session.device.stream().unwrap();
        let host = Array2::from_shape_fn((9, 9), |(row, column)| (row * 5 + column) as f32 / 7.0);
        let x: Array<f32, _> = region.array(&host);
        let bias: Array<f32, _> = region.array(&Array1::from_iter((0..9).map(|n| n as f32 - 40.0)));
        let root = (x.dot(&x.t()) + &bias).relu().cast::<f64>();
        let Recalled { graph, plan, .. } = recall(&[NodeRef::clone(root.node())], u64::MAX);
        let nodes = HeldNodes::of(graph);
        let bound = BoundKernel {
            kernel: &plan.steps[0].kernels[0],
            nodes: &nodes,
            plan: &plan,
        };
        let bytes = root.node().bytes();
        let mut results = [(); 2].map(|()| allocate(&stream, bytes).unwrap());
        let [together, apart] = &mut results;
        launch::enqueue(session, &stream, bound, &mut [together]).unwrap();
        assert!(bound.root().storage().is_none());
        let kernel = bound.fused();
        let epilogue = bound.separate_epilogue();
        Product::of(&kernel)
            .enqueue_before_epilogue(session, &stream, epilogue, apart)
            .unwrap();
        assert!(bound.root().storage().is_some());
        let [together, apart] = results.map(|result| stream.download(&result).unwrap());
        let (together, apart): (Vec<u8>, Vec<u8>) =
            (together.wait().unwrap(), apart.wait().unwrap());
        assert_eq!(together, apart);
        let zeros = together
            .chunks(8)
            .filter(|element| **element == [0; 8])
            .count();
        assert!((1..81).contains(&zeros), "{zeros} results are cut off");
    }
}
