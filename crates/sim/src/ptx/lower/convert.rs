//! Lowering of conversions.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{
    Bin, Convert, Extra, FloatMode, FloatUn, HalfFormat, HalfOp, Narrow, Op, RegisterClass, Round,
    Slot, Un, Widen, Window, Word1,
};
use millstream_ptx::{PtxError, Type};

/// The modifiers `.satfinite` and `.relu` of a conversion from singles to 16-bit floats.
#[derive(Clone, Copy)]
struct Clamps {
    /// Infinities become the greatest finite numbers.
    finite: bool,
    /// Negative numbers become 0.
    relu: bool,
}

impl<'a> Lowerer<'a> {
    /// Lowers `cvt`.
    pub(super) fn convert(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if m.take("pack") {
            return self.convert_packed(m);
        }
        if m.has("tf32") || m.has("e4m3x2") || m.has("e5m2x2") {
            return self.convert_small(m);
        }
        let from = m.ty()?;
        let to = m.ty()?;
        let integral_round = m.take_one(&[
            ("rni", Round::Nearest),
            ("rzi", Round::Zero),
            ("rmi", Round::Down),
            ("rpi", Round::Up),
        ]);
        let round = m.round();
        let flush = m.take("ftz");
        let saturate = m.take("sat");
        let to_half = matches!(to, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2);
        let from_single = to_half && from == Type::F32;
        let may_clamp = from_single && matches!(round, Some(Round::Nearest | Round::Zero));
        let clamps = Clamps {
            finite: may_clamp && m.take("satfinite"),
            relu: from_single && m.take("relu"),
        };
        if to == Type::Pred
            || from == Type::Pred
            || from.bytes() == 4 && from.is_float() && from != Type::F32
        {
            return Err(m.unsupported());
        }
        if matches!(to, Type::F16x2 | Type::Bf16x2) {
            return self.convert_pair(m, to, from, round, clamps);
        }
        // The conversions that require, allow and forbid a rounding mode.
        let rounded = match (from.is_float(), to.is_float()) {
            (false, false) => integral_round.is_none() && round.is_none(),
            (true, false) => integral_round.is_some() && round.is_none(),
            (false, true) => integral_round.is_none() && round.is_some(),
            (true, true) if to == from => round.is_none(),
            // Neither 16-bit format represents all values of the other; the default is round to
            // nearest.
            (true, true) if to.bytes() == from.bytes() => integral_round.is_none(),
            // Conversions to wider formats are exact. A rounding mode is allowed for `bf16` all the
            // same.
            (true, true) if to.bytes() > from.bytes() => {
                integral_round.is_none() && (round.is_none() || from == Type::Bf16)
            }
            (true, true) => integral_round.is_none() && round.is_some(),
        };
        if !rounded {
            return Err(m.unsupported());
        }
        let [d, a] = m.operands()?;
        let source = self.source_wide(m, a, from)?;
        let target = self.target_wide(m, d, to)?;
        // The conversion truncates a wider source; a source in the 64-bit file is first narrowed
        // into the 32-bit file.
        let mut a = source.slot;
        if RegisterClass::of(source.ty) == RegisterClass::Double
            && RegisterClass::of(from) == RegisterClass::Word
        {
            a = self.temporary(RegisterClass::Word)?;
            self.emit(Op::narrow(Narrow::Low, a, source.slot));
        }
        let register_bytes = target.ty.bytes();
        let how = Convert {
            to,
            from,
            round: integral_round.or(round).unwrap_or(Round::Nearest),
            integral: integral_round.is_some(),
            flush,
            saturate,
            register_bytes: u8::try_from(register_bytes).unwrap_or(8),
        };
        if !self.convert_single(how, target.slot, a)? {
            let op = simple(how, target.slot, a).unwrap_or(Op::convert(how, target.slot, a));
            self.emit(op);
        }
        self.emit_clamps(clamps, to, target.slot);
        Ok(())
    }

