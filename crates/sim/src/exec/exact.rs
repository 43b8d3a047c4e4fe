//! Exact floating-point arithmetic on integers times powers of two: exact sums, products, quotients
//! and roots, then a single rounding.
//!
//! This is the slow path, for results that the processor's own arithmetic does not offer: directed
//! rounding, 16-bit formats, conversions of every kind, and the test for underflow before rounding.

use crate::ptx::ir::Round;

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// The number of fraction bits.
    fraction: u32,
    /// The number of exponent bits.
    exponent: u32,
}

pub(super) const HALF: Format = Format {
    fraction: 10,
    exponent: 5,
};
/// bfloat16: the upper half of a single-precision float.
pub(super) const BRAIN: Format = Format {
    fraction: 7,
    exponent: 8,
};
pub(super) const SINGLE: Format = Format {
    fraction: 23,
    exponent: 8,
};
pub(super) const DOUBLE: Format = Format {
    fraction: 52,
    exponent: 11,
};

impl Format {
    pub(super) fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub(super) fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    /// Returns the NaN that an invalid operation produces.
    pub(super) fn nan(self) -> u64 {
        if self == DOUBLE {
            0xfff8_0000_0000_0000
        } else {
            self.sign() - 1
        }
    }

    /// Returns the exponent of the smallest normal number.
    fn exponent_min(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// Returns whether `bits` encode a NaN.
    pub(super) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }
}

/// An unpacked floating-point value: a NaN, an infinity, or `±significand · 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    Nan,
    Infinite { negative: bool },
    Finite(Finite),
}

/// A finite value, `±significand · 2^exponent`.
///
/// If bits have been shifted out, the lowest bit is set instead (a sticky bit), far below the bits
/// that a rounding keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finite {
    pub(super) negative: bool,
    pub(super) significand: u128,
    pub(super) exponent: i32,
}

/// The bit position to which [`Finite::normalized`] shifts the highest bit. It lies below the top
/// of a `u128`, so that the carry of an addition fits.
const TOP: u32 = 125;

fn finite(negative: bool, significand: u128, exponent: i32) -> Unpacked {
    Unpacked::Finite(Finite {
        negative,
        significand,
        exponent,
    })
}

impl Finite {
    /// Returns the same value with its highest bit at [`TOP`]. Zero gets an exponent below all
    /// others.
    fn normalized(self) -> Self {
        if self.significand == 0 {
            return Self {
                exponent: i32::MIN / 2,
                ..self
            };
        }
        let shift = self.significand.leading_zeros() as i32 - (127 - TOP as i32);
        let significand = if shift >= 0 {
            self.significand << shift
        } else {
            jam(self.significand, (-shift) as u32)
        };
        Self {
            significand,
            exponent: self.exponent - shift,
            ..self
        }
    }

    /// Rounds to an integer by `round`, and returns its magnitude, or `u128::MAX` if it is too
    /// large.
    pub(super) fn to_integer(self, round: Round) -> u128 {
        if self.exponent >= 0 {
            let fits =
                self.significand == 0 || self.exponent < self.significand.leading_zeros() as i32;
            return if fits {
                self.significand << self.exponent.min(127)
            } else {
                u128::MAX
            };
        }
        rounded(
            self.significand,
            self.exponent.unsigned_abs(),
            self.negative,
            round,
        )
    }
}

/// Shifts right, and sets the lowest remaining bit if a set bit was shifted out.
fn jam(value: u128, shift: u32) -> u128 {
    if shift == 0 {
        value
    } else if shift >= 128 {
        u128::from(value != 0)
    } else {
        value >> shift | u128::from(value << (128 - shift) != 0)
    }
}

/// Shifts right, and rounds by the bits shifted out.
fn rounded(value: u128, shift: u32, negative: bool, round: Round) -> u128 {
    if shift == 0 {
        return value;
    }
    let high = if shift >= 128 { 0 } else { value >> shift };
    let rest = if shift >= 128 {
        value
    } else {
        value & ((1 << shift) - 1)
    };
    let up = match round {
        Round::Nearest if shift > 128 => false,
        Round::Nearest => {
            let half = 1 << (shift - 1);
            rest > half || (rest == half && high & 1 == 1)
        }
        Round::Zero => false,
        Round::Up => rest != 0 && !negative,
        Round::Down => rest != 0 && negative,
    };
    high + u128::from(up)
}

