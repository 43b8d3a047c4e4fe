//! The model of the race check: the rules of the PTX memory model for release and acquire patterns,
//! their scopes and barriers, applied to all pairs of events.
//!
//! The model uses neither vector clocks nor access records: every event has the set of all events
//! before it, and all pairs are compared, including the values that they write.

use std::collections::{BTreeMap, BTreeSet};

use millstream_sim::Severity;

use super::BYTES;
use super::steps::{FenceStep, Step, StepAccess};

/// An access of a thread: its kind, memory, offset and width.
#[derive(Clone, Copy)]
struct ThreadAccess {
    what: StepAccess,
    shared: bool,
    at: usize,
    width: usize,
}

#[derive(Clone, Copy)]
enum EventKind {
    Access(ThreadAccess),
    Fence(FenceStep),
}

/// A step of a thread, with the events that happen before it.
struct ModelEvent {
    block: usize,
    thread: usize,
    kind: EventKind,
    before: BTreeSet<usize>,
    /// The events that happen before this event's release: `before`, and those that it acquires.
    ///
    /// An acquiring access might have been executed before the release, so that it is not itself
    /// ordered after the released events.
    released: BTreeSet<usize>,
    /// The writes that precede this strong read in observation order.
    observed: BTreeSet<usize>,
}

impl ModelEvent {
    fn access(&self) -> Option<ThreadAccess> {
        match self.kind {
            EventKind::Access(access) => Some(access),
            EventKind::Fence(_) => None,
        }
    }

    fn block_only(&self) -> bool {
        match self.kind {
            EventKind::Access(access) => access.what.block_only(),
            EventKind::Fence(fence) => fence.block_only,
        }
    }

    fn releases(&self) -> bool {
        match self.kind {
            EventKind::Access(access) => access.what.releases(),
            EventKind::Fence(fence) => fence.release,
        }
    }

    fn is_thread(&self, block: usize, thread: usize) -> bool {
        (self.block, self.thread) == (block, thread)
    }

    /// Returns whether the event is a strong access to the location.
    fn is_strong_at(&self, shared: bool, at: usize) -> bool {
        let access = self.access();
        access.is_some_and(|access| {
            access.what.strong() && (access.shared, access.at) == (shared, at)
        })
    }

