//! Properties of a kernel's code that bound the synchronisation that its threads can perform.

use crate::ptx::Kernel;
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
    /// True if the code has `fence.sc` or `membar`.
    pub(super) sequential: bool,
    /// True if the code has barriers of the block.
    pub(super) barriers: bool,
}

fn fences(code: &Code) -> impl Iterator<Item = MemoryOrder> {
    code.instrs.iter().filter_map(|instr| match instr.op {
        Op::Fence { order } => Some(order),
        _ => None,
    })
}

fn accesses(code: &Code) -> impl Iterator<Item = MemoryOrder> {
    let accesses = code.loads.iter().chain(&code.stores);
    let accesses = accesses.filter(|access| access.synchronises);
    let accesses = accesses.map(|access| access.order);
    accesses.chain(code.atomics.iter().map(|atomic| atomic.order))
}

/// Returns whether a kernel has a fence or a release operation whose scope is not the block.
pub(crate) fn releases(kernel: &Kernel) -> bool {
    let code = &kernel.code;
    let mut orders = fences(code).chain(accesses(code));
    orders.any(|order| order.release && !order.block_only)
}

impl CodeSummary {
    pub(super) fn new(code: &Code) -> Self {
        let accesses: Vec<_> = accesses(code).collect();
        let fences: Vec<_> = fences(code).collect();
        let mut all = fences.iter().chain(&accesses);
        let operation = |order: &MemoryOrder| order.acquire || order.release;
        Self {
            scoped: all.clone().any(|order| order.block_only),
            releases: all.any(|order| order.release),
            sequential: fences.iter().any(|order| order.sequential),
            barriers: !code.barriers.is_empty(),
            patterns: accesses.iter().any(operation)
                && accesses
                    .iter()
                    .any(|order| !(order.acquire && order.release)),
        }
    }
}
