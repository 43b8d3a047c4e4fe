//! Lowering of single- and double-precision arithmetic.

use super::unsupported::NEWER;
use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{
    Bin, FloatBin, FloatMode, FloatUn, HalfFormat, HalfOp, Op, RegisterClass, Round, Slot, Test,
};
use millstream_ptx::{PtxError, Type};

impl<'a> Lowerer<'a> {
    /// Lowers `add`, `sub`, `mul`, `mad`, `fma`, `div`, `neg`, `abs`, `min` and `max` of f32 and
    /// f64.
    pub(super) fn float(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let single = ty == Type::F32;
        let flush = single && m.take("ftz");
        match m.base {
            "neg" | "abs" => {
                let negates = m.base == "neg";
                let f = if negates { FloatUn::Neg } else { FloatUn::Abs };
                return self.float_unary(m, ty, f, flush);
            }
            "min" | "max" if single && m.has("xorsign") => {
                return self.minimum_of_magnitudes(m, flush);
            }
            // The minimum of three numbers.
            "min" | "max" if single && m.operands.len() == 4 => return Err(m.refuse(NEWER)),
            "min" | "max" => {
                let f = min_or_max(m, single);
                return self.float_binary(m, ty, f, FloatMode::nearest(flush), false);
            }
            _ => {}
        }
        let round = m.round();
        let saturate = single && m.base != "div" && m.take("sat");
        let mode = FloatMode {
            round: round.unwrap_or(Round::Nearest),
            flush,
        };
        let base = m.base;
        match base {
            "add" => self.float_binary(m, ty, FloatBin::Add, mode, saturate),
            "sub" => self.float_binary(m, ty, FloatBin::Sub, mode, saturate),
            "mul" => self.float_binary(m, ty, FloatBin::Mul, mode, saturate),
            "div" if round.is_some() => self.float_binary(m, ty, FloatBin::Div, mode, false),
            // The approximate divisions are computed exactly, well within their permitted error of
            // 2 ulp.
            "div" if single && m.take("full") => {
                self.float_binary(m, ty, FloatBin::Div, mode, false)
            }
            "div" if single && m.take("approx") => {
                self.float_binary(m, ty, FloatBin::DivApprox, mode, false)
            }
            "fma" | "mad" if round.is_some() => {
                let [d, a, b, c] = m.operands()?;
                let [a, b, c] = self.sources(m, [a, b, c], ty)?;
                let d = self.target(m, d, ty)?;
                self.emit(Op::fma(ty, mode, d, a, b, c));
                self.saturate(d, saturate);
                Ok(())
            }
            _ => Err(m.unsupported()),
        }
    }

