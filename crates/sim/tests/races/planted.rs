//! Planted bugs: random programs that are ordered rightly, and the same with one edge left out.
//! Which edges something depends on is known from a model that compares all pairs of operations.

use std::{collections::BTreeSet, ops::Range};

use millstream_driver::{DevicePtr, DriverError, EventKind, FillPattern, StreamHandle};
use millstream_sim::{ReportKind, Schedule, SimConfig, race::Finding};

use crate::{
    kernels::{BYTES as KERNEL_BYTES, PTX},
    rig::{Arg, Rig},
};

/// Bytes of each array.
const BYTES: usize = 1024;
const ARRAYS: usize = 3;
const STREAMS: usize = 4;
const PROGRAMS: u64 = 150;

/// What an operation does with some bytes of an array. Arrays are numbered in the order in which
/// they are made, and what begins or ends one writes all of it.
#[derive(Clone, Debug)]
struct Touch {
    array: usize,
    bytes: Range<usize>,
    writes: bool,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Allocate,
    Free,
    Fill,
    Copy,
    WriteKernel,
    ReadKernel,
}

#[derive(Clone, Debug)]
struct Op {
    stream: usize,
    call: Call,
    touches: Vec<Touch>,
}

/// What puts all that one stream holds in front of later work.
#[derive(Clone, Copy, Debug)]
enum Edge {
    /// An event of the one stream that the other waits for.
    Event { from: usize, to: usize },
    /// The host waits for the stream.
    Host { from: usize },
    /// The host waits for an event of the stream.
    HostEvent { from: usize },
}

#[derive(Clone, Debug)]
enum Action {
    Op(Op),
    Edge(Edge),
}

type Before = BTreeSet<usize>;
/// Two operations, by their numbers as the driver counts them.
type Pairs = BTreeSet<(u64, u64)>;

/// What is ordered before the end of each stream, and before what the host does next.
#[derive(Clone, Default)]
struct Order {
    tails: [Before; STREAMS],
    host: Before,
}

impl Order {
    fn before(&self, stream: usize) -> Before {
        &self.tails[stream] | &self.host
    }

    fn edge(&mut self, edge: Edge) {
        match edge {
            Edge::Event { from, to } => self.tails[to] = &self.tails[to] | &self.before(from),
            Edge::Host { from } | Edge::HostEvent { from } => self.host = self.before(from),
        }
    }

    /// Puts an operation at the end of its stream; gives what is in front of it.
    fn enqueue(&mut self, stream: usize, number: usize) -> Before {
        let before = self.before(stream);
        self.tails[stream].clone_from(&before);
        self.tails[stream].insert(number);
        before
    }
}

impl Op {
    fn conflicts_with(&self, other: &Self) -> bool {
        let meet = |one: &Touch, other: &Touch| {
            let overlap = one.bytes.start < other.bytes.end && other.bytes.start < one.bytes.end;
            one.array == other.array && overlap && (one.writes || other.writes)
        };
        self.touches
            .iter()
            .any(|one| other.touches.iter().any(|other| meet(one, other)))
    }
}

struct Draw {
    state: u64,
    order: Order,
    ops: Vec<Op>,
    actions: Vec<Action>,
    /// Those that live.
    arrays: Vec<usize>,
    made: usize,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % bound
    }

    fn touch(&mut self, writes: bool, of_kernel: bool) -> Touch {
        let at = self.below(self.arrays.len());
        let bytes = if of_kernel {
            let from = KERNEL_BYTES * self.below(BYTES / KERNEL_BYTES);
            from..from + KERNEL_BYTES
        } else {
            let from = self.below(BYTES);
            from..from + 1 + self.below(BYTES - from)
        };
        Touch {
            array: self.arrays[at],
            bytes,
            writes,
        }
    }

    /// Adds an operation, behind edges from everything that it conflicts with.
    fn add(&mut self, call: Call, touches: Vec<Touch>) {
        let stream = self.below(STREAMS);
        self.add_on(stream, call, touches);
    }

    fn add_on(&mut self, stream: usize, call: Call, touches: Vec<Touch>) {
        let op = Op {
            stream,
            call,
            touches,
        };
        for earlier in 0..self.ops.len() {
            let is_ordered = self.order.before(stream).contains(&earlier);
            if is_ordered || !op.conflicts_with(&self.ops[earlier]) {
                continue;
            }
            let from = self.ops[earlier].stream;
            let edge = match self.below(8) {
                0 => Edge::Host { from },
                1 => Edge::HostEvent { from },
                _ => Edge::Event { from, to: stream },
            };
            self.order.edge(edge);
            self.actions.push(Action::Edge(edge));
        }
        self.order.enqueue(stream, self.ops.len());
        self.ops.push(op.clone());
        self.actions.push(Action::Op(op));
    }

    fn whole(array: usize) -> Vec<Touch> {
        vec![Touch {
            array,
            bytes: 0..BYTES,
            writes: true,
        }]
    }

    /// Makes an array and writes all of it, on one stream.
    fn allocate(&mut self) {
        let stream = self.below(STREAMS);
        let array = self.made;
        self.made += 1;
        self.arrays.push(array);
        self.add_on(stream, Call::Allocate, Self::whole(array));
        self.add_on(stream, Call::Fill, Self::whole(array));
    }

    fn step(&mut self) {
        match self.below(10) {
            0..3 => {
                let touch = self.touch(true, false);
                self.add(Call::Fill, vec![touch]);
            }
            3..6 => {
                let (from, mut to) = (self.touch(false, false), self.touch(true, false));
                let len = from.bytes.len().min(to.bytes.len());
                to.bytes.end = to.bytes.start + len;
                let from = Touch {
                    bytes: from.bytes.start..from.bytes.start + len,
                    ..from
                };
                if from.array != to.array {
                    self.add(Call::Copy, vec![from, to]);
                }
            }
            6 | 7 => {
                let touch = self.touch(true, true);
                self.add(Call::WriteKernel, vec![touch]);
            }
            8 => {
                let touches = vec![self.touch(false, true), self.touch(true, true)];
                if touches[0].array != touches[1].array {
                    self.add(Call::ReadKernel, touches);
                }
            }
            _ => {
                let at = self.below(self.arrays.len());
                let freed = self.arrays.remove(at);
                self.add(Call::Free, Self::whole(freed));
                self.allocate();
            }
        }
    }
}

