//! Instruction selection for element-wise functions.
//!
//! Arithmetic is rounded to nearest, operation by operation, and never contracted, so that it gives
//! the host's results. Functions of `f16` and `bf16` are those of `f32`, with each result rounded.

use crate::{
    element::DType,
    emit::body::{
        cast::cast,
        half,
        kernel::{KernelBody, Reg, RegClass, line, test, value},
    },
    expr::{Comparison, Function, Rounding},
};

/// Applies the function to elements of type `from`, which for a selection is the type of its
/// branches. The result has type `to`.
pub(crate) fn apply(
    body: &mut KernelBody,
    function: Function,
    from: DType,
    to: DType,
    values: &[Reg],
) -> Reg {
    match function {
        Function::Cast(_) => cast(body, from, to, values[0]),
        Function::Select => select(body, from, values[0], values[1], values[2]),
        _ if from.is_half() => half::apply(body, function, from, to, values),
        Function::Maths(function) => {
            let result = body.reg(RegClass::of(to));
            let kind = if from == DType::F32 { "f32" } else { "f64" };
            body.call(&format!("ms_{}_{kind}", function.name()), result, values);
            result
        }
        Function::Compare(comparison) => compare(body, comparison, from, values[0], values[1]),
        _ => match from {
            DType::F32 | DType::F64 => float(body, function, from, values),
            DType::Bool => truth(body, function, values),
            _ => integer(body, function, from, values),
        },
    }
}

fn float(body: &mut KernelBody, function: Function, dtype: DType, values: &[Reg]) -> Reg {
    let (kind, [_, one, ..]) = (ordered_type(dtype), literals(dtype));
    let result = body.reg(RegClass::of(dtype));
    let (name, a) = (function.name(), values[0]);
    match (function, values) {
        (Function::Add | Function::Subtract | Function::Multiply | Function::Divide, &[a, b]) => {
            line!(body; "{name}.rn.{kind} {result}, {a}, {b};");
        }
        (Function::Remainder, _) => body.call(&format!("ms_rem_{kind}"), result, values),
        (Function::Minimum | Function::Maximum, &[a, b]) => {
            return min_or_max(body, name, dtype, a, b);
        }
        (Function::Negate | Function::Absolute, _) => line!(body; "{name}.{kind} {result}, {a};"),
        (Function::SquareRoot, _) => line!(body; "sqrt.rn.{kind} {result}, {a};"),
        (Function::Signum, _) => {
            let (is_nan, sign, unit) = (body.predicate(), body.reg(a.class), body.reg(a.class));
            line!(body; "mov.{kind} {unit}, {one};");
            line!(body; "copysign.{kind} {sign}, {a}, {unit};");
            line!(body; "setp.nan.{kind} {is_nan}, {a}, {a};");
            line!(body; "selp.{kind} {result}, {a}, {sign}, {is_nan};");
        }
        (Function::Round(rounding), _) => {
            let mode = match rounding {
                Rounding::Down => "rmi",
                Rounding::Up => "rpi",
                Rounding::TowardsZero => "rzi",
                Rounding::NearestEven => "rni",
            };
            line!(body; "cvt.{mode}.{kind}.{kind} {result}, {a};");
        }
        _ => unreachable!("floats have no {function:?}"),
    }
    result
}

/// Computes the minimum if `name` is `min`, and the maximum if it is `max`. For floats, the result
/// is NaN if an operand is, and −0 is less than +0.
pub(crate) fn min_or_max(body: &mut KernelBody, name: &str, dtype: DType, a: Reg, b: Reg) -> Reg {
    let kind = ordered_type(dtype);
    let chosen = body.reg(a.class);
    line!(body; "{name}.{kind} {chosen}, {a}, {b};");
    if !dtype.is_wide_float() {
        return chosen;
    }
    // The instruction returns the operand that is a number; the sum is NaN if either operand is.
    let (is_nan, nan, result) = (body.predicate(), body.reg(a.class), body.reg(a.class));
    line!(body; "add.rn.{kind} {nan}, {a}, {b};");
    line!(body; "setp.nan.{kind} {is_nan}, {a}, {b};");
    line!(body; "selp.{kind} {result}, {nan}, {chosen}, {is_nan};");
    result
}

/// Returns the literals of 0 and 1, and of the least and the greatest value.
pub(crate) fn literals(dtype: DType) -> [&'static str; 4] {
    match dtype {
        DType::F32 => ["0f00000000", "0f3F800000", "0fFF800000", "0f7F800000"],
        DType::F64 => [
            "0d0000000000000000",
            "0d3FF0000000000000",
            "0dFFF0000000000000",
            "0d7FF0000000000000",
        ],
        DType::I64 => ["0", "1", "-9223372036854775808", "9223372036854775807"],
        DType::U64 => ["0", "1", "0", "18446744073709551615"],
        DType::U32 => ["0", "1", "0", "4294967295"],
        _ => ["0", "1", "-2147483648", "2147483647"],
    }
}

