//! Joins of arrays in memory, which one kernel copies, and the order in which other parts of a join
//! are written.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{
        candidate::{Candidate, CandidateOperand},
        limits::{ARRAYS_MAX, BORDERED_MIN, BORDERED_TIMES},
    },
};

/// Returns whether a stored join is written by one kernel: if it is one of arrays in memory. Other
/// parts are computed where they belong, each by a kernel of its own.
///
/// A large array with borders has a kernel for each part, too. The borders of a halo come from
/// other devices, and one kernel for all parts would wait for them before it copies the array.
pub(crate) fn joins_arrays(candidates: &[Candidate], join: &Candidate) -> bool {
    let mut parts = join.operands.iter();
    (2..=ARRAYS_MAX).contains(&parts.len())
        && parts.all(|part| is_array(candidates, part))
        && !is_bordered(join)
}

/// Returns whether nearly all elements of a join are those of one large array.
fn is_bordered(join: &Candidate) -> bool {
    let Op::Concatenate { parts, .. } = &*join.op else {
        return false;
    };
    let largest = parts.iter().map(|part| part.elements).max().unwrap_or(0);
    let others = join.node.elements - largest;
    largest >= BORDERED_MIN && largest / BORDERED_TIMES >= others
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
