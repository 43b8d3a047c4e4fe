//! What planning decides: the steps that materialise nodes, and the fused kernel or kernels of
//! each.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    graph::{NodeRef, Op},
    shape::{AxisMap, Shape},
};

/// Materialises one node.
pub(crate) struct Step {
    pub(crate) node: NodeRef,
    pub(crate) work: Work,
}

/// What it takes to materialise a node.
pub(crate) enum Work {
    /// Nothing: the elements are those of this node in memory, in the same order.
    Alias(NodeRef),
    /// These kernels, which write the node's elements one after the other.
    Kernels(Vec<FusedKernel>),
}

/// The nodes that one kernel calculates together, and where they begin and end.
///
/// This is decided once, by planning; generation, launching and the kernel cache go by it alone. It
/// holds the operations as they were then, so that it stays valid if another thread has one of the
/// nodes stored meanwhile.
pub(crate) struct FusedKernel {
    /// The node whose operation says which kind of kernel this is: a map, a reduction, a scan, a
    /// scatter or a matrix product. It is the last of `nodes`; if those are none, it is one of
    /// `inputs`, which is copied.
    pub(crate) root: NodeRef,
    /// What is calculated in the kernel up to the root, operands first.
    pub(crate) nodes: Vec<FusedNode>,
    /// What the kernel reads from memory, in the order in which it is first used.
    pub(crate) inputs: SmallVec<[NodeRef; 4]>,
    /// Where the results go.
    pub(crate) outputs: SmallVec<[KernelOutput; 1]>,
    /// What is calculated from the results of a reduction, behind it, operands first. A node may be
    /// here and in `nodes`.
    pub(crate) epilogue: Vec<FusedNode>,
}

/// A node that is calculated within a kernel.
pub(crate) struct FusedNode {
    pub(crate) node: NodeRef,
    /// How it was to be calculated when the kernel was planned.
    pub(crate) op: Arc<Op>,
}

/// Elements that a kernel writes.
pub(crate) struct KernelOutput {
    /// The node whose elements they are, calculated in the kernel or read by it.
    pub(crate) value: NodeRef,
    /// The node in whose memory they are written.
    pub(crate) target: NodeRef,
    /// Which of the target's elements they are; `None` for all, in order.
    pub(crate) target_map: Option<AxisMap>,
}

impl FusedKernel {
    /// How a node is calculated in this kernel; `None` if it is read from memory.
    pub(crate) fn op(&self, node: &NodeRef) -> Option<&Op> {
        let fused = self.epilogue.iter().chain(&self.nodes);
        let found = fused.rev().find(|fused| fused.node.id == node.id);
        found.map(|fused| &*fused.op)
    }

    /// What the kernel writes, where there is one output.
    pub(crate) fn output(&self) -> &KernelOutput {
        &self.outputs[0]
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        match self.op(&self.root) {
            Some(Op::Scatter { index, .. }) => index.elements == 0,
            _ => self.outputs.iter().all(|output| output.value.elements == 0),
        }
    }
}

impl KernelOutput {
    /// The shape of the array that is written, and which part of it; `None` for all.
    pub(crate) fn destination(&self) -> Option<(&Shape, &AxisMap)> {
        let part = self.target_map.as_ref()?;
        Some((&self.target.shape, part))
    }
}
