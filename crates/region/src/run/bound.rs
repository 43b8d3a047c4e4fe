//! Kernels of plans with the nodes of a graph.

use crate::{
    element::Scalar,
    expr::{NodeRef, Op},
    plan::{FusedKernel, HeldNodes, KernelPlan},
    run::plans::Plan,
};

/// A kernel of a plan with the nodes of a graph.
///
/// Making a [`FusedKernel`] of it takes longer than its launch, which needs only inputs, constants
/// and outputs if the code is known.
#[derive(Clone, Copy)]
pub(crate) struct BoundKernel<'a> {
    pub(crate) kernel: &'a KernelPlan,
    pub(crate) nodes: &'a HeldNodes,
    pub(crate) plan: &'a Plan,
}

impl<'a> BoundKernel<'a> {
    pub(crate) fn inputs(self) -> impl Iterator<Item = &'a NodeRef> {
        let inputs = self.kernel.inputs.iter();
        inputs.map(move |&number| self.nodes.node(number))
    }

    /// Returns the node whose operation determines the kind of kernel.
    pub(crate) fn root(self) -> &'a NodeRef {
        self.nodes.node(self.kernel.root)
    }

    pub(crate) fn node(self, number: usize) -> &'a NodeRef {
        self.nodes.node(self.kernel.node(number))
    }

    pub(crate) fn constant(self, number: usize) -> Scalar {
        match **self.nodes.op(self.kernel.node(number)) {
            Op::Constant(value) => value,
            _ => unreachable!("kernels of one key have constants at the same numbers"),
        }
    }

    pub(crate) fn fused(self) -> FusedKernel {
        self.kernel.fused(self.nodes)
    }

    /// Returns the kernel of the epilogue alone, which reads the product from memory.
    pub(crate) fn separate_epilogue(self) -> Self {
        let epilogue = self.kernel.separate_epilogue.as_deref();
        Self {
            kernel: epilogue.expect("the kernel is a product with an epilogue"),
            ..self
        }
    }
}