/// A program that is ordered rightly.
fn program(seed: u64) -> Vec<Action> {
    let mut draw = Draw {
        state: seed,
        order: Order::default(),
        ops: Vec::new(),
        actions: Vec::new(),
        arrays: Vec::new(),
        made: 0,
    };
    (0..ARRAYS).for_each(|_| draw.allocate());
    for _ in 0..8 + seed % 16 {
        draw.step();
    }
    draw.actions
}

/// The pairs of operations that are in conflict and not ordered.
fn unordered(actions: &[Action]) -> Pairs {
    let (mut order, mut pairs, mut count) = (Order::default(), Pairs::new(), 0);
    let mut ops: Vec<(u64, &Op)> = Vec::new();
    for action in actions {
        match action {
            Action::Edge(edge) => {
                count += calls_enqueued(*edge);
                order.edge(*edge);
            }
            Action::Op(op) => {
                count += 1;
                let before = order.enqueue(op.stream, ops.len());
                for (at, (number, earlier)) in ops.iter().enumerate() {
                    if !before.contains(&at) && op.conflicts_with(earlier) {
                        pairs.insert((*number, count));
                    }
                }
                ops.push((count, op));
            }
        }
    }
    pairs
}

/// Whether some of the pairs are a use and the beginning or the end of what is used.
fn begins_or_ends(actions: &[Action], pairs: &Pairs) -> bool {
    let mut count = 0;
    actions.iter().any(|action| match action {
        Action::Edge(edge) => {
            count += calls_enqueued(*edge);
            false
        }
        Action::Op(op) => {
            count += 1;
            let is_either = matches!(op.call, Call::Allocate | Call::Free);
            is_either
                && pairs
                    .iter()
                    .any(|&(one, other)| one == count || other == count)
        }
    })
}

/// How many operations an edge is in the driver's count: a record, and a wait of a stream.
fn calls_enqueued(edge: Edge) -> u64 {
    match edge {
        Edge::Event { .. } => 2,
        Edge::Host { .. } => 0,
        Edge::HostEvent { .. } => 1,
    }
}

/// What came of a run.
struct Found {
    /// The operations that the checker finds fault with.
    pairs: Pairs,
    /// Whether an operation met memory that did not live, which ends a run.
    is_lost: bool,
    /// How much was found.
    count: usize,
}

/// Runs a program under the checker.
fn run(actions: &[Action], schedule: Schedule) -> Found {
    let rig = Rig::new(SimConfig::new().schedule(schedule));
    let is_lost = enqueue(&rig, actions).is_err();
    let findings = rig.gpu.findings();
    let count = findings.len();
    let pair = |finding: Finding| {
        // Who reads too early may read what nobody has written yet, and pass it on.
        if finding.kind == ReportKind::UninitialisedRead {
            return None;
        }
        let kinds = [
            ReportKind::Race,
            ReportKind::UseBeforeAllocation,
            ReportKind::FreeInFlight,
            ReportKind::UseAfterFree,
        ];
        assert!(kinds.contains(&finding.kind), "{finding}");
        let earlier = finding.earlier.as_ref().and_then(|party| party.operation);
        let later = finding.later.operation;
        let pair = earlier.zip(later);
        assert!(pair.is_some(), "two operations: {finding}");
        pair
    };
    let pairs = findings.into_iter().filter_map(pair).collect();
    assert!(!is_lost || !rig.gpu.reports().is_empty());
    Found {
        pairs,
        is_lost,
        count,
    }
}

