//! Single- and double-precision arithmetic.
//!
//! Addition, multiplication, fused multiply-add, division and square root follow IEEE 754, with a
//! GPU's NaNs and a GPU's flushing of subnormals: bit for bit the results of an H200. The
//! approximate functions are computed in double precision and rounded once. On an H200, `rcp`,
//! `sqrt`, `rsqrt`, `ex2` and `div` were at most 1 ulp away from that (the documentation allows 1
//! or 2), `sin` and `cos` from -π to π at most 2^-20, `lg2` at most 2^-21 or 2 ulp, `tanh` at most
//! 2^-10. A program that depends on more accuracy than that is wrong on both.

use super::float_bits::{NAN_32, canonical, flush, nan_double};
use super::registers::{LANES, Registers, Value, Words, lanes};
use super::rounding::{self, ArithmeticOp};
use super::{approximate, directed};
use crate::ptx::ir::{CompareFloat, FloatBin, FloatMode, FloatUn, Round, Slot, Test};

#[inline(always)]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Returns the smaller (or, with `MAX`, the larger) operand.
///
/// -0 is less than +0, and a number is preferred to a NaN.
#[inline(always)]
fn min_max_32<const MAX: bool>(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let first = if MAX { x > y } else { x < y };
    let unequal = if first { a } else { b };
    // Zeros compare equal whatever their signs.
    let value = if x == y {
        if MAX { a & b } else { a | b }
    } else {
        unequal
    };
    let without_y = if y.is_nan() { a } else { value };
    canonical(f(if x.is_nan() { b } else { without_y }))
}

#[inline(always)]
fn min_max_64<const MAX: bool>(a: u64, b: u64) -> u64 {
    let (x, y) = (g(a), g(b));
    let first = if MAX { x > y } else { x < y };
    let unequal = if first { a } else { b };
    let value = if x == y {
        if MAX { a & b } else { a | b }
    } else {
        unequal
    };
    let without_y = if y.is_nan() { a } else { value };
    if x.is_nan() { b } else { without_y }
}

#[inline(always)]
fn nan_or(a: u32, b: u32, value: u32) -> u32 {
    if f(a).is_nan() || f(b).is_nan() {
        NAN_32
    } else {
        value
    }
}

/// The bits of the smallest normal single.
const NORMAL_MIN_32: u32 = 0x0080_0000;

/// Recomputes results that were rounded up to the smallest normal number, because a GPU flushes
/// results that are subnormal before rounding.
#[inline(always)]
fn flush_rounded_up(r: &mut Registers, mask: u32, op: ArithmeticOp, d: Slot, old: [Words; 3]) {
    let results = r.word(d);
    let mut edge = 0;
    for lane in 0..LANES {
        edge |= if results[lane] & 0x7fff_ffff == NORMAL_MIN_32 {
            1u32 << lane
        } else {
            0
        };
    }
    if edge & mask != 0 {
        redo(r, edge & mask, op, d, old);
    }
}

#[cold]
fn redo(r: &mut Registers, mask: u32, op: ArithmeticOp, d: Slot, [a, b, c]: [Words; 3]) {
    let mode = FloatMode::nearest(true);
    let mut values = *r.word(d);
    for lane in lanes(mask) {
        values[lane] = rounding::single(op, [a[lane], b[lane], c[lane]], mode);
    }
    r.set_word(d, mask, &values);
}

#[inline(always)]
pub(super) fn f32_bin(
    r: &mut Registers,
    mask: u32,
    op: FloatBin,
    mode: FloatMode,
    d: Slot,
    ab: [Slot; 2],
) {
    if mode.round == Round::Nearest {
        if !mode.flush {
            return nearest_bin::<false>(r, mask, op, d, ab);
        }
        let old = [*r.word(ab[0]), *r.word(ab[1]), [0; LANES]];
        nearest_bin::<true>(r, mask, op, d, ab);
        match op {
            FloatBin::Mul => flush_rounded_up(r, mask, ArithmeticOp::Mul, d, old),
            FloatBin::Div => flush_rounded_up(r, mask, ArithmeticOp::Div, d, old),
            _ => {}
        }
        return;
    }
    let [a, b] = ab;
    directed::run(r, mask, operation(op), mode, d, [a, b, b]);
}

/// Returns the operation of the slow path.
///
/// The approximate division, minimum and maximum have no rounding mode and never reach this
/// function.
fn operation(op: FloatBin) -> ArithmeticOp {
    match op {
        FloatBin::Sub => ArithmeticOp::Sub,
        FloatBin::Mul => ArithmeticOp::Mul,
        FloatBin::Div => ArithmeticOp::Div,
        FloatBin::Add
        | FloatBin::DivApprox
        | FloatBin::Min
        | FloatBin::Max
        | FloatBin::MinNan
        | FloatBin::MaxNan => ArithmeticOp::Add,
    }
}

