//! Approximate single-precision functions in double precision, four lanes at a time.
//!
//! The result is that of the C library's function in double precision, rounded once: a polynomial
//! stays within a few units in the last place of that function, and where a bound between two
//! singles lies so near that the two might round differently, the library computes the lane.

use super::float_bits::canonical;
use super::registers::{LANES, Registers, lanes};
use crate::ptx::ir::Slot;

/// The distance from a rounding bound, in units in the last place of a double, below which the C
/// library decides.
const MARGIN: u64 = 64;

/// 1.5 · 2^52: a double near it has no fraction bits, and its low bits are an integer.
const SHIFTER: f64 = 6_755_399_441_055_744.0;

/// The powers of ln 2 over factorials, the highest first.
const EXP2: [f64; 14] = [
    1.3691488853904128e-12,
    2.5678435993488206e-11,
    4.4455382718708116e-10,
    7.054911620801123e-09,
    1.01780860092397e-07,
    1.321548679014431e-06,
    1.5252733804059841e-05,
    0.0001540353039338161,
    0.0013333558146428443,
    0.009618129107628477,
    0.05550410866482158,
    0.24022650695910072,
    std::f64::consts::LN_2,
    1.0,
];

/// The coefficients of atanh(s) / s in s², the highest first.
const ATANH: [f64; 11] = [
    0.047619047619047616,
    0.05263157894736842,
    0.058823529411764705,
    0.06666666666666667,
    0.07692307692307693,
    0.09090909090909091,
    0.1111111111111111,
    0.14285714285714285,
    0.2,
    0.3333333333333333,
    1.0,
];

/// Returns whether a double lies within [`MARGIN`] of the middle between two normal singles.
#[inline(always)]
fn is_near_bound(value: f64) -> bool {
    let middle = 1u64 << 28;
    let rest = value.to_bits() & (2 * middle - 1);
    rest.wrapping_sub(middle - MARGIN) < 2 * MARGIN
}

#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = sum * x + coefficient;
    }
    sum
}

/// Returns 2^x for -126 < x < 128, a zero or infinity for much smaller or larger x, and whether
/// that is certain.
#[inline(always)]
fn exp2(x: f64) -> (f64, bool) {
    let shifted = x + SHIFTER;
    let fraction = x - (shifted - SHIFTER);
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let value = polynomial(fraction, &EXP2) * scale;
    let in_range = (x > -126.0) & (x < 128.0);
    let beyond = if x < 0.0 { 0.0 } else { f64::INFINITY };
    let certain = if in_range {
        !is_near_bound(value)
    } else if x < 0.0 {
        x < -151.0
    } else {
        x >= 128.0
    };
    (if in_range { value } else { beyond }, certain)
}

/// Returns log₂ x, and whether that is certain; it is not unless x is positive and finite.
#[inline(always)]
fn log2(x: f64) -> (f64, bool) {
    // The exponent for a significand from √½ to √2.
    let biased = x
        .to_bits()
        .wrapping_sub(0x3fe6_a09e_667f_3bcd)
        .wrapping_add(1023 << 52)
        >> 52;
    let significand = f64::from_bits(x.to_bits().wrapping_sub(biased.wrapping_sub(1023) << 52));
    let exponent =
        f64::from_bits(0x4330_0000_0000_0000 | biased) - (4_503_599_627_370_496.0 + 1023.0);
    let s = (significand - 1.0) / (significand + 1.0);
    let value = exponent + 2.8853900817779268 * (s * polynomial(s * s, &ATANH));
    (
        value,
        (x > 0.0) & (x < f64::INFINITY) & !is_near_bound(value),
    )
}

/// Computes 2^x or, with `LOG`, log₂ x for the lanes in `mask`.
#[inline(always)]
pub(super) fn run<const LOG: bool>(r: &mut Registers, mask: u32, d: Slot, a: Slot) {
    let operands = *r.word(a);
    let operand = |lane: usize| f64::from(f32::from_bits(operands[lane]));
    let mut values = [0; LANES];
    let mut uncertain = 0;
    for lane in 0..LANES {
        let x = operand(lane);
        let (value, certain) = if LOG { log2(x) } else { exp2(x) };
        values[lane] = (value as f32).to_bits();
        uncertain |= if certain { 0 } else { 1u32 << lane };
    }
    for lane in lanes(uncertain & mask) {
        let x = operand(lane);
        values[lane] = canonical((if LOG { x.log2() } else { x.exp2() }) as f32);
    }
    r.set_word(d, mask, &values);
}

#[cfg(test)]
mod tests {
    use millstream_testkit::share;

    use super::*;

    /// Compares with the C library for every `step`-th single from `start` on.
    fn compare(start: u32, step: usize) {
        let ulps = |a: f64, b: f64| a.to_bits().abs_diff(b.to_bits());
        for bits in (start..=u32::MAX).step_by(step) {
            let x = f64::from(f32::from_bits(bits));
            for (name, (value, certain), library) in
                [("ex2", exp2(x), x.exp2()), ("lg2", log2(x), x.log2())]
            {
                if certain {
                    assert_eq!(
                        (value as f32).to_bits(),
                        (library as f32).to_bits(),
                        "{name} {x:e}"
                    );
                }
                // Half the margin is left to libraries of other systems.
                let normal = library.is_normal() && library.abs() < 3e38 && library > -126.0;
                let compared = normal && (name == "lg2" || x > -126.0);
                assert!(
                    !compared || ulps(value, library) <= MARGIN / 2,
                    "{name} {x:e}"
                );
            }
        }
    }

    /// Compares a share of all singles that changes each day, or all of them.
    #[test]
    fn results_are_those_of_the_library() {
        if share::is_whole() {
            return compare(0, 1);
        }
        compare((share::day() % 65_537) as u32, 65_537);
    }
}
