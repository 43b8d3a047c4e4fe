//! The sixteen barriers (`barrier.sync`, `barrier.arrive`, `barrier.red`) of a block.

use smallvec::SmallVec;

pub(super) const BARRIERS: usize = 16;

/// The result of a completed barrier, as the waiting threads read it.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Completion {
    /// Threads whose predicate was true.
    pub(super) count_true: u32,
    /// Threads that arrived.
    pub(super) arrived: u32,
}

/// The arrival of lanes of a warp at a barrier.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Arrival {
    pub(super) warp: u32,
    pub(super) mask: u32,
    /// The program counter of the barrier instruction.
    pub(super) pc: u32,
}

impl Arrival {
    /// Returns the number of the first thread, and the place of its instruction.
    pub(super) fn place(&self) -> (u32, u32) {
        (self.warp * 32 + self.mask.trailing_zeros(), self.pc)
    }
}

#[derive(Debug, Default, Hash)]
pub(super) struct BarrierState {
    /// The number of times the barrier has completed.
    pub(super) generation: u64,
    /// The arrivals since the last completion.
    pub(super) arrivals: SmallVec<[Arrival; 2]>,
    /// The warps among them, one bit for each.
    pub(super) warps: u32,
    /// The number of threads that have arrived since the last completion.
    arrived: u32,
    /// The number of lanes of the arrived warps that do not exist or have exited; they count
    /// towards `threads`.
    padding: u32,
    count_true: u32,
    /// The number of threads that must arrive; `None` for all live threads of the block.
    pub(super) threads: Option<u32>,
    last: Completion,
}

impl BarrierState {
    /// Completes the barrier if all expected threads have arrived, of `live` threads of the block.
    fn settle(&mut self, live: u32) {
        let complete = match self.threads {
            Some(threads) => self.arrived + self.padding >= threads,
            None => self.arrived >= live,
        };
        if self.arrived > 0 && complete {
            self.last = Completion {
                count_true: self.count_true,
                arrived: self.arrived,
            };
            self.generation += 1;
            self.arrivals.clear();
            (self.arrived, self.padding, self.warps) = (0, 0, 0);
            (self.count_true, self.threads) = (0, None);
        }
    }

    /// Returns whether a warp has arrived since the last completion.
    pub(super) fn has(&self, warp: u32) -> bool {
        self.warps >> (warp % 32) & 1 == 1
    }

    /// Returns the lanes of a warp that have arrived since the last completion.
    pub(super) fn arrived(&self, warp: u32) -> u32 {
        let own = self.arrivals.iter().filter(|of| of.warp == warp);
        own.fold(0, |all, arrival| all | arrival.mask)
    }

    /// Counts the lanes that a warp lacks if all of its `live` lanes are among those that arrived.
    fn pad(&mut self, arrived: u32, live: u32) {
        if self.threads.is_some() && live & !arrived == 0 {
            self.padding += 32 - arrived.count_ones();
        }
    }

    /// Returns the number of threads that are still missing, and the number that was named, if one
    /// was.
    pub(super) fn missing(&self) -> Option<(u32, u32)> {
        let threads = self.threads?;
        let arrived = self.arrived + self.padding;
        Some((threads.saturating_sub(arrived), threads))
    }
}

#[derive(Debug, Default, Hash)]
pub(super) struct Barriers {
    states: [BarrierState; BARRIERS],
    /// The threads of the block.
    threads: u32,
    /// Those that have not exited.
    live: u32,
    /// True once a thread has arrived at a barrier.
    used: bool,
}

pub(super) struct BarrierArrival {
    pub(super) id: u32,
    /// The number of threads that the barrier waits for, if the instruction names one.
    pub(super) threads: Option<u32>,
    pub(super) arrival: Arrival,
    /// The live lanes of the warp.
    pub(super) live: u32,
    pub(super) count_true: u32,
}

impl Barriers {
    pub(super) fn start(&mut self, threads: u32) {
        if std::mem::take(&mut self.used) {
            for state in &mut self.states {
                // The list keeps its allocation.
                let mut arrivals = std::mem::take(&mut state.arrivals);
                arrivals.clear();
                *state = BarrierState {
                    arrivals,
                    ..BarrierState::default()
                };
            }
        }
        (self.threads, self.live) = (threads, threads);
    }

    /// Returns the state of barrier `id`.
    pub(super) fn state(&self, id: u32) -> &BarrierState {
        &self.states[id as usize % BARRIERS]
    }

    /// Returns the number of threads that a barrier waits for: the count, if the instruction names
    /// one, or else the whole warps of the block.
    pub(super) fn count(&self, threads: Option<u32>) -> u32 {
        threads.unwrap_or_else(|| self.threads.next_multiple_of(32))
    }

    /// Records an arrival, and returns the generation whose completion the arriving threads wait
    /// for.
    pub(super) fn arrive(&mut self, by: &BarrierArrival) -> u64 {
        self.used = true;
        let state = &mut self.states[by.id as usize % BARRIERS];
        let generation = state.generation;
        let arrived = match state.has(by.arrival.warp) {
            true => state.arrived(by.arrival.warp) | by.arrival.mask,
            false => by.arrival.mask,
        };
        state.warps |= 1 << (by.arrival.warp % 32);
        state.arrivals.push(by.arrival);
        state.arrived += by.arrival.mask.count_ones();
        state.count_true += by.count_true;
        state.threads = by.threads;
        state.pad(arrived, by.live);
        state.settle(self.live);
        generation
    }

    /// Removes lanes that exit, of the live lanes of a warp, from the live threads, and completes
    /// barriers that waited only for them.
    pub(super) fn exit(&mut self, warp: u32, live: u32, lanes: u32) {
        self.live -= lanes.count_ones();
        if self.used {
            for state in &mut self.states {
                if state.has(warp) {
                    let arrived = state.arrived(warp);
                    if live & !arrived != 0 {
                        state.pad(arrived, live & !lanes);
                    }
                }
                state.settle(self.live);
            }
        }
    }

    /// Returns the result of a generation of barrier `id`, or `None` until that generation
    /// completes.
    pub(super) fn completed(&self, id: u32, generation: u64) -> Option<Completion> {
        let state = self.state(id);
        (state.generation > generation).then_some(state.last)
    }
}
