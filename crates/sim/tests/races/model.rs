//! Random programs, compared with a brute-force model without vector clocks or histories: every
//! operation has the set of all operations before it, and all pairs are compared byte by byte.

use std::collections::BTreeMap;

use millstream_driver::{
    ConditionalKind, EventHandle, GraphExecHandle, GraphHandle, GraphNodeHandle,
};
use millstream_sim::race::{Finding, Party, RedundantSync};

use crate::races::{
    harness::graphs::{copy, fill},
    kernels::{self, launch, zeros},
    prelude::*,
};

/// The array's size in bytes: a page and a part of the next.
const BYTES: usize = 5000;
const STREAMS: usize = 4;
const EVENTS: usize = 3;
const STEPS_MAX: u64 = 40;
const PROGRAMS: u64 = 60;

type Before = BTreeSet<usize>;

/// The racing bytes of each operation that races with an earlier one, by the operation's number.
type RacingBytes = BTreeMap<u64, Vec<bool>>;

/// An operation of the model: the bytes it accesses, whether it writes them, and the operations
/// before it.
struct ModelOp {
    number: u64,
    bytes: std::ops::Range<usize>,
    writes: bool,
    before: Before,
}

struct ModelNode {
    bytes: std::ops::Range<usize>,
    writes: bool,
    /// The indices of the nodes that it depends on.
    dependencies: Vec<usize>,
    /// For an access in the body of a conditional node: whether the body runs.
    runs_if: Option<bool>,
}

/// A random program under construction, both in the simulator and in the model.
struct Program<'r> {
    sim: &'r SimHarness,
    state: u64,
    streams: Vec<StreamHandle>,
    events: Vec<EventHandle>,
    ops: Vec<ModelOp>,
    tails: Vec<Before>,
    captures: Vec<Before>,
    host: Before,
    enqueued: u64,
    /// The number of waits so far, and those that are left out.
    waits: usize,
    skipped: BTreeSet<usize>,
}

