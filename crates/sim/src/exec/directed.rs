//! Single-precision sums and products with directed rounding, computed in double precision.
//!
//! A product of two singles is exact in double precision, and so is the sum of a rounded double and
//! its rounding error (Knuth's TwoSum; no intermediate value overflows or underflows). The double
//! lies on the same side of every single as the exact value, or on a single itself, where the sign
//! of the error decides. Without branches, so that the compiler vectorises the loops over lanes.

use super::float_bits::{NAN_32, flush};
use super::registers::{LANES, Registers};
use super::rounding::{ArithmeticOp, single};
use crate::ptx::ir::{FloatMode, Round, Slot};

/// Computes an operation with directed rounding for the lanes in `mask`; quotients and roots in
/// integer arithmetic.
#[inline(always)]
pub(super) fn run(
    r: &mut Registers,
    mask: u32,
    op: ArithmeticOp,
    mode: FloatMode,
    d: Slot,
    abc: [Slot; 3],
) {
    let [a, b, c] = abc.map(|slot| *r.word(slot));
    let mut values = [0; LANES];
    // The loops name the functions, because closures of this size are not inlined.
    match op {
        ArithmeticOp::Add => {
            for lane in 0..LANES {
                values[lane] = add(a[lane], b[lane], mode);
            }
        }
        ArithmeticOp::Sub => {
            for lane in 0..LANES {
                values[lane] = add(a[lane], b[lane] ^ 0x8000_0000, mode);
            }
        }
        ArithmeticOp::Mul => {
            for lane in 0..LANES {
                values[lane] = mul(a[lane], b[lane], mode);
            }
        }
        ArithmeticOp::Fma => {
            for lane in 0..LANES {
                values[lane] = fma(a[lane], b[lane], c[lane], mode);
            }
        }
        ArithmeticOp::Div | ArithmeticOp::Sqrt => {
            for lane in 0..LANES {
                values[lane] = single(op, [a[lane], b[lane], c[lane]], mode);
            }
        }
    }
    r.set_word(d, mask, &values);
}

/// Returns an operand as a double; with `flushes`, a subnormal one as a zero.
#[inline(always)]
fn operand(bits: u32, flushes: bool) -> f64 {
    f64::from(f32::from_bits(if flushes { flush(bits) } else { bits }))
}

/// Computes `a + b`.
#[inline(always)]
fn add(a: u32, b: u32, mode: FloatMode) -> u32 {
    sum(operand(a, mode.flush), operand(b, mode.flush), mode)
}

/// Computes `a * b`.
#[inline(always)]
fn mul(a: u32, b: u32, mode: FloatMode) -> u32 {
    rounded(operand(a, mode.flush) * operand(b, mode.flush), 0.0, mode)
}

/// Computes `a * b + c`.
#[inline(always)]
fn fma(a: u32, b: u32, c: u32, mode: FloatMode) -> u32 {
    let product = operand(a, mode.flush) * operand(b, mode.flush);
    sum(product, operand(c, mode.flush), mode)
}

#[inline(always)]
fn sum(a: f64, b: f64, mode: FloatMode) -> u32 {
    let sum = a + b;
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    let bits = rounded(sum, error, mode);
    // An exact zero is negative if both operands are, or if it is rounded down and either is.
    let negative = mode.round == Round::Down && (a.to_bits() | b.to_bits()) >> 63 != 0;
    if sum == 0.0 && negative {
        0x8000_0000
    } else {
        bits
    }
}

