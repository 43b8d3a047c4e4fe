//! Joins of arrays in memory, which one kernel copies.

use super::partition::Candidate;
use crate::{graph::Op, shape::preserves_linear_index};

/// The maximum number of arrays that one kernel joins. Their addresses and places are parameters,
/// at most 16 bytes for each array, and no kernel takes more than 4,096 bytes of them.
const ARRAYS_MAX: usize = 250;

/// Returns whether a stored join is one of arrays in memory. Other parts are computed where they
/// belong, each by a kernel of its own.
pub(super) fn joins_arrays(candidates: &[Candidate], join: &Candidate) -> bool {
    let mut parts = join.operands.iter().map(|operand| operand.candidate);
    (2..=ARRAYS_MAX).contains(&parts.len()) && parts.all(|part| is_array(candidates, part))
}

/// Returns whether an array in memory has the elements of an operand, in the same order.
fn is_array(candidates: &[Candidate], mut operand: Option<usize>) -> bool {
    while let Some(at) = operand.filter(|&at| !candidates[at].is_stored) {
        let candidate = &candidates[at];
        match &*candidate.op {
            Op::Reshape(_) => {}
            Op::View(source, map)
                if preserves_linear_index(&candidate.node.shape, map, &source.shape) => {}
            _ => return false,
        }
        operand = candidate.operand(0);
    }
    true
}
