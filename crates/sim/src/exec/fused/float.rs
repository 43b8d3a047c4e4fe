//! Vector code of the operations on floats, with the NaNs and the flushing of a GPU.
//!
//! NaNs of single-precision results are made canonical only where their bits are used: see
//! [`FloatState`]. Results that need the interpreter's exact arithmetic are corrected behind the
//! function: see [`rare`](super::rare).

use super::assembler::{
    ADD_PD, ADD_PS, AND, BLEND_PD, BLEND_PS, COMPARE_PD, COMPARE_PS, Condition, DIV_PD, DIV_PS,
    DWORD_TO_PD, DWORD_TO_PS, EQUAL_D, FMA_PD, FMA_PS, INSERT_HALF, LOAD, MASK_PS, MAX_PS, MIN_PS,
    MUL_PD, MUL_PS, OR, Opcode, PD_TO_PS, PS_TO_DWORD, PS_TO_PD, R11, ROUND_PS, SHIFT_D, SQRT_PD,
    SQRT_PS, SUB_PD, SUB_PS, UPPER_HALF, XOR, ZERO_EXTEND,
};
use super::rare::{Correction, NORMAL_MIN, Rare};
use super::values::{FloatState, SCRATCH, Values};
use crate::exec::float_bits::NAN_32;
use crate::ptx::ir::{
    CompareFloat, FloatBin, FloatMode, FloatUn, Op, RegisterClass, Round, Slot, Widen, Word1,
};

const S: u8 = SCRATCH[0];
const T: u8 = SCRATCH[1];

/// The immediate operands of comparisons.
const EQUAL: u8 = 0x00;
const UNORDERED: u8 = 0x03;
const ORDERED: u8 = 0x07;
const GREATER: u8 = 0x1e;
const AT_LEAST: u8 = 0x1d;

const SIGN: u32 = 1 << 31;
const SIGN_DOUBLE: u64 = 1 << 63;

pub(super) fn operation(v: &mut Values<'_>, op: Op) -> Option<()> {
    match op {
        Op::F32Un { f, d, a } => f32_un(v, f, d, a),
        Op::F32Bin { f, mode, d, a, b } => f32_bin(v, f, mode, d, a, b),
        Op::F32Fma { mode, d, a, b, c } => {
            let flush = nearest(mode)?;
            let [a, b, c] = [a, b, c].map(|slot| v.operand(slot, flush));
            let r = v.register();
            v.copy(r, c);
            v.vector(FMA_PS, r, a, b);
            v.finish_f32(d, r, flush.then_some((Correction::FlushFma, [a, b, c])))
        }
        Op::CmpF32 { f, d, a, b } => {
            let (a, b) = (v.float(a).0, v.float(b).0);
            let r = v.register();
            v.vector_with(COMPARE_PS, r, a, b, predicate(f));
            v.set_predicate(d, r)
        }
        Op::F64Un { f, d, a } => f64_un(v, f, d, a),
        Op::F64Bin { f, mode, d, a, b } => f64_bin(v, f, mode, d, a, b),
        Op::F64Fma { mode, d, a, b, c } => {
            nearest(mode)?;
            let nans = v.possible_nans([a, b, c]);
            let [a, b, c] = [a, b, c].map(|slot| v.double(slot));
            let r = v.register_pair();
            for half in 0..2 {
                v.copy(r[half], c[half]);
                v.vector(FMA_PD, r[half], a[half], b[half]);
            }
            if nans > 1 {
                v.correct_nans(Correction::NanFma, r, [a, b, c]);
            }
            v.set_double(d, r)
        }
        Op::CmpF64 { f, d, a, b } => {
            let (a, b) = (v.double(a), v.double(b));
            let r = v.register();
            for half in 0..2 {
                v.vector_with(COMPARE_PD, SCRATCH[half], a[half], b[half], predicate(f));
            }
            v.pack(r, SCRATCH, 0x88);
            v.set_predicate(d, r)
        }
        _ => None,
    }
}