/// Returns the type suffix of comparisons of numbers in registers.
pub(crate) fn ordered_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I64 => "s64",
        DType::U64 => "u64",
        DType::U32 => "u32",
        _ => "s32",
    }
}

fn integer(body: &mut KernelBody, function: Function, dtype: DType, values: &[Reg]) -> Reg {
    let class = RegClass::of(dtype);
    let bits = if class == RegClass::B64 { 64 } else { 32 };
    let ordered = ordered_type(dtype);
    let result = body.reg(class);
    let (name, a) = (function.name(), values[0]);
    match (function, values) {
        (Function::Add | Function::Subtract, &[a, b]) => {
            line!(body; "{name}.s{bits} {result}, {a}, {b};")
        }
        (Function::Multiply, &[a, b]) => line!(body; "mul.lo.s{bits} {result}, {a}, {b};"),
        (Function::Divide | Function::Remainder, &[a, b]) => {
            // PTX does not define a division by 0, so the divisor is replaced by 1, and the result
            // by 0.
            let (by_zero, divisor, quotient) = (body.predicate(), body.reg(class), body.reg(class));
            line!(body; "setp.eq.s{bits} {by_zero}, {b}, 0;");
            line!(body; "selp.b{bits} {divisor}, 1, {b}, {by_zero};");
            line!(body; "{name}.{ordered} {quotient}, {a}, {divisor};");
            line!(body; "selp.b{bits} {result}, 0, {quotient}, {by_zero};");
        }
        (Function::Minimum | Function::Maximum, &[a, b]) => {
            return min_or_max(body, name, dtype, a, b);
        }
        (Function::And | Function::Or | Function::ExclusiveOr, &[a, b]) => {
            line!(body; "{name}.b{bits} {result}, {a}, {b};")
        }
        (Function::Not, _) => line!(body; "not.b{bits} {result}, {a};"),
        (Function::ShiftLeft | Function::ShiftRight, &[a, b]) => {
            let instruction = match function {
                Function::ShiftLeft => format!("shl.b{bits}"),
                _ => format!("shr.{ordered}"),
            };
            let count = shift_count(body, dtype, b);
            line!(body; "{instruction} {result}, {a}, {count};");
        }
        (Function::Negate, _) => line!(body; "neg.s{bits} {result}, {a};"),
        (Function::Absolute, _) if dtype.is_unsigned() => return a,
        (Function::Absolute, _) => line!(body; "abs.s{bits} {result}, {a};"),
        (Function::Signum, _) if matches!(dtype, DType::U32 | DType::U64) => {
            line!(body; "min.{ordered} {result}, {a}, 1;");
        }
        (Function::Signum, _) => {
            let below = body.reg(class);
            line!(body; "min.s{bits} {below}, {a}, 1;");
            line!(body; "max.s{bits} {result}, {below}, -1;");
        }
        _ => unreachable!("integers have no {function:?}"),
    }
    body.narrowed(dtype, result)
}

/// Computes a shift count modulo the bits of the type, in 32 bits.
fn shift_count(body: &mut KernelBody, dtype: DType, count: Reg) -> Reg {
    let low = match count.class {
        RegClass::B64 => value!(body, B32; "cvt.u32.u64 {count}"),
        _ => count,
    };
    value!(body, B32; "and.b32 {low}, {}", dtype.bytes() * 8 - 1)
}

fn truth(body: &mut KernelBody, function: Function, values: &[Reg]) -> Reg {
    let name = function.name();
    match (function, values) {
        (Function::And | Function::Or | Function::ExclusiveOr, &[a, b]) => {
            value!(body, Predicate; "{name}.pred {a}, {b}")
        }
        (Function::Not, &[a]) => value!(body, Predicate; "not.pred {a}"),
        _ => unreachable!("booleans have no {function:?}"),
    }
}

pub(crate) fn compare(
    body: &mut KernelBody,
    comparison: Comparison,
    dtype: DType,
    a: Reg,
    b: Reg,
) -> Reg {
    let (kind, a, b) = (ordered_type(dtype), body.as_word(a), body.as_word(b));
    let name = match comparison {
        Comparison::Less => "lt",
        Comparison::LessOrEqual => "le",
        Comparison::Greater => "gt",
        Comparison::GreaterOrEqual => "ge",
        Comparison::Equal => "eq",
        Comparison::NotEqual if dtype.is_wide_float() => "neu",
        Comparison::NotEqual => "ne",
    };
    test!(body; "{name}.{kind} {a}, {b}")
}

/// Selects between two values of any register class.
pub(crate) fn select(body: &mut KernelBody, dtype: DType, which: Reg, a: Reg, b: Reg) -> Reg {
    if dtype == DType::Bool {
        let (a, b) = (body.as_word(a), body.as_word(b));
        let word = value!(body, B32; "selp.b32 {a}, {b}, {which}");
        return body.is_not_zero(word);
    }
    let class = RegClass::of(dtype);
    value!(body, of class; "selp.{} {a}, {b}, {which}", class.move_type())
}
