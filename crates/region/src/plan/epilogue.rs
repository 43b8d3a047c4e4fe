//! Epilogues: element-wise functions that the kernel of a reduction or a matrix product computes
//! from its results, instead of storing them.

use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op},
    plan::{candidate::Candidate, limits::PRODUCT_OPERATIONS_MAX},
    shape::preserves_linear_index,
};

/// Fuses element-wise functions of the results of a reduction into its kernel, if nothing else uses
/// those results.
pub(crate) fn fuse_reduction_epilogues(candidates: &mut [Candidate]) {
    fuse_epilogues(candidates, reduction_to_fuse);
}

/// Fuses element-wise functions of a product into its kernel, if nothing else uses the product. A
/// node that one kernel computes together with others stays in that kernel, which reads their
/// common inputs once.
pub(crate) fn fuse_product_epilogues(candidates: &mut [Candidate]) {
    fuse_epilogues(candidates, product_to_fuse);
}

/// Fuses stored element-wise nodes into the kernels of the nodes that a function finds for them.
fn fuse_epilogues(
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
    !candidate.is_requested
        && matches!(&candidate.consumers[..], [only] if only.kernel == root.id)
        && candidate.node.elements == root.elements
}

/// Returns the reduction whose kernel can compute `root` in its epilogue: the only reduction that
/// `root` depends on, used by nothing else, with each result at the linear index of the element
/// computed from it.
fn reduction_to_fuse(candidates: &[Candidate], root: usize) -> Option<usize> {
    let root_node = &candidates[root].node;
    let (mut found, mut seen, mut is_possible) = (None, FxHashSet::default(), true);
    let mut stack = vec![root];
    while let Some(at) = stack.pop() {
        if !seen.insert(at) {
            continue;
        }
        let candidate = &candidates[at];
        match &*candidate.op {
            Op::Reduce { .. } if candidate.is_stored && found.is_none() => {
                is_possible &= is_only_for(candidate, root_node);
                found = Some(at);
            }
            _ if candidate.is_stored && at != root => is_possible = false,
            _ => is_possible &= is_at_one_index(candidates, at),
        }
        if !matches!(&*candidate.op, Op::Reduce { .. }) {
            stack.extend(candidate.candidate_operands());
        }
    }
    found.filter(|_| is_possible)
}

/// Returns whether a kernel computes a candidate from operands at the same linear index, or from a
/// constant, as the epilogue of a reduction must.
pub(crate) fn is_at_one_index(candidates: &[Candidate], at: usize) -> bool {
    let candidate = &candidates[at];
    match &*candidate.op {
        Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::Reshape(_) => true,
        Op::View(source, map) => {
            let source_op = candidate.operand(0).map(|source| &*candidates[source].op);
            matches!(source_op, Some(Op::Constant(_)))
                || preserves_linear_index(&candidate.node.shape, map, &source.shape)
        }
        _ => false,
    }
}

/// Returns the product whose kernel can compute `root` in its epilogue: the first that `root`
/// depends on and nothing else, with each element read only at the linear index of the element
/// computed from it. The epilogue reads all other nodes that are stored from memory.
fn product_to_fuse(candidates: &[Candidate], root: usize) -> Option<usize> {
    let root_node = &candidates[root].node;
    if candidates[root].size.operations > PRODUCT_OPERATIONS_MAX {
        return None;
    }
    let mut reads: SmallVec<[Read; 8]> = smallvec![Read {
        at: root,
        is_moved: false,
    }];
    let (mut products, mut next): (SmallVec<[usize; 2]>, usize) = (SmallVec::new(), 0);
    let mut moved: FxHashSet<usize> = FxHashSet::default();
    while let Some(&Read { at, is_moved }) = reads.get(next) {
        next += 1;
        let candidate = &candidates[at];
        if candidate.is_stored && at != root {
            if is_moved {
                moved.insert(at);
            } else if matches!(&*candidate.op, Op::MatrixProduct(..)) {
                products.push(at);
            }
            continue;
        }
        let is_moved = match &*candidate.op {
            Op::Constant(_) | Op::Iota | Op::Apply(..) | Op::Reshape(_) => is_moved,
            Op::View(source, map) => {
                is_moved || !preserves_linear_index(&candidate.node.shape, map, &source.shape)
            }
            _ => return None,
        };
        for at in candidate.candidate_operands() {
            let read = Read { at, is_moved };
            if !reads.contains(&read) {
                reads.push(read);
            }
        }
    }
    let can_be_fused =
        |&at: &usize| !moved.contains(&at) && is_only_for(&candidates[at], root_node);
    products.into_iter().find(can_be_fused)
}

/// A candidate that an epilogue computes or reads, at the linear index of its root or elsewhere.
#[derive(Clone, Copy, PartialEq)]
struct Read {
    at: usize,
    is_moved: bool,
}
