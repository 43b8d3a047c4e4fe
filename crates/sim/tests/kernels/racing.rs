//! Random kernels whose threads race, compared with a model that knows nothing of clocks and records: every access has the set of all that come
//! before it, and all pairs are compared.
//!
//! A kernel is a straight line: steps that one thread makes, or all, with barriers and fences between. Two blocks of two warps of two threads
//! run it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use millstream_sim::exec::{Launch, RacedMemory, run_checked};
use millstream_sim::ptx;

use crate::memory::{Memory, Value, params};

const KERNELS: u64 = 1500;
const STEPS_MAX: usize = 14;
const BLOCKS: usize = 2;
/// The threads of a block that do anything; the others exit at once.
const THREADS: [u32; 4] = [0, 1, 32, 33];
/// Bytes of each memory: two words.
const BYTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    Load,
    Store,
    /// `ld.relaxed`, `ld.acquire`
    LoadStrong {
        acquire: bool,
    },
    /// `st.relaxed`, `st.release`
    StoreStrong {
        release: bool,
    },
    /// `atom.add`, relaxed or both; for the block or for all
    Add {
        order: bool,
        block_only: bool,
    },
}

impl Access {
    fn writes(self) -> bool {
        !matches!(self, Self::Load | Self::LoadStrong { .. })
    }
    fn strong(self) -> bool {
        !matches!(self, Self::Load | Self::Store)
    }
    fn block_only(self) -> bool {
        matches!(self, Self::Add { block_only: true, .. })
    }
    fn acquires(self) -> bool {
        matches!(self, Self::LoadStrong { .. } | Self::Add { .. })
    }
    fn releases(self) -> bool {
        matches!(
            self,
            Self::StoreStrong { release: true } | Self::Add { order: true, .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Access {
        what: Access,
        shared: bool,
        /// Where it begins; plain ones are of one byte, the others of a word.
        at: usize,
        /// The block and the thread, or all.
        by: Option<(usize, usize)>,
    },
    Fence {
        block_only: bool,
        by: (usize, usize),
    },
    /// Lanes 0 and 1 of every warp.
    WarpBarrier,
    Barrier,
    /// One warp arrives, the other waits, at a barrier of its own.
    HandOver {
        from: usize,
    },
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }

    fn step(&mut self) -> Step {
        let by = (self.below(BLOCKS), self.below(THREADS.len()));
        match self.below(12) {
            0 => Step::Barrier,
            1 => Step::WarpBarrier,
            2 => Step::HandOver { from: self.below(2) },
            3 | 4 => Step::Fence {
                block_only: self.below(3) == 0,
                by,
            },
            _ => {
                let what = match self.below(9) {
                    0 | 1 => Access::Load,
                    2 | 3 => Access::Store,
                    4 => Access::LoadStrong {
                        acquire: self.below(2) == 0,
                    },
                    5 => Access::StoreStrong {
                        release: self.below(2) == 0,
                    },
                    _ => Access::Add {
                        order: self.below(3) == 0,
                        block_only: self.below(3) == 0,
                    },
                };
                Step::Access {
                    what,
                    shared: self.below(3) == 0,
                    at: if what.strong() {
                        self.below(2) * 4
                    } else {
                        self.below(BYTES)
                    },
                    by: (self.below(4) > 0).then_some(by),
                }
            }
        }
    }
}

/// The kernel as PTX.
fn text(steps: &[Step]) -> String {
    let mut body = String::new();
    let only = |body: &mut String, (block, thread): (usize, usize)| {
        let _ = writeln!(
            body,
            "setp.eq.u32 %p1, %r1, {};",
            block * 64 + THREADS[thread] as usize
        );
    };
    for (number, step) in steps.iter().enumerate() {
        let _ = match *step {
            Step::Access { what, shared, at, by } => {
                let guard = if let Some(by) = by {
                    only(&mut body, by);
                    "@%p1 "
                } else {
                    ""
                };
                let (space, address) = if shared {
                    ("shared", format!("[cell+{at}]"))
                } else {
                    ("global", format!("[%rd1+{at}]"))
                };
                body += guard;
                match what {
                    Access::Load => writeln!(body, "ld.{space}.u8 %r3, {address};"),
                    Access::Store => writeln!(body, "st.{space}.u8 {address}, %r4;"),
                    Access::LoadStrong { acquire } => {
                        let order = if acquire { "acquire" } else { "relaxed" };
                        writeln!(body, "ld.{order}.gpu.{space}.u32 %r3, {address};")
                    }
                    Access::StoreStrong { release } => {
                        let order = if release { "release" } else { "relaxed" };
                        writeln!(body, "st.{order}.gpu.{space}.u32 {address}, %r4;")
                    }
                    Access::Add { order, block_only } => {
                        let order = if order { ".acq_rel" } else { "" };
                        let scope = if block_only { "cta" } else { "gpu" };
                        writeln!(body, "atom{order}.{scope}.{space}.add.u32 %r3, {address}, %r4;")
                    }
                }
            }
            Step::Fence { block_only, by } => {
                only(&mut body, by);
                let scope = if block_only { "cta" } else { "gl" };
                writeln!(body, "@%p1 membar.{scope};")
            }
            Step::WarpBarrier => writeln!(body, "bar.warp.sync 3;"),
            Step::Barrier => writeln!(body, "bar.sync 0;"),
            Step::HandOver { from } => writeln!(
                body,
                "setp.eq.u32 %p1, %r5, {from};\n@%p1 bar.arrive {0}, 64;\n@!%p1 bar.sync {0}, 64;",
                number + 1
            ),
        };
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.shared .align 8 .b8 cell[{BYTES}];
ld.param.u64 %rd1, [k_0];
mov.u32 %r6, %tid.x;
mov.u32 %r7, %ctaid.x;
mad.lo.u32 %r1, %r7, 64, %r6;
and.b32 %r2, %r6, 31;
shr.u32 %r5, %r6, 5;
mov.u32 %r4, 1;
setp.gt.u32 %p2, %r2, 1;
@%p2 exit;
{body}ret;
}}"
    )
}

