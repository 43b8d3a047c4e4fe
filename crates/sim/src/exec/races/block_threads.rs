//! Happens-before state of the threads of one block: clocks, fences, barriers and shadow memory.

use std::{collections::BTreeMap, sync::Arc};

use super::barrier_clocks::BarrierClocks;
use super::shadow::{AccessRecord, ShadowMemory};
use super::thread_clock::{BlockClocks, Epochs, ThreadClock};
use crate::exec::barrier::{BARRIERS, Barriers};
use crate::exec::observer::BarrierArrivalEvent;
use crate::exec::registers::lanes;

/// The happens-before state of a thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadState {
    pub(super) clock: ThreadClock,
    /// The thread's clock at its last fence of a scope wider than the block.
    fence_clock: Option<ThreadClock>,
    /// The thread's clock at its last fence of any scope.
    block_fence_clock: Option<ThreadClock>,
}

/// The threads that have arrived at an incomplete barrier.
#[derive(Debug)]
struct PendingBarrier {
    generation: u64,
    counted: bool,
    /// The joined clock of the threads that have arrived.
    clock: ThreadClock,
    /// The threads that wait for the completion.
    waiting: Vec<usize>,
}

/// The clocks released with the value of a memory location.
#[derive(Debug, Default)]
pub(super) struct ReleaseClocks {
    to_all: Option<BlockClocks>,
    /// The clocks released at block scope, to the threads of each block.
    to_block: BTreeMap<u64, BlockClocks>,
}

/// The release semantics of a strong write.
#[derive(Clone, Copy, Debug)]
pub(super) struct StrongWrite {
    /// True for a store, which replaces the clocks released earlier; an atomic keeps them (a
    /// release sequence).
    pub(super) replaces: bool,
    /// True if the write releases all earlier accesses of the thread. Otherwise it releases only
    /// those before the thread's last fence.
    pub(super) release: bool,
    /// True if the write has block scope.
    pub(super) block_only: bool,
}

/// The threads of a block, and the state of their shared memory.
#[derive(Debug)]
pub(super) struct BlockThreads {
    pub(super) block: u64,
    /// True if the kernel has fences or strong accesses of block scope.
    pub(super) scoped: bool,
    /// The current epoch of each warp, which all its threads share. It increases whenever one of
    /// them releases its clock.
    epochs: Vec<u32>,
    pub(super) threads: Vec<ThreadState>,
    /// The clocks of mbarrier objects in shared memory.
    pub(super) barrier_clocks: BarrierClocks,
    pending_barriers: [Option<PendingBarrier>; BARRIERS],
    /// The joined clock of the exited threads.
    exited: Option<ThreadClock>,
    /// The number of exited threads.
    exited_count: usize,
    /// The epochs of the block's threads that happen before every later access of its live threads.
    known_to_all: Epochs,
    pub(super) shared: ShadowMemory,
    /// The clocks released in shared memory, by offset.
    pub(super) released: BTreeMap<u64, ReleaseClocks>,
}

impl BlockThreads {
    /// Creates the state of a block of `threads` threads, none of them synchronised with another.
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

    /// Returns a thread's clock, including the thread's own accesses.
    fn own_clock(&self, thread: usize) -> ThreadClock {
        let mut clock = self.threads[thread].clock.clone();
        clock.observe(thread, self.epochs[thread / 32]);
        clock
    }

    /// Returns the clock that a thread releases, and begins a new epoch, so that later accesses are
    /// not released with it.
    pub(super) fn publish(&mut self, thread: usize) -> ThreadClock {
        let clock = self.own_clock(thread);
        self.epochs[thread / 32] += 1;
        clock
    }

    /// Returns whether an access of a lane happens before the current access of a thread of this
    /// block.
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

    /// Returns whether the access of a lane of this block happens before every later access of the
    /// block.
    pub(super) fn is_known_to_all(&self, record: &AccessRecord, lane: usize) -> bool {
        self.known_to_all[record.warp as usize * 32 + lane] >= record.epoch
    }

    /// Returns the joined clock of lanes of a warp, including their own accesses.
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

    /// Synchronises lanes of a warp: the accesses of each happen before the later accesses of all.
    pub(super) fn synchronise_lanes(&mut self, warp: u32, mask: u32) {
        let Some(clock) = self.joined_clock(warp, mask) else {
            return;
        };
        for lane in lanes(mask) {
            self.threads[warp as usize * 32 + lane].clock = clock.clone();
        }
        self.epochs[warp as usize] += 1;
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
                self.known_to_all = Arc::clone(&pending.clock.own);
            }
            for thread in pending.waiting {
                self.threads[thread].clock = pending.clock.clone();
            }
        }
    }

    /// Records a fence of these lanes: their later strong writes release their current clocks.
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

    /// Records the clocks that a thread's strong write releases at a memory location.
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
        // Without block scopes in the kernel, the clocks released to all blocks suffice.
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

    /// Joins the clocks released at a memory location into the clock of a thread that reads it.
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
