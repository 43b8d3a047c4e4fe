//! Sums of floating-point products, by the rule of Hopper's tensor cores.
//!
//! The products of a group are exact. They and the sum so far are aligned to the largest exponent
//! among them and truncated there, added exactly, and the sum is rounded towards zero, or to the
//! nearest number if it is one of half precision. The exponent of a product is the sum of its
//! factors' exponents. `docs/measurements/matrix_rule.cu` compares this rule with a GPU.

use crate::exec::exact::{self, Finite, HALF, SINGLE, Unpacked};
use crate::exec::float_bits::canonical;
use crate::exec::half;
use crate::ptx::ir::{Element, Multiply, Round};
use millstream_ptx::Type;

/// The encoding of a floating-point number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    fraction: u32,
    exponent: u32,
    /// The number of lower bits that are ignored.
    unused: u32,
    /// True if the largest exponent is that of infinities and NaNs; false if it has one NaN.
    infinite: bool,
}

/// Returns the format of elements.
pub(super) fn format(element: Element) -> Format {
    let (fraction, exponent, unused) = match element {
        Element::F16 => (10, 5, 0),
        Element::Bf16 => (7, 8, 0),
        Element::Tf32 => (10, 8, 13),
        Element::E4m3 => (3, 4, 0),
        Element::E5m2 => (2, 5, 0),
        _ => (23, 8, 0),
    };
    let infinite = element != Element::E4m3;
    Format {
        fraction,
        exponent,
        unused,
        infinite,
    }
}

/// A number, `significand · 2^exponent` in units of its format's last fraction bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Term {
    significand: i32,
    exponent: i32,
}

impl Term {
    /// Returns the number, which has single precision.
    fn to_single(self, format: Format) -> f32 {
        let significand = self.significand as f32;
        match self.exponent {
            SPECIAL if self.significand == 0 => f32::NAN,
            SPECIAL => significand * f32::INFINITY,
            ..=ZERO => (self.exponent - ZERO) as f32 * 0.0,
            exponent => {
                let unit = f64::from(exponent - format.fraction.cast_signed()).exp2();
                (f64::from(significand) * unit) as f32
            }
        }
    }
}

/// The exponent of a zero, below that of every product; a negative zero's is one less.
const ZERO: i32 = -4096;

/// The smallest exponent to which terms are aligned.
const ALIGNED_MIN: i32 = -133;

/// The number of bits below the unit of the largest exponent that terms keep.
const KEPT: i32 = 25;

/// The exponent of infinities, whose significand has their sign, and of NaNs, whose significand
/// is 0. It is above that of a product with a finite number, or zero.
const SPECIAL: i32 = 16_384;

/// Returns the number with these bits.
#[inline(always)]
pub(super) fn decode(bits: u32, format: Format) -> Term {
    let bits = bits >> format.unused;
    let field_max = (1 << format.exponent) - 1;
    let field = (bits >> format.fraction & field_max).cast_signed();
    let fraction = (bits & ((1 << format.fraction) - 1)).cast_signed();
    let sign = 1 - 2 * (bits >> (format.fraction + format.exponent) & 1).cast_signed();
    let hidden = i32::from(field > 0) << format.fraction;
    let magnitude = fraction | hidden;
    if field == field_max.cast_signed() {
        let last = (1 << format.fraction) - 1;
        let (is_nan, is_infinite) = if format.infinite {
            (fraction != 0, fraction == 0)
        } else {
            (fraction == last, false)
        };
        if is_nan || is_infinite {
            return Term {
                significand: if is_nan { 0 } else { sign },
                exponent: SPECIAL,
            };
        }
    }
    let exponent = field.max(1) - (field_max >> 1).cast_signed();
    // A small number of this format is a normal one of half precision.
    let shift = if format.infinite || magnitude == 0 {
        0
    } else {
        magnitude.leading_zeros() + format.fraction - 31
    };
    Term {
        significand: sign * (magnitude << shift),
        exponent: if magnitude == 0 {
            ZERO - i32::from(sign < 0)
        } else {
            exponent - shift.cast_signed()
        },
    }
}

/// How a GPU adds the products of a row and a column.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Adds {
    /// So many at once, beginning with `C`.
    Groups(usize),
    /// As two products of half precision, which it adds to `C`: of the first two of each four
    /// elements, which come first here, and of the others.
    Halves,
    /// By multiply-adds of single precision: so many, whose sum it adds to `C`, and so on.
    Singles(usize),
}

/// The rule for the sums of a product of matrices.
pub(super) struct Rule {
    pub(super) adds: Adds,
    /// The fraction bits of a product.
    fraction: u32,
    c: Format,
    d: Format,
}

