//! Candidates: the planned nodes of a graph, with the decisions about each.

use std::{fmt, sync::Arc};

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op},
    plan::{
        limits::{CONSUMERS_MAX, PARTS_MAX},
        rows::RowShape,
        size::Size,
    },
    shape::Shape,
};

/// A planned node, with the decisions about it.
pub(crate) struct Candidate {
    pub(crate) node: NodeRef,
    pub(crate) op: Arc<Op>,
    /// The operands, in the order of the operation.
    pub(crate) operands: SmallVec<[CandidateOperand; 3]>,
    /// The kernels that compute this node; not all if there are many.
    pub(crate) consumers: SmallVec<[Consumer; 2]>,
    pub(crate) is_stored: bool,
    /// True if one kernel computes all parts of this stored join, each thread an element of each.
    pub(crate) is_split: bool,
    /// The first reason to store the node. Another kernel may compute it after all.
    pub(crate) reason: Option<StoreReason>,
    /// The size of a kernel that computes the node.
    pub(crate) size: Size,
    /// The reduction or the product whose kernel computes this node in its epilogue.
    pub(crate) epilogue_of: Option<usize>,
    /// The rows, if the kernel that computes this node is a row kernel.
    pub(crate) rows: Option<RowShape>,
    /// The last of the stored nodes that one kernel computes together with this one.
    pub(crate) group: Option<usize>,
    /// The nodes that the kernel which stores this one computes in shared memory.
    pub(crate) tiled: SmallVec<[usize; 1]>,
}

pub(crate) struct CandidateOperand {
    pub(crate) node: NodeRef,
    /// The index among all candidates; `None` for a node in memory.
    pub(crate) candidate: Option<usize>,
}

impl CandidateOperand {
    /// Returns the index of the candidate, unless it is in memory or will be stored there.
    pub(crate) fn computed(&self, candidates: &[Candidate]) -> Option<usize> {
        self.candidate.filter(|&at| !candidates[at].is_stored)
    }

    /// Adds the operand to the size of a kernel that computes or reads it.
    pub(crate) fn add_to(&self, candidates: &[Candidate], size: &mut Size) {
        match self.computed(candidates) {
            None => size.add_input(self.node.id),
            Some(at) => size.add(&candidates[at].size),
        }
    }
}

impl Candidate {
    /// Returns the index of an operand among all candidates; `None` for a node in memory.
    pub(crate) fn operand(&self, number: usize) -> Option<usize> {
        self.operands[number].candidate
    }

    pub(crate) fn candidate_operands(&self) -> impl Iterator<Item = usize> {
        self.operands.iter().filter_map(|operand| operand.candidate)
    }

    pub(crate) fn store(&mut self, reason: StoreReason) {
        self.is_stored = true;
        self.reason.get_or_insert(reason);
    }

    /// Returns whether the caller requests the elements.
    pub(crate) fn is_requested(&self) -> bool {
        self.reason == Some(StoreReason::Requested)
    }

    /// Returns the operand that has the same elements in the same order.
    pub(crate) fn same_elements(&self) -> Option<&NodeRef> {
        self.op.same_elements(&self.node.shape)
    }

    /// Returns the index of this operand among all candidates.
    pub(crate) fn source_of_same_elements(&self) -> Option<usize> {
        self.same_elements().and_then(|_| self.operand(0))
    }

    /// Returns whether the operation needs the elements of an operand at other positions than those
    /// of its own.
    pub(crate) fn moves(&self, number: usize) -> bool {
        match &*self.op {
            Op::View(..) => self.same_elements().is_none(),
            Op::Gather { .. } => number == 0,
            Op::Update { .. } => number == 1,
            Op::Concatenate { .. } => !self.is_split,
            _ => false,
        }
    }

    /// Returns the nodes of one shape whose elements the kernel of this node stores: the node, or
    /// the parts of a split join.
    pub(crate) fn results(&self) -> impl Iterator<Item = &NodeRef> {
        let parts = self.operands.iter().map(|part| &part.node);
        let parts = parts.filter(|part| self.is_split && part.elements > 0);
        parts.chain(Some(&self.node).filter(|_| !self.is_split))
    }

    /// Returns the shape of these nodes.
    pub(crate) fn result_shape(&self) -> &Shape {
        &self.results().next().unwrap_or(&self.node).shape
    }

    /// Returns whether all kernels that compute this node are known and in the list.
    pub(crate) fn has_all_consumers_in(&self, kernels: &[u64]) -> bool {
        let is_listed = |consumer: &Consumer| kernels.contains(&consumer.kernel);
        !self.consumers.is_empty()
            && self.consumers.len() < CONSUMERS_MAX
            && self.consumers.iter().all(is_listed)
    }

    /// Returns the only kernel that computes this node, if all are known.
    pub(crate) fn only_consumer(&self) -> Option<u64> {
        match &self.consumers[..] {
            [only] => Some(only.kernel),
            _ => None,
        }
    }

