//! Lowering of conversions from and to 8-bit floats, and to TF32.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{Extra, Float8, TensorRound};
use millstream_ptx::{PtxError, Type};

impl<'a> Lowerer<'a> {
    /// Lowers `cvt` if one of the types is `e4m3x2`, `e5m2x2` or `tf32`.
    pub(super) fn convert_small(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let relu = m.take("relu");
        if m.take("tf32") {
            m.ty_of(&[Type::F32])?;
            let rounds = [
                ("rna", TensorRound::Away),
                ("rn", TensorRound::Even),
                ("rz", TensorRound::Zero),
            ];
            let mut round = m.one_of(&rounds)?;
            if round == TensorRound::Away && relu {
                return Err(m.unsupported());
            }
            if round == TensorRound::Away && m.take("satfinite") {
                round = TensorRound::AwayFinite;
            }
            let [d, a] = m.operands()?;
            let a = self.source(m, a, Type::F32)?;
            let d = self.target(m, d, Type::B32)?;
            let f = Extra::ToTensorFloat { round, relu };
            self.emit_extra(f, d, [a, a, a]);
            return Ok(());
        }
        let format = m.one_of(&[("e4m3x2", Float8::E4m3), ("e5m2x2", Float8::E5m2)])?;
        if !m.take("rn") {
            return Err(m.unsupported());
        }
        let other = m.ty_of(&[Type::F32, Type::F16x2])?;
        let saturate = m.take("satfinite");
        m.finish()?;
        match (other, saturate, m.operands) {
            (Type::F32, true, [d, a, b]) => {
                let [a, b] = self.sources(m, [a, b], Type::F32)?;
                let d = self.target(m, d, Type::B16)?;
                let f = Extra::ToFloat8 { format, relu };
                self.emit_extra(f, d, [a, b, b]);
                Ok(())
            }
            (Type::F16x2, saturate, [d, a]) => {
                let (from, to) = if saturate {
                    (Type::B32, Type::B16)
                } else {
                    (Type::B16, Type::B32)
                };
                let a = self.source(m, a, from)?;
                let d = self.target(m, d, to)?;
                let f = if saturate {
                    Extra::HalvesToFloat8 { format, relu }
                } else {
                    Extra::FromFloat8 { format, relu }
                };
                self.emit_extra(f, d, [a, a, a]);
                Ok(())
            }
            (Type::F32, true, _) => Err(m.operand_count("3")),
            (Type::F16x2, ..) => Err(m.operand_count("2")),
            _ => Err(m.unsupported()),
        }
    }
}
