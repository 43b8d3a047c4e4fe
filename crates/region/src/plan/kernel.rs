//! Fused kernels.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op, Reduction},
    plan::rows::RowShape,
    shape::{AxisMap, Shape, are_disjoint, contiguous_offset, dense_strides, last_axis},
};

/// A group of nodes that one kernel computes, with its inputs, its root and its outputs.
///
/// Planning builds it once; code generation, launches and the kernel cache use nothing else. It
/// holds the operations as planned, so that it stays valid if another thread stores one of the
/// nodes meanwhile.
pub(crate) struct FusedKernel {
    /// The node whose operation determines the kind of kernel: a map, a reduction, a scan, a
    /// scatter or a matrix product; if there are several such nodes, the last. It is one of
    /// `nodes`; if there are none, the kernel copies the root, which is one of `inputs`.
    pub(crate) root: NodeRef,
    /// The nodes computed in the kernel up to the root, or up to all roots, operands first.
    pub(crate) nodes: Vec<FusedNode>,
    /// The nodes read from memory, in the order of their first use.
    pub(crate) inputs: SmallVec<[NodeRef; 4]>,
    /// The destinations of the results.
    pub(crate) outputs: SmallVec<[KernelOutput; 1]>,
    /// The nodes computed from the results of reductions or of a product, operands first. A node
    /// may be here and in `nodes`.
    pub(crate) epilogue: Vec<FusedNode>,
    /// The node whose elements are in the memory of the output, and are read there.
    pub(crate) overwrites: Option<u64>,
    /// The rows of a row kernel, whose nodes contain reductions.
    pub(crate) rows: Option<RowShape>,
    /// The nodes that a stencil reads, of one shape: each block computes the elements that it needs
    /// in shared memory.
    pub(crate) tiled: SmallVec<[NodeRef; 1]>,
    /// True if each output has blocks of its own, so that their shapes may differ. Where the parts
    /// of the target that they write overlap, the last output has the elements.
    pub(crate) is_sectioned: bool,
}

/// A node that is computed within a kernel.
#[derive(Clone)]
pub(crate) struct FusedNode {
    pub(crate) node: NodeRef,
    /// The operation of the node at the time of planning.
    pub(crate) op: Arc<Op>,
}

/// A destination of computed elements.
pub(crate) struct KernelOutput {
    /// The node whose elements are written; the kernel computes or reads it.
    pub(crate) value: NodeRef,
    /// The node whose memory is written.
    pub(crate) target: NodeRef,
    /// The number of the target among those of the kernel.
    pub(crate) slot: usize,
    /// The index map from the value to elements of the target; `None` for all elements, in order.
    pub(crate) target_map: Option<AxisMap>,
}

impl FusedKernel {
    /// Returns the operation that computes a node in this kernel, or `None` if the kernel reads it
    /// from memory.
    pub(crate) fn op(&self, node: &NodeRef) -> Option<&Op> {
        let fused = self.epilogue.iter().chain(&self.nodes);
        let node_op = fused.rev().find(|fused| fused.node.id == node.id);
        node_op.map(|fused| &*fused.op)
    }

    /// Returns the array in memory that has the elements of a node, in the same order.
    pub(crate) fn array_with_elements_of<'a>(&'a self, node: &'a NodeRef) -> Option<&'a NodeRef> {
        match self.op(node) {
            None => Some(node),
            Some(op) => self.array_with_elements_of(op.same_elements(&node.shape)?),
        }
    }