    /// Lowers `min.xorsign.abs` and `max.xorsign.abs`: the minimum or maximum of the magnitudes,
    /// with the sign of the product.
    fn minimum_of_magnitudes(&mut self, m: &mut Mnemonic<'a>, flush: bool) -> Result<(), PtxError> {
        if !m.take("xorsign") || !m.take("abs") {
            return Err(m.unsupported());
        }
        let f = min_or_max(m, true);
        let [d, a, b] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], Type::F32)?;
        let d = self.target(m, d, Type::F32)?;
        let sign = self.temporary(RegisterClass::Word)?;
        let [x, y] = self.temporaries(RegisterClass::Word)?;
        let top = self.constant(RegisterClass::Word, 0x8000_0000)?;
        self.emit(Op::bin32(Bin::Xor, sign, a, b));
        self.emit(Op::bin32(Bin::And, sign, sign, top));
        for (d, a) in [(x, a), (y, b)] {
            self.emit(Op::f32_un(FloatUn::Abs, d, a));
        }
        let mode = FloatMode::nearest(flush);
        self.emit(Op::f32_bin(f, mode, x, x, y));
        self.emit(Op::bin32(Bin::Or, d, x, sign));
        Ok(())
    }

    fn saturate(&mut self, d: Slot, saturate: bool) {
        if saturate {
            self.emit(Op::f32_un(FloatUn::Saturate, d, d));
        }
    }

    fn float_binary(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        f: FloatBin,
        mode: FloatMode,
        saturate: bool,
    ) -> Result<(), PtxError> {
        let [d, a, b] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::float_bin(ty, f, mode, d, a, b));
        self.saturate(d, saturate);
        Ok(())
    }

    fn float_unary(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        f: FloatUn,
        flush: bool,
    ) -> Result<(), PtxError> {
        let [d, a] = m.operands()?;
        let mut a = self.source(m, a, ty)?;
        let d = self.target(m, d, ty)?;
        if flush {
            a = self.flushed(a)?;
        }
        self.emit(Op::float_un(ty, f, d, a));
        if flush {
            self.emit(Op::f32_un(FloatUn::Flush, d, d));
        }
        Ok(())
    }

    /// Emits a flush of subnormals of `a` to zero, and returns the slot of the result.
    pub(super) fn flushed(&mut self, a: Slot) -> Result<Slot, PtxError> {
        let d = self.temporary(RegisterClass::Word)?;
        self.emit(Op::f32_un(FloatUn::Flush, d, a));
        Ok(d)
    }

    /// Lowers `rcp`, `sqrt`, `rsqrt`, `ex2`, `lg2`, `sin`, `cos` and `tanh`.
    pub(super) fn float_function(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty()?;
        let approx = m.take("approx");
        let round = m.round();
        let flush = m.take("ftz");
        if let (Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2, true, None) =
            (ty, approx, round)
        {
            let f = match m.base {
                "ex2" => HalfOp::Ex2,
                "tanh" => HalfOp::Tanh,
                _ => return Err(m.unsupported()),
            };
            let format = HalfFormat::of(ty);
            let [d, a] = m.operands()?;
            let a = self.source(m, a, ty)?;
            let d = self.target(m, d, ty)?;
            self.emit(Op::half(f, format, d, a, a, a));
            return Ok(());
        }
        let double = ty == Type::F64;
        let f = match (m.base, approx, round) {
            ("rcp", false, Some(round)) => FloatUn::Rcp(round),
            ("sqrt", false, Some(round)) => FloatUn::Sqrt(round),
            ("rcp", true, None) if !double || flush => FloatUn::RcpApprox,
            ("rsqrt", true, None) if double && flush => FloatUn::RsqrtApproxHigh,
            ("rsqrt", true, None) => FloatUn::RsqrtApprox,
            ("sqrt", true, None) if !double => FloatUn::SqrtApprox,
            ("ex2", true, None) if !double => FloatUn::Ex2Approx,
            ("lg2", true, None) if !double => FloatUn::Lg2Approx,
            ("sin", true, None) if !double => FloatUn::SinApprox,
            ("cos", true, None) if !double => FloatUn::CosApprox,
            ("tanh", true, None) if !double && !flush => FloatUn::TanhApprox,
            _ => return Err(m.unsupported()),
        };
        if !matches!(ty, Type::F32 | Type::F64) || (double && flush && !approx) {
            return Err(m.unsupported());
        }
        self.float_unary(m, ty, f, flush && !double)
    }

    /// Lowers `copysign d, a, b`: the sign of `a` and the magnitude of `b`.
    pub(super) fn copy_sign(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::F32, Type::F64])?;
        let [d, a, b] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::bin(ty, Bin::CopySign, d, a, b));
        Ok(())
    }

    /// Lowers `testp`.
    pub(super) fn test_class(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::F32, Type::F64])?;
        let tests = [
            ("finite", Test::Finite),
            ("infinite", Test::Infinite),
            ("number", Test::Number),
            ("notanumber", Test::NotANumber),
            ("normal", Test::Normal),
            ("subnormal", Test::Subnormal),
        ];
        let f = m.one_of(&tests)?;
        let [d, a] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let d = self.target(m, d, Type::Pred)?;
        self.emit(Op::test(ty, f, d, a));
        Ok(())
    }
}

/// Takes `.NaN`, if the type has it, and returns the minimum or maximum of the mnemonic.
fn min_or_max(m: &mut Mnemonic<'_>, has_nan: bool) -> FloatBin {
    match (m.base, has_nan && m.take("NaN")) {
        ("min", false) => FloatBin::Min,
        ("min", true) => FloatBin::MinNan,
        (_, false) => FloatBin::Max,
        (_, true) => FloatBin::MaxNan,
    }
}
