//! The threads of a block that runs: what each knows of the others, and where they meet.

use std::{collections::BTreeMap, sync::Arc};

use super::clock::{Clock, Known, Stamps};
use super::objects::Objects;
use super::shadow::{Record, Shadow};
use crate::exec::barrier::{BARRIERS, Barriers};
use crate::exec::observe::Arrived;
use crate::exec::registers::lanes;

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) knows: Clock,
    /// What it knew at its last fence for all, and at the last one of any kind.
    fenced: Option<Clock>,
    fenced_for_block: Option<Clock>,
}

/// Threads that have arrived at a barrier which is not complete.
#[derive(Debug)]
struct Meeting {
    generation: u64,
    counted: bool,
    /// What those know that have arrived.
    knows: Clock,
    /// Those that wait.
    waiting: Vec<usize>,
}

/// What was released with the value that a place in memory holds.
#[derive(Debug, Default)]
pub(super) struct Released {
    to_all: Option<Known>,
    /// To threads of these blocks alone.
    to_block: BTreeMap<u64, Known>,
}

/// A strong access, as far as others can rely on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strong {
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
pub(super) struct Threads {
    pub(super) block: u64,
    /// Whether anything in the kernel is for a block only.
    pub(super) scoped: bool,
    /// Of each warp, the stamp of what its threads do now. It rises whenever one of them tells
    /// others what it knows.
    stamps: Vec<u32>,
    pub(super) threads: Vec<Thread>,
    /// Barrier objects in shared memory.
    pub(super) objects: Objects,
    meetings: [Option<Meeting>; BARRIERS],
    /// The joined clock of the threads that have exited, and their number.
    exited: Option<Clock>,
    exited_count: usize,
    /// The stamps of its block that every thread which has not exited knows.
    known_to_all: Stamps,
    pub(super) shared: Shadow,
    /// What was released in shared memory, by offset.
    pub(super) released: BTreeMap<u64, Released>,
}

impl Threads {
    /// A block of so many threads, which know nothing of each other.
    pub(super) fn new(block: u64, threads: u32, scoped: bool) -> Self {
        let knows = Clock {
            own: Arc::new(vec![0; threads as usize]),
            others: None,
        };
        let thread = Thread {
            knows,
            fenced: None,
            fenced_for_block: None,
        };
        let known_to_all = Arc::clone(&thread.knows.own);
        Self {
            block,
            scoped,
            stamps: vec![1; threads.div_ceil(32) as usize],
            threads: vec![thread; threads as usize],
            objects: Objects::default(),
            meetings: Default::default(),
            exited: None,
            exited_count: 0,
            known_to_all,
            shared: Shadow::default(),
            released: BTreeMap::new(),
        }
    }

    pub(super) fn stamp(&self, warp: u32) -> u32 {
        self.stamps[warp as usize]
    }

    /// What a thread knows, with all that it did itself.
    fn own_clock(&self, thread: usize) -> Clock {
        let mut clock = self.threads[thread].knows.clone();
        clock.note(thread, self.stamps[thread / 32]);
        clock
    }

    /// What a thread tells others: all that it knows and did by now, but nothing that it does
    /// later.
    pub(super) fn tell(&mut self, thread: usize) -> Clock {
        let clock = self.own_clock(thread);
        self.stamps[thread / 32] += 1;
        clock
    }

    /// Whether what a lane did comes before what a thread of this block does now.
    pub(super) fn is_before(&self, record: &Record, lane: usize, thread: usize) -> bool {
        let other = record.warp as usize * 32 + lane;
        let knows = &self.threads[thread].knows;
        if record.block == self.block {
            return other == thread || knows.own[other] >= record.stamp;
        }
        let stamps = knows
            .others
            .as_ref()
            .and_then(|others| others.get(&record.block));
        stamps.is_some_and(|stamps| stamps[other] >= record.stamp)
    }

    /// Whether the record of a lane of this block comes before every later access of the block.
    pub(super) fn is_known_to_all(&self, record: &Record, lane: usize) -> bool {
        self.known_to_all[record.warp as usize * 32 + lane] >= record.stamp
    }

