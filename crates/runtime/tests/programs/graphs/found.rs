//! Operations whose arrays are found, and recorded graphs of them.

use std::collections::BTreeMap;

use super::step::{BYTES, How, Op, variable_of};

/// A range of bytes of a memory.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) memory: usize,
    pub(super) first: usize,
    pub(super) len: usize,
}

impl Place {
    pub(super) fn overlaps(self, other: Self) -> bool {
        let end = (self.first + self.len).min(other.first + other.len);
        self.memory == other.memory && self.first.max(other.first) < end
    }
}

/// An access: its range, and whether it writes.
pub(super) type Access = (Place, bool);

/// Returns the access of a kernel to the variable that it uses by name.
pub(super) fn by_name(kernel: usize) -> Option<Access> {
    let (memory, writes) = variable_of(kernel)?;
    let (first, len) = (0, BYTES);
    Some((Place { memory, first, len }, writes))
}

impl Op<Place> {
    /// Returns the places, those of a body included.
    pub(super) fn places(&mut self) -> Vec<&mut Place> {
        match self {
            Self::Set(place, ..) => vec![place],
            Self::Copy(places, _) | Self::Add(_, places, _) => places.iter_mut().collect(),
            Self::If(flag, body) => {
                let body = body.iter_mut().flat_map(Self::places);
                std::iter::once(flag).chain(body).collect()
            }
            Self::Replay(_) => Vec::new(),
        }
    }

    /// Returns the accesses, those of a body included.
    pub(super) fn accesses(&self) -> Vec<Access> {
        let is_written = |number| match self {
            Self::Set(..) => true,
            _ => number == 1,
        };
        let operands = self.operands().iter().enumerate();
        let operands = operands.map(|(number, &place)| (place, is_written(number)));
        match self {
            Self::If(_, body) => operands
                .chain(body.iter().flat_map(Self::accesses))
                .collect(),
            Self::Add(kernel, ..) => operands.chain(by_name(*kernel)).collect(),
            _ => operands.collect(),
        }
    }

    /// Returns whether nothing is enqueued. A kernel may have empty operands.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Set(..) | Self::Copy(..)) && self.operands()[0].len == 0
    }

    /// Returns whether this or an operation of a body is one that `is_it`.
    pub(super) fn any(&self, is_it: &impl Fn(&Self) -> bool) -> bool {
        match self {
            Self::If(_, body) => body.iter().any(|op| op.any(is_it)),
            op => is_it(op),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Recorded {
    pub(super) ops: Vec<Op<Place>>,
    /// The alignment of the recorded address in the place of each memory.
    pub(super) alignments: BTreeMap<usize, usize>,
}

impl Recorded {
    pub(super) fn accesses(&self) -> Vec<Access> {
        self.ops.iter().flat_map(Op::accesses).collect()
    }

    pub(super) fn writes(&self, memory: usize) -> bool {
        let mut accesses = self.accesses().into_iter();
        accesses.any(|(place, writes)| place.memory == memory && writes)
    }

    /// Returns whether an operation contains an address of the memory that cannot be changed.
    pub(super) fn is_fixed_to(&self, memory: usize) -> bool {
        let is_fixed = |op: &Op<Place>| match op {
            Op::Set(place, How::Foreign, _) => place.memory == memory,
            Op::Add(kernel, ..) => variable_of(*kernel).is_some_and(|(of, _)| of == memory),
            _ => false,
        };
        self.ops.iter().any(|op| op.any(&is_fixed))
    }
}