    /// Returns the arrays that element-wise operations read to compute nodes, at the positions of
    /// these nodes. Loads of them can precede the functions that are called for other elements.
    pub(crate) fn arrays_of<'a>(
        &'a self,
        nodes: impl Iterator<Item = &'a NodeRef>,
    ) -> SmallVec<[&'a NodeRef; 4]> {
        let reached = self.reached_from(nodes).into_iter();
        reached.filter(|node| self.op(node).is_none()).collect()
    }

    /// Returns nodes and those that element-wise operations compute or read for them, at the same
    /// positions.
    pub(crate) fn reached_from<'a>(
        &'a self,
        nodes: impl Iterator<Item = &'a NodeRef>,
    ) -> SmallVec<[&'a NodeRef; 16]> {
        let mut seen: SmallVec<[&NodeRef; 16]> = nodes.collect();
        let mut next = 0;
        while let Some(&node) = seen.get(next) {
            next += 1;
            if let Some(Op::Apply(_, operands)) = self.op(node) {
                for operand in operands {
                    if seen.iter().all(|other| other.id != operand.id) {
                        seen.push(operand);
                    }
                }
            }
        }
        seen
    }

    /// Returns the nodes whose elements are written.
    pub(crate) fn values(&self) -> impl Iterator<Item = &NodeRef> {
        self.outputs.iter().map(|output| &output.value)
    }

    /// Returns the reductions up to the root, without those that a thread computes for one of their
    /// elements: the node, the kind, and the reduced array of each.
    pub(crate) fn reductions(&self) -> impl Iterator<Item = (&NodeRef, Reduction, &NodeRef)> {
        let reduced = self.reduced_elements();
        let all = self.all_reductions();
        all.filter(move |(.., source)| Some(source.elements) == reduced)
    }

    fn all_reductions(&self) -> impl Iterator<Item = (&NodeRef, Reduction, &NodeRef)> {
        self.nodes.iter().filter_map(|fused| match &*fused.op {
            Op::Reduce {
                reduction, source, ..
            } => Some((&fused.node, *reduction, source)),
            _ => None,
        })
    }

    /// Returns the number of elements of the arrays that the kernel reduces. A nested reduction
    /// reduces more, because each of those elements is a result of it.
    fn reduced_elements(&self) -> Option<usize> {
        match (self.rows, self.op(&self.root)) {
            (Some(rows), _) => Some(rows.rows * rows.length),
            (None, Some(Op::Reduce { source, .. })) => Some(source.elements),
            _ => None,
        }
    }

    /// Returns whether a thread reduces some elements for one of the elements of the kernel.
    pub(crate) fn has_nested_reductions(&self) -> bool {
        self.all_reductions().count() > self.reductions().count()
    }

    pub(crate) fn output(&self) -> &KernelOutput {
        &self.outputs[0]
    }

    /// Returns the number of arrays that the kernel writes, which may be less than that of outputs.
    pub(crate) fn targets(&self) -> usize {
        let slots = self.outputs.iter().map(|output| output.slot);
        slots.max().map_or(0, |last| last + 1)
    }

    /// Returns the later outputs that write some of the elements of an output.
    pub(crate) fn later_overlapping(&self, output: usize) -> impl Iterator<Item = usize> {
        let own = &self.outputs[output];
        (output + 1..self.outputs.len()).filter(move |&later| {
            let later = &self.outputs[later];
            let (Some((_, one)), Some((_, other))) = (own.destination(), later.destination())
            else {
                return true;
            };
            !are_disjoint((one, &own.value.shape), (other, &later.value.shape))
        })
    }

    /// Returns whether each output is all elements of its target, in order.
    pub(crate) fn is_whole(&self) -> bool {
        (self.outputs.iter()).all(|output| output.target_map.is_none())
    }
}

impl KernelOutput {
    /// Returns the shape of the target and the index map into it; `None` if all of the target is
    /// written in order.
    pub(crate) fn destination(&self) -> Option<(&Shape, &AxisMap)> {
        let part = self.target_map.as_ref()?;
        Some((&self.target.shape, part))
    }

    /// Returns the linear index in the target of the value's first element, if those of the others
    /// follow in order.
    pub(crate) fn contiguous_offset(&self) -> Option<usize> {
        match self.destination() {
            None => Some(0),
            Some((shape, map)) => contiguous_offset(&self.value.shape, map, shape),
        }
    }

    /// Returns whether as many neighbours along the last axis of the value, the first at a multiple
    /// of their number, are so in the target, too.
    pub(crate) fn keeps_neighbours(&self, lanes: usize) -> bool {
        let Some((shape, map)) = self.destination() else {
            return true;
        };
        let along = last_axis(&self.value.shape);
        let mut axes = map.iter().zip(dense_strides(shape));
        axes.all(|(from, stride)| match from.axis {
            Some(axis) if Some(axis) == along && self.value.shape[axis] != 1 => {
                from.step == 1 && stride == 1 && from.start.is_multiple_of(lanes)
            }
            Some(axis) if self.value.shape[axis] != 1 => stride.is_multiple_of(lanes),
            _ => (from.start * stride).is_multiple_of(lanes),
        })
    }
}
