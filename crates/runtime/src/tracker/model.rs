//! The tracker against a slow, obviously right model: a list of all operations, conflicts found by
//! comparing all pairs.

use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;

/// What an operation does to some bytes of an allocation.
#[derive(Clone, Debug)]
struct Operand {
    allocation: usize,
    extent: Extent,
    writes: bool,
    ordered: bool,
}

impl Operand {
    /// A bit for each byte that it touches.
    fn bytes(&self) -> u64 {
        let rows = (0..self.extent.rows()).flat_map(|row| self.extent.row(row));
        rows.fold(0, |bytes, byte| bytes | 1 << byte)
    }
}

/// One operation of a random program.
#[derive(Clone, Debug)]
struct Step {
    stream: usize,
    operands: Vec<Operand>,
    /// The driver refuses the operation after this many of its waits; `None` if all goes well.
    fails_after: Option<usize>,
    /// Whether the device finishes everything before this operation, and the host notices.
    finishes: bool,
}

const STREAMS: usize = 4;
const ALLOCATIONS: usize = 3;
const BYTES: u64 = 40;

/// A range, or rows: mostly at one distance, so that they meet in a table, and sometimes at others.
fn extent() -> impl Strategy<Value = Extent> {
    let range = (0..BYTES, 0..=BYTES)
        .prop_map(|(start, len)| Extent::from(start..start + len.min(BYTES - start)));
    let pitch = prop_oneof![8 => Just(8), 1 => Just(16), 1 => 1..12_u64];
    let rows = (0..BYTES, 0..=10_u64, 0..=5_u64, pitch).prop_map(|(start, len, rows, pitch)| {
        let len = len.min(pitch).min(BYTES - start);
        let fitting = (BYTES - start - len) / pitch + 1;
        Extent::strided(start..start + len, rows.min(fitting), pitch)
    });
    prop_oneof![range, rows]
}

fn step(failures: bool) -> impl Strategy<Value = Step> {
    let operand = (
        0..ALLOCATIONS,
        extent(),
        any::<bool>(),
        prop::bool::weighted(0.85),
    )
        .prop_map(|(allocation, extent, writes, ordered)| Operand {
            allocation,
            extent,
            writes,
            ordered,
        });
    let fails = if failures {
        prop_oneof![8 => Just(None), 1 => (0..3_usize).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    (
        0..STREAMS,
        prop::collection::vec(operand, 0..4),
        fails,
        prop::bool::weighted(0.03),
    )
        .prop_map(|(stream, operands, fails_after, finishes)| Step {
            stream,
            operands,
            fails_after,
            finishes,
        })
}

/// An event of the model's device: recorded on `stream` behind the first `position` entries of its
/// queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recorded {
    stream: usize,
    position: usize,
}

/// What stands in a queue of the model's device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueItem {
    Work(usize),
    Wait(Recorded),
}

/// A device that only remembers what was enqueued, under the tracker driven as the runtime drives
/// it.
struct ModelDevice {
    ids: [StreamId; STREAMS],
    clocks: Vec<VectorClock>,
    points: Vec<SyncPoints<Recorded>>,
    done: Vec<Sequence>,
    queues: Vec<Vec<QueueItem>>,
    histories: Vec<AccessHistory>,
    /// Ticket numbers of each step's operation.
    sequences: Vec<Sequence>,
    waits: usize,
    records: usize,
}

impl ModelDevice {
    fn new() -> Self {
        let ids =
            std::array::from_fn(|at| StreamId::at(at as u32).expect("there is such an index"));
        Self {
            ids,
            clocks: vec![VectorClock::default(); STREAMS],
            points: ids.iter().map(|&id| SyncPoints::new(id)).collect(),
            done: vec![Sequence::START; STREAMS],
            queues: vec![Vec::new(); STREAMS],
            histories: (0..ALLOCATIONS)
                .map(|_| AccessHistory::new(BYTES))
                .collect(),
            sequences: Vec::new(),
            waits: 0,
            records: 0,
        }
    }

    fn index(&self, id: StreamId) -> usize {
        self.ids
            .iter()
            .position(|&known| known == id)
            .expect("a stream of this model")
    }

