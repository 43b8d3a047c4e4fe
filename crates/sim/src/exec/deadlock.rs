//! Deadlocks: the threads of a block that wait for others that can never arrive.

use std::collections::BTreeMap;

use super::fault::KernelFaultKind;
use super::warp::{WaitReason, Warp, WarpSplit, exchange_at};
use crate::ptx::ir::Code;

/// Returns the fault of a split that can never continue, with the operation that it waits at.
pub(super) fn deadlock(code: &Code, split: &WarpSplit) -> KernelFaultKind {
    KernelFaultKind::BarrierDeadlock {
        what: split.waits_at(code),
        waiting: Box::default(),
    }
}

impl WarpSplit {
    /// Returns the name of the operation that a waiting split waits at.
    pub(super) fn waits_at(&self, code: &Code) -> &'static str {
        match self.wait {
            WaitReason::Barrier { .. } => "bar.sync",
            _ => exchange_at(code, self.pc).map_or("bar.warp.sync", |exchange| exchange.f.name()),
        }
    }

    /// Returns the program counter of the operation that a waiting split waits at.
    pub(super) fn waiting_pc(&self) -> u32 {
        // The program counter of a split that waits at a barrier is already past the barrier.
        self.pc - u32::from(matches!(self.wait, WaitReason::Barrier { .. }))
    }
}

/// Threads of a block that wait at one operation.
pub(super) struct WaitingAt {
    pub(super) pc: u32,
    pub(super) what: &'static str,
    pub(super) threads: u32,
    /// The number of the first of them in the block.
    pub(super) first: u32,
}

/// Returns the waiting threads of these warps, grouped by the operation that they wait at.
pub(super) fn waiting_threads<'a>(
    code: &Code,
    warps: impl Iterator<Item = &'a Warp>,
) -> Vec<WaitingAt> {
    let mut waiting: BTreeMap<u32, WaitingAt> = BTreeMap::new();
    for warp in warps {
        let splits = warp.splits.iter();
        for split in splits.filter(|split| split.wait != WaitReason::Nothing) {
            let first = warp.index * 32 + split.mask.trailing_zeros();
            let group = waiting.entry(split.waiting_pc()).or_insert(WaitingAt {
                pc: split.waiting_pc(),
                what: split.waits_at(code),
                threads: 0,
                first,
            });
            group.threads += split.mask.count_ones();
            group.first = group.first.min(first);
        }
    }
    waiting.into_values().collect()
}
