//! Single- and double-precision arithmetic with directed rounding, and with flushing of results
//! that are subnormal before rounding.

use super::exact::{self, DOUBLE, Format, SINGLE, Unpacked, pack, unpack};
use super::float_bits::{flush, nan_double};
use crate::ptx::ir::{FloatMode, Round};

/// An arithmetic operation of up to three operands.
#[derive(Clone, Copy)]
pub(super) enum ArithmeticOp {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Sqrt,
}

fn operate(op: ArithmeticOp, [a, b, c]: [u64; 3], format: Format, round: Round) -> Unpacked {
    let number = |bits| unpack(bits, format);
    match op {
        ArithmeticOp::Add => exact::add(number(a), number(b), round),
        ArithmeticOp::Sub => exact::add(number(a), number(b ^ format.sign()), round),
        ArithmeticOp::Mul => exact::mul(number(a), number(b)),
        ArithmeticOp::Div => exact::div(number(a), number(b)),
        ArithmeticOp::Fma => exact::fma(number(a), number(b), number(c), round),
        ArithmeticOp::Sqrt => exact::sqrt(number(a)),
    }
}

/// Computes a single-precision operation.
///
/// With `flush`, subnormal operands and results that are subnormal before rounding become zeros.
pub(super) fn single(op: ArithmeticOp, operands: [u32; 3], mode: FloatMode) -> u32 {
    let operands = operands.map(|bits| u64::from(if mode.flush { flush(bits) } else { bits }));
    let number = operate(op, operands, SINGLE, mode.round);
    let bits = pack(number, SINGLE, mode.round) as u32;
    if mode.flush && exact::is_tiny(number, SINGLE) {
        bits & 0x8000_0000
    } else {
        bits
    }
}

/// Computes a double-precision operation.
pub(super) fn double(op: ArithmeticOp, operands: [u64; 3], round: Round) -> u64 {
    let [a, b, c] = operands;
    // A GPU implements division in software, which propagates the dividend's NaN first.
    let nan = nan_double(if matches!(op, ArithmeticOp::Div) {
        [a, b, c]
    } else {
        [b, c, a]
    });
    match nan {
        Some(nan) => nan,
        None => pack(operate(op, operands, DOUBLE, round), DOUBLE, round),
    }
}
