//! Bit fields (`bfe`, `bfi`), byte permutations (`prmt`), dot products (`dp4a`, `dp2a`) and
//! three-input logic (`lop3`).

use super::integer::join;
use super::registers::Registers;
use crate::ptx::ir::{Prmt, Slot};

/// Extracts the bit field of `length` bits at `position` of `a` (`bfe`).
///
/// The type of `a` has `bits` bits; the sign of a signed `a` is extended to all 64 bits. The 32-bit
/// instructions use the low 8 bits of position and length, the 64-bit ones use all bits.
#[inline(always)]
pub(super) fn extract(a: u64, position: u32, length: u32, bits: u32, signed: bool) -> u64 {
    if length == 0 {
        return 0;
    }
    let shifted = if signed {
        (a.cast_signed() >> position.min(63)).cast_unsigned()
    } else if position > 63 {
        0
    } else {
        a >> position
    };
    if length >= bits {
        return shifted;
    }
    let field = shifted & ((1 << length) - 1);
    // The sign is the field's top bit, or the value's top bit if the field extends beyond the
    // value.
    let sign_at = position.saturating_add(length - 1).min(bits - 1);
    if signed && (a >> sign_at) & 1 == 1 {
        field | (u64::MAX << length)
    } else {
        field
    }
}

/// Inserts the low `length` bits of `a` into `b` at `position` (`bfi`).
#[inline(always)]
pub(super) fn insert(a: u64, b: u64, position: u32, length: u32, bits: u32) -> u64 {
    if position >= bits || length == 0 {
        return b;
    }
    let field = if length >= 64 {
        u64::MAX
    } else {
        (1 << length) - 1
    };
    (b & !(field << position)) | ((a & field) << position)
}

#[inline(always)]
pub(super) fn bfe64(r: &mut Registers, mask: u32, signed: bool, d: Slot, abc: [Slot; 3]) {
    r.map3(mask, d, abc, |a, b, c| extract(a, b, c, 64, signed));
}

#[inline(always)]
pub(super) fn bfi32(r: &mut Registers, mask: u32, d: Slot, [a, b, position, length]: [Slot; 4]) {
    let (a, b, position, length) = (*r.word(a), *r.word(b), *r.word(position), *r.word(length));
    let values = std::array::from_fn(|lane| {
        let (position, length) = (position[lane] & 0xff, length[lane] & 0xff);
        insert(u64::from(a[lane]), u64::from(b[lane]), position, length, 32) as u32
    });
    r.set_word(d, mask, &values);
}

#[inline(always)]
pub(super) fn bfi64(r: &mut Registers, mask: u32, d: Slot, [a, b, position, length]: [Slot; 4]) {
    let (a, b, position, length) = (
        *r.double(a),
        *r.double(b),
        *r.word(position),
        *r.word(length),
    );
    let values =
        std::array::from_fn(|lane| insert(a[lane], b[lane], position[lane], length[lane], 64));
    r.set_double(d, mask, &values);
}

/// Applies a three-input logical function to all bits at once (`lop3`): its result for the bits a,
/// b, c is bit `4a + 2b + c` of `table`.
#[inline(always)]
pub(super) fn lop3(r: &mut Registers, mask: u32, table: u8, d: Slot, abc: [Slot; 3]) {
    let row = |index: u32| if table >> index & 1 == 1 { u32::MAX } else { 0 };
    let rows: [u32; 8] = std::array::from_fn(|index| row(index as u32));
    r.map3(mask, d, abc, |a: u32, b: u32, c: u32| {
        let choose = |bits: u32, one: u32, zero: u32| (bits & one) | (!bits & zero);
        let low = choose(b, choose(c, rows[3], rows[2]), choose(c, rows[1], rows[0]));
        let high = choose(b, choose(c, rows[7], rows[6]), choose(c, rows[5], rows[4]));
        choose(a, high, low)
    });
}

#[inline(always)]
pub(super) fn prmt(r: &mut Registers, mask: u32, mode: Prmt, d: Slot, abc: [Slot; 3]) {
    r.map3(mask, d, abc, |a: u32, b: u32, c: u32| {
        let bytes = join(a, b).to_le_bytes();
        let at = c & 3;
        let picks: [u32; 4] = std::array::from_fn(|index| {
            let index = index as u32;
            match mode {
                Prmt::Index => c >> (4 * index) & 0xf,
                Prmt::Forward4 => at + index,
                Prmt::Backward4 => at.wrapping_sub(index) & 7,
                Prmt::Replicate8 => at,
                Prmt::EdgeClampLeft => index.max(at),
                Prmt::EdgeClampRight => index.min(at),
                Prmt::Replicate16 => (c & 1) * 2 + (index & 1),
            }
        });
        // In index mode, the top bit of a selector replicates the sign of the selected byte.
        u32::from_le_bytes(picks.map(|pick| {
            let byte = bytes[(pick & 7) as usize];
            if pick & 8 == 0 {
                byte
            } else {
                (byte.cast_signed() >> 7).cast_unsigned()
            }
        }))
    });
}

/// Returns byte `index` of `a`, sign- or zero-extended.
#[inline(always)]
fn byte(a: u32, index: u32, signed: bool) -> i32 {
    let byte = (a >> (8 * index)) as u8;
    if signed {
        i32::from(byte.cast_signed())
    } else {
        i32::from(byte)
    }
}

#[inline(always)]
pub(super) fn dot4(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    (0..4).fold(c, |sum, index| {
        sum.wrapping_add((byte(a, index, a_signed) * byte(b, index, b_signed)).cast_unsigned())
    })
}

#[inline(always)]
pub(super) fn dot2(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    (0..2).fold(c, |sum, index| {
        let half = (a >> (16 * index)) as u16;
        let half = if a_signed {
            i32::from(half.cast_signed())
        } else {
            i32::from(half)
        };
        sum.wrapping_add(half.wrapping_mul(byte(b, index, b_signed)).cast_unsigned())
    })
}
