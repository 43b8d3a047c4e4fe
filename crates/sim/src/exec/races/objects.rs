//! Barrier objects in shared memory: what arrivals release, and what waits acquire.

use std::collections::BTreeMap;

use super::clock::Clock;
use super::threads::Threads;

/// What was released at an object.
#[derive(Debug, Default)]
struct Object {
    /// By the arrivals of the phase at hand.
    arrived: Option<Clock>,
    /// By those of all phases that have completed.
    completed: Option<Clock>,
}

/// The objects of a block, by their offsets.
#[derive(Debug, Default)]
pub(super) struct Objects {
    objects: BTreeMap<u64, Object>,
}

impl Objects {
    /// What was released at an object before it was made anew is of no account.
    pub(super) fn forget(&mut self, at: u64) {
        self.objects.remove(&at);
    }

    /// A thread arrives, or changes an object otherwise; the phase may complete by it.
    pub(super) fn arrive(&mut self, at: u64, released: Option<Clock>, completes: bool) {
        let object = self.objects.entry(at).or_default();
        join(&mut object.arrived, released);
        if completes {
            join(&mut object.completed, object.arrived.take());
        }
    }

    /// What a thread learns that is told that a phase has completed.
    pub(super) fn wait(&self, at: u64) -> Option<&Clock> {
        self.objects.get(&at)?.completed.as_ref()
    }
}

fn join(into: &mut Option<Clock>, from: Option<Clock>) {
    match (into, from) {
        (Some(into), Some(from)) => into.join(&from),
        (into @ None, from) => *into = from,
        (Some(_), None) => {}
    }
}

impl Threads {
    /// A thread changes an object; what it did comes before what those do that wait for the phase,
    /// if it `releases`.
    pub(super) fn arrive_at_object(
        &mut self,
        thread: usize,
        at: u64,
        releases: bool,
        completes: bool,
    ) {
        let released = releases.then(|| self.tell(thread));
        self.objects.arrive(at, released, completes);
    }

    /// A thread was told that a phase has completed.
    pub(super) fn wait_for_object(&mut self, thread: usize, at: u64) {
        let Self {
            objects, threads, ..
        } = self;
        if let Some(clock) = objects.wait(at) {
            threads[thread].knows.join(clock);
        }
    }
}
