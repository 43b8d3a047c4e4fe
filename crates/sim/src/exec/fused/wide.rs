//! Vector code of the operations on 64-bit integers, and between 32 and 64 bits. A 64-bit value has
//! two registers of four lanes.

use super::assembler::{
    ADD_Q, AND, BLEND_PS, EQUAL_Q, GREATER_Q, INSERT_HALF, MUL_SDQ, MUL_UDQ, OR, PD_TO_PS,
    PERMUTE_HALVES, SHIFT_Q, SHL_Q, SHR_Q, SIGN_EXTEND, SUB_Q, UNPACK_HIGH, UNPACK_LOW, XOR,
    ZERO_EXTEND,
};
use super::float;
use super::values::{LEFT, RIGHT, SCRATCH, Values};
use crate::ptx::ir::{Bin, Compare, Join, Narrow, Op, Shift, Slot, Un, Widen};

const S: u8 = SCRATCH[0];
const T: u8 = SCRATCH[1];

/// Emits an operation: see [`emit`](super::emit).
pub(super) fn operation(v: &mut Values<'_>, op: Op) -> Option<()> {
    match op {
        Op::Un64 { f, d, a } => un64(v, f, d, a),
        Op::Bin64 { f, d, a, b } => bin64(v, f, d, a, b),
        Op::Shift64 { f, d, a, b } => shift64(v, f, d, a, b),
        Op::Widen { f, d, a } => widen(v, f, d, a),
        Op::Narrow { f, d, a } => narrow(v, f, d, a),
        Op::Join { f, d, a, b } => join(v, f, d, a, b),
        Op::MadWide { signed, d, a, b, c } => {
            let (a, b, c) = (v.word(a), v.word(b), v.double(c));
            let r = v.register_pair();
            multiply_wide(v, signed, r, a, b);
            for half in 0..2 {
                v.vector(ADD_Q, r[half], r[half], c[half]);
            }
            v.set_double(d, r)
        }
        Op::Cmp64 { f, d, a, b } => cmp64(v, f, d, a, b),
        Op::Select64 { d, a, b, p } => {
            let (a, b, p) = (v.double(a), v.double(b), v.predicate(p));
            let r = v.register_pair();
            v.widen_mask(p);
            for half in 0..2 {
                v.vector_with(BLEND_PS, r[half], b[half], a[half], SCRATCH[half] << 4);
            }
            v.set_double(d, r)
        }
        op => float::operation(v, op),
    }
}

fn un64(v: &mut Values<'_>, f: Un, d: Slot, a: Slot) -> Option<()> {
    if !matches!(f, Un::Move | Un::Neg | Un::Not) {
        return None;
    }
    let a = v.double(a);
    let r = v.register_pair();
    for half in 0..2 {
        match f {
            Un::Neg => {
                v.vector(XOR, S, S, S);
                v.vector(SUB_Q, r[half], S, a[half]);
            }
            Un::Not => {
                v.copy(r[half], a[half]);
                v.invert(r[half]);
            }
            _ => v.copy(r[half], a[half]),
        }
    }
    v.set_double(d, r)
}

fn bin64(v: &mut Values<'_>, f: Bin, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let op = match f {
        Bin::Add => ADD_Q,
        Bin::Sub => SUB_Q,
        Bin::And => AND,
        Bin::Or => OR,
        Bin::Xor => XOR,
        Bin::Mul => MUL_UDQ,
        _ => return None,
    };
    let (a, b) = (v.double(a), v.double(b));
    let r = v.register_pair();
    for half in 0..2 {
        let (r, a, b) = (r[half], a[half], b[half]);
        v.vector(op, r, a, b);
        if f == Bin::Mul {
            // The products of a low and a high half count in the upper half.
            v.shift(SHIFT_Q, RIGHT, S, a, 32);
            v.vector(MUL_UDQ, S, S, b);
            v.shift(SHIFT_Q, RIGHT, T, b, 32);
            v.vector(MUL_UDQ, T, T, a);
            v.vector(ADD_Q, S, S, T);
            v.shift(SHIFT_Q, LEFT, S, S, 32);
            v.vector(ADD_Q, r, r, S);
        }
    }
    v.set_double(d, r)
}

