//! A thread block: runs its warps in turn, and owns its shared memory and barriers.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use super::barrier::Barriers;
use super::cooperative;
use super::copy::BlockCopies;
use super::deadlock::{Stuck, deadlock};
use super::dispatch;
use super::fused;
use super::kernel_access::coordinates;
use super::launch::{GlobalMemory, Launch};
use super::memory::CachedRegion;
use super::observer::Observer;
use super::order::LaunchOrder;
use super::step::WarpFault;
use super::warp::{BlockInfo, WaitReason, Warp, WarpSplit, WarpStatus};
use super::warp_context::{Counters, WarpContext};
use crate::ptx::Kernel;
use crate::ptx::ir::{Code, Instr, Op};

/// The maximum number of instructions between the head of a loop and the poll in it.
const POLL_DISTANCE_MAX: usize = 64;

/// The maximum number of bytes that a thread keeps between launches.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// State that a worker thread keeps from block to block.
pub(super) struct Worker<'m> {
    global: &'m dyn GlobalMemory,
    pub(super) counters: Counters,
    /// The number of warp instructions after which a block fails, because it seems never to end.
    step_limit: u64,
    cached_loads: Vec<CachedRegion<'m>>,
    cached_stores: Vec<CachedRegion<'m>>,
    cached_atomics: Vec<CachedRegion<'m>>,
}

impl<'m> Worker<'m> {
    pub(super) fn new(code: &Code, global: &'m dyn GlobalMemory) -> Self {
        Self {
            global,
            counters: Counters::default(),
            step_limit: 0,
            cached_loads: vec![None; code.loads.len()],
            cached_stores: vec![None; code.stores.len()],
            cached_atomics: vec![None; code.atomics.len()],
        }
    }

    /// Goes on counting from the counters of an earlier worker.
    pub(super) fn count_from(&mut self, counters: Counters) {
        self.counters = counters;
    }

    /// Lets the next blocks execute this many warp instructions.
    pub(super) fn allow(&mut self, steps: u64) {
        self.step_limit = self.counters.warp.saturating_add(steps);
    }
}

/// The reason why a block stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockStatus {
    /// All threads have exited.
    Done,
    /// Some warps seem to wait for something outside the block.
    Waiting,
    /// Other blocks are to run first, by the order of the launch.
    Preempted,
    /// The block can continue at any time.
    Running,
}

/// The fault of a block: the thread's number in the block, and the fault of its warp.
pub(super) struct BlockFault {
    pub(super) thread: u32,
    pub(super) failed: WarpFault,
}

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) index: u64,
    warps: Vec<Warp>,
    memory: Vec<u8>,
    barriers: Barriers,
    /// Asynchronous copies that no thread has waited for yet.
    copies: BlockCopies,
    /// The indices of warps with live threads.
    running: Vec<usize>,
    /// True if the hoisted operations are executed apart from the others.
    hoists: bool,
    /// The counters of the last round, by which a block that polls is suspected.
    pub(super) spent: [u64; 5],
}

impl Hash for Block {
    /// Hashes the state that decides how the block goes on.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.index, &self.running, &self.warps).hash(state);
        (&self.memory, &self.barriers, &self.copies).hash(state);
    }
}

thread_local! {
    /// The last block that this thread ran, whose storage the next launch uses.
    static SPARE: Cell<Option<Box<Block>>> = const { Cell::new(None) };
}