/// Something that a thread did, and what comes before it.
struct Event {
    block: usize,
    thread: usize,
    /// What it accessed, in shared memory or not, and where.
    access: Option<(Access, bool, usize)>,
    /// For all, or for the block.
    fence: Option<bool>,
    before: BTreeSet<usize>,
}

/// The order of everything, worked out from the order in which it is run.
#[derive(Default)]
struct Model {
    events: Vec<Event>,
    /// Of each thread, what comes before what it does next.
    tails: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

impl Model {
    fn push(
        &mut self,
        block: usize,
        thread: usize,
        access: Option<(Access, bool, usize)>,
        fence: Option<bool>,
    ) {
        let mut before = self.tails.get(&(block, thread)).cloned().unwrap_or_default();
        let mut told = BTreeSet::new();
        if let Some((what, shared, at)) = access
            && what.acquires()
        {
            told = self.released(block, what, shared, at);
        }
        let number = self.events.len();
        self.events.push(Event {
            block,
            thread,
            access,
            fence,
            before: before.clone(),
        });
        // What is acquired comes before what follows, not before the access itself.
        before.insert(number);
        before.extend(told);
        self.tails.insert((block, thread), before);
    }

    /// What was released with the value at a place, for a reader in a block.
    fn released(&self, block: usize, reader: Access, shared: bool, at: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::new();
        for (number, writer) in self.events.iter().enumerate().rev() {
            let Some((what, its_shared, its_at)) = writer.access else {
                continue;
            };
            let here = its_shared == shared && its_at == at && (!shared || writer.block == block);
            if !here || !what.strong() || !what.writes() {
                continue;
            }
            let same_block = writer.block == block;
            let reaches = same_block || !(what.block_only() || reader.block_only());
            if reaches && what.releases() {
                all.extend(&writer.before);
                all.insert(number);
            } else if reaches {
                // Its last fence that counts.
                let own = |event: &&usize| {
                    let event = &self.events[**event];
                    (event.block, event.thread) == (writer.block, writer.thread)
                        && event.fence.is_some_and(|block_only| same_block || !block_only)
                };
                if let Some(fence) = writer.before.iter().rev().find(own) {
                    all.extend(&self.events[*fence].before);
                }
            }
            if matches!(what, Access::StoreStrong { .. }) {
                break;
            }
        }
        all
    }

