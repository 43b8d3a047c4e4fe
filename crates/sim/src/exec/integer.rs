//! Integer arithmetic, logic and comparisons, with the results that a GPU defines for every input.

use super::bits::{dot2, dot4, extract};
use super::registers::Registers;
use crate::ptx::ir::{
    Bin32, Bin64, Carry, Compare, Join, Narrow, PredOp, Shift64, Slot, Tri32, Tri64, Un32, Un64,
    Widen,
};

#[inline(always)]
pub(super) fn un32(r: &mut Registers, mask: u32, f: Un32, d: Slot, a: Slot) {
    match f {
        Un32::Move => r.w_w(mask, d, a, |a| a),
        Un32::Neg => r.w_w(mask, d, a, u32::wrapping_neg),
        Un32::Abs => r.w_w(mask, d, a, |a| {
            a.cast_signed().wrapping_abs().cast_unsigned()
        }),
        Un32::Not => r.w_w(mask, d, a, |a| !a),
        Un32::Cnot => r.w_w(mask, d, a, |a| u32::from(a == 0)),
        Un32::Popc => r.w_w(mask, d, a, u32::count_ones),
        Un32::Clz => r.w_w(mask, d, a, u32::leading_zeros),
        Un32::Brev => r.w_w(mask, d, a, u32::reverse_bits),
        Un32::FindU => r.w_w(mask, d, a, |a| find(u64::from(a))),
        Un32::FindS => r.w_w(mask, d, a, |a| {
            find(u64::from(a ^ (a.cast_signed() >> 31).cast_unsigned()))
        }),
        Un32::FindShiftU => r.w_w(mask, d, a, |a| shift_amount(find(u64::from(a)), 31)),
        Un32::FindShiftS => {
            r.w_w(mask, d, a, |a| {
                shift_amount(
                    find(u64::from(a ^ (a.cast_signed() >> 31).cast_unsigned())),
                    31,
                )
            });
        }
        Un32::Zext8 => r.w_w(mask, d, a, |a| a & 0xff),
        Un32::Sext8 => r.w_w(mask, d, a, |a| i32::from(a as i8).cast_unsigned()),
        Un32::Zext16 => r.w_w(mask, d, a, |a| a & 0xffff),
        Un32::Sext16 => r.w_w(mask, d, a, |a| i32::from(a as i16).cast_unsigned()),
        Un32::High16 => r.w_w(mask, d, a, |a| a >> 16),
        Un32::S32ToF32 => r.w_w(mask, d, a, |a| (a.cast_signed() as f32).to_bits()),
        Un32::U32ToF32 => r.w_w(mask, d, a, |a| (a as f32).to_bits()),
        Un32::F32ToS32 => r.w_w(mask, d, a, |a| (f32::from_bits(a) as i32).cast_unsigned()),
        Un32::F32ToU32 => r.w_w(mask, d, a, |a| f32::from_bits(a) as u32),
    }
}

/// Returns the position of the highest set bit, or all ones if no bit is set.
#[inline(always)]
fn find(a: u64) -> u32 {
    63u32.wrapping_sub(a.leading_zeros())
}

/// Returns the left shift that moves the bit found by `find` to the top, or all ones if none was
/// found.
#[inline(always)]
fn shift_amount(position: u32, top: u32) -> u32 {
    if position == u32::MAX {
        u32::MAX
    } else {
        top - position
    }
}

