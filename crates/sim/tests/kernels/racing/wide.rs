//! Random kernels in which many threads access a word: broadcasts, and bytes, words and vectors at
//! shifted indices, as in tiles that a block loads, waits for and reads; atomics that many threads
//! share. The model compares each pair of steps at each byte.

use std::fmt::Write;

use millstream_sim::Severity;
use millstream_sim::exec::RaceModel;

use super::model::{ModelReading, severity};
use super::steps::{KernelGenerator, StepAccess, StoredValue};
use super::{BLOCKS, assert_found};

const KERNELS: u64 = 1000;
/// The size of each memory: 32 words.
const BYTES: usize = 128;
/// The threads of a block: two warps.
const THREADS: usize = 64;

/// The threads of a step, one bit for each.
type ThreadMask = u64;

/// The index, in units of the access width, that a thread accesses.
#[derive(Clone, Copy, Debug)]
enum Indexing {
    /// All threads access one index.
    Broadcast(usize),
    /// Each thread accesses its number plus a shift.
    Shifted(usize),
    /// Threads whose numbers are equal modulo 16 access one index.
    Modulo,
    /// Eight neighbouring threads access one index.
    Grouped,
}

impl Indexing {
    fn index(self, thread: usize) -> usize {
        match self {
            Self::Broadcast(index) => index,
            Self::Shifted(by) => thread + by,
            Self::Modulo => thread % 16,
            Self::Grouped => thread / 8,
        }
    }
}

/// A step's access: what it does, where, and which threads make it.
#[derive(Clone, Copy, Debug)]
struct WideAccess {
    what: StepAccess,
    shared: bool,
    indexing: Indexing,
    /// The access width of 1, 4, 8 or 16 bytes, the last two vectors; strong accesses are 4 bytes
    /// wide.
    width: usize,
    threads: ThreadMask,
    /// Makes the threads that do not take part jump over the access, instead of predicating it.
    branches: bool,
}

#[derive(Clone, Copy, Debug)]
enum WideStep {
    Access(WideAccess),
    WarpBarrier,
    Barrier,
    /// The exit of the second warp.
    Exit,
}

/// The steps that a kernel has most of.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Mixed,
    /// Loads of all threads from one tile.
    Tile,
    /// Accesses of a few threads to one word.
    FewThreads,
    /// Atomic, relaxed and volatile accesses.
    Strong,
}

fn stored(byte: u8) -> StoredValue {
    StoredValue::Constant(u32::from(byte) * 0x0101_0101)
}

/// Draws a strong access that neither acquires nor releases.
fn strong(draws: &mut KernelGenerator) -> StepAccess {
    let block_only = draws.below(6) == 0;
    match draws.below(8) {
        0 => StepAccess::LoadStrong {
            acquire: false,
            block_only,
        },
        1 => StepAccess::StoreStrong {
            release: false,
            block_only,
            value: stored(1),
        },
        2 => StepAccess::LoadVolatile,
        _ => StepAccess::Add {
            acquire: false,
            release: false,
            block_only,
            reduces: false,
        },
    }
}