impl Rule {
    pub(super) fn of(of: &Multiply) -> Self {
        let adds = match of.a.element {
            Element::F16 if of.a.matrices() == 1 => Adds::Groups(16),
            Element::F16 if of.d.element == Element::F32 => Adds::Singles(4),
            Element::F16 => Adds::Singles(2),
            Element::Bf16 => Adds::Groups(16),
            // `wmma` consists of two products with four elements in the inner dimension.
            Element::Tf32 if of.b.outer == 16 => Adds::Groups(4),
            Element::Tf32 => Adds::Groups(8),
            _ => Adds::Halves,
        };
        let [a, b, c, d] = [&of.a, &of.b, &of.c, &of.d].map(|fragment| format(fragment.element));
        Self {
            adds,
            fraction: a.fraction + b.fraction,
            c,
            d,
        }
    }
}

/// Returns the bits of the sum of `c` and the products.
#[inline(always)]
pub(super) fn dot(rule: &Rule, a: &[Term], b: &[Term], c: u32) -> u32 {
    let b = &b[..a.len()];
    let (mut sum, mut format, size) = match rule.adds {
        Adds::Groups(size) => (c, rule.c, size),
        Adds::Halves => (0, rule.d, a.len() / 2),
        Adds::Singles(size) => return singles(rule, a, b, c, size),
    };
    let mut start = 0;
    while start < a.len() {
        let end = (start + size).min(a.len());
        sum = group(rule, &a[start..end], &b[start..end], (sum, format));
        (start, format) = (end, rule.d);
    }
    if rule.adds != Adds::Halves {
        sum
    } else if rule.d.fraction == 23 {
        canonical(f32::from_bits(sum) + f32::from_bits(c))
    } else {
        half::add(sum, c, Type::F16)
    }
}

/// Adds to `c` the sums of `size` products each.
fn singles(rule: &Rule, a: &[Term], b: &[Term], c: u32, size: usize) -> u32 {
    let mut sum = decode(c, rule.c).to_single(rule.c);
    for (a, b) in a.chunks(size).zip(b.chunks(size)) {
        // A product of two alone may be a negative zero.
        let zero = if size == 4 { 0.0 } else { -0.0 };
        let factors = a.iter().zip(b);
        sum += factors.fold(zero, |sum, (a, b)| {
            let [a, b] = [a, b].map(|term| term.to_single(format(Element::F16)));
            a.mul_add(b, sum)
        });
    }
    let bits = canonical(sum);
    if rule.d.fraction == 23 {
        return bits;
    }
    let number = exact::unpack(bits.into(), SINGLE);
    exact::pack(number, HALF, Round::Nearest) as u32
}

/// Returns the sum of products and an earlier sum with its format, in the format of `D`.
#[inline(always)]
fn group(rule: &Rule, a: &[Term], b: &[Term], (earlier, format): (u32, Format)) -> u32 {
    let earlier = decode(earlier, format);
    let b = &b[..a.len()];
    let mut largest = earlier.exponent.max(ALIGNED_MIN);
    for k in 0..a.len() {
        largest = largest.max(a[k].exponent + b[k].exponent);
    }
    if largest > SPECIAL / 2 {
        return special(a, b, earlier, rule.d);
    }
    let above = 32 + largest - KEPT;
    let mut sum = aligned(
        earlier.significand,
        above - earlier.exponent + format.fraction.cast_signed(),
    );
    let above = above + rule.fraction.cast_signed();
    for k in 0..a.len() {
        let product = a[k].significand * b[k].significand;
        sum += aligned(product, above - (a[k].exponent + b[k].exponent));
    }
    pack(sum, largest - KEPT, rule.d)
}

/// Returns `significand · 2^(32 - shift)`, truncated.
#[inline(always)]
fn aligned(significand: i32, shift: i32) -> i64 {
    let shift = shift.min(63).cast_unsigned();
    let magnitude = (u64::from(significand.unsigned_abs()) << 32 >> shift).cast_signed();
    let sign = i64::from(significand >> 31);
    (magnitude ^ sign) - sign
}