    /// Lowers conversions of singles to saturated or integral singles, or to 32-bit integers with
    /// any rounding, by dedicated operations. Returns `false`, and does nothing, for all others.
    fn convert_single(&mut self, how: Convert, d: Slot, a: Slot) -> Result<bool, PtxError> {
        use Type::{F32, S32, U32};
        let mode = FloatMode {
            round: how.round,
            flush: how.flush,
        };
        match (how.to, how.from, how.register_bytes) {
            (F32, F32, 4) if how.saturate && !how.integral => {
                self.emit(Op::f32_un(FloatUn::Saturate, d, a));
                if how.flush {
                    self.emit(Op::f32_un(FloatUn::Flush, d, d));
                }
            }
            (F32, F32, 4) if how.integral && !how.saturate => {
                self.emit(Op::f32_un(FloatUn::Integral(mode), d, a));
            }
            (S32 | U32, F32, 4) => {
                let mut integral = a;
                if how.round != Round::Zero {
                    integral = self.temporary(RegisterClass::Word)?;
                    self.emit(Op::f32_un(FloatUn::Integral(mode), integral, a));
                }
                let to_integer = match how.to {
                    S32 => Word1::F32ToS32,
                    _ => Word1::F32ToU32,
                };
                self.emit(Op::word1(to_integer, d, integral));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lowers `cvt.pack`: packs two saturated integers into the low bits, and a third operand above
    /// them if they leave room.
    fn convert_packed(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        const WIDTHS: [(&str, (u8, bool)); 8] = [
            ("u16", (16, false)),
            ("s16", (16, true)),
            ("u8", (8, false)),
            ("s8", (8, true)),
            ("u4", (4, false)),
            ("s4", (4, true)),
            ("u2", (2, false)),
            ("s2", (2, true)),
        ];
        let (bits, signed) = m.one_of(&WIDTHS)?;
        let third = bits < 16;
        if !m.take("sat") || third && !m.take("b32") {
            return Err(m.unsupported());
        }
        m.ty_of(&[Type::S32])?;
        m.finish()?;
        let (d, a, b, c) = match m.operands {
            [d, a, b] if !third => (d, a, b, b),
            [d, a, b, c] if third => (d, a, b, c),
            _ => return Err(m.operand_count(if third { "4" } else { "3" })),
        };
        let [a, b] = self.sources(m, [a, b], Type::S32)?;
        let c = self.source(m, c, Type::B32)?;
        let d = self.target(m, d, Type::B32)?;
        self.emit_extra(Extra::PackSaturated { bits, signed }, d, [a, b, c]);
        Ok(())
    }

    fn emit_clamps(&mut self, clamps: Clamps, ty: Type, d: Slot) {
        let operations = [(clamps.finite, HalfOp::Finite), (clamps.relu, HalfOp::Relu)];
        for (_, f) in operations.into_iter().filter(|(wanted, _)| *wanted) {
            self.emit(Op::half(
                f,
                HalfFormat {
                    brain: matches!(ty, Type::Bf16 | Type::Bf16x2),
                    packed: ty.bytes() == 4,
                },
                d,
                d,
                d,
                d,
            ));
        }
    }

    /// Lowers `cvt.rn.f16x2.f32 d, a, b`, where `a` becomes the high half.
    fn convert_pair(
        &mut self,
        m: &Mnemonic<'a>,
        to: Type,
        from: Type,
        round: Option<Round>,
        clamps: Clamps,
    ) -> Result<(), PtxError> {
        let Some(round @ (Round::Nearest | Round::Zero)) = round else {
            return Err(m.unsupported());
        };
        if from != Type::F32 {
            return Err(m.unsupported());
        }
        let [d, high, low] = m.operands()?;
        let half = if to == Type::F16x2 {
            Type::F16
        } else {
            Type::Bf16
        };
        let how = Convert::plain(half, from, round);
        let mut slots = [0; 2];
        for (slot, operand) in slots.iter_mut().zip([low, high]) {
            let a = self.source(m, operand, from)?;
            *slot = self.temporary(RegisterClass::Word)?;
            self.emit(Op::convert(how, *slot, a));
        }
        let d = self.target(m, d, to)?;
        self.emit(Op::bin32(Bin::Pack16, d, slots[0], slots[1]));
        self.emit_clamps(clamps, to, d);
        Ok(())
    }

    /// Lowers `cvta`, between offsets in a window and generic addresses.
    pub(super) fn convert_address(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U64])?;
        let to_window = m.take("to");
        let window = super::memory::window(m).ok_or_else(|| m.unsupported())?;
        let [d, a] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let d = self.target(m, d, ty)?;
        if window == Window::Global {
            self.emit_move(RegisterClass::Double, d, a);
        } else {
            let b = self.constant(RegisterClass::Double, window.base())?;
            self.emit(Op::bin64(
                if to_window { Bin::Sub } else { Bin::Add },
                d,
                a,
                b,
            ));
        }
        Ok(())
    }

    /// Lowers `isspacep`.
    pub(super) fn is_space(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let window = match m.take("shared::cluster") {
            // The only block of a cluster.
            true => Window::Shared,
            false => super::memory::window(m).ok_or_else(|| m.unsupported())?,
        };
        let [d, a] = m.operands()?;
        let a = self.source(m, a, Type::U64)?;
        let d = self.target(m, d, Type::Pred)?;
        self.emit(Op::is_space(window, d, a));
        Ok(())
    }
}

/// Returns the dedicated operation for a conversion, if there is one.
fn simple(how: Convert, d: Slot, a: Slot) -> Option<Op> {
    use Type::{B8, B16, B32, B64, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    if how.flush || how.saturate {
        return None;
    }
    let word = |f| Some(Op::word1(f, d, a));
    let widen = |f| Some(Op::widen(f, d, a));
    let nearest = how.round == Round::Nearest;
    match (how.to, how.from, how.register_bytes) {
        (S32 | U32 | B32, S32 | U32 | B32, 4) => Some(Op::un32(Un::Move, d, a)),
        (S64 | U64 | B64, S64 | U64 | B64, 8) => Some(Op::un64(Un::Move, d, a)),
        (S64 | U64 | B64, S32, 8) => widen(Widen::Sext),
        (S64 | U64 | B64, U32 | B32, 8) => widen(Widen::Zext),
        (S32 | U32 | B32, S64 | U64 | B64, 4) => Some(Op::narrow(Narrow::Low, d, a)),
        (S32 | U32, U16 | B16, 4) | (U16, S32 | U32 | B32 | U16 | S16 | B16, 2) => {
            word(Word1::Zext16)
        }
        (S32 | U32, S16, 4) => word(Word1::Sext16),
        (S32 | U32, U8 | B8, 4) | (U16 | S16, U8 | B8, 2) | (U8, _, 2 | 4)
            if how.from.bytes() <= 4 && how.from.is_integer() =>
        {
            word(Word1::Zext8)
        }
        (S32 | U32, S8, 4) => word(Word1::Sext8),
        (F32, S32, 4) if nearest => word(Word1::S32ToF32),
        (F32, U32, 4) if nearest => word(Word1::U32ToF32),
        (F32, F32, 4) if !how.integral => Some(Op::un32(Un::Move, d, a)),
        (F64, F64, 8) if !how.integral => Some(Op::un64(Un::Move, d, a)),
        (F64, F32, 8) => widen(Widen::F32ToF64),
        (F64, S32, 8) if nearest => widen(Widen::S32ToF64),
        (F64, U32, 8) if nearest => widen(Widen::U32ToF64),
        (F32, F64, 4) if nearest => Some(Op::narrow(Narrow::F64ToF32, d, a)),
        _ => None,
    }
}
