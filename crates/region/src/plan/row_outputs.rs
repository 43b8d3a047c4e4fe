//! Further outputs of row kernels: stored values of the same rows that a kernel would read from
//! memory are computed and stored by it, as in a normalisation of a sum that is needed, too.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::Op,
    plan::{
        ancestors::Ancestors,
        candidate::{Candidate, computed_with},
        epilogue::product_to_fuse,
        limits::MEMBERS_MAX,
        row_kernels::is_row_kernel,
        rows::{RowClass, RowShape},
    },
};

/// Groups stored nodes with the stored values that their kernels read, where one row kernel can
/// compute and store all of them.
pub(crate) fn join_row_outputs(candidates: &mut [Candidate], ancestors: &mut Ancestors) {
    for root in (0..candidates.len()).rev() {
        let is_possible = matches!(&*candidates[root].op, Op::Apply(..) | Op::Reduce { .. });
        if !(is_possible && is_alone(&candidates[root])) {
            continue;
        }
        let mut members: SmallVec<[usize; 8]> = smallvec![root];
        // A value that joins may lead to further ones.
        while let Some(values) = values_to_join(candidates, ancestors, &members) {
            members.extend(values);
        }
        if members.len() == 1 {
            continue;
        }
        for &at in &members {
            // The kernel computes what it needs of an alias, which others read when it has run.
            ancestors.remove(at, members.iter().filter(|&&at| is_alias(candidates, at)));
        }
        members.retain(|at| !is_alias(candidates, *at));
        ancestors.join(&members);
        for at in members {
            candidates[at].group = Some(root);
        }
    }
}

fn is_alone(candidate: &Candidate) -> bool {
    candidate.is_stored
        && !candidate.is_split
        && candidate.group.is_none()
        && candidate.tiled.is_empty()
        && candidate.node.elements > 0
}

fn is_alias(candidates: &[Candidate], at: usize) -> bool {
    aliased(candidates, at).is_some()
}

/// Returns the stored value whose memory a stored node shares.
pub(crate) fn aliased(candidates: &[Candidate], at: usize) -> Option<usize> {
    let source = candidates[at].source_of_same_elements();
    source.filter(|&source| candidates[at].is_stored && candidates[source].is_stored)
}

/// Returns the next stored value that the kernel of the first member can compute with the others,
/// or this value and an alias of it, and makes it a row kernel.
fn values_to_join(
    candidates: &mut [Candidate],
    ancestors: &Ancestors,
    members: &[usize],
) -> Option<SmallVec<[usize; 2]>> {
    if members.len() >= MEMBERS_MAX {
        return None;
    }
    let computed = members.iter().flat_map(|&at| computed_with(candidates, at));
    let mut read: SmallVec<[usize; 16]> = computed
        .flat_map(|at| candidates[at].candidate_operands())
        .filter(|at| is_alone(&candidates[*at]) && !members.contains(at))
        .collect();
    read.sort_unstable_by(|one, other| other.cmp(one));
    read.dedup();
    read.into_iter().find_map(|read| {
        let mut values: SmallVec<[usize; 2]> = aliased(candidates, read).into_iter().collect();
        values.push(read);
        can_join(candidates, ancestors, members, &values).then_some(values)
    })
}

/// Returns whether the first of these values can join, which the others are aliases of.
fn can_join(
    candidates: &mut [Candidate],
    ancestors: &Ancestors,
    members: &[usize],
    values: &[usize],
) -> bool {
    let (root, value) = (members[0], values[0]);
    let rows_of = |at: usize| {
        let candidate = &candidates[at];
        let reduction = &candidates[candidate.epilogue_of.unwrap_or(at)];
        let of_reduction = || RowShape::of_reduction(&reduction.op, &reduction.node);
        candidate.rows.or_else(of_reduction)
    };
    let (of_root, of_value) = (rows_of(root), rows_of(value));
    // Each visit of a long row would compute the values again.
    let Some(rows) = of_root.or(of_value).filter(|rows| !rows.is_long()) else {
        return false;
    };
    let class = |at: usize| rows.class(&candidates[at].node);
    let fits = match (of_value, &*candidates[value].op) {
        (Some(own), Op::Apply(..) | Op::Reduce { .. }) => own == rows && class(value).is_some(),
        (None, Op::Apply(..)) => class(value) == Some(RowClass::Element),
        _ => false,
    };
    let joined: SmallVec<[usize; 8]> = members.iter().chain(values).copied().collect();
    let is_possible = fits
        && class(root).is_some()
        && is_alone(&candidates[value])
        && !ancestors.is_between(candidates, &joined, value)
        && product_to_fuse(candidates, value).is_none();
    if !is_possible {
        return false;
    }
    let epilogues = [root, value].map(|at| (at, candidates[at].epilogue_of.take()));
    let store = |candidates: &mut [Candidate], is_stored: bool| {
        let values = joined[1..].iter();
        values.for_each(|&at| candidates[at].is_stored = is_stored);
    };
    store(candidates, false);
    let is_one = is_row_kernel(candidates, root, rows, &joined[1..]);
    store(candidates, true);
    match is_one {
        true => candidates[root].rows = Some(rows),
        false => epilogues
            .into_iter()
            .for_each(|(at, of)| candidates[at].epilogue_of = of),
    }
    is_one
}
