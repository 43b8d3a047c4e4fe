//! Lowering of logic, shifts, bit fields and dot products.

use super::lowerer::Lowerer;
use super::mnemonic::Mnemonic;
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::{Bin32, Bin64, Compare, Narrow, Op, PredOp, Prmt, Shift64, Tri32, Un32, Un64};
use millstream_ptx::PtxError;
use millstream_ptx::Type;
use millstream_ptx::ast::Operand;

const BITS: [Type; 3] = [Type::B16, Type::B32, Type::B64];

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
                Type::Pred if !count => self.emit(Op::Pred {
                    f: PredOp::Not,
                    d,
                    a,
                    b: a,
                }),
                Type::Pred => return Err(m.unsupported()),
                Type::B64 => self.emit(Op::Un64 {
                    f: if count { Un64::Cnot } else { Un64::Not },
                    d,
                    a,
                }),
                _ => {
                    self.emit(Op::Un32 {
                        f: if count { Un32::Cnot } else { Un32::Not },
                        d,
                        a,
                    });
                    self.cut(d, ty);
                }
            }
            return Ok(());
        }
        let [d, a, b] = m.operands()?;
        let (a, b) = (self.source(m, a, ty)?, self.source(m, b, ty)?);
        let d = self.target(m, d, ty)?;
        let (pred, word, double) = match m.base {
            "and" => (PredOp::And, Bin32::And, Bin64::And),
            "or" => (PredOp::Or, Bin32::Or, Bin64::Or),
            _ => (PredOp::Xor, Bin32::Xor, Bin64::Xor),
        };
        self.emit(match ty {
            Type::Pred => Op::Pred { f: pred, d, a, b },
            Type::B64 => Op::Bin64 { f: double, d, a, b },
            _ => Op::Bin32 { f: word, d, a, b },
        });
        Ok(())
    }

    /// Lowers `shl` and `shr`. The shift amount is 32-bit and clamped.
    pub(super) fn shift(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let left = m.base == "shl";
        let ty = if left {
            m.ty_of(&BITS)?
        } else {
            m.ty_of(&[
                Type::B16,
                Type::U16,
                Type::S16,
                Type::B32,
                Type::U32,
                Type::S32,
                Type::B64,
                Type::U64,
                Type::S64,
            ])?
        };
        let [d, a, b] = m.operands()?;
        let a = self.extended(m, a, ty)?;
        let b = self.source(m, b, Type::U32)?;
        let d = self.target(m, d, ty)?;
        let signed = ty.is_signed();
        if ty.bytes() == 8 {
            let f = if left {
                Shift64::Shl
            } else if signed {
                Shift64::ShrS
            } else {
                Shift64::ShrU
            };
            self.emit(Op::Shift64 { f, d, a, b });
        } else {
            let f = if left {
                Bin32::Shl
            } else if signed {
                Bin32::ShrS
            } else {
                Bin32::ShrU
            };
            self.emit(Op::Bin32 { f, d, a, b });
            self.cut(d, ty);
        }
        Ok(())
    }

    /// Lowers `shf`, a funnel shift of two joined words.
    pub(super) fn funnel_shift(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32])?;
        let left = m.take_one(&[("l", true), ("r", false)]);
        let wrap = m.take_one(&[("wrap", true), ("clamp", false)]);
        let f = match (left, wrap) {
            (Some(true), Some(true)) => Tri32::ShiftLeftWrap,
            (Some(true), Some(false)) => Tri32::ShiftLeftClamp,
            (Some(false), Some(true)) => Tri32::ShiftRightWrap,
            (Some(false), Some(false)) => Tri32::ShiftRightClamp,
            _ => return Err(m.unsupported()),
        };
        self.ternary_32(m, ty, f)
    }

    fn ternary_32(&mut self, m: &Mnemonic<'a>, ty: Type, f: Tri32) -> Result<(), PtxError> {
        let [d, a, b, c] = m.operands()?;
        let (a, b, c) = (
            self.source(m, a, ty)?,
            self.source(m, b, ty)?,
            self.source(m, c, ty)?,
        );
        let d = self.target(m, d, ty)?;
        self.emit(Op::Tri32 { f, d, a, b, c });
        Ok(())
    }

    pub(super) fn lop3(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32])?;
        if let Some(f) = m.take_one(&[("and", PredOp::And), ("or", PredOp::Or)]) {
            return self.lop3_with_predicate(m, f);
        }
        let [d, a, b, c, table] = m.operands()?;
        let Operand::Int(table @ 0..=255) = table else {
            return Err(m.mismatch(table, "expected a constant from 0 to 255"));
        };
        let table = u8::try_from(*table).unwrap_or(0);
        let (a, b, c) = (
            self.source(m, a, ty)?,
            self.source(m, b, ty)?,
            self.source(m, c, ty)?,
        );
        let d = self.target(m, d, ty)?;
        self.emit(Op::Lop3 { table, d, a, b, c });
        Ok(())
    }

    /// Lowers `lop3.or.b32 d|p, a, b, c, table, q`, and the same with `.and`.
    ///
    /// `p` is the predicate "some bit of `d` is set", combined with `q` by the boolean operation.
    fn lop3_with_predicate(&mut self, m: &mut Mnemonic<'a>, f: PredOp) -> Result<(), PtxError> {
        let [target @ Operand::Pair(_, p), a, b, c, table, q] = m.operands()? else {
            return Err(m.operand_count("6"));
        };
        let Operand::Int(number @ 0..=255) = table else {
            return Err(m.mismatch(table, "expected a constant from 0 to 255"));
        };
        let (a, b, c) = (
            self.source(m, a, Type::B32)?,
            self.source(m, b, Type::B32)?,
            self.source(m, c, Type::B32)?,
        );
        let q = self.source(m, q, Type::Pred)?;
        self.keep_guard()?;
        let (d, _) = self.result_pair(m, target)?;
        let p = self.predicate(p)?;
        let any = self.temporary(RegisterClass::Predicate)?;
        let zero = self.constant(RegisterClass::Word, 0)?;
        let table = u8::try_from(*number).unwrap_or(0);
        self.emit(Op::Lop3 { table, d, a, b, c });
        self.emit(Op::Cmp32 {
            f: Compare::Ne,
            d: any,
            a: d,
            b: zero,
        });
        self.emit(Op::Pred {
            f,
            d: p,
            a: any,
            b: q,
        });
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
        let (a, b, c) = (
            self.source(m, a, ty)?,
            self.source(m, b, ty)?,
            self.source(m, c, ty)?,
        );
        let d = self.target(m, d, ty)?;
        self.emit(Op::Prmt {
            mode: mode.unwrap_or(Prmt::Index),
            d,
            a,
            b,
            c,
        });
        Ok(())
    }

    pub(super) fn bit_field_extract(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U32, Type::S32, Type::U64, Type::S64])?;
        let signed = ty.is_signed();
        let [d, a, b, c] = m.operands()?;
        let a = self.source(m, a, ty)?;
        let (b, c) = (self.source(m, b, Type::U32)?, self.source(m, c, Type::U32)?);
        let d = self.target(m, d, ty)?;
        self.emit(if ty.bytes() == 8 {
            Op::Bfe64 { signed, d, a, b, c }
        } else {
            Op::Tri32 {
                f: if signed { Tri32::BfeS } else { Tri32::BfeU },
                d,
                a,
                b,
                c,
            }
        });
        Ok(())
    }

    pub(super) fn bit_field_insert(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::B32, Type::B64])?;
        let [d, a, b, position, length] = m.operands()?;
        let (a, b) = (self.source(m, a, ty)?, self.source(m, b, ty)?);
        let position = self.source(m, position, Type::U32)?;
        let length = self.source(m, length, Type::U32)?;
        let d = self.target(m, d, ty)?;
        self.emit(if ty.bytes() == 8 {
            Op::Bfi64 {
                d,
                a,
                b,
                position,
                length,
            }
        } else {
            Op::Bfi32 {
                d,
                a,
                b,
                position,
                length,
            }
        });
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
            ("popc", ..) => (Un32::Popc, Narrow::Popc),
            ("clz", ..) => (Un32::Clz, Narrow::Clz),
            ("brev", ..) => {
                let d = self.target(m, d, ty)?;
                self.emit(if ty.bytes() == 8 {
                    Op::Un64 {
                        f: Un64::Brev,
                        d,
                        a,
                    }
                } else {
                    Op::Un32 {
                        f: Un32::Brev,
                        d,
                        a,
                    }
                });
                return Ok(());
            }
            (_, true, true) => (Un32::FindShiftS, Narrow::FindShiftS),
            (_, true, false) => (Un32::FindS, Narrow::FindS),
            (_, false, true) => (Un32::FindShiftU, Narrow::FindShiftU),
            (_, false, false) => (Un32::FindU, Narrow::FindU),
        };
        let d = self.target(m, d, Type::U32)?;
        self.emit(if ty.bytes() == 8 {
            Op::Narrow { f: double, d, a }
        } else {
            Op::Un32 { f: word, d, a }
        });
        Ok(())
    }

    /// Lowers `dp4a` and `dp2a`, whose types are those of `a` and `b`.
    pub(super) fn dot_product(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let b = m.ty_of(&[Type::U32, Type::S32])?;
        let a = m.ty_of(&[Type::U32, Type::S32])?;
        let four = [
            [Tri32::Dp4aUU, Tri32::Dp4aUS],
            [Tri32::Dp4aSU, Tri32::Dp4aSS],
        ];
        let low = [
            [Tri32::Dp2aLoUU, Tri32::Dp2aLoUS],
            [Tri32::Dp2aLoSU, Tri32::Dp2aLoSS],
        ];
        let high = [
            [Tri32::Dp2aHiUU, Tri32::Dp2aHiUS],
            [Tri32::Dp2aHiSU, Tri32::Dp2aHiSS],
        ];
        let table = if m.base == "dp4a" {
            four
        } else {
            m.take_one(&[("lo", low), ("hi", high)])
                .ok_or_else(|| m.unsupported())?
        };
        let f = table[usize::from(a.is_signed())][usize::from(b.is_signed())];
        self.ternary_32(m, Type::B32, f)
    }
}
