//! Host implementations of the functions of `f16` and `bf16`: those of `f32`, rounded to 16 bits;
//! composed ones after each step.

use crate::differential::prelude::*;

/// The significant digits of a format, and the exponents of its least digit and of its first number
/// beyond all others.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    digits: i32,
    least: i32,
    beyond: i32,
}

pub(crate) const HALF: Format = Format {
    digits: 11,
    least: -24,
    beyond: 16,
};
pub(crate) const BRAIN: Format = Format {
    digits: 8,
    least: -133,
    beyond: 128,
};

/// A number that is rounded exactly.
pub(crate) trait Exact {
    /// Returns the nearest number of a format, ties to even.
    fn nearest(self, format: Format) -> f64;
}

impl Exact for f64 {
    fn nearest(self, format: Format) -> f64 {
        if self == 0.0 || !self.is_finite() {
            return self;
        }
        // Scaling by a power of 2 is exact.
        let exponent = (self.abs().to_bits() >> 52) as i32 - 1023;
        let unit = (exponent + 1 - format.digits).max(format.least);
        let rounded = (self * 2.0_f64.powi(-unit)).round_ties_even() * 2.0_f64.powi(unit);
        if rounded.abs() >= 2.0_f64.powi(format.beyond) {
            return f64::INFINITY.copysign(self);
        }
        rounded
    }
}

impl Exact for f32 {
    fn nearest(self, format: Format) -> f64 {
        f64::from(self).nearest(format)
    }
}

impl Exact for i128 {
    fn nearest(self, format: Format) -> f64 {
        let size = self.unsigned_abs();
        let dropped = (128 - size.leading_zeros()).saturating_sub(format.digits as u32);
        let (kept, unit) = (size >> dropped, 1_u128 << dropped);
        let lost = size - (kept << dropped);
        let is_up = 2 * lost > unit || (2 * lost == unit && kept % 2 == 1);
        // There are few digits left.
        let rounded = (kept + u128::from(is_up)) as f64 * unit as f64;
        let rounded = if self < 0 { -rounded } else { rounded };
        rounded.nearest(format)
    }
}

macro_rules! exact_integers {
    ($($type:ty),*) => {$(
        impl Exact for $type {
            fn nearest(self, format: Format) -> f64 {
                i128::from(self).nearest(format)
            }
        }
    )*};
}

exact_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Implements the functions of a float of 16 bits: those of `f32`, rounded.
macro_rules! halves {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn from_small(value: i8) -> Self {
                value.into()
            }

            fn unary(self, function: Unary) -> Self {
                match function {
                    // Two operations, each rounded.
                    Unary::Fraction => {
                        let whole = self.unary(Unary::Trunc);
                        self.binary(Binary::Subtract, whole)
                    }
                    _ => Self::from_f32(self.to_f32().unary(function)),
                }
            }

            fn binary(self, function: Binary, other: Self) -> Self {
                Self::from_f32(self.to_f32().binary(function, other.to_f32()))
            }

            fn is_no_number(self) -> bool {
                self.is_nan()
            }

            fn is_negative_zero(self) -> bool {
                self == Self::ZERO && self.is_sign_negative()
            }

            fn power(self, exponent: i32) -> Self {
                Self::from_f32(self.to_f32().powi(exponent))
            }
        }
    )*};
}

halves!(f16, bf16);
