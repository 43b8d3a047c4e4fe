//! Happens-before state of the threads of one block: clocks, fences and barriers.

use std::rc::Rc;

use smallvec::SmallVec;

use super::access_record::{AccessKind, AccessRecord};
use super::barrier_clocks::BarrierClocks;
use super::before_all::BeforeAll;
use super::code_summary::CodeSummary;
use super::fence_order::FenceOrder;
use super::race_model::RaceModel;
use super::release::ThreadPatterns;
use super::thread_clock::{ThreadClock, reached};
use crate::exec::barrier::{BARRIERS, Barriers};
use crate::exec::observer::BarrierArrivalEvent;
use crate::exec::registers::lanes;
use crate::ptx::ir::MemoryOrder;

#[derive(Clone, Debug)]
pub(super) struct ThreadState {
    pub(super) clock: ThreadClock,
    /// The beginnings of the thread's release and acquire patterns.
    pub(super) patterns: Option<Box<ThreadPatterns>>,
}

/// The threads that have arrived at an incomplete barrier.
#[derive(Debug)]
struct PendingBarrier {
    generation: u64,
    counted: bool,
    /// The joined clock of the threads that have arrived.
    clock: ThreadClock,
    waiting: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct BlockThreads {
    pub(super) block: u64,
    pub(super) summary: CodeSummary,
    pub(super) model: RaceModel,
    /// The current epoch of each warp, which all its threads share. It increases whenever one of
    /// them releases its clock.
    epochs: Vec<u32>,
    pub(super) threads: Vec<ThreadState>,
    /// The clocks of mbarrier objects in shared memory.
    pub(super) barrier_clocks: BarrierClocks,
    pending_barriers: [Option<PendingBarrier>; BARRIERS],
    exited: Option<ThreadClock>,
    exited_count: usize,
    pub(super) before_all: BeforeAll,
}

impl AccessRecord {
    /// Creates the record of an access to no bytes yet.
    pub(super) fn new(
        threads: &BlockThreads,
        warp: u32,
        lanes: u32,
        pc: u32,
        kind: AccessKind,
    ) -> Self {
        Self {
            block: threads.block,
            warp,
            lanes,
            epoch: threads.epoch(warp),
            pc,
            kind,
            bytes: 0,
            value: [0; 4],
            strict: [0; 4],
            strict_for_others: 0,
        }
    }
}

impl BlockThreads {
    /// Creates the state of a block of `threads` threads, none of them synchronised with another.
    pub(super) fn new(block: u64, threads: u32, summary: CodeSummary, model: RaceModel) -> Self {
        let clock = ThreadClock {
            own: Rc::new(vec![0; threads as usize]),
            others: None,
            fences: FenceOrder::default(),
        };
        let thread = ThreadState {
            clock,
            patterns: None,
        };
        let before_all = BeforeAll::new(Rc::clone(&thread.clock.own));
        Self {
            block,
            summary,
            model,
            epochs: vec![1; threads.div_ceil(32) as usize],
            threads: vec![thread; threads as usize],
            barrier_clocks: BarrierClocks::default(),
            pending_barriers: Default::default(),
            exited: None,
            exited_count: 0,
            before_all,
        }
    }

    pub(super) fn epoch(&self, warp: u32) -> u32 {
        self.epochs[warp as usize]
    }

    /// Begins a new epoch of a warp, so that later accesses are not released with earlier ones.
    pub(super) fn begin_epoch(&mut self, warp: u32) {
        self.epochs[warp as usize] += 1;
    }

    /// Returns the clock that a thread releases, and begins a new epoch.
    pub(super) fn publish(&mut self, thread: usize) -> ThreadClock {
        let warp = thread as u32 / 32;
        let mut clock = self.threads[thread].clock.clone();
        clock.observe_lanes(warp, 1 << (thread % 32), self.epoch(warp));
        self.begin_epoch(warp);
        clock
    }

    /// Returns whether an access of a lane happens before the current access of a thread of this
    /// block.
    pub(super) fn happens_before(&self, record: &AccessRecord, lane: usize, thread: usize) -> bool {
        let other = record.warp as usize * 32 + lane;
        let epochs = self.threads[thread].clock.of(self.block, record.block);
        record.block == self.block && other == thread
            || epochs.is_some_and(|epochs| epochs[other] >= record.epoch)
    }

    /// Returns the lanes of an access whose accesses are in the clock of a thread of this block.
    pub(super) fn lanes_before(&self, record: &AccessRecord, thread: usize) -> u32 {
        let epochs = self.threads[thread].clock.of(self.block, record.block);
        let of_warp = (record.warp, record.epoch);
        epochs.map_or(0, |epochs| reached(epochs, of_warp, record.lanes))
    }

    /// Groups lanes of a warp whose threads share one allocation for their clocks. Returns the
    /// first group, and the others.
    pub(super) fn by_clock(&self, warp: u32, mask: u32) -> (u32, SmallVec<[u32; 1]>) {
        let mut rest: SmallVec<[u32; 1]> = SmallVec::new();
        let mut first = mask & mask.wrapping_neg();
        if first == mask {
            return (mask, rest);
        }
        let clock = |lane: usize| &self.threads[warp as usize * 32 + lane].clock;
        for lane in lanes(mask & !first) {
            let alike = |group: u32| {
                let of_group = group.trailing_zeros() as usize;
                clock(of_group).is_shared_with(clock(lane))
            };
            if alike(first) {
                first |= 1 << lane;
                continue;
            }
            match rest.iter_mut().find(|group| alike(**group)) {
                Some(group) => *group |= 1 << lane,
                None => rest.push(1 << lane),
            }
        }
        (first, rest)
    }