/// Returns whether an operation that rounds to nearest flushes subnormals; `None` for the other
/// rounding modes.
fn nearest(mode: FloatMode) -> Option<bool> {
    (mode.round == Round::Nearest).then_some(mode.flush)
}

/// Returns the immediate operand of a comparison. None of them signals.
fn predicate(f: CompareFloat) -> u8 {
    match f {
        CompareFloat::Eq => EQUAL,
        CompareFloat::Ne => 0x0c,
        CompareFloat::Lt => 0x11,
        CompareFloat::Le => 0x12,
        CompareFloat::EqU => 0x08,
        CompareFloat::NeU => 0x04,
        CompareFloat::LtU => 0x19,
        CompareFloat::LeU => 0x1a,
        CompareFloat::Num => ORDERED,
        CompareFloat::Nan => UNORDERED,
    }
}

impl Values<'_> {
    /// Returns a 32-bit float, as a copy without subnormals if `flush` is set.
    fn operand(&mut self, slot: Slot, flush: bool) -> u8 {
        let (register, float) = self.float(slot);
        let normal = |bits: u32| bits & 0x7f80_0000 != 0 || bits & !SIGN == 0;
        if !flush || float.flushed || self.constant_word(slot).is_some_and(normal) {
            return register;
        }
        let flushed = self.register();
        self.flush(flushed, register);
        flushed
    }

    /// Flushes subnormals to zeros of the same sign.
    fn flush(&mut self, to: u8, from: u8) {
        let (exponent, sign) = (self.splat(0x7f80_0000), self.splat(SIGN));
        self.vector(AND, S, from, exponent);
        self.vector(XOR, T, T, T);
        self.vector(EQUAL_D, S, S, T);
        self.vector(AND, T, from, sign);
        self.vector_with(BLEND_PS, to, from, T, S << 4);
    }

    /// Sets a single-precision result; with the correction and the operands of one that is flushed.
    fn finish_f32(&mut self, d: Slot, r: u8, flushed: Option<(Correction, [u8; 3])>) -> Option<()> {
        let mut float = FloatState {
            raw: true,
            flushed: false,
        };
        if let Some((correction, [a, b, c])) = flushed {
            self.flush(r, r);
            let (magnitude, least) = (self.splat(!SIGN), self.splat(NORMAL_MIN));
            self.vector(AND, S, r, magnitude);
            self.vector(EQUAL_D, S, S, least);
            self.correct(correction, vec![[r, a, b, c]]);
            float.flushed = true;
        }
        self.set(RegisterClass::Word, d, [r; 2], float)
    }

    /// Corrects results if a lane of the first scratch register is set.
    fn correct(&mut self, correction: Correction, results: Vec<[u8; 4]>) {
        self.vector(MASK_PS, R11, 0, S);
        self.assembler.raw(&[0x45, 0x85, 0xdb]); // test r11d, r11d
        let jump = self.assembler.jump(Condition::NotZero);
        let back = self.assembler.here();
        self.rare.push(Rare {
            jump,
            back,
            correction,
            results,
        });
    }

    /// Corrects double-precision results that are NaNs.
    fn correct_nans(&mut self, correction: Correction, r: [u8; 2], abc: [[u8; 2]; 3]) {
        for half in 0..2 {
            self.vector_with(COMPARE_PD, SCRATCH[half], r[half], r[half], UNORDERED);
        }
        self.vector(OR, S, S, T);
        let results = [0, 1].map(|half| {
            let [a, b, c] = abc.map(|operand| operand[half]);
            [r[half], a, b, c]
        });
        self.correct(correction, results.to_vec());
    }

    /// Returns the number of operands that may be NaNs.
    fn possible_nans<const N: usize>(&self, slots: [Slot; N]) -> usize {
        let number = |slot: &&Slot| {
            self.constant_double(**slot)
                .is_some_and(|bits| !f64::from_bits(bits).is_nan())
        };
        N - slots.iter().filter(number).count()
    }
}

