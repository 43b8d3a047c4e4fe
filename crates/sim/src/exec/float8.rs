//! 8-bit floats (E4M3, E5M2), and single-precision floats with a short fraction (TF32).

use super::exact::{self, HALF, SINGLE, Unpacked, unpack};
use crate::ptx::ir::{Float8, Round, TensorRound};

/// Returns the magnitude of a format's bits below its NaNs and infinities. It increases with
/// `bits`.
fn magnitude(format: Float8, bits: u8) -> f64 {
    let (fraction_bits, bias) = match format {
        Float8::E4m3 => (3, 7),
        Float8::E5m2 => (2, 15),
    };
    let (exponent, fraction) = (
        i32::from(bits >> fraction_bits),
        f64::from(bits & ((1 << fraction_bits) - 1)),
    );
    let step = 2f64.powi(-fraction_bits);
    if exponent == 0 {
        fraction * step * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction * step) * 2f64.powi(exponent - bias)
    }
}

/// Returns the bits of the greatest finite magnitude and of the NaN.
fn limits(format: Float8) -> (u8, u8) {
    match format {
        Float8::E4m3 => (0x7e, 0x7f),
        Float8::E5m2 => (0x7b, 0x7f),
    }
}

/// Rounds to the nearest number of the format, ties to even. A value that is too large becomes the
/// greatest finite number.
fn narrow(format: Float8, relu: bool, value: f64) -> u8 {
    let (greatest, nan) = limits(format);
    if value.is_nan() {
        return nan;
    }
    if relu && value.is_sign_negative() {
        return 0;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let target = value.abs();
    // The smallest magnitude that is at least the target.
    let above = (0..=greatest).find(|bits| magnitude(format, *bits) >= target);
    let bits = match above {
        None => greatest,
        Some(0) => 0,
        Some(above) => {
            let below = above - 1;
            let (up, down) = (
                magnitude(format, above) - target,
                target - magnitude(format, below),
            );
            match up.total_cmp(&down) {
                std::cmp::Ordering::Less => above,
                std::cmp::Ordering::Greater => below,
                std::cmp::Ordering::Equal => above & !1,
            }
        }
    };
    sign | bits
}

/// Converts two singles to a pair of 8-bit floats; `a` becomes the high half.
pub(super) fn pair_of_singles(format: Float8, relu: bool, a: u32, b: u32) -> u32 {
    let [high, low] = [a, b].map(|bits| narrow(format, relu, f64::from(f32::from_bits(bits))));
    u32::from(high) << 8 | u32::from(low)
}

/// Converts the two half-precision floats in `a` to a pair of 8-bit floats.
pub(super) fn pair_of_halves(format: Float8, relu: bool, a: u32) -> u32 {
    let value = |bits: u32| {
        let number = unpack(u64::from(bits & 0xffff), HALF);
        f64::from_bits(exact::pack(number, exact::DOUBLE, Round::Nearest))
    };
    let [high, low] = [a >> 16, a].map(|bits| narrow(format, relu, value(bits)));
    u32::from(high) << 8 | u32::from(low)
}

/// Converts two 8-bit floats to half precision, which represents all of them exactly.
pub(super) fn to_halves(format: Float8, relu: bool, a: u32) -> u32 {
    let widen = |bits: u8| -> u32 {
        let (greatest, _) = limits(format);
        let (negative, bits) = (bits & 0x80 != 0, bits & 0x7f);
        let infinite = format == Float8::E5m2 && bits == 0x7c;
        if bits > greatest && !infinite {
            return 0x7fff;
        }
        if relu && negative {
            return 0;
        }
        let value = if infinite {
            f64::INFINITY
        } else {
            magnitude(format, bits)
        };
        let value = if negative { -value } else { value };
        let number = unpack(value.to_bits(), exact::DOUBLE);
        exact::pack(number, HALF, Round::Nearest) as u32
    };
    widen((a >> 8) as u8) << 16 | widen(a as u8)
}

/// Rounds a single to ten fraction bits (TF32).
///
/// The machine code of `.rna` drops bits of a NaN's fraction, and `.satfinite` takes one unit of
/// the last place from the bits of every infinity and NaN.
pub(super) fn tensor(round: TensorRound, relu: bool, a: u32) -> u32 {
    const CUT: u32 = 13;
    const INFINITE: u32 = 0x7f80_0000;
    let not_finite = |bits: u32| bits & INFINITE == INFINITE;
    if let TensorRound::Away | TensorRound::AwayFinite = round {
        let rounded = if not_finite(a) {
            a
        } else {
            a + (1 << (CUT - 1))
        } >> CUT
            << CUT;
        let saturates = round == TensorRound::AwayFinite && not_finite(rounded);
        return if saturates {
            rounded - (1 << CUT)
        } else {
            rounded
        };
    }
    match unpack(u64::from(a), SINGLE) {
        Unpacked::Nan => return 0x7fff_ffff,
        _ if relu && a >> 31 == 1 => return 0,
        Unpacked::Infinite { .. } => return a,
        Unpacked::Finite(_) => {}
    }
    let half = 1 << (CUT - 1);
    // A carry out of the fraction correctly increments the exponent.
    let rounded = match round {
        TensorRound::Even => a + half - 1 + (a >> CUT & 1),
        _ => a,
    };
    rounded & !((1 << CUT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nearest finite number of a format by exhaustive search; ties go to even bits.
    fn nearest(format: Float8, value: f64) -> u8 {
        let (greatest, _) = limits(format);
        let distance = |bits: u8| (magnitude(format, bits) - value.abs()).abs();
        let best = (0..=greatest)
            .min_by(|a, b| {
                let by_distance = distance(*a).total_cmp(&distance(*b));
                by_distance.then((a & 1).cmp(&(b & 1)))
            })
            .unwrap();
        best | if value.is_sign_negative() { 0x80 } else { 0 }
    }

    #[test]
    fn narrowing_rounds_to_the_nearest_number() {
        for format in [Float8::E4m3, Float8::E5m2] {
            for bits in 0..=0xffff_u32 {
                // All bf16 values: singles whose low 16 fraction bits are zero.
                let single = f32::from_bits(bits << 16);
                if single.is_nan() {
                    continue;
                }
                let value = f64::from(single);
                assert_eq!(
                    narrow(format, false, value),
                    nearest(format, value.clamp(-1e6, 1e6)),
                    "{value}"
                );
            }
        }
        assert_eq!(narrow(Float8::E4m3, false, 1e9), 0x7e);
        assert_eq!(narrow(Float8::E4m3, true, -1.0), 0);
        assert_eq!(magnitude(Float8::E4m3, 0x7e), 448.0);
        assert_eq!(magnitude(Float8::E5m2, 0x7b), 57344.0);
        assert_eq!(magnitude(Float8::E4m3, 1), 2f64.powi(-9));
    }

    #[test]
    fn eight_bit_floats_survive_conversion_to_half_precision() {
        for format in [Float8::E4m3, Float8::E5m2] {
            let (greatest, nan) = limits(format);
            for bits in 0..=greatest {
                let pair = u32::from(bits) << 8 | u32::from(bits | 0x80);
                assert_eq!(
                    pair_of_halves(format, false, to_halves(format, false, pair)),
                    pair
                );
            }
            assert_eq!(to_halves(format, false, u32::from(nan)) & 0xffff, 0x7fff);
        }
        assert_eq!(to_halves(Float8::E5m2, false, 0xfc7c), 0xfc00_7c00);
    }

    #[test]
    fn tf32_conversion_rounds_to_ten_fraction_bits() {
        let one_and = |steps: u32| 0x3f80_0000 + steps;
        assert_eq!(
            tensor(TensorRound::Away, false, one_and(0x1000)),
            one_and(0x2000)
        );
        assert_eq!(
            tensor(TensorRound::Even, false, one_and(0x1000)),
            one_and(0)
        );
        assert_eq!(
            tensor(TensorRound::Even, false, one_and(0x3000)),
            one_and(0x4000)
        );
        assert_eq!(
            tensor(TensorRound::Zero, false, one_and(0x3fff)),
            one_and(0x2000)
        );
        assert_eq!(tensor(TensorRound::Away, false, 0x7fff_ffff), 0x7fff_e000);
        assert_eq!(tensor(TensorRound::Even, false, 0x7f7f_ffff), 0x7f80_0000);
        assert_eq!(tensor(TensorRound::Even, true, 0xbf80_0000), 0);
        assert_eq!(tensor(TensorRound::Zero, false, 0xff80_0000), 0xff80_0000);
    }
}