impl Program<'_> {
    fn draw(&mut self, below: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % below
    }

    /// Calls a wait, with its number as the label, unless it is left out.
    fn wait(&mut self, wait: impl FnOnce(&SimHarness)) -> bool {
        self.waits += 1;
        let runs = !self.skipped.contains(&self.waits);
        if runs {
            let _label = Label::new(format!("wait {}", self.waits));
            wait(self.sim);
        }
        runs
    }

    fn range(&mut self) -> std::ops::Range<usize> {
        let (mut from, mut to) = (self.draw(BYTES), self.draw(BYTES));
        match self.draw(4) {
            0 => (from, to) = (0, BYTES),
            1 => (from, to) = (from / 4096 * 4096, 4096),
            2 => (from, to) = (from / 4 * 4, to / 4 * 4),
            _ => {}
        }
        let (from, to) = (from.min(to), from.max(to));
        from..to.max(from + 1)
    }

    fn step(&mut self, memory: DevicePtr, scratch: DevicePtr) {
        let (sim, at) = (self.sim, self.draw(STREAMS));
        let (stream, event) = (self.streams[at], self.draw(EVENTS));
        match self.draw(9) {
            0..4 => {
                let (mut bytes, writes, runs) =
                    (self.range(), self.draw(2) == 0, self.draw(4) == 0);
                // A separate target for each stream.
                let target = scratch.offset((at * BYTES) as u64);
                if runs {
                    let from = bytes.start.min(BYTES - kernels::BYTES) / 4 * 4;
                    bytes = from..from + kernels::BYTES;
                }
                let (place, count) = (memory.offset(bytes.start as u64), bytes.len());
                match (runs, writes) {
                    (true, true) => launch(sim, "write", stream, &[place]),
                    (true, false) => launch(sim, "read", stream, &[place, target]),
                    (false, true) => sim.fill(place, 1, count, stream),
                    (false, false) => sim
                        .copy_device_to_device_async(target, place, count, stream)
                        .unwrap(),
                }
                self.enqueued += 1;
                let before = &self.tails[at] | &self.host;
                self.tails[at] = before.clone();
                self.tails[at].insert(self.ops.len());
                self.ops.push(ModelOp {
                    number: self.enqueued,
                    bytes,
                    writes,
                    before,
                });
            }
            4 => {
                sim.event_record(self.events[event], stream).unwrap();
                self.enqueued += 1;
                self.captures[event] = &self.tails[at] | &self.host;
            }
            5 | 6 => {
                let awaited = self.events[event];
                if self.wait(|sim| sim.stream_wait_event(stream, awaited).unwrap()) {
                    self.enqueued += 1;
                    self.tails[at] = &self.tails[at] | &self.captures[event];
                }
            }
            7 => self.launch_graph(memory),
            _ if self.draw(3) == 0 => {
                if self.wait(|sim| sim.stream_synchronize(stream).unwrap()) {
                    self.host = &self.host | &self.tails[at];
                }
            }
            _ => {
                let awaited = self.events[event];
                if self.wait(|sim| sim.event_synchronize(awaited).unwrap()) {
                    self.host = &self.host | &self.captures[event];
                }
            }
        }
    }

    fn add_access(
        &self,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        memory: DevicePtr,
        node: &ModelNode,
    ) -> GraphNodeHandle {
        let (place, count) = (memory.offset(node.bytes.start as u64), node.bytes.len());
        let operation = if node.writes {
            fill(place, 1, count)
        } else {
            copy(self.sim.mem_alloc(count).unwrap(), place, count)
        };
        self.sim.graph_add(graph, dependencies, &operation).unwrap()
    }

    fn make_graph(&mut self, memory: DevicePtr) -> (GraphExecHandle, Vec<ModelNode>) {
        let sim = self.sim;
        let graph = sim.graph_create().unwrap();
        let (mut handles, mut nodes) = (Vec::new(), Vec::<ModelNode>::new());
        for index in 0..=self.draw(6) {
            let node = ModelNode {
                bytes: self.range(),
                writes: self.draw(2) == 0,
                dependencies: (0..index).filter(|_| self.draw(3) == 0).collect(),
                runs_if: (self.draw(4) == 0).then(|| self.draw(2) == 0),
            };
            let before: Vec<_> = node
                .dependencies
                .iter()
                .map(|index| handles[*index])
                .collect();
            handles.push(match node.runs_if {
                None => self.add_access(graph, &before, memory, &node),
                Some(runs) => {
                    let condition = sim.graph_condition(graph, runs.into()).unwrap();
                    let kind = ConditionalKind::If;
                    let added = sim.graph_add_conditional(graph, &before, condition, kind);
                    let added = added.unwrap();
                    self.add_access(added.body, &[], memory, &node);
                    added.node
                }
            });
            nodes.push(node);
        }
        (sim.graph_instantiate(graph).unwrap(), nodes)
    }

    /// Launches a random graph once or more often, on random streams.
    fn launch_graph(&mut self, memory: DevicePtr) {
        let (exec, nodes) = self.make_graph(memory);
        let mut earlier = Before::new();
        for _ in 0..=self.draw(3) {
            let at = self.draw(STREAMS);
            self.sim.graph_launch(exec, self.streams[at]).unwrap();
            self.enqueued += 1;
            let start = &(&self.tails[at] | &self.host) | &earlier;
            let mut done: Vec<Before> = Vec::new();
            for node in &nodes {
                let mut before = start.clone();
                for dependency in &node.dependencies {
                    before = &before | &done[*dependency];
                }
                // A conditional node is an operation in front of its body, and one behind it.
                self.enqueued += 1 + u64::from(node.runs_if.is_some());
                let number = self.enqueued;
                self.enqueued += u64::from(node.runs_if.is_some());
                done.push(before.clone());
                if node.runs_if != Some(false) {
                    done.last_mut().unwrap().insert(self.ops.len());
                    self.ops.push(ModelOp {
                        number,
                        bytes: node.bytes.clone(),
                        writes: node.writes,
                        before,
                    });
                }
            }
            self.enqueued += 1;
            earlier = done.iter().fold(start, |all, done| &all | done);
            self.tails[at] = earlier.clone();
        }
    }

    fn races(&self) -> RacingBytes {
        let mut races = RacingBytes::new();
        for (at, later) in self.ops.iter().enumerate() {
            for (earlier_at, earlier) in self.ops[..at].iter().enumerate() {
                if !later.before.contains(&earlier_at) && (later.writes || earlier.writes) {
                    let from = later.bytes.start.max(earlier.bytes.start);
                    let to = later.bytes.end.min(earlier.bytes.end);
                    mark(&mut races, later.number, from..to);
                }
            }
        }
        races
    }
}

