//! The blocks of a launch in turn, in the order of the launch, and a launch that waits.

use std::cell::Cell;
use std::collections::VecDeque;

use super::block::{Block, BlockFault, BlockStatus, Worker};
use super::cooperative::is_workspace;
use super::fault::{KernelFault, KernelFaultKind};
use super::kernel_access::coordinates;
use super::launch::{GlobalMemory, KernelStats, Launch};
use super::observer::Observer;
use super::order::{KernelOrder, LaunchOrder};
use super::polling::{CycleFinder, PolledBytes, PolledMemory};
use super::step::WarpFault;
use super::warp_context::Counters;
use crate::memory::Backing;
use crate::ptx::Kernel;

/// The maximum number of blocks that run in turn while some wait for others.
const RESIDENT_MAX: usize = 1024;

/// The number of consecutive rounds of waiting after which the next block joins the resident ones.
const ROUNDS_ALONE: u32 = 16;

/// The number of rounds without the end of a block after which the next block joins the resident
/// ones though they do not seem to wait: a loop with barriers or locks changes memory, and may
/// nevertheless wait for the next block.
const ROUNDS_BUSY: u32 = 512;

/// The least number of rounds that look alike before their states are compared.
const ALIKE_MIN: u64 = 32;

/// The number of rounds that a round without waits counts as, because it is that much longer.
const BUSY_ROUND: u64 = 8;

/// The maximum number of states that are compared.
const STATES_MAX: usize = 256;

/// The blocks of a launch that run in turn, between two rounds.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) resident: VecDeque<Box<Block>>,
    spare: Option<Box<Block>>,
    /// The number of blocks that have started.
    pub(super) next: u64,
    rounds_waited: u32,
    /// The number of rounds since a block joined or ended.
    rounds: u32,
    /// Whether blocks execute the hoisted operations apart from the others.
    hoists: bool,
    pub(super) counters: Counters,
    /// The consecutive rounds that looked like the ones of their blocks before them; a round that
    /// did not wait counts as [`BUSY_ROUND`].
    alike: u64,
    /// The counters before these rounds.
    counters_before: Counters,
    has_waited: bool,
}

/// The reason why blocks stopped taking turns.
pub(super) enum TurnsEnd {
    /// All blocks have ended.
    Ended,
    /// The caller's condition holds.
    Paused,
    /// The launch waits for a change of one of these bytes.
    Waiting(PolledBytes),
}

/// A launch, with the order of its blocks.
#[derive(Clone, Copy)]
pub(super) struct Ordered<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) launch: &'a Launch<'a>,
    pub(super) order: &'a LaunchOrder,
}

impl<'a> Ordered<'a> {
    pub(super) fn new(kernel: &'a Kernel, launch: &'a Launch<'a>, order: &'a LaunchOrder) -> Self {
        Self {
            kernel,
            launch,
            order,
        }
    }
}

impl Turns {
    pub(super) fn new(hoists: bool) -> Self {
        Self {
            hoists,
            ..Self::default()
        }
    }

    /// One block, of a launch of `blocks`, all of which have started.
    pub(super) fn alone(block: Box<Block>, blocks: u64) -> Self {
        Self {
            resident: VecDeque::from([block]),
            next: blocks,
            ..Self::new(true)
        }
    }

    /// Runs the blocks in the given order until all have ended. While blocks seem to wait for
    /// other blocks, further blocks join them, and the resident blocks run in turn. The blocks of
    /// a cooperative launch run in turn from the beginning.
    pub(super) fn run<O: Observer>(
        &mut self,
        of: Ordered<'_>,
        memory: &dyn GlobalMemory,
        observer: &mut O,
    ) -> Result<(), KernelFault> {
        self.take(of, memory, observer, |_| false).map(drop)
    }

    /// Runs the blocks like [`run`](Self::run), but also ends when the launch waits for a write
    /// from outside. What its last polls cost is then not counted.
    pub(super) fn run_until_waiting<O: Observer>(
        &mut self,
        of: Ordered<'_>,
        memory: &dyn GlobalMemory,
        observer: &mut O,
    ) -> Result<TurnsEnd, KernelFault> {
        // A launch that has waited will wait again.
        let mut patience = if self.has_waited { 1 } else { ALIKE_MIN };
        loop {
            self.alike = 0;
            let suspects = |turns: &Self| {
                turns.alike >= patience && turns.alike > 2 * turns.resident.len() as u64
            };
            let end = self.take(of, memory, observer, suspects)?;
            if matches!(end, TurnsEnd::Ended) {
                return Ok(end);
            }
            match self.compare(of, memory, observer)? {
                TurnsEnd::Waiting(_)
                    if self.next < of.order.blocks() && self.resident.len() < RESIDENT_MAX =>
                {
                    self.rounds_waited = ROUNDS_ALONE + 1;
                }
                TurnsEnd::Paused => patience *= 4,
                end => {
                    self.has_waited = true;
                    self.counters = self.counters_before;
                    return Ok(end);
                }
            }
        }
    }

