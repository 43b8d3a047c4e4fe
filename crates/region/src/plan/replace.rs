//! Updates of a part of an array: in the memory of the array if nothing else needs its elements,
//! else by a copy.
//!
//! Whether something else needs them is known only when the update is enqueued, after everything
//! that was recorded before it. A step therefore has the kernels of both ways, and counts its own
//! references to the array: if there are no others, no one can read the old elements afterwards.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        kernel::FusedNode,
        planned::PlannedGraph,
        step::{KernelPlan, OutputPlan, Replacement},
    },
    shape::{AxisMap, Shape, are_disjoint, is_identity},
};

/// The index map and the shape of a view of the elements that an output replaces.
pub(crate) type Slice<'a> = (&'a AxisMap, &'a Shape);

/// Returns the replacement by a kernel that writes slices of a base, or scatters, into memory that
/// holds the base. Returns `None` if the kernel would read an element of the base that another of
/// its threads writes; a scatter, whose output is no slice, must not read the base.
pub(crate) fn in_place(
    graph: &PlannedGraph,
    base: &NodeRef,
    replaced: SmallVec<[u32; 2]>,
    mut kernel: KernelPlan,
) -> Option<Box<Replacement>> {
    let value = |output: &OutputPlan| graph.node(output.value);
    let reads_in_place = kernel.outputs.iter().enumerate().all(|(number, output)| {
        let others = kernel.outputs.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        let slices = others.filter_map(|(_, other)| Some((other.target_map.as_ref()?, other)));
        let slices: SmallVec<[Slice<'_>; 2]> = slices
            .map(|(map, other)| (map, &value(other).shape))
            .collect();
        let own = output.target_map.as_ref();
        let nodes = nodes_of(graph, &kernel, output.value);
        value(output).id != base.id
            && reads_in_place(
                base,
                nodes
                    .into_iter()
                    .map(|FusedNode { node, op }| (node, &**op)),
                own.map(|map| (map, &value(output).shape)),
                &slices,
            )
    });
    let base = graph.number(base);
    // The kernel reads the elements in the memory that it writes.
    kernel.inputs.retain(|input| *input != base);
    kernel.overwrites = Some(base);
    reads_in_place.then(|| {
        Box::new(Replacement {
            base,
            replaced,
            kernel,
        })
    })
}

/// Returns the nodes of a kernel that lead to a value, operands first.
fn nodes_of<'a>(
    graph: &'a PlannedGraph,
    kernel: &KernelPlan,
    value: u32,
) -> SmallVec<[&'a FusedNode; 16]> {
    let mut needed: FxHashSet<u64> = FxHashSet::default();
    needed.insert(graph.node(value).id);
    let nodes = kernel.nodes.iter().rev();
    let nodes = nodes.map(|&number| &graph.nodes[number as usize]);
    let mut nodes: SmallVec<[&FusedNode; 16]> = nodes
        .filter(|FusedNode { node, op }| {
            let is_needed = needed.contains(&node.id);
            if is_needed {
                op.operands(|operand| {
                    needed.insert(operand.id);
                });
            }
            is_needed
        })
        .collect();
    nodes.reverse();
    nodes
}

/// Returns whether threads that compute these nodes, operands first, and write the own slice of a
/// base read no element that others write. Where slices overlap, a thread that does not write its
/// element does not read it either.
pub(crate) fn reads_in_place<'a>(
    base: &NodeRef,
    mut nodes: impl Iterator<Item = (&'a NodeRef, &'a Op)>,
    own: Option<Slice<'_>>,
    others: &[Slice<'_>],
) -> bool {
    // The nodes that depend on elements that are written.
    let mut dependent: FxHashSet<u64> = FxHashSet::default();
    nodes.all(|(node, op)| {
        let (mut reads, mut depends) = (false, false);
        op.operands(|operand| {
            reads |= operand.id == base.id;
            depends |= dependent.contains(&operand.id);
        });
        let is_safe = match (op, own) {
            _ if !reads && !depends => return true,
            // The scatter itself.
            (Op::Scatter { .. }, _) => !depends,
            (Op::View(_, seen), Some((map, shape))) if reads => {
                let mut slices = others.iter().copied().chain([(map, shape)]);
                if slices.all(|(map, shape)| are_disjoint((seen, &node.shape), (map, shape))) {
                    return true;
                }
                seen == map && node.shape == *shape
            }
            // All operands are read at the index that is written.
            (Op::Apply(..), Some((map, _))) => !reads || is_identity(map, &node.shape, &base.shape),
            _ => false,
        };
        dependent.insert(node.id);
        is_safe
    })
}