fn wide_step(draws: &mut KernelGenerator, style: Style) -> WideStep {
    let branches = draws.below(2) == 0;
    if style == Style::Tile && draws.below(8) > 0 {
        return WideStep::Access(WideAccess {
            what: StepAccess::Load,
            shared: true,
            indexing: Indexing::Shifted(draws.below(12)),
            width: 1,
            threads: !0,
            branches,
        });
    }
    if style == Style::FewThreads && draws.below(8) > 0 {
        let store = draws.below(4) == 0;
        return WideStep::Access(WideAccess {
            what: if store {
                StepAccess::Store(stored(1))
            } else {
                StepAccess::Load
            },
            shared: draws.below(8) > 0,
            indexing: Indexing::Broadcast(0),
            width: [1, 4][draws.below(2)],
            threads: [1, 2, 1 << 32][draws.below(3)],
            branches,
        });
    }
    match draws.below(48) {
        0..4 => return WideStep::WarpBarrier,
        4..8 => return WideStep::Barrier,
        8 => return WideStep::Exit,
        _ => {}
    }
    let store = draws.below(6) == 0;
    let what = if style == Style::Strong && draws.below(12) > 0 {
        strong(draws)
    } else if store {
        StepAccess::Store(stored(if draws.below(3) == 0 { 2 } else { 1 }))
    } else {
        StepAccess::Load
    };
    // Plain stores by all threads would race in almost all kernels.
    let few = if what.writes() && !what.strong() {
        8
    } else {
        3
    };
    let threads = match draws.below(few) {
        0 => !0,
        1 => 0xffff_ffff << (32 * draws.below(2)),
        _ => 1 << draws.below(THREADS),
    };
    WideStep::Access(WideAccess {
        what,
        shared: draws.below(3) > 0,
        indexing: match draws.below(6) {
            0 => Indexing::Broadcast(draws.below(8)),
            1 => Indexing::Modulo,
            2 => Indexing::Grouped,
            _ => Indexing::Shifted(draws.below(12)),
        },
        width: if what.strong() {
            4
        } else {
            [1, 4, 8, 16][draws.below(4)]
        },
        threads,
        branches,
    })
}

/// Returns the PTX of an access, as step `number` of the kernel.
fn access_text(access: &WideAccess, number: usize) -> String {
    let WideAccess {
        what,
        shared,
        indexing,
        width,
        threads,
        branches,
    } = *access;
    let index = match indexing {
        Indexing::Broadcast(index) => format!("mov.u64 %rd3, {index};"),
        Indexing::Shifted(by) => format!("add.u64 %rd3, %rd2, {by};"),
        Indexing::Modulo => "and.b64 %rd3, %rd2, 15;".to_owned(),
        Indexing::Grouped => "shr.u64 %rd3, %rd2, 3;".to_owned(),
    };
    let (space, base) = if shared {
        ("shared", "%rd4")
    } else {
        ("global", "%rd1")
    };
    let value = what.written(0).unwrap_or_default();
    let (ty, to, from) = match width {
        1 => ("u8", "%r3", "%r7"),
        4 => ("u32", "%r3", "%r7"),
        8 => ("v2.u32", "{%r3, %r4}", "{%r7, %r7}"),
        _ => ("v4.u32", "{%r3, %r4, %r5, %r6}", "{%r7, %r7, %r7, %r7}"),
    };
    let instruction = what.instruction((space, ty), "[%rd3]", (to, from));
    let guarded = if branches {
        format!("@!%p1 bra behind_{number};\n{instruction}\nbehind_{number}:")
    } else {
        format!("@%p1 {instruction}")
    };
    format!(
        "{index}
mul.lo.u64 %rd3, %rd3, {width};
and.b64 %rd3, %rd3, {};
add.u64 %rd3, %rd3, {base};
mov.u32 %r7, {value};
shr.u64 %rd5, {threads}, %r1;
and.b64 %rd5, %rd5, 1;
setp.eq.u64 %p1, %rd5, 1;
{guarded}",
        BYTES - 1
    )
}

/// Returns the PTX of the kernel. A fence at its end orders nothing, but lets the check expect that
/// the blocks may be ordered.
fn text(steps: &[WideStep], fence: bool) -> String {
    let mut body = String::new();
    for (number, step) in steps.iter().enumerate() {
        let _ = match step {
            WideStep::Access(access) => writeln!(body, "{}", access_text(access, number)),
            WideStep::WarpBarrier => writeln!(body, "bar.warp.sync 0xffffffff;"),
            WideStep::Barrier => writeln!(body, "bar.sync 0;"),
            WideStep::Exit => writeln!(body, "setp.gt.u32 %p1, %r1, 31;\n@%p1 exit;"),
        };
    }
    if fence {
        body += "fence.acq_rel.gpu;\n";
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<2>;
.reg .b32 %r<8>;
.reg .b64 %rd<6>;
.shared .align 16 .b8 cell[{BYTES}];
ld.param.u64 %rd1, [k_0];
mov.u32 %r1, %tid.x;
cvt.u64.u32 %rd2, %r1;
mov.u64 %rd4, cell;
{body}ret;
}}"
    )
}

