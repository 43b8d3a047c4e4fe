//! Lowering of logic, shifts, bit fields and dot products.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{
    Bin, Compare, Narrow, Op, PredOp, Prmt, RegisterClass, Shift, Un, Word1, Word3,
};
use millstream_ptx::{PtxError, Type, ast::Operand};

/// The types of shifts, those of left shifts first.
const TYPES: [Type; 9] = {
    use Type::{B16, B32, B64, S16, S32, S64, U16, U32, U64};
    [B16, B32, B64, U16, S16, U32, S32, U64, S64]
};

impl<'a> Lowerer<'a> {
    /// Lowers `and`, `or`, `xor`, `not` and `cnot`.
    pub(super) fn logic(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::Pred, Type::B16, Type::B32, Type::B64])?;
        if matches!(m.base, "not" | "cnot") {
            let [d, a] = m.operands()?;
            let a = self.source(m, a, ty)?;
            let d = self.target(m, d, ty)?;
            let count = m.base == "cnot";
            match ty {
                Type::Pred if !count => self.emit(Op::pred(PredOp::Not, d, a, a)),
                Type::Pred => return Err(m.unsupported()),
                _ => {
                    self.emit(Op::un(ty, if count { Un::Cnot } else { Un::Not }, d, a));
                    self.cut(d, ty);
                }
            }
            return Ok(());
        }
        let [d, a, b] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let d = self.target(m, d, ty)?;
        let (pred, bits) = match m.base {
            "and" => (PredOp::And, Bin::And),
            "or" => (PredOp::Or, Bin::Or),
            _ => (PredOp::Xor, Bin::Xor),
        };
        self.emit(match ty {
            Type::Pred => Op::pred(pred, d, a, b),
            _ => Op::bin(ty, bits, d, a, b),
        });
        Ok(())
    }

    /// Lowers `shl` and `shr`. The shift amount is 32-bit and clamped.
    pub(super) fn shift(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let left = m.base == "shl";
        let ty = m.ty_of(if left { &TYPES[..3] } else { &TYPES })?;
        let [d, a, b] = m.operands()?;
        let a = self.extended(m, a, ty)?;
        let b = self.source(m, b, Type::U32)?;
        let d = self.target(m, d, ty)?;
        let f = match (left, ty.is_signed()) {
            (true, _) => Shift::Shl,
            (_, true) => Shift::ShrS,
            _ => Shift::ShrU,
        };
        self.emit(Op::shift(ty, f, d, a, b));
        self.cut(d, ty);
        Ok(())
    }

    /// Lowers `shf`, a funnel shift of two joined words.
    pub(super) fn funnel_shift(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32])?;
        let left = m.take_one(&[("l", true), ("r", false)]);
        let wrap = m.take_one(&[("wrap", true), ("clamp", false)]);
        let f = match (left, wrap) {
            (Some(true), Some(true)) => Word3::ShiftLeftWrap,
            (Some(true), Some(false)) => Word3::ShiftLeftClamp,
            (Some(false), Some(true)) => Word3::ShiftRightWrap,
            (Some(false), Some(false)) => Word3::ShiftRightClamp,
            _ => return Err(m.unsupported()),
        };
        self.ternary_32(m, ty, f)
    }

    fn ternary_32(&mut self, m: &Mnemonic<'a>, ty: Type, f: Word3) -> Result<(), PtxError> {
        let [d, a, b, c] = m.operands()?;
        let [a, b, c] = self.sources(m, [a, b, c], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::word3(f, d, a, b, c));
        Ok(())
    }

    pub(super) fn lop3(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32])?;
        if let Some(f) = m.take_one(&[("and", PredOp::And), ("or", PredOp::Or)]) {
            return self.lop3_with_predicate(m, f);
        }
        let [d, a, b, c, table] = m.operands()?;
        let table = truth_table(m, table)?;
        let [a, b, c] = self.sources(m, [a, b, c], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::lop3(table, d, a, b, c));
        Ok(())
    }

    /// Lowers `lop3.or.b32 d|p, a, b, c, table, q`, and the same with `.and`.
    ///
    /// `p` is the predicate "some bit of `d` is set", combined with `q` by the boolean operation.
    fn lop3_with_predicate(&mut self, m: &mut Mnemonic<'a>, f: PredOp) -> Result<(), PtxError> {
        let [target @ Operand::Pair(_, p), a, b, c, table, q] = m.operands()? else {
            return Err(m.operand_count("6"));
        };
        let table = truth_table(m, table)?;
        let [a, b, c] = self.sources(m, [a, b, c], Type::B32)?;
        let q = self.source(m, q, Type::Pred)?;
        self.keep_guard()?;
        let (d, _) = self.result_pair(m, target)?;
        let p = self.predicate(p)?;
        let any = self.temporary(RegisterClass::Predicate)?;
        let zero = self.constant(RegisterClass::Word, 0)?;
        self.emit(Op::lop3(table, d, a, b, c));
        self.emit(Op::cmp32(Compare::Ne, any, d, zero));
        self.emit(Op::pred(f, p, any, q));
        Ok(())
    }

    pub(super) fn prmt(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let mode = m.take_one(&[
            ("f4e", Prmt::Forward4),
            ("b4e", Prmt::Backward4),
            ("rc8", Prmt::Replicate8),
            ("ecl", Prmt::EdgeClampLeft),
            ("ecr", Prmt::EdgeClampRight),
            ("rc16", Prmt::Replicate16),
        ]);
        let ty = m.ty_of(&[Type::B32])?;
        let [d, a, b, c] = m.operands()?;
        let [a, b, c] = self.sources(m, [a, b, c], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::prmt(mode.unwrap_or(Prmt::Index), d, a, b, c));
        Ok(())
    }

    pub(super) fn bit_field_extract(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U32, Type::S32, Type::U64, Type::S64])?;
        let signed = ty.is_signed();
        let [d, a, b, c] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let [b, c] = self.sources(m, [b, c], Type::U32)?;
        let d = self.target(m, d, ty)?;
        self.emit(if ty.bytes() == 8 {
            Op::bfe64(signed, d, a, b, c)
        } else {
            Op::word3(if signed { Word3::BfeS } else { Word3::BfeU }, d, a, b, c)
        });
        Ok(())
    }

    pub(super) fn bit_field_insert(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32, Type::B64])?;
        let [d, a, b, position, length] = m.operands()?;
        let [a, b] = self.sources(m, [a, b], ty)?;
        let [position, length] = self.sources(m, [position, length], Type::U32)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::bfi(ty, d, a, b, position, length));
        Ok(())
    }

    /// Lowers `popc`, `clz`, `brev` and `bfind`.
    pub(super) fn bit_count(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let find = m.base == "bfind";
        let ty = if find {
            m.ty_of(&[Type::U32, Type::S32, Type::U64, Type::S64])?
        } else {
            m.ty_of(&[Type::B32, Type::B64])?
        };
        let shift = find && m.take("shiftamt");
        let [d, a] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let (word, double) = match (m.base, ty.is_signed(), shift) {
            ("popc", ..) => (Word1::Popc, Narrow::Popc),
            ("clz", ..) => (Word1::Clz, Narrow::Clz),
            ("brev", ..) => {
                let d = self.target(m, d, ty)?;
                self.emit(Op::un(ty, Un::Brev, d, a));
                return Ok(());
            }
            (_, true, true) => (Word1::FindShiftS, Narrow::FindShiftS),
            (_, true, false) => (Word1::FindS, Narrow::FindS),
            (_, false, true) => (Word1::FindShiftU, Narrow::FindShiftU),
            (_, false, false) => (Word1::FindU, Narrow::FindU),
        };
        let d = self.target(m, d, Type::U32)?;
        self.emit(if ty.bytes() == 8 {
            Op::narrow(double, d, a)
        } else {
            Op::word1(word, d, a)
        });
        Ok(())
    }

    /// Lowers `dp4a` and `dp2a`, whose types are those of `a` and `b`.
    pub(super) fn dot_product(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let b = m.ty_of(&[Type::U32, Type::S32])?;
        let a = m.ty_of(&[Type::U32, Type::S32])?;
        use Word3::*;
        let four = [[Dp4aUU, Dp4aUS], [Dp4aSU, Dp4aSS]];
        let low = [[Dp2aLoUU, Dp2aLoUS], [Dp2aLoSU, Dp2aLoSS]];
        let high = [[Dp2aHiUU, Dp2aHiUS], [Dp2aHiSU, Dp2aHiSS]];
        let table = if m.base == "dp4a" {
            four
        } else {
            m.one_of(&[("lo", low), ("hi", high)])?
        };
        let f = table[usize::from(a.is_signed())][usize::from(b.is_signed())];
        self.ternary_32(m, Type::B32, f)
    }
}

fn truth_table(m: &Mnemonic<'_>, operand: &Operand<'_>) -> Result<u8, PtxError> {
    match operand {
        Operand::Int(table @ 0..=255) => Ok(*table as u8),
        _ => Err(m.mismatch(operand, "expected a constant from 0 to 255")),
    }
}
