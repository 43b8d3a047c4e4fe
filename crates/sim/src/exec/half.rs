//! 16-bit float arithmetic: IEEE half precision and bfloat16.

use super::exact::{self, BRAIN, Format, HALF, Unpacked, pack, unpack};
use super::registers::Registers;
use crate::ptx::ir::{HalfFormat, HalfOp, Round, Slot};
use millstream_ptx::Type;

/// Executes an operation on all lanes of `mask`.
pub(super) fn run(
    r: &mut Registers,
    mask: u32,
    op: HalfOp,
    how: HalfFormat,
    d: Slot,
    abc: [Slot; 3],
) {
    let format = if how.brain { BRAIN } else { HALF };
    let one = |a: u32, b: u32, c: u32| u32::from(operate(op, format, a as u16, b as u16, c as u16));
    r.map3(mask, d, abc, |a: u32, b: u32, c: u32| {
        let low = one(a, b, c);
        if how.packed {
            low | (one(a >> 16, b >> 16, c >> 16) << 16)
        } else {
            low
        }
    });
}

/// Returns the sum of 16-bit floats, one or two per word.
pub(super) fn add(a: u32, b: u32, ty: Type) -> u32 {
    let format = if matches!(ty, Type::Bf16 | Type::Bf16x2) {
        BRAIN
    } else {
        HALF
    };
    let low = operate(HalfOp::Add, format, a as u16, b as u16, 0);
    if ty.bytes() == 2 {
        return low.into();
    }
    let high = operate(HalfOp::Add, format, (a >> 16) as u16, (b >> 16) as u16, 0);
    u32::from(low) | u32::from(high) << 16
}

fn operate(op: HalfOp, format: Format, a: u16, b: u16, c: u16) -> u16 {
    let [x, y, z] = [a, b, c].map(|bits| unpack(bits.into(), format));
    let nearest = |number| pack(number, format, Round::Nearest) as u16;
    let function =
        |f: fn(f64) -> f64| nearest(exact::unpack(f(value(a, format)).to_bits(), exact::DOUBLE));
    let nan = format.nan() as u16;
    match op {
        HalfOp::Add => nearest(exact::add(x, y, Round::Nearest)),
        HalfOp::Sub => operate(HalfOp::Add, format, a, b ^ 0x8000, c),
        HalfOp::Mul => nearest(exact::mul(x, y)),
        HalfOp::Fma => nearest(exact::fma(x, y, z, Round::Nearest)),
        HalfOp::Neg | HalfOp::Abs if x == Unpacked::Nan => nan,
        HalfOp::Neg => a ^ 0x8000,
        HalfOp::Abs => a & 0x7fff,
        HalfOp::Min => smallest(a, b, format, false),
        HalfOp::Max => smallest(a ^ 0x8000, b ^ 0x8000, format, true),
        HalfOp::MinNan | HalfOp::MaxNan if x == Unpacked::Nan || y == Unpacked::Nan => nan,
        HalfOp::MinNan => smallest(a, b, format, false),
        HalfOp::MaxNan => smallest(a ^ 0x8000, b ^ 0x8000, format, true),
        // A NaN stays a NaN; -0 becomes +0.
        HalfOp::Relu if x == Unpacked::Nan => nan,
        HalfOp::Relu if a & 0x8000 != 0 => 0,
        HalfOp::Relu => a,
        HalfOp::Flush if exact::is_tiny(x, format) => a & 0x8000,
        HalfOp::Flush => a,
        HalfOp::Finite if matches!(x, Unpacked::Infinite { .. }) => a - 1,
        HalfOp::Finite => a,
        HalfOp::Ex2 => function(f64::exp2),
        HalfOp::Tanh => function(f64::tanh),
        HalfOp::Saturate => {
            let one = pack(exact::integer(1), format, Round::Nearest) as u16;
            if value(a, format) > 0.0 {
                smallest(a, one, format, false)
            } else {
                0
            }
        }
    }
}

/// Returns the value of a 16-bit float; f64 represents every value of both formats.
fn value(bits: u16, format: Format) -> f64 {
    f64::from_bits(pack(
        unpack(bits.into(), format),
        exact::DOUBLE,
        Round::Nearest,
    ))
}

/// Returns the smaller operand, negated if `negate`.
///
/// -0 is less than +0, and a number is preferred to a NaN.
fn smallest(a: u16, b: u16, format: Format, negate: bool) -> u16 {
    // Read as sign and magnitude, the bits are ordered like the values.
    let order = |bits: u16| {
        let magnitude = i32::from(bits & 0x7fff);
        if bits >> 15 == 1 {
            -magnitude - 1
        } else {
            magnitude
        }
    };
    let flip = if negate { 0x8000 } else { 0 };
    match (format.is_nan(a.into()), format.is_nan(b.into())) {
        (true, true) => format.nan() as u16,
        (true, false) => b ^ flip,
        (false, true) => a ^ flip,
        (false, false) => (if order(a) <= order(b) { a } else { b }) ^ flip,
    }
}
