//! Decides which shared values are stored instead of being computed for each of their uses.
//!
//! A value is computed several times if several kernels need it, or one kernel at several
//! positions. Storing it spares what only it needs: operations that its uses need anyway, through
//! other operands, would still be computed.
//!
//! A stencil reads one value at several positions. It is stored only if the instructions for each
//! of them take longer than the accesses to memory of a second kernel; `stencil.rs` may fuse it
//! again.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    expr::{Function, NodeRef, Op},
    plan::{
        candidate::{Candidate, Consumer, StoreReason, Times, storable},
        joins::{are_arrays, can_split, split},
        limits::{
            COSTLY, HIDDEN, INSTRUCTIONS_STORING, JOINED, PER_THREAD, READ_AGAIN_MAX, REPEATED_MIN,
            STORING,
        },
        siblings::are_in_one_kernel,
        size::is_costly,
    },
};

impl Times {
    /// Returns how often an operand is computed for a user that is computed so often, if the user
    /// needs it at its own position or at others (see [`moved`]).
    fn of_operand(self, moved: Option<f32>) -> Self {
        match moved {
            None => Self {
                own: self.own,
                inherited: self.inherited + self.moved,
                moved: 0.0,
                branch: self.branch,
            },
            Some(ratio) => Self {
                moved: self.all() * ratio,
                branch: self.branch,
                ..Self::default()
            },
        }
    }
}

/// Returns the number of elements of an operand that a candidate needs at other positions, for each
/// element of the operand; `None` if it needs those at its own positions.
fn moved(user: &Candidate, number: usize) -> Option<f32> {
    match &*user.op {
        _ if !user.moves(number) => None,
        Op::View(source, _) | Op::Gather { source, .. } => {
            Some(user.node.elements as f32 / source.elements.max(1) as f32)
        }
        // Each element is in one part.
        _ => Some(1.0),
    }
}

/// Returns the branch in which a kernel computes an operand for a candidate in a branch.
fn branch_of((at, user): (usize, &Candidate), number: usize, branch: u64) -> u64 {
    match &*user.op {
        Op::Concatenate { .. } if !user.is_split => {
            // The numbers of different branches differ, and so do those of sets of branches.
            let mut hasher = FxHasher::default();
            (branch, at, number).hash(&mut hasher);
            hasher.finish() | 1
        }
        _ => branch,
    }
}

/// Stores joins whose elements are read through several branches of other joins. Each branch would
/// contain the code of the join, and compute its elements again: a chain of such joins would double
/// both at each join.
pub(crate) fn store_branched(candidates: &mut [Candidate]) {
    let is_join = |candidate: &Candidate| matches!(&*candidate.op, Op::Concatenate { .. });
    if !candidates.iter().any(is_join) {
        return;
    }
    for at in (0..candidates.len()).rev() {
        let candidate = &candidates[at];
        let is_branched = |consumer: &Consumer| {
            let Times { branch, .. } = consumer.times;
            branch != 0 && consumer.times.all() > 1.0
        };
        if !candidate.is_stored
            && is_join(candidate)
            && candidate.consumers.iter().any(is_branched)
            && !are_arrays(candidates, candidate)
        {
            candidates[at].store(StoreReason::Shared);
        }
        candidates[at].is_split = can_split(candidates, at);
        pass_on(candidates, at);
    }
    for candidate in candidates {
        candidate.consumers.clear();
    }
}

/// Stores nodes that are computed several times, unless that is cheaper. Visits the users of a node
/// before the node.
pub(crate) fn store_shared(candidates: &mut [Candidate]) {
    // The number of operands that are each node, by its identifier.
    let mut uses: FxHashMap<u64, u32> = FxHashMap::default();
    for operand in candidates.iter().flat_map(|candidate| &candidate.operands) {
        *uses.entry(operand.node.id).or_default() += 1;
    }
    let mut ancestors = None;
    for at in (0..candidates.len()).rev() {
        let consumers = &candidates[at].consumers;
        if !candidates[at].is_stored
            && (consumers.len() > 1 || consumers.iter().any(|consumer| consumer.times.all() > 1.0))
            && storable(candidates, at) == Some(at)
            && pays(candidates, &uses, at)
            && !are_in_one_kernel(candidates, &mut ancestors, at)
        {
            candidates[at].store(StoreReason::Shared);
        }
        split(candidates, at);
        pass_on(candidates, at);
    }
}