fn f32_bin(
    v: &mut Values<'_>,
    f: FloatBin,
    mode: FloatMode,
    d: Slot,
    a: Slot,
    b: Slot,
) -> Option<()> {
    let flush = nearest(mode)?;
    let (a, b) = (v.operand(a, flush), v.operand(b, flush));
    let r = v.register();
    let (op, correction) = match f {
        FloatBin::Add => (ADD_PS, None),
        FloatBin::Sub => (SUB_PS, None),
        FloatBin::Mul => (MUL_PS, Some(Correction::FlushMul)),
        FloatBin::Div => (DIV_PS, Some(Correction::FlushDiv)),
        FloatBin::DivApprox => {
            // A divisor above 2^126 counts as infinite.
            let (magnitude, bound) = (v.splat(!SIGN), v.splat(2f32.powi(126).to_bits()));
            let infinity = v.splat(f32::INFINITY.to_bits());
            v.vector(AND, S, b, magnitude);
            v.vector_with(COMPARE_PS, S, S, bound, GREATER);
            v.vector(MUL_PS, T, b, infinity);
            v.vector_with(BLEND_PS, T, b, T, S << 4);
            v.vector(DIV_PS, r, a, T);
            return finish_plain(v, d, r, flush);
        }
        FloatBin::Min | FloatBin::Max | FloatBin::MinNan | FloatBin::MaxNan => {
            min_max(v, f, r, a, b);
            return v.finish_f32(d, r, None);
        }
    };
    v.vector(op, r, a, b);
    match correction {
        Some(correction) if flush => v.finish_f32(d, r, Some((correction, [a, b, b]))),
        _ => finish_plain(v, d, r, flush),
    }
}

/// Sets a single-precision result that needs no correction if it is flushed.
fn finish_plain(v: &mut Values<'_>, d: Slot, r: u8, flush: bool) -> Option<()> {
    if flush {
        v.flush(r, r);
    }
    let float = FloatState {
        raw: true,
        flushed: flush,
    };
    v.set(RegisterClass::Word, d, [r; 2], float)
}

/// Computes the smaller or larger operand; -0 is less than +0.
fn min_max(v: &mut Values<'_>, f: FloatBin, r: u8, a: u8, b: u8) {
    let max = matches!(f, FloatBin::Max | FloatBin::MaxNan);
    // This is `b` if either operand is a NaN, or if both are zeros.
    v.vector(if max { MAX_PS } else { MIN_PS }, r, a, b);
    v.vector_with(COMPARE_PS, S, a, b, EQUAL);
    v.vector(if max { AND } else { OR }, T, a, b);
    v.vector_with(BLEND_PS, r, r, T, S << 4);
    if matches!(f, FloatBin::MinNan | FloatBin::MaxNan) {
        let nan = v.splat(NAN_32);
        v.vector_with(COMPARE_PS, S, a, b, UNORDERED);
        v.vector_with(BLEND_PS, r, r, nan, S << 4);
    } else {
        v.vector_with(COMPARE_PS, S, b, b, UNORDERED);
        v.vector_with(BLEND_PS, r, r, a, S << 4);
    }
}

