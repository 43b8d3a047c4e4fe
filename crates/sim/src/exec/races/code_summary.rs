//! Properties of a kernel's code that bound the synchronisation that its threads can perform.

use crate::ptx::ir::{Code, MemoryOrder, Op};

/// The kinds of synchronisation that occur in a kernel's code.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeSummary {
    /// True if the code has a release operation or a fence; without one, nothing orders its blocks.
    pub(super) releases: bool,
    /// True if the code has fences or strong accesses of block scope.
    pub(super) scoped: bool,
    /// True if a strong access may belong to a pattern with a release or acquire operation on the
    /// same location: the code has relaxed accesses besides release or acquire operations.
    pub(super) patterns: bool,
}

impl CodeSummary {
    pub(super) fn new(code: &Code) -> Self {
        let fences = code.instrs.iter().filter_map(|instr| match instr.op {
            Op::Fence { order } => Some(order),
            _ => None,
        });
        let accesses = code.loads.iter().chain(&code.stores);
        let accesses = accesses.filter(|access| access.synchronises);
        let accesses = accesses.map(|access| access.order);
        let accesses: Vec<_> = accesses
            .chain(code.atomics.iter().map(|atomic| atomic.order))
            .collect();
        let fences: Vec<_> = fences.collect();
        let mut all = fences.iter().chain(&accesses);
        let operation = |order: &MemoryOrder| order.acquire || order.release;
        Self {
            scoped: all.clone().any(|order| order.block_only),
            releases: all.any(|order| order.release),
            patterns: accesses.iter().any(operation)
                && accesses
                    .iter()
                    .any(|order| !(order.acquire && order.release)),
        }
    }
}
