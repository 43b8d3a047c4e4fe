//! The video instructions (`vadd`, `vadd2`, `vadd4` and so on), executed per lane.

use crate::ptx::ir::{Packed, PackedOp, RegisterPart, SecondaryOp, Video, VideoOp, VideoShift};
use millstream_ptx::Type;

/// Extracts `bits` bits of a register from bit `from`, sign- or zero-extended by the type.
fn field(value: u32, from: u32, bits: u32, ty: Type) -> i64 {
    let unused = 32 - bits;
    let high = value >> from << unused;
    if ty.is_signed() {
        i64::from(high.cast_signed() >> unused)
    } else {
        i64::from(high >> unused)
    }
}

/// Executes an operation on the two or four parts of registers.
pub(super) fn packed(how: Packed, a: u32, b: u32, c: u32) -> u32 {
    let bits = 32 / u32::from(how.parts);
    let mut result = if how.accumulate { c } else { 0 };
    for index in 0..how.parts {
        let at = usize::from(index);
        if how.mask >> index & 1 == 0 {
            if !how.accumulate {
                let ones = u32::MAX >> (32 - bits) << (u32::from(index) * bits);
                result |= c & ones;
            }
            continue;
        }
        let part = |number: u8, ty| {
            let (register, index) = if number < how.parts {
                (a, number)
            } else {
                (b, number - how.parts)
            };
            field(register, u32::from(index) * bits, bits, ty)
        };
        let (x, y) = (part(how.a_parts[at], how.a), part(how.b_parts[at], how.b));
        let value = match how.f {
            PackedOp::Add => x + y,
            PackedOp::Sub => x - y,
            PackedOp::Average => (x + y + i64::from(x + y >= 0)) >> 1,
            PackedOp::Difference => (x - y).abs(),
            PackedOp::Min => x.min(y),
            PackedOp::Max => x.max(y),
            PackedOp::Set(relation) => i64::from(relation >> (x.cmp(&y) as i8 + 1) & 1),
        };
        let value = if how.relu { value.max(0) } else { value };
        if how.accumulate {
            result = result.wrapping_add(value as u32);
            continue;
        }
        let value = if how.saturate {
            let (low, high) = if how.d.is_signed() {
                (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            } else {
                (0, (1 << bits) - 1)
            };
            value.clamp(low, high)
        } else {
            value
        };
        let ones = u32::MAX >> (32 - bits);
        result |= (value as u32 & ones) << (u32::from(index) * bits);
    }
    result
}

/// Executes an operation on one part of each register.
pub(super) fn scalar(how: Video, a: u32, b: u32, c: u32) -> u32 {
    let [d_type, a_type, b_type] = how.types;
    let x = i128::from(part(a, how.a_part, a_type));
    let y = i128::from(part(b, how.b_part, b_type));
    if let VideoOp::MultiplyAdd {
        negate,
        subtract,
        one,
        scale,
    } = how.f
    {
        let signed = a_type.is_signed() || b_type.is_signed() || negate || subtract;
        let ty = if signed { Type::S32 } else { Type::U32 };
        let added = i128::from(part(c, RegisterPart::Whole, ty));
        let product = if negate { -(x * y) } else { x * y };
        let added = if subtract { -added } else { added };
        let value = (product + added + i128::from(one)) >> scale;
        let value = if how.saturate {
            clamp(value, 32, ty)
        } else {
            value
        };
        return value as u32;
    }
    let value = match how.f {
        VideoOp::Add => x + y,
        VideoOp::Sub => x - y,
        VideoOp::Difference => (x - y).abs(),
        VideoOp::Min => x.min(y),
        VideoOp::Max => x.max(y),
        VideoOp::Shift(VideoShift { left, wrap }) => {
            let by = part(b, how.b_part, Type::U32);
            let by = if wrap { by & 31 } else { by.min(32) };
            if left { x << by } else { x >> by }
        }
        VideoOp::Set(relation) => i128::from(relation >> (x.cmp(&y) as i8 + 1) & 1),
        VideoOp::MultiplyAdd { .. } => 0,
    };
    let (bits, at) = match how.d_part {
        RegisterPart::Whole => (32, 0),
        RegisterPart::Half(index) => (16, 16 * u32::from(index)),
        RegisterPart::Byte(index) => (8, 8 * u32::from(index)),
    };
    let value = if how.saturate {
        clamp(value, bits, d_type)
    } else {
        value
    };
    let third = i128::from(part(c, RegisterPart::Whole, d_type));
    let value = match how.second {
        None => value,
        Some(SecondaryOp::Add) => value + third,
        Some(SecondaryOp::Min) => value.min(third),
        Some(SecondaryOp::Max) => value.max(third),
    };
    let ones = u32::MAX >> (32 - bits);
    let rest = if bits < 32 { c & !(ones << at) } else { 0 };
    (value as u32 & ones) << at | rest
}

fn part(value: u32, part: RegisterPart, ty: Type) -> i64 {
    match part {
        RegisterPart::Whole => field(value, 0, 32, ty),
        RegisterPart::Byte(index) => field(value, 8 * u32::from(index), 8, ty),
        RegisterPart::Half(index) => field(value, 16 * u32::from(index), 16, ty),
    }
}

/// Clamps a value to the range of an integer type of `bits` bits.
fn clamp(value: i128, bits: u32, ty: Type) -> i128 {
    if ty.is_signed() {
        value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(f: PackedOp, parts: u8, ty: Type) -> Packed {
        Packed::new(f, parts, [ty; 3])
    }

    #[test]
    fn packed_operations_compute_each_part() {
        let add = how(PackedOp::Add, 4, Type::U32);
        assert_eq!(packed(add, 0x01ff_8002, 0x0101_8003, 0), 0x0200_0005);
        let saturating = Packed {
            saturate: true,
            ..add
        };
        assert_eq!(packed(saturating, 0x01ff_8002, 0x0101_8003, 0), 0x02ff_ff05);
        let signed = Packed {
            saturate: true,
            ..how(PackedOp::Sub, 2, Type::S32)
        };
        assert_eq!(packed(signed, 0x8000_0005, 0x0001_0007, 0), 0x8000_fffe);
        let sum = Packed {
            accumulate: true,
            ..how(PackedOp::Difference, 4, Type::U32)
        };
        assert_eq!(packed(sum, 0x0105_0003, 0x0300_0103, 100), 100 + 2 + 5 + 1);
        assert_eq!(
            packed(
                how(PackedOp::Average, 4, Type::U32),
                0x0102_fe00,
                0x0201_ff00,
                0
            ),
            0x0202_ff00
        );
        assert_eq!(
            packed(
                how(PackedOp::Set(0b101), 4, Type::U32),
                0x0102_0304,
                0x0100_0305,
                0
            ),
            0x0001_0001
        );
        let relu = Packed {
            relu: true,
            ..how(PackedOp::Max, 2, Type::S16)
        };
        assert_eq!(packed(relu, 0xffff_0003, 0xfffe_0002, 0), 0x0000_0003);
    }
}
