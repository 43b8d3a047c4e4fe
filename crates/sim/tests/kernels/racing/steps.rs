//! Random kernels: their steps, and the PTX generated from them.

use std::fmt::Write;

use super::{BLOCKS, BYTES, STEPS_MAX, THREADS};

/// The number of `fence.sc` of a kernel, whose orders the model enumerates.
const FENCES_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StepAccess {
    Load,
    Store(StoredValue),
    /// A strong load: `ld.relaxed` or `ld.acquire`.
    LoadStrong {
        acquire: bool,
        block_only: bool,
    },
    /// A strong store: `st.relaxed` or `st.release`.
    StoreStrong {
        release: bool,
        block_only: bool,
        value: StoredValue,
    },
    LoadVolatile,
    StoreVolatile(StoredValue),
    /// An `atom.add` of any order, at block or device scope, or a `red.add`.
    Add {
        acquire: bool,
        release: bool,
        block_only: bool,
        reduces: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StoredValue {
    /// The same value in all threads.
    Constant(u32),
    /// The thread's number in each byte.
    Thread,
}

impl StoredValue {
    fn by(self, thread: usize) -> u32 {
        match self {
            Self::Constant(value) => value,
            Self::Thread => THREADS[thread] * 0x0101_0101,
        }
    }
}

impl StepAccess {
    /// Returns the value that a thread writes, if it does not depend on memory.
    pub(super) fn written(self, thread: usize) -> Option<u32> {
        match self {
            Self::Store(value) | Self::StoreVolatile(value) | Self::StoreStrong { value, .. } => {
                Some(value.by(thread))
            }
            _ => None,
        }
    }
    pub(super) fn writes(self) -> bool {
        !matches!(
            self,
            Self::Load | Self::LoadStrong { .. } | Self::LoadVolatile
        )
    }
    pub(super) fn reads(self) -> bool {
        !self.writes() || matches!(self, Self::Add { .. })
    }
    pub(super) fn reduces(self) -> bool {
        matches!(self, Self::Add { reduces: true, .. })
    }
    pub(super) fn volatile(self) -> bool {
        matches!(self, Self::LoadVolatile | Self::StoreVolatile(_))
    }
    pub(super) fn strong(self) -> bool {
        !matches!(self, Self::Load | Self::Store(_))
    }
    pub(super) fn block_only(self) -> bool {
        match self {
            Self::LoadStrong { block_only, .. }
            | Self::StoreStrong { block_only, .. }
            | Self::Add { block_only, .. } => block_only,
            Self::Load | Self::Store(_) | Self::LoadVolatile | Self::StoreVolatile(_) => false,
        }
    }
    pub(super) fn acquires(self) -> bool {
        match self {
            Self::LoadStrong { acquire, .. } | Self::Add { acquire, .. } => acquire,
            _ => false,
        }
    }
    pub(super) fn releases(self) -> bool {
        match self {
            Self::StoreStrong { release, .. } | Self::Add { release, .. } => release,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FenceStep {
    pub(super) acquire: bool,
    pub(super) release: bool,
    pub(super) block_only: bool,
    /// True for `fence.sc`.
    pub(super) sequential: bool,
}

impl FenceStep {
    const STRONG: Self = Self {
        acquire: true,
        release: true,
        block_only: false,
        sequential: true,
    };
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Access {
        what: StepAccess,
        shared: bool,
        at: usize,
        /// The access width of 1, 2 or 4 bytes; strong accesses are 4 bytes wide.
        width: usize,
        /// The block and thread that make the access, or `None` for all threads.
        by: Option<(usize, usize)>,
    },
    Fence {
        fence: FenceStep,
        by: (usize, usize),
    },
    /// A warp barrier for lanes 0 and 1 of every warp.
    WarpBarrier,
    Barrier,
    /// A barrier at which one warp only arrives and the other waits.
    HandOver {
        from: usize,
    },
}

#[derive(Clone, Copy, Default)]
pub(super) struct KernelGenerator {
    pub(super) state: u64,
    /// Makes most accesses stores of one value.
    pub(super) alike: bool,
    /// Adds steps that hand a word from one thread to another.
    pub(super) hands_over: bool,
    /// Adds steps that hand words over by a ticket of one thread between barriers.
    pub(super) tickets: bool,
    /// The number of `fence.sc` so far.
    pub(super) fences: usize,
}

impl KernelGenerator {
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) as usize % count
    }

    fn written(&mut self) -> StoredValue {
        let kinds = if self.alike { 40 } else { 6 };
        match self.below(kinds) {
            0 => StoredValue::Constant(0x0202_0202),
            // This value equals other stored values in some bytes only.
            1 => StoredValue::Constant(0x0101_0201),
            2 => StoredValue::Thread,
            _ => StoredValue::Constant(0x0101_0101),
        }
    }

    pub(super) fn steps(&mut self) -> Vec<Step> {
        let count = 2 + self.below(STEPS_MAX - 1);
        let mut steps: Vec<Step> = (0..count).map(|_| self.step()).collect();
        if self.hands_over || self.tickets {
            steps.truncate(count / if self.tickets { 6 } else { 3 });
            let sequential =
                |step: &&Step| matches!(step, Step::Fence { fence, .. } if fence.sequential);
            self.fences = steps.iter().filter(sequential).count();
            let mut from = 0;
            let added = if self.tickets {
                self.ticket()
            } else {
                self.hand_over()
            };
            for step in added {
                from += self.below(steps.len() - from + 1);
                steps.insert(from, step);
                from += 1;
            }
        }
        steps
    }

    /// Returns the steps by which one thread hands a word to another through atomics, some of them
    /// insufficient.
    fn hand_over(&mut self) -> Vec<Step> {
        // The simulator executes these threads in this order.
        let ends = [
            [(0, 0), (0, 2), (1, 1)],
            [(0, 1), (1, 0), (1, 3)],
            [(1, 0), (1, 1), (1, 2)],
        ];
        let [writer, middle, reader] = ends[self.below(3)];
        let at = self.below(2) * 4;
        let plain = |what, by| Step::Access {
            what,
            shared: false,
            at: 4 - at,
            width: 4,
            by: Some(by),
        };
        let strong = |what, by| Step::Access {
            what,
            shared: false,
            at,
            width: 4,
            by: Some(by),
        };
        let mut steps = vec![plain(StepAccess::Store(StoredValue::Thread), writer)];
        if self.below(4) > 0 {
            steps.push(self.fence(writer));
        }
        let mut links = vec![writer];
        if self.below(3) == 0 {
            links.push(middle);
        }
        for by in links {
            let atomic = by == middle || self.below(2) == 0;
            let what = if atomic {
                self.add()
            } else if self.below(4) == 0 {
                StepAccess::StoreVolatile(StoredValue::Thread)
            } else {
                StepAccess::StoreStrong {
                    release: self.below(3) == 0,
                    block_only: self.below(4) == 0,
                    value: StoredValue::Thread,
                }
            };
            steps.push(strong(what, by));
        }
        let read = StepAccess::LoadStrong {
            acquire: self.below(3) == 0,
            block_only: self.below(4) == 0,
        };
        let read = match self.below(5) {
            0 | 1 => read,
            2 => StepAccess::LoadVolatile,
            _ => self.add(),
        };
        steps.push(strong(read, reader));
        if self.below(4) > 0 {
            steps.push(self.fence(reader));
        }
        steps.push(plain(StepAccess::Load, reader));
        steps
    }

    /// Returns the steps by which threads hand words to those of the last block: each fences, one
    /// takes a ticket between two barriers. Some are insufficient.
    fn ticket(&mut self) -> Vec<Step> {
        let access = |what, at, by| Step::Access {
            what,
            shared: false,
            at,
            width: 4,
            by: Some(by),
        };
        let (writer, reader) = ((0, self.below(4)), (1, self.below(4)));
        let mut steps = vec![access(StepAccess::Store(StoredValue::Thread), 0, writer)];
        for (block, fences) in [(0, writer), (1, reader)] {
            let fence = (self.below(8) > 0).then(|| self.strong_fence(fences));
            let barrier = (self.below(8) > 0).then_some(Step::Barrier);
            let taker = (block, self.below(THREADS.len()));
            let ticket = access(self.add(), 4, taker);
            match block {
                0 => steps.extend(fence.into_iter().chain(barrier).chain([ticket])),
                _ => steps.extend([ticket].into_iter().chain(barrier).chain(fence)),
            }
        }
        steps.push(access(StepAccess::Load, 0, reader));
        let reset = access(StepAccess::Store(StoredValue::Thread), 4, reader);
        steps.extend((self.below(2) == 0).then_some(reset));
        steps
    }

    /// Returns a fence that is mostly a `fence.sc` of the device.
    fn strong_fence(&mut self, by: (usize, usize)) -> Step {
        if self.below(3) == 0 || self.fences >= FENCES_MAX {
            return self.fence(by);
        }
        self.fences += 1;
        let fence = FenceStep::STRONG;
        Step::Fence { fence, by }
    }

    fn fence(&mut self, by: (usize, usize)) -> Step {
        let half = self.below(8);
        let sequential = half > 3 && self.fences < FENCES_MAX;
        self.fences += usize::from(sequential);
        let fence = FenceStep {
            acquire: half != 0,
            release: half != 1,
            block_only: self.below(4) == 0,
            sequential,
        };
        Step::Fence { fence, by }
    }

    fn add(&mut self) -> StepAccess {
        let reduces = self.below(6) == 0;
        StepAccess::Add {
            acquire: !reduces && self.below(3) == 0,
            release: self.below(3) == 0,
            block_only: self.below(3) == 0,
            reduces,
        }
    }

    fn step(&mut self) -> Step {
        let by = (self.below(BLOCKS), self.below(THREADS.len()));
        match self.below(12) {
            0 => Step::Barrier,
            1 => Step::WarpBarrier,
            2 => Step::HandOver {
                from: self.below(2),
            },
            3 | 4 => self.fence(by),
            _ => {
                let draw = self.below(if self.alike { 40 } else { 11 });
                let what = match draw {
                    0 | 1 => StepAccess::Load,
                    2 | 3 | 18.. => StepAccess::Store(self.written()),
                    9 => StepAccess::LoadVolatile,
                    10 | 14..18 => StepAccess::StoreVolatile(self.written()),
                    4 => StepAccess::LoadStrong {
                        acquire: self.below(2) == 0,
                        block_only: self.below(4) == 0,
                    },
                    5 | 11..14 => StepAccess::StoreStrong {
                        release: self.below(2) == 0,
                        block_only: self.below(4) == 0,
                        value: self.written(),
                    },
                    _ => self.add(),
                };
                let width = if what.strong() {
                    4
                } else {
                    [1, 1, 2, 4][self.below(4)]
                };
                Step::Access {
                    what,
                    shared: self.below(3) == 0,
                    at: self.below(BYTES / width) * width,
                    width,
                    by: (self.below(4) > 0).then_some(by),
                }
            }
        }
    }
}

impl StepAccess {
    /// Returns the PTX of the access: it loads to `to`, or stores `from`.
    pub(super) fn instruction(
        self,
        (space, ty): (&str, &str),
        address: &str,
        (to, from): (&str, &str),
    ) -> String {
        let scope = scope(self.block_only());
        match self {
            Self::Load => format!("ld.{space}.{ty} {to}, {address};"),
            Self::Store(_) => format!("st.{space}.{ty} {address}, {from};"),
            Self::LoadVolatile => format!("ld.volatile.{space}.{ty} {to}, {address};"),
            Self::StoreVolatile(_) => format!("st.volatile.{space}.{ty} {address}, {from};"),
            Self::LoadStrong { acquire, .. } => {
                let order = if acquire { "acquire" } else { "relaxed" };
                format!("ld.{order}.{scope}.{space}.{ty} {to}, {address};")
            }
            Self::StoreStrong { release, .. } => {
                let order = if release { "release" } else { "relaxed" };
                format!("st.{order}.{scope}.{space}.{ty} {address}, {from};")
            }
            Self::Add {
                acquire,
                release,
                reduces,
                ..
            } => {
                let order = match (acquire, release) {
                    (true, true) => ".acq_rel",
                    (true, false) => ".acquire",
                    (false, true) => ".release",
                    (false, false) => "",
                };
                match reduces {
                    true => format!("red{order}.{scope}.{space}.add.{ty} {address}, 1;"),
                    false => format!("atom{order}.{scope}.{space}.add.{ty} {to}, {address}, 1;"),
                }
            }
        }
    }
}

fn scope(block_only: bool) -> &'static str {
    if block_only { "cta" } else { "gpu" }
}

pub(super) fn text(steps: &[Step]) -> String {
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
            Step::Access {
                what,
                shared,
                at,
                width,
                by,
            } => {
                let ty = ["u8", "u16", "u32"][width.trailing_zeros() as usize];
                let written = |value| match value {
                    StoredValue::Constant(value) => format!("mov.u32 %r8, {value};"),
                    StoredValue::Thread => "mul.lo.u32 %r8, %r6, 0x01010101;".to_owned(),
                };
                if let StepAccess::Store(value)
                | StepAccess::StoreVolatile(value)
                | StepAccess::StoreStrong { value, .. } = what
                {
                    body += &written(value);
                }
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
                let instruction = what.instruction((space, ty), &address, ("%r3", "%r8"));
                writeln!(body, "{guard}{instruction}")
            }
            Step::Fence { fence, by } => {
                only(&mut body, by);
                let scope = scope(fence.block_only);
                let order = match (fence.acquire, fence.release) {
                    (true, true) if fence.sequential => "sc",
                    (true, true) => "acq_rel",
                    (true, false) => "acquire",
                    _ => "release",
                };
                writeln!(body, "@%p1 fence.{order}.{scope};")
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
setp.gt.u32 %p2, %r2, 1;
@%p2 exit;
{body}ret;
}}"
    )
}