#[inline(always)]
pub(super) fn bin32(r: &mut Registers, mask: u32, f: Bin32, d: Slot, a: Slot, b: Slot) {
    match f {
        Bin32::Add => r.w_ww(mask, d, a, b, u32::wrapping_add),
        Bin32::Sub => r.w_ww(mask, d, a, b, u32::wrapping_sub),
        Bin32::Mul => r.w_ww(mask, d, a, b, u32::wrapping_mul),
        Bin32::MulHighS => r.w_ww(mask, d, a, b, mul_high_s32),
        Bin32::MulHighU => r.w_ww(mask, d, a, b, mul_high_u32),
        // Division by zero returns all ones, and so does its remainder.
        Bin32::DivS => r.w_ww(mask, d, a, b, |a, b| match b {
            0 => u32::MAX,
            _ => a
                .cast_signed()
                .wrapping_div(b.cast_signed())
                .cast_unsigned(),
        }),
        Bin32::DivU => r.w_ww(mask, d, a, b, |a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        Bin32::RemS => r.w_ww(mask, d, a, b, |a, b| match b {
            0 => !0,
            _ => a
                .cast_signed()
                .wrapping_rem(b.cast_signed())
                .cast_unsigned(),
        }),
        Bin32::RemU => r.w_ww(mask, d, a, b, |a, b| a.checked_rem(b).unwrap_or(!0)),
        Bin32::MinS => r.w_ww(mask, d, a, b, |a, b| {
            a.cast_signed().min(b.cast_signed()).cast_unsigned()
        }),
        Bin32::MinU => r.w_ww(mask, d, a, b, u32::min),
        Bin32::MaxS => r.w_ww(mask, d, a, b, |a, b| {
            a.cast_signed().max(b.cast_signed()).cast_unsigned()
        }),
        Bin32::MaxU => r.w_ww(mask, d, a, b, u32::max),
        Bin32::And => r.w_ww(mask, d, a, b, |a, b| a & b),
        Bin32::Or => r.w_ww(mask, d, a, b, |a, b| a | b),
        Bin32::Xor => r.w_ww(mask, d, a, b, |a, b| a ^ b),
        Bin32::Shl => r.w_ww(mask, d, a, b, shl32),
        Bin32::ShrS => r.w_ww(mask, d, a, b, |a, b| {
            (a.cast_signed() >> b.min(31)).cast_unsigned()
        }),
        Bin32::ShrU => r.w_ww(mask, d, a, b, shr32),
        Bin32::AddSat => {
            r.w_ww(mask, d, a, b, |a, b| {
                a.cast_signed()
                    .saturating_add(b.cast_signed())
                    .cast_unsigned()
            });
        }
        Bin32::SubSat => {
            r.w_ww(mask, d, a, b, |a, b| {
                a.cast_signed()
                    .saturating_sub(b.cast_signed())
                    .cast_unsigned()
            });
        }
        Bin32::CopySign => r.w_ww(mask, d, a, b, |a, b| (a & 0x8000_0000) | (b & 0x7fff_ffff)),
        Bin32::Pack16 => r.w_ww(mask, d, a, b, |a, b| (a & 0xffff) | (b << 16)),
    }
}

#[inline(always)]
fn mul_high_s32(a: u32, b: u32) -> u32 {
    ((i64::from(a.cast_signed()) * i64::from(b.cast_signed())) >> 32) as u32
}

#[inline(always)]
fn mul_high_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

#[inline(always)]
fn shl32(a: u32, b: u32) -> u32 {
    if b > 31 { 0 } else { a << (b & 31) }
}

#[inline(always)]
fn shr32(a: u32, b: u32) -> u32 {
    if b > 31 { 0 } else { a >> (b & 31) }
}

#[inline(always)]
pub(super) fn tri32(r: &mut Registers, mask: u32, f: Tri32, d: Slot, abc: [Slot; 3]) {
    match f {
        Tri32::Mad => r.w_www(mask, d, abc, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Tri32::MadHighS => r.w_www(mask, d, abc, |a, b, c| mul_high_s32(a, b).wrapping_add(c)),
        Tri32::MadHighU => r.w_www(mask, d, abc, |a, b, c| mul_high_u32(a, b).wrapping_add(c)),
        Tri32::SadS => {
            r.w_www(mask, d, abc, |a, b, c| {
                c.wrapping_add(a.cast_signed().abs_diff(b.cast_signed()))
            });
        }
        Tri32::SadU => r.w_www(mask, d, abc, |a, b, c| c.wrapping_add(a.abs_diff(b))),
        Tri32::BfeS => r.w_www(mask, d, abc, |a, b, c| {
            extract(
                i64::from(a.cast_signed()).cast_unsigned(),
                b & 0xff,
                c & 0xff,
                32,
                true,
            ) as u32
        }),
        Tri32::BfeU => r.w_www(mask, d, abc, |a, b, c| {
            extract(u64::from(a), b & 0xff, c & 0xff, 32, false) as u32
        }),
        Tri32::ShiftLeftClamp => r.w_www(mask, d, abc, |a, b, c| {
            (join(a, b) << c.min(32) >> 32) as u32
        }),
        Tri32::ShiftLeftWrap => r.w_www(mask, d, abc, |a, b, c| {
            (join(a, b) << (c & 31) >> 32) as u32
        }),
        Tri32::ShiftRightClamp => r.w_www(mask, d, abc, |a, b, c| (join(a, b) >> c.min(32)) as u32),
        Tri32::ShiftRightWrap => r.w_www(mask, d, abc, |a, b, c| (join(a, b) >> (c & 31)) as u32),
        Tri32::Dp4aUU => r.w_www(mask, d, abc, |a, b, c| dot4(a, b, c, false, false)),
        Tri32::Dp4aUS => r.w_www(mask, d, abc, |a, b, c| dot4(a, b, c, false, true)),
        Tri32::Dp4aSU => r.w_www(mask, d, abc, |a, b, c| dot4(a, b, c, true, false)),
        Tri32::Dp4aSS => r.w_www(mask, d, abc, |a, b, c| dot4(a, b, c, true, true)),
        Tri32::Dp2aLoUU => r.w_www(mask, d, abc, |a, b, c| dot2(a, b, c, false, false)),
        Tri32::Dp2aLoUS => r.w_www(mask, d, abc, |a, b, c| dot2(a, b, c, false, true)),
        Tri32::Dp2aLoSU => r.w_www(mask, d, abc, |a, b, c| dot2(a, b, c, true, false)),
        Tri32::Dp2aLoSS => r.w_www(mask, d, abc, |a, b, c| dot2(a, b, c, true, true)),
        Tri32::Dp2aHiUU => r.w_www(mask, d, abc, |a, b, c| dot2(a, b >> 16, c, false, false)),
        Tri32::Dp2aHiUS => r.w_www(mask, d, abc, |a, b, c| dot2(a, b >> 16, c, false, true)),
        Tri32::Dp2aHiSU => r.w_www(mask, d, abc, |a, b, c| dot2(a, b >> 16, c, true, false)),
        Tri32::Dp2aHiSS => r.w_www(mask, d, abc, |a, b, c| dot2(a, b >> 16, c, true, true)),
    }
}

/// Returns the 64-bit value with `b` as its high half and `a` as its low half.
#[inline(always)]
pub(super) fn join(a: u32, b: u32) -> u64 {
    u64::from(a) | (u64::from(b) << 32)
}

#[inline(always)]
pub(super) fn un64(r: &mut Registers, mask: u32, f: Un64, d: Slot, a: Slot) {
    match f {
        Un64::Move => r.d_d(mask, d, a, |a| a),
        Un64::Neg => r.d_d(mask, d, a, u64::wrapping_neg),
        Un64::Abs => r.d_d(mask, d, a, |a| {
            a.cast_signed().wrapping_abs().cast_unsigned()
        }),
        Un64::Not => r.d_d(mask, d, a, |a| !a),
        Un64::Cnot => r.d_d(mask, d, a, |a| u64::from(a == 0)),
        Un64::Brev => r.d_d(mask, d, a, u64::reverse_bits),
    }
}

#[inline(always)]
pub(super) fn bin64(r: &mut Registers, mask: u32, f: Bin64, d: Slot, a: Slot, b: Slot) {
    match f {
        Bin64::Add => r.d_dd(mask, d, a, b, u64::wrapping_add),
        Bin64::Sub => r.d_dd(mask, d, a, b, u64::wrapping_sub),
        Bin64::Mul => r.d_dd(mask, d, a, b, u64::wrapping_mul),
        Bin64::MulHighS => r.d_dd(mask, d, a, b, mul_high_s64),
        Bin64::MulHighU => r.d_dd(mask, d, a, b, mul_high_u64),
        Bin64::DivS => r.d_dd(mask, d, a, b, |a, b| match b {
            0 => u64::MAX,
            _ => a
                .cast_signed()
                .wrapping_div(b.cast_signed())
                .cast_unsigned(),
        }),
        Bin64::DivU => r.d_dd(mask, d, a, b, |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
        Bin64::RemS => r.d_dd(mask, d, a, b, |a, b| match b {
            0 => !0,
            _ => a
                .cast_signed()
                .wrapping_rem(b.cast_signed())
                .cast_unsigned(),
        }),
        Bin64::RemU => r.d_dd(mask, d, a, b, |a, b| a.checked_rem(b).unwrap_or(!0)),
        Bin64::MinS => r.d_dd(mask, d, a, b, |a, b| {
            a.cast_signed().min(b.cast_signed()).cast_unsigned()
        }),
        Bin64::MinU => r.d_dd(mask, d, a, b, u64::min),
        Bin64::MaxS => r.d_dd(mask, d, a, b, |a, b| {
            a.cast_signed().max(b.cast_signed()).cast_unsigned()
        }),
        Bin64::MaxU => r.d_dd(mask, d, a, b, u64::max),
        Bin64::And => r.d_dd(mask, d, a, b, |a, b| a & b),
        Bin64::Or => r.d_dd(mask, d, a, b, |a, b| a | b),
        Bin64::Xor => r.d_dd(mask, d, a, b, |a, b| a ^ b),
        Bin64::CopySign => r.d_dd(mask, d, a, b, |a, b| (a & (1 << 63)) | (b & !(1 << 63))),
    }
}

#[inline(always)]
fn mul_high_s64(a: u64, b: u64) -> u64 {
    ((i128::from(a.cast_signed()) * i128::from(b.cast_signed())) >> 64) as u64
}

#[inline(always)]
fn mul_high_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

#[inline(always)]
pub(super) fn tri64(r: &mut Registers, mask: u32, f: Tri64, d: Slot, abc: [Slot; 3]) {
    match f {
        Tri64::Mad => r.d_ddd(mask, d, abc, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Tri64::MadHighS => r.d_ddd(mask, d, abc, |a, b, c| mul_high_s64(a, b).wrapping_add(c)),
        Tri64::MadHighU => r.d_ddd(mask, d, abc, |a, b, c| mul_high_u64(a, b).wrapping_add(c)),
        Tri64::SadS => {
            r.d_ddd(mask, d, abc, |a, b, c| {
                c.wrapping_add(a.cast_signed().abs_diff(b.cast_signed()))
            });
        }
        Tri64::SadU => r.d_ddd(mask, d, abc, |a, b, c| c.wrapping_add(a.abs_diff(b))),
    }
}

#[inline(always)]
pub(super) fn shift64(r: &mut Registers, mask: u32, f: Shift64, d: Slot, a: Slot, b: Slot) {
    match f {
        Shift64::Shl => r.d_dw(mask, d, a, b, |a, b| if b > 63 { 0 } else { a << (b & 63) }),
        Shift64::ShrU => r.d_dw(mask, d, a, b, |a, b| if b > 63 { 0 } else { a >> (b & 63) }),
        Shift64::ShrS => r.d_dw(mask, d, a, b, |a, b| {
            (a.cast_signed() >> b.min(63)).cast_unsigned()
        }),
    }
}

#[inline(always)]
pub(super) fn widen(r: &mut Registers, mask: u32, f: Widen, d: Slot, a: Slot) {
    match f {
        Widen::Zext => r.d_w(mask, d, a, u64::from),
        Widen::Sext => r.d_w(mask, d, a, |a| i64::from(a.cast_signed()).cast_unsigned()),
        Widen::F32ToF64 => r.d_w(mask, d, a, |a| f64::from(f32::from_bits(a)).to_bits()),
        Widen::S32ToF64 => r.d_w(mask, d, a, |a| f64::from(a.cast_signed()).to_bits()),
        Widen::U32ToF64 => r.d_w(mask, d, a, |a| f64::from(a).to_bits()),
    }
}

#[inline(always)]
pub(super) fn narrow(r: &mut Registers, mask: u32, f: Narrow, d: Slot, a: Slot) {
    let flip = |a: u64| a ^ (a.cast_signed() >> 63).cast_unsigned();
    match f {
        Narrow::Low => r.w_d(mask, d, a, |a| a as u32),
        Narrow::High => r.w_d(mask, d, a, |a| (a >> 32) as u32),
        Narrow::Popc => r.w_d(mask, d, a, u64::count_ones),
        Narrow::Clz => r.w_d(mask, d, a, u64::leading_zeros),
        Narrow::FindU => r.w_d(mask, d, a, find),
        Narrow::FindS => r.w_d(mask, d, a, |a| find(flip(a))),
        Narrow::FindShiftU => r.w_d(mask, d, a, |a| shift_amount(find(a), 63)),
        Narrow::FindShiftS => r.w_d(mask, d, a, |a| shift_amount(find(flip(a)), 63)),
        Narrow::F64ToF32 => r.w_d(mask, d, a, |a| (f64::from_bits(a) as f32).to_bits()),
    }
}

#[inline(always)]
pub(super) fn join64(r: &mut Registers, mask: u32, f: Join, d: Slot, a: Slot, b: Slot) {
    match f {
        Join::MulS => r.d_ww(mask, d, a, b, |a, b| {
            (i64::from(a.cast_signed()) * i64::from(b.cast_signed())).cast_unsigned()
        }),
        Join::MulU => r.d_ww(mask, d, a, b, |a, b| u64::from(a) * u64::from(b)),
        Join::Pack => r.d_ww(mask, d, a, b, join),
    }
}

#[inline(always)]
pub(super) fn mad_wide(r: &mut Registers, mask: u32, signed: bool, d: Slot, [a, b, c]: [Slot; 3]) {
    let (a, b, c) = (r.word(a), r.word(b), r.double(c));
    let values = std::array::from_fn(|lane| {
        let product = if signed {
            (i64::from(a[lane].cast_signed()) * i64::from(b[lane].cast_signed())).cast_unsigned()
        } else {
            u64::from(a[lane]) * u64::from(b[lane])
        };
        product.wrapping_add(c[lane])
    });
    r.set_double(d, mask, &values);
}

#[inline(always)]
pub(super) fn carry32(r: &mut Registers, mask: u32, f: Carry, d: Slot, a: Slot, b: Slot) {
    let (a, b) = (r.word(a), r.word(b));
    let flags = f.read.map_or(f.unread(), |slot| r.predicate(slot));
    let mut values = [0; 32];
    let mut out = 0;
    for lane in 0..32 {
        let flag = u64::from(flags >> lane & 1);
        let b = if f.subtract { !b[lane] } else { b[lane] };
        let wide = u64::from(a[lane]) + u64::from(b) + flag;
        values[lane] = wide as u32;
        out |= u32::from(wide >> 32 != 0) << lane;
    }
    r.set_word(d, mask, &values);
    if let Some(slot) = f.write {
        r.set_predicate(slot, mask, out);
    }
}

#[inline(always)]
pub(super) fn carry64(r: &mut Registers, mask: u32, f: Carry, d: Slot, a: Slot, b: Slot) {
    let (a, b) = (r.double(a), r.double(b));
    let flags = f.read.map_or(f.unread(), |slot| r.predicate(slot));
    let mut values = [0; 32];
    let mut out = 0;
    for lane in 0..32 {
        let flag = u128::from(flags >> lane & 1);
        let b = if f.subtract { !b[lane] } else { b[lane] };
        let wide = u128::from(a[lane]) + u128::from(b) + flag;
        values[lane] = wide as u64;
        out |= u32::from(wide >> 64 != 0) << lane;
    }
    r.set_double(d, mask, &values);
    if let Some(slot) = f.write {
        r.set_predicate(slot, mask, out);
    }
}

#[inline(always)]
pub(super) fn cmp32(r: &mut Registers, mask: u32, f: Compare, d: Slot, a: Slot, b: Slot) {
    match f {
        Compare::Eq => r.p_ww(mask, d, a, b, |a, b| a == b),
        Compare::Ne => r.p_ww(mask, d, a, b, |a, b| a != b),
        Compare::LtS => r.p_ww(mask, d, a, b, |a, b| a.cast_signed() < b.cast_signed()),
        Compare::LeS => r.p_ww(mask, d, a, b, |a, b| a.cast_signed() <= b.cast_signed()),
        Compare::LtU => r.p_ww(mask, d, a, b, |a, b| a < b),
        Compare::LeU => r.p_ww(mask, d, a, b, |a, b| a <= b),
    }
}

#[inline(always)]
pub(super) fn cmp64(r: &mut Registers, mask: u32, f: Compare, d: Slot, a: Slot, b: Slot) {
    match f {
        Compare::Eq => r.p_dd(mask, d, a, b, |a, b| a == b),
        Compare::Ne => r.p_dd(mask, d, a, b, |a, b| a != b),
        Compare::LtS => r.p_dd(mask, d, a, b, |a, b| a.cast_signed() < b.cast_signed()),
        Compare::LeS => r.p_dd(mask, d, a, b, |a, b| a.cast_signed() <= b.cast_signed()),
        Compare::LtU => r.p_dd(mask, d, a, b, |a, b| a < b),
        Compare::LeU => r.p_dd(mask, d, a, b, |a, b| a <= b),
    }
}

#[inline(always)]
pub(super) fn pred(r: &mut Registers, mask: u32, f: PredOp, d: Slot, a: Slot, b: Slot) {
    let (a, b) = (r.predicate(a), r.predicate(b));
    let bits = match f {
        PredOp::Move => a,
        PredOp::Not => !a,
        PredOp::And => a & b,
        PredOp::Or => a | b,
        PredOp::Xor => a ^ b,
        PredOp::NotAnd => !a & b,
        PredOp::NotOr => !a | b,
        PredOp::NotXor => !a ^ b,
    };
    r.set_predicate(d, mask, bits);
}

#[inline(always)]
pub(super) fn select32(r: &mut Registers, mask: u32, d: Slot, a: Slot, b: Slot, p: Slot) {
    let (a, b, p) = (r.word(a), r.word(b), r.predicate(p));
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = if p & (1 << lane) != 0 {
            a[lane]
        } else {
            b[lane]
        };
    }
    r.set_word(d, mask, &values);
}

#[inline(always)]
pub(super) fn select64(r: &mut Registers, mask: u32, d: Slot, a: Slot, b: Slot, p: Slot) {
    let (a, b, p) = (r.double(a), r.double(b), r.predicate(p));
    let mut values = [0; 32];
    for lane in 0..32 {
        values[lane] = if p & (1 << lane) != 0 {
            a[lane]
        } else {
            b[lane]
        };
    }
    r.set_double(d, mask, &values);
}