/// A step's access to one byte: the threads that make it, and the barriers before it.
struct ByteAccess {
    what: StepAccess,
    threads: ThreadMask,
    barriers: usize,
    warp_barriers: usize,
}

impl ByteAccess {
    /// Returns the severity of a race with another access by threads of the same block or of
    /// different ones.
    fn severity(&self, other: &Self, same_block: bool) -> Option<Severity> {
        let accesses = [self.what, other.what];
        let values = accesses.map(|what| Some(what.written(0)?.to_le_bytes()[0]));
        severity(accesses, values, same_block, ModelReading::default())
    }
}

/// An access of the threads of one warp to a byte.
struct WarpAccess<'a> {
    block: usize,
    access: &'a ByteAccess,
    threads: ThreadMask,
}

impl WarpAccess<'_> {
    fn warp(&self) -> u32 {
        self.threads.trailing_zeros() / 32
    }

    fn is_morally_strong(&self, other: &Self) -> bool {
        let [one, other_what] = [self.access.what, other.access.what];
        let scopes = self.block == other.block || !(one.block_only() || other_what.block_only());
        one.strong() && other_what.strong() && scopes
    }

    /// Returns whether a barrier is between two accesses of a block.
    fn is_before(&self, later: &Self) -> bool {
        let same_warp = self.warp() == later.warp();
        self.block == later.block
            && (self.access.barriers < later.access.barriers
                || same_warp && self.access.warp_barriers < later.access.warp_barriers)
    }
}

/// Returns the accesses to a byte in the simulator's order: each warp until it has to wait.
fn in_order(accesses: &[ByteAccess], blocks: usize) -> Vec<WarpAccess<'_>> {
    let mut order = Vec::new();
    let phases = accesses.iter().map(|access| access.barriers + 1).max();
    for block in 0..blocks {
        for phase in 0..phases.unwrap_or(0) {
            for warp in 0..2 {
                for access in accesses.iter().filter(|access| access.barriers == phase) {
                    let threads = access.threads & 0xffff_ffff << (32 * warp);
                    if threads != 0 {
                        order.push(WarpAccess {
                            block,
                            access,
                            threads,
                        });
                    }
                }
            }
        }
    }
    order
}