    fn record(&mut self, stream: usize) -> Recorded {
        self.records += 1;
        Recorded {
            stream,
            position: self.queues[stream].len(),
        }
    }

    /// Plans, waits and enqueues as the runtime's submission does; says whether the operation was
    /// enqueued.
    fn run(&mut self, number: usize, step: &Step) -> bool {
        if step.finishes {
            for stream in 0..STREAMS {
                self.done[stream] = self.points[stream].submitted();
            }
        }
        let stream = step.stream;
        let sequence = self.points[stream].submitted().next();
        self.sequences.push(sequence);
        let done = self.done.clone();
        let ids = self.ids;
        let is_done = move |ticket: Ticket| {
            ids.iter()
                .position(|&id| id == ticket.stream)
                .is_some_and(|at| done[at] >= ticket.sequence)
        };
        let histories = std::mem::take(&mut self.histories);
        let mut accesses: Accesses<'_> = step
            .operands
            .iter()
            .map(|operand| Access {
                history: &histories[operand.allocation],
                extent: operand.extent.clone(),
                kind: if operand.writes {
                    AccessKind::Write
                } else {
                    AccessKind::Read
                },
                ordered: operand.ordered,
            })
            .collect();
        let mut plan = Plan::default();
        plan_and_publish(
            Ticket::new(self.ids[stream], sequence),
            &self.clocks[stream],
            &mut accesses,
            &is_done,
            &mut plan,
        );
        let wanted = plan.dependencies.clone();
        let mut points: SmallVec<[Arc<SyncPoint<Recorded>>; 4]> = SmallVec::new();
        for ticket in wanted {
            if is_done(ticket) {
                continue;
            }
            let other = self.index(ticket.stream);
            let point = match self.points[other].covering(ticket.sequence) {
                Some(point) => Arc::clone(point),
                None => {
                    let (tail, clock) = self.points[other].tail();
                    let event = self.record(other);
                    let late = SyncPoint::new(Ticket::new(ticket.stream, tail), &clock, event);
                    self.points[other].record_late(Arc::new(late), drop)
                }
            };
            points.push(point);
        }
        drop_implied(&mut points);
        let mut clock = self.clocks[stream].clone();
        for (made, point) in points.iter().enumerate() {
            if step.fails_after == Some(made) {
                break;
            }
            self.queues[stream].push(QueueItem::Wait(point.event));
            self.waits += 1;
            clock.join(&point.clock);
        }
        let enqueued = step.fails_after.is_none();
        if enqueued {
            self.queues[stream].push(QueueItem::Work(number));
            let own = Ticket::new(self.ids[stream], sequence);
            let point = plan
                .records_event
                .then(|| Arc::new(SyncPoint::new(own, &clock, self.record(stream))));
            self.points[stream].submit(sequence, Some(&clock), point);
            self.clocks[stream] = clock;
        } else {
            restore_displaced(&mut accesses, &plan.dependencies);
            self.points[stream].fail(sequence, plan.dependencies, &is_done);
        }
        drop(accesses);
        self.histories = histories;
        enqueued
    }

    /// Where the operation stands in its stream's queue.
    fn position(&self, number: usize, stream: usize) -> usize {
        let position = self.queues[stream]
            .iter()
            .position(|&entry| entry == QueueItem::Work(number));
        position.expect("the operation was enqueued")
    }

    /// All operations that the queues put before `number`, found by walking every edge.
    fn before(&self, number: usize, stream: usize) -> BTreeSet<usize> {
        self.before_without(number, stream, None)
    }

    /// The same if the wait at position `left_out` of the operation's own queue were not there.
    fn before_without(
        &self,
        number: usize,
        stream: usize,
        left_out: Option<usize>,
    ) -> BTreeSet<usize> {
        let own = stream;
        let mut found = BTreeSet::new();
        let mut reached = [0; STREAMS];
        let mut open = vec![(stream, self.position(number, stream))];
        while let Some((stream, until)) = open.pop() {
            for at in reached[stream]..until {
                if stream == own && left_out == Some(at) {
                    continue;
                }
                match self.queues[stream][at] {
                    QueueItem::Work(earlier) => {
                        found.insert(earlier);
                    }
                    QueueItem::Wait(event) => open.push((event.stream, event.position)),
                }
            }
            reached[stream] = reached[stream].max(until);
        }
        found
    }
}

