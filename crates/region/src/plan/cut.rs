//! Bounds of the size of a kernel: computations that exceed them are cut where few values are live.
//!
//! A kernel computes each pair of a node and a position once, so its size is the number of distinct
//! pairs. Adding the sizes of the operands is cheaper than counting pairs and never gives less; the
//! pairs are counted only if the sum exceeds a bound. The count then grows with the next nodes, so
//! that planning a long chain stays linear.

use std::collections::{BTreeMap, btree_map::Entry};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    expr::Op,
    plan::{
        candidate::{Candidate, CandidateOperand, StoreReason, storable},
        limits::{COSTLY_MAX, INPUTS_MAX, LIVE_MAX},
        size::{Size, is_costly},
    },
};

/// Computes the size of each candidate, and stores values where a kernel would become too large.
pub(crate) fn bound_sizes(candidates: &mut [Candidate]) {
    let mut walk = Walk::default();
    let mut users: Option<Vec<usize>> = None;
    for at in 0..candidates.len() {
        let mut size = sum_of_operands(candidates, at);
        while size.is_too_large() {
            // The walk so far contains most of these pairs if this node continues a chain.
            walk.visit(candidates, at);
            size = walk.size();
            if size.is_too_large() {
                walk = Walk::default();
                walk.visit(candidates, at);
                size = walk.size();
            }
            if !size.is_too_large() {
                break;
            }
            if std::mem::take(&mut candidates[at].is_split) {
                // Each part has a kernel.
                walk = Walk::default();
                size = sum_of_operands(candidates, at);
                continue;
            }
            let users = users.get_or_insert_with(|| last_users(candidates));
            let is_cut = walk.cut(candidates, users);
            walk = Walk::default();
            if !is_cut {
                break;
            }
            size = sum_of_operands(candidates, at);
        }
        candidates[at].size = size;
    }
}

/// Returns the candidates that the kernel of one computes, operands first, and its size. Of the
/// live values, only inputs and the candidates that satisfy the condition count.
pub(crate) fn kernel_of(
    candidates: &[Candidate],
    root: usize,
    counts: impl Fn(usize) -> bool,
) -> (Vec<usize>, Size) {
    let mut walk = Walk::default();
    walk.visit(candidates, root);
    walk.size.live = walk.live(|value| value.candidate.is_none_or(&counts));
    let computed = walk.values.iter().filter_map(|value| value.candidate);
    (computed.collect(), walk.size)
}

/// Returns the size of the kernel that computes several stored candidates, or `None` if it computes
/// one of them at several positions.
pub(crate) fn kernel_of_all(candidates: &[Candidate], roots: &[usize]) -> Option<Size> {
    let mut walk = Walk {
        roots: SmallVec::from_slice(roots),
        ..Walk::default()
    };
    for &root in roots {
        walk.visit(candidates, root);
    }
    let mut ids = walk.numbers.keys();
    let is_moved = ids.any(|&(id, position)| {
        position != ROOT && roots.iter().any(|&root| candidates[root].node.id == id)
    });
    walk.size.live = walk.live(|_| true);
    (!is_moved).then_some(walk.size)
}

/// Returns the operands that one kernel of an operation computes or reads. The other operands have
/// kernels of their own.
fn kernel_operands(candidate: &Candidate) -> &[CandidateOperand] {
    // The parts of a stored concatenation, unless it is split, and the base of a scatter are
    // computed by separate kernels.
    match &*candidate.op {
        Op::Concatenate { .. } if candidate.is_stored && !candidate.is_split => &[],
        Op::Scatter { .. } => &candidate.operands[1..],
        _ => &candidate.operands,
    }
}

/// Returns the size of an operation and its operands. A shared operand counts for each, and a part
/// of a join in the branch of each.
fn sum_of_operands(candidates: &[Candidate], at: usize) -> Size {
    let operands = kernel_operands(&candidates[at]);
    let mut size = Size::default();
    for (number, operand) in operands.iter().enumerate() {
        let id = operand.node.id;
        let is_joined = matches!(&*candidates[at].op, Op::Concatenate { .. });
        let is_known = || {
            let mut earlier = operands[..number].iter();
            !is_joined && earlier.any(|earlier| earlier.node.id == id)
        };
        match operand.computed(candidates) {
            None => size.add_input(id),
            Some(index) if number == 0 => size = candidates[index].size.clone(),
            Some(index) if !is_known() => size.add(&candidates[index].size),
            Some(_) => {}
        }
    }
    size.add_operation(&candidates[at].op);
    size
}

/// A position of elements within a kernel, relative to the element that a thread computes.
type Position = u32;

/// The position of the root's element.
const ROOT: Position = 0;
/// The position of the only element of an array.
const SCALAR: Position = 1;

/// A value of a kernel: a node at a position.
struct Value {
    /// The candidate that computes the value; `None` for an input.
    candidate: Option<usize>,
    /// The number of the last value computed from this one, or its own.
    last_use: usize,
}

/// The values of a kernel in the order in which it computes them.
#[derive(Default)]
struct Walk {
    values: Vec<Value>,
    /// The number of each value, by node id and position.
    numbers: FxHashMap<(u64, Position), usize>,
    /// The positions to which a view or gather maps others, or a join those of one of its parts.
    positions: FxHashMap<(u64, usize, Position), Position>,
    size: Size,
    /// The number of values at the last count of live values.
    counted: usize,
    /// The stored candidates that the kernel computes.
    roots: SmallVec<[usize; 8]>,
}