    /// Runs further rounds, and compares the states in between. Ends paused if none repeats.
    fn compare<O: Observer>(
        &mut self,
        of: Ordered<'_>,
        memory: &dyn GlobalMemory,
        observer: &mut O,
    ) -> Result<TurnsEnd, KernelFault> {
        let memory = PolledMemory::new(memory);
        let mut cycle = CycleFinder::default();
        for _ in 0..STATES_MAX {
            let rounds = Cell::new(self.resident.len());
            let is_over = |_: &Self| {
                rounds.set(rounds.get().saturating_sub(1));
                rounds.get() == 0
            };
            let end = self.take(of, &memory, observer, is_over)?;
            if matches!(end, TurnsEnd::Ended) {
                self.counters_before = self.counters;
                return Ok(end);
            }
            let Some(polled) = memory.polled() else {
                break;
            };
            // Nothing else can end a loop that accesses nothing, or only the launch's workspace.
            if polled.iter().all(|(address, _)| is_workspace(*address)) {
                break;
            }
            if cycle.repeats(&(&self.resident, self.next, &polled)) {
                return Ok(TurnsEnd::Waiting(polled));
            }
        }
        Ok(TurnsEnd::Paused)
    }

    /// Runs the blocks in turn until all have ended or `pauses` holds after a round.
    fn take<O: Observer>(
        &mut self,
        Ordered {
            kernel,
            launch,
            order,
        }: Ordered<'_>,
        memory: &dyn GlobalMemory,
        observer: &mut O,
        pauses: impl Fn(&Self) -> bool,
    ) -> Result<TurnsEnd, KernelFault> {
        let code = &kernel.code;
        let blocks = order.blocks();
        let mut worker = Worker::new(code, memory);
        worker.count_from(self.counters);
        worker.allow(launch.step_limit);
        loop {
            let waits = self.rounds_waited > ROUNDS_ALONE || self.rounds > ROUNDS_BUSY;
            let join = waits && self.resident.len() < RESIDENT_MAX;
            if self.next < blocks && (self.resident.is_empty() || join || launch.cooperative) {
                let mut block = self.spare.take().unwrap_or_else(Block::spare);
                block.start(order.block(self.next), code, launch, self.hoists);
                block.arrange(order);
                self.resident.push_front(block);
                self.next += 1;
                (self.rounds_waited, self.rounds) = (0, 0);
            }
            let Some(mut block) = self.resident.pop_front() else {
                self.counters = worker.counters;
                if let Some(block) = self.spare.take() {
                    block.keep();
                }
                return Ok(TurnsEnd::Ended);
            };
            let index = block.index;
            let before = worker.counters.numbers();
            match block.run_round(kernel, launch, &mut worker, observer) {
                Ok(BlockStatus::Done) => {
                    (self.rounds_waited, self.rounds) = (0, 0);
                    self.alike = 0;
                    memory.blocks_done(1);
                    if order.token() == KernelOrder::Index {
                        worker.allow(launch.step_limit);
                    }
                    self.spare = Some(block);
                }
                Ok(progress) => {
                    self.rounds += 1;
                    self.rounds_waited = match progress {
                        BlockStatus::Waiting => self.rounds_waited + 1,
                        BlockStatus::Preempted => ROUNDS_ALONE + 1,
                        BlockStatus::Running | BlockStatus::Done => 0,
                    };
                    let after = worker.counters.numbers();
                    let spent = std::array::from_fn(|at| after[at] - before[at]);
                    if block.spent == spent {
                        let busy = progress == BlockStatus::Running;
                        self.alike += if busy { BUSY_ROUND } else { 1 };
                    } else {
                        block.spent = spent;
                        self.alike = 0;
                        self.counters_before = worker.counters;
                    }
                    self.resident.push_back(block);
                    if pauses(self) {
                        self.counters = worker.counters;
                        return Ok(TurnsEnd::Paused);
                    }
                }
                Err(failure) => return Err(fault(kernel, launch, index, failure)),
            }
        }
    }

    /// Returns the launch as one that waits for a change of these bytes.
    pub(super) fn wait_for(
        self,
        Ordered { kernel, launch, .. }: Ordered<'_>,
        mut polled: PolledBytes,
        workspace: Option<Backing>,
    ) -> Box<WaitingGrid> {
        polled.retain(|(address, _)| !is_workspace(*address));
        let kind = KernelFaultKind::NeverWoken {
            address: polled.first().map_or(0, |(address, _)| *address),
        };
        let first = self.resident.iter().min_by_key(|block| block.index);
        let (index, (thread, pc)) = match first {
            Some(block) => (block.index, block.poll(&kernel.code)),
            None => (0, (0, 0)),
        };
        let failed = WarpFault::new(thread as usize % 32, pc, kind);
        let failure = BlockFault { thread, failed };
        Box::new(WaitingGrid {
            place: fault(kernel, launch, index, failure),
            stats: self.counters.stats(self.next),
            polled,
            turns: self,
            workspace,
        })
    }
}

/// A launch that waits for another operation, or the host, to write what it polls.
#[derive(Debug)]
pub(crate) struct WaitingGrid {
    pub(super) turns: Turns,
    pub(super) workspace: Option<Backing>,
    /// The bytes, with the values that keep the launch waiting.
    pub(crate) polled: PolledBytes,
    /// The fault of a launch that waits for ever, with the first poll.
    pub(crate) place: KernelFault,
    /// The work so far, without the last polls.
    pub(crate) stats: KernelStats,
}

pub(super) fn fault(
    kernel: &Kernel,
    launch: &Launch<'_>,
    block: u64,
    failure: BlockFault,
) -> KernelFault {
    let source = |pc| kernel.source(pc).map(String::into_boxed_str);
    let mut kind = failure.failed.kind;
    if let KernelFaultKind::StepLimit { limit } = &mut kind {
        *limit = launch.step_limit;
    }
    KernelFault {
        kernel: kernel.name().into(),
        block: coordinates(block, launch.grid),
        thread: coordinates(u64::from(failure.thread), launch.block),
        ptx_line: kernel.line(failure.failed.pc),
        source_line: source(failure.failed.pc),
        kind,
    }
}
