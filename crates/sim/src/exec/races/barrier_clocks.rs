//! Vector clocks of mbarrier objects: arrivals release, waits acquire.

use std::collections::BTreeMap;

use super::thread_clock::ThreadClock;

#[derive(Debug, Default)]
struct PhaseClocks {
    /// The clock released by the arrivals of the current phase.
    arrived: Option<ThreadClock>,
    /// The clock released by the arrivals of all completed phases.
    completed: Option<ThreadClock>,
}

/// The clocks of a block's mbarrier objects, by offset in shared memory.
#[derive(Debug, Default)]
pub(super) struct BarrierClocks {
    barrier_clocks: BTreeMap<u64, PhaseClocks>,
    /// The clocks that the copies of threads will release when they arrive, each with its object
    /// and the number of the thread.
    tracked: Vec<(u64, usize, ThreadClock)>,
}

impl BarrierClocks {
    /// Drops the clocks of an object, which `mbarrier.init` initialises anew.
    pub(super) fn forget(&mut self, at: u64) {
        self.barrier_clocks.remove(&at);
        self.tracked.retain(|(object, ..)| *object != at);
    }

    /// Notes the clock that a thread's copies release when they arrive at an object.
    pub(super) fn track(&mut self, at: u64, thread: usize, released: ThreadClock) {
        self.tracked.push((at, thread, released));
    }

    /// Returns the clock that the next copies of the thread release at the object.
    pub(super) fn tracked(&mut self, at: u64, thread: usize) -> Option<ThreadClock> {
        let mut tracked = self.tracked.iter();
        let next = tracked.position(|(object, of, _)| (*object, *of) == (at, thread))?;
        Some(self.tracked.remove(next).2)
    }

    /// Records an arrival at an object, or another change of it, with the clock that it releases.
    ///
    /// If the phase `completes`, its clock joins the clock of the completed phases.
    pub(super) fn arrive(&mut self, at: u64, released: Option<ThreadClock>, completes: bool) {
        let mbarrier = self.barrier_clocks.entry(at).or_default();
        join(&mut mbarrier.arrived, released);
        if completes {
            join(&mut mbarrier.completed, mbarrier.arrived.take());
        }
    }

    /// Returns the clock that a thread acquires when it observes a completed phase.
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
