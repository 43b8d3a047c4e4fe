//! Planted bugs: random programs without races, run again with one ordering edge removed. The
//! conflicts that the edge prevented are computed by a model that compares all pairs of operations.

use std::ops::Range;

use millstream_driver::{DriverError, EventKind, FillPattern};
use millstream_sim::race::Finding;

use crate::races::{
    kernels::{BYTES as KERNEL_BYTES, PTX},
    prelude::*,
};

const BYTES: usize = 1024;
const ARRAYS: usize = 3;
const STREAMS: usize = 4;
const PROGRAMS: u64 = 150;

/// An operation's access to bytes of an array. Arrays are numbered in order of allocation, and an
/// allocation or a free writes all bytes of its array.
#[derive(Clone, Debug)]
struct ArrayAccess {
    array: usize,
    bytes: Range<usize>,
    writes: bool,
}

#[derive(Clone, Copy, Debug)]
enum DriverCall {
    Allocate,
    Free,
    Fill,
    Copy,
    WriteKernel,
    ReadKernel,
}

#[derive(Clone, Debug)]
struct PlannedOp {
    stream: usize,
    call: DriverCall,
    accesses: Vec<ArrayAccess>,
}

/// An edge that orders all operations of one stream before later operations.
#[derive(Clone, Copy, Debug)]
enum OrderingEdge {
    /// One stream waits for an event of the other.
    Event { from: usize, to: usize },
    /// The host waits for the stream.
    Host { from: usize },
    /// The host waits for an event of the stream.
    HostEvent { from: usize },
}

#[derive(Clone, Debug)]
enum Action {
    Op(PlannedOp),
    Edge(OrderingEdge),
}

type Before = BTreeSet<usize>;
/// Pairs of operation numbers as the driver counts them.
type Pairs = BTreeSet<(u64, u64)>;

/// The operations ordered before the end of each stream and before the host's next call.
#[derive(Clone, Default)]
struct ModelOrder {
    tails: [Before; STREAMS],
    host: Before,
}

impl ModelOrder {
    fn before(&self, stream: usize) -> Before {
        &self.tails[stream] | &self.host
    }

    fn edge(&mut self, edge: OrderingEdge) {
        match edge {
            OrderingEdge::Event { from, to } => {
                self.tails[to] = &self.tails[to] | &self.before(from)
            }
            OrderingEdge::Host { from } | OrderingEdge::HostEvent { from } => {
                self.host = self.before(from)
            }
        }
    }

    /// Appends an operation to its stream, and returns the operations before it.
    fn enqueue(&mut self, stream: usize, number: usize) -> Before {
        let before = self.before(stream);
        self.tails[stream].clone_from(&before);
        self.tails[stream].insert(number);
        before
    }
}

impl PlannedOp {
    fn conflicts_with(&self, other: &Self) -> bool {
        let meet = |one: &ArrayAccess, other: &ArrayAccess| {
            let overlap = one.bytes.start < other.bytes.end && other.bytes.start < one.bytes.end;
            one.array == other.array && overlap && (one.writes || other.writes)
        };
        self.accesses
            .iter()
            .any(|one| other.accesses.iter().any(|other| meet(one, other)))
    }
}

struct ProgramGenerator {
    state: u64,
    order: ModelOrder,
    ops: Vec<PlannedOp>,
    actions: Vec<Action>,
    /// The live arrays, by number.
    arrays: Vec<usize>,
    made: usize,
}

impl ProgramGenerator {
    fn below(&mut self, bound: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % bound
    }

    fn access(&mut self, writes: bool, of_kernel: bool) -> ArrayAccess {
        let at = self.below(self.arrays.len());
        let bytes = if of_kernel {
            let from = KERNEL_BYTES * self.below(BYTES / KERNEL_BYTES);
            from..from + KERNEL_BYTES
        } else {
            let from = self.below(BYTES);
            from..from + 1 + self.below(BYTES - from)
        };
        ArrayAccess {
            array: self.arrays[at],
            bytes,
            writes,
        }
    }

