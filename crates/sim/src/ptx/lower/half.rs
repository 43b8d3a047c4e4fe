//! Arithmetic on 16-bit floats, one or two to a register.

use super::mnemonic::Mnemonic;
use super::{Lowerer, PtxError};
use crate::ptx::code::{HalfFormat, HalfOp, Op, Round};
use crate::ptx::types::Type;

impl<'a> Lowerer<'a> {
    /// `add`, `sub`, `mul`, `fma`, `neg`, `abs`, `min`, `max` of f16, f16x2, bf16 and bf16x2.
    pub(super) fn half(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let format = HalfFormat {
            brain: matches!(ty, Type::Bf16 | Type::Bf16x2),
            packed: matches!(ty, Type::F16x2 | Type::Bf16x2),
        };
        // Only rounding to nearest exists, and flushing subnormals is not done here.
        let rounded = !matches!(m.base, "min" | "max" | "neg" | "abs");
        if rounded && !matches!(m.round(), None | Some(Round::Nearest)) {
            return Err(m.unsupported());
        }
        let nan = matches!(m.base, "min" | "max") && m.take("NaN");
        let relu = m.base == "fma" && m.take("relu");
        let saturate = rounded && !format.brain && m.take("sat");
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
        }
        let d = self.target(m, target, bits(ty))?;
        self.emit(Op::Half {
            f,
            format,
            d,
            a: slots[0],
            b: slots[1],
            c: slots[2],
        });
        if saturate || relu {
            self.emit(Op::Half {
                f: if relu { HalfOp::Relu } else { HalfOp::Saturate },
                format,
                d,
                a: d,
                b: d,
                c: d,
            });
        }
        Ok(())
    }
}

/// The untyped bits of the same size: constants are written as those.
fn bits(ty: Type) -> Type {
    if ty.bytes() == 2 { Type::B16 } else { Type::B32 }
}
