//! The rules by which undefined bits, and the variables of addresses, pass through operations on
//! registers. For bits they follow Valgrind's Memcheck (Seward and Nethercote, *Using Valgrind to
//! detect undefined value errors with bit-precision*, USENIX 2005).

use super::shadow::{MIXED, Shadow};
use crate::ptx::ir::{Bin, Compare, Join, Narrow, Op, Tri, Un, Widen, Word1, Word3};

/// The operand of one lane: its value, and its shadow.
#[derive(Clone, Copy, Default)]
pub(super) struct Operand {
    pub(super) value: u64,
    pub(super) shadow: Shadow,
}

/// Returns the number of the first operands of which each bit goes to bits of its own in the
/// result, with one bit of the others at most; the operands behind say where. 0 for an operation
/// that does more.
pub(super) fn bitwise(op: &Op) -> usize {
    use Word1::{High16, Sext8, Sext16, Zext8, Zext16};
    use Word3::{BfeS, BfeU, ShiftLeftClamp, ShiftLeftWrap, ShiftRightClamp, ShiftRightWrap};
    match op {
        Op::Un32 { f, .. } | Op::Un64 { f, .. } => {
            matches!(f, Un::Move | Un::Brev | Un::Not).into()
        }
        Op::Word1 { f, .. } => matches!(f, Zext8 | Sext8 | Zext16 | Sext16 | High16).into(),
        Op::Widen { f, .. } => matches!(f, Widen::Zext | Widen::Sext).into(),
        Op::Narrow { f, .. } => matches!(f, Narrow::Low | Narrow::High).into(),
        Op::Bin32 { f, .. } | Op::Bin64 { f, .. } => {
            2 * usize::from(matches!(f, Bin::And | Bin::Or | Bin::Xor | Bin::Pack16))
        }
        Op::Word3 { f, .. } => match f {
            BfeS | BfeU => 1,
            ShiftLeftClamp | ShiftLeftWrap | ShiftRightClamp | ShiftRightWrap => 2,
            _ => 0,
        },
        Op::Shift32 { .. } | Op::Shift64 { .. } | Op::Bfe64 { .. } => 1,
        Op::Bfi32 { .. } | Op::Bfi64 { .. } | Op::Prmt { .. } | Op::Pred { .. } => 2,
        Op::Join { f: Join::Pack, .. } => 2,
        Op::Lop3 { .. } | Op::Select32 { .. } | Op::Select64 { .. } => 3,
        _ => 0,
    }
}

/// Returns whether no choice of the undefined bits changes a comparison. `top` is the sign bit.
fn is_decided(f: Compare, [a, b]: [Operand; 2], top: u64) -> bool {
    let flip = if matches!(f, Compare::LtS | Compare::LeS) {
        top
    } else {
        0
    };
    let [(low, high), (other_low, other_high)] = [a, b].map(|of| {
        let (value, bits) = (of.value ^ flip, of.shadow.bits);
        (value & !bits, value | bits)
    });
    match f {
        Compare::Eq | Compare::Ne => (a.value ^ b.value) & !(a.shadow.bits | b.shadow.bits) != 0,
        Compare::LtS | Compare::LtU => (low < other_high) == (high < other_low),
        Compare::LeS | Compare::LeU => (low <= other_high) == (high <= other_low),
    }
}

/// Returns the undefined bits of the result of an operation that is not bitwise, given all bits of
/// its register and the operands, of which the first two may be the `same` register. A sum or
/// product passes an undefined bit to all higher ones; a comparison is defined if no choice of the
/// bits changes it; any other result is undefined as a whole.
pub(super) fn undefined(op: &Op, all: u64, x: &[Operand; 4], same: bool) -> u64 {
    let any = x.iter().fold(0, |all, of| all | of.shadow.bits);
    let whole = |bits: u64| if bits == 0 { 0 } else { all };
    let bits = match *op {
        Op::Bin32 { f: Bin::Sub, .. } | Op::Bin64 { f: Bin::Sub, .. } if same => 0,
        Op::Bin32 {
            f: Bin::Add | Bin::Sub | Bin::Mul,
            ..
        }
        | Op::Bin64 {
            f: Bin::Add | Bin::Sub | Bin::Mul,
            ..
        }
        | Op::Tri32 { f: Tri::Mad, .. }
        | Op::Tri64 { f: Tri::Mad, .. }
        | Op::MadWide { .. }
        | Op::Carry32 { .. }
        | Op::Carry64 { .. } => any | any.wrapping_neg(),
        // Each half of a packed pair by itself.
        Op::Half { format, .. } => {
            let high = if format.packed {
                whole(any >> 16) << 16
            } else {
                0
            };
            whole(any & 0xffff) & 0xffff | high
        }
        Op::Convert { how, .. } => whole(any & u64::MAX >> (64 - 8 * how.from.bytes())),
        Op::Cmp32 { f, .. } => u64::from(!same && !is_decided(f, [x[0], x[1]], 1 << 31)),
        Op::Cmp64 { f, .. } => u64::from(!same && !is_decided(f, [x[0], x[1]], 1 << 63)),
        _ => whole(any),
    };
    bits & all
}

/// Returns the variable in which the result is an address: that of the only operand with one, if
/// the operation is a step from one of its addresses to another.
pub(super) fn variable(op: &Op, x: &[Operand; 4]) -> u32 {
    let mut known = x.iter().map(|of| of.shadow.variable).enumerate();
    let Some((at, variable)) = known.find(|(_, variable)| *variable != 0) else {
        return 0;
    };
    let steps = match *op {
        Op::Un32 { f: Un::Move, .. } | Op::Un64 { f: Un::Move, .. } | Op::Widen { .. } => true,
        Op::Narrow { f, .. } => f == Narrow::Low,
        Op::Bin32 { f, .. } | Op::Bin64 { f, .. } => f == Bin::Add || f == Bin::Sub && at == 0,
        Op::Carry32 { f, .. } | Op::Carry64 { f, .. } => !f.subtract || at == 0,
        Op::Tri32 { f: Tri::Mad, .. } | Op::Tri64 { f: Tri::Mad, .. } | Op::MadWide { .. } => {
            at == 2
        }
        Op::Join { f, .. } => f == Join::Pack && at == 0,
        _ => false,
    };
    let is_only = known.all(|(_, other)| other == 0);
    if steps && is_only { variable } else { MIXED }
}
