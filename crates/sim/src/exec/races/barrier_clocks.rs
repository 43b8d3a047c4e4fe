//! Barrier objects in shared memory: what arrivals release, and what waits acquire.

use std::collections::BTreeMap;

use super::block_threads::BlockThreads;
use super::thread_clock::ThreadClock;

/// What was released at an object.
#[derive(Debug, Default)]
struct PhaseClocks {
    /// By the arrivals of the phase at hand.
    arrived: Option<ThreadClock>,
    /// By those of all phases that have completed.
    completed: Option<ThreadClock>,
}

/// The objects of a block, by their offsets.
#[derive(Debug, Default)]
pub(super) struct BarrierClocks {
    barrier_clocks: BTreeMap<u64, PhaseClocks>,
}

impl BarrierClocks {
    /// What was released at an object before it was made anew is of no account.
    pub(super) fn forget(&mut self, at: u64) {
        self.barrier_clocks.remove(&at);
    }

    /// A thread arrives, or changes an object otherwise; the phase may complete by it.
    pub(super) fn arrive(&mut self, at: u64, released: Option<ThreadClock>, completes: bool) {
        let mbarrier = self.barrier_clocks.entry(at).or_default();
        join(&mut mbarrier.arrived, released);
        if completes {
            join(&mut mbarrier.completed, mbarrier.arrived.take());
        }
    }

    /// What a thread learns that is told that a phase has completed.
    pub(super) fn wait(&self, at: u64) -> Option<&ThreadClock> {
        self.barrier_clocks.get(&at)?.completed.as_ref()
    }
}

fn join(into: &mut Option<ThreadClock>, from: Option<ThreadClock>) {
    match (into, from) {
        (Some(into), Some(from)) => into.join(&from),
        (into @ None, from) => *into = from,
        (Some(_), None) => {}
    }
}

impl BlockThreads {
    /// A thread changes an object; what it did comes before what those do that wait for the phase,
    /// if it `releases`.
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

    /// A thread was told that a phase has completed.
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
