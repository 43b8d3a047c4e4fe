//! Kernels with several outputs: one kernel computes stored nodes over the same inputs, and reads
//! the inputs once.
//!
//! Members of a group are element-wise nodes of one shape, or reductions of arrays of one shape
//! along the same axes. A group becomes one step, so that no path may lead from one member to
//! another through a step outside of the group. The members' inputs and outputs are in memory at
//! the same time: only members whose inputs or outputs are needed later anyway are grouped.
//! Functions of the results of reductions join their group (`followers.rs`).

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::{
    expr::Op,
    plan::{
        ancestors::Ancestors,
        candidate::{Candidate, CandidateOperand, Consumer, arrays_of, computed_with},
        cut::kernel_of_all,
        limits::{CONSUMERS_MAX, GROUPED_MAX, GROUPS_TRIED_MAX, MEMBERS_MAX},
    },
    shape::Shape,
};

/// The work of a kernel: two kernels can be one only if theirs is equal.
#[derive(PartialEq)]
pub(crate) enum Kind<'a> {
    /// The elements of a shape.
    Map(&'a Shape),
    /// Reductions of this shape along these axes.
    Reduce(&'a Shape, &'a [usize]),
}

impl<'a> Kind<'a> {
    /// Returns the kind of the kernel that stores a candidate. `None` if that has one output only.
    pub(crate) fn of(candidates: &'a [Candidate], at: usize) -> Option<Self> {
        let candidate = &candidates[at];
        let is_alone = candidate.rows.is_some() || !candidate.tiled.is_empty();
        if !candidate.is_stored || is_alone || candidate.node.elements == 0 {
            return None;
        }
        match &*candidates[candidate.epilogue_of.unwrap_or(at)].op {
            Op::Apply(..) | Op::Gather { .. } => Some(Kind::Map(&candidate.node.shape)),
            Op::Concatenate { .. } if candidate.is_split => {
                Some(Kind::Map(candidate.result_shape()))
            }
            Op::Reduce { source, axes, .. } => Some(Kind::Reduce(&source.shape, axes)),
            _ => None,
        }
    }

    /// Returns the number of elements that the kernel visits.
    fn elements(&self) -> usize {
        let (Kind::Map(shape) | Kind::Reduce(shape, _)) = self;
        shape.iter().product()
    }
}

/// Stored nodes that one kernel computes.
pub(crate) struct Group {
    /// True if they are no reductions.
    pub(crate) is_map: bool,
    pub(crate) members: SmallVec<[usize; 4]>,
    /// The large arrays that the members read, by node id.
    inputs: SmallVec<[u64; 8]>,
    /// The values that kernels of several nodes compute, by node id.
    shared: SmallVec<[u64; 8]>,
}

/// Returns the groups. Most have one member.
pub(crate) fn find_groups(candidates: &[Candidate], ancestors: &mut Ancestors) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut last_uses: Option<FxHashMap<u64, usize>> = None;
    for at in 0..candidates.len() {
        let Some(kind) = Kind::of(candidates, at) else {
            continue;
        };
        let (elements, computed) = (kind.elements(), computed_with(candidates, at));
        let inputs = large_arrays(candidates, &computed, elements);
        let shared = computed.iter().map(|&at| &candidates[at]);
        let shared = shared.filter(|value| value.consumers.len() > 1 && value.node.elements > 1);
        let shared: SmallVec<[u64; 8]> = shared.map(|value| value.node.id).collect();
        let is_same =
            |group: &Group| Kind::of(candidates, group.members[0]).as_ref() == Some(&kind);
        let same = groups.iter_mut().rev().filter(|group| is_same(group));
        let group = same.take(GROUPS_TRIED_MAX).find(|group| {
            let mut related = group.ids(candidates);
            (related.any(|id| inputs.contains(&id))
                || group.shared.iter().any(|id| shared.contains(id)))
                && {
                    let last_uses = last_uses.get_or_insert_with(|| last_uses_of(candidates));
                    group.accepts(candidates, ancestors, last_uses, at)
                }
        });
        match group {
            Some(group) => {
                group.members.push(at);
                ancestors.join(&group.members);
                for input in inputs {
                    if !group.inputs.contains(&input) {
                        group.inputs.push(input);
                    }
                }
                group.shared.extend(shared);
            }
            None => groups.push(Group {
                is_map: matches!(kind, Kind::Map(_)),
                members: smallvec![at],
                inputs,
                shared,
            }),
        }
    }
    groups
}