pub(super) fn unpack(bits: u64, format: Format) -> Unpacked {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    if magnitude >= format.infinity() {
        return if magnitude == format.infinity() {
            Unpacked::Infinite { negative }
        } else {
            Unpacked::Nan
        };
    }
    let field = (magnitude >> format.fraction) as i32;
    let fraction = magnitude & ((1 << format.fraction) - 1);
    let hidden = u64::from(field > 0) << format.fraction;
    finite(
        negative,
        u128::from(fraction | hidden),
        field.max(1) - 1 + format.exponent_min() - format.fraction as i32,
    )
}

/// Packs a value into the format's bits, rounding it.
pub(super) fn pack(number: Unpacked, format: Format, round: Round) -> u64 {
    let sign = |negative: bool| if negative { format.sign() } else { 0 };
    match number {
        Unpacked::Nan => format.nan(),
        Unpacked::Infinite { negative } => sign(negative) | format.infinity(),
        Unpacked::Finite(finite) => {
            let negative = finite.negative;
            let finite = finite.normalized();
            let leading = (finite.exponent + TOP as i32).max(format.exponent_min());
            // The significand's bits below the unit in the last place.
            let shift = leading - format.fraction as i32 - finite.exponent;
            let units = rounded(finite.significand, shift.unsigned_abs(), negative, round) as u64;
            // The carry of a rounding propagates into the exponent field.
            let bits = (((leading - format.exponent_min()) as u64) << format.fraction)
                .saturating_add(units);
            if finite.significand == 0 {
                return sign(negative);
            }
            if bits < format.infinity() {
                return sign(negative) | bits;
            }
            let cut = match round {
                Round::Nearest => false,
                Round::Zero => true,
                Round::Up => negative,
                Round::Down => !negative,
            };
            sign(negative) | (format.infinity() - u64::from(cut))
        }
    }
}

/// Returns whether a value, before rounding, is below the format's normal numbers. Zero is not.
pub(super) fn is_tiny(number: Unpacked, format: Format) -> bool {
    match number {
        Unpacked::Finite(finite) if finite.significand != 0 => {
            finite.normalized().exponent + (TOP as i32) < format.exponent_min()
        }
        _ => false,
    }
}

pub(super) fn integer(value: i128) -> Unpacked {
    finite(value < 0, value.unsigned_abs(), 0)
}

/// Returns `a + b`. The rounding mode decides the sign of an exact zero.
pub(super) fn add(a: Unpacked, b: Unpacked, round: Round) -> Unpacked {
    match (a, b) {
        (Unpacked::Nan, _) | (_, Unpacked::Nan) => Unpacked::Nan,
        (Unpacked::Infinite { negative: x }, Unpacked::Infinite { negative: y }) if x != y => {
            Unpacked::Nan
        }
        (infinite @ Unpacked::Infinite { .. }, _) | (_, infinite @ Unpacked::Infinite { .. }) => {
            infinite
        }
        (Unpacked::Finite(a), Unpacked::Finite(b)) => Unpacked::Finite(add_finite(a, b, round)),
    }
}

fn add_finite(a: Finite, b: Finite, round: Round) -> Finite {
    let (a, b) = (a.normalized(), b.normalized());
    let larger = (a.exponent, a.significand) >= (b.exponent, b.significand);
    let (high, low) = if larger { (a, b) } else { (b, a) };
    let aligned = jam(low.significand, high.exponent.abs_diff(low.exponent));
    if a.negative == b.negative {
        return Finite {
            significand: high.significand + aligned,
            ..high
        };
    }
    let significand = high.significand - aligned;
    let negative = if significand == 0 {
        round == Round::Down
    } else {
        high.negative
    };
    Finite {
        negative,
        significand,
        exponent: high.exponent,
    }
}

pub(super) fn mul(a: Unpacked, b: Unpacked) -> Unpacked {
    match (a, b) {
        (Unpacked::Nan, _) | (_, Unpacked::Nan) => Unpacked::Nan,
        (Unpacked::Finite(a), Unpacked::Finite(b)) => finite(
            a.negative != b.negative,
            a.significand * b.significand,
            a.exponent + b.exponent,
        ),
        (Unpacked::Infinite { negative }, Unpacked::Finite(finite))
        | (Unpacked::Finite(finite), Unpacked::Infinite { negative }) => match finite.significand {
            0 => Unpacked::Nan,
            _ => Unpacked::Infinite {
                negative: negative != finite.negative,
            },
        },
        (Unpacked::Infinite { negative: x }, Unpacked::Infinite { negative: y }) => {
            Unpacked::Infinite { negative: x != y }
        }
    }
}

