//! Lowered code: what the interpreter executes.
//!
//! A kernel's registers lie in three files: 32-bit words (also 16-bit and single-precision ones),
//! 64-bit doublewords and predicates. Every operand is a slot of one of them. Constants and special
//! registers have slots of their own, set when a block starts, so no operation has to ask what kind
//! of operand it has. 16-bit values are kept with zero high halves.

mod access;
mod calls;
mod extra;
mod mbarrier;
mod operation;
mod table;

pub(crate) use access::*;
pub(crate) use calls::*;
pub(crate) use extra::*;
pub(crate) use mbarrier::*;
pub(crate) use operation::*;
pub(crate) use table::*;

use millstream_ptx::Type;

/// An index into a register file.
pub(crate) type Slot = u32;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RegisterClass {
    Word,
    Double,
    Predicate,
}

impl RegisterClass {
    /// The file that holds values of `ty`.
    pub(crate) fn of(ty: Type) -> Self {
        match ty {
            Type::Pred => Self::Predicate,
            _ if ty.bytes() == 8 => Self::Double,
            _ => Self::Word,
        }
    }
}

/// No guard: [`Instr::guard`] of an unconditional operation.
pub(crate) const NO_GUARD: u32 = u32::MAX;

/// Set in [`Instr::guard`] where the predicate is negated.
pub(crate) const GUARD_NEGATED: u32 = 1 << 31;

/// One operation with its guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    /// The slot of the guarding predicate, with [`GUARD_NEGATED`], or [`NO_GUARD`].
    pub(crate) guard: u32,
    /// 1, or 0 for the later operations of a PTX instruction that became several.
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
    /// Where dynamic shared memory begins, plus a constant.
    DynamicShared(i64),
    /// The device address of a module's variable, plus a constant.
    Variable(u32, i64),
}

/// What a slot holds when a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialValue {
    Constant(u64),
    Special(SpecialRegister),
}

/// A kernel's operations and what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) instrs: Vec<Instr>,
    /// The PTX line of each operation.
    pub(crate) lines: Vec<u32>,
    /// The number of the source file and the line in it that each operation comes from; zeros where
    /// the text does not say.
    pub(crate) locations: Vec<(u32, u32)>,
    /// Name, offset and size of each variable in shared memory.
    pub(crate) shared_variables: Vec<(String, u32, u32)>,
    pub(crate) loads: Vec<Access>,
    pub(crate) stores: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) calls: Vec<Call>,
    pub(crate) system_calls: Vec<SystemCall>,
    pub(crate) copies: Vec<AsyncCopy>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    pub(crate) extras: Vec<Extra>,
    /// The functions that are really called.
    pub(crate) callees: Vec<Callee>,
    /// Where the kernel begins, behind the functions: threads in a function are at a lower place
    /// than those that wait for them to come back, and so run first.
    pub(crate) entry: u32,
    /// Targets of indexed branches.
    pub(crate) tables: Vec<Vec<u32>>,
    /// Sizes of the register files.
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) initial_words: Vec<(Slot, InitialValue)>,
    pub(crate) initial_doubles: Vec<(Slot, InitialValue)>,
    pub(crate) initial_predicates: Vec<(Slot, bool)>,
    /// Bytes of a thread's local memory, with its stack.
    pub(crate) local_bytes: u32,
    /// Bytes of the block's shared memory before the dynamic part, which begins there.
    pub(crate) shared_bytes: u32,
    /// Whether blocks must run one after the other for the result to be the same on every run: an
    /// atomic's result depends on their order, or they can wait for each other.
    pub(crate) ordered: bool,
}
