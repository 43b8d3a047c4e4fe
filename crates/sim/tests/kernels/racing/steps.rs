//! Random kernels: their steps, and the PTX generated from them.

use std::fmt::Write;

use super::{BLOCKS, BYTES, THREADS};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StepAccess {
    Load,
    Store(StoredValue),
    /// A strong load: `ld.relaxed` or `ld.acquire`.
    LoadStrong {
        acquire: bool,
    },
    /// A strong store: `st.relaxed` or `st.release`.
    StoreStrong {
        release: bool,
        value: StoredValue,
    },
    /// An `atom.add`, relaxed or acquire-release, at block or device scope.
    Add {
        order: bool,
        block_only: bool,
    },
}

/// The value of a store.
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
            Self::Store(value) | Self::StoreStrong { value, .. } => Some(value.by(thread)),
            _ => None,
        }
    }
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Load | Self::LoadStrong { .. })
    }
    pub(super) fn strong(self) -> bool {
        !matches!(self, Self::Load | Self::Store(_))
    }
    pub(super) fn block_only(self) -> bool {
        matches!(
            self,
            Self::Add {
                block_only: true,
                ..
            }
        )
    }
    pub(super) fn acquires(self) -> bool {
        matches!(self, Self::LoadStrong { .. } | Self::Add { .. })
    }
    pub(super) fn releases(self) -> bool {
        matches!(
            self,
            Self::StoreStrong { release: true, .. } | Self::Add { order: true, .. }
        )
    }
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
        block_only: bool,
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

pub(super) struct KernelGenerator {
    pub(super) state: u64,
    /// Makes most accesses stores of one value.
    pub(super) alike: bool,
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

    pub(super) fn step(&mut self) -> Step {
        let by = (self.below(BLOCKS), self.below(THREADS.len()));
        match self.below(12) {
            0 => Step::Barrier,
            1 => Step::WarpBarrier,
            2 => Step::HandOver {
                from: self.below(2),
            },
            3 | 4 => Step::Fence {
                block_only: self.below(3) == 0,
                by,
            },
            _ => {
                let draw = self.below(if self.alike { 40 } else { 9 });
                let what = match draw {
                    0 | 1 => StepAccess::Load,
                    2 | 3 | 13.. => StepAccess::Store(self.written()),
                    4 => StepAccess::LoadStrong {
                        acquire: self.below(2) == 0,
                    },
                    5 | 9..13 => StepAccess::StoreStrong {
                        release: self.below(2) == 0,
                        value: self.written(),
                    },
                    _ => StepAccess::Add {
                        order: self.below(3) == 0,
                        block_only: self.below(3) == 0,
                    },
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

/// Returns the PTX of the kernel.
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
                if let StepAccess::Store(value) | StepAccess::StoreStrong { value, .. } = what {
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
                body += guard;
                match what {
                    StepAccess::Load => writeln!(body, "ld.{space}.{ty} %r3, {address};"),
                    StepAccess::Store(_) => writeln!(body, "st.{space}.{ty} {address}, %r8;"),
                    StepAccess::LoadStrong { acquire } => {
                        let order = if acquire { "acquire" } else { "relaxed" };
                        writeln!(body, "ld.{order}.gpu.{space}.u32 %r3, {address};")
                    }
                    StepAccess::StoreStrong { release, .. } => {
                        let order = if release { "release" } else { "relaxed" };
                        writeln!(body, "st.{order}.gpu.{space}.u32 {address}, %r8;")
                    }
                    StepAccess::Add { order, block_only } => {
                        let order = if order { ".acq_rel" } else { "" };
                        let scope = if block_only { "cta" } else { "gpu" };
                        writeln!(
                            body,
                            "atom{order}.{scope}.{space}.add.u32 %r3, {address}, %r4;"
                        )
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