#[inline(always)]
fn nearest_bin<const FLUSH: bool>(
    r: &mut Registers,
    mask: u32,
    op: FloatBin,
    d: Slot,
    ab: [Slot; 2],
) {
    let inward = |bits| if FLUSH { flush(bits) } else { bits };
    let outward = |value: f32| {
        if FLUSH {
            flush(canonical(value))
        } else {
            canonical(value)
        }
    };
    match op {
        FloatBin::Add => r.map2(mask, d, ab, |a, b| outward(f(inward(a)) + f(inward(b)))),
        FloatBin::Sub => r.map2(mask, d, ab, |a, b| outward(f(inward(a)) - f(inward(b)))),
        FloatBin::Mul => r.map2(mask, d, ab, |a, b| outward(f(inward(a)) * f(inward(b)))),
        FloatBin::Div => r.map2(mask, d, ab, |a, b| outward(f(inward(a)) / f(inward(b)))),
        // If the divisor exceeds 2^126, its reciprocal is flushed to zero.
        FloatBin::DivApprox => r.map2(mask, d, ab, |a, b| {
            let (a, b) = (inward(a), inward(b));
            let beyond = f(b).abs() > 2f32.powi(126);
            let quotient = f(a) / if beyond { f(b) * f32::INFINITY } else { f(b) };
            outward(quotient)
        }),
        FloatBin::Min => r.map2(mask, d, ab, |a, b| {
            min_max_32::<false>(inward(a), inward(b))
        }),
        FloatBin::Max => r.map2(mask, d, ab, |a, b| min_max_32::<true>(inward(a), inward(b))),
        FloatBin::MinNan => {
            r.map2(mask, d, ab, |a, b| {
                nan_or(a, b, min_max_32::<false>(inward(a), inward(b)))
            });
        }
        FloatBin::MaxNan => {
            r.map2(mask, d, ab, |a, b| {
                nan_or(a, b, min_max_32::<true>(inward(a), inward(b)))
            });
        }
    }
}

#[inline(always)]
pub(super) fn f32_fma(r: &mut Registers, mask: u32, mode: FloatMode, d: Slot, abc: [Slot; 3]) {
    match (mode.round, mode.flush) {
        (Round::Nearest, false) => {
            r.map3(mask, d, abc, |a, b, c| canonical(f(a).mul_add(f(b), f(c))));
        }
        (Round::Nearest, true) => {
            let old = abc.map(|slot| *r.word(slot));
            r.map3(mask, d, abc, |a, b, c| {
                flush(canonical(f(flush(a)).mul_add(f(flush(b)), f(flush(c)))))
            });
            flush_rounded_up(r, mask, ArithmeticOp::Fma, d, old);
        }
        _ => directed::run(r, mask, ArithmeticOp::Fma, mode, d, abc),
    }
}

#[inline(always)]
pub(super) fn f32_un(r: &mut Registers, mask: u32, op: FloatUn, d: Slot, a: Slot) {
    let wide = |bits: u32| f64::from(f(bits));
    match op {
        FloatUn::Neg => r.map1(mask, d, [a], |a| canonical(-f(a))),
        FloatUn::Abs => r.map1(mask, d, [a], |a| canonical(f(a).abs())),
        FloatUn::Flush => r.map1(mask, d, [a], flush),
        FloatUn::Integral(mode) => r.map1(mask, d, [a], |a| {
            let value = f(if mode.flush { flush(a) } else { a });
            canonical(match mode.round {
                Round::Nearest => value.round_ties_even(),
                Round::Zero => value.trunc(),
                Round::Down => value.floor(),
                Round::Up => value.ceil(),
            })
        }),
        // Comparisons with NaN are false, so NaN becomes 0.
        FloatUn::Saturate => r.map1(mask, d, [a], |a| {
            let value = f(a);
            if value >= 1.0 {
                1f32.to_bits()
            } else if value > 0.0 {
                a
            } else {
                0
            }
        }),
        FloatUn::Sqrt(Round::Nearest) | FloatUn::SqrtApprox => {
            r.map1(mask, d, [a], |a| canonical(f(a).sqrt()))
        }
        FloatUn::Sqrt(round) => {
            let mode = FloatMode {
                round,
                flush: false,
            };
            r.map1(mask, d, [a], |a| {
                rounding::single(ArithmeticOp::Sqrt, [a, 0, 0], mode)
            });
        }
        FloatUn::Rcp(Round::Nearest) | FloatUn::RcpApprox => {
            r.map1(mask, d, [a], |a| canonical(1.0 / f(a)))
        }
        FloatUn::Rcp(round) => {
            let mode = FloatMode {
                round,
                flush: false,
            };
            r.map1(mask, d, [a], |a| {
                rounding::single(ArithmeticOp::Div, [1f32.to_bits(), a, 0], mode)
            });
        }
        FloatUn::RsqrtApprox | FloatUn::RsqrtApproxHigh => {
            r.map1(mask, d, [a], |a| canonical((1.0 / wide(a).sqrt()) as f32))
        }
        FloatUn::Ex2Approx => approximate::run::<false>(r, mask, d, a),
        FloatUn::Lg2Approx => approximate::run::<true>(r, mask, d, a),
        FloatUn::SinApprox => r.map1(mask, d, [a], |a| canonical(wide(a).sin() as f32)),
        FloatUn::CosApprox => r.map1(mask, d, [a], |a| canonical(wide(a).cos() as f32)),
        FloatUn::TanhApprox => r.map1(mask, d, [a], |a| canonical(wide(a).tanh() as f32)),
    }
}

