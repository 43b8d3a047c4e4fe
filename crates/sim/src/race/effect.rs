//! What an operation or the host did to memory, as the checker is told.

use std::{ops::Range, sync::Arc};

use millstream_driver::FloatOperand;

use crate::{
    exec::{KernelAccess, KernelRace},
    memory::{AccessFlags, AllocationInfo},
    ptx::ParamType,
};

/// Bytes of an allocation, in ascending runs that do not overlap.
#[derive(Clone, Debug)]
pub(crate) struct ByteRanges {
    pub(crate) info: Arc<AllocationInfo>,
    pub(crate) runs: Vec<Range<u64>>,
}

impl ByteRanges {
    /// The same access to all of the bytes.
    pub(crate) fn accessed(self, flags: AccessFlags) -> Effect {
        let runs = self.runs.into_iter().map(|range| (range, flags)).collect();
        Effect::Access(self.info, runs)
    }
}

/// One thing that an operation or the host did.
#[derive(Debug)]
pub(crate) enum Effect {
    /// It accessed bytes.
    Access(Arc<AllocationInfo>, Vec<(Range<u64>, AccessFlags)>),
    /// It copied bytes; an end that is not told is memory that nobody else can reach meanwhile.
    Copy {
        from: Option<ByteRanges>,
        to: Option<ByteRanges>,
    },
    /// It began the allocation's life.
    Allocate(Arc<AllocationInfo>),
    /// It gave the allocation out again, with its users and without its content.
    Reuse(Arc<AllocationInfo>),
    /// It ended the allocation's life.
    Free(Arc<AllocationInfo>),
    /// The allocation is gone with its context, whoever used it.
    Discard(Arc<AllocationInfo>),
    /// Threads of it raced with each other, in memory of that allocation or in shared memory.
    KernelRace(Option<Arc<AllocationInfo>>, Box<KernelRace>),
    /// A thread of it accessed floating-point numbers that do not fit the declared element type.
    ElementMismatch(Box<(ElementMismatch, KernelAccess)>),
    /// It made an access that is out of bounds or misaligned.
    InvalidAccess(Box<InvalidAccess>),
}

/// An access that is out of bounds or misaligned.
#[derive(Debug)]
pub(crate) struct InvalidAccess {
    /// Whether it is not aligned; else it is out of bounds.
    pub(crate) misaligned: bool,
    /// The problem, up to the allocation.
    pub(crate) problem: String,
    /// The allocation around it, or the nearest.
    pub(crate) info: Option<Arc<AllocationInfo>>,
    pub(crate) access: KernelAccess,
}

/// An instruction whose floating-point type has another size than the declared elements.
#[derive(Clone, Debug)]
pub(crate) struct ElementMismatch {
    pub(crate) pc: u32,
    pub(crate) accessed: ParamType,
    pub(crate) declared: FloatOperand,
}
