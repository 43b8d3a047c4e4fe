//! Nested reductions: reductions of few elements whose results another reduction reduces, such as
//! the squared distances of points of which the nearest is wanted. A thread computes each result
//! where it is needed, so that no array of them reaches memory.

use crate::{
    expr::{Op, Reduction},
    plan::{
        candidate::{Candidate, arrays_of, computed_with},
        limits::{NESTED_BYTES_MAX, NESTED_MAX, NESTED_REUSE_MIN},
        size::Size,
    },
};

/// Fuses reductions of few elements into the reductions that use them.
pub(crate) fn fuse_nested(candidates: &mut [Candidate]) {
    for at in 0..candidates.len() {
        let Some(user) = user_of(candidates, at) else {
            continue;
        };
        let size = size_with(candidates, user, at);
        if size.is_too_large() || !pays(candidates, at) {
            continue;
        }
        candidates[at].is_stored = false;
        candidates[user].size = size;
        let [nested, user] = [at, user].map(|at| candidates[at].node.id);
        for operand in computed_with(candidates, at) {
            candidates[operand].replace_consumer(nested, user);
        }
    }
}

/// Returns the stored reduction that computes each result of a reduction of few elements once.
fn user_of(candidates: &[Candidate], at: usize) -> Option<usize> {
    let candidate = &candidates[at];
    let Op::Reduce {
        reduction, source, ..
    } = &*candidate.op
    else {
        return None;
    };
    let [consumer] = &candidate.consumers[..] else {
        return None;
    };
    let results = candidate.node.elements;
    let is_possible = candidate.is_stored
        && !candidate.is_requested()
        && *reduction != Reduction::SquaredDeviations
        && consumer.times.all() <= 1.0
        && results > 0
        && (2..=NESTED_MAX).contains(&(source.elements / results));
    if !is_possible {
        return None;
    }
    let is_user = |user: &usize| candidates[*user].node.id == consumer.kernel;
    let user = (at + 1..candidates.len()).find(is_user)?;
    matches!(&*candidates[user].op, Op::Reduce { .. }).then_some(user)
}

/// Returns the size of the kernel of a reduction that computes a nested one.
fn size_with(candidates: &[Candidate], user: usize, nested: usize) -> Size {
    let Candidate { node, op, size, .. } = &candidates[nested];
    let mut length = 0;
    op.operands(|source| length = source.elements / node.elements);
    let mut all = candidates[user].size.clone();
    all.add(&Size {
        operations: length * size.operations,
        costly: length * size.costly,
        ..size.clone()
    });
    all
}

/// Returns whether the elements come from smaller arrays, or are so few that neighbouring threads
/// read neighbouring memory.
fn pays(candidates: &[Candidate], at: usize) -> bool {
    let Candidate { node, op, .. } = &candidates[at];
    let mut elements = 0;
    op.operands(|source| elements = source.elements);
    let arrays = arrays_of(candidates, &computed_with(candidates, at));
    let is_small = |bytes: usize| elements / node.elements * bytes <= NESTED_BYTES_MAX;
    let mut large = arrays
        .iter()
        .filter(|array| array.elements > elements / NESTED_REUSE_MIN);
    large.all(|array| is_small(array.dtype.bytes()))
}
