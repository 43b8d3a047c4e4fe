//! The model of the race check: the events of a kernel, as the simulator executes them, for the
//! axiomatic memory model to order ([`crate::causality`]). All pairs are compared, including the
//! values that they write.

use std::collections::BTreeMap;

use millstream_sim::Severity;

use super::BYTES;
use super::steps::{FenceStep, Step, StepAccess};
use crate::causality::{Accessed, Event, Execution, Reading, Relation};

/// An access of a thread: its kind, memory, offset and width.
#[derive(Clone, Copy)]
struct ThreadAccess {
    what: StepAccess,
    shared: bool,
    at: usize,
    width: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) struct ModelReading {
    /// Makes every strong read an acquire.
    pub(super) lenient: bool,
    /// Makes volatile accesses race with plain ones only.
    pub(super) strong_volatile: bool,
}

/// The threads that arrive at a barrier, and those of them that wait.
#[derive(Default)]
struct Barrier {
    arrivals: Vec<usize>,
    waits: Vec<usize>,
}

/// The execution of a kernel, built in its order.
#[derive(Default)]
pub(super) struct Model {
    by: ModelReading,
    execution: Execution,
    /// What each event accesses.
    accesses: Vec<Option<ThreadAccess>>,
    /// The last write of each byte of each memory.
    last: BTreeMap<(usize, usize), usize>,
    /// The barriers by their block, step and, for those of a warp, their warp.
    barriers: BTreeMap<(usize, usize, Option<usize>), Barrier>,
}

impl Model {
    pub(super) fn new(by: ModelReading) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    fn push(&mut self, event: Event, access: Option<ThreadAccess>) -> usize {
        let number = self.execution.events.len();
        let bytes = event.access.map(|access| {
            let bytes = access.start..access.start + access.bytes;
            bytes.map(move |byte| (access.memory, byte))
        });
        let bytes: Vec<_> = bytes.into_iter().flatten().collect();
        let mut sources = Vec::new();
        if event.access.is_some_and(|access| access.reads) {
            sources.extend(bytes.iter().map(|byte| self.last.get(byte).copied()));
        }
        if event.access.is_some_and(|access| access.writes) {
            for (earlier, other) in self.execution.events.iter().enumerate() {
                let accesses = other.access.filter(|other| other.writes).zip(event.access);
                let overlap = accesses.is_some_and(|(one, other)| one.overlaps(&other));
                self.execution.coherence.set(earlier, number, overlap);
            }
            self.last
                .extend(bytes.into_iter().map(|byte| (byte, number)));
        }
        self.execution.events.push(event);
        self.execution.sources.push(sources);
        self.accesses.push(access);
        number
    }

    fn access(&mut self, block: usize, thread: usize, access: ThreadAccess) {
        let what = access.what;
        let event = Event {
            block,
            thread,
            access: Some(Accessed {
                memory: if access.shared { 1 + block } else { 0 },
                start: access.at,
                bytes: access.width,
                reads: what.reads(),
                writes: what.writes(),
                strong: what.strong(),
                reduction: what.reduces(),
            }),
            acquires: what.acquires(),
            releases: what.releases(),
            block_only: what.block_only(),
            ..Event::default()
        };
        self.push(event, Some(access));
    }

    fn fence(&mut self, (block, thread): (usize, usize), fence: FenceStep) {
        let event = Event {
            block,
            thread,
            acquires: fence.acquire,
            releases: fence.release,
            sequential: fence.sequential,
            block_only: fence.block_only,
            ..Event::default()
        };
        self.push(event, None);
    }

    /// Records the arrival of two threads at a barrier, and whether they wait there.
    fn arrive(&mut self, key: (usize, usize, Option<usize>), lanes: [usize; 2], waits: bool) {
        for thread in lanes {
            let event = Event {
                block: key.0,
                thread,
                barrier: true,
                ..Event::default()
            };
            let number = self.push(event, None);
            let barrier = self.barriers.entry(key).or_default();
            barrier.arrivals.push(number);
            barrier.waits.extend(waits.then_some(number));
        }
    }

