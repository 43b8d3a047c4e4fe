//! What each atomic operation makes of the old value.

use super::float::canonical;
use crate::ptx::code::{Atomic, AtomicOp};
use crate::ptx::types::Type;

/// The new value of a 32-bit atomic.
#[inline(always)]
pub(super) fn apply_word(atomic: &Atomic, old: u32, b: u32, c: u32) -> u32 {
    let signed = atomic.ty == Type::S32;
    match atomic.f {
        AtomicOp::Add if atomic.ty == Type::F32 => canonical(f32::from_bits(old) + f32::from_bits(b)),
        AtomicOp::Add => old.wrapping_add(b),
        AtomicOp::Min if signed => old.cast_signed().min(b.cast_signed()).cast_unsigned(),
        AtomicOp::Min => old.min(b),
        AtomicOp::Max if signed => old.cast_signed().max(b.cast_signed()).cast_unsigned(),
        AtomicOp::Max => old.max(b),
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        AtomicOp::Exchange => b,
        AtomicOp::CompareSwap => {
            if old == b {
                c
            } else {
                old
            }
        }
    }
}

/// The new value of a 64-bit atomic.
#[inline(always)]
pub(super) fn apply_double(atomic: &Atomic, old: u64, b: u64, c: u64) -> u64 {
    let signed = atomic.ty == Type::S64;
    match atomic.f {
        AtomicOp::Add if atomic.ty == Type::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        AtomicOp::Add => old.wrapping_add(b),
        AtomicOp::Min if signed => old.cast_signed().min(b.cast_signed()).cast_unsigned(),
        AtomicOp::Min => old.min(b),
        AtomicOp::Max if signed => old.cast_signed().max(b.cast_signed()).cast_unsigned(),
        AtomicOp::Max => old.max(b),
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exchange => b,
        AtomicOp::CompareSwap => {
            if old == b {
                c
            } else {
                old
            }
        }
        // These exist in 32 bits only; lowering refuses them here.
        AtomicOp::Inc | AtomicOp::Dec => old,
    }
}
