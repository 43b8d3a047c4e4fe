//! Rare operations on 32-bit registers, which run lane by lane.

use millstream_ptx::Type;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// `a` extended from its low `b` bits; from none, if `wrap` is not set and `b` is 0, and cut
    /// otherwise.
    Extend { signed: bool, wrap: bool },
    /// `b` ones from bit `a`.
    BitMask { wrap: bool },
    /// The place of the `c`-th one of `a`, counted from bit `b`.
    FindNth,
    /// Video instructions on the parts of registers, and additions, minima and maxima of two 16-bit
    /// integers in a register.
    Packed(Packed),
    /// Video instructions on one part of each register.
    Video(Video),
    /// `c`, moved up, over `a` over `b`, each saturated to so many bits.
    PackSaturated { bits: u8, signed: bool },
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
    /// Which parts of the result are calculated, as bits. The others are those of `c`, or left out
    /// of the sum.
    pub(crate) mask: u8,
    /// Which parts the operands are, lowest first: of `a`, and behind them those of `b`.
    pub(crate) a_parts: [u8; 4],
    pub(crate) b_parts: [u8; 4],
}

impl Packed {
    /// The operation on all parts of `a` and `b`, with the types of the result, of `a` and of `b`.
    pub(crate) fn new(f: PackedOp, parts: u8, [d, a, b]: [Type; 3]) -> Self {
        Self {
            f,
            parts,
            d,
            a,
            b,
            saturate: false,
            accumulate: false,
            relu: false,
            mask: (1 << parts) - 1,
            a_parts: [0, 1, 2, 3],
            b_parts: std::array::from_fn(|index| parts + index as u8),
        }
    }
}

/// The part of a register that a video instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterPart {
    Whole,
    Byte(u8),
    Half(u8),
}

/// A shift by clamped or wrapped amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub(crate) left: bool,
    pub(crate) wrap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VideoOp {
    Add,
    Sub,
    Difference,
    Min,
    Max,
    Shift(Shift),
    /// `a * b + c`, of which the product or `c` is negated, plus 1 with `one`, shifted right.
    MultiplyAdd {
        negate: bool,
        subtract: bool,
        one: bool,
        scale: u8,
    },
    /// 1 where the relation holds; the bits of the field are: less, equal, greater.
    Set(u8),
}

/// What is done with the result of a video instruction and `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondaryOp {
    Add,
    Min,
    Max,
}

/// A video instruction on one part of each register. With a part of the result, the rest is that of
/// `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Video {
    pub(crate) f: VideoOp,
    /// Of the result, of `a` and of `b`.
    pub(crate) types: [Type; 3],
    pub(crate) d_part: RegisterPart,
    pub(crate) a_part: RegisterPart,
    pub(crate) b_part: RegisterPart,
    pub(crate) saturate: bool,
    pub(crate) second: Option<SecondaryOp>,
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