/// Returns the threads of access `later` that follow, by a barrier or in program order, an access
/// that has observed the last write of access `write`.
fn observers(order: &[WarpAccess<'_>], write: usize, later: usize) -> ThreadMask {
    let (mut last, mut ordered) = (&order[write], 0);
    if !last.access.what.strong() || !last.access.what.writes() {
        return 0;
    }
    let target = &order[later];
    for event in &order[write + 1..later] {
        let what = event.access.what;
        let observes = what.reads() && event.is_morally_strong(last);
        if observes && event.is_before(target) {
            return !0;
        } else if observes && event.block == target.block {
            ordered |= event.threads;
        }
        if what.writes() {
            if !observes {
                break;
            }
            last = event;
        }
    }
    ordered
}

/// Returns whether two threads of two accesses are unordered.
fn unordered(order: &[WarpAccess<'_>], first: usize, second: usize) -> bool {
    let (one, later) = (&order[first], &order[second]);
    if first == second {
        return !one.threads.is_power_of_two();
    }
    if one.is_before(later) {
        return false;
    }
    let what = one.access.what;
    let last = 1 << (63 - one.threads.leading_zeros());
    // Each atomic of an instruction has observed those of the lanes before it.
    let others = match what.reads() && what.writes() {
        true => 0,
        false => one.threads & !last,
    };
    let differ = |one: ThreadMask, other: ThreadMask, same_block: bool| {
        one != 0 && other != 0 && !(same_block && one == other && one.is_power_of_two())
    };
    let same_block = one.block == later.block;
    let behind = later.threads & !observers(order, first, second);
    differ(last, behind, same_block) || differ(others, later.threads, same_block)
}

/// Returns whether the check may have forgotten the first access: it is strong, and a thread of the
/// second one has observed a later strong write.
fn is_forgotten(order: &[WarpAccess<'_>], first: usize, second: usize) -> bool {
    order[first].access.what.strong()
        && (first + 1..second).any(|write| observers(order, write, second) != 0)
}

/// Returns, for each byte of global and of shared memory, the worst severity of the races that the
/// check must find, and of all that it may find.
fn races(steps: &[WideStep]) -> [[[Option<Severity>; BYTES]; 2]; 2] {
    let mut accesses: [[Vec<ByteAccess>; BYTES]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|_| Vec::new()));
    let (mut barriers, mut warp_barriers) = (0, 0);
    let mut live: ThreadMask = !0;
    for step in steps {
        match step {
            WideStep::WarpBarrier => warp_barriers += 1,
            WideStep::Barrier => barriers += 1,
            WideStep::Exit => live = 0xffff_ffff,
            WideStep::Access(access) => {
                let mut masks: [ThreadMask; BYTES] = [0; BYTES];
                let threads = access.threads & live;
                for thread in (0..THREADS).filter(|thread| threads >> thread & 1 == 1) {
                    let start = access.indexing.index(thread) * access.width % BYTES;
                    for mask in &mut masks[start..start + access.width] {
                        *mask |= 1 << thread;
                    }
                }
                for (byte, threads) in masks.into_iter().enumerate() {
                    if threads != 0 {
                        accesses[usize::from(access.shared)][byte].push(ByteAccess {
                            what: access.what,
                            threads,
                            barriers,
                            warp_barriers,
                        });
                    }
                }
            }
        }
    }
    [false, true].map(|all| {
        [false, true].map(|shared| {
            std::array::from_fn(|byte| {
                let accesses = &accesses[usize::from(shared)][byte];
                let order = in_order(accesses, if shared { 1 } else { BLOCKS });
                let pairs =
                    (0..order.len()).flat_map(|later| (0..=later).map(move |one| (one, later)));
                let severities = pairs.map(|(first, second)| {
                    let (one, later) = (&order[first], &order[second]);
                    let severity = one.access.severity(later.access, one.block == later.block);
                    severity.filter(|_| {
                        unordered(&order, first, second)
                            && (all || !is_forgotten(&order, first, second))
                    })
                });
                severities.max().flatten()
            })
        })
    })
}

#[test]
fn many_threads_at_one_word_race_where_the_model_says_and_nowhere_else() {
    assert_eq!(BLOCKS, 2);
    let mut racy = [0; 2];
    for seed in 0..KERNELS {
        let mut draws = KernelGenerator {
            state: seed,
            ..KernelGenerator::default()
        };
        let count = 2 + draws.below(28);
        let styles = [Style::Mixed, Style::Tile, Style::FewThreads, Style::Strong];
        let style = styles[draws.below(4)];
        let count = match style {
            Style::FewThreads => count / 4,
            Style::Strong => count / 2,
            Style::Mixed | Style::Tile => count,
        };
        let steps: Vec<WideStep> = (0..count).map(|_| wide_step(&mut draws, style)).collect();
        let [required, expected] = races(&steps);
        let text = text(&steps, draws.below(2) == 0);
        assert_found(
            &text,
            RaceModel::new(),
            required.each_ref().map(|of| &of[..]),
            expected.each_ref().map(|of| &of[..]),
        );
        for (racy, severities) in racy.iter_mut().zip(&expected) {
            *racy += u64::from(severities.iter().any(Option::is_some));
        }
    }
    let mixed = |racy| (KERNELS / 10..KERNELS * 9 / 10).contains(&racy);
    assert!(racy.into_iter().all(mixed), "{racy:?} of {KERNELS}");
}
