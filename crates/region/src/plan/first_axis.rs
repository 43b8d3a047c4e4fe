//! Graphs of rows whose plan is that of any number of rows.
//!
//! Programs call a softmax, a normalisation and the like for batches of many sizes. In their graphs
//! no operation does anything with the first axis: every computed node has it, with the same length
//! `n`, and only the arrays that the graph reads may lack it. Planning compares numbers of
//! elements:
//!
//! - of two computed nodes, whose ratio is that of the other axes. Only constants, which are never
//!   stored, have fewer axes.
//! - of an input and a computed node. The key has the rank of the input's number among those of the
//!   computed nodes.
//! - of a row with bounds. The key has all lengths but `n`. Long rows, which are planned by their
//!   number, are excluded, and so are stencils, whose tiles cover the first axis, too.
//!
//! `n` is at least 2, and indices have 32 bits.
//!
//! The code of such a kernel serves other lengths `n`, too, if no operation checks an index against
//! `n`: code generation compares lengths with each other, with bounds, and with 1, and a launch
//! takes lengths of first axes and numbers of rows from its own nodes. The schedule must be the
//! same, and have threads for each row. That excludes rows that several blocks share, and rows that
//! do not fit in registers.
//!
//! Keys mark the lengths of first axes that are `n`, also those of inputs, and have all others. An
//! input that has the length `n` along another axis, or a step or start that follows from `n`,
//! therefore gives each `n` a key of its own.

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        kernel::{FusedKernel, FusedNode},
        limits::ROW_LENGTH_MAX,
        planned::PlannedGraph,
        uniform::{ELEMENTS_32_MAX, is_broadcast},
    },
};

/// Returns the length of the first axis of all computed nodes, if the plan is that of others.
pub(crate) fn first_axis_of(graph: &PlannedGraph) -> Option<usize> {
    let length = *graph.nodes.last()?.node.shape.first()?;
    let is_small = |node: &NodeRef| node.elements <= ELEMENTS_32_MAX;
    let is_computed = |node: &NodeRef| graph.planned_number(node).is_some();
    let is_first = |node: &NodeRef| node.shape.first() == Some(&length);
    let is_of_rows = |FusedNode { node, op }: &FusedNode| {
        let is_planned_alike = match &**op {
            Op::Constant(_) => return true,
            Op::MatrixProduct(left, ..) => return is_first(node) && is_first(left),
            Op::Reduce { source, .. } => {
                source.elements <= node.elements.saturating_mul(ROW_LENGTH_MAX)
            }
            Op::View(source, map) => {
                !is_computed(source) || is_broadcast(&node.shape, map, &source.shape)
            }
            _ => true,
        };
        is_planned_alike && is_first(node) && keeps_first_axis(op, length)
    };
    let is_free = length >= 2
        && graph.inputs.iter().all(is_small)
        && (graph.nodes.iter()).all(|fused| is_small(&fused.node) && is_of_rows(fused));
    is_free.then_some(length)
}

/// Returns the length of the first axis of a kernel, if its code is that of others with an equal
/// schedule that has threads for each row.
pub(crate) fn first_axis_of_kernel(kernel: &FusedKernel) -> Option<usize> {
    let length = *kernel.root.shape.first()?;
    let computed = || kernel.nodes.iter().chain(&kernel.epilogue);
    let is_of_rows = |FusedNode { node, op }: &FusedNode| {
        keeps_first_axis(op, length) && (node.elements == 1 || node.shape.first() == Some(&length))
    };
    let mut outputs = kernel.outputs.iter();
    let nodes = computed().map(|fused| &fused.node).chain(&kernel.inputs);
    let targets = kernel.outputs.iter().map(|output| &output.target);
    let is_free = length >= 2
        && kernel.overwrites.is_none()
        && kernel.tiled.is_empty()
        && outputs.all(|output| output.target_map.is_none())
        && (nodes.chain(targets)).all(|node| node.elements <= ELEMENTS_32_MAX)
        && computed().all(is_of_rows);
    is_free.then_some(length)
}

/// Returns whether an operation does nothing with a first axis of this length.
fn keeps_first_axis(op: &Op, length: usize) -> bool {
    let is_first = |node: &NodeRef| node.shape.first() == Some(&length);
    match op {
        Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::View(..) => true,
        Op::Reshape(source) => is_first(source),
        Op::Reduce { source, axes, .. } => !axes.contains(&0) && is_first(source),
        Op::Gather { source, axis, .. } => *axis != 0 || !is_first(source),
        _ => false,
    }
}

/// Returns the rank of each input's number of elements among the numbers of the computed nodes:
/// twice as many as are less, and 1 if one is equal.
pub(crate) fn ranks(graph: &PlannedGraph) -> impl Iterator<Item = u64> {
    let mut sizes: SmallVec<[usize; 16]> = SmallVec::new();
    sizes.extend(graph.nodes.iter().map(|fused| fused.node.elements));
    sizes.sort_unstable();
    sizes.dedup();
    graph
        .inputs
        .iter()
        .map(move |input| match sizes.binary_search(&input.elements) {
            Ok(less) => 2 * less as u64 + 1,
            Err(less) => 2 * less as u64,
        })
}
