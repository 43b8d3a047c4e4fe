//! Rare operations on 32-bit registers, which run lane by lane.

use super::types::Type;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// `a` extended from its low `b` bits; from none, if `wrap` is not set and `b` is 0, and cut otherwise.
    Extend { signed: bool, wrap: bool },
    /// `b` ones from bit `a`.
    BitMask { wrap: bool },
    /// The place of the `c`-th one of `a`, counted from bit `b`.
    FindNth,
    /// Video instructions, and additions, minima and maxima of two 16-bit integers in a register.
    Packed(Packed),
    /// An 8-bit float pair of the single `a` (high) and `b` (low).
    ToFloat8 { format: Float8, relu: bool },
    /// The same of a pair of half-precision numbers.
    HalvesToFloat8 { format: Float8, relu: bool },
    /// A pair of half-precision numbers of one of 8-bit floats.
    FromFloat8 { format: Float8, relu: bool },
    /// A single with ten bits of fraction.
    ToTensorFloat { round: TensorRound, relu: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedOp {
    Add,
    Sub,
    /// Rounded away from zero.
    Average,
    Difference,
    Min,
    Max,
    /// 1 where the relation holds; the bits of the field are: less, equal, greater.
    Set(u8),
}

/// An operation on the two or four parts of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) f: PackedOp,
    /// 2 or 4.
    pub(crate) parts: u8,
    pub(crate) d: Type,
    pub(crate) a: Type,
    pub(crate) b: Type,
    pub(crate) saturate: bool,
    /// The result is the sum of the parts and `c`.
    pub(crate) accumulate: bool,
    /// Negative results become 0.
    pub(crate) relu: bool,
}

/// The formats of 8-bit floats, by the bits of exponent and fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float8 {
    E4m3,
    E5m2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorRound {
    /// To nearest, ties away from zero.
    Away,
    Even,
    Zero,
}