/// Returns the bits of `sum · 2^exponent`. A result of zero is positive, and one that is too large
/// infinite, although sums of single precision are rounded towards zero.
#[inline(always)]
fn pack(sum: i64, exponent: i32, to: Format) -> u32 {
    let magnitude = sum.unsigned_abs();
    let top = 63 - (magnitude | 1).leading_zeros().cast_signed();
    let field = exponent + top + 127;
    if to.fraction == 23 && magnitude != 0 && field > 0 {
        let bits = if field < 255 {
            field.cast_unsigned() << 23 | (magnitude << (63 - top) >> 40) as u32 & 0x7f_ffff
        } else {
            SINGLE.infinity() as u32
        };
        return u32::from(sum < 0) << 31 | bits;
    }
    let (format, round) = if to.fraction == 23 {
        (SINGLE, Round::Zero)
    } else {
        (HALF, Round::Nearest)
    };
    let number = Unpacked::Finite(Finite {
        negative: false,
        significand: magnitude.into(),
        exponent,
    });
    let bits = exact::pack(number, format, round) as u32;
    if bits == 0 || sum > 0 {
        return bits;
    }
    bits | format.sign() as u32
}

/// Returns the sum of terms of which one is infinite or a NaN.
#[cold]
fn special(a: &[Term], b: &[Term], earlier: Term, to: Format) -> u32 {
    let one = Term {
        significand: 1,
        exponent: 0,
    };
    let products = a.iter().copied().zip(b.iter().copied());
    let terms = products.chain([(earlier, one)]);
    let signs = terms.filter(|(a, b)| a.exponent.max(b.exponent) == SPECIAL);
    // A NaN, and the product of an infinity and a zero, have no sign.
    let mut signs = signs.map(|(a, b)| a.significand.signum() * b.significand.signum());
    let first = signs.next().unwrap_or(0);
    let format = if to.fraction == 23 { SINGLE } else { HALF };
    let number = if first != 0 && signs.all(|sign| sign == first) {
        Unpacked::Infinite {
            negative: first < 0,
        }
    } else {
        Unpacked::Nan
    };
    exact::pack(number, format, Round::Nearest) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of products of half precision, for sums of that type or single precision.
    fn sum(sums: Element, a: &[u32], b: &[u32], c: u32) -> u32 {
        let [a, b] = [a, b].map(|bits| {
            let terms = bits.iter().map(|bits| decode(*bits, format(Element::F16)));
            terms.collect::<Vec<_>>()
        });
        let rule = Rule {
            adds: Adds::Groups(16),
            fraction: 20,
            c: format(sums),
            d: format(sums),
        };
        dot(&rule, &a, &b, c)
    }

    const ONE: u32 = 0x3c00;
    const INFINITY: u32 = 0x7c00;

    #[test]
    fn terms_are_truncated_at_the_largest_exponent() {
        let single = |value: f32| value.to_bits();
        // 2^25 + 1 + 1: the ones lie at the last bit that is kept, and the sum is truncated.
        let c = single(33_554_432.0);
        assert_eq!(sum(Element::F32, &[ONE; 2], &[ONE; 2], c), c);
        assert_eq!(
            sum(Element::F32, &[ONE; 4], &[ONE; 4], c),
            single(33_554_436.0)
        );
        // 2^26 + 4 times 1: each term is truncated.
        let c = single(67_108_864.0);
        assert_eq!(sum(Element::F32, &[ONE; 16], &[ONE; 16], c), c);
        assert_eq!(sum(Element::F32, &[1], &[1], 0), single(2f32.powi(-48)));
        // 2048 + 1 of half precision is half-way to 2050, and rounded to the even 2048.
        assert_eq!(sum(Element::F16, &[ONE], &[ONE], 0x6800), 0x6800);
        assert_eq!(sum(Element::F16, &[ONE; 3], &[ONE; 3], 0x6800), 0x6802);
    }

    #[test]
    fn infinities_and_nans_are_those_of_the_exact_sum() {
        let negative = INFINITY | 0x8000;
        for (a, b, expected) in [
            ([INFINITY, ONE], [ONE, ONE], 0x7f80_0000),
            ([negative, ONE], [ONE, ONE], 0xff80_0000),
            ([negative, INFINITY], [negative, ONE], 0x7f80_0000),
            ([negative, INFINITY], [ONE, ONE], 0x7fff_ffff),
            ([INFINITY, ONE], [0, ONE], 0x7fff_ffff),
            ([0x7e00, ONE], [0, ONE], 0x7fff_ffff),
        ] {
            assert_eq!(sum(Element::F32, &a, &b, 0), expected, "{a:x?} {b:x?}");
        }
        let c = f32::INFINITY.to_bits();
        assert_eq!(sum(Element::F32, &[ONE], &[ONE], c), c);
        assert_eq!(sum(Element::F32, &[negative], &[ONE], c), 0x7fff_ffff);
        assert_eq!(sum(Element::F16, &[0x7bff; 2], &[ONE; 2], 0), INFINITY);
    }
}