fn f32_un(v: &mut Values<'_>, f: FloatUn, d: Slot, a: Slot) -> Option<()> {
    let sign = v.splat(SIGN);
    let one = v.splat(1f32.to_bits());
    if let FloatUn::Integral(FloatMode { round, flush }) = f {
        let a = v.operand(a, flush);
        let r = v.register();
        let how = match round {
            Round::Nearest => 8,
            Round::Down => 9,
            Round::Up => 10,
            Round::Zero => 11,
        };
        v.vector_with(ROUND_PS, r, 0, a, how);
        return finish_plain(v, d, r, false);
    }
    if f == FloatUn::Flush {
        // Keeps the bits of NaNs.
        let a = v.word(a);
        let r = v.register();
        v.flush(r, a);
        let float = FloatState {
            raw: false,
            flushed: true,
        };
        return v.set(RegisterClass::Word, d, [r; 2], float);
    }
    let (a, mut float) = v.float(a);
    let r = v.register();
    float.raw = true;
    match f {
        FloatUn::Neg => v.vector(XOR, r, a, sign),
        FloatUn::Abs => {
            let magnitude = v.splat(!SIGN);
            v.vector(AND, r, a, magnitude);
        }
        FloatUn::Saturate => {
            // The maximum with a NaN, or of zeros, is the second operand.
            v.vector(XOR, S, S, S);
            v.vector(MAX_PS, r, a, S);
            v.vector(MIN_PS, r, r, one);
        }
        FloatUn::Sqrt(Round::Nearest) | FloatUn::SqrtApprox => v.vector(SQRT_PS, r, 0, a),
        FloatUn::Rcp(Round::Nearest) | FloatUn::RcpApprox => {
            v.vector(LOAD, S, 0, one);
            v.vector(DIV_PS, r, S, a);
        }
        FloatUn::RsqrtApprox | FloatUn::RsqrtApproxHigh => {
            let one = v.splat_double(1f64.to_bits());
            v.vector(PS_TO_PD, S, 0, a);
            v.vector_with(UPPER_HALF, a, 0, r, 1);
            v.vector(PS_TO_PD, r, 0, r);
            for half in [S, r] {
                v.vector(SQRT_PD, half, 0, half);
                v.vector(LOAD, T, 0, one);
                v.vector(DIV_PD, half, T, half);
                v.vector(PD_TO_PS, half, 0, half);
            }
            v.vector_with(INSERT_HALF, r, S, r, 1);
        }
        _ => return None,
    }
    if !matches!(f, FloatUn::Neg | FloatUn::Abs) {
        float.flushed = false;
    }
    v.set(RegisterClass::Word, d, [r; 2], float)
}

/// Emits a conversion between integers and single-precision floats.
pub(super) fn word1(v: &mut Values<'_>, f: Word1, d: Slot, a: Slot) -> Option<()> {
    let bound = v.splat(2_147_483_648f32.to_bits());
    match f {
        Word1::S32ToF32 => {
            let (a, r) = (v.word(a), v.register());
            v.vector(DWORD_TO_PS, r, 0, a);
            v.set_word(d, r)
        }
        Word1::U32ToF32 => {
            // Both halves are exact, and their sum is rounded once.
            let (a, r) = (v.word(a), v.register());
            let (low, scale) = (v.splat(0xffff), v.splat(65_536f32.to_bits()));
            v.vector_with(SHIFT_D, 2, r, a, 16);
            v.vector(DWORD_TO_PS, r, 0, r);
            v.vector(AND, S, a, low);
            v.vector(DWORD_TO_PS, S, 0, S);
            v.vector(MUL_PS, r, r, scale);
            v.vector(ADD_PS, r, r, S);
            v.set_word(d, r)
        }
        Word1::F32ToS32 => {
            let (a, r) = (v.float(a).0, v.register());
            // 2^31 for values that do not fit; the complement for those that are too large.
            v.vector(PS_TO_DWORD, r, 0, a);
            v.vector_with(COMPARE_PS, S, a, bound, AT_LEAST);
            v.vector(XOR, r, r, S);
            v.vector_with(COMPARE_PS, S, a, a, ORDERED);
            v.vector(AND, r, r, S);
            v.set_word(d, r)
        }
        Word1::F32ToU32 => {
            let (a, r) = (v.float(a).0, v.register());
            let beyond = v.splat(4_294_967_296f32.to_bits());
            v.vector(XOR, S, S, S);
            v.vector(MAX_PS, S, a, S);
            // Converts values of at least 2^31 less 2^31.
            v.vector_with(COMPARE_PS, T, S, bound, AT_LEAST);
            v.vector(AND, r, T, bound);
            v.vector(SUB_PS, r, S, r);
            v.vector(PS_TO_DWORD, r, 0, r);
            v.vector_with(SHIFT_D, 6, T, T, 31);
            v.vector(XOR, r, r, T);
            v.vector_with(COMPARE_PS, S, S, beyond, AT_LEAST);
            v.vector(OR, r, r, S);
            v.set_word(d, r)
        }
        _ => None,
    }
}

