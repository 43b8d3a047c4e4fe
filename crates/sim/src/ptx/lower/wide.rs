//! Lowering of 128-bit registers: moves, and the operands of loads, stores and atomics.

use super::{lowerer::Lowerer, mnemonic::Mnemonic, symbols::Symbol};
use crate::ptx::ir::{Join, Op, RegisterClass, Slot};
use millstream_ptx::{PtxError, Type, ast::Operand};

impl<'a> Lowerer<'a> {
    /// Returns the slots of the lower and upper half of a 128-bit register.
    pub(super) fn wide(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
    ) -> Result<[Slot; 2], PtxError> {
        if let Operand::Name(name) = operand
            && let Symbol::Wide(halves) = self.resolve(name)?
        {
            return Ok(halves);
        }
        Err(m.mismatch(operand, "expected a 128-bit register"))
    }

    /// Lowers `mov.b128`, including packing and unpacking.
    pub(super) fn mov_wide(&mut self, m: &Mnemonic<'a>) -> Result<(), PtxError> {
        let [target, source] = m.operands()?;
        match (target, source) {
            (Operand::Vector(parts), _) => {
                let from = self.wide(m, source)?;
                self.unpack_wide(m, parts, from)
            }
            (_, Operand::Vector(parts)) => {
                let to = self.wide(m, target)?;
                self.pack_wide(m, to, parts)
            }
            // A constant fills the lower half. The PTX ISA does not define the upper half of a
            // negative one.
            (_, Operand::Int(value)) if value.cast_signed() >= 0 => {
                let [low, high] = self.wide(m, target)?;
                for (d, bits) in [(low, *value), (high, 0)] {
                    let a = self.constant(RegisterClass::Double, bits)?;
                    self.emit_move(RegisterClass::Double, d, a);
                }
                Ok(())
            }
            _ => {
                let (to, from) = (self.wide(m, target)?, self.wide(m, source)?);
                for (d, a) in to.into_iter().zip(from) {
                    self.emit_move(RegisterClass::Double, d, a);
                }
                Ok(())
            }
        }
    }

    fn pack_wide(
        &mut self,
        m: &Mnemonic<'a>,
        to: [Slot; 2],
        parts: &'a [Operand<'a>],
    ) -> Result<(), PtxError> {
        let part = match parts.len() {
            2 => Type::B64,
            4 => Type::B32,
            _ => return Err(m.unsupported()),
        };
        let slots = parts
            .iter()
            .map(|operand| self.source(m, operand, part))
            .collect::<Result<Vec<_>, _>>()?;
        for (d, pair) in to.into_iter().zip(slots.chunks(parts.len() / 2)) {
            match *pair {
                [a, b] => self.emit(Op::join(Join::Pack, d, a, b)),
                [a] => self.emit_move(RegisterClass::Double, d, a),
                _ => {}
            }
        }
        Ok(())
    }

    fn unpack_wide(
        &mut self,
        m: &Mnemonic<'a>,
        parts: &'a [Operand<'a>],
        from: [Slot; 2],
    ) -> Result<(), PtxError> {
        let part = match parts.len() {
            2 => Type::B64,
            4 => Type::B32,
            _ => return Err(m.unsupported()),
        };
        let targets = parts
            .iter()
            .map(|operand| self.target(m, operand, part))
            .collect::<Result<Vec<_>, _>>()?;
        for (a, pair) in from.into_iter().zip(targets.chunks(parts.len() / 2)) {
            match *pair {
                [low, high] => self.unpack_64(low, high, a),
                [d] => self.emit_move(RegisterClass::Double, d, a),
                _ => {}
            }
        }
        Ok(())
    }
}