/// Returns the bits of the result of an operation on `a` and `b`. A NaN operand is propagated; the
/// second one takes precedence.
#[inline(always)]
fn settled(value: f64, a: u64, b: u64) -> u64 {
    let first = if g(a).is_nan() {
        a | 1 << 51
    } else {
        value.to_bits()
    };
    if g(b).is_nan() { b | 1 << 51 } else { first }
}

#[inline(always)]
pub(super) fn f64_bin(
    r: &mut Registers,
    mask: u32,
    op: FloatBin,
    mode: FloatMode,
    d: Slot,
    ab: [Slot; 2],
) {
    if mode.round != Round::Nearest {
        let (operation, round) = (operation(op), mode.round);
        return r.map2(mask, d, ab, |a, b| {
            rounding::double(operation, [a, b, 0], round)
        });
    }
    match op {
        FloatBin::Add => r.map2(mask, d, ab, |a, b| settled(g(a) + g(b), a, b)),
        FloatBin::Sub => r.map2(mask, d, ab, |a, b| settled(g(a) - g(b), a, b)),
        FloatBin::Mul => r.map2(mask, d, ab, |a, b| settled(g(a) * g(b), a, b)),
        FloatBin::Div | FloatBin::DivApprox => {
            r.map2(mask, d, ab, |a, b| settled(g(a) / g(b), b, a))
        }
        FloatBin::Min | FloatBin::MinNan => r.map2(mask, d, ab, min_max_64::<false>),
        FloatBin::Max | FloatBin::MaxNan => r.map2(mask, d, ab, min_max_64::<true>),
    }
}

#[inline(always)]
pub(super) fn f64_fma(r: &mut Registers, mask: u32, mode: FloatMode, d: Slot, abc: [Slot; 3]) {
    match mode.round {
        Round::Nearest => r.map3(mask, d, abc, |a, b, c| double_fma(a, b, c, Round::Nearest)),
        round => r.map3(mask, d, abc, |a, b, c| double_fma(a, b, c, round)),
    }
}

/// Returns `a * b + c`.
#[inline(always)]
pub(super) fn double_fma(a: u64, b: u64, c: u64, round: Round) -> u64 {
    if round == Round::Nearest {
        let value = g(a).mul_add(g(b), g(c));
        nan_double([b, c, a]).unwrap_or(value.to_bits())
    } else {
        rounding::double(ArithmeticOp::Fma, [a, b, c], round)
    }
}

/// Returns an approximate result rounded to its high word. A NaN result has no payload.
#[inline(always)]
fn high_word(value: f64) -> u64 {
    if value.is_nan() {
        return u64::from(NAN_32) << 32;
    }
    let bits = value.to_bits();
    // Rounding an infinity or the largest numbers would overflow into the NaNs.
    let rounded = if value.abs() < 1e308 {
        bits + 0x8000_0000
    } else {
        bits
    };
    flush_double(rounded & 0xffff_ffff_0000_0000)
}

/// Flushes a subnormal to a zero of the same sign.
#[inline(always)]
fn flush_double(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 {
        bits & 1 << 63
    } else {
        bits
    }
}

