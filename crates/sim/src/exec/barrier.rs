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
    /// The number of threads that have arrived since the last completion. With a thread count, the
    /// warps count as a whole: the lanes that do not exist or have exited, too.
    arrived: u32,
    count_true: u32,
    /// The number of threads that must arrive; `None` for all live threads of the block.
    pub(super) threads: Option<u32>,
    last: Completion,
}

impl BarrierState {
    /// Completes the barrier if all expected threads have arrived, of `live` threads of the block.
    fn settle(&mut self, live: u32) {
        if !self.arrivals.is_empty() && self.arrived >= self.threads.unwrap_or(live) {
            self.last = Completion {
                count_true: self.count_true,
                arrived: self.arrivals.iter().map(|of| of.mask.count_ones()).sum(),
            };
            self.generation += 1;
            self.arrivals.clear();
            (self.arrived, self.count_true, self.threads) = (0, 0, None);
        }
    }

    /// Returns the lanes of a warp that have arrived since the last completion.
    pub(super) fn arrived(&self, warp: u32) -> u32 {
        let own = self.arrivals.iter().filter(|of| of.warp == warp);
        own.fold(0, |all, arrival| all | arrival.mask)
    }

    /// Counts the lanes that a warp lacks if all of its `live` lanes are among those that arrived.
    fn pad(&mut self, arrived: u32, live: u32) {
        if self.threads.is_some() && live & !arrived == 0 {
            self.arrived += 32 - arrived.count_ones();
        }
    }

    /// Returns the number of threads that are still missing, and the number that was named, if one
    /// was.
    pub(super) fn missing(&self) -> Option<(u32, u32)> {
        let threads = self.threads?;
        Some((threads.saturating_sub(self.arrived), threads))
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
        let arrived = match state.arrivals.is_empty() {
            true => by.arrival.mask,
            false => state.arrived(by.arrival.warp) | by.arrival.mask,
        };
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
                let arrived = state.arrived(warp);
                if arrived != 0 && live & !arrived != 0 {
                    state.pad(arrived, live & !lanes);
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
