//! Rare operations on 32-bit registers: bit masks, packed integers, the video instructions, and hints.

use super::mnemonic::Mnemonic;
use super::operand::Class;
use super::{Lowerer, PtxError};
use crate::ptx::code::{Bin32, Exchange, ExchangeOp, Extra, Op, Packed, PackedOp, Slot};
use crate::ptx::types::Type;

/// The video instructions for the parts of a register, without the number of parts.
const SIMD: [(&str, PackedOp); 7] = [
    ("vadd", PackedOp::Add),
    ("vsub", PackedOp::Sub),
    ("vavrg", PackedOp::Average),
    ("vabsdiff", PackedOp::Difference),
    ("vmin", PackedOp::Min),
    ("vmax", PackedOp::Max),
    ("vset", PackedOp::Set(0)),
];

fn simd(base: &str) -> Option<(PackedOp, u8)> {
    let parts = match base.as_bytes().last()? {
        b'2' => 2,
        b'4' => 4,
        _ => return None,
    };
    let stem = &base[..base.len() - 1];
    let (_, f) = SIMD.iter().find(|(name, _)| *name == stem)?;
    Some((*f, parts))
}

/// Whether an instruction of that name is a video instruction on the parts of registers.
pub(super) fn is_simd(base: &str) -> bool {
    simd(base).is_some()
}

impl<'a> Lowerer<'a> {
    pub(super) fn emit_extra(&mut self, f: Extra, d: Slot, [a, b, c]: [Slot; 3]) {
        self.code.extras.push(f);
        let f = u32::try_from(self.code.extras.len() - 1).unwrap_or(u32::MAX);
        self.emit(Op::Extra { f, d, a, b, c });
    }

    /// `szext`, `bmsk`, `fns`, `elect`.
    pub(super) fn extra(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        match m.base {
            "elect" => self.elect(m),
            "fns" => {
                let ty = m.ty_of(&[Type::B32])?;
                let [d, a, b, c] = m.operands()?;
                let (a, b, c) = (
                    self.source(m, a, ty)?,
                    self.source(m, b, ty)?,
                    self.source(m, c, ty)?,
                );
                let d = self.target(m, d, ty)?;
                let f = Extra::FindNth;
                self.emit_extra(f, d, [a, b, c]);
                Ok(())
            }
            base => {
                let ty = m.ty_of(&[Type::B32, Type::U32, Type::S32])?;
                let wrap = m
                    .take_one(&[("wrap", true), ("clamp", false)])
                    .ok_or_else(|| m.unsupported())?;
                let [d, a, b] = m.operands()?;
                let (a, b) = (self.source(m, a, ty)?, self.source(m, b, Type::U32)?);
                let d = self.target(m, d, ty)?;
                let f = if base == "bmsk" {
                    Extra::BitMask { wrap }
                } else {
                    let signed = ty.is_signed();
                    Extra::Extend { signed, wrap }
                };
                self.emit_extra(f, d, [a, b, b]);
                Ok(())
            }
        }
    }

    /// `elect.sync`: the lowest of the lanes that take part.
    fn elect(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if !m.take("sync") {
            return Err(m.unsupported());
        }
        let [target, mask] = m.operands()?;
        let members = self.source(m, mask, Type::B32)?;
        let (d, p) = self.result_pair(m, target)?;
        self.emit_exchange(Exchange {
            f: ExchangeOp::Elect,
            members,
            d,
            p,
            a: members,
            b: members,
            c: members,
        });
        Ok(())
    }

    /// `add`, `min`, `max` of integers of 16 bits, two to a register, and `min` and `max` that replace negative results by 0.
    pub(super) fn packed_integer(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let relu = m.base != "add" && ty.is_signed() && m.take("relu");
        let (f, word) = match m.base {
            "add" => (PackedOp::Add, Bin32::Add),
            "min" => (PackedOp::Min, Bin32::MinS),
            "max" => (PackedOp::Max, Bin32::MaxS),
            _ => return Err(m.unsupported()),
        };
        let [d, a, b] = m.operands()?;
        let (a, b) = (self.source(m, a, Type::B32)?, self.source(m, b, Type::B32)?);
        let d = self.target(m, d, Type::B32)?;
        if ty == Type::S32 {
            self.emit(Op::Bin32 { f: word, d, a, b });
            let zero = self.constant(Class::Word, 0)?;
            self.emit(Op::Bin32 {
                f: Bin32::MaxS,
                d,
                a: d,
                b: zero,
            });
            return Ok(());
        }
        let f = Extra::Packed(Packed {
            f,
            parts: 2,
            d: ty,
            a: ty,
            b: ty,
            saturate: false,
            accumulate: false,
            relu,
        });
        self.emit_extra(f, d, [a, b, b]);
        Ok(())
    }

    /// `vadd2`, `vset4` and their like: without selected parts, which are written behind operands.
    pub(super) fn simd(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let (f, parts) = simd(m.base).ok_or_else(|| m.unsupported())?;
        let accumulate = m.take("add");
        let saturate = m.take("sat");
        let f = match f {
            PackedOp::Set(_) => {
                let relations = [
                    ("eq", 0b010),
                    ("ne", 0b101),
                    ("lt", 0b001),
                    ("le", 0b011),
                    ("gt", 0b100),
                    ("ge", 0b110),
                ];
                PackedOp::Set(m.take_one(&relations).ok_or_else(|| m.unsupported())?)
            }
            f => f,
        };
        let types = [Type::U32, Type::S32];
        let (b, a) = (m.ty_of(&types)?, m.ty_of(&types)?);
        let d = match f {
            PackedOp::Set(_) => Type::U32,
            _ => m.ty_of(&types)?,
        };
        let f = Extra::Packed(Packed {
            f,
            parts,
            d,
            a,
            b,
            saturate,
            accumulate,
            relu: false,
        });
        let [target, a, b, c] = m.operands()?;
        let (a, b, c) = (
            self.source(m, a, Type::B32)?,
            self.source(m, b, Type::B32)?,
            self.source(m, c, Type::B32)?,
        );
        let d = self.target(m, target, Type::B32)?;
        self.emit_extra(f, d, [a, b, c]);
        Ok(())
    }

    /// `pmevent`, `griddepcontrol`: nothing to do. A kernel starts when those before it have ended.
    pub(super) fn hint(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.ignore(&["mask", "launch_dependents", "wait"]);
        m.finish()?;
        self.emit(Op::Nop);
        Ok(())
    }
}