    /// Adds an operation, after edges from every operation that it conflicts with.
    fn add(&mut self, call: DriverCall, accesses: Vec<ArrayAccess>) {
        let stream = self.below(STREAMS);
        self.add_on(stream, call, accesses);
    }

    fn add_on(&mut self, stream: usize, call: DriverCall, accesses: Vec<ArrayAccess>) {
        let op = PlannedOp {
            stream,
            call,
            accesses,
        };
        for earlier in 0..self.ops.len() {
            let is_ordered = self.order.before(stream).contains(&earlier);
            if is_ordered || !op.conflicts_with(&self.ops[earlier]) {
                continue;
            }
            let from = self.ops[earlier].stream;
            let edge = match self.below(8) {
                0 => OrderingEdge::Host { from },
                1 => OrderingEdge::HostEvent { from },
                _ => OrderingEdge::Event { from, to: stream },
            };
            self.order.edge(edge);
            self.actions.push(Action::Edge(edge));
        }
        self.order.enqueue(stream, self.ops.len());
        self.ops.push(op.clone());
        self.actions.push(Action::Op(op));
    }

    fn whole(array: usize) -> Vec<ArrayAccess> {
        vec![ArrayAccess {
            array,
            bytes: 0..BYTES,
            writes: true,
        }]
    }

    /// Allocates an array and writes all of it, on one stream.
    fn allocate(&mut self) {
        let stream = self.below(STREAMS);
        let array = self.made;
        self.made += 1;
        self.arrays.push(array);
        self.add_on(stream, DriverCall::Allocate, Self::whole(array));
        self.add_on(stream, DriverCall::Fill, Self::whole(array));
    }

    fn step(&mut self) {
        match self.below(10) {
            0..3 => {
                let access = self.access(true, false);
                self.add(DriverCall::Fill, vec![access]);
            }
            3..6 => {
                let (from, mut to) = (self.access(false, false), self.access(true, false));
                let len = from.bytes.len().min(to.bytes.len());
                to.bytes.end = to.bytes.start + len;
                let from = ArrayAccess {
                    bytes: from.bytes.start..from.bytes.start + len,
                    ..from
                };
                if from.array != to.array {
                    self.add(DriverCall::Copy, vec![from, to]);
                }
            }
            6 | 7 => {
                let access = self.access(true, true);
                self.add(DriverCall::WriteKernel, vec![access]);
            }
            8 => {
                let accesses = vec![self.access(false, true), self.access(true, true)];
                if accesses[0].array != accesses[1].array {
                    self.add(DriverCall::ReadKernel, accesses);
                }
            }
            _ => {
                let at = self.below(self.arrays.len());
                let freed = self.arrays.remove(at);
                self.add(DriverCall::Free, Self::whole(freed));
                self.allocate();
            }
        }
    }
}