/// Returns the arrays with at least so many elements that the kernel of some candidates reads.
fn large_arrays(
    candidates: &[Candidate],
    computed: &[usize],
    elements: usize,
) -> SmallVec<[u64; 8]> {
    let arrays = arrays_of(candidates, computed).into_iter();
    let large = arrays.filter(|array| array.elements >= elements);
    large.map(|array| array.id).collect()
}

/// Returns whether one kernel will compute all stored candidates that need a value, so that it need
/// not be stored.
pub(crate) fn are_in_one_kernel(
    candidates: &[Candidate],
    ancestors: &mut Option<Ancestors>,
    value: usize,
) -> bool {
    let kernels = &candidates[value].consumers;
    if !(2..CONSUMERS_MAX).contains(&kernels.len()) || candidates.len() > GROUPED_MAX {
        return false;
    }
    let number = |kernel: &Consumer| {
        let is_kernel = |at: &usize| candidates[*at].node.id == kernel.kernel;
        (value..candidates.len()).find(is_kernel)
    };
    let members: SmallVec<[usize; 4]> = kernels.iter().filter_map(number).collect();
    let kind = |at: usize| Kind::of(candidates, at);
    let first = members.first().and_then(|&at| kind(at));
    let Some(first) = first.filter(|_| members.len() == kernels.len()) else {
        return false;
    };
    let arrays =
        |at: usize| large_arrays(candidates, &computed_with(candidates, at), first.elements());
    let is_possible = match first {
        Kind::Map(_) => {
            // Inputs of one that nothing else holds would stay in memory for the others.
            let all = arrays(members[0]);
            let is_same = |&at: &usize| arrays(at).iter().all(|id| all.contains(id));
            members.iter().all(|&at| candidates[at].is_requested()) && members.iter().all(is_same)
        }
        Kind::Reduce(..) => {
            let ancestors = ancestors.get_or_insert_with(|| Ancestors::of(candidates));
            !members.iter().any(|&at| ancestors.has_any(at, &members))
        }
    };
    is_possible
        && members.iter().all(|&at| kind(at).as_ref() == Some(&first))
        && kernel_of_all(candidates, &members).is_some_and(|size| !size.is_too_large())
}

impl Group {
    /// Returns the identifiers of the members and of their large inputs.
    fn ids(&self, candidates: &[Candidate]) -> impl Iterator<Item = u64> {
        let members = self.members.iter().map(|&at| &candidates[at].node);
        (members.map(|node| node.id)).chain(self.inputs.iter().copied())
    }

    /// Returns whether one kernel can compute the members and another candidate after them.
    fn accepts(
        &self,
        candidates: &[Candidate],
        ancestors: &Ancestors,
        last_uses: &FxHashMap<u64, usize>,
        at: usize,
    ) -> bool {
        let is_in_memory = |id: u64| last_uses.get(&id).is_some_and(|&last| last >= at);
        let is_possible = match self.is_map {
            true => self.ids(candidates).all(is_in_memory),
            false => !ancestors.has_any(at, &self.members),
        };
        is_possible
            && self.members.len() < MEMBERS_MAX
            && !ancestors.is_between(candidates, &self.members, at)
            && is_small(candidates, &self.members, at)
    }
}

/// Returns whether the kernel of these members and one more candidate is not too large, and
/// computes each member at one position only.
pub(crate) fn is_small(candidates: &[Candidate], members: &[usize], at: usize) -> bool {
    let mut roots: SmallVec<[usize; 8]> = SmallVec::from_slice(members);
    roots.push(at);
    !kernel_of_all(candidates, &roots).is_none_or(|size| size.is_too_large())
}

/// Returns for each node the last stored candidate whose kernel uses it, or the greatest number for
/// nodes that are needed after all kernels.
fn last_uses_of(candidates: &[Candidate]) -> FxHashMap<u64, usize> {
    let mut of_nodes: FxHashMap<u64, usize> = FxHashMap::default();
    for (at, candidate) in candidates.iter().enumerate().rev() {
        let own = of_nodes.entry(candidate.node.id).or_default();
        if candidate.is_requested() {
            *own = usize::MAX;
        }
        let kernel = if candidate.is_stored { at } else { *own };
        for CandidateOperand { node, candidate } in &candidate.operands {
            let is_kept = candidate.is_none() && node.is_held();
            let last = of_nodes.entry(node.id).or_default();
            *last = (*last).max(if is_kept { usize::MAX } else { kernel });
        }
    }
    of_nodes
}
