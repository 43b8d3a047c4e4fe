//! The operands of a graph's nodes: memory that may change between replays.

use std::sync::Arc;

use millstream_driver::DevicePtr;

use super::body::Block;
use crate::memory::Allocation;

#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) pointer: DevicePtr,
    pub(super) bytes: u64,
    pub(super) memory: OperandMemory,
    /// The alignment of the recorded address, which every other address of the operand has too.
    pub(super) alignment: u64,
}

/// The largest alignment of an address on which an operation relies: that of arrays.
const ALIGNMENT_MAX: u64 = 256;

#[derive(Clone, Debug)]
pub(super) enum OperandMemory {
    /// An array that the program may use too.
    Outside(Arc<Allocation>),
    /// An array made in the recording that did not leave it, before a [body](super::body) has it.
    Recorded {
        allocation: Arc<Allocation>,
        /// True if replays only read it.
        constant: bool,
    },
    /// Memory of the graph's body, or of that of another graph whose replay was recorded.
    Block(Arc<Block>),
}

impl Operand {
    pub(super) fn new(pointer: DevicePtr, bytes: u64, memory: OperandMemory) -> Self {
        let address = pointer.as_raw() | ALIGNMENT_MAX;
        Self {
            pointer,
            bytes,
            memory,
            alignment: 1 << address.trailing_zeros(),
        }
    }

    /// Returns the array, if the program may use it too.
    pub(super) fn outside(&self) -> Option<&Arc<Allocation>> {
        match &self.memory {
            OperandMemory::Outside(allocation) => Some(allocation),
            OperandMemory::Recorded { .. } | OperandMemory::Block(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) operand: usize,
    pub(super) offset: u64,
}

impl Address {
    pub(super) fn resolve(self, operands: &[Operand]) -> DevicePtr {
        operands[self.operand].pointer.offset(self.offset)
    }
}
