//! 16-bit floats: IEEE half precision and bfloat16.
//!
//! Values are worked out in double precision, in which sums, products and fused multiply-adds of these formats are exact or differ from the
//! exact value far below what the one rounding to 16 bits can see.
#![allow(
    clippy::cast_possible_truncation,
    reason = "rounding to the narrower type is meant"
)]

use super::registers::Registers;
use crate::ptx::code::{HalfFormat, HalfOp, Round, Slot};

/// A 16-bit float format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Bits of the fraction.
    fraction: u32,
    /// The exponent of the smallest normal number.
    exponent_min: i32,
}

/// IEEE half precision.
pub(super) const HALF: Format = Format {
    fraction: 10,
    exponent_min: -14,
};

/// The upper half of a single.
pub(super) const BRAIN: Format = Format {
    fraction: 7,
    exponent_min: -126,
};

/// The NaN that operations give.
const NAN: u16 = 0x7fff;

impl Format {
    /// The bits of infinity.
    fn infinity(self) -> u16 {
        ((1 << (15 - self.fraction)) - 1) << self.fraction
    }
}

/// The value of 16 bits.
pub(super) fn value(bits: u16, format: Format) -> f64 {
    let exponent = i32::from(bits & format.infinity()) >> format.fraction;
    let fraction = f64::from(bits & ((1 << format.fraction) - 1));
    let one = f64::from(1u32 << format.fraction);
    let magnitude = if bits & format.infinity() == format.infinity() {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else if exponent == 0 {
        fraction / one * power(format.exponent_min)
    } else {
        (1.0 + fraction / one) * power(exponent - 1 + format.exponent_min)
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Two to the power of `exponent`, which must be that of a normal number.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((i64::from(exponent) + 1023) << 52).cast_unsigned())
}

/// The 16 bits nearest to `value`, by `round`.
pub(super) fn round(value: f64, format: Format, round: Round) -> u16 {
    if value.is_nan() {
        return NAN;
    }
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return sign | format.infinity();
    }
    // The unit in the last place of the result: of its binade, or of the subnormals.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(format.exponent_min);
    let scaled = magnitude / power(exponent - format.fraction.cast_signed());
    let away = match round {
        Round::Up => sign == 0,
        Round::Down => sign != 0,
        Round::Nearest | Round::Zero => false,
    };
    let units = if round == Round::Nearest {
        scaled.round_ties_even()
    } else if away {
        scaled.ceil()
    } else {
        scaled.trunc()
    };
    // Units of a binade count on from its first number, and a carry runs into the next one by itself.
    let binade = (exponent - format.exponent_min) as u32;
    let bits = u32::from(binade > 0) * ((binade) << format.fraction) + units as u32;
    let largest = u32::from(format.infinity());
    if bits < largest {
        return sign | bits as u16;
    }
    let saturates = round == Round::Zero || (matches!(round, Round::Up | Round::Down) && !away);
    sign | if saturates {
        format.infinity() - 1
    } else {
        format.infinity()
    }
}

/// Runs an operation on all lanes of `mask`.
pub(super) fn run(r: &mut Registers, mask: u32, op: HalfOp, how: HalfFormat, d: Slot, abc: [Slot; 3]) {
    let format = if how.brain { BRAIN } else { HALF };
    let one = |a: u32, b: u32, c: u32| u32::from(operate(op, format, a as u16, b as u16, c as u16));
    r.w_www(mask, d, abc, |a, b, c| {
        let low = one(a, b, c);
        if how.packed {
            low | (one(a >> 16, b >> 16, c >> 16) << 16)
        } else {
            low
        }
    });
}

fn operate(op: HalfOp, format: Format, a: u16, b: u16, c: u16) -> u16 {
    let (x, y, z) = (value(a, format), value(b, format), value(c, format));
    let nearest = |value| round(value, format, Round::Nearest);
    let smaller = |a, b| if value(a, format) < value(b, format) { a } else { b };
    match op {
        HalfOp::Add => nearest(x + y),
        HalfOp::Sub => nearest(x - y),
        HalfOp::Mul => nearest(x * y),
        HalfOp::Fma => nearest(fused(x, y, z)),
        HalfOp::Neg => a ^ 0x8000,
        HalfOp::Abs => a & 0x7fff,
        HalfOp::MinNan | HalfOp::MaxNan if x.is_nan() || y.is_nan() => NAN,
        HalfOp::Min | HalfOp::Max if x.is_nan() && y.is_nan() => NAN,
        HalfOp::Min | HalfOp::Max if x.is_nan() => b,
        HalfOp::Min | HalfOp::Max if y.is_nan() => a,
        HalfOp::Min | HalfOp::MinNan if x == y => a | b,
        HalfOp::Max | HalfOp::MaxNan if x == y => a & b,
        HalfOp::Min | HalfOp::MinNan => smaller(a, b),
        HalfOp::Max | HalfOp::MaxNan => {
            if smaller(a, b) == a {
                b
            } else {
                a
            }
        }
        HalfOp::Ex2 => nearest(x.exp2()),
        HalfOp::Tanh => nearest(x.tanh()),
        HalfOp::Saturate => {
            if x > 0.0 {
                smaller(a, nearest(1.0))
            } else {
                0
            }
        }
    }
}

/// `x * y + z`, rounded to odd, so that the rounding to 16 bits sees which side of a tie the exact value lies on.
fn fused(x: f64, y: f64, z: f64) -> f64 {
    let product = x * y;
    let sum = product + z;
    if !sum.is_finite() {
        return sum;
    }
    let z_part = sum - product;
    let error = (product - (sum - z_part)) + (z - z_part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}
