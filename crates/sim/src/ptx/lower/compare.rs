//! Lowering of comparisons and selections.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{Compare, CompareFloat, Op, PredOp, RegisterClass, Slot, Word1};
use millstream_ptx::{PtxError, Type, ast::Operand};

/// The boolean operations of `setp` and `set`, with those for the complemented comparison.
const BOOLEANS: [(&str, (PredOp, PredOp)); 3] = [
    ("and", (PredOp::And, PredOp::NotAnd)),
    ("or", (PredOp::Or, PredOp::NotOr)),
    ("xor", (PredOp::Xor, PredOp::NotXor)),
];

const RELATIONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

impl<'a> Lowerer<'a> {
    /// Emits a comparison of two operands by `relation` into the predicate `d`.
    fn compare(
        &mut self,
        m: &Mnemonic<'a>,
        relation: &str,
        ty: Type,
        flush: bool,
        d: Slot,
        operands: [&'a Operand<'a>; 2],
    ) -> Result<(), PtxError> {
        let [a, b] = operands;
        if matches!(ty, Type::F16 | Type::Bf16) {
            // Singles represent every 16-bit float exactly.
            let [a, b] = self.sources(m, [a, b], Type::B16)?;
            let (a, b) = (self.single(ty, a)?, self.single(ty, b)?);
            return self.compare_slots(m, relation, Type::F32, false, d, [a, b]);
        }
        let [a, b] = self.sources(m, [a, b], ty)?;
        self.compare_slots(m, relation, ty, flush, d, [a, b])
    }

    /// Emits a comparison of two slots by `relation` into the predicate `d`.
    pub(super) fn compare_slots(
        &mut self,
        m: &Mnemonic<'a>,
        relation: &str,
        ty: Type,
        flush: bool,
        d: Slot,
        [mut a, mut b]: [Slot; 2],
    ) -> Result<(), PtxError> {
        let swap = matches!(relation, "gt" | "ge" | "hi" | "hs" | "gtu" | "geu");
        if ty.is_float() {
            let f = match relation {
                "eq" => CompareFloat::Eq,
                "ne" => CompareFloat::Ne,
                "lt" | "gt" => CompareFloat::Lt,
                "le" | "ge" => CompareFloat::Le,
                "equ" => CompareFloat::EqU,
                "neu" => CompareFloat::NeU,
                "ltu" | "gtu" => CompareFloat::LtU,
                "leu" | "geu" => CompareFloat::LeU,
                "num" => CompareFloat::Num,
                "nan" => CompareFloat::Nan,
                _ => return Err(m.unsupported()),
            };
            if flush {
                (a, b) = (self.flushed(a)?, self.flushed(b)?);
            }
            if swap {
                (a, b) = (b, a);
            }
            self.emit(Op::cmp_float(ty, f, d, a, b));
            return Ok(());
        }
        let signed = ty.is_signed();
        let f = match relation {
            "eq" => Compare::Eq,
            "ne" => Compare::Ne,
            "lt" | "gt" if signed => Compare::LtS,
            "le" | "ge" if signed => Compare::LeS,
            "lt" | "gt" | "lo" | "hi" => Compare::LtU,
            "le" | "ge" | "ls" | "hs" => Compare::LeU,
            _ => return Err(m.unsupported()),
        };
        if ty == Type::S16 {
            for slot in [&mut a, &mut b] {
                let d = self.temporary(RegisterClass::Word)?;
                self.emit(Op::word1(Word1::Sext16, d, *slot));
                *slot = d;
            }
        }
        if swap {
            (a, b) = (b, a);
        }
        self.emit(Op::cmp(ty, f, d, a, b));
        Ok(())
    }

