//! Groups of stored nodes that one kernel computes, and the order of the steps.

use smallvec::SmallVec;

use crate::plan::{
    ancestors::Ancestors,
    candidate::Candidate,
    followers::join_followers,
    limits::GROUPED_MAX,
    siblings::{Kind, find_groups},
};

/// Groups stored nodes, and returns those that have steps, in the order of the steps: of each
/// group, the last member. Only steps of nodes with identifiers less than `end` are returned, and
/// none that depends on another step.
pub(crate) fn group_siblings(candidates: &mut [Candidate], end: u64) -> Vec<usize> {
    let stored = |candidates: &[Candidate]| -> Vec<usize> {
        let is_in_time = |&at: &usize| candidates[at].is_stored && candidates[at].node.id < end;
        (0..candidates.len()).filter(is_in_time).collect()
    };
    let has_pairs = {
        let mut kinds = (0..candidates.len()).filter_map(|at| Kind::of(candidates, at));
        kinds.next().is_some() && kinds.next().is_some()
    };
    if !has_pairs || candidates.len() > GROUPED_MAX {
        return stored(candidates);
    }
    let mut ancestors = Ancestors::of(candidates);
    let mut found = find_groups(candidates, &mut ancestors);
    let followers = join_followers(candidates, &mut ancestors, &mut found);
    let mut groups: Vec<SmallVec<[usize; 4]>> = Vec::new();
    for group in found {
        if group.members.len() > 1 {
            groups.push(group.members);
        }
    }
    if groups.is_empty() {
        return stored(candidates);
    }
    for (at, reduction) in followers {
        candidates[at].epilogue_of = Some(reduction);
    }
    for members in groups {
        let last = members[members.len() - 1];
        for at in members {
            candidates[at].group = Some(last);
        }
    }
    schedule(candidates, &ancestors, end)
}

/// Returns the stored nodes with steps so that each step comes after those on which it depends.
fn schedule(candidates: &[Candidate], ancestors: &Ancestors, end: u64) -> Vec<usize> {
    let has_step = |&at: &usize| {
        let candidate = &candidates[at];
        candidate.is_stored
            && candidate.node.id < end
            && candidate.group.is_none_or(|last| last == at)
    };
    let (mut order, mut done) = (Vec::new(), vec![false; candidates.len()]);
    let mut waiting: Vec<usize> = Vec::new();
    for next in (0..candidates.len()).filter(has_step) {
        waiting.push(next);
        // An earlier node may wait for the group of this one.
        while let Some(number) = waiting.iter().position(|&at| {
            let is_done = |other: usize| {
                let group = candidates[at].group;
                !candidates[other].is_stored
                    || done[other]
                    || !ancestors.has(at, other)
                    || (group.is_some() && candidates[other].group == group)
            };
            (0..candidates.len()).all(is_done)
        }) {
            let at = waiting.remove(number);
            order.push(at);
            match candidates[at].group {
                None => done[at] = true,
                Some(group) => {
                    (0..candidates.len())
                        .filter(|&other| candidates[other].group == Some(group))
                        .for_each(|other| done[other] = true);
                }
            }
        }
    }
    order
}
