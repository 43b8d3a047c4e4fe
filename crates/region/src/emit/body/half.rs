//! Functions of `f16` and `bf16`: those of `f32`, with each result rounded to the nearest element,
//! ties to even, so that fusion does not change results.
//!
//! An `f32` has more than twice the digits of both types, so that rounding the rounded result of a
//! sum, difference, product, quotient or square root gives the same as rounding the exact one. The
//! instructions for sums, differences and products of `f16` do that at once.
//!
//! PTX converts `bf16` from compute capability 8.0 on only, and the generated kernels are for 7.5.
//! Therefore integer instructions convert it.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::body::{
        elementwise,
        kernel::{KernelBody, Reg, RegClass, line, value},
    },
    expr::Function,
    maths::MathFunction,
};

/// Applies a function to elements of 16 bits.
pub(crate) fn apply(
    body: &mut KernelBody,
    function: Function,
    from: DType,
    to: DType,
    values: &[Reg],
) -> Reg {
    if from == DType::F16
        && let (Function::Add | Function::Subtract | Function::Multiply, &[a, b]) =
            (function, values)
    {
        let [a, b] = [a, b].map(|element| half_of(body, element));
        let result = value!(body, B16; "{}.rn.f16 {a}, {b}", function.name());
        return word_of(body, result);
    }
    let singles: SmallVec<[Reg; 3]> = match function {
        // The operands are seed and linear index.
        Function::Maths(function) if function.is_random() => values.into(),
        // The second operand is the integer power.
        Function::Maths(MathFunction::PowInteger) => {
            [to_single(body, from, values[0]), values[1]][..].into()
        }
        _ => values
            .iter()
            .map(|&value| to_single(body, from, value))
            .collect(),
    };
    if to == DType::Bool {
        return elementwise::apply(body, function, DType::F32, to, &singles);
    }
    let result = match function {
        Function::Maths(function) if function.has_own_half() => {
            let result = body.reg(RegClass::F32);
            body.call(&format!("ms_{}_half", function.name()), result, &singles);
            result
        }
        _ => elementwise::apply(body, function, DType::F32, DType::F32, &singles),
    };
    let result = match function {
        // Rounding up could give 1, which is excluded.
        Function::Maths(MathFunction::Uniform) => truncated(body, to, result),
        _ => result,
    };
    rounded(body, to, result)
}

/// Returns a register of 16 bits with an element.
fn half_of(body: &mut KernelBody, element: Reg) -> Reg {
    match body.halves.get(&element) {
        Some(&half) => half,
        None => value!(body, B16; "cvt.u16.u32 {element}"),
    }
}

/// Returns the register of an element in one of 16 bits. Where both are known, instructions on 16
/// bits need not take it apart again.
pub(crate) fn word_of(body: &mut KernelBody, half: Reg) -> Reg {
    let word = value!(body, B32; "cvt.u32.u16 {half}");
    body.halves.insert(word, half);
    word
}

pub(crate) fn to_single(body: &mut KernelBody, from: DType, element: Reg) -> Reg {
    let single = body.reg(RegClass::F32);
    if from == DType::F16 {
        let half = half_of(body, element);
        line!(body; "cvt.f32.f16 {single}, {half};");
    } else {
        let upper = value!(body, B32; "shl.b32 {element}, 16");
        line!(body; "mov.b32 {single}, {upper};");
    }
    single
}

/// Rounds an `f32` to the nearest element, ties to even.
pub(crate) fn rounded(body: &mut KernelBody, to: DType, single: Reg) -> Reg {
    if to == DType::F16 {
        let half = value!(body, B16; "cvt.rn.f16.f32 {single}");
        return word_of(body, half);
    }
    let element = body.reg(RegClass::B32);
    let bits = value!(body, B32; "mov.b32 {single}");
    // Half a unit is added, less one bit if the element below is even, so that ties go to it.
    let odd = value!(body, B32; "shr.u32 {bits}, 16");
    line!(body; "and.b32 {odd}, {odd}, 1;");
    let sum = value!(body, B32; "add.s32 {bits}, 32767");
    line!(body; "add.s32 {sum}, {sum}, {odd};");
    let number = value!(body, B32; "shr.u32 {sum}, 16");
    // The sum could carry a NaN to infinity.
    let nan = value!(body, B32; "shr.u32 {bits}, 16");
    line!(body; "or.b32 {nan}, {nan}, 64;");
    let is_nan = value!(body, Predicate; "setp.nan.f32 {single}, {single}");
    line!(body; "selp.b32 {element}, {nan}, {number}, {is_nan};");
    element
}

/// Truncates an `f32` to the digits of the type.
fn truncated(body: &mut KernelBody, to: DType, single: Reg) -> Reg {
    let mask = match to {
        DType::F16 => "0xffffe000",
        _ => "0xffff0000",
    };
    let bits = value!(body, B32; "mov.b32 {single}");
    line!(body; "and.b32 {bits}, {bits}, {mask};");
    value!(body, F32; "mov.b32 {bits}")
}

/// Converts an `f64` or an integer of 32 or 64 bits to an `f32`, with the last bit set if it is not
/// exact. Rounding that to fewer digits gives the same as rounding the original number.
pub(crate) fn to_odd_single(body: &mut KernelBody, from: DType, value: Reg) -> Reg {
    let [single, result] = body.regs(RegClass::F32);
    let (back, lost) = (body.reg(value.class), body.predicate());
    let [bits, odd] = body.regs(RegClass::B32);
    let kind = elementwise::ordered_type(from);
    line!(body; "cvt.rz.f32.{kind} {single}, {value};");
    match from {
        DType::F64 => line!(body; "cvt.f64.f32 {back}, {single};"),
        _ => line!(body; "cvt.rzi.{kind}.f32 {back}, {single};"),
    }
    // Of a NaN, this is false.
    line!(body; "setp.ne.{kind} {lost}, {back}, {value};");
    line!(body; "mov.b32 {bits}, {single};");
    line!(body; "or.b32 {odd}, {bits}, 1;");
    line!(body; "selp.b32 {bits}, {odd}, {bits}, {lost};");
    line!(body; "mov.b32 {result}, {bits};");
    result
}
