//! The sixteen barriers (`barrier.sync`, `barrier.arrive`, `barrier.red`) of a block.

pub(super) const BARRIERS: usize = 16;

/// The result of a completed barrier, as the waiting threads read it.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Completion {
    /// Threads whose predicate was true.
    pub(super) count_true: u32,
    /// Threads that arrived.
    pub(super) arrived: u32,
}

#[derive(Clone, Copy, Debug, Default, Hash)]
struct BarrierState {
    /// The number of times the barrier has completed.
    generation: u64,
    /// The number of threads that have arrived since the last completion.
    arrived: u32,
    /// The number of lanes of the arrived warps that do not exist or have exited; they count
    /// towards `threads`.
    padding: u32,
    count_true: u32,
    /// The number of threads that must arrive; `None` for all live threads of the block.
    threads: Option<u32>,
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
            let last = Completion {
                count_true: self.count_true,
                arrived: self.arrived,
            };
            *self = Self {
                generation: self.generation + 1,
                last,
                ..Self::default()
            };
        }
    }
}

#[derive(Debug, Default, Hash)]
pub(super) struct Barriers {
    states: [BarrierState; BARRIERS],
    /// Threads of the block that have not exited.
    live: u32,
    /// True once a thread has arrived at a barrier.
    used: bool,
}

pub(super) struct BarrierArrival {
    pub(super) id: u32,
    /// The number of threads that the barrier waits for, if the instruction names one.
    pub(super) threads: Option<u32>,
    pub(super) arriving: u32,
    /// The number of lanes that the arriving warp lacks: a barrier with a thread count counts whole
    /// warps.
    pub(super) padding: u32,
    pub(super) count_true: u32,
}

impl Barriers {
    pub(super) fn start(&mut self, threads: u32) {
        if self.used {
            *self = Self::default();
        }
        self.live = threads;
    }

    /// Records an arrival, and returns the generation whose completion the arriving threads wait
    /// for.
    pub(super) fn arrive(&mut self, arrival: &BarrierArrival) -> u64 {
        self.used = true;
        let state = &mut self.states[arrival.id as usize % BARRIERS];
        let generation = state.generation;
        state.arrived += arrival.arriving;
        state.padding += arrival.padding;
        state.count_true += arrival.count_true;
        state.threads = arrival.threads;
        state.settle(self.live);
        generation
    }

    /// Removes exited threads from the live threads, and completes barriers that waited only for
    /// them.
    pub(super) fn exit(&mut self, threads: u32) {
        self.live -= threads;
        if self.used {
            for state in &mut self.states {
                state.settle(self.live);
            }
        }
    }

    /// Returns the result of a generation of barrier `id`, or `None` until that generation
    /// completes.
    pub(super) fn completed(&self, id: u32, generation: u64) -> Option<Completion> {
        let state = &self.states[id as usize % BARRIERS];
        (state.generation > generation).then_some(state.last)
    }
}