    /// Returns whether the scope of either strong operation includes the thread of the other.
    fn morally_strong(&self, other: &Self) -> bool {
        self.block == other.block || !(self.block_only() || other.block_only())
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct ModelReading {
    /// Makes every strong read an acquire.
    pub(super) lenient: bool,
    /// Makes volatile accesses race with plain ones only.
    pub(super) strong_volatile: bool,
}

/// The happens-before relation of the events, built in execution order.
#[derive(Default)]
pub(super) struct Model {
    by: ModelReading,
    events: Vec<ModelEvent>,
    /// For each thread, the events that happen before its next event.
    tails: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

impl Model {
    pub(super) fn new(by: ModelReading) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    fn push(&mut self, block: usize, thread: usize, kind: EventKind) {
        let tail = self.tails.get(&(block, thread));
        let before = tail.cloned().unwrap_or_default();
        let number = self.events.len();
        self.events.push(ModelEvent {
            block,
            thread,
            kind,
            released: before.clone(),
            before,
            observed: BTreeSet::new(),
        });
        self.events[number].observed = self.observed(number);
        let acquired = self.acquired(number);
        let released = &mut self.events[number].released;
        released.extend(acquired);
        let mut tail = released.clone();
        tail.insert(number);
        self.tails.insert((block, thread), tail);
    }

    /// Returns the writes that precede a strong read in observation order.
    fn observed(&self, read: usize) -> BTreeSet<usize> {
        let reader = &self.events[read];
        let Some(access) = reader
            .access()
            .filter(|access| access.what.strong() && access.what.reads())
        else {
            return BTreeSet::new();
        };
        let end = access.at + access.width;
        let overlaps = |event: &ModelEvent| {
            event.access().is_some_and(|other| {
                let here = other.shared == access.shared
                    && (!other.shared || event.block == reader.block)
                    && other.at < end
                    && access.at < other.at + other.width;
                here && other.what.writes()
            })
        };
        let Some(last) = self.events[..read].iter().rposition(overlaps) else {
            return BTreeSet::new();
        };
        let writer = &self.events[last];
        if !writer.is_strong_at(access.shared, access.at) || !writer.morally_strong(reader) {
            return BTreeSet::new();
        }
        let mut observed = writer.observed.clone();
        observed.insert(last);
        observed
    }

    /// Returns the events that an event acquires as the last operation of acquire patterns.
    fn acquired(&self, last: usize) -> BTreeSet<usize> {
        let event = &self.events[last];
        // The reads of this thread that the event completes to a pattern.
        let own = |number: &usize| self.events[*number].is_thread(event.block, event.thread);
        let reads: Vec<usize> = match event.kind {
            EventKind::Fence(fence) if fence.acquire => (0..last).filter(own).collect(),
            EventKind::Access(access) if access.what.reads() && access.what.strong() => {
                let here =
                    |number: &usize| self.events[*number].is_strong_at(access.shared, access.at);
                if access.what.acquires() {
                    (0..=last).filter(own).filter(here).collect()
                } else if self.by.lenient {
                    vec![last]
                } else {
                    Vec::new()
                }
            }
            _ => Vec::new(),
        };
        let mut acquired = BTreeSet::new();
        for write in reads.iter().flat_map(|read| &self.events[*read].observed) {
            for first in self.release_patterns(*write) {
                if self.events[first].morally_strong(event) {
                    acquired.extend(&self.events[first].released);
                    acquired.insert(first);
                }
            }
        }
        acquired
    }

    /// Returns the first operations of the release patterns that end with a strong write.
    fn release_patterns(&self, write: usize) -> Vec<usize> {
        let writer = &self.events[write];
        let Some(access) = writer.access() else {
            return Vec::new();
        };
        let begins = |number: &usize| {
            let event = &self.events[*number];
            let own = event.is_thread(writer.block, writer.thread) && event.releases();
            own && (event.access().is_none() || event.is_strong_at(access.shared, access.at))
        };
        (0..=write).filter(begins).collect()
    }

    /// Runs a block in the simulator's order: each warp until it has to wait.
    pub(super) fn run(&mut self, block: usize, steps: &[Step]) {
        let mut at = [0; 2];
        let mut stopped = [false; 2];
        // The events known to the warps that arrived at a barrier, keyed by the barrier's step.
        let mut arrived: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        while at != [steps.len(); 2] {
            for warp in 0..2 {
                let lanes = [2 * warp, 2 * warp + 1];
                while at[warp] < steps.len() {
                    let number = at[warp];
                    match steps[number] {
                        Step::Access {
                            what,
                            shared,
                            at,
                            width,
                            by,
                        } => {
                            let accessed = ThreadAccess {
                                what,
                                shared,
                                at,
                                width,
                            };
                            for thread in lanes {
                                if by.is_none_or(|by| by == (block, thread)) {
                                    self.push(block, thread, EventKind::Access(accessed));
                                }
                            }
                        }
                        Step::Fence { fence, by } => {
                            if by.0 == block && lanes.contains(&by.1) {
                                self.push(block, by.1, EventKind::Fence(fence));
                            }
                        }
                        Step::WarpBarrier => {
                            let known = self.known(block, lanes);
                            self.learn(block, lanes, &known);
                        }
                        Step::Barrier | Step::HandOver { .. } => {
                            let known = self.known(block, lanes);
                            if !stopped[warp] {
                                arrived.entry(number).or_default().extend(known);
                            }
                            let waits =
                                !matches!(steps[number], Step::HandOver { from } if from == warp);
                            let other_arrived = at[1 - warp] > number
                                || (at[1 - warp] == number && stopped[1 - warp]);
                            stopped[warp] = waits && !other_arrived;
                            if stopped[warp] {
                                break;
                            }
                            if waits {
                                self.learn(block, lanes, &arrived[&number]);
                            }
                        }
                    }
                    at[warp] += 1;
                }
            }
        }
    }

    /// Returns the events that happen before the next step of either lane.
    fn known(&self, block: usize, lanes: [usize; 2]) -> BTreeSet<usize> {
        let tails = lanes
            .iter()
            .filter_map(|lane| self.tails.get(&(block, *lane)));
        tails.flatten().copied().collect()
    }

    fn learn(&mut self, block: usize, lanes: [usize; 2], known: &BTreeSet<usize>) {
        for lane in lanes {
            self.tails.entry((block, lane)).or_default().extend(known);
        }
    }

    /// Returns the worst severity of the races for each byte of global and of shared memory.
    pub(super) fn races(&self) -> RaceSeverities {
        let mut races = RaceSeverities::default();
        for (number, later) in self.events.iter().enumerate() {
            for (earlier_number, earlier) in self.events[..number].iter().enumerate() {
                let (Some(one), Some(other)) = (later.access(), earlier.access()) else {
                    continue;
                };
                let same_block = later.block == earlier.block;
                let same_memory = one.shared == other.shared && (!one.shared || same_block);
                let same_thread = same_block && later.thread == earlier.thread;
                if !same_memory || same_thread || later.before.contains(&earlier_number) {
                    continue;
                }
                let value = |event: &ModelEvent, accessed: ThreadAccess, byte: usize| {
                    let word = accessed.what.written(event.thread)?;
                    Some(word.to_le_bytes()[byte - accessed.at])
                };
                let end = (one.at + one.width).min(other.at + other.width);
                for byte in one.at.max(other.at)..end {
                    let values = [value(later, one, byte), value(earlier, other, byte)];
                    let severity = severity([one.what, other.what], values, same_block, self.by);
                    let known = &mut races.0[usize::from(one.shared)][byte];
                    *known = (*known).max(severity);
                }
            }
        }
        races
    }
}

/// Returns the severity of a race between two accesses to a byte, to which they write `values`;
/// `None` if they do not conflict.
pub(super) fn severity(
    accesses: [StepAccess; 2],
    values: [Option<u8>; 2],
    same_block: bool,
    by: ModelReading,
) -> Option<Severity> {
    let strong = accesses.iter().all(|access| access.strong())
        && (same_block || !accesses.iter().any(|access| access.block_only()));
    let volatile = !by.strong_volatile && accesses.iter().any(|access| access.volatile());
    let writes = accesses.iter().any(|access| access.writes());
    let conflict = writes && (volatile || !strong);
    let severity = match values {
        [Some(one), Some(other)] if one == other => Severity::Note,
        _ if strong => Severity::Warning,
        _ => Severity::Error,
    };
    conflict.then_some(severity)
}

/// The worst severity of the races for each byte of global and of shared memory.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RaceSeverities(pub(super) [[Option<Severity>; BYTES]; 2]);
