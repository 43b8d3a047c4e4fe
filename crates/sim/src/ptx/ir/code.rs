//! Lowered code: guarded operations, and the tables that they index.

use std::sync::OnceLock;

use super::{
    Access, AsyncCopy, Atomic, Barrier, Call, Callee, Exchange, Extra, Fusion, ImageAccess,
    MatrixOp, Mbarrier, Op, RegisterClass, Slot, SystemCall,
};

/// The [`Instr::guard`] of an unconditional operation.
pub(crate) const NO_GUARD: u32 = u32::MAX;

/// The bit of [`Instr::guard`] that negates the predicate.
pub(crate) const GUARD_NEGATED: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    /// The slot of the guard predicate, with [`GUARD_NEGATED`] if negated, or [`NO_GUARD`].
    pub(crate) guard: u32,
    /// 1, or 0 for the second and later operations of a PTX instruction that lowers to several.
    pub(crate) counted: u32,
}

/// A special register that is constant while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpecialRegister {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    WarpCount,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    DynamicSharedBytes,
    TotalSharedBytes,
    /// The upper half of the address of the workspace of a cooperative launch.
    GridWorkspaceHigh,
    /// The lower half of that address.
    GridWorkspaceLow,
    /// The offset of the start of dynamic shared memory, plus a constant.
    DynamicShared(i64),
    /// The device address of a variable of the module, plus a constant.
    Variable(u32, i64),
}

/// The value of a slot when a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialValue {
    Constant(u64),
    Special(SpecialRegister),
}

/// The registers that a warp sets when it starts another block of the same launch. All others may
/// keep the values of the block before.
#[derive(Debug, Default)]
pub(crate) struct Restart {
    /// True if all registers are set, as for the first block.
    pub(crate) everything: bool,
    /// The slots that are set to 0, because they may be read before they are written, indexed by
    /// [`RegisterClass`](super::RegisterClass).
    pub(crate) cleared: [Vec<Slot>; 3],
    /// The slots of special registers that differ between blocks.
    pub(crate) of_block: Vec<(Slot, SpecialRegister)>,
}

/// For barriers of the whole block, the operations behind which no thread reaches them again.
#[derive(Debug, Default)]
pub(crate) struct BarrierEnds {
    /// The operations, each with its barrier.
    pub(crate) ends: Vec<(u32, u32)>,
    /// Whether an operation is one of them; empty if there are none.
    pub(crate) is_end: Vec<bool>,
}

/// The lowered code of a kernel: its operations, and the tables they index.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) instrs: Vec<Instr>,
    /// The operations that warps execute without an observer, unless the launch is a single block
    /// that repeats nothing: those of `instrs`,
    /// but for hoisted ones, which do nothing there and follow the others.
    pub(crate) executed: Vec<Instr>,
    /// The index in `executed` of the first operation of a warp's first block; `entry` if none is
    /// hoisted.
    pub(crate) first_entry: u32,
    /// True if the kernel has loops or calls functions: its hoisted operations are worth it even
    /// for a single block.
    pub(crate) repeats: bool,
    pub(crate) fusion: Fusion,
    /// Computed when a check needs them.
    pub(crate) barrier_ends: OnceLock<BarrierEnds>,
    /// The PTX line of each operation.
    pub(crate) lines: Vec<u32>,
    /// The source file number and line of each operation; zeros if the PTX has no line information.
    pub(crate) locations: Vec<(u32, u32)>,
    /// The name, offset and size of each variable in shared memory.
    pub(crate) shared_variables: Vec<(String, u32, u32)>,
    /// The registers that hold addresses in variables of shared memory, and the offset of the
    /// variable; `u32::MAX` for dynamic shared memory.
    pub(crate) shared_addresses: Vec<((RegisterClass, Slot), u32)>,
    pub(crate) loads: Vec<Access>,
    pub(crate) stores: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) calls: Vec<Call>,
    pub(crate) system_calls: Vec<SystemCall>,
    pub(crate) copies: Vec<AsyncCopy>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    pub(crate) images: Vec<ImageAccess>,
    pub(crate) matrices: Vec<MatrixOp>,
    pub(crate) extras: Vec<Extra>,
    /// The functions that are called at run time.
    pub(crate) callees: Vec<Callee>,
    /// The index of the kernel's first operation. It follows the functions, so that threads in a
    /// function have lower program counters than threads that wait for them to return, and run
    /// first.
    pub(crate) entry: u32,
    /// The targets of indexed branches.
    pub(crate) tables: Vec<Vec<u32>>,
    /// The sizes of the register files.
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) initial_words: Vec<(Slot, InitialValue)>,
    pub(crate) initial_doubles: Vec<(Slot, InitialValue)>,
    pub(crate) initial_predicates: Vec<(Slot, bool)>,
    pub(crate) restart: Restart,
    /// The size of a thread's local memory in bytes, including its stack.
    pub(crate) local_bytes: u32,
    /// The size of the block's static shared memory in bytes, which is the offset of dynamic shared
    /// memory.
    pub(crate) shared_bytes: u32,
    /// True if blocks must run in order for the same result on every run: an atomic's result
    /// depends on their order, or they can wait for each other.
    pub(crate) ordered: bool,
    /// True if a thread reads `%clock` or `%globaltimer`.
    pub(crate) reads_clock: bool,
    /// True if an atomic or a strong load returns a value that can depend on the order of the
    /// threads.
    pub(crate) synchronises: bool,
}

impl Code {
    /// Returns for each operation whether a branch leads to it.
    pub(crate) fn branch_targets(&self) -> Vec<bool> {
        let mut targets = vec![false; self.instrs.len()];
        let branches = self.instrs.iter().filter_map(|instr| match instr.op {
            Op::Branch { target } => Some(target),
            _ => None,
        });
        for target in branches.chain(self.tables.iter().flatten().copied()) {
            targets[target as usize] = true;
        }
        targets
    }
}
