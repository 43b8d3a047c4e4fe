//! A block: its warps in turn, its shared memory and its barriers.

use super::barrier::Barriers;
use super::copy::Copies;
use super::dispatch;
use super::launch::{GlobalMemory, Launch};
use super::memory::{Cached, Memory, Traffic};
use super::observe::Observer;
use super::step::Failed;
use super::warp::{Group, Pause, Shape, Wait, Warp, deadlock};
use crate::ptx::ir::Code;

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) warp: u64,
    pub(super) thread: u64,
    pub(super) traffic: Traffic,
}

/// What a warp uses besides its own state.
pub(super) struct Shared<'r, 'm> {
    pub(super) code: &'r Code,
    pub(super) global: &'m dyn GlobalMemory,
    pub(super) params: &'r [u8],
    pub(super) step_limit: u64,
    pub(super) memory: &'r mut [u8],
    pub(super) barriers: &'r mut Barriers,
    pub(super) copies: &'r mut Copies,
    pub(super) counts: &'r mut Counts,
    pub(super) cached_loads: &'r mut [Cached<'m>],
    pub(super) cached_stores: &'r mut [Cached<'m>],
    pub(super) cached_atomics: &'r mut [Cached<'m>],
}

/// The memory that the warp with this local memory can reach, and where an instruction remembers
/// its last region.
macro_rules! reach {
    ($name:ident, $cached:ident) => {
        #[inline(always)]
        pub(super) fn $name<'s>(
            &'s mut self,
            local: &'s mut [u8],
            index: u32,
        ) -> (Memory<'s, 'm>, &'s mut Cached<'m>) {
            let memory = Memory {
                global: self.global,
                shared: self.memory,
                local,
                local_bytes: self.code.local_bytes as usize,
                params: self.params,
                traffic: &mut self.counts.traffic,
            };
            (memory, &mut self.$cached[index as usize])
        }
    };
}

impl<'m> Shared<'_, 'm> {
    reach!(loads, cached_loads);
    reach!(stores, cached_stores);
    reach!(atomics, cached_atomics);

    /// The same memory, for what looks regions up each time.
    pub(super) fn all<'s>(&'s mut self, local: &'s mut [u8]) -> Memory<'s, 'm> {
        Memory {
            global: self.global,
            shared: self.memory,
            local,
            local_bytes: self.code.local_bytes as usize,
            params: self.params,
            traffic: &mut self.counts.traffic,
        }
    }
}

/// What one worker keeps from block to block.
pub(super) struct Worker<'m> {
    global: &'m dyn GlobalMemory,
    pub(super) counts: Counts,
    cached_loads: Vec<Cached<'m>>,
    cached_stores: Vec<Cached<'m>>,
    cached_atomics: Vec<Cached<'m>>,
}

impl<'m> Worker<'m> {
    pub(super) fn new(code: &Code, global: &'m dyn GlobalMemory) -> Self {
        Self {
            global,
            counts: Counts::default(),
            cached_loads: vec![None; code.loads.len()],
            cached_stores: vec![None; code.stores.len()],
            cached_atomics: vec![None; code.atomics.len()],
        }
    }
}

/// Why a block stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All its threads have exited.
    Done,
    /// Some of its warps seem to wait for something outside of it.
    Waiting,
    /// It can go on at any time.
    Running,
}

/// A block that failed: the thread's number in the block, and where.
pub(super) struct FailedThread {
    pub(super) thread: u32,
    pub(super) failed: Failed,
}

/// A block that runs.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) index: u64,
    warps: Vec<Warp>,
    memory: Vec<u8>,
    barriers: Barriers,
    /// Asynchronous copies that no thread has waited for.
    copies: Copies,
    /// Warps with threads that live.
    running: Vec<usize>,
}

impl Block {
    /// Starts the block with that number in the grid, x fastest. What the block held before is used
    /// again.
    pub(super) fn start(&mut self, index: u64, code: &Code, launch: &Launch<'_>) {
        let threads = launch.block.iter().product::<u32>();
        let warp_count = threads.div_ceil(32);
        let shape = Shape {
            grid: launch.grid,
            block: launch.block,
            block_index: coordinates(index, launch.grid),
            static_shared_bytes: code.shared_bytes,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            variables: launch.variables,
        };
        self.index = index;
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
            warp.start(number, threads - number * 32, code, &shape);
        }
    }

    /// Runs each warp until it pauses.
    pub(super) fn run_round<O: Observer>(
        &mut self,
        code: &Code,
        launch: &Launch<'_>,
        worker: &mut Worker<'_>,
        observer: &mut O,
    ) -> Result<Progress, FailedThread> {
        let Self {
            warps,
            memory,
            barriers,
            copies,
            running,
            ..
        } = self;
        observer.enter(self.index);
        let mut waiting = false;
        let mut moved = false;
        let mut failure = None;
        running.retain(|&number| {
            if failure.is_some() {
                return true;
            }
            let mut shared = Shared {
                code,
                global: worker.global,
                params: launch.params,
                step_limit: launch.step_limit,
                memory,
                barriers,
                copies,
                counts: &mut worker.counts,
                cached_loads: &mut worker.cached_loads,
                cached_stores: &mut worker.cached_stores,
                cached_atomics: &mut worker.cached_atomics,
            };
            let before = shared.counts.warp;
            match dispatch::run(&mut warps[number], &mut shared, observer) {
                Ok(Pause::Done) => {
                    moved = true;
                    false
                }
                Ok(Pause::Blocked) => {
                    moved |= shared.counts.warp > before;
                    true
                }
                Ok(Pause::Yield { waiting: waits }) => {
                    moved = true;
                    waiting |= waits;
                    true
                }
                Err(failed) => {
                    failure = Some(FailedThread {
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
        if running.is_empty() {
            observer.leave(self.index);
            return Ok(Progress::Done);
        }
        if !moved {
            return Err(self.stuck(code));
        }
        Ok(if waiting {
            Progress::Waiting
        } else {
            Progress::Running
        })
    }

    /// The first thread of a block that can never go on.
    fn stuck(&self, code: &Code) -> FailedThread {
        let first = self
            .running
            .iter()
            .find_map(|number| Some((*number, self.warps[*number].groups.first()?)));
        let (number, group) = match first {
            Some((number, group)) => (number, *group),
            None => (
                0,
                Group {
                    pc: 0,
                    mask: 1,
                    wait: Wait::Nothing,
                },
            ),
        };
        let lane = group.mask.trailing_zeros() as usize;
        // A group that waits for the block is already behind the barrier.
        let behind = matches!(group.wait, Wait::Barrier { .. });
        let failed = Failed {
            lane,
            pc: group.pc - u32::from(behind),
            kind: deadlock(code, &group),
        };
        FailedThread {
            thread: number as u32 * 32 + lane as u32,
            failed,
        }
    }
}

/// The coordinates of the `index`-th block or thread, x fastest.
pub(super) fn coordinates(index: u64, shape: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = shape.map(u64::from);
    [index % x, index / x % y, index / x / y].map(|value| value as u32)
}
