//! The size of a kernel.

use smallvec::SmallVec;

use crate::{
    expr::Op,
    plan::limits::{COSTLY_MAX, HIDDEN, INPUTS_MAX, LIVE_MAX, OPERATIONS_MAX, SECTION_INPUTS_MAX},
};

/// An upper bound of the size of a computation within a kernel.
#[derive(Clone, Default)]
pub(crate) struct Size {
    pub(crate) operations: usize,
    pub(crate) costly: usize,
    /// The number of values that are needed at the same time.
    pub(crate) live: usize,
    /// The arrays read from memory, by node id.
    pub(crate) inputs: SmallVec<[u64; 4]>,
}

impl Size {
    pub(crate) fn is_too_large(&self) -> bool {
        self.operations > OPERATIONS_MAX
            || self.costly > COSTLY_MAX
            || self.live > LIVE_MAX
            || self.inputs.len() > INPUTS_MAX
    }

    /// Returns whether a kernel is too large that computes each of several such values in blocks of
    /// its own, so that one is live at a time.
    pub(crate) fn is_too_large_for_sections(&self) -> bool {
        self.operations > OPERATIONS_MAX
            || self.costly > COSTLY_MAX
            || self.inputs.len() > SECTION_INPUTS_MAX
    }

    /// Returns whether the computation takes no longer than the accesses of a kernel to memory.
    pub(crate) fn is_hidden(&self) -> bool {
        self.costly == 0 && self.operations <= HIDDEN
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.costly += other.costly;
        self.live += other.live;
        for &input in &other.inputs {
            self.add_input(input);
        }
    }

    pub(crate) fn add_input(&mut self, input: u64) {
        if !self.inputs.contains(&input) {
            self.inputs.push(input);
            self.live += 1;
        }
    }

    pub(crate) fn add_operation(&mut self, op: &Op) {
        // Neither a constant nor a view of a single element takes an instruction.
        let is_value = match op {
            Op::Constant(_) => false,
            Op::View(source, _) => source.elements > 1,
            _ => true,
        };
        self.operations += usize::from(is_value);
        self.live += usize::from(is_value);
        self.costly += usize::from(is_costly(op));
    }
}

/// Returns whether an operation takes some tens of instructions.
pub(crate) fn is_costly(op: &Op) -> bool {
    matches!(op, Op::Apply(function, _) if function.is_costly())
}
