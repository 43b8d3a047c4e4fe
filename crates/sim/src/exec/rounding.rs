//! Single- and double-precision arithmetic with directed rounding, and the edge where small results
//! are flushed.

use super::exact::{self, DOUBLE, Format, Number, SINGLE, pack, unpack};
use super::float::{flush, nan_double};
use crate::ptx::ir::{FloatMode, Round};

/// An operation on numbers; the last operand is not used by all.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Sqrt,
}

fn operate(op: Operation, [a, b, c]: [u64; 3], format: Format, round: Round) -> Number {
    let number = |bits| unpack(bits, format);
    match op {
        Operation::Add => exact::add(number(a), number(b), round),
        Operation::Sub => exact::add(number(a), number(b ^ format.sign()), round),
        Operation::Mul => exact::mul(number(a), number(b)),
        Operation::Div => exact::div(number(a), number(b)),
        Operation::Fma => exact::fma(number(a), number(b), number(c), round),
        Operation::Sqrt => exact::sqrt(number(a)),
    }
}

/// A single-precision operation. With `flush`, subnormal operands are zeros, and so are results
/// that were too small before they were rounded.
pub(super) fn single(op: Operation, operands: [u32; 3], mode: FloatMode) -> u32 {
    let operands = operands.map(|bits| u64::from(if mode.flush { flush(bits) } else { bits }));
    let number = operate(op, operands, SINGLE, mode.round);
    let bits = pack(number, SINGLE, mode.round) as u32;
    if mode.flush && exact::is_tiny(number, SINGLE) {
        bits & 0x8000_0000
    } else {
        bits
    }
}

/// A double-precision operation.
pub(super) fn double(op: Operation, operands: [u64; 3], round: Round) -> u64 {
    let [a, b, c] = operands;
    // A division is a program of the GPU's, and takes its NaN from the dividend.
    let nan = nan_double(if matches!(op, Operation::Div) {
        [a, b, c]
    } else {
        [b, c, a]
    });
    match nan {
        Some(nan) => nan,
        None => pack(operate(op, operands, DOUBLE, round), DOUBLE, round),
    }
}