    /// Runs a block in the simulator's order: each warp until it has to wait.
    pub(super) fn run(&mut self, block: usize, steps: &[Step]) {
        let mut at = [0; 2];
        let mut stopped = [false; 2];
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
                                    self.access(block, thread, accessed);
                                }
                            }
                        }
                        Step::Fence { fence, by } => {
                            if by.0 == block && lanes.contains(&by.1) {
                                self.fence(by, fence);
                            }
                        }
                        Step::WarpBarrier => {
                            self.arrive((block, number, Some(warp)), lanes, true);
                        }
                        Step::Barrier | Step::HandOver { .. } => {
                            let waits =
                                !matches!(steps[number], Step::HandOver { from } if from == warp);
                            if !stopped[warp] {
                                self.arrive((block, number, None), lanes, waits);
                            }
                            let other_arrived = at[1 - warp] > number
                                || (at[1 - warp] == number && stopped[1 - warp]);
                            stopped[warp] = waits && !other_arrived;
                            if stopped[warp] {
                                break;
                            }
                        }
                    }
                    at[warp] += 1;
                }
            }
        }
    }

    /// Returns the pairs of events that every Fence-SC order relates in causality order.
    fn causality(&self, races_order_nothing: bool) -> Relation {
        let mut execution = self.execution.clone();
        execution.reading = Reading {
            lenient: self.by.lenient,
            races_order_nothing,
        };
        for barrier in self.barriers.values() {
            for arrival in &barrier.arrivals {
                for wait in &barrier.waits {
                    execution.barriers.set(*arrival, *wait, arrival != wait);
                }
            }
        }
        let orders = execution.causality_orders().into_iter();
        let all = orders.reduce(|all, one| all.and(&one));
        all.expect("the axioms allow what the simulator does")
    }

    /// Adds the pairs of accesses to one location between which a strong write is.
    ///
    /// Causality order is not transitive behind a write that a thread has only observed. The check
    /// forgets a strong access when a strong write follows it, so that it takes these for ordered.
    fn without_forgotten(&self, causality: &Relation) -> Relation {
        let events = &self.execution.events;
        let mut local = causality.clone();
        local.retain(|one, other| {
            let accesses = events[one].access.zip(events[other].access);
            accesses.is_some_and(|(one, other)| one.strong && one.overlaps(&other))
        });
        for (at, event) in events.iter().enumerate() {
            if event
                .access
                .is_some_and(|access| access.strong && access.writes)
            {
                local.connect(at);
            }
        }
        causality.or(&local)
    }

    /// Returns, for each byte of global and of shared memory, the worst severity of the races that
    /// the check must find, and of all that it may find.
    pub(super) fn races(&self) -> [RaceSeverities; 2] {
        let order = self.causality(true);
        let races = [
            self.races_with(&self.without_forgotten(&order)),
            self.races_with(&order),
        ];
        // A race that an order forced by racing accesses would hide is never alone.
        if self.execution.events.iter().any(|event| event.sequential) {
            let by_the_book = self.races_with(&self.causality(false));
            let none = RaceSeverities::default();
            assert_eq!(by_the_book == none, races[1] == none);
        }
        races
    }

    fn races_with(&self, order: &Relation) -> RaceSeverities {
        let mut races = RaceSeverities::default();
        let events = &self.execution.events;
        for (number, later) in events.iter().enumerate() {
            for (earlier_number, earlier) in events[..number].iter().enumerate() {
                let (Some(one), Some(other)) =
                    (self.accesses[number], self.accesses[earlier_number])
                else {
                    continue;
                };
                let same_block = later.block == earlier.block;
                let same_memory = one.shared == other.shared && (!one.shared || same_block);
                if !same_memory
                    || (order.has(earlier_number, number) || order.has(number, earlier_number))
                {
                    continue;
                }
                let value = |event: &Event, accessed: ThreadAccess, byte: usize| {
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
