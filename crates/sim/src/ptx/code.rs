//! Lowered code: what the interpreter executes.
//!
//! A kernel's registers lie in three files: 32-bit words (also 16-bit and single-precision ones), 64-bit doublewords and predicates. Every
//! operand is a slot of one of them. Constants and special registers have slots of their own, set when a block starts, so no
//! operation has to ask what kind of operand it has. 16-bit values are kept with zero high halves.

use super::types::Type;

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
    Exit,
    Trap,
    /// Index into [`Code::barriers`].
    Barrier(u32),
    /// Index into [`Code::exchanges`]: an operation between the lanes of a warp.
    Exchange(u32),
    ActiveMask {
        d: Slot,
    },
    /// Memory order and time: nothing to do, as all that runs is in order; but a hint that the thread waits for something.
    Pause,
    /// Nothing to do.
    Nop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Un32 {
    Move,
    Neg,
    Abs,
    Not,
    Cnot,
    Popc,
    Clz,
    Brev,
    FindU,
    FindS,
    FindShiftU,
    FindShiftS,
    Zext8,
    Sext8,
    Zext16,
    Sext16,
    /// The high half.
    High16,
    S32ToF32,
    U32ToF32,
    /// Towards zero, saturating, 0 for NaN.
    F32ToS32,
    F32ToU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bin32 {
    Add,
    Sub,
    Mul,
    MulHighS,
    MulHighU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Shl,
    ShrS,
    ShrU,
    AddSat,
    SubSat,
    CopySign,
    /// `a` in the low half, `b` in the high half.
    Pack16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tri32 {
    Mad,
    MadHighS,
    MadHighU,
    SadS,
    SadU,
    BfeS,
    BfeU,
    ShiftLeftClamp,
    ShiftLeftWrap,
    ShiftRightClamp,
    ShiftRightWrap,
    Dp4aUU,
    Dp4aUS,
    Dp4aSU,
    Dp4aSS,
    Dp2aLoUU,
    Dp2aLoUS,
    Dp2aLoSU,
    Dp2aLoSS,
    Dp2aHiUU,
    Dp2aHiUS,
    Dp2aHiSU,
    Dp2aHiSS,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Un64 {
    Move,
    Neg,
    Abs,
    Not,
    Cnot,
    Brev,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bin64 {
    Add,
    Sub,
    Mul,
    MulHighS,
    MulHighU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    CopySign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tri64 {
    Mad,
    MadHighS,
    MadHighU,
    SadS,
    SadU,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift64 {
    Shl,
    ShrS,
    ShrU,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Widen {
    Zext,
    Sext,
    F32ToF64,
    S32ToF64,
    U32ToF64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    Low,
    High,
    Popc,
    Clz,
    FindU,
    FindS,
    FindShiftU,
    FindShiftS,
    F64ToF32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    MulS,
    MulU,
    /// `a` in the low half, `b` in the high half.
    Pack,
}

/// `prmt`'s modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prmt {
    Index,
    Forward4,
    Backward4,
    Replicate8,
    EdgeClampLeft,
    EdgeClampRight,
    Replicate16,
}

/// How an addition or subtraction carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    pub(crate) subtract: bool,
    /// The carry flag's predicate, where it is added.
    pub(crate) read: Option<Slot>,
    /// The carry flag's predicate, where it is set.
    pub(crate) write: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatUn {
    Neg,
    Abs,
    /// A subnormal becomes a zero of its sign.
    Flush,
    /// Clamped to 0…1; NaN becomes 0.
    Saturate,
    Sqrt(Round),
    Rcp(Round),
    SqrtApprox,
    RcpApprox,
    RsqrtApprox,
    /// The same, in double precision the high word only.
    RsqrtApproxHigh,
    Ex2Approx,
    Lg2Approx,
    SinApprox,
    CosApprox,
    TanhApprox,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatBin {
    Add,
    Sub,
    Mul,
    Div,
    /// As `Div`, but 0 for divisors beyond 2^126.
    DivApprox,
    Min,
    Max,
    /// NaN if either operand is.
    MinNan,
    MaxNan,
}

/// Rounding of a floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

/// How a floating-point operation treats its result and, with `flush`, subnormals in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub(crate) round: Round,
    pub(crate) flush: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfOp {
    Add,
    Sub,
    Mul,
    Fma,
    Neg,
    Abs,
    Min,
    Max,
    MinNan,
    MaxNan,
    /// Two to the power of the operand.
    Ex2,
    Tanh,
    /// Clamped to 0…1; NaN becomes 0.
    Saturate,
}

/// A 16-bit float format, and whether two are packed in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfFormat {
    pub(crate) brain: bool,
    pub(crate) packed: bool,
}

/// A conversion: `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) round: Round,
    /// Float to float of one size: round to an integral value.
    pub(crate) integral: bool,
    pub(crate) flush: bool,
    pub(crate) saturate: bool,
    /// The width of the result's register in bytes: signed results are extended to it.
    pub(crate) register_bytes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    LtS,
    LeS,
    LtU,
    LeU,
}

/// Float comparisons; the `U` ones also hold if an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareFloat {
    Eq,
    Ne,
    Lt,
    Le,
    EqU,
    NeU,
    LtU,
    LeU,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredOp {
    Move,
    Not,
    And,
    Or,
    Xor,
    /// `!a & b`, `!a | b`, `!a ^ b`: the second result of a `setp` with a boolean operation.
    NotAnd,
    NotOr,
    NotXor,
}

/// A part of the generic address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Global,
    Shared,
    Local,
    Param,
}

impl Window {
    /// The generic address of offset 0 of a block's shared memory. This and the two below lie outside of what any device or host
    /// address can be.
    pub(crate) const SHARED: u64 = 0x5a00_0000_0000_0000;
    /// The generic address of offset 0 of a thread's local memory.
    pub(crate) const LOCAL: u64 = 0x5b00_0000_0000_0000;
    /// The generic address of offset 0 of the kernel's parameters.
    pub(crate) const PARAM: u64 = 0x5c00_0000_0000_0000;

    /// The generic address of this window's offset 0.
    pub(crate) fn base(self) -> u64 {
        match self {
            Self::Global => 0,
            Self::Shared => Self::SHARED,
            Self::Local => Self::LOCAL,
            Self::Param => Self::PARAM,
        }
    }

    /// The window that a generic address lies in.
    pub(crate) fn of(address: u64) -> Self {
        match address >> 56 {
            0x5a => Self::Shared,
            0x5b => Self::Local,
            0x5c => Self::Param,
            _ => Self::Global,
        }
    }
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessSpace {
    Is(Window),
    /// Each lane's address says.
    Generic,
}

/// An address: a register, if any, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressBase {
    None,
    Word(Slot),
    Double(Slot),
}

/// A load or a store of one to four values of one width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    /// Bytes of one value: 1, 2, 4 or 8.
    pub(crate) width: u8,
    /// How many values: 1, 2 or 4.
    pub(crate) count: u8,
    /// Loads: the width in bits to which a signed value is extended; 0 for none.
    pub(crate) sign_extend: u8,
    /// Whether the registers are 64-bit ones.
    pub(crate) double: bool,
    /// Whether this is how threads wait for each other: volatile, relaxed, acquire, release.
    pub(crate) synchronises: bool,
    pub(crate) values: [Slot; 4],
}

impl Access {
    /// Bytes of one lane's access, a power of two.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.width) * usize::from(self.count)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exchange,
    CompareSwap,
}

/// An atomic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) f: AtomicOp,
    pub(crate) ty: Type,
    pub(crate) space: AccessSpace,
    pub(crate) address: Address,
    pub(crate) result: Option<Slot>,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierOp {
    Sync,
    Arrive,
    /// How many threads' predicate is true, into a 32-bit slot.
    CountTrue(Slot),
    /// Whether all threads' predicate is true, into a predicate.
    All(Slot),
    Any(Slot),
}

/// A barrier of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) f: BarrierOp,
    pub(crate) id: Slot,
    /// How many threads take part; all if none is given.
    pub(crate) threads: Option<Slot>,
    /// The predicate that is reduced.
    pub(crate) predicate: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeOp {
    ShuffleUp,
    ShuffleDown,
    ShuffleButterfly,
    ShuffleIndex,
    VoteAll,
    VoteAny,
    VoteUniform,
    VoteBallot,
    MatchAny32,
    MatchAny64,
    MatchAll32,
    MatchAll64,
    ReduceAdd,
    ReduceMinS,
    ReduceMinU,
    ReduceMaxS,
    ReduceMaxU,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
    /// `bar.warp.sync`
    Barrier,
}

impl ExchangeOp {
    /// The PTX instruction, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleButterfly | Self::ShuffleIndex => "shfl.sync",
            Self::VoteAll | Self::VoteAny | Self::VoteUniform | Self::VoteBallot => "vote.sync",
            Self::MatchAny32 | Self::MatchAny64 | Self::MatchAll32 | Self::MatchAll64 => "match.sync",
            Self::Barrier => "bar.warp.sync",
            _ => "redux.sync",
        }
    }
}

/// An operation between the lanes that `members` names, which wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) f: ExchangeOp,
    pub(crate) members: Slot,
    /// 32-bit result (votes but the ballot: a predicate).
    pub(crate) d: Slot,
    /// Second result, a predicate.
    pub(crate) p: Option<Slot>,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

/// A special register that is constant while a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(crate) loads: Vec<Access>,
    pub(crate) stores: Vec<Access>,
    pub(crate) atomics: Vec<Atomic>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) exchanges: Vec<Exchange>,
    /// Targets of indexed branches.
    pub(crate) tables: Vec<Vec<u32>>,
    /// Sizes of the register files.
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) initial_words: Vec<(Slot, Initial)>,
    pub(crate) initial_doubles: Vec<(Slot, Initial)>,
    pub(crate) initial_predicates: Vec<(Slot, bool)>,
    /// Bytes of a thread's local memory.
    pub(crate) local_bytes: u32,
    /// Bytes of the block's shared memory before the dynamic part, which begins there.
    pub(crate) shared_bytes: u32,
    /// Whether blocks must run one after the other for the result to be the same on every run: an atomic's result depends on their
    /// order, or they can wait for each other.
    pub(crate) ordered: bool,
}