fn shift64(v: &mut Values<'_>, f: Shift, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let (a, b) = (v.double(a), v.word(b));
    let r = v.register_pair();
    for half in 0..2 {
        let (r, a) = (r[half], a[half]);
        if half == 0 {
            v.vector(ZERO_EXTEND, S, 0, b);
        } else {
            v.extend_upper(ZERO_EXTEND, S, b);
        }
        match f {
            Shift::Shl => v.vector(SHL_Q, r, a, S),
            Shift::ShrU => v.vector(SHR_Q, r, a, S),
            Shift::ShrS => {
                // Shifts the complement of a negative value.
                v.vector(XOR, T, T, T);
                v.vector(GREATER_Q, T, T, a);
                v.vector(XOR, r, a, T);
                v.vector(SHR_Q, r, r, S);
                v.vector(XOR, r, r, T);
            }
        }
    }
    v.set_double(d, r)
}

fn widen(v: &mut Values<'_>, f: Widen, d: Slot, a: Slot) -> Option<()> {
    let op = match f {
        Widen::Zext => ZERO_EXTEND,
        Widen::Sext => SIGN_EXTEND,
        f => return float::widen(v, f, d, a),
    };
    let a = v.word(a);
    let r = v.register_pair();
    v.vector(op, r[0], 0, a);
    v.extend_upper(op, r[1], a);
    v.set_double(d, r)
}

fn narrow(v: &mut Values<'_>, f: Narrow, d: Slot, a: Slot) -> Option<()> {
    let which = match f {
        Narrow::Low => 0x88,
        Narrow::High => 0xdd,
        Narrow::F64ToF32 => {
            let a = v.double(a);
            let r = v.register();
            v.vector(PD_TO_PS, S, 0, a[0]);
            v.vector(PD_TO_PS, T, 0, a[1]);
            v.vector_with(INSERT_HALF, r, S, T, 1);
            return v.set_word(d, r);
        }
        _ => return None,
    };
    let a = v.double(a);
    let r = v.register();
    v.pack(r, a, which);
    v.set_word(d, r)
}

/// Computes the 64-bit products of 32-bit lanes.
fn multiply_wide(v: &mut Values<'_>, signed: bool, to: [u8; 2], a: u8, b: u8) {
    let op = if signed { MUL_SDQ } else { MUL_UDQ };
    v.vector(ZERO_EXTEND, S, 0, a);
    v.vector(ZERO_EXTEND, T, 0, b);
    v.vector(op, to[0], S, T);
    v.extend_upper(ZERO_EXTEND, S, a);
    v.extend_upper(ZERO_EXTEND, T, b);
    v.vector(op, to[1], S, T);
}

fn join(v: &mut Values<'_>, f: Join, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let (a, b) = (v.word(a), v.word(b));
    let r = v.register_pair();
    if f == Join::Pack {
        v.vector(UNPACK_LOW, S, a, b);
        v.vector(UNPACK_HIGH, T, a, b);
        v.vector_with(PERMUTE_HALVES, r[0], S, T, 0x20);
        v.vector_with(PERMUTE_HALVES, r[1], S, T, 0x31);
    } else {
        multiply_wide(v, f == Join::MulS, r, a, b);
    }
    v.set_double(d, r)
}

fn cmp64(v: &mut Values<'_>, f: Compare, d: Slot, a: Slot, b: Slot) -> Option<()> {
    let (a, b) = (v.double(a), v.double(b));
    let r = v.register();
    let sign = v.splat_double(1 << 63);
    for half in 0..2 {
        let (to, mut a, mut b) = (SCRATCH[half], a[half], b[half]);
        if matches!(f, Compare::LtU | Compare::LeU) {
            // `r` is free until the result is packed.
            v.vector(XOR, to, a, sign);
            v.vector(XOR, r, b, sign);
            (a, b) = (to, r);
        }
        match f {
            Compare::Eq | Compare::Ne => v.vector(EQUAL_Q, to, a, b),
            Compare::LtS | Compare::LtU => v.vector(GREATER_Q, to, b, a),
            Compare::LeS | Compare::LeU => v.vector(GREATER_Q, to, a, b),
        }
    }
    v.pack(r, SCRATCH, 0x88);
    if matches!(f, Compare::Ne | Compare::LeS | Compare::LeU) {
        v.invert(r);
    }
    v.set_predicate(d, r)
}
