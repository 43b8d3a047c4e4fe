//! The threads of a block that runs: what each knows of the others, and where they meet.

use std::{collections::BTreeMap, sync::Arc};

use super::barrier_clocks::BarrierClocks;
use super::shadow::{AccessRecord, ShadowMemory};
use super::thread_clock::{BlockClocks, Epochs, ThreadClock};
use crate::exec::barrier::{BARRIERS, Barriers};
use crate::exec::observer::BarrierArrivalEvent;
use crate::exec::registers::lanes;

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadState {
    pub(super) clock: ThreadClock,
    /// What it knew at its last fence for all, and at the last one of any kind.
    fence_clock: Option<ThreadClock>,
    block_fence_clock: Option<ThreadClock>,
}

/// Threads that have arrived at a barrier which is not complete.
#[derive(Debug)]
struct PendingBarrier {
    generation: u64,
    counted: bool,
    /// What those know that have arrived.
    clock: ThreadClock,
    /// Those that wait.
    waiting: Vec<usize>,
}

/// What was released with the value that a place in memory holds.
#[derive(Debug, Default)]
pub(super) struct ReleaseClocks {
    to_all: Option<BlockClocks>,
    /// To threads of these blocks alone.
    to_block: BTreeMap<u64, BlockClocks>,
}

/// A strong access, as far as others can rely on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrongWrite {
    /// A store replaces what was released there before; an atomic hands it on.
    pub(super) replaces: bool,
    /// It releases all that the thread has done. Otherwise only what came before its last fence is
    /// released.
    pub(super) release: bool,
    /// It is for the block only.
    pub(super) block_only: bool,
}

/// The threads of a block, and the memory that they share.
#[derive(Debug)]
pub(super) struct BlockThreads {
    pub(super) block: u64,
    /// Whether anything in the kernel is for a block only.
    pub(super) scoped: bool,
    /// Of each warp, the epoch of what its threads do now. It rises whenever one of them tells
    /// others what it knows.
    epochs: Vec<u32>,
    pub(super) threads: Vec<ThreadState>,
    /// Barrier objects in shared memory.
    pub(super) barrier_clocks: BarrierClocks,
    pending_barriers: [Option<PendingBarrier>; BARRIERS],
    /// The joined clock of the threads that have exited, and their number.
    exited: Option<ThreadClock>,
    exited_count: usize,
    /// The epochs of its block that every thread which has not exited knows.
    known_to_all: Epochs,
    pub(super) shared: ShadowMemory,
    /// What was released in shared memory, by offset.
    pub(super) released: BTreeMap<u64, ReleaseClocks>,
}

impl BlockThreads {
    /// A block of so many threads, which know nothing of each other.
    pub(super) fn new(block: u64, threads: u32, scoped: bool) -> Self {
        let clock = ThreadClock {
            own: Arc::new(vec![0; threads as usize]),
            others: None,
        };
        let thread = ThreadState {
            clock,
            fence_clock: None,
            block_fence_clock: None,
        };
        let known_to_all = Arc::clone(&thread.clock.own);
        Self {
            block,
            scoped,
            epochs: vec![1; threads.div_ceil(32) as usize],
            threads: vec![thread; threads as usize],
            barrier_clocks: BarrierClocks::default(),
            pending_barriers: Default::default(),
            exited: None,
            exited_count: 0,
            known_to_all,
            shared: ShadowMemory::default(),
            released: BTreeMap::new(),
        }
    }

    pub(super) fn epoch(&self, warp: u32) -> u32 {
        self.epochs[warp as usize]
    }

    /// What a thread knows, with all that it did itself.
    fn own_clock(&self, thread: usize) -> ThreadClock {
        let mut clock = self.threads[thread].clock.clone();
        clock.observe(thread, self.epochs[thread / 32]);
        clock
    }

    /// What a thread tells others: all that it knows and did by now, but nothing that it does
    /// later.
    pub(super) fn publish(&mut self, thread: usize) -> ThreadClock {
        let clock = self.own_clock(thread);
        self.epochs[thread / 32] += 1;
        clock
    }

    /// Whether what a lane did comes before what a thread of this block does now.
    pub(super) fn happens_before(&self, record: &AccessRecord, lane: usize, thread: usize) -> bool {
        let other = record.warp as usize * 32 + lane;
        let clock = &self.threads[thread].clock;
        if record.block == self.block {
            return other == thread || clock.own[other] >= record.epoch;
        }
        let epochs = clock
            .others
            .as_ref()
            .and_then(|others| others.get(&record.block));
        epochs.is_some_and(|epochs| epochs[other] >= record.epoch)
    }

