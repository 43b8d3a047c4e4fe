//! The check for divergent barriers: barriers that the threads of a block reach at different lines.

use std::collections::{BTreeMap, BTreeSet};

use super::block::coordinates;
use super::launch::Launch;
use super::observer::BarrierArrivalEvent;
use super::order::KernelOrder;
use super::races::KernelAccess;
use crate::ptx::Kernel;

/// Two threads of a block that wait for each other at different lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BarrierDivergence {
    pub(crate) barrier: u32,
    /// True if the two threads belong to one warp.
    pub(crate) in_warp: bool,
    pub(crate) later: KernelAccess,
    pub(crate) earlier: KernelAccess,
    /// An order of execution that shows the divergence: the order of indices, if that does.
    pub(crate) order: KernelOrder,
}

/// A thread's arrival at a barrier.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    thread: u32,
    pc: u32,
}

/// The arrivals at a barrier since its last completion.
#[derive(Debug)]
struct PendingArrivals {
    generation: u64,
    /// The first arrival of each warp, by its number.
    warps: BTreeMap<u32, Arrival>,
    first: Arrival,
}

/// The running check of one launch.
///
/// A barrier of all threads is divergent if they reach it at two instructions, as `__syncthreads()`
/// in a branch that some threads take. The barriers of PTX are less strict for warps that name
/// another barrier than 0 or a number of threads, or execute the unaligned `barrier.sync`; such
/// code is divided by warps on purpose. The lanes of one warp must execute the same instruction,
/// unless that is unaligned.
pub(super) struct DivergenceCheck<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    order: KernelOrder,
    pending: BTreeMap<(u64, u32), PendingArrivals>,
    found: Vec<BarrierDivergence>,
    /// The pairs of instructions in `found`.
    known: BTreeSet<(u32, u32)>,
}

impl<'a> DivergenceCheck<'a> {
    pub(super) fn new(kernel: &'a Kernel, launch: &'a Launch<'a>, order: KernelOrder) -> Self {
        Self {
            kernel,
            launch,
            order,
            pending: BTreeMap::new(),
            found: Vec::new(),
            known: BTreeSet::new(),
        }
    }

    pub(super) fn into_divergences(self) -> Vec<BarrierDivergence> {
        self.found
    }

    pub(super) fn arrived(&mut self, block: u64, warp: u32, event: &BarrierArrivalEvent) {
        let arrival = Arrival {
            thread: warp * 32 + event.mask.trailing_zeros(),
            pc: event.pc,
        };
        let pending = self
            .pending
            .entry((block, event.id))
            .or_insert_with(|| PendingArrivals {
                generation: event.generation,
                warps: BTreeMap::new(),
                first: arrival,
            });
        if pending.generation != event.generation {
            *pending = PendingArrivals {
                generation: event.generation,
                warps: BTreeMap::new(),
                first: arrival,
            };
        }
        let of_warp = *pending.warps.entry(warp).or_insert(arrival);
        let first = pending.first;
        if !event.aligned {
            return;
        }
        if of_warp.pc != arrival.pc {
            self.add(block, event.id, true, of_warp, arrival);
        } else if event.id == 0 && !event.counted && event.waits && first.pc != arrival.pc {
            self.add(block, event.id, false, first, arrival);
        }
    }

    /// Drops the arrivals of a block that has ended.
    pub(super) fn leave(&mut self, block: u64) {
        let ids: Vec<_> = self.pending.range((block, 0)..=(block, u32::MAX)).collect();
        let ids: Vec<_> = ids.into_iter().map(|(key, _)| *key).collect();
        for key in ids {
            self.pending.remove(&key);
        }
    }

    fn add(&mut self, block: u64, barrier: u32, in_warp: bool, earlier: Arrival, later: Arrival) {
        let key = (earlier.pc.min(later.pc), earlier.pc.max(later.pc));
        if !self.known.insert(key) {
            return;
        }
        let access = |arrival: Arrival| KernelAccess {
            block: coordinates(block, self.launch.grid),
            thread: coordinates(arrival.thread.into(), self.launch.block),
            ptx_line: self.kernel.line(arrival.pc),
            source: self.kernel.source(arrival.pc),
            write: false,
            atomic: false,
            volatile: false,
        };
        self.found.push(BarrierDivergence {
            barrier,
            in_warp,
            later: access(later),
            earlier: access(earlier),
            order: self.order,
        });
    }
}
