//! The sixteen barriers of a block.

/// How many barriers a block has.
pub(super) const BARRIERS: usize = 16;

/// What a completed barrier tells the threads that waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Completion {
    /// Threads whose predicate was true.
    pub(super) count_true: u32,
    /// Threads that arrived.
    pub(super) arrived: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct BarrierState {
    /// How often the barrier has completed.
    generation: u64,
    /// Threads that have arrived since.
    arrived: u32,
    /// The part of those that stand for lanes of their warps that do not exist or have exited.
    padding: u32,
    count_true: u32,
    /// How many have to arrive; all that live if none is said.
    threads: Option<u32>,
    last: Completion,
}

/// The barriers of one block.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    states: [BarrierState; BARRIERS],
    /// Threads of the block that have not exited.
    live: u32,
}

/// Threads arriving at a barrier.
pub(super) struct BarrierArrival {
    pub(super) id: u32,
    /// How many the barrier waits for, if it is said.
    pub(super) threads: Option<u32>,
    pub(super) arriving: u32,
    /// Lanes that their warp is short of: a barrier for so many threads counts whole warps.
    pub(super) padding: u32,
    pub(super) count_true: u32,
}

impl Barriers {
    /// Starts a block of so many threads.
    pub(super) fn start(&mut self, threads: u32) {
        *self = Self {
            live: threads,
            ..Self::default()
        };
    }

    /// Lets threads arrive, and returns the generation that completes with them or later.
    pub(super) fn arrive(&mut self, arrival: &BarrierArrival) -> u64 {
        let state = &mut self.states[arrival.id as usize % BARRIERS];
        let generation = state.generation;
        state.arrived += arrival.arriving;
        state.padding += arrival.padding;
        state.count_true += arrival.count_true;
        state.threads = arrival.threads;
        self.settle();
        generation
    }

    /// Removes threads that have exited.
    pub(super) fn exit(&mut self, threads: u32) {
        self.live -= threads;
        self.settle();
    }

    /// Completes every barrier at which all have arrived.
    fn settle(&mut self) {
        for state in &mut self.states {
            let complete = match state.threads {
                Some(threads) => state.arrived + state.padding >= threads,
                None => state.arrived >= self.live,
            };
            if state.arrived > 0 && complete {
                let last = Completion {
                    count_true: state.count_true,
                    arrived: state.arrived,
                };
                *state = BarrierState {
                    generation: state.generation + 1,
                    last,
                    ..BarrierState::default()
                };
            }
        }
    }

    /// The outcome of a generation of a barrier, once it is complete.
    pub(super) fn completed(&self, id: u32, generation: u64) -> Option<Completion> {
        let state = &self.states[id as usize % BARRIERS];
        (state.generation > generation).then_some(state.last)
    }
}