impl Block {
    /// Returns a block that has not started, with the storage of an earlier launch's if there is
    /// one.
    pub(super) fn spare() -> Box<Self> {
        SPARE
            .try_with(Cell::take)
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Keeps the storage of a block that has ended for this thread's next launch, unless it is
    /// large.
    pub(super) fn keep(mut self: Box<Self>) {
        let bytes = self.warps.iter().map(Warp::bytes).sum::<usize>() + self.memory.capacity();
        if bytes <= SPARE_BYTES_MAX {
            self.warps.iter_mut().for_each(Warp::forget_launch);
            // A thread that ends drops the block.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    /// Starts block `index` of the grid (x fastest), reusing the storage of the previous block.
    ///
    /// With `hoists`, which is the same for all blocks of a launch and false for an observer, the
    /// hoisted operations are executed only before the first block.
    pub(super) fn start(&mut self, index: u64, code: &Code, launch: &Launch<'_>, hoists: bool) {
        let threads = launch.block.iter().product::<u32>();
        let warp_count = threads.div_ceil(32);
        let block_info = BlockInfo {
            grid: launch.grid,
            block: launch.block,
            block_index: coordinates(index, launch.grid),
            static_shared_bytes: code.shared_bytes,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            grid_workspace: cooperative::workspace_address(launch),
            variables: launch.variables,
        };
        self.index = index;
        self.hoists = hoists;
        self.spent = [0; 5];
        self.memory.clear();
        self.memory.resize(
            (code.shared_bytes + launch.dynamic_shared_bytes) as usize,
            0,
        );
        self.barriers.start(threads);
        self.copies.start(warp_count as usize);
        self.warps.resize_with(warp_count as usize, Warp::default);
        self.running.clear();
        self.running.extend(0..self.warps.len());
        for (warp, number) in self.warps.iter_mut().zip(0..) {
            warp.start(number, threads - number * 32, code, &block_info, hoists);
        }
    }

    /// Brings the warps, which have not run, into the launch's order.
    pub(super) fn arrange(&mut self, order: &LaunchOrder) {
        order.arrange(self.index, &mut self.running);
    }

    /// Runs each warp until it pauses.
    pub(super) fn run_round<O: Observer>(
        &mut self,
        kernel: &Kernel,
        launch: &Launch<'_>,
        worker: &mut Worker<'_>,
        observer: &mut O,
    ) -> Result<BlockStatus, BlockFault> {
        let code = &kernel.code;
        let block = self.index;
        let Self {
            warps,
            memory,
            barriers,
            copies,
            running,
            hoists,
            ..
        } = self;
        observer.enter(self.index);
        let fused = if *hoists {
            fused::code(code, launch.jit)
        } else {
            None
        };
        let started = worker.counters.warp;
        let mut waiting = false;
        let mut preempted = false;
        let mut moved = false;
        let mut failure = None;
        running.retain(|&number| {
            if failure.is_some() {
                return true;
            }
            let mut shared = WarpContext {
                kernel,
                launch,
                block,
                code,
                instrs: match fused {
                    Some(fused) => &fused.instrs,
                    None if *hoists => &code.executed,
                    None => &code.instrs,
                },
                fused,
                global: worker.global,
                params: launch.params,
                step_limit: worker.step_limit,
                memory,
                barriers,
                copies,
                counters: &mut worker.counters,
                cached_loads: &mut worker.cached_loads,
                cached_stores: &mut worker.cached_stores,
                cached_atomics: &mut worker.cached_atomics,
            };
            let before = shared.counters.warp;
            match dispatch::run(&mut warps[number], &mut shared, observer) {
                Ok(WarpStatus::Done) => {
                    moved = true;
                    false
                }
                Ok(WarpStatus::Blocked) => {
                    moved |= shared.counters.warp > before;
                    true
                }
                Ok(WarpStatus::Preempted) => {
                    moved = true;
                    preempted = true;
                    true
                }
                Ok(WarpStatus::Yield { waiting: waits }) => {
                    moved = true;
                    waiting |= waits;
                    true
                }
                Err(mut failed) => {
                    let stuck = Stuck {
                        kernel,
                        launch,
                        barriers,
                        warps: &warps[number..=number],
                    };
                    stuck.explain(&mut failed.kind);
                    failure = Some(BlockFault {
                        thread: number as u32 * 32 + failed.lane as u32,
                        failed,
                    });
                    true
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        if fused.is_none() && *hoists {
            fused::count(code, launch.jit, worker.counters.warp - started);
        }
        if running.is_empty() {
            observer.leave(self.index);
            return Ok(BlockStatus::Done);
        }
        if !moved {
            return Err(self.stuck(kernel, launch));
        }
        Ok(if preempted {
            BlockStatus::Preempted
        } else if waiting {
            BlockStatus::Waiting
        } else {
            BlockStatus::Running
        })
    }

    /// Returns the thread that polls first and the place of its poll: the first access to global
    /// memory behind the branch at which it paused.
    pub(super) fn poll(&self, code: &Code) -> (u32, u32) {
        let runs = |split: &&WarpSplit| split.wait == WaitReason::Nothing;
        let first = self.running.iter().find_map(|number| {
            let split = self.warps[*number].splits.iter().find(runs)?;
            Some((*number as u32 * 32 + split.mask.trailing_zeros(), split.pc))
        });
        let Some((thread, pc)) = first else {
            return (0, 0);
        };
        let polls = |instr: &Instr| match instr.op {
            Op::Load(index) => code.loads[index as usize].space.is_outside_block(),
            Op::Atomic(index) => code.atomics[index as usize].space.is_outside_block(),
            _ => false,
        };
        let behind = code.instrs[pc as usize..].iter().take(POLL_DISTANCE_MAX);
        let distance = behind.clone().position(polls).unwrap_or(0);
        (thread, pc + distance as u32)
    }

    /// Returns the fault of a block that cannot make progress, reported for its first live thread.
    fn stuck(&self, kernel: &Kernel, launch: &Launch<'_>) -> BlockFault {
        let first = self
            .running
            .iter()
            .find_map(|number| Some((*number, self.warps[*number].splits.first()?)));
        let (number, split) = match first {
            Some((number, split)) => (number, *split),
            None => (0, WarpSplit::running(0, 1)),
        };
        let lane = split.mask.trailing_zeros() as usize;
        let mut kind = deadlock(&kernel.code, &split);
        let stuck = Stuck {
            kernel,
            launch,
            barriers: &self.barriers,
            warps: &self.warps,
        };
        stuck.explain(&mut kind);
        BlockFault {
            thread: number as u32 * 32 + lane as u32,
            failed: WarpFault::new(lane, split.waiting_pc(), kind),
        }
    }
}
