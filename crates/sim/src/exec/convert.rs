//! Conversions that have no operation of their own: every pair of types, every rounding mode.
#![allow(
    clippy::cast_possible_truncation,
    reason = "conversions cut and round; that is what they are for"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "conversions cut and round; that is what they are for"
)]

use super::float::{canonical, flush};
use super::half::{self, Format};
use super::registers::Registers;
use super::rounding::narrow;
use crate::ptx::code::{Convert, Round, Slot};
use crate::ptx::types::Type;

/// Converts the lanes of `mask`.
pub(super) fn run(r: &mut Registers, mask: u32, how: Convert, d: Slot, a: Slot) {
    match (how.from.bytes() == 8, how.register_bytes == 8) {
        (true, true) => r.d_d(mask, d, a, |a| convert(how, a)),
        (true, false) => r.w_d(mask, d, a, |a| convert(how, a) as u32),
        (false, true) => r.d_w(mask, d, a, |a| convert(how, u64::from(a))),
        (false, false) => r.w_w(mask, d, a, |a| convert(how, u64::from(a)) as u32),
    }
}

/// The bits of the result, extended to the register by the result's sign.
fn convert(how: Convert, bits: u64) -> u64 {
    match (how.from.is_float(), how.to.is_float()) {
        (false, false) => integer_result(how, integer(how.from, bits)),
        (false, true) => float_from_integer(how, integer(how.from, bits)),
        (true, false) => integer_from_float(how, bits),
        (true, true) => float_result(how, float(how, bits)),
    }
}

/// An integer source's value.
fn integer(ty: Type, bits: u64) -> i128 {
    let unused = 64 - 8 * ty.bytes() as u32;
    let high = bits << unused;
    if ty.is_signed() {
        i128::from(high.cast_signed() >> unused)
    } else {
        i128::from(high >> unused)
    }
}

/// The least and greatest value of an integer type.
fn range(ty: Type) -> (i128, i128) {
    let bits = 8 * ty.bytes() as u32;
    if ty.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn integer_result(how: Convert, value: i128) -> u64 {
    let (low, high) = range(how.to);
    let value = if how.saturate {
        value.clamp(low, high)
    } else {
        value
    };
    extend(how, value as u64)
}

/// Cuts to the result's type, extends by its sign to the register, and cuts to that.
fn extend(how: Convert, bits: u64) -> u64 {
    let value = integer(how.to, bits) as u64;
    if how.register_bytes >= 8 {
        value
    } else {
        value & ((1 << (8 * how.register_bytes)) - 1)
    }
}

fn float_from_integer(how: Convert, value: i128) -> u64 {
    match how.to {
        Type::F64 => round_integer(value, how.round).to_bits(),
        Type::F32 => {
            // In two exact parts, of which the sum is rounded once.
            let high = value >> 32 << 32;
            let single = sum_to_f32(high as f64, (value - high) as f64, how.round);
            u64::from(saturated(how, single).to_bits())
        }
        _ => {
            let high = value >> 32 << 32;
            // Rounding to odd keeps what decides the second rounding.
            let odd = to_odd(high as f64, (value - high) as f64);
            u64::from(half::round(odd, format(how.to), how.round))
        }
    }
}

/// `value` as an f64. It has at most 64 bits.
fn round_integer(value: i128, round: Round) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    match round {
        Round::Up if back < value => nearest.next_up(),
        Round::Down if back > value => nearest.next_down(),
        Round::Zero if value > 0 && back > value => nearest.next_down(),
        Round::Zero if value < 0 && back < value => nearest.next_up(),
        _ => nearest,
    }
}

/// The sum of two exact parts as an f32, rounded once.
fn sum_to_f32(high: f64, low: f64, round: Round) -> f32 {
    match round {
        Round::Nearest => to_odd(high, low) as f32,
        _ => {
            let sum = high + low;
            narrow(sum, low - (sum - high), round)
        }
    }
}

/// The sum of two parts, of which the second is smaller, rounded so that a later rounding to fewer bits gives what one rounding would: if
/// inexact, to the neighbour whose last bit is 1.
fn to_odd(high: f64, low: f64) -> f64 {
    let sum = high + low;
    let error = low - (sum - high);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

fn format(ty: Type) -> Format {
    if ty == Type::Bf16 { half::BRAIN } else { half::HALF }
}

/// A float source's value; every float type fits into f64.
fn float(how: Convert, bits: u64) -> f64 {
    match how.from {
        Type::F64 => f64::from_bits(bits),
        Type::F32 => {
            let bits = bits as u32;
            f64::from(f32::from_bits(if how.flush { flush(bits) } else { bits }))
        }
        ty => half::value(bits as u16, format(ty)),
    }
}

fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

fn integer_from_float(how: Convert, bits: u64) -> u64 {
    let value = integral(float(how, bits), how.round);
    let (low, high) = range(how.to);
    // Out of range gives the nearest value of the type, NaN gives 0.
    let value = if value.is_nan() {
        0
    } else {
        (value as i128).clamp(low, high)
    };
    extend(how, value as u64)
}

fn saturated(how: Convert, value: f32) -> f32 {
    match () {
        () if !how.saturate => value,
        () if value >= 1.0 => 1.0,
        () if value > 0.0 => value,
        () => 0.0,
    }
}

fn float_result(how: Convert, value: f64) -> u64 {
    let value = if how.integral {
        integral(value, how.round)
    } else {
        value
    };
    match how.to {
        Type::F64 => {
            let value = match () {
                () if !how.saturate => value,
                () if value >= 1.0 => 1.0,
                () if value > 0.0 => value,
                () => 0.0,
            };
            value.to_bits()
        }
        Type::F32 => {
            let single = if how.integral {
                value as f32
            } else {
                narrow(value, 0.0, how.round)
            };
            let bits = canonical(saturated(how, single));
            u64::from(if how.flush { flush(bits) } else { bits })
        }
        ty => {
            let value = if how.saturate {
                f64::from(saturated(how, value as f32))
            } else {
                value
            };
            u64::from(half::round(value, format(ty), how.round))
        }
    }
}
