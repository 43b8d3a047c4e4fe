//! Rare operations on 32-bit registers, executed lane by lane.

use millstream_ptx::Type;

/// A rare operation on 32-bit registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Sign- or zero-extension of the low `b` bits of `a` (`szext`). With `wrap`, `b` is taken
    /// modulo 32, otherwise it is clamped to 32; 0 bits yield 0.
    Extend { signed: bool, wrap: bool },
    /// A mask of `b` ones from bit `a` (`bmsk`).
    BitMask { wrap: bool },
    /// The position of the `c`-th one of `a`, counted from bit `b` (`fns`).
    FindNth,
    /// Packed video instructions, and additions, minima and maxima of two 16-bit integers in a
    /// register.
    Packed(Packed),
    /// A scalar video instruction, on one part of each register.
    Video(Video),
    /// `a` over `b`, both saturated to `bits` bits, below `c` shifted left (`cvt.pack`).
    PackSaturated { bits: u8, signed: bool },
    /// A pair of 8-bit floats, converted from the singles `a` (high) and `b` (low).
    ToFloat8 { format: Float8, relu: bool },
    /// A pair of 8-bit floats, converted from a pair of half-precision floats.
    HalvesToFloat8 { format: Float8, relu: bool },
    /// A pair of half-precision floats, converted from a pair of 8-bit floats.
    FromFloat8 { format: Float8, relu: bool },
    /// A single rounded to ten fraction bits (TF32).
    ToTensorFloat { round: TensorRound, relu: bool },
}

/// An operation on the 16-bit halves of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedOp {
    Add,
    Sub,
    /// The average, rounded away from zero.
    Average,
    Difference,
    Min,
    Max,
    /// 1 if the relation holds, else 0. The bits of the field stand for less, equal and greater.
    Set(u8),
}

/// An operation on the two or four parts of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) f: PackedOp,
    /// The number of parts: 2 or 4.
    pub(crate) parts: u8,
    pub(crate) d: Type,
    pub(crate) a: Type,
    pub(crate) b: Type,
    pub(crate) saturate: bool,
    /// The result is the sum of the parts and `c`.
    pub(crate) accumulate: bool,
    /// Negative results become 0.
    pub(crate) relu: bool,
    /// The mask of the parts to compute. The other parts are those of `c`, or are left out of the
    /// sum.
    pub(crate) mask: u8,
    /// The parts that are the first and second operands, lowest first: the numbers of the parts of
    /// `a`, followed by those of `b`.
    pub(crate) a_parts: [u8; 4],
    pub(crate) b_parts: [u8; 4],
}

impl Packed {
    /// Creates the operation on all parts of `a` and `b`, given the types of the result, of `a` and
    /// of `b`.
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

/// The part of a register that a video instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterPart {
    Whole,
    Byte(u8),
    Half(u8),
}

/// A shift by a clamped or wrapped amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VideoShift {
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
    Shift(VideoShift),
    /// `a * b + c`, with the product or `c` negated, plus 1 with `one`, shifted right by `scale`.
    MultiplyAdd {
        negate: bool,
        subtract: bool,
        one: bool,
        scale: u8,
    },
    /// 1 if the relation holds, else 0. The bits of the field stand for less, equal and greater.
    Set(u8),
}

/// The secondary operation of a video instruction, on its result and `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondaryOp {
    Add,
    Min,
    Max,
}

/// A scalar video instruction, on one part of each register. If it writes a part of the result, the
/// remaining bits are those of `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Video {
    pub(crate) f: VideoOp,
    /// The types of the result, of `a` and of `b`.
    pub(crate) types: [Type; 3],
    pub(crate) d_part: RegisterPart,
    pub(crate) a_part: RegisterPart,
    pub(crate) b_part: RegisterPart,
    pub(crate) saturate: bool,
    pub(crate) second: Option<SecondaryOp>,
}

/// The formats of 8-bit floats, named after their exponent and fraction bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float8 {
    E4m3,
    E5m2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorRound {
    /// Round to nearest, ties away from zero.
    Away,
    /// The same, and infinities become the greatest finite numbers.
    AwayFinite,
    Even,
    Zero,
}