/// Rounds `value + error`, where `value` is that sum rounded to nearest.
#[inline(always)]
fn rounded(value: f64, error: f64, mode: FloatMode) -> u32 {
    let nearest = value as f32;
    let bits = nearest.to_bits();
    let wide = f64::from(nearest);
    let above = (wide > value) | ((wide == value) & (error < 0.0));
    let below = (wide < value) | ((wide == value) & (error > 0.0));
    let zero = mode.round == Round::Zero;
    let down = above & ((mode.round == Round::Down) | (zero & (value > 0.0)));
    let up = below & ((mode.round == Round::Up) | (zero & (value < 0.0)));
    let magnitude = bits & 0x7fff_ffff;
    let negative = bits >> 31 != 0;
    // A step away from zero increments the magnitude.
    let outward = (if negative { down } else { up }) | ((magnitude == 0) & (down | up));
    let inward = (down | up) & !outward;
    let sign = if magnitude == 0 {
        u32::from(down) << 31 | if down | up { 0 } else { bits }
    } else {
        bits & 0x8000_0000
    };
    let result = sign | (magnitude + u32::from(outward) - u32::from(inward));
    // A result that is subnormal before rounding becomes a zero.
    let least = f64::from(f32::MIN_POSITIVE);
    let tiny = (value.abs() < least) | ((value.abs() == least) & (value * error < 0.0));
    let result = if mode.flush && tiny {
        result & 0x8000_0000
    } else {
        result
    };
    if value.is_nan() { NAN_32 } else { result }
}

#[cfg(test)]
mod tests {
    use millstream_testkit::share;

    use super::*;

    const ROUNDS: [Round; 3] = [Round::Zero, Round::Down, Round::Up];

    /// Compares with the integer arithmetic of `rounding`.
    fn compare([a, b, c]: [u32; 3]) {
        for round in ROUNDS {
            for flush in [false, true] {
                let mode = FloatMode { round, flush };
                let exact = |op| single(op, [a, b, c], mode);
                let text = || format!("{a:#x} {b:#x} {c:#x} {mode:?}");
                assert_eq!(
                    fma(a, b, c, mode),
                    exact(ArithmeticOp::Fma),
                    "fma {}",
                    text()
                );
                assert_eq!(add(a, b, mode), exact(ArithmeticOp::Add), "add {}", text());
                assert_eq!(mul(a, b, mode), exact(ArithmeticOp::Mul), "mul {}", text());
            }
        }
    }

    fn edges() -> Vec<u32> {
        let magnitudes = [
            0,
            1,
            2,
            0x0040_0000,
            0x007f_ffff,
            0x0080_0000,
            0x0080_0001,
            0x0100_0000,
            0x1a00_0000,
            0x2000_0000,
            0x207f_ffff,
            0x3380_0000,
            0x3f00_0000,
            0x3f7f_ffff,
            0x3f80_0000,
            0x3f80_0001,
            0x4000_0000,
            0x4b80_0000,
            0x5f00_0000,
            0x7f00_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7fc0_0000,
            0x7fff_ffff,
        ];
        magnitudes
            .into_iter()
            .flat_map(|bits| [bits, bits | 0x8000_0000])
            .collect()
    }

    #[test]
    fn edges_round_as_integer_arithmetic_does() {
        let edges = edges();
        for a in &edges {
            for b in &edges {
                edges.iter().for_each(|c| compare([*a, *b, *c]));
            }
        }
    }

    /// Compares random operands: any, near each other's exponents, and with a sum near zero.
    fn compare_random(count: u64, seed: u64) {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as u32
        };
        for _ in 0..count {
            let [a, b, c] = [next(), next(), next()];
            compare([a, b, c]);
            let near = |bits: u32| bits & 0x807f_ffff | (110 + (bits >> 23) % 32) << 23;
            compare([near(a), near(b), near(c)]);
            let product = f32::from_bits(near(a)) * f32::from_bits(near(b));
            compare([near(a), near(b), (-product).to_bits() ^ (c & 1)]);
            let small = |bits: u32| bits & 0x807f_ffff | (50 + (bits >> 23) % 28) << 23;
            compare([small(a), small(b), c & 0x81ff_ffff]);
        }
    }

    #[test]
    fn random_operands_round_as_integer_arithmetic_does() {
        let count = [10_000, 5_000_000][usize::from(share::is_whole())];
        compare_random(count, share::day().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}
