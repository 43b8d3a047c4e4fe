//! Compares the tracker with a slow and simple model: a list of all operations, with conflicts
//! found by comparing all pairs.

use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;

/// An access of an operation to bytes of an allocation.
#[derive(Clone, Debug)]
struct Operand {
    allocation: usize,
    extent: Extent,
    writes: bool,
    ordered: bool,
}

impl Operand {
    /// Returns a bit mask of the accessed bytes.
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
    /// The number of waits after which the driver fails the operation; `None` if it succeeds.
    fails_after: Option<usize>,
    /// True if the device completes everything before this operation, and the host notices.
    finishes: bool,
}

const STREAMS: usize = 4;
const ALLOCATIONS: usize = 3;
const BYTES: u64 = 40;

/// Generates a range or rows: usually of one pitch, so that the pitched layout is used, and
/// sometimes of others.
fn extent() -> impl Strategy<Value = Extent> {
    let whole = Just(Extent::from(0..BYTES));
    let range = (0..BYTES, 0..=BYTES)
        .prop_map(|(start, len)| Extent::from(start..start + len.min(BYTES - start)));
    let pitch = prop_oneof![8 => Just(8), 1 => Just(16), 1 => 1..12_u64];
    let rows = (0..BYTES, 0..=10_u64, 0..=5_u64, pitch).prop_map(|(start, len, rows, pitch)| {
        let len = len.min(pitch).min(BYTES - start);
        let fitting = (BYTES - start - len) / pitch + 1;
        Extent::strided(start..start + len, rows.min(fitting), pitch)
    });
    prop_oneof![1 => whole, 4 => range, 4 => rows]
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

/// An event of the model device, recorded on `stream` behind the first `position` entries of its
/// queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recorded {
    stream: usize,
    position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum QueueItem {
    Work(usize),
    Wait(Recorded),
}

/// Devices that only store the enqueued work, and the tracker's state, driven as by the runtime.
struct ModelDevices {
    ids: [StreamId; STREAMS],
    clocks: Vec<VectorClock>,
    points: Vec<SyncPoints<Recorded>>,
    done: Vec<Sequence>,
    queues: Vec<Vec<QueueItem>>,
    histories: Vec<AccessHistory>,
    /// The sequence number of each step's operation.
    sequences: Vec<Sequence>,
    waits: usize,
    records: usize,
}

impl ModelDevices {
    /// Creates this many devices, among which the streams are distributed.
    fn new(devices: usize) -> Self {
        let devices: Vec<_> = (0..devices).map(|_| DeviceNumber::next()).collect();
        let ids = std::array::from_fn(|at| {
            let device = devices[at % devices.len()];
            StreamId::new(device, at as u32).expect("the index is valid")
        });
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

    /// Plans, waits and enqueues like the runtime's submission. Returns whether the operation was
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
            .map(|operand| {
                let kind = match operand.writes {
                    true => AccessKind::Write,
                    false => AccessKind::Read,
                };
                Access {
                    ordered: operand.ordered,
                    ..Access::new(&histories[operand.allocation], operand.extent.clone(), kind)
                }
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
        let mut points: SmallVec<[Arc<SyncPoint<Recorded>>; 8]> = SmallVec::new();
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
        let device = self.ids[stream].device();
        drop_implied(&mut points, device);
        let mut clock = self.clocks[stream].clone();
        for (made, point) in points.iter().enumerate() {
            if step.fails_after == Some(made) {
                break;
            }
            self.queues[stream].push(QueueItem::Wait(point.event));
            self.waits += 1;
            let owner = point.ticket.stream.device();
            if owner == device {
                clock.join(&point.clock);
            } else {
                clock.join_device(&point.clock, owner);
            }
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

    /// Returns the position of the operation in its stream's queue.
    fn position(&self, number: usize, stream: usize) -> usize {
        let position = self.queues[stream]
            .iter()
            .position(|&entry| entry == QueueItem::Work(number));
        position.expect("the operation was enqueued")
    }

    /// Returns all operations that the queues order before `number`, found by following every edge
    /// except for waits for events of the device `lost`, which end.
    fn before(&self, number: usize, stream: usize, lost: Option<DeviceNumber>) -> BTreeSet<usize> {
        self.before_without(number, stream, lost, None)
    }

    /// Returns all operations ordered before `number` if the wait at position `left_out` of its own
    /// queue is ignored as well.
    fn before_without(
        &self,
        number: usize,
        stream: usize,
        lost: Option<DeviceNumber>,
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
                    QueueItem::Wait(event) => {
                        if Some(self.ids[event.stream].device()) != lost {
                            open.push((event.stream, event.position));
                        }
                    }
                }
            }
            reached[stream] = reached[stream].max(until);
        }
        found
    }
}

/// Returns whether the later operation must wait for the earlier one.
fn conflict(earlier: &Step, later: &Step) -> bool {
    earlier.operands.iter().any(|a| {
        later.operands.iter().any(|b| {
            let same_bytes = a.allocation == b.allocation && a.bytes() & b.bytes() != 0;
            same_bytes && (a.writes || b.writes) && b.ordered
        })
    })
}

/// Runs a program on this many devices, and checks the order of every pair of its operations: if no
/// device is lost, and if any of them is, of every pair on the others.
fn check(steps: &[Step], devices: usize) -> Result<ModelDevices, TestCaseError> {
    let mut model = ModelDevices::new(devices);
    let mut enqueued = Vec::new();
    // For each operation, the number of earlier operations that were complete before it was
    // submitted, regardless of the queues.
    let mut finished_before = Vec::new();
    let mut finished = 0;
    for (number, step) in steps.iter().enumerate() {
        if step.finishes {
            finished = number;
        }
        finished_before.push(finished);
        enqueued.push(model.run(number, step));
    }
    let all_lost = model.ids[..devices].iter().map(|id| Some(id.device()));
    let all_lost = all_lost.filter(|_| devices > 1);
    for lost in std::iter::once(None).chain(all_lost) {
        let device = |number: usize| model.ids[steps[number].stream].device();
        let runs = |number: usize| enqueued[number] && Some(device(number)) != lost;
        for later in (0..steps.len()).filter(|&later| runs(later)) {
            let before = model.before(later, steps[later].stream, lost);
            for earlier in (0..later).filter(|&earlier| runs(earlier)) {
                if earlier >= finished_before[later] && conflict(&steps[earlier], &steps[later]) {
                    prop_assert!(
                        before.contains(&earlier),
                        "operation {later} may overtake {earlier} if {lost:?} is lost"
                    );
                }
            }
        }
    }
    Ok(model)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 2000 },
        ..ProptestConfig::default()
    })]

    /// Checks that every conflicting pair with an ordered later access is ordered, even when
    /// submissions fail halfway.
    #[test]
    fn every_conflict_is_ordered(steps in prop::collection::vec(step(true), 1..40)) {
        check(&steps, 1)?;
    }

    /// Checks the same for operations of several devices, also if one of the devices is lost.
    #[test]
    fn every_conflict_of_several_devices_is_ordered_also_if_one_is_lost(
        steps in prop::collection::vec(step(true), 1..40),
        devices in 2..=STREAMS,
    ) {
        check(&steps, devices)?;
    }

    /// Checks that, with a sync point behind every operation, only conflicts and their consequences
    /// are waited for, and that no wait on one device is implied by others.
    #[test]
    fn only_conflicts_are_waited_for(
        steps in prop::collection::vec(step(false), 1..30),
        devices in 1..=2_usize,
    ) {
        let mut all = Vec::new();
        // All streams read every allocation twice: the first dependency between two streams may be
        // recorded late, the second may not.
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
        let model = check(&all, devices)?;
        // The pairs that must be ordered: by conflict, by stream, and transitively.
        let mut must: Vec<BTreeSet<usize>> = Vec::new();
        for later in 0..all.len() {
            let mut before = BTreeSet::new();
            for earlier in 0..later {
                let same_stream = all[earlier].stream == all[later].stream;
                if same_stream || conflict(&all[earlier], &all[later]) {
                    before.insert(earlier);
                    before.extend(must[earlier].iter().copied());
                }
            }
            must.push(before);
        }
        for later in prologue..all.len() {
            let before = model.before(later, all[later].stream, None);
            let extra: Vec<_> = before.difference(&must[later]).copied().collect();
            prop_assert!(extra.is_empty(), "operation {later} waits for {extra:?} without need");
            let stream = all[later].stream;
            let mut at = model.position(later, stream);
            while at > 0 && matches!(model.queues[stream][at - 1], QueueItem::Wait(_)) {
                at -= 1;
                let without = model.before_without(later, stream, None, Some(at));
                prop_assert!(
                    devices > 1 || without != before,
                    "operation {later} makes a wait that others imply"
                );
            }
        }
        prop_assert!(model.records <= all.len(), "more than one record per operation");
    }

    /// Checks that a single stream records and waits for nothing.
    #[test]
    fn a_single_stream_records_and_waits_for_nothing(
        steps in prop::collection::vec(step(false), 1..40),
    ) {
        let steps: Vec<_> = steps.into_iter().map(|step| Step { stream: 2, ..step }).collect();
        let model = check(&steps, 1)?;
        prop_assert_eq!((model.waits, model.records), (0, 0));
    }
}
