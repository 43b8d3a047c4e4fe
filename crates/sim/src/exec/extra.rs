//! Rare operations on 32-bit registers, lane by lane.

use super::float8;
use super::registers::Registers;
use crate::ptx::code::{Extra, Packed, PackedOp, Slot};
use crate::ptx::types::Type;

/// Runs the operation on all lanes of `mask`.
#[cold]
pub(super) fn run(r: &mut Registers, mask: u32, f: Extra, d: Slot, abc: [Slot; 3]) {
    r.w_www(mask, d, abc, |a, b, c| match f {
        Extra::Extend { signed, wrap } => extend(a, b, signed, wrap),
        Extra::BitMask { wrap } => bit_mask(a, b, wrap),
        Extra::FindNth => find_nth(a, b, c.cast_signed()),
        Extra::Packed(how) => packed(how, a, b, c),
        Extra::ToFloat8 { format, relu } => float8::pair_of_singles(format, relu, a, b),
        Extra::HalvesToFloat8 { format, relu } => float8::pair_of_halves(format, relu, a),
        Extra::FromFloat8 { format, relu } => float8::to_halves(format, relu, a),
        Extra::ToTensorFloat { round, relu } => float8::tensor(round, relu, a),
    });
}

fn extend(a: u32, bits: u32, signed: bool, wrap: bool) -> u32 {
    let bits = if wrap { bits & 31 } else { bits.min(32) };
    if bits == 0 {
        return 0;
    }
    let unused = 32 - bits;
    if signed {
        ((a << unused).cast_signed() >> unused).cast_unsigned()
    } else {
        a << unused >> unused
    }
}

fn bit_mask(start: u32, count: u32, wrap: bool) -> u32 {
    let (start, count) = if wrap {
        (start & 31, count & 31)
    } else {
        (start.min(32), count.min(32))
    };
    let ones = (1u64 << count) - 1;
    (ones << start) as u32
}

/// The place of the `n`-th one from `base` upwards, or of the `-n`-th downwards; for 0, `base` itself if that is one.
fn find_nth(mask: u32, base: u32, n: i32) -> u32 {
    let base = base & 31;
    let is_one = |at: &u32| mask >> at & 1 == 1;
    let nth = n.unsigned_abs().saturating_sub(1) as usize;
    let found = match n {
        0 => Some(base).filter(is_one),
        1.. => (base..32).filter(is_one).nth(nth),
        _ => (0..=base).rev().filter(is_one).nth(nth),
    };
    found.unwrap_or(u32::MAX)
}

/// Part `index` of a register, extended.
fn part(value: u32, index: u8, bits: u32, ty: Type) -> i64 {
    let unused = 32 - bits;
    let high = value >> (u32::from(index) * bits) << unused;
    if ty.is_signed() {
        i64::from(high.cast_signed() >> unused)
    } else {
        i64::from(high >> unused)
    }
}

fn packed(how: Packed, a: u32, b: u32, c: u32) -> u32 {
    let bits = 32 / u32::from(how.parts);
    let mut result = if how.accumulate { c } else { 0 };
    for index in 0..how.parts {
        let (x, y) = (part(a, index, bits, how.a), part(b, index, bits, how.b));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn how(f: PackedOp, parts: u8, ty: Type) -> Packed {
        Packed {
            f,
            parts,
            d: ty,
            a: ty,
            b: ty,
            saturate: false,
            accumulate: false,
            relu: false,
        }
    }

    #[test]
    fn masks_and_extensions() {
        assert_eq!(extend(0xff, 8, true, false), u32::MAX);
        assert_eq!(extend(0xff, 8, false, false), 0xff);
        assert_eq!(extend(0x1ff, 33, true, false), 0x1ff);
        assert_eq!(extend(0x3, 33, true, true), u32::MAX);
        assert_eq!(extend(5, 0, true, false), 0);
        assert_eq!(bit_mask(4, 3, false), 0x70);
        assert_eq!(bit_mask(0, 32, false), u32::MAX);
        assert_eq!(bit_mask(32, 1, false), 0);
        assert_eq!(bit_mask(33, 33, true), 2);
        assert_eq!(find_nth(0b1011_0000, 0, 2), 5);
        assert_eq!(find_nth(0b1011_0000, 7, -2), 5);
        assert_eq!(find_nth(0b1011_0000, 4, 0), 4);
        assert_eq!(find_nth(0b1011_0000, 6, 0), u32::MAX);
        assert_eq!(find_nth(0b1011_0000, 5, 3), u32::MAX);
    }

    #[test]
    fn parts_of_registers() {
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
            packed(how(PackedOp::Average, 4, Type::U32), 0x0102_fe00, 0x0201_ff00, 0),
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
