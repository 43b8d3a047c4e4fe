//! Lowering of arithmetic on 16-bit floats, one or two per register.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{Bin, HalfFormat, HalfOp, Op, RegisterClass, Round, Slot};
use millstream_ptx::{PtxError, Type};

impl<'a> Lowerer<'a> {
    /// Lowers `add`, `sub`, `mul`, `fma`, `neg`, `abs`, `min` and `max` of f16, f16x2, bf16 and
    /// bf16x2.
    pub(super) fn half(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let format = HalfFormat::of(ty);
        // The only rounding mode is round to nearest.
        let rounded = !matches!(m.base, "min" | "max" | "neg" | "abs");
        if rounded && !matches!(m.round(), None | Some(Round::Nearest)) {
            return Err(m.unsupported());
        }
        let nan = matches!(m.base, "min" | "max") && m.take("NaN");
        let relu = m.base == "fma" && m.take("relu");
        let saturate = rounded && !format.brain && m.take("sat");
        let flush = !format.brain && m.take("ftz");
        let magnitudes = matches!(m.base, "min" | "max") && m.take("xorsign") && m.take("abs");
        let (f, count) = match (m.base, nan) {
            ("add", _) => (HalfOp::Add, 2),
            ("sub", _) => (HalfOp::Sub, 2),
            ("mul", _) => (HalfOp::Mul, 2),
            ("fma", _) => (HalfOp::Fma, 3),
            ("neg", _) => (HalfOp::Neg, 1),
            ("abs", _) => (HalfOp::Abs, 1),
            ("min", false) => (HalfOp::Min, 2),
            ("min", true) => (HalfOp::MinNan, 2),
            ("max", false) => (HalfOp::Max, 2),
            ("max", true) => (HalfOp::MaxNan, 2),
            _ => return Err(m.unsupported()),
        };
        m.finish()?;
        let [target, sources @ ..] = m.operands else {
            return Err(m.operand_count(&(count + 1).to_string()));
        };
        if sources.len() != count {
            return Err(m.operand_count(&(count + 1).to_string()));
        }
        let mut slots = [0; 3];
        for (slot, operand) in slots.iter_mut().zip(sources) {
            *slot = self.source(m, operand, bits(ty))?;
            if flush {
                *slot = self.half_of(HalfOp::Flush, format, *slot)?;
            }
        }
        let d = self.target(m, target, bits(ty))?;
        let sign = if magnitudes {
            let sign = self.product_sign(format, [slots[0], slots[1]])?;
            for slot in &mut slots[..2] {
                *slot = self.half_of(HalfOp::Abs, format, *slot)?;
            }
            Some(sign)
        } else {
            None
        };
        self.emit(Op::half(f, format, d, slots[0], slots[1], slots[2]));
        let behind = [
            (flush, HalfOp::Flush),
            (relu, HalfOp::Relu),
            (saturate, HalfOp::Saturate),
        ];
        for (_, f) in behind.into_iter().filter(|(wanted, _)| *wanted) {
            self.emit(Op::half(f, format, d, d, d, d));
        }
        if let Some(b) = sign {
            self.emit(Op::bin32(Bin::Or, d, d, b));
        }
        Ok(())
    }

    /// Emits a unary operation, and returns the slot of the result.
    fn half_of(&mut self, f: HalfOp, format: HalfFormat, a: Slot) -> Result<Slot, PtxError> {
        let d = self.temporary(RegisterClass::Word)?;
        self.emit(Op::half(f, format, d, a, a, a));
        Ok(d)
    }

    /// Emits the sign bits of the product of two operands, and returns their slot.
    fn product_sign(&mut self, format: HalfFormat, [a, b]: [Slot; 2]) -> Result<Slot, PtxError> {
        let signs = if format.packed { 0x8000_8000 } else { 0x8000 };
        let (d, mask) = (
            self.temporary(RegisterClass::Word)?,
            self.constant(RegisterClass::Word, signs)?,
        );
        for (f, a, b) in [(Bin::Xor, a, b), (Bin::And, d, mask)] {
            self.emit(Op::bin32(f, d, a, b));
        }
        Ok(d)
    }
}

/// Returns the untyped type of the same size, which the bits of a constant have.
fn bits(ty: Type) -> Type {
    if ty.bytes() == 2 {
        Type::B16
    } else {
        Type::B32
    }
}