/// Enqueues all of a program, and waits for it.
fn enqueue(rig: &Rig, actions: &[Action]) -> Result<(), DriverError> {
    let streams: Vec<_> = (0..STREAMS).map(|_| rig.stream()).collect();
    let mut arrays: Vec<DevicePtr> = Vec::new();
    let recorded = |stream: StreamHandle| {
        let event = rig.event_create(EventKind::Ordering)?;
        rig.event_record(event, stream).map(|()| event)
    };
    for action in actions {
        match action {
            Action::Op(op) => carry_out(rig, streams[op.stream], op, &mut arrays)?,
            Action::Edge(Edge::Event { from, to }) => {
                rig.stream_wait_event(streams[*to], recorded(streams[*from])?)?;
            }
            Action::Edge(Edge::Host { from }) => rig.stream_synchronize(streams[*from])?,
            Action::Edge(Edge::HostEvent { from }) => {
                rig.event_synchronize(recorded(streams[*from])?)?
            }
        }
    }
    rig.context_synchronize()
}

fn carry_out(
    rig: &Rig,
    stream: StreamHandle,
    op: &Op,
    arrays: &mut Vec<DevicePtr>,
) -> Result<(), DriverError> {
    if let Call::Allocate = op.call {
        arrays.push(rig.mem_alloc_async(BYTES, stream)?);
        return Ok(());
    }
    let places: Vec<_> = op
        .touches
        .iter()
        .map(|touch| arrays[touch.array].offset(touch.bytes.start as u64))
        .collect();
    let bytes = op.touches[0].bytes.len();
    let kernel = |name: &str| {
        let args: Vec<_> = places.iter().map(|&place| Arg::Pointer(place)).collect();
        let module = rig.module_load(PTX.as_bytes())?;
        rig.launch(rig.module_function(module, name)?, (1, 64), stream, &args)
    };
    match op.call {
        Call::Allocate => Ok(()),
        Call::Free => rig.mem_free_async(places[0], stream),
        Call::Fill => rig.memset_async(places[0], FillPattern::U8(1), bytes, stream),
        Call::Copy => rig.copy_device_to_device_async(places[1], places[0], bytes, stream),
        Call::WriteKernel => kernel("write"),
        Call::ReadKernel => kernel("read"),
    }
}

#[test]
fn every_planted_bug_is_found_and_right_programs_are_clean() {
    let (mut planted, mut ended) = (0, 0);
    for seed in 0..PROGRAMS {
        let right = program(seed);
        assert!(unordered(&right).is_empty(), "program {seed} is right");
        let without = |edge: usize| {
            let mut actions = right.clone();
            actions.remove(edge);
            actions
        };
        // Edges without which something is not ordered any more. Others are implied by what comes
        // later.
        let needed: Vec<_> = (0..right.len())
            .filter(|&at| {
                matches!(right[at], Action::Edge(_)) && !unordered(&without(at)).is_empty()
            })
            .collect();
        let wrong = needed
            .get((seed.wrapping_mul(2_654_435_761) >> 7) as usize % needed.len().max(1))
            .map(|&edge| without(edge));
        for schedule in [
            Schedule::Timed,
            Schedule::Lazy,
            Schedule::Random(seed),
            Schedule::Pct { seed, depth: 3 },
        ] {
            let clean = run(&right, schedule);
            let is_clean = clean.count == 0 && !clean.is_lost;
            assert!(
                is_clean,
                "program {seed} under {schedule}: {:?}",
                clean.pairs
            );
            let Some(wrong) = &wrong else {
                continue;
            };
            let (lost, found) = (unordered(wrong), run(wrong, schedule));
            let words = format!(
                "program {seed} under {schedule}: {:?} of {lost:?}",
                found.pairs
            );
            // An earlier use may be hidden by another that races with the same operation.
            assert!(found.pairs.is_subset(&lost), "{words}");
            let later = |pairs: &Pairs| {
                pairs
                    .iter()
                    .map(|&(_, later)| later)
                    .collect::<BTreeSet<_>>()
            };
            if found.is_lost {
                assert!(begins_or_ends(wrong, &lost), "{words}");
                ended += 1;
            } else {
                assert_eq!(later(&found.pairs), later(&lost), "{words}");
            }
            planted += 1;
        }
    }
    assert!(planted > 400, "{planted} runs had a bug");
    assert!(
        ended < planted / 2,
        "{ended} of {planted} were not seen to their end"
    );
}
