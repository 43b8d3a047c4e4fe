//! Observers of a launch: the checks for races within it and for skipped barriers, and the
//! recording of watched instructions.

use std::collections::BTreeMap;

use super::barrier::Barriers;
use super::kernel_access::KernelAccess;
use super::launch::{GlobalMemory, Launch};
use super::observer::{AsyncCopy, AtomicOperands, BarrierArrivalEvent, IssuePoint, Observer};
use super::order::{KernelOrders, LaunchOrder};
use super::races::{KernelRace, RaceDetector, RaceModel};
use super::registers::Words;
use super::skipped_barriers::SkippedBarriers;
use super::sync_errors::SyncErrors;
use super::warp::Warp;
use super::warp_access::WarpAccess;
use crate::ptx::Kernel;
use crate::ptx::ir::{Access, Atomic, Exchange, Mbarrier, MemoryOrder};

/// The checks to perform during a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions<'a> {
    /// The memory model of the checks for races between the launch's threads and for skipped
    /// barriers, if they are enabled.
    pub(crate) races: Option<RaceModel>,
    /// The orders in which the launch runs to be checked.
    pub(crate) orders: KernelOrders,
    /// The instructions whose first execution is recorded, in ascending order.
    pub(crate) instructions: &'a [u32],
}

#[derive(Debug, Default)]
pub(crate) struct CheckFindings {
    pub(crate) races: Vec<KernelRace>,
    /// Errors of synchronisation that only other orders than that of the indices showed.
    pub(crate) sync_errors: SyncErrors,
    /// The first execution of each watched instruction that was executed.
    pub(crate) executed: Vec<(u32, KernelAccess)>,
}

pub(super) struct LaunchChecks<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    races: Option<RaceDetector<'a>>,
    skipped: SkippedBarriers<'a>,
    order: &'a LaunchOrder,
    /// The number of atomics executed.
    atomics: u64,
    instructions: &'a [u32],
    executed: BTreeMap<u32, KernelAccess>,
    block: u64,
}

impl<'a> LaunchChecks<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
        races: Option<RaceDetector<'a>>,
        order: &'a LaunchOrder,
        instructions: &'a [u32],
    ) -> Self {
        Self {
            kernel,
            launch,
            skipped: SkippedBarriers::new(kernel, launch, memory, races.is_some()),
            races,
            order,
            atomics: 0,
            instructions,
            executed: BTreeMap::new(),
            block: 0,
        }
    }

    pub(super) fn findings(self) -> CheckFindings {
        CheckFindings {
            sync_errors: SyncErrors::default(),
            races: self.races.map(RaceDetector::into_races).unwrap_or_default(),
            executed: self.executed.into_iter().collect(),
        }
    }

    fn watch(&mut self, warp: &Warp, at: IssuePoint, (write, atomic): (bool, bool)) {
        if self.instructions.binary_search(&at.pc).is_err() {
            return;
        }
        let (kernel, launch, block) = (self.kernel, self.launch, self.block);
        self.executed.entry(at.pc).or_insert_with(|| {
            let thread = warp.index * 32 + at.mask.trailing_zeros();
            KernelAccess {
                write,
                atomic,
                ..launch.place(kernel, block, thread, at.pc)
            }
        });
    }
}

impl Observer for LaunchChecks<'_> {
    const ON: bool = true;

    fn enter(&mut self, block: u64) {
        self.block = block;
        if let Some(races) = &mut self.races {
            races.enter(block);
        }
    }

    fn leave(&mut self, block: u64) {
        if let Some(races) = &mut self.races {
            races.leave(block);
            self.skipped.leave(block);
        }
    }

    fn load(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        self.watch(warp, at, (false, access.synchronises));
        if let Some(races) = &mut self.races {
            races.load(warp, at, access);
        }
    }

    fn store(&mut self, warp: &Warp, at: IssuePoint, access: &Access) {
        self.watch(warp, at, (true, access.synchronises));
        if let Some(races) = &mut self.races {
            races.store(warp, at, access);
        }
    }

    fn atomic(&mut self, warp: &Warp, at: IssuePoint, atomic: &Atomic, operands: &AtomicOperands) {
        self.watch(warp, at, (true, true));
        if let Some(races) = &mut self.races {
            races.atomic(warp, at, atomic, operands);
        }
    }

    fn image_read(&mut self, warp: &Warp, pc: u32, lane: usize, texel: (u64, u64)) {
        if let Some(races) = &mut self.races {
            races.image_read(warp, pc, lane, texel);
        }
    }

    fn copied(&mut self, warp: &Warp, copy: &AsyncCopy, waited: bool) {
        if let Some(races) = &mut self.races {
            races.copied(warp, copy, waited);
        }
    }

    fn copies_tracked(&mut self, warp: u32, lane: usize, at: u64) {
        if let Some(races) = &mut self.races {
            races.copies_tracked(warp, lane, at);
        }
    }

    fn copies_arrived(&mut self, thread: (u32, usize), at: u64, copies: &[u64], completes: bool) {
        if let Some(races) = &mut self.races {
            races.copies_arrived(thread, at, copies, completes);
        }
    }

    fn preempts(&mut self) -> bool {
        self.atomics += 1;
        self.order.preempts(self.atomics)
    }

    fn mbarrier(
        &mut self,
        warp: &Warp,
        at: IssuePoint,
        warp_access: &WarpAccess,
        operation: &Mbarrier,
    ) {
        if let Some(races) = &mut self.races {
            races.mbarrier(warp, at, warp_access, operation);
        }
    }

    fn mbarrier_arrived(&mut self, thread: (u32, usize), at: u64, releases: bool, completes: bool) {
        if let Some(races) = &mut self.races {
            races.mbarrier_arrived(thread, at, releases, completes);
        }
    }

    fn mbarrier_waited(&mut self, warp: u32, lane: usize, at: u64) {
        if let Some(races) = &mut self.races {
            races.mbarrier_waited(warp, lane, at);
        }
    }

    fn fence(&mut self, warp: &Warp, mask: u32, order: MemoryOrder) {
        if let Some(races) = &mut self.races {
            races.fence(warp, mask, order);
        }
    }

    fn exchanged(&mut self, warp: &Warp, exchange: &Exchange, members: &Words, done: u32) {
        if let Some(races) = &mut self.races {
            races.exchanged(warp, exchange, members, done);
        }
    }

    fn converged(&mut self, warp: &Warp, lanes: u32) {
        if let Some(races) = &mut self.races {
            races.converged(warp, lanes);
        }
    }

    fn arrived(&mut self, warp: &Warp, arrived: &BarrierArrivalEvent, barriers: &Barriers) {
        if let Some(races) = &mut self.races {
            races.arrived(warp, arrived, barriers);
            self.skipped.arrived(self.block, warp.index, arrived);
        }
    }

    fn reached(&mut self, warp: &Warp, pc: u32, lanes: u32) {
        self.skipped.reached((self.block, warp.index), pc, lanes);
    }

    fn exiting(&mut self, warp: &Warp, at: IssuePoint, barriers: &Barriers) {
        self.skipped.exiting((self.block, warp.index), at, barriers);
    }

    fn exited(&mut self, warp: &Warp, mask: u32, barriers: &Barriers) {
        if let Some(races) = &mut self.races {
            races.exited(warp, mask, barriers);
        }
    }
}
