//! Row kernels: reductions of contiguous rows together with what leads to them and what follows.
//!
//! A block, or a part of a warp, keeps a row in registers, so that a softmax reads its array once
//! and writes once. A longer row is read again, from a cache, if there are enough rows to keep a
//! device busy. Every value that depends on a reduction must belong to one row: to an element, or
//! to the whole row.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::Op,
    plan::{
        candidate::Candidate,
        cut::kernel_of,
        limits::{
            LONG_ROW_OPERATIONS_MAX, ROW_OPERATIONS_MAX, ROW_REACH, ROW_REDUCTIONS_MAX,
            ROW_REGISTERS_MAX,
        },
        order::split::RowSplit,
        rows::{RowClass, RowShape},
    },
};

/// Fuses reductions into the kernels that use them, where all work belongs to the same rows.
pub(crate) fn fuse_rows(candidates: &mut [Candidate]) {
    let is_reduction = |candidate: &Candidate| matches!(&*candidate.op, Op::Reduce { .. });
    if !candidates.iter().any(is_reduction) {
        return;
    }
    for root in (0..candidates.len()).rev() {
        let candidate = &candidates[root];
        let is_possible = matches!(&*candidate.op, Op::Apply(..) | Op::Reduce { .. });
        if candidate.is_stored && (is_possible || candidate.is_split) {
            fuse_into(candidates, root);
        }
    }
}

/// Fuses stored nodes into the kernel of `root` that nothing else uses, if they make a row kernel.
fn fuse_into(candidates: &mut [Candidate], root: usize) {
    let of_reduction = |at: usize| RowShape::of_reduction(&candidates[at].op, &candidates[at].node);
    let of_any = |at: usize| match &*candidates[at].op {
        Op::Reduce { .. } => of_reduction(at).is_some(),
        op => matches!(op, Op::Apply(..)),
    };
    let any = used_only_in(candidates, root, of_any);
    let Some(rows) = of_reduction(root).or_else(|| any.iter().copied().find_map(of_reduction))
    else {
        return;
    };
    let first = candidates[root].results().next();
    let Some(class) = first.and_then(|result| rows.class(result)) else {
        return;
    };
    let fused = used_only_in(candidates, root, |at| match &*candidates[at].op {
        Op::Reduce { .. } => of_reduction(at) == Some(rows),
        Op::Apply(..) => rows.class(&candidates[at].node).is_some(),
        _ => false,
    });
    let all = fused.iter().chain([&root]);
    let reductions = all.filter(|&&at| of_reduction(at).is_some()).count();
    // A function of the results of one reduction is its epilogue.
    let is_epilogue = reductions == 1 && class == RowClass::Row;
    let is_possible = class == RowClass::Row || !candidates[root].is_split;
    if is_epilogue || !is_possible || fused.is_empty() {
        return;
    }
    for &at in &fused {
        candidates[at].is_stored = false;
    }
    if is_row_kernel(candidates, root, rows, &[]) {
        candidates[root].rows = Some(rows);
    } else {
        for &at in &fused {
            candidates[at].is_stored = true;
        }
    }
}

/// Returns the stored nodes that fit and that nothing but the kernel of `root` uses, directly or
/// through others of them, from the last on.
fn used_only_in(
    candidates: &[Candidate],
    root: usize,
    fits: impl Fn(usize) -> bool,
) -> SmallVec<[usize; 8]> {
    let mut kernels: SmallVec<[u64; 8]> = smallvec![candidates[root].node.id];
    let mut numbers: SmallVec<[usize; 8]> = SmallVec::new();
    for at in (root.saturating_sub(ROW_REACH)..root).rev() {
        let candidate = &candidates[at];
        if candidate.is_stored
            && !candidate.is_requested()
            && candidate.has_all_consumers_in(&kernels)
            && fits(at)
        {
            kernels.push(candidate.node.id);
            numbers.push(at);
        }
    }
    numbers
}

/// Returns whether one kernel of these rows can compute `root` with all unstored nodes that lead to
/// it, and store `values` of these.
pub(crate) fn is_row_kernel(
    candidates: &[Candidate],
    root: usize,
    rows: RowShape,
    values: &[usize],
) -> bool {
    // One value for a row takes little, and views take nothing.
    let is_in_each_thread = |at: usize| {
        let Candidate { node, op, .. } = &candidates[at];
        matches!(&**op, Op::Apply(..) | Op::Gather { .. } | Op::Iota)
            && rows.class(node) != Some(RowClass::Row)
    };
    let (order, size) = kernel_of(candidates, root, is_in_each_thread);
    let per_thread = rows.elements_per_thread();
    let is_wide = |&at: &usize| is_in_each_thread(at) && candidates[at].node.dtype.bytes() > 4;
    let words = if order.iter().any(is_wide) { 2 } else { 1 };
    let of_rows = |&&at: &&usize| {
        RowShape::of_reduction(&candidates[at].op, &candidates[at].node) == Some(rows)
    };
    if size.is_too_large()
        || order.iter().filter(of_rows).count() > ROW_REDUCTIONS_MAX
        || per_thread * size.live * words > ROW_REGISTERS_MAX
        || per_thread * size.operations > ROW_OPERATIONS_MAX
        || (rows.is_long() && size.operations > LONG_ROW_OPERATIONS_MAX)
    {
        return false;
    }
    let nodes = order.iter().map(|&at| &candidates[at]);
    let nodes = nodes.filter(|candidate| !candidate.is_split);
    let nodes = nodes.map(|candidate| (&candidate.node, &*candidate.op));
    let values = values.iter().map(|&at| &candidates[at].node);
    rows.classify(nodes, values).is_some_and(|classes| {
        // Without a reduction inside, there would be nothing to gain.
        let mut results = candidates[root].results();
        results.all(|result| classes.contains_key(&result.id))
    })
}

impl RowShape {
    pub(crate) fn elements_per_thread(self) -> usize {
        let split = RowSplit::of(self.length);
        if self.is_long() {
            return split.neighbours;
        }
        split.turns() * split.neighbours
    }
}