    /// What these lanes of a warp know together.
    fn together(&self, warp: u32, mask: u32) -> Option<Clock> {
        let first = warp as usize * 32;
        let mut lanes = lanes(mask).map(|lane| first + lane);
        let mut clock = self.own_clock(lanes.next()?);
        let mut last = first + mask.trailing_zeros() as usize;
        for thread in lanes {
            let (knows, before) = (&self.threads[thread].knows, &self.threads[last].knows);
            let same = Arc::ptr_eq(&knows.own, &before.own)
                && knows.others.is_none()
                && before.others.is_none();
            if !same {
                clock.join(knows);
            }
            clock.note(thread, self.stamps[warp as usize]);
            last = thread;
        }
        Some(clock)
    }

    /// Lanes of a warp meet: what each did comes before what any of them does from here on.
    pub(super) fn meet(&mut self, warp: u32, mask: u32) {
        let Some(clock) = self.together(warp, mask) else {
            return;
        };
        for lane in lanes(mask) {
            self.threads[warp as usize * 32 + lane].knows = clock.clone();
        }
        self.stamps[warp as usize] += 1;
    }

    /// Lanes of a warp arrive at a barrier.
    pub(super) fn arrive(&mut self, warp: u32, arrived: &Arrived, barriers: &Barriers) {
        let Some(clock) = self.together(warp, arrived.mask) else {
            return;
        };
        self.stamps[warp as usize] += 1;
        let meeting = match &mut self.meetings[arrived.id as usize % BARRIERS] {
            Some(meeting) => {
                meeting.knows.join(&clock);
                meeting
            }
            none => none.insert(Meeting {
                generation: arrived.generation,
                counted: arrived.counted,
                knows: clock,
                waiting: Vec::new(),
            }),
        };
        if arrived.waits {
            let threads = lanes(arrived.mask).map(|lane| warp as usize * 32 + lane);
            meeting.waiting.extend(threads);
        }
        self.settle(barriers);
    }

    /// Threads exit. A barrier for all that live takes them for arrived.
    pub(super) fn exit(&mut self, warp: u32, mask: u32, barriers: &Barriers) {
        if let Some(clock) = self.together(warp, mask) {
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
        for (id, slot) in (0..).zip(&mut self.meetings) {
            let complete =
                |meeting: &mut Meeting| barriers.completed(id, meeting.generation).is_some();
            let Some(mut meeting) = slot.take_if(complete) else {
                continue;
            };
            if let Some(exited) = self.exited.as_ref().filter(|_| !meeting.counted) {
                meeting.knows.join(exited);
            }
            if meeting.waiting.len() + self.exited_count == self.threads.len() {
                self.known_to_all = Arc::clone(&meeting.knows.own);
            }
            for thread in meeting.waiting {
                self.threads[thread].knows = meeting.knows.clone();
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
                thread.fenced = Some(clock.clone());
            }
            thread.fenced_for_block = Some(clock);
        }
        self.stamps[warp as usize] += 1;
    }

    /// A thread writes to a place: what it releases with that stands there from now on.
    pub(super) fn release(
        &mut self,
        thread: usize,
        place: &mut BTreeMap<u64, Released>,
        at: u64,
        how: Strong,
    ) {
        let now = how.release.then(|| self.own_clock(thread));
        if how.release {
            self.stamps[thread / 32] += 1;
        }
        let Thread {
            fenced,
            fenced_for_block,
            ..
        } = &self.threads[thread];
        if how.replaces {
            place.remove(&at);
        }
        if let Some(clock) = now.as_ref().or(fenced.as_ref()).filter(|_| !how.block_only) {
            clock.tell(self.block, &mut place.entry(at).or_default().to_all);
        }
        // Where nothing is for blocks only, what is released to all is enough for them, too.
        if let Some(clock) = now
            .as_ref()
            .or(fenced_for_block.as_ref())
            .filter(|_| self.scoped)
        {
            let released = place.entry(at).or_default();
            let mut known = released.to_block.remove(&self.block);
            clock.tell(self.block, &mut known);
            released
                .to_block
                .extend(known.map(|known| (self.block, known)));
        }
    }

    /// A thread reads a place: what was released with what it holds comes before what the thread
    /// does from here on.
    pub(super) fn acquire(&mut self, thread: usize, released: &Released, block_only: bool) {
        let knows = &mut self.threads[thread].knows;
        if let Some(known) = released.to_block.get(&self.block) {
            knows.learn(self.block, known);
        }
        if let Some(known) = released.to_all.as_ref().filter(|_| !block_only) {
            knows.learn(self.block, known);
        }
    }
}
