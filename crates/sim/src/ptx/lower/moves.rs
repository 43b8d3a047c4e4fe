//! Lowering of moves, including packing and unpacking.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{Bin, Join, Narrow, Op, PredOp, Prmt, RegisterClass, Slot, Un, Word1};
use millstream_ptx::{PtxError, Type, ast::Operand};

impl<'a> Lowerer<'a> {
    /// Lowers `mov`, including packing and unpacking.
    pub(super) fn mov(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if m.take("b128") {
            return self.mov_wide(m);
        }
        let ty = m.ty()?;
        if let Some(count) = m.take_one(&[("v2", 2), ("v4", 4)]) {
            return self.mov_vector(m, ty, count);
        }
        let [d, a] = m.operands()?;
        match (d, a) {
            (_, Operand::Vector(parts)) => return self.pack(m, ty, d, parts),
            (Operand::Vector(parts), _) => return self.unpack(m, ty, parts, a),
            _ => {}
        }
        if ty.bytes() == 1 && ty != Type::Pred {
            return Err(m.unsupported());
        }
        let a = self.source(m, a, ty)?;
        let d = self.target(m, d, ty)?;
        self.emit_move(RegisterClass::of(ty), d, a);
        Ok(())
    }

    /// Lowers `mov.v4`, of the elements of a vector or of a vector special register such as `%tid`.
    fn mov_vector(&mut self, m: &Mnemonic<'a>, ty: Type, count: usize) -> Result<(), PtxError> {
        let [d, a] = m.operands()?;
        let class = RegisterClass::of(ty);
        let mut sources = [0; 4];
        match a {
            Operand::Name(name) if name.starts_with('%') && count == 4 => {
                for (slot, axis) in sources.iter_mut().zip(0..) {
                    let register = self.special_axis(name, axis, class)?;
                    *slot = register.ok_or_else(|| m.mismatch(a, "expected a vector"))?;
                }
            }
            _ => {
                for (slot, operand) in sources.iter_mut().zip(Self::values(m, a, count)?) {
                    // A source may be one of the targets.
                    let value = self.source(m, operand, ty)?;
                    *slot = self.temporary(class)?;
                    self.emit_move(class, *slot, value);
                }
            }
        }
        for (slot, operand) in sources.iter().zip(Self::values(m, d, count)?) {
            let d = self.target(m, operand, ty)?;
            self.emit_move(class, d, *slot);
        }
        Ok(())
    }

    pub(super) fn emit_move(&mut self, class: RegisterClass, d: Slot, a: Slot) {
        self.emit(match class {
            RegisterClass::Word => Op::un32(Un::Move, d, a),
            RegisterClass::Double => Op::un64(Un::Move, d, a),
            RegisterClass::Predicate => Op::pred(PredOp::Move, d, a, a),
        });
    }

    /// Returns the type of each part of a packed value.
    fn part_type(m: &Mnemonic<'a>, ty: Type, parts: usize) -> Result<Type, PtxError> {
        match (ty.bytes(), parts) {
            (2, 2) | (4, 4) => Ok(Type::B8),
            (4, 2) | (8, 4) => Ok(Type::B16),
            (8, 2) => Ok(Type::B32),
            _ => Err(m.unsupported()),
        }
    }

    fn pack(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        d: &'a Operand<'a>,
        parts: &'a [Operand<'a>],
    ) -> Result<(), PtxError> {
        let part = Self::part_type(m, ty, parts.len())?;
        let slots = parts
            .iter()
            .map(|operand| self.source(m, operand, part))
            .collect::<Result<Vec<_>, _>>()?;
        let d = self.target(m, d, ty)?;
        if part == Type::B8 {
            return self.pack_bytes(d, &slots);
        }
        match *slots {
            [a, b] if part == Type::B16 => self.emit(Op::bin32(Bin::Pack16, d, a, b)),
            [a, b] => self.emit(Op::join(Join::Pack, d, a, b)),
            [a, b, c, e] => {
                let [low, high] = self.temporaries(RegisterClass::Word)?;
                self.emit(Op::bin32(Bin::Pack16, low, a, b));
                self.emit(Op::bin32(Bin::Pack16, high, c, e));
                self.emit(Op::join(Join::Pack, d, low, high));
            }
            _ => return Err(m.unsupported()),
        }
        Ok(())
    }

    fn unpack(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        parts: &'a [Operand<'a>],
        a: &'a Operand<'a>,
    ) -> Result<(), PtxError> {
        let part = Self::part_type(m, ty, parts.len())?;
        let a = self.source(m, a, ty)?;
        let targets = parts
            .iter()
            .map(|operand| self.target(m, operand, part))
            .collect::<Result<Vec<_>, _>>()?;
        if part == Type::B8 {
            return self.unpack_bytes(&targets, a);
        }
        match *targets {
            [low, high] if part == Type::B16 => {
                // The source may be one of the targets.
                let whole = self.temporary(RegisterClass::Word)?;
                self.emit(Op::un32(Un::Move, whole, a));
                self.unpack_16(low, high, whole);
            }
            [low, high] => self.unpack_64(low, high, a),
            [first, second, third, fourth] => {
                let [low, high] = self.temporaries(RegisterClass::Word)?;
                self.unpack_64(low, high, a);
                self.unpack_16(first, second, low);
                self.unpack_16(third, fourth, high);
            }
            _ => return Err(m.unsupported()),
        }
        Ok(())
    }

    fn pack_bytes(&mut self, d: Slot, bytes: &[Slot]) -> Result<(), PtxError> {
        let zero = self.constant(RegisterClass::Word, 0)?;
        let mut pairs = [zero; 2];
        for (pair, bytes) in pairs.iter_mut().zip(bytes.chunks_exact(2)) {
            *pair = self.temporary(RegisterClass::Word)?;
            self.permute(*pair, [bytes[0], bytes[1]], 0x0040)?;
        }
        self.permute(d, pairs, 0x5410)
    }

    fn unpack_bytes(&mut self, targets: &[Slot], a: Slot) -> Result<(), PtxError> {
        let zero = self.constant(RegisterClass::Word, 0)?;
        for (d, index) in targets.iter().zip(0..) {
            self.permute(*d, [a, zero], 0x4440 | index)?;
        }
        Ok(())
    }

    /// Emits a byte permutation of two registers with a constant selector.
    fn permute(&mut self, d: Slot, [a, b]: [Slot; 2], picks: u64) -> Result<(), PtxError> {
        let c = self.constant(RegisterClass::Word, picks)?;
        self.emit(Op::prmt(Prmt::Index, d, a, b, c));
        Ok(())
    }

    /// Emits the halves of a 64-bit register.
    pub(super) fn unpack_64(&mut self, low: Slot, high: Slot, a: Slot) {
        self.emit(Op::narrow(Narrow::Low, low, a));
        self.emit(Op::narrow(Narrow::High, high, a));
    }

    fn unpack_16(&mut self, low: Slot, high: Slot, a: Slot) {
        self.emit(Op::word1(Word1::Zext16, low, a));
        self.emit(Op::word1(Word1::High16, high, a));
    }
}
