//! Decides which shared values are stored instead of being computed for each of their uses.
//!
//! A value is computed several times if several kernels need it, or one kernel at several
//! positions. Storing it spares what only it needs: operations that its uses need anyway, through
//! other operands, would still be computed.
//!
//! A stencil reads one value at several positions. Its kernel computes the value for each of them,
//! unless the instructions for that take longer than the accesses to memory of a second kernel. If
//! it is stored, `stencil.rs` decides whether the kernel computes it in shared memory after all.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::{
    element::DType,
    expr::{Function, NodeRef, Op},
    plan::{
        candidate::{Candidate, Consumer, Times, storable},
        limits::{
            COSTLY, HIDDEN, INSTRUCTIONS_STORING, JOINED, PER_THREAD, READ_AGAIN_MAX, STORING,
        },
        order::scan::is_scan_of_two_passes,
        size::is_costly,
    },
    shape::preserves_linear_index,
};

/// The position at which an operation needs an operand.
#[derive(Clone, Copy)]
enum Use {
    SamePosition,
    /// Other positions, with so many elements for each of the operand.
    Moved {
        ratio: f32,
    },
}

impl Times {
    /// Returns how often an operand is computed for a user that is computed so often.
    fn of_operand(self, use_: Use) -> Self {
        match use_ {
            Use::SamePosition => Self {
                own: self.own,
                inherited: self.inherited + self.moved,
                moved: 0.0,
            },
            Use::Moved { ratio } => Self {
                moved: self.all() * ratio,
                ..Self::default()
            },
        }
    }
}

impl Use {
    /// Returns the use of an operand by a candidate.
    fn of(user: &Candidate, number: usize) -> Self {
        let ratio_to = |source: &NodeRef| Use::Moved {
            ratio: user.node.elements as f32 / source.elements.max(1) as f32,
        };
        match &*user.op {
            Op::View(source, map)
                if !preserves_linear_index(&user.node.shape, map, &source.shape) =>
            {
                ratio_to(source)
            }
            Op::Gather { source, .. } if number == 0 => ratio_to(source),
            // Each element is in one part.
            Op::Concatenate { .. } => Use::Moved { ratio: 1.0 },
            Op::Update { .. } if number == 1 => Use::Moved { ratio: 1.0 },
            // Two passes read such a row once for the totals of its segments and once for the sums.
            op if is_scan_of_two_passes(op) => Use::Moved { ratio: 2.0 },
            _ => Use::SamePosition,
        }
    }
}

/// Stores nodes that are computed several times, unless that is cheaper. Visits the users of a node
/// before the node.
pub(crate) fn store_shared(candidates: &mut [Candidate]) {
    let mut uses = Uses::of(candidates);
    for at in (0..candidates.len()).rev() {
        if !candidates[at].is_stored
            && is_computed_again(&candidates[at].consumers)
            && storable(candidates, at) == Some(at)
            && pays(candidates, &mut uses, at)
        {
            candidates[at].is_stored = true;
        }
        pass_on(candidates, at);
    }
}

fn is_computed_again(consumers: &[Consumer]) -> bool {
    consumers.len() > 1 || consumers.iter().any(|consumer| consumer.times.all() > 1.0)
}

/// Returns whether storing a node takes less time than computing it again.
fn pays(candidates: &[Candidate], uses: &mut Uses, at: usize) -> bool {
    let candidate = &candidates[at];
    let times: f32 = candidate
        .consumers
        .iter()
        .map(|consumer| consumer.times.all())
        .sum();
    let together = if candidate.node.elements == 1 {
        PER_THREAD
    } else {
        1.0
    };
    let per_element = |consumer: &Consumer| {
        let elements = candidate.node.elements as f32 / consumer.elements.max(1) as f32;
        consumer.times.all() * elements / together
    };
    let most = candidate
        .consumers
        .iter()
        .map(per_element)
        .fold(0.0, f32::max);
    let again = candidate.consumers.len() - 1;
    // The only kernel is about as large as the value, and accesses memory for its own elements.
    let is_stencil = again == 0 && most >= times * 0.5;
    let word = word(candidate.node.dtype);
    let own = OwnWork::of(candidates, uses, at, |work| {
        let is_slow = !is_stencil || most * work.instructions > 2.0 * word * INSTRUCTIONS_STORING;
        is_slow
            && (times - 1.0) * work.operations > STORING
            && most * work.operations > HIDDEN as f32
    });
    if own.is_enough || again * own.inputs.len().saturating_sub(1) <= READ_AGAIN_MAX {
        return own.is_enough;
    }
    let of_memory = uses.of_memory(candidates);
    let own_inputs = own
        .inputs
        .iter()
        .filter(|(id, uses)| of_memory[id] == *uses);
    again * own_inputs.count().saturating_sub(1) > READ_AGAIN_MAX
}

/// Returns the size of an element in words of 32 bits, but at most 1.
pub(crate) fn word(dtype: DType) -> f32 {
    dtype.bytes().min(4) as f32 / 4.0
}

/// The numbers of operands that are each node.
struct Uses {
    /// Of each candidate.
    of_candidates: Vec<u32>,
    /// Of each node by its identifier, counted when needed first.
    of_nodes: FxHashMap<u64, u32>,
}

impl Uses {
    fn of(candidates: &[Candidate]) -> Self {
        let mut of_candidates: Vec<u32> = vec![0; candidates.len()];
        for candidate in candidates {
            for operand in candidate.candidate_operands() {
                of_candidates[operand] += 1;
            }
        }
        Self {
            of_candidates,
            of_nodes: FxHashMap::default(),
        }
    }

    /// Returns the numbers of all nodes, by identifier.
    fn of_memory(&mut self, candidates: &[Candidate]) -> &FxHashMap<u64, u32> {
        if self.of_nodes.is_empty() {
            for candidate in candidates {
                for operand in &candidate.operands {
                    *self.of_nodes.entry(operand.id).or_default() += 1;
                }
            }
        }
        &self.of_nodes
    }
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
        uses: &Uses,
        at: usize,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Self {
        let mut work = Self::default();
        let mut other_uses: FxHashMap<usize, u32> = FxHashMap::default();
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
                match operand.candidate.filter(|&at| !candidates[at].is_stored) {
                    None => work.add_input(operand.id),
                    Some(index) => {
                        let all = uses.of_candidates[index];
                        let left = other_uses.entry(index).or_insert(all);
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

/// Adds the kernels that compute a candidate, of which there is one if it is stored, to the
/// consumers of its operands.
fn pass_on(candidates: &mut [Candidate], at: usize) {
    let (operands, users) = candidates.split_at_mut(at);
    let user = &users[0];
    for (number, operand) in user.operands.iter().enumerate() {
        let Some(index) = operand.candidate else {
            continue;
        };
        let (operand, of_user) = (&mut operands[index], Use::of(user, number));
        if user.is_stored {
            let elements = match &*user.op {
                Op::View(..) | Op::Gather { .. } => user.node.elements,
                _ => operand.node.elements,
            };
            operand.add_consumer(user.node.id, elements, Times::ONCE.of_operand(of_user));
        } else {
            for consumer in &user.consumers {
                let times = consumer.times.of_operand(of_user);
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
            Op::Gather { .. } => COSTLY,
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
