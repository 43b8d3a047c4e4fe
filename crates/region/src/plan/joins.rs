//! The kernels of stored joins.
//!
//! One kernel copies arrays in memory. Parts of one shape are computed by one kernel, each thread
//! of which stores an element of each part in its place: what several parts need is computed once.
//! Other parts have blocks of their own in one kernel, or are so many or so large that each has a
//! kernel.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op, State},
    plan::{
        candidate::{Candidate, CandidateOperand},
        cut::kernel_of,
        limits::{ARRAYS_MAX, BORDERED_MIN, BORDERED_TIMES, SECTIONS_MAX},
        size::Size,
    },
    shape::{AxisMap, AxisSource},
};

/// Returns whether a stored join is written by one kernel: if it is one of arrays in memory. Other
/// parts are computed where they belong, each by a kernel of its own.
///
/// A large array with borders has a kernel for each part, too. The borders of a halo come from
/// other devices, and one kernel for all parts would wait for them before it copies the array.
pub(crate) fn joins_arrays(candidates: &[Candidate], join: &Candidate) -> bool {
    (2..=ARRAYS_MAX).contains(&join.operands.len())
        && are_arrays(candidates, join)
        && !is_bordered(join)
}

/// Returns whether all parts of a join are arrays in memory.
pub(crate) fn are_arrays(candidates: &[Candidate], join: &Candidate) -> bool {
    let mut parts = join.operands.iter();
    parts.all(|part| is_array(candidates, part))
}

/// Returns whether a thread can compute an element of each part of a stored join: they have one
/// shape, except empty ones.
pub(crate) fn can_split(candidates: &[Candidate], at: usize) -> bool {
    let join = &candidates[at];
    let Op::Concatenate { parts, .. } = &*join.op else {
        return false;
    };
    let mut parts = parts.iter().filter(|part| part.elements > 0);
    let first = parts.next();
    let mut others = parts.peekable();
    join.is_stored
        && others.peek().is_some()
        && others.all(|part| first.is_some_and(|first| first.shape == part.shape))
        && !joins_arrays(candidates, join)
}

/// Decides whether one kernel computes all parts of a candidate, which may be a stored join.
pub(crate) fn split(candidates: &mut [Candidate], at: usize) {
    candidates[at].is_split = can_split(candidates, at);
    if candidates[at].is_split && kernel_of(candidates, at, |_| true).1.is_too_large() {
        candidates[at].is_split = false;
    }
}

/// Returns whether one kernel computes the parts of a stored join, each by blocks of its own.
pub(crate) fn fits_in_sections(candidates: &[Candidate], join: &Candidate) -> bool {
    let mut size = Size::default();
    for part in &join.operands {
        part.add_to(candidates, &mut size);
    }
    join.operands.len() <= SECTIONS_MAX && !size.is_too_large_for_sections() && !is_bordered(join)
}

/// Returns whether nearly all elements of a join are those of one large array, with others at its
/// borders than constants.
fn is_bordered(join: &Candidate) -> bool {
    let Op::Concatenate { parts, .. } = &*join.op else {
        return false;
    };
    let largest = parts.iter().map(|part| part.elements).max().unwrap_or(0);
    let others = join.node.elements - largest;
    let is_constant = |part: &NodeRef| {
        let state = part.state();
        matches!(state, State::Planned(op) if matches!(&*op, Op::Constant(_)))
    };
    let mut borders = parts.iter().filter(|part| part.elements < largest);
    largest >= BORDERED_MIN
        && largest / BORDERED_TIMES >= others
        && !borders.all(|part| part.elements == 0 || is_constant(part))
}

/// Returns the index maps from the parts of a join to its elements.
pub(crate) fn maps_of_parts(join: &Candidate) -> SmallVec<[AxisMap; 4]> {
    let Op::Concatenate { parts, axis } = &*join.op else {
        return SmallVec::new();
    };
    let mut start = 0;
    let map = |part: &NodeRef| {
        let mut map: AxisMap = (0..part.shape.len()).map(AxisSource::same).collect();
        map[*axis].start = start;
        start += part.shape[*axis];
        map
    };
    parts.iter().map(map).collect()
}

/// Returns the positions of the parts of a join in the order in which they are written, the largest
/// first: a small one may be the border of a halo, which is still on its way from another device.
pub(crate) fn largest_first(parts: &[NodeRef]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..parts.len()).collect();
    order.sort_by_key(|&part| Reverse(parts[part].elements));
    order
}

/// Returns whether an array in memory has the elements of an operand, in the same order.
fn is_array(candidates: &[Candidate], operand: &CandidateOperand) -> bool {
    operand.computed(candidates).is_none_or(|at| {
        candidates[at].same_elements().is_some()
            && is_array(candidates, &candidates[at].operands[0])
    })
}
