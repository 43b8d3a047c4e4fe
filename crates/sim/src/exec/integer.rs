//! Integer arithmetic, logic and comparisons, with the results that a GPU defines for every input.

use super::bits::{dot2, dot4, extract};
use super::registers::{Bits, LANES, Registers, Value, blend};
use crate::ptx::ir::{
    Bin, Carry, Compare, Join, Narrow, PredOp, Shift, Slot, Tri, Un, Widen, Word1, Word3,
    integer_families,
};

macro_rules! define_functions {
    ($(
        $(#[$doc:meta])*
        $family:ident [$($name:ident($count:literal) $loop:ident<$($ty:ty),+>),+] $operations:tt
    )*) => {
        $($(define_function! { $family $name $count [$loop::<$($ty),+>] $operations })+)*
    };
}

macro_rules! define_function {
    ($family:ident $name:ident $count:literal $loop:tt {
        $($(#[$doc:meta])* $operation:ident = $result:expr,)+
    }) => {
        #[inline(always)]
        pub(super) fn $name(
            r: &mut Registers,
            mask: u32,
            f: $family,
            d: Slot,
            operands: [Slot; $count],
        ) {
            match f {
                $($family::$operation => run_loop!(r $loop (mask, d, operands, $result)),)+
            }
        }
    };
}

/// Calls a loop of the registers, given with its types.
macro_rules! run_loop {
    ($r:ident [$($loop:tt)+] $arguments:tt) => {
        $r.$($loop)+ $arguments
    };
}

integer_families!(define_functions);

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

/// Returns the 64-bit value with `b` as its high half and `a` as its low half.
#[inline(always)]
pub(super) fn join(a: u32, b: u32) -> u64 {
    u64::from(a) | (u64::from(b) << 32)
}

#[inline(always)]
pub(super) fn mad_wide(r: &mut Registers, mask: u32, signed: bool, d: Slot, abc: [Slot; 3]) {
    r.map3(mask, d, abc, |a: u32, b: u32, c: u64| {
        let product = if signed {
            (i64::from(a.cast_signed()) * i64::from(b.cast_signed())).cast_unsigned()
        } else {
            u64::from(a) * u64::from(b)
        };
        product.wrapping_add(c)
    });
}

macro_rules! define_carry {
    ($name:ident, $ty:ty) => {
        #[inline(always)]
        pub(super) fn $name(r: &mut Registers, mask: u32, f: Carry, d: Slot, [a, b]: [Slot; 2]) {
            let (a, b) = (<$ty as Value>::read(r, a), <$ty as Value>::read(r, b));
            let flags = f.read.map_or(f.unread(), |slot| r.predicate(slot));
            let mut values = [0; LANES];
            let mut out = 0;
            for lane in 0..LANES {
                let b = if f.subtract { !b[lane] } else { b[lane] };
                let (sum, first) = a[lane].overflowing_add(b);
                let (sum, second) = sum.overflowing_add((flags >> lane & 1).into());
                values[lane] = sum;
                out |= u32::from(first | second) << lane;
            }
            <$ty as Bits>::write(r, d, mask, &values);
            if let Some(slot) = f.write {
                r.set_predicate(slot, mask, out);
            }
        }
    };
}
define_carry!(carry32, u32);
define_carry!(carry64, u64);

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

/// Selects `a` where the predicate `p` holds, else `b`.
#[inline(always)]
fn select<T: Bits>(r: &mut Registers, mask: u32, d: Slot, [a, b, p]: [Slot; 3]) {
    let values = blend(r.predicate(p), T::read(r, a), T::read(r, b));
    T::write(r, d, mask, &values);
}

#[inline(always)]
pub(super) fn select32(r: &mut Registers, mask: u32, d: Slot, abp: [Slot; 3]) {
    select::<u32>(r, mask, d, abp);
}

#[inline(always)]
pub(super) fn select64(r: &mut Registers, mask: u32, d: Slot, abp: [Slot; 3]) {
    select::<u64>(r, mask, d, abp);
}