/// A value to visit: a node, the candidate that computes it, and a position.
type Visit = (u64, Option<usize>, Position);

impl Walk {
    /// Appends the values of the kernel that computes this candidate, except those already there.
    fn visit(&mut self, candidates: &[Candidate], root: usize) {
        let mut stack = vec![((candidates[root].node.id, Some(root), ROOT), false)];
        while let Some((visit, operands_are_known)) = stack.pop() {
            let (id, candidate, position) = visit;
            if !operands_are_known && self.numbers.contains_key(&(id, position)) {
                continue;
            }
            let operands =
                candidate.map_or_else(SmallVec::new, |at| self.operands(candidates, at, position));
            if !operands_are_known && candidate.is_some() {
                stack.push((visit, true));
                // The kernel computes the first operand first.
                stack.extend(operands.into_iter().rev().map(|operand| (operand, false)));
                continue;
            }
            let own = self.values.len();
            for (id, _, position) in operands {
                if let Some(&operand) = self.numbers.get(&(id, position)) {
                    self.values[operand].last_use = own;
                }
            }
            match candidate {
                Some(at) => self.size.add_operation(&candidates[at].op),
                None => self.size.add_input(id),
            }
            self.numbers.insert((id, position), own);
            self.values.push(Value {
                candidate,
                last_use: own,
            });
        }
    }

    /// Returns the values from which a candidate is computed at a position.
    fn operands(
        &mut self,
        candidates: &[Candidate],
        at: usize,
        position: Position,
    ) -> SmallVec<[Visit; 4]> {
        let operands = kernel_operands(&candidates[at]).iter().enumerate();
        operands
            .map(|(number, operand)| {
                let is_computed =
                    |at: &usize| !candidates[*at].is_stored || self.roots.contains(at);
                let candidate = operand.candidate.filter(is_computed);
                let user = &candidates[at];
                let position = match &*user.op {
                    Op::View(source, _) if source.elements == 1 => SCALAR,
                    _ if !user.moves(number) => position,
                    _ => {
                        let next = self.positions.len() as Position + SCALAR + 1;
                        let place = self.positions.entry((user.node.id, number, position));
                        *place.or_insert(next)
                    }
                };
                (operand.node.id, candidate, position)
            })
            .collect()
    }

    fn size(&mut self) -> Size {
        // Each value since the last count may be live together with those counted then.
        if self.size.live > LIVE_MAX && self.counted < self.values.len() {
            self.size.live = self.live(|_| true);
            self.counted = self.values.len();
        }
        self.size.clone()
    }

    /// Returns the greatest number of values that are needed after another value, among those that
    /// satisfy the condition.
    fn live(&self, counts: impl Fn(&Value) -> bool) -> usize {
        let mut ends = vec![0; self.values.len()];
        let (mut live, mut most) = (0, 0);
        for (number, value) in self.values.iter().enumerate() {
            if value.last_use > number && counts(value) {
                live += 1;
                ends[value.last_use] += 1;
            }
            live -= ends[number];
            most = most.max(live);
        }
        most
    }

    /// Cuts the kernel in its second half: of all places in the order of recording, at the last of
    /// those after which the fewest values are needed, also by other kernels, which would otherwise
    /// compute them again. Stores these values. Returns whether there are any.
    fn cut(&self, candidates: &mut [Candidate], last_users: &[usize]) -> bool {
        // Each node counts once, and each input where it is first read.
        let mut amounts: BTreeMap<usize, usize> = BTreeMap::new();
        let too_many_inputs = self.size.inputs.len() > INPUTS_MAX;
        let too_costly = self.size.costly > COSTLY_MAX;
        let mut inputs: Vec<u64> = Vec::new();
        for at in self.values.iter().filter_map(|value| value.candidate) {
            let Entry::Vacant(amount) = amounts.entry(at) else {
                continue;
            };
            let mut new_inputs = 0;
            for operand in kernel_operands(&candidates[at]) {
                if operand.computed(candidates).is_none() && !inputs.contains(&operand.node.id) {
                    inputs.push(operand.node.id);
                    new_inputs += 1;
                }
            }
            amount.insert(if too_many_inputs {
                new_inputs
            } else {
                usize::from(!too_costly || is_costly(&candidates[at].op))
            });
        }
        let half = amounts.values().sum::<usize>() / 2;
        // The kernel's root comes last.
        amounts.pop_last();
        let (mut before, mut best): (usize, Option<Vec<usize>>) = (0, None);
        let mut needed: Vec<usize> = Vec::new();
        for (&at, amount) in &amounts {
            before += amount;
            needed.push(at);
            needed.retain(|&value| last_users[value] > at);
            if before < half {
                continue;
            }
            let stored = needed
                .iter()
                .filter_map(|&value| storable(candidates, value));
            let mut stored: Vec<usize> = stored.collect();
            stored.sort_unstable();
            stored.dedup();
            if !stored.is_empty() && best.as_ref().is_none_or(|best| stored.len() <= best.len()) {
                best = Some(stored);
            }
        }
        for &at in best.iter().flatten() {
            candidates[at].store(StoreReason::Size);
        }
        best.is_some()
    }
}

/// Returns the last candidate that uses each, or the greatest number for requested ones.
fn last_users(candidates: &[Candidate]) -> Vec<usize> {
    let mut last = vec![0; candidates.len()];
    for (at, candidate) in candidates.iter().enumerate() {
        if candidate.is_requested() {
            last[at] = usize::MAX;
        }
        for operand in candidate.candidate_operands() {
            last[operand] = last[operand].max(at);
        }
    }
    last
}
