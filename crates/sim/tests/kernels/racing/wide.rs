//! Random kernels in which many threads access a word: broadcasts, and bytes and words at shifted
//! indices, as in tiles that a block loads, waits for and reads. The model compares each pair of
//! steps at each byte.

use std::fmt::Write;

use millstream_sim::Severity;
use millstream_sim::exec::RaceModel;

use super::steps::KernelGenerator;
use super::{BLOCKS, assert_found};

const KERNELS: u64 = 2000;
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

#[derive(Clone, Copy, Debug)]
enum WideStep {
    Access {
        /// The stored byte, or `None` for a load.
        stored: Option<u8>,
        shared: bool,
        indexing: Indexing,
        /// The access width of 1 or 4 bytes.
        width: usize,
        threads: ThreadMask,
    },
    WarpBarrier,
    Barrier,
}

/// The steps that a kernel has most of.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Mixed,
    /// Loads of all threads from one tile.
    Tile,
    /// Accesses of a few threads to one word.
    FewThreads,
}

fn wide_step(draws: &mut KernelGenerator, style: Style) -> WideStep {
    if style == Style::Tile && draws.below(8) > 0 {
        return WideStep::Access {
            stored: None,
            shared: true,
            indexing: Indexing::Shifted(draws.below(12)),
            width: 1,
            threads: !0,
        };
    }
    if style == Style::FewThreads && draws.below(8) > 0 {
        return WideStep::Access {
            stored: (draws.below(4) == 0).then_some(1),
            shared: draws.below(4) > 0,
            indexing: Indexing::Broadcast(0),
            width: [1, 4][draws.below(2)],
            threads: [1, 2, 3, 1 << 32][draws.below(4)],
        };
    }
    let barrier = draws.below(12);
    if barrier < 2 {
        return [WideStep::WarpBarrier, WideStep::Barrier][barrier];
    }
    let store = draws.below(6) == 0;
    // Stores by all threads would race in almost all kernels.
    let threads = match draws.below(if store { 8 } else { 3 }) {
        0 => !0,
        1 => 0xffff_ffff << (32 * draws.below(2)),
        _ => 1 << draws.below(THREADS),
    };
    WideStep::Access {
        stored: store.then(|| if draws.below(3) == 0 { 2 } else { 1 }),
        shared: draws.below(3) > 0,
        indexing: match draws.below(6) {
            0 => Indexing::Broadcast(draws.below(8)),
            1 => Indexing::Modulo,
            2 => Indexing::Grouped,
            _ => Indexing::Shifted(draws.below(12)),
        },
        width: [1, 4][draws.below(2)],
        threads,
    }
}