    /// Whether the record of a lane of this block comes before every later access of the block.
    pub(super) fn is_known_to_all(&self, record: &AccessRecord, lane: usize) -> bool {
        self.known_to_all[record.warp as usize * 32 + lane] >= record.epoch
    }

    /// What these lanes of a warp know together.
    fn joined_clock(&self, warp: u32, mask: u32) -> Option<ThreadClock> {
        let first = warp as usize * 32;
        let mut lanes = lanes(mask).map(|lane| first + lane);
        let mut clock = self.own_clock(lanes.next()?);
        let mut last = first + mask.trailing_zeros() as usize;
        for thread in lanes {
            let (known, before) = (&self.threads[thread].clock, &self.threads[last].clock);
            let same = Arc::ptr_eq(&known.own, &before.own)
                && known.others.is_none()
                && before.others.is_none();
            if !same {
                clock.join(known);
            }
            clock.observe(thread, self.epochs[warp as usize]);
            last = thread;
        }
        Some(clock)
    }

    /// Lanes of a warp meet: what each did comes before what any of them does from here on.
    pub(super) fn synchronise_lanes(&mut self, warp: u32, mask: u32) {
        let Some(clock) = self.joined_clock(warp, mask) else {
            return;
        };
        for lane in lanes(mask) {
            self.threads[warp as usize * 32 + lane].clock = clock.clone();
        }
        self.epochs[warp as usize] += 1;
    }

    /// Lanes of a warp arrive at a barrier.
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

    /// Threads exit. A barrier for all that live takes them for arrived.
    pub(super) fn exit(&mut self, warp: u32, mask: u32, barriers: &Barriers) {
        if let Some(clock) = self.joined_clock(warp, mask) {
            match &mut self.exited {
                Some(exited) => exited.join(&clock),
                none => *none = Some(clock),
            }
            self.exited_count += mask.count_ones() as usize;
        }
        self.settle(barriers);
    }

    /// Lets those that waited at barriers know what all know that have arrived there.
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
                self.known_to_all = Arc::clone(&pending.clock.own);
            }
            for thread in pending.waiting {
                self.threads[thread].clock = pending.clock.clone();
            }
        }
    }

    /// A fence of these lanes: what they write from here on, atomically, releases what they know
    /// now.
    pub(super) fn fence(&mut self, warp: u32, mask: u32, block_only: bool) {
        for lane in lanes(mask) {
            let thread = warp as usize * 32 + lane;
            let clock = self.own_clock(thread);
            let thread = &mut self.threads[thread];
            if !block_only {
                thread.fence_clock = Some(clock.clone());
            }
            thread.block_fence_clock = Some(clock);
        }
        self.epochs[warp as usize] += 1;
    }

    /// A thread writes to a place: what it releases with that stands there from now on.
    pub(super) fn release(
        &mut self,
        thread: usize,
        place: &mut BTreeMap<u64, ReleaseClocks>,
        at: u64,
        how: StrongWrite,
    ) {
        let now = how.release.then(|| self.own_clock(thread));
        if how.release {
            self.epochs[thread / 32] += 1;
        }
        let ThreadState {
            fence_clock,
            block_fence_clock,
            ..
        } = &self.threads[thread];
        if how.replaces {
            place.remove(&at);
        }
        if let Some(clock) = now
            .as_ref()
            .or(fence_clock.as_ref())
            .filter(|_| !how.block_only)
        {
            clock.publish(self.block, &mut place.entry(at).or_default().to_all);
        }
        // Where nothing is for blocks only, what is released to all is enough for them, too.
        if let Some(clock) = now
            .as_ref()
            .or(block_fence_clock.as_ref())
            .filter(|_| self.scoped)
        {
            let released = place.entry(at).or_default();
            let mut known = released.to_block.remove(&self.block);
            clock.publish(self.block, &mut known);
            released
                .to_block
                .extend(known.map(|known| (self.block, known)));
        }
    }

    /// A thread reads a place: what was released with what it holds comes before what the thread
    /// does from here on.
    pub(super) fn acquire(&mut self, thread: usize, released: &ReleaseClocks, block_only: bool) {
        let clock = &mut self.threads[thread].clock;
        if let Some(known) = released.to_block.get(&self.block) {
            clock.absorb(self.block, known);
        }
        if let Some(known) = released.to_all.as_ref().filter(|_| !block_only) {
            clock.absorb(self.block, known);
        }
    }
}
