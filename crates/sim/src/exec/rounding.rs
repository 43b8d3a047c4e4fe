//! Directed rounding, which the processor's own arithmetic does not offer in safe code.
//!
//! Each function takes the result rounded to nearest and the sign of what rounding left out, both exact, and moves to the neighbour where
//! the mode asks for it. At the edges of the range, where the error term itself may not be representable, the last place may be off.
#![allow(
    clippy::cast_possible_truncation,
    reason = "rounding to the narrower type is meant"
)]

use crate::ptx::code::Round;

/// The value that `nearest`, which is the exact value minus `error`, has under `round`. `nearest` and `error` are exact together.
fn settle_f64(nearest: f64, error: f64, round: Round) -> f64 {
    if nearest.is_nan() || error == 0.0 || error.is_nan() {
        return nearest;
    }
    match round {
        Round::Nearest => nearest,
        Round::Up if error > 0.0 => nearest.next_up(),
        Round::Down if error < 0.0 => nearest.next_down(),
        Round::Zero if nearest > 0.0 && error < 0.0 => nearest.next_down(),
        Round::Zero if nearest < 0.0 && error > 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// The exact value `high + low` as an f32.
pub(super) fn narrow(high: f64, low: f64, round: Round) -> f32 {
    let nearest = high as f32;
    if nearest.is_nan() || high.is_infinite() {
        return nearest;
    }
    let above = |value: f32| f64::from(value) > high || (f64::from(value) == high && low < 0.0);
    let below = |value: f32| f64::from(value) < high || (f64::from(value) == high && low > 0.0);
    match round {
        Round::Nearest => nearest,
        Round::Up if below(nearest) => nearest.next_up(),
        Round::Down if above(nearest) => nearest.next_down(),
        Round::Zero if nearest > 0.0 && above(nearest) => nearest.next_down(),
        Round::Zero if nearest < 0.0 && below(nearest) => nearest.next_up(),
        _ => nearest,
    }
}

/// The sum and what rounding left out of it.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    if !sum.is_finite() {
        return (sum, 0.0);
    }
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (a - a_part) + (b - b_part))
}

/// An exact zero sum is -0 when rounding down, unless both operands are +0.
fn zero_sum(value: f64, a: f64, b: f64, round: Round) -> f64 {
    let positive = a == 0.0 && b == 0.0 && a.is_sign_positive() && b.is_sign_positive();
    if value == 0.0
        && round == Round::Down
        && !positive
        && (a != 0.0 || a.is_sign_positive() != b.is_sign_positive())
    {
        -0.0
    } else {
        value
    }
}

pub(super) fn add_f32(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let (sum, error) = two_sum(a, b);
    narrow(zero_sum(sum, a, b, round), error, round)
}

pub(super) fn mul_f32(a: f32, b: f32, round: Round) -> f32 {
    // The product of two 24-bit numbers is exact in 53 bits.
    narrow(f64::from(a) * f64::from(b), 0.0, round)
}

pub(super) fn fma_f32(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let (sum, error) = two_sum(product, c);
    narrow(zero_sum(sum, product, c, round), error, round)
}

pub(super) fn div_f32(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    let error = if rest.is_finite() && b.is_finite() {
        rest * b.signum()
    } else {
        0.0
    };
    narrow(quotient, error, round)
}

pub(super) fn sqrt_f32(a: f32, round: Round) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    let rest = (-root).mul_add(root, a);
    narrow(root, if rest.is_finite() { rest } else { 0.0 }, round)
}

pub(super) fn add_f64(a: f64, b: f64, round: Round) -> f64 {
    let (sum, error) = two_sum(a, b);
    overflow(
        zero_sum(settle_f64(sum, error, round), a, b, round),
        a.is_finite() && b.is_finite(),
        round,
    )
}

pub(super) fn mul_f64(a: f64, b: f64, round: Round) -> f64 {
    let product = a * b;
    let value = settle_f64(product, a.mul_add(b, -product), round);
    overflow(value, a.is_finite() && b.is_finite(), round)
}

pub(super) fn div_f64(a: f64, b: f64, round: Round) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    let value = settle_f64(quotient, rest * b.signum(), round);
    overflow(value, a.is_finite() && b.is_finite() && b != 0.0, round)
}

pub(super) fn sqrt_f64(a: f64, round: Round) -> f64 {
    let root = a.sqrt();
    settle_f64(root, (-root).mul_add(root, a), round)
}

pub(super) fn fma_f64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let value = a.mul_add(b, c);
    // What is left out is a·b + c - value: the product in two parts, and the sums' own errors.
    let product = a * b;
    let product_error = a.mul_add(b, -product);
    let (sum, sum_error) = two_sum(product, c);
    let (rest, rest_error) = two_sum(sum - value, sum_error);
    let error = (rest + product_error) + rest_error;
    let settled = settle_f64(value, error, round);
    let exact = zero_sum(settled, product, c, round);
    overflow(exact, a.is_finite() && b.is_finite() && c.is_finite(), round)
}

/// A finite operation that overflows gives the largest finite number where the mode rounds towards zero from there.
fn overflow(value: f64, finite_operands: bool, round: Round) -> f64 {
    match (value.is_infinite() && finite_operands, round) {
        (true, Round::Zero) => f64::MAX.copysign(value),
        (true, Round::Down) if value > 0.0 => f64::MAX,
        (true, Round::Up) if value < 0.0 => f64::MIN,
        _ => value,
    }
}