/// Returns the PTX of the kernel.
fn text(steps: &[WideStep]) -> String {
    let mut body = String::new();
    for step in steps {
        let _ = match *step {
            WideStep::Access {
                stored,
                shared,
                indexing,
                width,
                threads,
            } => {
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
                let ty = if width == 1 { "u8" } else { "u32" };
                let access = match stored {
                    None => format!("ld.{space}.{ty} %r3, [%rd3];"),
                    Some(byte) => {
                        let value = u32::from(byte) * 0x0101_0101;
                        format!("st.{space}.{ty} [%rd3], {value};")
                    }
                };
                writeln!(
                    body,
                    "{index}
mul.lo.u64 %rd3, %rd3, {width};
and.b64 %rd3, %rd3, {};
add.u64 %rd3, %rd3, {base};
shr.u64 %rd5, {threads}, %r1;
and.b64 %rd5, %rd5, 1;
setp.eq.u64 %p1, %rd5, 1;
@%p1 {access}",
                    BYTES - 1
                )
            }
            WideStep::WarpBarrier => writeln!(body, "bar.warp.sync 0xffffffff;"),
            WideStep::Barrier => writeln!(body, "bar.sync 0;"),
        };
    }
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64
.visible .entry k(.param .u64 k_0)
{{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .b64 %rd<6>;
.shared .align 8 .b8 cell[{BYTES}];
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
    stored: Option<u8>,
    threads: ThreadMask,
    barriers: usize,
    warp_barriers: usize,
}

/// Returns whether two threads of different numbers are in the two masks.
fn differ(one: ThreadMask, other: ThreadMask) -> bool {
    one != 0 && other != 0 && (one != other || !one.is_power_of_two())
}

impl ByteAccess {
    /// Returns whether threads of one block race.
    fn races_within(&self, later: &Self) -> bool {
        let parts = |mask: ThreadMask| [mask & 0xffff_ffff, mask >> 32];
        let (one, other) = (parts(self.threads), parts(later.threads));
        let across = (one[0] != 0 && other[1] != 0) || (one[1] != 0 && other[0] != 0);
        let within = (0..2).any(|warp| differ(one[warp], other[warp]));
        self.barriers == later.barriers
            && (across || (within && self.warp_barriers == later.warp_barriers))
    }

    fn severity(&self, other: &Self) -> Option<Severity> {
        match (self.stored, other.stored) {
            (None, None) => None,
            (one, other) if one == other => Some(Severity::Note),
            _ => Some(Severity::Error),
        }
    }
}

/// Returns the worst severity of the races for each byte of global and of shared memory.
fn races(steps: &[WideStep]) -> [[Option<Severity>; BYTES]; 2] {
    let mut accesses: [[Vec<ByteAccess>; BYTES]; 2] =
        std::array::from_fn(|_| std::array::from_fn(|_| Vec::new()));
    let (mut barriers, mut warp_barriers) = (0, 0);
    for step in steps {
        match *step {
            WideStep::WarpBarrier => warp_barriers += 1,
            WideStep::Barrier => barriers += 1,
            WideStep::Access {
                stored,
                shared,
                indexing,
                width,
                threads,
            } => {
                let mut masks: [ThreadMask; BYTES] = [0; BYTES];
                for thread in (0..THREADS).filter(|thread| threads >> thread & 1 == 1) {
                    let start = indexing.index(thread) * width % BYTES;
                    for mask in &mut masks[start..start + width] {
                        *mask |= 1 << thread;
                    }
                }
                for (byte, threads) in masks.into_iter().enumerate() {
                    if threads != 0 {
                        accesses[usize::from(shared)][byte].push(ByteAccess {
                            stored,
                            threads,
                            barriers,
                            warp_barriers,
                        });
                    }
                }
            }
        }
    }
    [false, true].map(|shared| {
        std::array::from_fn(|byte| {
            let accesses = &accesses[usize::from(shared)][byte];
            let pairs =
                (0..accesses.len()).flat_map(|later| (0..=later).map(move |one| (one, later)));
            let pairs = pairs.map(|(one, later)| (&accesses[one], &accesses[later]));
            // Nothing orders the blocks, which share global memory.
            let racing = pairs.filter(|(one, later)| !shared || one.races_within(later));
            racing.filter_map(|(one, later)| one.severity(later)).max()
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
        let style = [Style::Mixed, Style::Tile, Style::FewThreads][draws.below(3)];
        let count = if style == Style::FewThreads {
            count / 4
        } else {
            count
        };
        let steps: Vec<WideStep> = (0..count).map(|_| wide_step(&mut draws, style)).collect();
        let expected = races(&steps);
        let text = text(&steps);
        assert_found(
            &text,
            RaceModel::new(),
            expected.each_ref().map(|of| &of[..]),
        );
        for (racy, severities) in racy.iter_mut().zip(&expected) {
            *racy += u64::from(severities.iter().any(Option::is_some));
        }
    }
    let mixed = |racy| (KERNELS / 10..KERNELS * 9 / 10).contains(&racy);
    assert!(racy.into_iter().all(mixed), "{racy:?} of {KERNELS}");
}
