//! Epilogues: element-wise functions that the kernel of a reduction or a matrix product computes
//! from its results, instead of storing them.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op},
    plan::{
        candidate::{Candidate, computed_with},
        limits::PRODUCT_OPERATIONS_MAX,
    },
};

/// Fuses stored element-wise nodes into the kernels of the nodes that a function finds for them:
/// [`reduction_to_fuse`] or [`product_to_fuse`]. A node that one kernel computes together with
/// others stays in that kernel, which reads their common inputs once.
pub(crate) fn fuse_epilogues(
    candidates: &mut [Candidate],
    source_of: fn(&[Candidate], usize) -> Option<usize>,
) {
    for at in 0..candidates.len() {
        let candidate = &candidates[at];
        if candidate.is_stored
            && candidate.rows.is_none()
            && candidate.epilogue_of.is_none()
            && candidate.group.is_none()
            && candidate.tiled.is_empty()
            && matches!(&*candidate.op, Op::Apply(..))
            && let Some(source) = source_of(candidates, at)
        {
            candidates[source].is_stored = false;
            candidates[at].epilogue_of = Some(source);
        }
    }
}

/// Returns whether the kernel of a stored node may leave it to the epilogue that computes `root`:
/// nothing else needs the node, and it has as many elements.
fn is_only_for(candidate: &Candidate, root: &NodeRef) -> bool {
    !candidate.is_requested()
        && candidate.only_consumer() == Some(root.id)
        && candidate.node.elements == root.elements
}

/// Returns the reduction whose kernel can compute `root` in its epilogue: the only reduction that
/// `root` depends on, used by nothing else, with each result at the linear index of the element
/// computed from it.
pub(crate) fn reduction_to_fuse(candidates: &[Candidate], root: usize) -> Option<usize> {
    let computed = computed_with(candidates, root);
    let users = computed.iter().map(|&at| &candidates[at]);
    let operands = users.flat_map(Candidate::candidate_operands);
    let mut stored = operands.filter(|&at| candidates[at].is_stored);
    let first = stored.next()?;
    let is_possible = stored.all(|at| at == first)
        && matches!(&*candidates[first].op, Op::Reduce { .. })
        && is_only_for(&candidates[first], &candidates[root].node)
        && computed.iter().all(|&at| is_at_one_index(candidates, at));
    is_possible.then_some(first)
}

/// Returns whether a kernel computes a candidate from operands at the same linear index, or from a
/// constant, as the epilogue of a reduction must.
pub(crate) fn is_at_one_index(candidates: &[Candidate], at: usize) -> bool {
    let candidate = &candidates[at];
    match &*candidate.op {
        Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::Reshape(_) => true,
        Op::View(..) => {
            let source_op = candidate.operand(0).map(|source| &*candidates[source].op);
            matches!(source_op, Some(Op::Constant(_))) || candidate.same_elements().is_some()
        }
        // The parts have the indices.
        Op::Concatenate { .. } => candidate.is_split,
        _ => false,
    }
}

/// Returns the product whose kernel can compute `root` in its epilogue: the first that `root`
/// depends on and nothing else, with each element read only at the linear index of the element
/// computed from it. The epilogue reads all other nodes that are stored from memory.
pub(crate) fn product_to_fuse(candidates: &[Candidate], root: usize) -> Option<usize> {
    let root_node = &candidates[root].node;
    if candidates[root].size.operations > PRODUCT_OPERATIONS_MAX {
        return None;
    }
    // The candidates that the epilogue computes or reads, each with whether it does so elsewhere
    // than at the linear index of the root.
    let mut reads: SmallVec<[(usize, bool); 8]> = smallvec![(root, false)];
    let mut next = 0;
    while let Some(&(at, is_moved)) = reads.get(next) {
        next += 1;
        let candidate = &candidates[at];
        if candidate.is_stored && at != root {
            continue;
        }
        let is_moved = match &*candidate.op {
            Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::Reshape(_) | Op::View(..) => {
                is_moved || candidate.moves(0)
            }
            _ => return None,
        };
        for at in candidate.candidate_operands() {
            if !reads.contains(&(at, is_moved)) {
                reads.push((at, is_moved));
            }
        }
    }
    let can_be_fused = |&(at, is_moved): &(usize, bool)| {
        let candidate = &candidates[at];
        !is_moved
            && candidate.is_stored
            && matches!(&*candidate.op, Op::MatrixProduct(..))
            && !reads.contains(&(at, true))
            && is_only_for(candidate, root_node)
    };
    let read_to_fuse = reads.iter().find(|read| can_be_fused(read));
    read_to_fuse.map(|&(product, _)| product)
}
