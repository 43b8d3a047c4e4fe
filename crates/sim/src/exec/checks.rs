//! Observers of a launch: the checks for races within it, for skipped barriers and for uses of
//! uninitialised values, and the recording of watched instructions.

use std::collections::BTreeMap;

use super::barrier::Barriers;
use super::initialisation::InitialisationCheck;
use super::kernel_access::KernelAccess;
use super::kernel_errors::KernelErrors;
use super::launch::{GlobalMemory, Launch};
use super::observer::{AsyncCopy, AtomicOperands, BarrierArrivalEvent, IssuePoint, Observer};
use super::order::{KernelOrders, LaunchOrder};
use super::races::{KernelRace, RaceDetector, RaceModel};
use super::registers::Words;
use super::skipped_barriers::SkippedBarriers;
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
    /// Whether uses of uninitialised values and accesses to wrong variables are found.
    pub(crate) initialisation: bool,
    /// The orders in which the launch runs to be checked.
    pub(crate) orders: KernelOrders,
    /// The instructions whose first execution is recorded, in ascending order.
    pub(crate) instructions: &'a [u32],
    /// The text of the module, if repairs of races are to be tried.
    pub(crate) text: Option<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct CheckFindings {
    pub(crate) races: Vec<KernelRace>,
    /// Errors that only other orders than that of the indices showed.
    pub(crate) kernel_errors: KernelErrors,
    /// The first execution of each watched instruction that was executed.
    pub(crate) executed: Vec<(u32, KernelAccess)>,
}

pub(super) struct LaunchChecks<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    races: Option<RaceDetector<'a>>,
    pub(super) initialisation: Option<InitialisationCheck<'a>>,
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
            initialisation: None,
            order,
            atomics: 0,
            instructions,
            executed: BTreeMap::new(),
            block: 0,
        }
    }

    pub(super) fn findings(self) -> CheckFindings {
        CheckFindings {
            kernel_errors: KernelErrors::default(),
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

/// Passes notifications on to the check for races.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {
        $(fn $name(&mut self, $($argument: $ty),*) {
            if let Some(races) = &mut self.races {
                races.$name($($argument),*);
            }
        })*
    };
}

impl Observer for LaunchChecks<'_> {
    const ON: bool = true;

    fn steps(&self) -> bool {
        self.initialisation.is_some()
    }

    fn step(&mut self, warp: &mut Warp, at: IssuePoint, reached: u32) {
        if let Some(check) = &mut self.initialisation {
            check.step(self.block, warp, at, reached);
        }
    }

    fn enter(&mut self, block: u64) {
        self.block = block;
        if let Some(races) = &mut self.races {
            races.enter(block);
        }
    }

    fn leave(&mut self, block: u64) {
        if let Some(check) = &mut self.initialisation {
            check.leave(block);
        }
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

    pass_on! {
        image_read(warp: &Warp, pc: u32, lane: usize, texel: (u64, u64));
        copied(warp: &Warp, copy: &AsyncCopy, waited: bool);
        copies_tracked(warp: u32, lane: usize, at: u64);
        copies_arrived(thread: (u32, usize), at: u64, copies: &[u64], completes: bool);
        mbarrier(warp: &Warp, at: IssuePoint, warp_access: &WarpAccess, operation: &Mbarrier);
        mbarrier_arrived(thread: (u32, usize), at: u64, releases: bool, completes: bool);
        mbarrier_waited(warp: u32, lane: usize, at: u64);
        fence(warp: &Warp, mask: u32, order: MemoryOrder);
        exchanged(warp: &Warp, exchange: &Exchange, members: &Words, done: u32);
        converged(warp: &Warp, lanes: u32);
        exited(warp: &Warp, mask: u32, barriers: &Barriers);
    }

    fn preempts(&mut self) -> bool {
        self.atomics += 1;
        self.order.preempts(self.atomics)
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
}