fn mark(races: &mut RacingBytes, later: u64, bytes: std::ops::Range<usize>) {
    if !bytes.is_empty() {
        let marks = races.entry(later).or_insert_with(|| vec![false; BYTES]);
        marks[bytes].fill(true);
    }
}

/// Runs the program of a seed. Returns its races according to the model, and the findings.
fn play(seed: u64, config: SimConfig) -> (RacingBytes, Vec<Finding>) {
    let (races, sim, _) = play_without(seed, config, &BTreeSet::new());
    (races, sim.gpu.findings())
}

/// Runs the program of a seed without some of its waits. Returns its races according to the model,
/// the simulator, and the number of waits.
fn play_without(
    seed: u64,
    config: SimConfig,
    skipped: &BTreeSet<usize>,
) -> (RacingBytes, SimHarness, usize) {
    let sim = SimHarness::new(config);
    // The same bytes at one address, or at two.
    let memory = match seed % 2 {
        0 => [zeros(&sim, BYTES); 2],
        _ => {
            let (memory, stream) = (kernels::mapped_twice(&sim), sim.stream());
            sim.fill(memory[0], 0, BYTES, stream);
            sim.stream_synchronize(stream).unwrap();
            memory
        }
    };
    let scratch = sim.mem_alloc(BYTES * STREAMS).unwrap();
    let mut program = Program {
        streams: (0..STREAMS).map(|_| sim.stream()).collect(),
        events: (0..EVENTS).map(|_| sim.event()).collect(),
        sim: &sim,
        state: seed,
        ops: Vec::new(),
        tails: vec![Before::new(); STREAMS],
        captures: vec![Before::new(); EVENTS],
        host: Before::new(),
        // The fill with zeros.
        enqueued: 1,
        waits: 0,
        skipped: skipped.clone(),
    };
    for _ in 0..=seed % STEPS_MAX {
        let address = program.draw(2);
        program.step(memory[address], scratch);
    }
    sim.context_synchronize().unwrap();
    let (races, waits) = (program.races(), program.waits);
    (races, sim, waits)
}

/// Runs the program of a seed. Returns its races according to the model and to the checker.
fn run(seed: u64, schedule: Schedule) -> [RacingBytes; 2] {
    let (races, findings) = play(seed, SimConfig::new().schedule(schedule));
    let mut found = RacingBytes::new();
    for finding in findings {
        assert_eq!(finding.kind, ReportKind::Race, "{finding}");
        let memory = finding.memory.unwrap();
        assert_eq!(memory.allocation, 1, "{memory}");
        for range in memory.ranges {
            let later = finding.later.operation.unwrap();
            mark(&mut found, later, range.start as usize..range.end as usize);
        }
    }
    [races, found]
}

/// The operations of the races of a program, with the edge that is proposed for each.
type Proposed = BTreeMap<(u64, u64), (u64, u64)>;

fn proposed(seed: u64, config: SimConfig) -> Proposed {
    let findings = play(seed, config).1.into_iter();
    let edges = findings.map(|finding| {
        let proposal = finding.proposal.as_ref().expect("a race without proposal");
        assert!(
            proposal
                .text
                .ends_with("(checked: the race is gone, no other appears)"),
            "{finding}"
        );
        let earlier = finding.earlier.unwrap().operation.unwrap();
        let edge = (proposal.after.unwrap(), proposal.before.unwrap());
        ((earlier, finding.later.operation.unwrap()), edge)
    });
    edges.collect()
}

