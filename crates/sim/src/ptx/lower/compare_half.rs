//! Lowering of comparisons of 16-bit floats, which are compared as singles.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{Bin, Convert, Op, PredOp, RegisterClass, Round, Slot, Word1};
use millstream_ptx::{PtxError, Type, ast::Operand};

/// A comparison's result, its operands, and the boolean operation and predicate to combine it with.
type Compared<'a> = (
    &'a Operand<'a>,
    [&'a Operand<'a>; 2],
    Option<(PredOp, Slot)>,
);

impl<'a> Lowerer<'a> {
    /// Emits the conversion of a 16-bit float to single precision, and returns its slot.
    pub(super) fn single(&mut self, ty: Type, a: Slot) -> Result<Slot, PtxError> {
        let d = self.temporary(RegisterClass::Word)?;
        let how = Convert::plain(Type::F32, ty, Round::Nearest);
        self.emit(Op::convert(how, d, a));
        Ok(d)
    }

    /// Emits comparisons of both halves of two registers, each combined with a predicate by
    /// `boolean`, if given. Returns the slots of the two results.
    fn compare_pair(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        relation: &str,
        operands: [&'a Operand<'a>; 2],
        boolean: Option<(PredOp, Slot)>,
    ) -> Result<[Slot; 2], PtxError> {
        let half = if ty == Type::F16x2 {
            Type::F16
        } else {
            Type::Bf16
        };
        let mut sources = [0; 2];
        for (source, operand) in sources.iter_mut().zip(operands) {
            *source = self.source(m, operand, Type::B32)?;
        }
        let mut results = [0; 2];
        for (result, part) in results.iter_mut().zip([Word1::Zext16, Word1::High16]) {
            let mut values = [0; 2];
            for (value, a) in values.iter_mut().zip(sources) {
                let d = self.temporary(RegisterClass::Word)?;
                self.emit(Op::word1(part, d, a));
                *value = self.single(half, d)?;
            }
            let d = self.temporary(RegisterClass::Predicate)?;
            self.compare_slots(m, relation, Type::F32, false, d, values)?;
            if let Some((f, b)) = boolean {
                self.emit(Op::pred(f, d, d, b));
            }
            *result = d;
        }
        Ok(results)
    }

    /// Returns the operands of a comparison, whose last operand is a predicate if there is a
    /// boolean operation.
    fn compared(
        &mut self,
        m: &Mnemonic<'a>,
        boolean: Option<PredOp>,
    ) -> Result<Compared<'a>, PtxError> {
        match (m.operands, boolean) {
            ([d, a, b], None) => Ok((d, [a, b], None)),
            ([d, a, b, c], Some(f)) => {
                let c = self.source(m, c, Type::Pred)?;
                Ok((d, [a, b], Some((f, c))))
            }
            _ => Err(m.operand_count(if boolean.is_some() { "4" } else { "3" })),
        }
    }

    /// Lowers `setp` of pairs. The first result compares the low halves.
    pub(super) fn set_predicates_of_pair(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        relation: &str,
        boolean: Option<PredOp>,
    ) -> Result<(), PtxError> {
        let (target, operands, boolean) = self.compared(m, boolean)?;
        let Operand::Pair(p, q) = target else {
            return Err(m.mismatch(target, "expected two predicates"));
        };
        self.keep_guard()?;
        let results = self.compare_pair(m, ty, relation, operands, boolean)?;
        for (name, a) in [*p, *q].into_iter().zip(results) {
            if name != "_" {
                let d = self.predicate(name)?;
                self.emit_move(RegisterClass::Predicate, d, a);
            }
        }
        Ok(())
    }

    /// Lowers `set` of pairs: 1.0 or all ones in each half, by the type of the result.
    pub(super) fn set_pair(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        result: Type,
        relation: &str,
        boolean: Option<PredOp>,
    ) -> Result<(), PtxError> {
        let one = match result {
            Type::F16x2 if ty == Type::F16x2 => 0x3c00,
            Type::Bf16x2 if ty == Type::Bf16x2 => 0x3f80,
            Type::U32 | Type::S32 => 0xffff,
            _ => return Err(m.unsupported()),
        };
        let (target, operands, boolean) = self.compared(m, boolean)?;
        let results = self.compare_pair(m, ty, relation, operands, boolean)?;
        let [a, b] = self.constants(RegisterClass::Word, [one, 0])?;
        let mut halves = [0; 2];
        for (half, p) in halves.iter_mut().zip(results) {
            *half = self.temporary(RegisterClass::Word)?;
            self.emit(Op::select32(*half, a, b, p));
        }
        let d = self.target(m, target, Type::B32)?;
        self.emit(Op::bin32(Bin::Pack16, d, halves[0], halves[1]));
        Ok(())
    }
}
