//! Casts between element types, with the results of Rust's `as`. Numbers are rounded to the nearest
//! `f16` or `bf16`, ties to even.

use crate::{
    element::DType,
    emit::body::{
        elementwise::ordered_type,
        half,
        kernel::{KernelBody, Reg, RegClass, line, value},
    },
};

/// Casts an element to another type.
pub(crate) fn cast(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    if from == to {
        return value;
    }
    match (from, to) {
        (DType::Bool, _) => {
            let word = body.as_word(value);
            cast(body, DType::U8, to, word)
        }
        (_, DType::Bool) => to_bool(body, from, value),
        _ if from.is_half() => {
            let single = half::to_single(body, from, value);
            cast(body, DType::F32, to, single)
        }
        _ if to.is_half() => to_half(body, from, to, value),
        (DType::F32, DType::F64) => convert(body, "cvt.f64.f32", RegClass::F64, value),
        (DType::F64, DType::F32) => convert(body, "cvt.rn.f32.f64", RegClass::F32, value),
        (DType::F32 | DType::F64, _) => float_to_integer(body, from, to, value),
        (_, DType::F32 | DType::F64) => integer_to_float(body, from, to, value),
        _ => integer_to_integer(body, from, to, value),
    }
}

fn convert(body: &mut KernelBody, instruction: &str, class: RegClass, value: Reg) -> Reg {
    value!(body, of class; "{instruction} {value}")
}

fn to_bool(body: &mut KernelBody, from: DType, value: Reg) -> Reg {
    let truth = body.predicate();
    match from {
        DType::F32 => line!(body; "setp.neu.f32 {truth}, {value}, 0f00000000;"),
        DType::F64 => line!(body; "setp.neu.f64 {truth}, {value}, 0d0000000000000000;"),
        DType::F16 | DType::Bf16 => {
            let magnitude = value!(body, B32; "and.b32 {value}, 32767");
            line!(body; "setp.ne.s32 {truth}, {magnitude}, 0;");
        }
        _ => line!(body; "setp.ne.{} {truth}, {value}, 0;", ordered_type(from)),
    }
    truth
}

fn to_half(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    let single = match from {
        DType::F32 => value,
        _ if from.is_narrow_integer() => integer_to_float(body, from, DType::F32, value),
        _ => half::to_odd_single(body, from, value),
    };
    half::rounded(body, to, single)
}

/// Returns the type suffix of an integer in conversions to and from floats: an integer without a
/// sign that has less than 32 bits is converted as one of 32.
fn converted_type(integer: DType) -> &'static str {
    match integer {
        DType::U8 | DType::U16 => "u32",
        _ => ordered_type(integer),
    }
}

fn integer_to_float(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    let instruction = format!("cvt.rn.{}.{}", ordered_type(to), converted_type(from));
    convert(body, &instruction, RegClass::of(to), value)
}

fn integer_to_integer(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    match (value.class, RegClass::of(to)) {
        (RegClass::B64, RegClass::B64) => value,
        (RegClass::B64, _) => {
            let low = convert(body, "cvt.u32.u64", RegClass::B32, value);
            body.narrowed(to, low)
        }
        (_, RegClass::B64) if from.is_unsigned() => {
            convert(body, "cvt.u64.u32", RegClass::B64, value)
        }
        (_, RegClass::B64) => convert(body, "cvt.s64.s32", RegClass::B64, value),
        // The register of a number without a sign holds it in every longer type, too.
        _ if from.is_unsigned() && from.bytes() < to.bytes() => value,
        _ => body.narrowed(to, value),
    }
}

/// Rounds towards 0 and saturates; NaN becomes 0.
fn float_to_integer(body: &mut KernelBody, from: DType, to: DType, value: Reg) -> Reg {
    let (kind, whole) = (ordered_type(from), converted_type(to));
    let class = RegClass::of(to);
    let rounded = convert(body, &format!("cvt.rzi.{whole}.{kind}"), class, value);
    let (is_nan, result) = (body.predicate(), body.reg(class));
    line!(body; "setp.nan.{kind} {is_nan}, {value}, {value};");
    line!(body; "selp.{} {result}, 0, {rounded}, {is_nan};", class.move_type());
    let (least, greatest) = match to {
        DType::U8 => (None, 255),
        DType::U16 => (None, 65535),
        DType::I8 => (Some(-128), 127),
        DType::I16 => (Some(-32768), 32767),
        _ => return result,
    };
    let mut within = body.reg(RegClass::B32);
    line!(body; "min.{whole} {within}, {result}, {greatest};");
    if let Some(least) = least {
        let above = value!(body, B32; "max.{whole} {within}, {least}");
        within = above;
    }
    within
}

impl KernelBody {
    /// Replaces the bits of an integer beyond its type by its sign if it has one, else by zeros.
    pub(crate) fn narrowed(&mut self, dtype: DType, word: Reg) -> Reg {
        if !dtype.is_narrow_integer() {
            return word;
        }
        let (narrow, bits) = (self.reg(RegClass::B32), dtype.bytes() * 8);
        if dtype.is_unsigned() {
            line!(self; "and.b32 {narrow}, {word}, {};", (1 << bits) - 1);
        } else {
            let (upper, shift) = (self.reg(RegClass::B32), 32 - bits);
            line!(self; "shl.b32 {upper}, {word}, {shift};");
            line!(self; "shr.s32 {narrow}, {upper}, {shift};");
        }
        narrow
    }

    pub(crate) fn index_as_i64(&mut self, index: Reg) -> Reg {
        if index.class == RegClass::B64 {
            return index;
        }
        convert(self, "cvt.u64.u32", RegClass::B64, index)
    }
}
