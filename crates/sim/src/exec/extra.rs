//! Rare operations on 32-bit registers, executed lane by lane.

use super::float8;
use super::registers::Registers;
use super::video;
use crate::ptx::ir::{Extra, Slot};

/// Executes the operation on all lanes of `mask`.
#[cold]
pub(super) fn run(r: &mut Registers, mask: u32, f: Extra, d: Slot, abc: [Slot; 3]) {
    r.map3(mask, d, abc, |a: u32, b: u32, c: u32| match f {
        Extra::Extend { signed, wrap } => extend(a, b, signed, wrap),
        Extra::BitMask { wrap } => bit_mask(a, b, wrap),
        Extra::FindNth => find_nth(a, b, c.cast_signed()),
        Extra::Packed(how) => video::packed(how, a, b, c),
        Extra::Video(how) => video::scalar(how, a, b, c),
        Extra::PackSaturated { bits, signed } => pack_saturated(bits, signed, [a, b, c]),
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

/// Returns the position of the `n`-th set bit from `base` upwards, or of the `-n`-th downwards; for
/// 0, `base` itself if that bit is set. Returns `u32::MAX` if there is none.
fn find_nth(mask: u32, base: u32, n: i32) -> u32 {
    let base = base & 31;
    let is_one = |at: &u32| mask >> at & 1 == 1;
    let nth = n.unsigned_abs().saturating_sub(1) as usize;
    let position = match n {
        0 => Some(base).filter(is_one),
        1.. => (base..32).filter(is_one).nth(nth),
        _ => (0..=base).rev().filter(is_one).nth(nth),
    };
    position.unwrap_or(u32::MAX)
}

/// Packs `a` over `b`, both saturated to `bits` bits, below `c` shifted left by twice `bits`.
fn pack_saturated(bits: u8, signed: bool, [a, b, c]: [u32; 3]) -> u32 {
    let (low, high) = if signed {
        (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
    } else {
        (0, (1i64 << bits) - 1)
    };
    let ones = (1u64 << bits) - 1;
    let field = |value: u32| {
        i64::from(value.cast_signed())
            .clamp(low, high)
            .cast_unsigned()
            & ones
    };
    (u64::from(c) << (2 * bits) | field(a) << bits | field(b)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn saturated_fields_lie_below_the_third_operand() {
        let minus = |value: i32| value.cast_unsigned();
        assert_eq!(
            pack_saturated(16, false, [70_000, minus(-5), 9]),
            0xffff_0000
        );
        assert_eq!(
            pack_saturated(16, true, [40_000, minus(-40_000), 9]),
            0x7fff_8000
        );
        assert_eq!(
            pack_saturated(8, true, [127, minus(-1), 0xabcd]),
            0xabcd_7fff
        );
        assert_eq!(pack_saturated(8, false, [300, 7, 0x1_0002]), 0x0002_ff07);
        assert_eq!(pack_saturated(4, true, [9, minus(-9), 3]), 0x378);
        assert_eq!(pack_saturated(2, false, [5, 1, 1]), 0b1_1101);
    }
}