    fn relation(m: &mut Mnemonic<'a>) -> Result<&'static str, PtxError> {
        let relation = RELATIONS.iter().find(|relation| m.take(relation));
        relation.copied().ok_or_else(|| m.unsupported())
    }

    pub(super) fn compared_type(m: &mut Mnemonic<'a>) -> Result<Type, PtxError> {
        let ty = m.ty()?;
        match ty {
            Type::B8 | Type::U8 | Type::S8 | Type::Pred => Err(m.unsupported()),
            _ => Ok(ty),
        }
    }

    /// Lowers `setp`.
    pub(super) fn set_predicate(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = Self::compared_type(m)?;
        let relation = Self::relation(m)?;
        let boolean = m.take_one(&BOOLEANS);
        let flush = matches!(ty, Type::F32 | Type::F16 | Type::F16x2) && m.take("ftz");
        m.finish()?;
        if matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.set_predicates_of_pair(m, ty, relation, boolean.map(|(f, _)| f));
        }
        let (target, a, b, c) = match (m.operands, boolean) {
            ([target, a, b], None) => (target, a, b, None),
            ([target, a, b, c], Some(boolean)) => (target, a, b, Some((c, boolean))),
            _ => return Err(m.operand_count(if boolean.is_some() { "4" } else { "3" })),
        };
        let (p, q) = match target {
            Operand::Pair(p, q) => (*p, Some(*q)),
            Operand::Name(p) => (*p, None),
            _ => return Err(m.mismatch(target, "expected a predicate")),
        };
        if c.is_none() && q.is_none() {
            let d = self.target(m, target, Type::Pred)?;
            return self.compare(m, relation, ty, flush, d, [a, b]);
        }
        self.keep_guard()?;
        let t = self.temporary(RegisterClass::Predicate)?;
        self.compare(m, relation, ty, flush, t, [a, b])?;
        let (c, (first, second)) = match c {
            Some((c, boolean)) => (self.source(m, c, Type::Pred)?, boolean),
            None => (t, (PredOp::Move, PredOp::Not)),
        };
        // Compute both results before writing either, because `c` may be one of them.
        let results = [(Some(p), first), (q, second)];
        let mut writes = [None; 2];
        for (write, (name, f)) in writes.iter_mut().zip(results) {
            if let Some(name) = name.filter(|name| *name != "_") {
                let value = self.temporary(RegisterClass::Predicate)?;
                self.emit(Op::pred(f, value, t, c));
                *write = Some((self.predicate(name)?, value));
            }
        }
        for (d, a) in writes.into_iter().flatten() {
            self.emit(Op::pred(PredOp::Move, d, a, a));
        }
        Ok(())
    }

    /// Lowers `set`: all ones or 1.0 if the comparison holds, else 0.
    pub(super) fn set(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = Self::compared_type(m)?;
        let result = m.ty()?;
        let relation = Self::relation(m)?;
        let boolean = m.take_one(&BOOLEANS);
        let flush = matches!(ty, Type::F32 | Type::F16 | Type::F16x2) && m.take("ftz");
        m.finish()?;
        if matches!(ty, Type::F16x2 | Type::Bf16x2) {
            return self.set_pair(m, ty, result, relation, boolean.map(|(f, _)| f));
        }
        let one = true_value(result, ty).ok_or_else(|| m.unsupported())?;
        let (d, a, b, c) = match (m.operands, boolean) {
            ([d, a, b], None) => (d, a, b, None),
            ([d, a, b, c], Some((f, _))) => (d, a, b, Some((c, f))),
            _ => return Err(m.operand_count(if boolean.is_some() { "4" } else { "3" })),
        };
        let p = self.temporary(RegisterClass::Predicate)?;
        self.compare(m, relation, ty, flush, p, [a, b])?;
        if let Some((c, f)) = c {
            let c = self.source(m, c, Type::Pred)?;
            self.emit(Op::pred(f, p, p, c));
        }
        let [a, b] = self.constants(RegisterClass::Word, [one, 0])?;
        let d = self.target(m, d, result)?;
        self.emit(Op::select32(d, a, b, p));
        Ok(())
    }

    fn selected_type(m: &mut Mnemonic<'a>) -> Result<Type, PtxError> {
        let ty = m.ty()?;
        match ty {
            Type::Pred => Err(m.unsupported()),
            _ if ty.bytes() == 1 => Err(m.unsupported()),
            _ => Ok(ty),
        }
    }

    /// Lowers `selp`.
    pub(super) fn select(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = Self::selected_type(m)?;
        let [d, a, b, p] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let p = self.source(m, p, Type::Pred)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::select(ty, d, a, b, p));
        Ok(())
    }

    /// Lowers `slct`: `a` if `c` is at least 0, else `b`. A NaN selects `b`.
    pub(super) fn select_by_sign(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let sign = m.ty_of(&[Type::S32, Type::F32])?;
        let ty = Self::selected_type(m)?;
        let flush = sign == Type::F32 && m.take("ftz");
        let [d, a, b, c] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let mut c = self.source(m, c, sign)?;
        let zero = self.constant(RegisterClass::Word, 0)?;
        let p = self.temporary(RegisterClass::Predicate)?;
        if sign == Type::F32 {
            if flush {
                c = self.flushed(c)?;
            }
            self.emit(Op::cmp_f32(CompareFloat::Le, p, zero, c));
        } else {
            self.emit(Op::cmp32(Compare::LeS, p, zero, c));
        }
        let d = self.target(m, d, ty)?;
        self.emit(Op::select(ty, d, a, b, p));
        Ok(())
    }
}

/// Returns the value of `set` for a relation that holds: 1.0 or all ones. Only comparisons of
/// 16-bit floats have 16-bit results.
fn true_value(result: Type, compared: Type) -> Option<u64> {
    let half = matches!(compared, Type::F16 | Type::Bf16);
    match result {
        Type::F32 => Some(u64::from(1f32.to_bits())),
        Type::U32 | Type::S32 => Some(u64::from(u32::MAX)),
        Type::U16 | Type::S16 if half => Some(u64::from(u16::MAX)),
        Type::F16 if half => Some(0x3c00),
        Type::Bf16 if half => Some(0x3f80),
        _ => None,
    }
}