pub(super) fn fma(a: Unpacked, b: Unpacked, c: Unpacked, round: Round) -> Unpacked {
    add(mul(a, b), c, round)
}

pub(super) fn div(a: Unpacked, b: Unpacked) -> Unpacked {
    match (a, b) {
        (Unpacked::Nan, _) | (_, Unpacked::Nan) => Unpacked::Nan,
        (Unpacked::Infinite { .. }, Unpacked::Infinite { .. }) => Unpacked::Nan,
        (Unpacked::Infinite { negative }, Unpacked::Finite(b)) => Unpacked::Infinite {
            negative: negative != b.negative,
        },
        (Unpacked::Finite(a), Unpacked::Infinite { negative }) => {
            finite(a.negative != negative, 0, 0)
        }
        (Unpacked::Finite(a), Unpacked::Finite(b)) => {
            let negative = a.negative != b.negative;
            if b.significand == 0 {
                return if a.significand == 0 {
                    Unpacked::Nan
                } else {
                    Unpacked::Infinite { negative }
                };
            }
            let a = a.normalized();
            let quotient = a.significand / b.significand;
            let inexact = a.significand % b.significand != 0;
            // The quotient has at least 72 bits, so the sticky bit below it affects no rounding.
            finite(
                negative,
                quotient << 1 | u128::from(inexact),
                a.exponent - b.exponent - 1,
            )
        }
    }
}

pub(super) fn sqrt(a: Unpacked) -> Unpacked {
    match a {
        Unpacked::Finite(a) if a.significand == 0 => Unpacked::Finite(a),
        Unpacked::Finite(Finite { negative: true, .. })
        | Unpacked::Infinite { negative: true }
        | Unpacked::Nan => Unpacked::Nan,
        Unpacked::Infinite { .. } => a,
        Unpacked::Finite(a) => {
            let a = a.normalized();
            // The exponent must be even.
            let odd = a.exponent.rem_euclid(2);
            let square = a.significand << odd;
            let root = square.isqrt();
            finite(
                false,
                root << 1 | u128::from(root * root != square),
                (a.exponent - odd) / 2 - 1,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> Unpacked {
        unpack(value.to_bits(), DOUBLE)
    }

    fn same(exact: Unpacked, value: f64) -> bool {
        let bits = pack(exact, DOUBLE, Round::Nearest);
        bits == value.to_bits() || (DOUBLE.is_nan(bits) && value.is_nan())
    }

    proptest! {
        /// Results rounded to nearest equal those of the processor's arithmetic.
        #[test]
        fn agrees_with_the_processor(a: f64, b: f64, c: f64) {
            let (x, y, z) = (double(a), double(b), double(c));
            prop_assert!(same(x, a));
            prop_assert!(same(add(x, y, Round::Nearest), a + b));
            prop_assert!(same(mul(x, y), a * b));
            prop_assert!(same(fma(x, y, z, Round::Nearest), a.mul_add(b, c)));
            prop_assert!(same(div(x, y), a / b));
            prop_assert!(same(sqrt(x), a.sqrt()));
            prop_assert_eq!(pack(x, SINGLE, Round::Nearest) as u32, (a as f32).to_bits());
        }

        /// Results rounded down and up enclose the nearest one, at most one unit in the last place
        /// apart.
        #[test]
        fn directed_rounding_encloses(a: f64, b: f64, c: f64) {
            let exact = fma(double(a), double(b), double(c), Round::Nearest);
            let by = |round| f64::from_bits(pack(exact, DOUBLE, round));
            let (down, up) = (by(Round::Down), by(Round::Up));
            let nearest = by(Round::Nearest);
            prop_assert!((down <= nearest && nearest <= up) || nearest.is_nan());
            prop_assert!(down == up || down.next_up() == up || nearest.is_nan());
            prop_assert!(by(Round::Zero).abs() <= nearest.abs() || nearest.is_nan());
        }
    }
}
