//! Updates of a part of an array: in the memory of the array if nothing else needs its elements,
//! else by a copy.
//!
//! Whether something else needs them is known only when the update is enqueued, after everything
//! that was recorded before it. A step therefore has the kernels of both ways, and counts its own
//! references to the array: if there are no others, no one can read the old elements afterwards.

use rustc_hash::FxHashSet;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        kernel::FusedNode,
        planned::PlannedGraph,
        step::{KernelPlan, Replacement},
    },
    shape::{AxisMap, are_disjoint, is_identity},
};

/// Returns the replacement by a kernel that writes the part of a base with this index map, or
/// scatters, into memory that holds the base. Returns `None` if the kernel would read an element of
/// the base that another of its threads writes; a scatter, which has no map, must not read the
/// base.
pub(crate) fn in_place(
    graph: &PlannedGraph,
    base: &NodeRef,
    map: Option<&AxisMap>,
    mut kernel: KernelPlan,
) -> Option<Box<Replacement>> {
    if graph.node(kernel.root).id == base.id {
        return None;
    }
    let written = &graph.node(kernel.outputs[0].value).shape;
    // The nodes that depend on elements that are written.
    let mut dependent: FxHashSet<u64> = FxHashSet::default();
    let reads_in_place = kernel.nodes.iter().all(|&number| {
        let FusedNode { node, op } = &graph.nodes[number as usize];
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
    });
    let base = graph.number(base);
    // The kernel reads the elements in the memory that it writes.
    kernel.inputs.retain(|input| *input != base);
    kernel.overwrites = Some(base);
    reads_in_place.then(|| Box::new(Replacement { base, kernel }))
}
