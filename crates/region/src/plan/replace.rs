//! Updates of a part of an array: in the memory of the array if nothing else needs its elements,
//! else by a copy.
//!
//! Whether something else needs them is known only when the update is enqueued, after everything
//! that was recorded before it. A step therefore has the kernels of both ways, and counts its own
//! references to the array: if there are no others, no one can read the old elements afterwards.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::{
    expr::{NodeRef, Op},
    plan::kernel::{FusedKernel, FusedNode},
    shape::{AxisMap, are_disjoint, is_identity},
};

/// The replacement of a part of the elements of a stored node.
pub(crate) struct Replacement {
    /// The node whose elements are replaced.
    pub(crate) base: NodeRef,
    /// The operation: an update or a scatter.
    op: Arc<Op>,
    /// The kernel that writes the part into memory that holds the base.
    pub(crate) in_place: FusedKernel,
    /// The kernels that write all elements into other memory, run in this order.
    pub(crate) copying: Vec<FusedKernel>,
}

impl Replacement {
    /// Returns the replacement, or only the kernels that copy, if `in_place` would read elements of
    /// the base that it writes elsewhere.
    pub(crate) fn new(
        op: &Arc<Op>,
        in_place: Option<FusedKernel>,
        copying: Vec<FusedKernel>,
    ) -> Result<Self, Vec<FusedKernel>> {
        let (base, map) = match &**op {
            Op::Update { base, map, .. } => (base, Some(map)),
            Op::Scatter { base, .. } => (base, None),
            _ => return Err(copying),
        };
        let Some(mut in_place) = in_place.filter(|kernel| reads_in_place(kernel, base, map)) else {
            return Err(copying);
        };
        // The kernel reads the elements in the memory that it writes.
        in_place.inputs.retain(|input| input.id != base.id);
        in_place.overwrites = Some(base.id);
        Ok(Self {
            base: NodeRef::clone(base),
            op: Arc::clone(op),
            in_place,
            copying,
        })
    }

    /// Returns the number of references to the base that this step holds, if no other node or array
    /// can lead to them.
    pub(crate) fn only_references(&self) -> Option<usize> {
        let mut dependent: FxHashSet<u64> = FxHashSet::default();
        dependent.insert(self.base.id);
        for FusedNode { node, op } in &self.in_place.nodes {
            let mut depends = false;
            op.operands(|operand| depends |= dependent.contains(&operand.id));
            // A scatter is in its kernel, but no longer leads to the base once it is enqueued.
            if !depends || Arc::ptr_eq(op, &self.op) {
                continue;
            }
            dependent.insert(node.id);
            if Arc::strong_count(node) != self.references(node.id) {
                return None;
            }
        }
        Some(self.references(self.base.id))
    }

    /// Returns the number of references to a node that this step holds, directly or through an
    /// operation.
    fn references(&self, id: u64) -> usize {
        let mut count = usize::from(self.base.id == id);
        let mut refers = |node: &NodeRef| count += usize::from(node.id == id);
        let mut ops: Vec<*const Op> = vec![Arc::as_ptr(&self.op)];
        self.op.operands(&mut refers);
        for kernel in std::iter::once(&self.in_place).chain(&self.copying) {
            refers(&kernel.root);
            kernel.inputs.iter().for_each(&mut refers);
            for output in &kernel.outputs {
                refers(&output.value);
                refers(&output.target);
            }
            for FusedNode { node, op } in kernel.nodes.iter().chain(&kernel.epilogue) {
                refers(node);
                if !ops.contains(&Arc::as_ptr(op)) {
                    ops.push(Arc::as_ptr(op));
                    op.operands(&mut refers);
                }
            }
        }
        count
    }
}

/// Returns whether a kernel reads no element of the base that another of its threads writes. It
/// writes the part with this index map; a scatter, which has none, must not read the base.
fn reads_in_place(kernel: &FusedKernel, base: &NodeRef, map: Option<&AxisMap>) -> bool {
    if kernel.root.id == base.id {
        return false;
    }
    let written = &kernel.output().value.shape;
    // The nodes that depend on elements that are written.
    let mut dependent: FxHashSet<u64> = FxHashSet::default();
    kernel.nodes.iter().all(|FusedNode { node, op }| {
        let (mut reads, mut depends) = (false, false);
        op.operands(|operand| {
            reads |= operand.id == base.id;
            depends |= dependent.contains(&operand.id);
        });
        let is_safe = match (&**op, map) {
            _ if !reads && !depends => return true,
            // The scatter itself.
            (Op::Scatter { .. }, _) => !depends,
            (Op::View(_, seen), Some(map)) if reads => {
                if are_disjoint((seen, &node.shape), (map, written)) {
                    return true;
                }
                seen == map && node.shape == *written
            }
            // All operands are read at the index that is written.
            (Op::Apply(..), Some(map)) => !reads || is_identity(map, &node.shape, &base.shape),
            _ => false,
        };
        dependent.insert(node.id);
        is_safe
    })
}