/// Creates a program without races.
fn program(seed: u64) -> Vec<Action> {
    let mut draw = ProgramGenerator {
        state: seed,
        order: ModelOrder::default(),
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

/// Returns the pairs of conflicting operations that are not ordered.
fn unordered(actions: &[Action]) -> Pairs {
    let (mut order, mut pairs, mut count) = (ModelOrder::default(), Pairs::new(), 0);
    let mut ops: Vec<(u64, &PlannedOp)> = Vec::new();
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

/// Returns whether any of the pairs contains an allocation or a free.
fn begins_or_ends(actions: &[Action], pairs: &Pairs) -> bool {
    let mut count = 0;
    actions.iter().any(|action| match action {
        Action::Edge(edge) => {
            count += calls_enqueued(*edge);
            false
        }
        Action::Op(op) => {
            count += 1;
            let is_either = matches!(op.call, DriverCall::Allocate | DriverCall::Free);
            is_either
                && pairs
                    .iter()
                    .any(|&(one, other)| one == count || other == count)
        }
    })
}

/// Returns the operations that the driver counts for an edge: a record, and a stream's wait.
fn calls_enqueued(edge: OrderingEdge) -> u64 {
    match edge {
        OrderingEdge::Event { .. } => 2,
        OrderingEdge::Host { .. } => 0,
        OrderingEdge::HostEvent { .. } => 1,
    }
}

struct RunFindings {
    /// The pairs of operations in the checker's findings.
    pairs: Pairs,
    /// Whether an operation accessed memory that was not live, which loses the context.
    is_lost: bool,
    count: usize,
}

/// Runs a program under the checker.
fn run(actions: &[Action], schedule: Schedule) -> RunFindings {
    let sim = SimHarness::new(SimConfig::new().schedule(schedule));
    let is_lost = enqueue(&sim, actions).is_err();
    let findings = sim.gpu.findings();
    let count = findings.len();
    let pair = |finding: Finding| {
        // An operation that reads too early may read uninitialised bytes, and copy them.
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
        assert!(pair.is_some(), "operation missing: {finding}");
        pair
    };
    let pairs = findings.into_iter().filter_map(pair).collect();
    assert!(!is_lost || !sim.gpu.reports().is_empty());
    RunFindings {
        pairs,
        is_lost,
        count,
    }
}

/// Enqueues all operations of a program, and waits for them.
fn enqueue(sim: &SimHarness, actions: &[Action]) -> Result<(), DriverError> {
    let streams: Vec<_> = (0..STREAMS).map(|_| sim.stream()).collect();
    let mut arrays: Vec<DevicePtr> = Vec::new();
    let recorded = |stream: StreamHandle| {
        let event = sim.event_create(EventKind::Ordering)?;
        sim.event_record(event, stream).map(|()| event)
    };
    for action in actions {
        match action {
            Action::Op(op) => carry_out(sim, streams[op.stream], op, &mut arrays)?,
            Action::Edge(OrderingEdge::Event { from, to }) => {
                sim.stream_wait_event(streams[*to], recorded(streams[*from])?)?;
            }
            Action::Edge(OrderingEdge::Host { from }) => sim.stream_synchronize(streams[*from])?,
            Action::Edge(OrderingEdge::HostEvent { from }) => {
                sim.event_synchronize(recorded(streams[*from])?)?
            }
        }
    }
    sim.context_synchronize()
}

fn carry_out(
    sim: &SimHarness,
    stream: StreamHandle,
    op: &PlannedOp,
    arrays: &mut Vec<DevicePtr>,
) -> Result<(), DriverError> {
    if let DriverCall::Allocate = op.call {
        arrays.push(sim.mem_alloc_async(BYTES, stream)?);
        return Ok(());
    }
    let places: Vec<_> = op
        .accesses
        .iter()
        .map(|access| arrays[access.array].offset(access.bytes.start as u64))
        .collect();
    let bytes = op.accesses[0].bytes.len();
    let kernel = |name: &str| {
        let args: Vec<_> = places.iter().map(|&place| Arg::Pointer(place)).collect();
        let module = sim.module_load(PTX.as_bytes())?;
        sim.launch(sim.module_function(module, name)?, (1, 64), stream, &args)
    };
    match op.call {
        DriverCall::Allocate => Ok(()),
        DriverCall::Free => sim.mem_free_async(places[0], stream),
        DriverCall::Fill => sim.memset_async(places[0], FillPattern::U8(1), bytes, stream),
        DriverCall::Copy => sim.copy_device_to_device_async(places[1], places[0], bytes, stream),
        DriverCall::WriteKernel => kernel("write"),
        DriverCall::ReadKernel => kernel("read"),
    }
}

#[test]
fn every_planted_bug_is_found_and_right_programs_are_clean() {
    let (mut planted, mut ended) = (0, 0);
    for seed in 0..PROGRAMS {
        let right = program(seed);
        assert!(unordered(&right).is_empty(), "program {seed} has a race");
        let without = |edge: usize| {
            let mut actions = right.clone();
            actions.remove(edge);
            actions
        };
        // Edges whose removal leaves a conflict unordered. The other edges are implied by later
        // ones.
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
            // An earlier access may be hidden by another that races with the same operation.
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
    assert!(planted > 400, "only {planted} runs had a bug");
    assert!(
        ended < planted / 2,
        "{ended} of {planted} were not seen to their end"
    );
}