/// Emits a conversion to double precision.
pub(super) fn widen(v: &mut Values<'_>, f: Widen, d: Slot, a: Slot) -> Option<()> {
    let a = v.word(a);
    let r = v.register_pair();
    match f {
        Widen::F32ToF64 | Widen::S32ToF64 => {
            let op = match f {
                Widen::F32ToF64 => PS_TO_PD,
                _ => DWORD_TO_PD,
            };
            v.vector(op, r[0], 0, a);
            v.extend_upper(op, r[1], a);
        }
        Widen::U32ToF64 => {
            // The bits of 2^52 plus the integer.
            let magic = v.splat_double(0x4330_0000_0000_0000);
            v.vector(ZERO_EXTEND, r[0], 0, a);
            v.extend_upper(ZERO_EXTEND, r[1], a);
            for half in r {
                v.vector(OR, half, half, magic);
                v.vector(SUB_PD, half, half, magic);
            }
        }
        Widen::Zext | Widen::Sext => return None,
    }
    v.set_double(d, r)
}

fn f64_bin(
    v: &mut Values<'_>,
    f: FloatBin,
    mode: FloatMode,
    d: Slot,
    a: Slot,
    b: Slot,
) -> Option<()> {
    nearest(mode)?;
    let nans = v.possible_nans([a, b]);
    let (a, b) = (v.double(a), v.double(b));
    let r = v.register_pair();
    // Of two NaNs, the processor returns the first operand, a GPU the second; a dividend comes
    // first on both.
    let (op, swapped): (Opcode, bool) = match f {
        FloatBin::Add => (ADD_PD, true),
        FloatBin::Mul => (MUL_PD, true),
        FloatBin::Sub => (SUB_PD, false),
        FloatBin::Div | FloatBin::DivApprox => (DIV_PD, false),
        FloatBin::Min | FloatBin::Max | FloatBin::MinNan | FloatBin::MaxNan => return None,
    };
    for half in 0..2 {
        if swapped {
            v.vector(op, r[half], b[half], a[half]);
        } else {
            v.vector(op, r[half], a[half], b[half]);
        }
    }
    if f == FloatBin::Sub && nans > 1 {
        v.correct_nans(Correction::NanSub, r, [a, b, b]);
    }
    v.set_double(d, r)
}

fn f64_un(v: &mut Values<'_>, f: FloatUn, d: Slot, a: Slot) -> Option<()> {
    if !matches!(
        f,
        FloatUn::Neg | FloatUn::Abs | FloatUn::Sqrt(Round::Nearest) | FloatUn::Rcp(Round::Nearest)
    ) {
        return None;
    }
    let a = v.double(a);
    let r = v.register_pair();
    let sign = v.splat_double(SIGN_DOUBLE);
    let magnitude = v.splat_double(!SIGN_DOUBLE);
    let one = v.splat_double(1f64.to_bits());
    for half in 0..2 {
        let (r, a) = (r[half], a[half]);
        match f {
            FloatUn::Neg | FloatUn::Abs => {
                if f == FloatUn::Neg {
                    v.vector(XOR, r, a, sign);
                } else {
                    v.vector(AND, r, a, magnitude);
                }
                // A NaN is returned unchanged.
                v.vector_with(COMPARE_PD, S, a, a, UNORDERED);
                v.vector_with(BLEND_PD, r, r, a, S << 4);
            }
            FloatUn::Rcp(_) => {
                v.vector(LOAD, S, 0, one);
                v.vector(DIV_PD, r, S, a);
            }
            _ => v.vector(SQRT_PD, r, 0, a),
        }
    }
    v.set_double(d, r)
}