    /// Replaces a kernel that computes this node by another.
    pub(crate) fn replace_consumer(&mut self, kernel: u64, other: u64) {
        let is_known = self
            .consumers
            .iter()
            .any(|consumer| consumer.kernel == other);
        self.consumers.retain(|consumer| {
            let is_replaced = consumer.kernel == kernel;
            if is_replaced {
                consumer.kernel = other;
            }
            !(is_replaced && is_known)
        });
    }

    pub(crate) fn add_consumer(&mut self, kernel: u64, elements: usize, times: Times) {
        let mut consumers = self.consumers.iter_mut();
        if let Some(consumer) = consumers.find(|consumer| consumer.kernel == kernel) {
            consumer.times.join(times);
        } else if self.consumers.len() < CONSUMERS_MAX {
            self.consumers.push(Consumer {
                kernel,
                elements,
                times,
            });
        }
    }
}

/// The reasons why an array is stored instead of being computed in the kernels that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreReason {
    /// It is a result.
    Requested,
    /// Its operation has a kernel of its own: a reduction, a scan, a matrix product and others.
    OwnKernel,
    /// An operation with a kernel of its own reads it from memory.
    Operand,
    /// The kernel that computes it and its users would be too large.
    Size,
    /// Computing it again for each of its uses would take longer.
    Shared,
}

impl fmt::Display for StoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreReason::Requested => "it is a result",
            StoreReason::OwnKernel => "the operation has a kernel of its own",
            StoreReason::Operand => "an operation with a kernel of its own reads it",
            StoreReason::Size => "one kernel would be too large",
            StoreReason::Shared => "computing it for each of its uses would take longer",
        })
    }
}

/// A kernel that computes a node.
pub(crate) struct Consumer {
    /// The stored node that the kernel computes.
    pub(crate) kernel: u64,
    /// The number of elements. The kernel has a thread or an iteration for each.
    pub(crate) elements: usize,
    pub(crate) times: Times,
}

/// The number of times that a kernel computes each element of a node.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// At the position of the kernel's own element.
    pub(crate) own: f32,
    /// At the other positions at which it computes a user of the node.
    pub(crate) inherited: f32,
    /// At the positions to which views and gathers of the node lead.
    pub(crate) moved: f32,
    /// The parts of joins in whose branches the kernel computes the node; 0 outside of branches.
    pub(crate) branch: u64,
}

impl Times {
    /// The kernel that stores a node computes each element once.
    pub(crate) const ONCE: Self = Self {
        own: 1.0,
        inherited: 0.0,
        moved: 0.0,
        branch: 0,
    };

    /// Returns the number for all positions.
    pub(crate) fn all(self) -> f32 {
        self.own + self.inherited + self.moved
    }

    /// Adds another use. Users at the same position share the value, except those in branches of
    /// their own.
    fn join(&mut self, other: Self) {
        self.own = self.own.max(other.own);
        self.moved += other.moved;
        if self.branch == other.branch {
            self.inherited = self.inherited.max(other.inherited);
        } else {
            self.inherited += other.inherited;
            self.branch ^= other.branch;
        }
    }
}

/// Returns whether an operation needs kernels of its own.
pub(crate) fn has_own_kernel(op: &Op) -> bool {
    match op {
        Op::Constant(_)
        | Op::Iota
        | Op::Apply(..)
        | Op::View(..)
        | Op::Reshape(_)
        | Op::Gather { .. } => false,
        Op::Concatenate { parts, .. } => parts.len() > PARTS_MAX,
        _ => true,
    }
}

pub(crate) fn computed_with(candidates: &[Candidate], root: usize) -> SmallVec<[usize; 16]> {
    let mut members: SmallVec<[usize; 16]> = smallvec![root];
    let mut next = 0;
    while let Some(&at) = members.get(next) {
        next += 1;
        for operand in candidates[at].candidate_operands() {
            if !candidates[operand].is_stored && !members.contains(&operand) {
                members.push(operand);
            }
        }
    }
    members
}

/// Returns the arrays that a kernel reads to compute these candidates.
pub(crate) fn arrays_of<'a>(
    candidates: &'a [Candidate],
    computed: &[usize],
) -> SmallVec<[&'a NodeRef; 8]> {
    let mut arrays: SmallVec<[&NodeRef; 8]> = SmallVec::new();
    for operand in computed.iter().flat_map(|&at| &candidates[at].operands) {
        let is_read = operand.computed(candidates).is_none();
        if is_read && arrays.iter().all(|array| array.id != operand.node.id) {
            arrays.push(&operand.node);
        }
    }
    arrays
}

/// Returns the candidate to store so that a kernel need not compute this one: itself, or the source
/// of a view that repeats elements. Returns `None` if a kernel computes it from parameters, from
/// indices or by reading one element.
pub(crate) fn storable(candidates: &[Candidate], at: usize) -> Option<usize> {
    let candidate = &candidates[at];
    match &*candidate.op {
        Op::Constant(_) | Op::Iota => None,
        Op::View(source, _) | Op::Reshape(source) => {
            let of_source = candidate.operands[0].computed(candidates)?;
            let stored = storable(candidates, of_source)?;
            let repeats = source.elements <= candidate.node.elements;
            Some(if repeats { stored } else { at })
        }
        op if has_own_kernel(op) => None,
        _ => Some(at),
    }
}
