//! Groups of stored nodes that one kernel computes, and the order of the steps.

use crate::plan::{
    ancestors::Ancestors,
    candidate::Candidate,
    followers::join_followers,
    limits::GROUPED_MAX,
    row_outputs::join_row_outputs,
    siblings::{Group, Kind, find_groups},
};

/// Groups stored nodes, and returns those that have steps, in the order of the steps: of each
/// group, the last member. Only steps of nodes with identifiers less than `end` are returned, and
/// none that depends on another step.
pub(crate) fn group_siblings(candidates: &mut [Candidate], end: u64) -> Vec<usize> {
    let is_in_time = |at: &usize| candidates[*at].is_stored && candidates[*at].node.id < end;
    let stored: Vec<usize> = (0..candidates.len()).filter(is_in_time).collect();
    let can_join =
        |&at: &usize| candidates[at].rows.is_some() || Kind::of(candidates, at).is_some();
    let mut possible = (0..candidates.len()).filter(can_join);
    if candidates.len() > GROUPED_MAX || possible.nth(1).is_none() {
        return stored;
    }
    let mut ancestors = Ancestors::of(candidates);
    let mut groups = find_groups(candidates, &mut ancestors);
    let followers = join_followers(candidates, &mut ancestors, &mut groups);
    groups.retain(|group| group.members.len() > 1);
    for (at, reduction) in followers {
        candidates[at].epilogue_of = Some(reduction);
    }
    for Group { members, .. } in &groups {
        for &at in members {
            candidates[at].group = members.last().copied();
        }
    }
    join_row_outputs(candidates, &mut ancestors);
    if candidates.iter().all(|candidate| candidate.group.is_none()) {
        return stored;
    }
    in_order(candidates, &ancestors, &stored)
}

/// Returns the stored nodes with steps so that each step comes after those on which it depends.
fn in_order(candidates: &[Candidate], ancestors: &Ancestors, stored: &[usize]) -> Vec<usize> {
    let step = |at: usize| candidates[at].group.unwrap_or(at);
    let is_stored = |&at: &usize| candidates[at].is_stored;
    let (mut order, mut waiting, mut done) =
        (Vec::new(), Vec::new(), vec![false; candidates.len()]);
    for &next in stored.iter().filter(|&&at| step(at) == at) {
        waiting.push(next);
        // An earlier node may wait for the group of this one.
        while let Some(number) = waiting.iter().position(|&at| {
            let mut others = (0..candidates.len()).filter(is_stored);
            others.all(|other| step(other) == at || done[step(other)] || !ancestors.has(at, other))
        }) {
            done[waiting[number]] = true;
            order.push(waiting.remove(number));
        }
    }
    debug_assert!(waiting.is_empty(), "the steps wait for each other");
    order
}