/// Returns whether storing a node takes less time than computing it again.
fn pays(candidates: &[Candidate], uses: &FxHashMap<u64, u32>, at: usize) -> bool {
    let candidate = &candidates[at];
    let times: f32 = (candidate.consumers.iter())
        .map(|consumer| consumer.times.all())
        .sum();
    let together = match candidate.node.elements {
        1 => PER_THREAD,
        _ => 1.0,
    };
    let per_element = |consumer: &Consumer| {
        let elements = candidate.node.elements as f32 / consumer.elements.max(1) as f32;
        consumer.times.all() * elements / together
    };
    let most = candidate.consumers.iter().map(per_element);
    let most = most.fold(0.0, f32::max);
    let again = candidate.consumers.len() - 1;
    // The only kernel is about as large as the value, and accesses memory for its own elements.
    let is_stencil = again == 0 && most >= times * 0.5;
    let word = word(candidate.node.dtype);
    let own = OwnWork::of(candidates, uses, at, |work| {
        let is_slow = !is_stencil || most * work.instructions > 2.0 * word * INSTRUCTIONS_STORING;
        is_slow
            && (times - 1.0) * work.operations > STORING
            && (times - 1.0) * work.instructions >= word * INSTRUCTIONS_STORING
            && most * work.operations > HIDDEN as f32
    });
    if own.is_enough || again * own.inputs.len().saturating_sub(1) <= READ_AGAIN_MAX {
        return own.is_enough;
    }
    let own_inputs = own.inputs.iter().filter(|(id, own)| uses[id] == *own);
    again * own_inputs.count().saturating_sub(1) > READ_AGAIN_MAX
}

/// Returns whether a broadcast repeats an array so often that the few elements are stored instead,
/// if that pays.
fn is_repeated(array: &NodeRef, by: &Candidate) -> bool {
    array.elements > 1 && array.elements <= by.node.elements / REPEATED_MIN
}

/// Returns the size of an element in words of 32 bits, but at most 1.
pub(crate) fn word(dtype: DType) -> f32 {
    dtype.bytes().min(4) as f32 / 4.0
}

/// The work that is done for one node alone: its operation, and all operands, directly or not, that
/// nothing else uses.
#[derive(Default)]
struct OwnWork {
    /// The cost in simple operations for each element.
    operations: f32,
    /// The number of instructions for each element.
    instructions: f32,
    /// The arrays that are read, by node id, and how often.
    inputs: SmallVec<[(u64, u32); 4]>,
    is_enough: bool,
}

impl OwnWork {
    /// Adds up the work for a node until it is enough.
    fn of(
        candidates: &[Candidate],
        uses: &FxHashMap<u64, u32>,
        at: usize,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Self {
        let mut work = Self::default();
        let mut other_uses: FxHashMap<u64, u32> = FxHashMap::default();
        let mut stack: SmallVec<[usize; 8]> = smallvec![at];
        while let Some(at) = stack.pop() {
            let candidate = &candidates[at];
            work.operations += candidate.operations();
            work.instructions += candidate.instructions();
            work.is_enough = is_enough(&work);
            if work.is_enough {
                break;
            }
            for operand in &candidate.operands {
                let id = operand.node.id;
                match operand.computed(candidates) {
                    None => work.add_input(id),
                    Some(_) if is_repeated(&operand.node, candidate) => work.add_input(id),
                    Some(index) => {
                        let left = other_uses.entry(id).or_insert(uses[&id]);
                        *left -= 1;
                        if *left == 0 {
                            stack.push(index);
                        }
                    }
                }
            }
        }
        work
    }

    fn add_input(&mut self, id: u64) {
        match self.inputs.iter_mut().find(|(input, _)| *input == id) {
            Some((_, uses)) => *uses += 1,
            None => self.inputs.push((id, 1)),
        }
    }
}

/// Adds the kernels that compute a candidate to the consumers of its operands. A stored candidate
/// has one kernel.
fn pass_on(candidates: &mut [Candidate], at: usize) {
    let (operands, users) = candidates.split_at_mut(at);
    let user = &users[0];
    for (number, operand) in user.operands.iter().enumerate() {
        let Some(index) = operand.candidate else {
            continue;
        };
        let (operand, moved) = (&mut operands[index], moved(user, number));
        if user.is_stored {
            let elements = match &*user.op {
                Op::View(..) | Op::Gather { .. } => user.node.elements,
                _ => operand.node.elements,
            };
            let mut times = Times::ONCE.of_operand(moved);
            times.branch = branch_of((at, user), number, 0);
            operand.add_consumer(user.node.id, elements, times);
        } else {
            for consumer in &user.consumers {
                let mut times = consumer.times.of_operand(moved);
                times.branch = branch_of((at, user), number, times.branch);
                operand.add_consumer(consumer.kernel, consumer.elements, times);
            }
        }
    }
}

impl Candidate {
    /// Returns the cost of the operation for each element, in simple operations.
    fn operations(&self) -> f32 {
        match &*self.op {
            Op::Constant(_) => 0.0,
            // Indices that need no check are computed, and not read from memory.
            Op::Gather {
                is_checked: true, ..
            } => COSTLY,
            Op::Concatenate { .. } => JOINED,
            op if is_costly(op) => COSTLY,
            _ => 1.0,
        }
    }

    /// Returns the number of instructions of the operation for each element.
    pub(crate) fn instructions(&self) -> f32 {
        match &*self.op {
            Op::Apply(Function::Maths(function), _) => {
                function.instructions(self.node.dtype) as f32
            }
            _ => self.operations(),
        }
    }
}
