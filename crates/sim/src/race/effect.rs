//! The effects of operations and of the host on memory, as reported to the checker.

use std::{ops::Range, sync::Arc};

use millstream_driver::FloatOperand;

use super::through_memory::Synchronisation;
use crate::{
    exec::{KernelAccess, KernelError, KernelOrder, KernelRace},
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
    pub(crate) fn accessed(self, flags: AccessFlags) -> Effect {
        let runs = self.runs.into_iter().map(|range| (range, flags)).collect();
        Effect::Access(self.info, runs)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// An access to bytes.
    Access(Arc<AllocationInfo>, Vec<(Range<u64>, AccessFlags)>),
    /// A copy of bytes. A missing end is memory that nothing else can access meanwhile.
    Copy {
        from: Option<ByteRanges>,
        to: Option<ByteRanges>,
    },
    /// The strong accesses by which a kernel may be ordered with others; before its accesses.
    Synchronise(Synchronisation),
    /// The beginning of an allocation's lifetime.
    Allocate(Arc<AllocationInfo>),
    /// The beginning of another lifetime of a graph's memory, without contents.
    AllocateAgain(Arc<AllocationInfo>),
    /// The reuse of an allocation, which keeps its uses and loses its contents.
    Reuse(Arc<AllocationInfo>),
    /// The end of an allocation's lifetime.
    Free(Arc<AllocationInfo>),
    /// The end of the last mapping of physical memory, which may be mapped again.
    Unmap(Arc<AllocationInfo>),
    /// The destruction of an allocation with its context, whatever its uses.
    Discard(Arc<AllocationInfo>),
    /// A race between threads of the kernel, in memory of that allocation or in shared memory.
    KernelRace(Option<Arc<AllocationInfo>>, Box<KernelRace>),
    /// An error of the kernel's threads, and an order that shows it.
    KernelError(Box<(KernelError, KernelOrder)>),
    /// An access to floating-point numbers of another size than the declared element type.
    ElementMismatch(Box<(ElementMismatch, KernelAccess)>),
    /// An access that is out of bounds or misaligned.
    InvalidAccess(Box<InvalidAccess>),
    /// A call of a host function, or output that a kernel may have printed.
    Output,
}

impl Effect {
    /// Returns whether the host can see it without a call.
    pub(super) fn is_seen_by_host(&self) -> bool {
        match self {
            Self::Access(info, _) => info.is_everyones,
            Self::Copy { from, to } => from.iter().chain(to).any(|end| end.info.is_everyones),
            Self::Output => true,
            _ => false,
        }
    }
}

/// An access that is out of bounds or misaligned.
#[derive(Clone, Debug)]
pub(crate) struct InvalidAccess {
    /// Set if the access is misaligned; otherwise it is out of bounds.
    pub(crate) misaligned: bool,
    /// The text of the problem, up to the allocation.
    pub(crate) problem: String,
    /// The allocation that contains the address, or the nearest one.
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
