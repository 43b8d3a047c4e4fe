//! Random kernels with races, compared with a brute-force happens-before model that uses neither
//! vector clocks nor access records: every access has the set of all accesses before it, and all
//! pairs are compared, including the values that they write.
//!
//! A kernel is straight-line code: steps of one thread or of all threads, with barriers and fences
//! between them. Two blocks of two warps of two threads run it.

mod steps;

use std::collections::{BTreeMap, BTreeSet};

use millstream_sim::Severity;
use millstream_sim::exec::{Launch, RacedMemory, run_checked};
use millstream_sim::ptx;

use crate::memory::{DeviceMemory, Value, params};
use steps::{KernelGenerator, Step, StepAccess, text};

const KERNELS: u64 = 4000;
const STEPS_MAX: usize = 14;
const BLOCKS: usize = 2;
/// The active threads of a block; the others exit at once.
const THREADS: [u32; 4] = [0, 1, 32, 33];
/// The size of each memory: two words.
const BYTES: usize = 8;

/// An access of a thread: its kind, memory, offset and width.
#[derive(Clone, Copy)]
struct ThreadAccess {
    what: StepAccess,
    shared: bool,
    at: usize,
    width: usize,
}

/// A step of a thread, with the events that happen before it.
struct ModelEvent {
    block: usize,
    thread: usize,
    access: Option<ThreadAccess>,
    /// The scope of a fence event: `true` for the block, `false` for the device.
    fence: Option<bool>,
    before: BTreeSet<usize>,
}

/// The happens-before relation of the events, built in execution order.
#[derive(Default)]
struct Model {
    events: Vec<ModelEvent>,
    /// For each thread, the events that happen before its next event.
    tails: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

impl Model {
    fn push(
        &mut self,
        block: usize,
        thread: usize,
        access: Option<ThreadAccess>,
        fence: Option<bool>,
    ) {
        let mut before = self
            .tails
            .get(&(block, thread))
            .cloned()
            .unwrap_or_default();
        let mut told = BTreeSet::new();
        if let Some(ThreadAccess {
            what, shared, at, ..
        }) = access
            && what.acquires()
        {
            told = self.released(block, what, shared, at);
        }
        let number = self.events.len();
        self.events.push(ModelEvent {
            block,
            thread,
            access,
            fence,
            before: before.clone(),
        });
        // An acquire orders the released events before later events, not before the acquiring
        // access itself.
        before.insert(number);
        before.extend(told);
        self.tails.insert((block, thread), before);
    }

    /// Returns the events released with the value at a location, as seen by a reader in `block`.
    fn released(
        &self,
        block: usize,
        reader: StepAccess,
        shared: bool,
        at: usize,
    ) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for (number, writer) in self.events.iter().enumerate().rev() {
            let Some(ThreadAccess { what, .. }) = writer.access else {
                continue;
            };
            let is_here = |other: ThreadAccess| (other.shared, other.at) == (shared, at);
            let here = writer.access.is_some_and(is_here) && (!shared || writer.block == block);
            if !here || !what.strong() || !what.writes() {
                continue;
            }
            let same_block = writer.block == block;
            let reaches = same_block || !(what.block_only() || reader.block_only());
            if reaches && what.releases() {
                all.extend(&writer.before);
                all.insert(number);
            } else if reaches {
                // The writer's last fence whose scope includes the reader.
                let own = |event: &&usize| {
                    let event = &self.events[**event];
                    (event.block, event.thread) == (writer.block, writer.thread)
                        && event
                            .fence
                            .is_some_and(|block_only| same_block || !block_only)
                };
                if let Some(fence) = writer.before.iter().rev().find(own) {
                    all.extend(&self.events[*fence].before);
                }
            }
            if matches!(what, StepAccess::StoreStrong { .. }) {
                break;
            }
        }
        all
    }