/// Whether the later operation must wait for the earlier.
fn conflict(earlier: &Step, later: &Step) -> bool {
    earlier.operands.iter().any(|a| {
        later.operands.iter().any(|b| {
            let same_bytes = a.allocation == b.allocation && a.bytes() & b.bytes() != 0;
            same_bytes && (a.writes || b.writes) && b.ordered
        })
    })
}

/// Runs a program and compares every pair of its operations.
fn check(steps: &[Step]) -> Result<ModelDevice, TestCaseError> {
    let mut model = ModelDevice::new();
    let mut enqueued = Vec::new();
    // Operations up to this number finished before the host went on, whatever the queues say.
    let mut finished_before = Vec::new();
    let mut finished = 0;
    for (number, step) in steps.iter().enumerate() {
        if step.finishes {
            finished = number;
        }
        finished_before.push(finished);
        enqueued.push(model.run(number, step));
    }
    for later in 0..steps.len() {
        if !enqueued[later] {
            continue;
        }
        let before = model.before(later, steps[later].stream);
        for earlier in 0..later {
            if enqueued[earlier]
                && earlier >= finished_before[later]
                && conflict(&steps[earlier], &steps[later])
            {
                prop_assert!(
                    before.contains(&earlier),
                    "operation {later} may overtake {earlier}"
                );
            }
        }
    }
    Ok(model)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 2000 }, ..ProptestConfig::default() })]

    /// Every conflicting pair whose later access is ordered is, also when submissions fail half
    /// way.
    #[test]
    fn every_conflict_is_ordered(steps in prop::collection::vec(step(true), 1..40)) {
        check(&steps)?;
    }

    /// With a sync point behind every operation, nothing is waited for but conflicts and what these
    /// imply, and no wait is made that the others imply.
    #[test]
    fn nothing_else_is_waited_for(steps in prop::collection::vec(step(false), 1..30)) {
        let mut all = Vec::new();
        // All streams read every allocation twice: the first crossing of each may record late, the
        // second may not.
        for stream in (0..STREAMS).chain(0..STREAMS) {
            let whole = |allocation| Operand {
                allocation,
                extent: (0..BYTES).into(),
                writes: false,
                ordered: true,
            };
            let operands = (0..ALLOCATIONS).map(whole).collect();
            all.push(Step { stream, operands, fails_after: None, finishes: false });
        }
        let prologue = all.len();
        all.extend(steps.into_iter().map(|step| Step { finishes: false, ..step }));
        let model = check(&all)?;
        // The pairs that must be ordered, by conflict, by stream, and by what follows from these.
        let mut must: Vec<BTreeSet<usize>> = Vec::new();
        for later in 0..all.len() {
            let mut before = BTreeSet::new();
            for earlier in 0..later {
                if conflict(&all[earlier], &all[later]) || all[earlier].stream == all[later].stream {
                    before.insert(earlier);
                    before.extend(must[earlier].iter().copied());
                }
            }
            must.push(before);
        }
        for later in prologue..all.len() {
            let before = model.before(later, all[later].stream);
            let extra: Vec<_> = before.difference(&must[later]).copied().collect();
            prop_assert!(extra.is_empty(), "operation {later} waits for {extra:?} without need");
            let stream = all[later].stream;
            let mut at = model.position(later, stream);
            while at > 0 && matches!(model.queues[stream][at - 1], QueueItem::Wait(_)) {
                at -= 1;
                let without = model.before_without(later, stream, Some(at));
                prop_assert!(without != before, "operation {later} makes a wait that others imply");
            }
        }
        prop_assert!(model.records <= all.len(), "more than one record an operation");
    }

    /// One stream alone records and waits for nothing.
    #[test]
    fn one_stream_costs_nothing(steps in prop::collection::vec(step(false), 1..40)) {
        let steps: Vec<_> = steps.into_iter().map(|step| Step { stream: 2, ..step }).collect();
        let model = check(&steps)?;
        prop_assert_eq!((model.waits, model.records), (0, 0));
    }
}
