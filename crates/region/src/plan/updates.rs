//! Series of updates: one kernel replaces the elements of several slices of one array.
//!
//! A program that sets the borders of a matrix, or its rows one by one, makes an update of the
//! whole matrix for each. If nothing else uses the array between two updates, one kernel does the
//! work of both: each slice has blocks of its own, and where slices overlap, the last of them has
//! the elements.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::Op,
    plan::{
        candidate::{Candidate, StoreReason, computed_with},
        limits::{OVERLAPS_MAX, SECTIONS_MAX},
        replace::{Slice, reads_in_place},
        size::Size,
    },
    shape::are_disjoint,
};

/// Fuses updates into the kernels of later ones of the same array.
pub(crate) fn fuse_updates(candidates: &mut [Candidate]) {
    let is_update = |candidate: &Candidate| matches!(&*candidate.op, Op::Update { .. });
    if candidates
        .iter()
        .filter(|it| is_update(it))
        .nth(1)
        .is_none()
    {
        return;
    }
    let mut uses = vec![0; candidates.len()];
    for operand in candidates.iter().flat_map(Candidate::candidate_operands) {
        uses[operand] += 1;
    }
    for last in (0..candidates.len()).rev() {
        if !is_update(&candidates[last]) || !candidates[last].is_stored {
            continue;
        }
        let mut size = Size::default();
        add_value(candidates, last, &mut size);
        let mut series: SmallVec<[usize; 8]> = smallvec![last];
        while let Some(base) = candidates[series[series.len() - 1]].operand(0)
            && is_update(&candidates[base])
            && candidates[base].reason == Some(StoreReason::OwnKernel)
            && uses[base] == 1
            && series.len() < SECTIONS_MAX
            && series
                .iter()
                .filter(|&&later| overlap(candidates, base, later))
                .count()
                <= OVERLAPS_MAX
        {
            add_value(candidates, base, &mut size);
            if size.is_too_large_for_sections() {
                break;
            }
            series.push(base);
        }
        // If the first one reads what others replace, it would keep the series from being in place.
        if series.len() > 1 && !is_in_place(candidates, &series) {
            series.pop();
        }
        for &update in &series[1..] {
            candidates[update].is_stored = false;
        }
    }
}

/// Returns the updates of the kernel that stores a candidate, from the first on.
pub(crate) fn series_of(candidates: &[Candidate], last: usize) -> SmallVec<[usize; 8]> {
    let mut series: SmallVec<[usize; 8]> = smallvec![last];
    while let Some(base) = candidates[series[series.len() - 1]].operand(0)
        && !candidates[base].is_stored
        && matches!(&*candidates[base].op, Op::Update { .. })
    {
        series.push(base);
    }
    series.reverse();
    series
}

/// Adds the computation of the value of an update.
fn add_value(candidates: &[Candidate], update: usize, size: &mut Size) {
    candidates[update].operands[1].add_to(candidates, size);
    size.operations += 1;
}

/// Returns the index map and the shape of the slice that an update replaces.
pub(crate) fn slice(update: &Candidate) -> Slice<'_> {
    match &*update.op {
        Op::Update { map, value, .. } => (map, &value.shape),
        _ => unreachable!("the candidate is an update"),
    }
}

pub(crate) fn overlap(candidates: &[Candidate], one: usize, other: usize) -> bool {
    let [one, other] = [one, other].map(|at| slice(&candidates[at]));
    !are_disjoint((one.0, one.1), (other.0, other.1))
}

/// Returns whether a kernel can replace the elements in the memory of the base, as far as the value
/// of the first update, the last of the series, decides.
fn is_in_place(candidates: &[Candidate], series: &[usize]) -> bool {
    let (first, later) = series.split_last().expect("a series has updates");
    let [base, value] = &candidates[*first].operands[..] else {
        unreachable!("an update has two operands");
    };
    let Some(value) = value.computed(candidates) else {
        return value.node.id != base.node.id;
    };
    let mut computed = computed_with(candidates, value);
    computed.sort_unstable();
    let nodes = computed
        .iter()
        .map(|&at| (&candidates[at].node, &*candidates[at].op));
    let later: SmallVec<[_; 8]> = later.iter().map(|&at| slice(&candidates[at])).collect();
    reads_in_place(&base.node, nodes, Some(slice(&candidates[*first])), &later)
}