#[inline(always)]
pub(super) fn f64_un(r: &mut Registers, mask: u32, op: FloatUn, d: Slot, a: Slot) {
    match op {
        // A NaN operand is returned unchanged.
        FloatUn::Neg => r.map1(
            mask,
            d,
            [a],
            |a| if g(a).is_nan() { a } else { a ^ 1 << 63 },
        ),
        FloatUn::Abs => r.map1(
            mask,
            d,
            [a],
            |a| if g(a).is_nan() { a } else { a & !(1 << 63) },
        ),
        FloatUn::Sqrt(Round::Nearest) => r.map1(mask, d, [a], |a| settled(g(a).sqrt(), a, 0)),
        FloatUn::Sqrt(round) => r.map1(mask, d, [a], |a| {
            rounding::double(ArithmeticOp::Sqrt, [a, 0, 0], round)
        }),
        FloatUn::Rcp(Round::Nearest) => r.map1(mask, d, [a], |a| settled(1.0 / g(a), a, 0)),
        FloatUn::Rcp(round) => {
            r.map1(mask, d, [a], |a| {
                rounding::double(ArithmeticOp::Div, [1f64.to_bits(), a, 0], round)
            });
        }
        FloatUn::RcpApprox => r.map1(mask, d, [a], |a| high_word(1.0 / g(flush_double(a)))),
        FloatUn::RsqrtApproxHigh => {
            r.map1(mask, d, [a], |a| high_word(1.0 / g(flush_double(a)).sqrt()))
        }
        FloatUn::RsqrtApprox => r.map1(mask, d, [a], |a| settled(1.0 / g(a).sqrt(), a, 0)),
        // No instruction lowers to these operations in double precision.
        FloatUn::Flush
        | FloatUn::Integral(_)
        | FloatUn::Saturate
        | FloatUn::SqrtApprox
        | FloatUn::Ex2Approx
        | FloatUn::Lg2Approx
        | FloatUn::SinApprox
        | FloatUn::CosApprox
        | FloatUn::TanhApprox => {}
    }
}

/// Returns whether either operand is NaN.
#[inline(always)]
fn unordered<T: PartialOrd>(a: T, b: T) -> bool {
    a.partial_cmp(&b).is_none()
}

#[inline(always)]
fn compare<T: Value + PartialOrd>(
    r: &mut Registers,
    mask: u32,
    op: CompareFloat,
    d: Slot,
    ab: [Slot; 2],
) {
    match op {
        CompareFloat::Eq => r.test2(mask, d, ab, |a: T, b| a == b),
        CompareFloat::Ne => r.test2(mask, d, ab, |a: T, b| a != b && !unordered(a, b)),
        CompareFloat::Lt => r.test2(mask, d, ab, |a: T, b| a < b),
        CompareFloat::Le => r.test2(mask, d, ab, |a: T, b| a <= b),
        CompareFloat::EqU => r.test2(mask, d, ab, |a: T, b| a == b || unordered(a, b)),
        CompareFloat::NeU => r.test2(mask, d, ab, |a: T, b| a != b),
        CompareFloat::LtU => r.test2(mask, d, ab, |a: T, b| a < b || unordered(a, b)),
        CompareFloat::LeU => r.test2(mask, d, ab, |a: T, b| a <= b || unordered(a, b)),
        CompareFloat::Num => r.test2(mask, d, ab, |a: T, b| !unordered(a, b)),
        CompareFloat::Nan => r.test2(mask, d, ab, |a: T, b| unordered(a, b)),
    }
}

#[inline(always)]
pub(super) fn cmp_f32(r: &mut Registers, mask: u32, op: CompareFloat, d: Slot, ab: [Slot; 2]) {
    compare::<f32>(r, mask, op, d, ab);
}

#[inline(always)]
pub(super) fn cmp_f64(r: &mut Registers, mask: u32, op: CompareFloat, d: Slot, ab: [Slot; 2]) {
    compare::<f64>(r, mask, op, d, ab);
}

/// Returns whether a value of class `class` passes the test `op` (`testp`).
#[inline(always)]
fn is_class(op: Test, class: std::num::FpCategory) -> bool {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    match op {
        Test::Finite => !matches!(class, Nan | Infinite),
        Test::Infinite => class == Infinite,
        Test::Number => class != Nan,
        Test::NotANumber => class == Nan,
        // PTX counts zeros as normal numbers.
        Test::Normal => matches!(class, Normal | Zero),
        Test::Subnormal => class == Subnormal,
    }
}

#[inline(always)]
pub(super) fn test32(r: &mut Registers, mask: u32, op: Test, d: Slot, a: Slot) {
    r.test2(mask, d, [a, a], |a: f32, _| is_class(op, a.classify()));
}

#[inline(always)]
pub(super) fn test64(r: &mut Registers, mask: u32, op: Test, d: Slot, a: Slot) {
    r.test2(mask, d, [a, a], |a: f64, _| is_class(op, a.classify()));
}