    /// Runs a block as the simulator does: each warp until it has to wait.
    fn run(&mut self, block: usize, steps: &[Step]) {
        let mut at = [0; 2];
        let mut stopped = [false; 2];
        // What the lanes knew that had arrived, by the step that they did so at.
        let mut arrived: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        while at != [steps.len(); 2] {
            for warp in 0..2 {
                let lanes = [2 * warp, 2 * warp + 1];
                while at[warp] < steps.len() {
                    let number = at[warp];
                    match steps[number] {
                        Step::Access { what, shared, at, by } => {
                            for thread in lanes {
                                if by.is_none_or(|by| by == (block, thread)) {
                                    self.push(block, thread, Some((what, shared, at)), None);
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
                            let waits = !matches!(steps[number], Step::HandOver { from } if from == warp);
                            let other_arrived =
                                at[1 - warp] > number || (at[1 - warp] == number && stopped[1 - warp]);
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

    /// What either of the lanes knows.
    fn known(&self, block: usize, lanes: [usize; 2]) -> BTreeSet<usize> {
        let tails = lanes.iter().filter_map(|lane| self.tails.get(&(block, *lane)));
        tails.flatten().copied().collect()
    }

    fn learn(&mut self, block: usize, lanes: [usize; 2], known: &BTreeSet<usize>) {
        for lane in lanes {
            self.tails.entry((block, lane)).or_default().extend(known);
        }
    }

    /// The bytes with which threads race, of global and of shared memory.
    fn races(&self) -> Races {
        let mut races = Races::default();
        for (number, later) in self.events.iter().enumerate() {
            for (earlier_number, earlier) in self.events[..number].iter().enumerate() {
                let (Some((what, shared, at)), Some((its_what, its_shared, its_at))) =
                    (later.access, earlier.access)
                else {
                    continue;
                };
                let same_block = later.block == earlier.block;
                let same_memory = shared == its_shared && (!shared || same_block);
                let same_thread = same_block && later.thread == earlier.thread;
                let strong = what.strong()
                    && its_what.strong()
                    && (same_block || !(what.block_only() || its_what.block_only()));
                let conflict = (what.writes() || its_what.writes()) && !strong;
                if same_memory && conflict && !same_thread && !later.before.contains(&earlier_number) {
                    let bytes = |what: Access, at: usize| at..at + if what.strong() { 4 } else { 1 };
                    let (one, other) = (bytes(what, at), bytes(its_what, its_at));
                    for byte in one.start.max(other.start)..one.end.min(other.end) {
                        races.0[usize::from(shared)][byte] = true;
                    }
                }
            }
        }
        races
    }
}

/// Which bytes are raced for, in global and in shared memory.
#[derive(Debug, Default, PartialEq)]
struct Races([[bool; BYTES]; 2]);

fn found(steps: &[Step]) -> Races {
    let text = text(steps);
    let module = ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let array = memory.put(&[0u8; BYTES]);
    let params = params(kernel, &[array.bytes()]);
    let launch = Launch {
        params: &params,
        ..Launch::new([BLOCKS as u32, 1, 1], [64, 1, 1])
    };
    let (ran, races) = run_checked(kernel, &launch, &memory);
    ran.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let mut found = Races::default();
    for race in races {
        let shared = matches!(race.memory, RacedMemory::Shared { .. });
        for byte in race.ranges.into_iter().flatten() {
            found.0[usize::from(shared)][byte as usize] = true;
        }
    }
    found
}

#[test]
fn random_kernels_race_where_the_model_says_and_nowhere_else() {
    let mut racy = 0;
    for seed in 0..KERNELS {
        let mut draw = Draw(seed);
        let count = 2 + draw.below(STEPS_MAX - 1);
        let steps: Vec<Step> = (0..count).map(|_| draw.step()).collect();
        let mut model = Model::default();
        for block in 0..BLOCKS {
            model.run(block, &steps);
        }
        let expected = model.races();
        assert_eq!(found(&steps), expected, "kernel {seed}: {steps:#?}");
        racy += u64::from(expected != Races::default());
    }
    assert!(
        racy > KERNELS / 10 && racy < KERNELS * 9 / 10,
        "{racy} kernels race"
    );
}
