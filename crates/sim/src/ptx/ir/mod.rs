//! Lowered code: what the interpreter executes.
//!
//! A kernel's registers lie in three files: 32-bit words (also 16-bit and single-precision ones), 64-bit doublewords and predicates. Every
//! operand is a slot of one of them. Constants and special registers have slots of their own, set when a block starts, so no
//! operation has to ask what kind of operand it has. 16-bit values are kept with zero high halves.

mod access;
mod calls;
mod extra;
mod mbarrier;
mod operation;

pub(crate) use access::*;
pub(crate) use calls::*;
pub(crate) use extra::*;
pub(crate) use mbarrier::*;
pub(crate) use operation::*;

/// An index into a register file.
pub(crate) type Slot = u32;

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

/// An operation. `d` is where the result goes; `a`, `b`, `c` are operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Un32 {
        f: Un32,
        d: Slot,
        a: Slot,
    },
    Bin32 {
        f: Bin32,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Tri32 {
        f: Tri32,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Un64 {
        f: Un64,
        d: Slot,
        a: Slot,
    },
    Bin64 {
        f: Bin64,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Tri64 {
        f: Tri64,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// `a` is 64-bit, `b` is 32-bit.
    Shift64 {
        f: Shift64,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// 64-bit result of a 32-bit operand.
    Widen {
        f: Widen,
        d: Slot,
        a: Slot,
    },
    /// 32-bit result of a 64-bit operand.
    Narrow {
        f: Narrow,
        d: Slot,
        a: Slot,
    },
    /// 64-bit result of two 32-bit operands.
    Join {
        f: Join,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// `d = a * b + c`, where `a` and `b` are 32-bit.
    MadWide {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Bit-field extract; `b` and `c` are 32-bit.
    Bfe64 {
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Bit-field insert of `a` into `b`; position and length are 32-bit.
    Bfi32 {
        d: Slot,
        a: Slot,
        b: Slot,
        position: Slot,
        length: Slot,
    },
    Bfi64 {
        d: Slot,
        a: Slot,
        b: Slot,
        position: Slot,
        length: Slot,
    },
    /// The three-input logic function whose truth table is `table`.
    Lop3 {
        table: u8,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Prmt {
        mode: Prmt,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Addition or subtraction with carry in and out, which are predicates.
    Carry32 {
        f: Carry,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Carry64 {
        f: Carry,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    F32Un {
        f: FloatUn,
        d: Slot,
        a: Slot,
    },
    F32Bin {
        f: FloatBin,
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    F32Fma {
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    F64Un {
        f: FloatUn,
        d: Slot,
        a: Slot,
    },
    F64Bin {
        f: FloatBin,
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    F64Fma {
        mode: FloatMode,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// Arithmetic on 16-bit floats, one or two to a register.
    Half {
        f: HalfOp,
        format: HalfFormat,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    /// A conversion that has no operation of its own.
    Convert {
        how: Convert,
        d: Slot,
        a: Slot,
    },
    Cmp32 {
        f: Compare,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Cmp64 {
        f: Compare,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    CmpF32 {
        f: CompareFloat,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    CmpF64 {
        f: CompareFloat,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// A class test of a float: `testp`.
    Test32 {
        f: Test,
        d: Slot,
        a: Slot,
    },
    Test64 {
        f: Test,
        d: Slot,
        a: Slot,
    },
    Pred {
        f: PredOp,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Select32 {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    Select64 {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
    },
    /// Whether the generic address `a` lies in a window.
    IsSpace {
        window: Window,
        d: Slot,
        a: Slot,
    },
    /// The number of warp instructions that the block has executed, for `%clock`.
    Clock32 {
        d: Slot,
    },
    Clock64 {
        d: Slot,
    },
    /// Index into [`Code::loads`].
    Load(u32),
    /// Index into [`Code::stores`].
    Store(u32),
    /// Index into [`Code::atomics`].
    Atomic(u32),
    Branch {
        target: u32,
    },
    /// Index into [`Code::tables`].
    BranchIndexed {
        table: u32,
        index: Slot,
    },
    /// Index into [`Code::calls`].
    Call(u32),
    /// Back to where the thread's last call was.
    Return,
    /// Index into [`Code::systems`].
    System(u32),
    /// Index into [`Code::copies`].
    Copy(u32),
    /// Index into [`Code::mbarriers`]: an operation on barrier objects in shared memory.
    Mbarrier(u32),
    /// What is rare, on 32-bit registers: index into [`Code::extras`].
    Extra {
        f: u32,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Exit,
    Trap,
    /// Index into [`Code::barriers`].
    Barrier(u32),
    /// Index into [`Code::exchanges`]: an operation between the lanes of a warp.
    Exchange(u32),
    ActiveMask {
        d: Slot,
    },
    /// `membar`, `fence`: nothing to do, as all that runs is in order. With `.cta` it is one for the block only.
    Fence {
        block_only: bool,
    },
    /// Time: nothing to do but a hint that the thread waits for something.
    Pause,
    /// Nothing to do.
    Nop,
}

/// A special register that is constant while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Special {
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
pub(crate) enum Initial {
    Constant(u64),
    Special(Special),
}

/// A kernel's operations and what they refer to.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) instrs: Vec<Instr>,
    /// The PTX line of each operation.
    pub(crate) lines: Vec<u32>,
    /// The number of the source file and the line in it that each operation comes from; zeros where the text does not say.
    pub(crate) locations: Vec<(u32, u32)>,
    /// Name, offset and size of each variable in shared memory.
    pub(crate) shared_variables: Vec<(String, u32, u32)>,
    pub(crate) loads: Vec<Access>,
    pub(crate) stores: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) calls: Vec<Call>,
    pub(crate) systems: Vec<System>,
    pub(crate) copies: Vec<AsyncCopy>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    pub(crate) extras: Vec<Extra>,
    /// The functions that are really called.
    pub(crate) callees: Vec<Callee>,
    /// Where the kernel begins, behind the functions: threads in a function are at a lower place than those that wait for them to
    /// come back, and so run first.
    pub(crate) entry: u32,
    /// Targets of indexed branches.
    pub(crate) tables: Vec<Vec<u32>>,
    /// Sizes of the register files.
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) initial_words: Vec<(Slot, Initial)>,
    pub(crate) initial_doubles: Vec<(Slot, Initial)>,
    pub(crate) initial_predicates: Vec<(Slot, bool)>,
    /// Bytes of a thread's local memory, with its stack.
    pub(crate) local_bytes: u32,
    /// Bytes of the block's shared memory before the dynamic part, which begins there.
    pub(crate) shared_bytes: u32,
    /// Whether blocks must run one after the other for the result to be the same on every run: an atomic's result depends on their
    /// order, or they can wait for each other.
    pub(crate) ordered: bool,
}