/// V5: an edge that is proposed orders the race, and no other race appears; all of them together
/// leave none.
#[test]
fn v05_the_edge_that_is_proposed_orders_the_race_of_random_programs() {
    let schedules = [Schedule::Eager, Schedule::Lazy, Schedule::Random(1)];
    let (mut tried, mut again) = (0, 0);
    for seed in (0..PROGRAMS).step_by(4) {
        let races = proposed(seed, SimConfig::new());
        let edges: BTreeSet<(u64, u64)> = races.values().copied().collect();
        again += races.len() - edges.len();
        for schedule in schedules {
            let config = SimConfig::new().schedule(schedule);
            assert_eq!(
                proposed(seed, config.clone()),
                races,
                "{seed}, {schedule:?}"
            );
            let mut all = config.clone();
            for (after, before) in &edges {
                all = all.edge(*after, *before);
                let left = proposed(seed, config.clone().edge(*after, *before));
                for (race, edge) in &races {
                    let gone = !left.contains_key(race);
                    assert!(
                        gone || *edge != (*after, *before),
                        "{seed}: {race:?}, {edge:?}"
                    );
                }
                for race in left.keys() {
                    assert!(races.contains_key(race), "{seed}: {race:?} is new");
                }
                tried += 1;
            }
            assert_eq!(proposed(seed, all), Proposed::new(), "{seed}, {schedule:?}");
        }
    }
    assert!(
        tried > 100 && again > 10,
        "{tried} edges, {again} of several races"
    );
}

/// V5: without the waits that are listed as redundant a random program has the races that it had,
/// under every schedule, and without any other one it has more.
#[test]
fn v05_no_wait_that_is_needed_is_listed_as_redundant() {
    // The numbers of operations and their kinds, since those of waits are missing.
    let races = |seed, schedule, skipped: &BTreeSet<usize>| -> Vec<String> {
        let (_, sim, _) = play_without(seed, SimConfig::new().schedule(schedule), skipped);
        let findings = sim.gpu.findings().into_iter();
        let texts = findings.map(|it| {
            let what = |party: &Party| (party.what.clone(), party.stream.clone());
            let parties = (what(&it.later), it.earlier.as_ref().map(what));
            format!("{:?}", (parties, it.memory))
        });
        texts.collect()
    };
    let (mut listed, mut needed) = (0, 0);
    for seed in (0..PROGRAMS).step_by(2) {
        let config = SimConfig::new().redundant(true);
        let (_, sim, waits) = play_without(seed, config, &BTreeSet::new());
        let number = |wait: &RedundantSync| {
            let site = wait.site.as_ref()?.strip_prefix("`wait ")?;
            site.split('`').next()?.parse().ok()
        };
        let redundant: BTreeSet<usize> = sim
            .gpu
            .redundant_syncs()
            .iter()
            .filter_map(number)
            .collect();
        for schedule in [Schedule::Timed, Schedule::Lazy, Schedule::Random(seed)] {
            let before = races(seed, schedule, &BTreeSet::new());
            assert_eq!(races(seed, schedule, &redundant), before, "{seed}");
        }
        for other in (1..=waits).filter(|wait| !redundant.contains(wait)) {
            let with = &redundant | &BTreeSet::from([other]);
            let before = races(seed, Schedule::Timed, &redundant);
            assert_ne!(
                races(seed, Schedule::Timed, &with),
                before,
                "{seed}: wait {other}"
            );
            needed += 1;
        }
        listed += redundant.len();
    }
    assert!(
        listed > 100 && needed > 10,
        "{listed} redundant, {needed} needed"
    );
}

#[test]
fn random_programs_race_where_the_model_says_and_nowhere_else() {
    let mut racy = 0;
    for seed in 0..PROGRAMS {
        let schedules = [
            Schedule::Eager,
            Schedule::Lazy,
            Schedule::Timed,
            Schedule::Random(seed),
            Schedule::Pct { seed, depth: 3 },
        ];
        for schedule in schedules {
            let [expected, found] = run(seed, schedule);
            assert!(found == expected, "program {seed} under {schedule:?}");
            racy += usize::from(!expected.is_empty());
        }
    }
    assert!(
        racy > 0 && racy < 5 * PROGRAMS as usize,
        "{racy} programs race"
    );
}
