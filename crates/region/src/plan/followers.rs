//! Followers: stored element-wise functions of the results of reductions, where the results are
//! stored, too.
//!
//! The kernel of the reductions computes them in its epilogue, as further outputs, instead of a
//! kernel of their own that reads the results.

use smallvec::SmallVec;

use crate::plan::{
    ancestors::Ancestors,
    candidate::{Candidate, computed_with},
    epilogue::is_at_one_index,
    limits::MEMBERS_MAX,
    siblings::{Group, is_small},
};

/// Moves groups of followers to the groups of reductions that they depend on. Returns each follower
/// with the reduction whose kernel computes it.
pub(crate) fn join_followers(
    candidates: &[Candidate],
    ancestors: &mut Ancestors,
    groups: &mut [Group],
) -> Vec<(usize, usize)> {
    let mut followers = Vec::new();
    for number in 0..groups.len() {
        if groups[number].is_map {
            continue;
        }
        // Followers may have lower numbers, if they only belong to others that depend on leaders.
        let leader = groups[number].members[0];
        let reduction = candidates[leader].epilogue_of.unwrap_or(leader);
        for other in 0..groups.len() {
            let (leaders, others) = (&groups[number].members, &groups[other].members);
            if groups[other].is_map && can_follow(candidates, ancestors, leaders, others) {
                let moved = std::mem::take(&mut groups[other].members);
                followers.extend(moved.iter().map(|&at| (at, reduction)));
                let members = &mut groups[number].members;
                members.extend(moved);
                members.sort_unstable();
                ancestors.join(members);
            }
        }
    }
    followers
}

/// Returns whether the kernel of the leaders can compute other stored candidates in its epilogue.
fn can_follow(
    candidates: &[Candidate],
    ancestors: &Ancestors,
    leaders: &[usize],
    others: &[usize],
) -> bool {
    let (Some(&last), false) = (others.last(), leaders.len() + others.len() > MEMBERS_MAX) else {
        return false;
    };
    let mut members: SmallVec<[usize; 8]> = SmallVec::from_slice(leaders);
    // All outputs are computed at one position.
    let is_at_position_of = |leader: &usize, at: usize| match &candidates[*leader].node {
        // The parts of joins have one more axis than the results.
        leader if candidates[at].is_split => {
            leader.elements == candidates[at].result_shape().iter().product::<usize>()
        }
        leader => leader.shape == candidates[at].node.shape,
    };
    let are_possible = others.iter().all(|&at| {
        let mut computed = computed_with(candidates, at).into_iter();
        let is_possible = leaders.iter().all(|leader| is_at_position_of(leader, at))
            && ancestors.has_any(at, leaders)
            && computed.all(|at| is_at_one_index(candidates, at))
            && is_small(candidates, &members, at);
        members.push(at);
        is_possible
    });
    are_possible && !ancestors.is_between(candidates, &members, last)
}
