//! Opcodes of the operations on registers.

use super::Slot;
use millstream_ptx::Type;

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

/// The carry behaviour of an addition or subtraction.
///
/// A subtraction adds the complement of its second operand and 1, or the carry flag in place of the
/// 1, so that the resulting flag is the complement of the borrow. Additions and subtractions can
/// therefore be chained in any mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carry {
    pub(crate) subtract: bool,
    /// The predicate slot of the carry flag to add, if any.
    pub(crate) read: Option<Slot>,
    /// The predicate slot of the carry flag to write, if any.
    pub(crate) write: Option<Slot>,
}

impl Carry {
    /// Returns the carry flag of all lanes for an operation that reads none.
    pub(crate) fn unread(self) -> u32 {
        if self.subtract { u32::MAX } else { 0 }
    }
}

/// A floating-point operation of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatUn {
    Neg,
    Abs,
    /// Flushes a subnormal to a zero of the same sign.
    Flush,
    /// Rounds to an integral value.
    Integral(FloatMode),
    /// Clamps to 0…1; NaN becomes 0.
    Saturate,
    Sqrt(Round),
    Rcp(Round),
    SqrtApprox,
    RcpApprox,
    RsqrtApprox,
    /// `RsqrtApprox`, but with a result of only the high word in double precision.
    RsqrtApproxHigh,
    Ex2Approx,
    Lg2Approx,
    SinApprox,
    CosApprox,
    TanhApprox,
}

/// A floating-point operation of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatBin {
    Add,
    Sub,
    Mul,
    Div,
    /// `Div`, but 0 for divisors above 2^126.
    DivApprox,
    Min,
    Max,
    /// NaN if either operand is NaN.
    MinNan,
    MaxNan,
}

/// A rounding mode of floating-point results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

/// The rounding mode of an operation and, with `flush`, the flushing of subnormal operands and
/// results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub(crate) round: Round,
    pub(crate) flush: bool,
}

impl FloatMode {
    pub(crate) fn nearest(flush: bool) -> Self {
        Self {
            round: Round::Nearest,
            flush,
        }
    }
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
    /// Negative numbers become 0.
    Relu,
    /// Flushes subnormals to zeros of the same sign.
    Flush,
    /// Replaces infinities by the greatest finite numbers of the same sign.
    Finite,
    /// Two to the power of the operand.
    Ex2,
    Tanh,
    /// Clamps to 0…1; NaN becomes 0.
    Saturate,
}

/// A 16-bit float format, and whether a register holds two packed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HalfFormat {
    pub(crate) brain: bool,
    pub(crate) packed: bool,
}

impl HalfFormat {
    pub(crate) fn of(ty: Type) -> Self {
        Self {
            brain: matches!(ty, Type::Bf16 | Type::Bf16x2),
            packed: matches!(ty, Type::F16x2 | Type::Bf16x2),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) to: Type,
    pub(crate) from: Type,
    pub(crate) round: Round,
    /// For a float converted to the same size, rounds to an integral value.
    pub(crate) integral: bool,
    pub(crate) flush: bool,
    pub(crate) saturate: bool,
    /// The width of the result's register in bytes, to which signed results are extended.
    pub(crate) register_bytes: u8,
}

impl Convert {
    /// Returns the conversion of a float without further effects.
    pub(crate) fn plain(to: Type, from: Type, round: Round) -> Self {
        Self {
            to,
            from,
            round,
            integral: false,
            flush: false,
            saturate: false,
            register_bytes: to.bytes() as u8,
        }
    }
}

/// Floating-point comparisons; those with the suffix `U` also hold if an operand is NaN.
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
    /// Neither operand is NaN.
    Num,
    /// Either operand is NaN.
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
