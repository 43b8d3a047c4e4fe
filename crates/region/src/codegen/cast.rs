//! Casts between element types, with the results of Rust's `as`.

use super::body::{KernelBody, Reg, RegClass, line};
use crate::element::DType;

/// Casts an element to another type.
pub(super) fn cast(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    if from == to {
        return value;
    }
    match (from, to) {
        (DType::Bool, _) => {
            let word = body.as_word(value);
            cast(body, DType::U8, to, word)
        }
        (_, DType::Bool) => to_bool(body, from, value),
        (DType::U8, DType::I32) => value,
        (DType::F32 | DType::F64, DType::I32 | DType::I64 | DType::U8) => {
            float_to_integer(body, from, to, value)
        }
        (DType::I32 | DType::I64, DType::U8) => {
            let low = if from == DType::I64 {
                convert(body, "cvt.u32.u64", RegClass::B32, value)
            } else {
                value
            };
            body.low_byte(low)
        }
        _ => convert(body, plain(from, to), RegClass::of(to), value),
    }
}

/// Returns the single instruction that converts between two types.
fn plain(from: DType, to: DType) -> &'static str {
    match (from, to) {
        (DType::F32, DType::F64) => "cvt.f64.f32",
        (DType::F64, DType::F32) => "cvt.rn.f32.f64",
        (DType::I32, DType::F32) => "cvt.rn.f32.s32",
        (DType::I32, DType::F64) => "cvt.rn.f64.s32",
        (DType::I64, DType::F32) => "cvt.rn.f32.s64",
        (DType::I64, DType::F64) => "cvt.rn.f64.s64",
        (DType::U8, DType::F32) => "cvt.rn.f32.u32",
        (DType::U8, DType::F64) => "cvt.rn.f64.u32",
        (DType::I32, DType::I64) => "cvt.s64.s32",
        (DType::U8, DType::I64) => "cvt.u64.u32",
        (DType::I64, DType::I32) => "cvt.u32.u64",
        _ => unreachable!("{from:?} to {to:?} takes more than one instruction"),
    }
}

fn convert(body: &mut KernelBody, instruction: &str, class: RegClass, value: Reg) -> Reg {
    let result = body.reg(class);
    line!(body, "{instruction} {result}, {value};");
    result
}

fn to_bool(body: &mut KernelBody, from: DType, value: Reg) -> Reg {
    let truth = body.reg(RegClass::Predicate);
    match from {
        DType::F32 => line!(body, "setp.neu.f32 {truth}, {value}, 0f00000000;"),
        DType::F64 => line!(body, "setp.neu.f64 {truth}, {value}, 0d0000000000000000;"),
        DType::I64 => line!(body, "setp.ne.s64 {truth}, {value}, 0;"),
        DType::I32 | DType::U8 => line!(body, "setp.ne.s32 {truth}, {value}, 0;"),
        DType::Bool => unreachable!("a boolean is not cast to a boolean"),
    }
    truth
}

/// Rounds towards 0 and saturates; NaN becomes 0.
fn float_to_integer(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    let kind = if from == DType::F32 { "f32" } else { "f64" };
    let (whole, bits) = match to {
        DType::I32 => ("s32", 32),
        DType::I64 => ("s64", 64),
        _ => ("u32", 32),
    };
    let rounded = convert(
        body,
        &format!("cvt.rzi.{whole}.{kind}"),
        RegClass::of(to),
        value,
    );
    let (is_nan, result) = (body.reg(RegClass::Predicate), body.reg(RegClass::of(to)));
    line!(body, "setp.nan.{kind} {is_nan}, {value}, {value};");
    line!(body, "selp.b{bits} {result}, 0, {rounded}, {is_nan};");
    if to != DType::U8 {
        return result;
    }
    let byte = body.reg(RegClass::B32);
    line!(body, "min.u32 {byte}, {result}, 255;");
    byte
}

impl KernelBody {
    /// Returns the low 8 bits of a word.
    pub(super) fn low_byte(&mut self, word: Reg) -> Reg {
        let byte = self.reg(RegClass::B32);
        line!(self, "and.b32 {byte}, {word}, 255;");
        byte
    }

    /// Converts an index to an `i64` element.
    pub(super) fn index_as_i64(&mut self, index: Reg) -> Reg {
        if index.class == RegClass::B64 {
            return index;
        }
        convert(self, "cvt.u64.u32", RegClass::B64, index)
    }
}