    /// Runs a block in the simulator's order: each warp until it has to wait.
    fn run(&mut self, block: usize, steps: &[Step]) {
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
                                    self.push(block, thread, Some(accessed), None);
                                }
                            }
                        }
                        Step::Fence { block_only, by } => {
                            if by.0 == block && lanes.contains(&by.1) {
                                self.push(block, by.1, None, Some(block_only));
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
    fn races(&self) -> RaceSeverities {
        let mut races = RaceSeverities::default();
        for (number, later) in self.events.iter().enumerate() {
            for (earlier_number, earlier) in self.events[..number].iter().enumerate() {
                let (Some(one), Some(other)) = (later.access, earlier.access) else {
                    continue;
                };
                let same_block = later.block == earlier.block;
                let same_memory = one.shared == other.shared && (!one.shared || same_block);
                let same_thread = same_block && later.thread == earlier.thread;
                let strong = one.what.strong()
                    && other.what.strong()
                    && (same_block || !(one.what.block_only() || other.what.block_only()));
                let conflict = (one.what.writes() || other.what.writes()) && !strong;
                if !same_memory
                    || !conflict
                    || same_thread
                    || later.before.contains(&earlier_number)
                {
                    continue;
                }
                let value = |event: &ModelEvent, accessed: ThreadAccess, byte: usize| {
                    let word = accessed.what.written(event.thread)?;
                    Some(word.to_le_bytes()[byte - accessed.at])
                };
                let end = (one.at + one.width).min(other.at + other.width);
                for byte in one.at.max(other.at)..end {
                    let values = (value(later, one, byte), value(earlier, other, byte));
                    let severity = match values {
                        (Some(one), Some(other)) if one == other => Severity::Note,
                        _ => Severity::Error,
                    };
                    let known = &mut races.0[usize::from(one.shared)][byte];
                    *known = (*known).max(Some(severity));
                }
            }
        }
        races
    }
}

/// The worst severity of the races for each byte of global and of shared memory.
#[derive(Debug, Default, PartialEq)]
struct RaceSeverities([[Option<Severity>; BYTES]; 2]);

/// Returns the bytes on which the race check reports races. Asserts that each race has the worst
/// severity of its bytes in `expected`.
fn found(steps: &[Step], expected: &RaceSeverities) -> [[bool; BYTES]; 2] {
    let text = text(steps);
    let module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = module.kernel("k").unwrap();
    let mut memory = DeviceMemory::default();
    let array = memory.put(&[0u8; BYTES]);
    let params = params(kernel, &[array.bytes()]);
    let launch = Launch {
        params: &params,
        ..Launch::new([BLOCKS as u32, 1, 1], [64, 1, 1])
    };
    let (ran, races) = run_checked(kernel, &launch, &memory);
    ran.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let mut found = [[false; BYTES]; 2];
    for race in races {
        let shared = usize::from(matches!(race.memory, RacedMemory::Shared { .. }));
        let mut worst = None;
        for byte in race.ranges.iter().cloned().flatten() {
            found[shared][byte as usize] = true;
            worst = worst.max(expected.0[shared][byte as usize]);
        }
        assert_eq!(
            Some(race.class.severity()),
            worst,
            "{race:#?}\n{expected:?}\n{text}"
        );
    }
    found
}

/// Compares kernels with the model; counts those without races, with notes, and with errors.
fn compare(alike: bool) -> [u64; 3] {
    let mut counts = [0; 3];
    for seed in 0..KERNELS {
        let mut draw = KernelGenerator { state: seed, alike };
        let count = 2 + draw.below(STEPS_MAX - 1);
        let steps: Vec<Step> = (0..count).map(|_| draw.step()).collect();
        let mut model = Model::default();
        for block in 0..BLOCKS {
            model.run(block, &steps);
        }
        let expected = model.races();
        let bytes = expected
            .0
            .map(|bytes| bytes.map(|severity| severity.is_some()));
        assert_eq!(found(&steps, &expected), bytes, "kernel {seed}: {steps:#?}");
        let worst = expected.0.iter().flatten().max().copied().flatten();
        counts[worst.map_or(0, |severity| severity as usize + 1)] += 1;
    }
    counts
}

#[test]
fn random_kernels_race_where_the_model_says_and_nowhere_else() {
    let [clean, _, errors] = compare(false);
    assert!(
        clean > KERNELS / 10 && errors > KERNELS / 10,
        "{clean}, {errors}"
    );
}

#[test]
fn random_kernels_that_mostly_write_one_value_are_graded_as_the_model_says() {
    let counts = compare(true);
    assert!(
        counts.iter().all(|count| *count > KERNELS / 10),
        "{counts:?}"
    );
}