    /// Returns the joined clock of lanes of a warp, including their own accesses.
    fn joined_clock(&self, warp: u32, mask: u32) -> Option<ThreadClock> {
        let first = warp as usize * 32;
        let mut lanes = lanes(mask).map(|lane| first + lane);
        let mut last = lanes.next()?;
        let mut clock = self.threads[last].clock.clone();
        for thread in lanes {
            let (known, before) = (&self.threads[thread].clock, &self.threads[last].clock);
            let same = Rc::ptr_eq(&known.own, &before.own)
                && known.others.is_none()
                && before.others.is_none();
            if same {
                clock.fences.join(&known.fences);
            } else {
                clock.join(known);
            }
            last = thread;
        }
        clock.observe_lanes(warp, mask, self.epoch(warp));
        Some(clock)
    }

    /// Synchronises lanes of a warp: the accesses of each happen before the later accesses of all.
    pub(super) fn synchronise_lanes(&mut self, warp: u32, mask: u32) {
        let Some(clock) = self.joined_clock(warp, mask) else {
            return;
        };
        for lane in lanes(mask) {
            self.threads[warp as usize * 32 + lane].clock = clock.clone();
        }
        self.begin_epoch(warp);
    }

    /// Records the arrival of a warp's lanes at a barrier.
    pub(super) fn arrive(&mut self, warp: u32, arrived: &BarrierArrivalEvent, barriers: &Barriers) {
        let Some(clock) = self.joined_clock(warp, arrived.mask) else {
            return;
        };
        self.epochs[warp as usize] += 1;
        let pending = match &mut self.pending_barriers[arrived.id as usize % BARRIERS] {
            Some(pending) => {
                pending.clock.join(&clock);
                pending
            }
            none => none.insert(PendingBarrier {
                generation: arrived.generation,
                counted: arrived.counted,
                clock,
                waiting: Vec::new(),
            }),
        };
        if arrived.waits {
            let threads = lanes(arrived.mask).map(|lane| warp as usize * 32 + lane);
            pending.waiting.extend(threads);
        }
        self.settle(barriers);
    }

    /// Records that threads exit. A barrier for all live threads counts them as arrived.
    pub(super) fn exit(&mut self, warp: u32, mask: u32, barriers: &Barriers) {
        if !self.summary.barriers {
            return;
        }
        if let Some(clock) = self.joined_clock(warp, mask) {
            match &mut self.exited {
                Some(exited) => exited.join(&clock),
                none => *none = Some(clock),
            }
            self.exited_count += mask.count_ones() as usize;
        }
        self.settle(barriers);
    }

    /// Joins the clock of each completed barrier into the clocks of the threads that waited at it.
    fn settle(&mut self, barriers: &Barriers) {
        for (id, slot) in (0..).zip(&mut self.pending_barriers) {
            let complete =
                |pending: &mut PendingBarrier| barriers.completed(id, pending.generation).is_some();
            let Some(mut pending) = slot.take_if(complete) else {
                continue;
            };
            if let Some(exited) = self.exited.as_ref().filter(|_| !pending.counted) {
                pending.clock.join(exited);
            }
            if pending.waiting.len() + self.exited_count == self.threads.len() {
                self.before_all.advance(&pending.clock.own);
            }
            for thread in pending.waiting {
                self.threads[thread].clock = pending.clock.clone();
            }
        }
    }

    pub(super) fn fence_lanes(&mut self, warp: u32, mask: u32, order: MemoryOrder) {
        if order.sequential {
            self.order_behind_fences(warp, mask, order.block_only);
        }
        for lane in lanes(mask) {
            self.fence(warp as usize * 32 + lane, order);
        }
        self.epochs[warp as usize] += 1;
    }

    /// Records that a thread changes an object and, if it `releases`, that the thread's accesses
    /// happen before those of the threads that wait for the phase.
    pub(super) fn arrive_at_mbarrier(
        &mut self,
        thread: usize,
        at: u64,
        releases: bool,
        completes: bool,
    ) {
        let released = releases.then(|| self.publish(thread));
        self.barrier_clocks.arrive(at, released, completes);
    }

    /// Records that an object tracks the copies of a thread so far: their arrival happens after
    /// them.
    pub(super) fn track_copies(&mut self, thread: usize, at: u64) {
        let released = self.publish(thread);
        self.barrier_clocks.track(at, thread, released);
    }

    /// Records the arrival of copies of a thread that an object tracks.
    pub(super) fn arrive_by_copies(&mut self, thread: usize, at: u64, completes: bool) {
        let released = self.barrier_clocks.tracked(at, thread);
        self.barrier_clocks.arrive(at, released, completes);
    }

    /// Joins the clock of the object's completed phases into the thread's clock.
    pub(super) fn wait_for_mbarrier(&mut self, thread: usize, at: u64) {
        let Self {
            barrier_clocks,
            threads,
            ..
        } = self;
        if let Some(clock) = barrier_clocks.wait(at) {
            threads[thread].clock.join(clock);
        }
    }
}
