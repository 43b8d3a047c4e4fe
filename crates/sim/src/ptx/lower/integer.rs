//! Lowering of integer arithmetic.

use super::lowerer::Lowerer;
use super::mnemonic::Mnemonic;
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::{
    Bin32, Bin64, Carry, Join, Narrow, Op, Shift64, Slot, Tri32, Tri64, Un32, Un64,
};
use millstream_ptx::PtxError;
use millstream_ptx::Type;
use millstream_ptx::ast::Operand;

/// The part of a product that an instruction returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: [(&str, Part); 3] = [("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

impl<'a> Lowerer<'a> {
    /// Lowers `add`, `sub`, `mul`, `mad`, `div`, `rem`, `neg`, `abs`, `min` and `max` on integers,
    /// and their variants that write the carry flag.
    pub(super) fn integer(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        match ty {
            Type::U16 | Type::S16 | Type::U32 | Type::S32 | Type::U64 | Type::S64 => {}
            _ => return Err(m.unsupported()),
        }
        let base = m.base;
        match base {
            "add" | "sub" | "mad" if m.take("cc") => self.carry_chain(m, ty, false, true),
            "add" | "sub" if ty == Type::S32 && m.take("sat") => {
                let f = if m.base == "add" {
                    Bin32::AddSat
                } else {
                    Bin32::SubSat
                };
                self.binary_32(m, ty, f)
            }
            "mul" => self.multiply(m, ty),
            "mad" => self.multiply_add(m, ty),
            "neg" | "abs" if ty.is_signed() => self.unary(m, ty),
            "add" | "sub" | "div" | "rem" | "min" | "max" => self.binary(m, ty),
            _ => Err(m.unsupported()),
        }
    }

    /// Returns the slot of an operand as a 32-bit value. Signed 16-bit values are sign-extended;
    /// unsigned ones are kept zero-extended already.
    pub(super) fn extended(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        ty: Type,
    ) -> Result<Slot, PtxError> {
        let a = self.source(m, operand, ty)?;
        if ty != Type::S16 {
            return Ok(a);
        }
        let d = self.temporary(RegisterClass::Word)?;
        self.emit(Op::Un32 {
            f: Un32::Sext16,
            d,
            a,
        });
        Ok(d)
    }

    /// Emits the truncation of a 16-bit result, if the type has 16 bits.
    pub(super) fn cut(&mut self, d: Slot, ty: Type) {
        if ty.bytes() == 2 {
            self.emit(Op::Un32 {
                f: Un32::Zext16,
                d,
                a: d,
            });
        }
    }

    fn unary(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let [d, a] = m.operands()?;
        let negate = m.base == "neg";
        let target = self.target(m, d, ty)?;
        if ty.bytes() == 8 {
            let a = self.source(m, a, ty)?;
            self.emit(Op::Un64 {
                f: if negate { Un64::Neg } else { Un64::Abs },
                d: target,
                a,
            });
        } else {
            let a = self.extended(m, a, ty)?;
            self.emit(Op::Un32 {
                f: if negate { Un32::Neg } else { Un32::Abs },
                d: target,
                a,
            });
            self.cut(target, ty);
        }
        Ok(())
    }

    fn binary(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let signed = ty.is_signed();
        if ty.bytes() == 8 {
            let f = match (m.base, signed) {
                ("add", _) => Bin64::Add,
                ("sub", _) => Bin64::Sub,
                ("div", true) => Bin64::DivS,
                ("div", false) => Bin64::DivU,
                ("rem", true) => Bin64::RemS,
                ("rem", false) => Bin64::RemU,
                ("min", true) => Bin64::MinS,
                ("min", false) => Bin64::MinU,
                ("max", true) => Bin64::MaxS,
                _ => Bin64::MaxU,
            };
            return self.binary_64(m, ty, f);
        }
        let f = match (m.base, signed) {
            ("add", _) => Bin32::Add,
            ("sub", _) => Bin32::Sub,
            ("div", true) => Bin32::DivS,
            ("div", false) => Bin32::DivU,
            ("rem", true) => Bin32::RemS,
            ("rem", false) => Bin32::RemU,
            ("min", true) => Bin32::MinS,
            ("min", false) => Bin32::MinU,
            ("max", true) => Bin32::MaxS,
            _ => Bin32::MaxU,
        };
        self.binary_32(m, ty, f)
    }

    fn binary_32(&mut self, m: &Mnemonic<'a>, ty: Type, f: Bin32) -> Result<(), PtxError> {
        let [d, a, b] = m.operands()?;
        let (a, b) = (self.extended(m, a, ty)?, self.extended(m, b, ty)?);
        let d = self.target(m, d, ty)?;
        self.emit(Op::Bin32 { f, d, a, b });
        self.cut(d, ty);
        Ok(())
    }

    fn binary_64(&mut self, m: &Mnemonic<'a>, ty: Type, f: Bin64) -> Result<(), PtxError> {
        let [d, a, b] = m.operands()?;
        let (a, b) = (self.source(m, a, ty)?, self.source(m, b, ty)?);
        let d = self.target(m, d, ty)?;
        self.emit(Op::Bin64 { f, d, a, b });
        Ok(())
    }

    fn multiply(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let part = m.take_one(&PARTS).ok_or_else(|| m.unsupported())?;
        let signed = ty.is_signed();
        match (part, ty.bytes()) {
            (Part::Low, 8) => self.binary_64(m, ty, Bin64::Mul),
            (Part::High, 8) => self.binary_64(
                m,
                ty,
                if signed {
                    Bin64::MulHighS
                } else {
                    Bin64::MulHighU
                },
            ),
            (Part::Low, _) => self.binary_32(m, ty, Bin32::Mul),
            (Part::High, 4) => self.binary_32(
                m,
                ty,
                if signed {
                    Bin32::MulHighS
                } else {
                    Bin32::MulHighU
                },
            ),
            (Part::Wide, 4) => {
                let [d, a, b] = m.operands()?;
                let (a, b) = (self.source(m, a, ty)?, self.source(m, b, ty)?);
                let d = self.target(m, d, Type::B64)?;
                self.emit(Op::Join {
                    f: if signed { Join::MulS } else { Join::MulU },
                    d,
                    a,
                    b,
                });
                Ok(())
            }
            (Part::Wide, 2) => {
                let [d, a, b] = m.operands()?;
                let (a, b) = (self.extended(m, a, ty)?, self.extended(m, b, ty)?);
                let d = self.target(m, d, Type::B32)?;
                self.emit(Op::Bin32 {
                    f: Bin32::Mul,
                    d,
                    a,
                    b,
                });
                Ok(())
            }
            (Part::High, 2) => {
                let [d, a, b] = m.operands()?;
                let (a, b) = (self.extended(m, a, ty)?, self.extended(m, b, ty)?);
                let d = self.target(m, d, ty)?;
                let product = self.temporary(RegisterClass::Word)?;
                self.emit(Op::Bin32 {
                    f: Bin32::Mul,
                    d: product,
                    a,
                    b,
                });
                self.emit(Op::Un32 {
                    f: Un32::High16,
                    d,
                    a: product,
                });
                Ok(())
            }
            _ => Err(m.unsupported()),
        }
    }

    fn multiply_add(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let part = m.take_one(&PARTS).ok_or_else(|| m.unsupported())?;
        let [d, a, b, c] = m.operands()?;
        let signed = ty.is_signed();
        match (part, ty.bytes()) {
            (Part::Low | Part::High, 8) => {
                let f = match (part, signed) {
                    (Part::High, true) => Tri64::MadHighS,
                    (Part::High, false) => Tri64::MadHighU,
                    _ => Tri64::Mad,
                };
                let (a, b, c) = (
                    self.source(m, a, ty)?,
                    self.source(m, b, ty)?,
                    self.source(m, c, ty)?,
                );
                let d = self.target(m, d, ty)?;
                self.emit(Op::Tri64 { f, d, a, b, c });
            }
            (Part::Wide, 4) => {
                let (a, b) = (self.source(m, a, ty)?, self.source(m, b, ty)?);
                let c = self.source(m, c, Type::B64)?;
                let d = self.target(m, d, Type::B64)?;
                self.emit(Op::MadWide { signed, d, a, b, c });
            }
            (Part::Low, 2 | 4) | (Part::High, 4) => {
                let f = match (part, signed) {
                    (Part::High, true) => Tri32::MadHighS,
                    (Part::High, false) => Tri32::MadHighU,
                    _ => Tri32::Mad,
                };
                let (a, b, c) = (
                    self.extended(m, a, ty)?,
                    self.extended(m, b, ty)?,
                    self.extended(m, c, ty)?,
                );
                let d = self.target(m, d, ty)?;
                self.emit(Op::Tri32 { f, d, a, b, c });
                self.cut(d, ty);
            }
            (Part::High, 2) => {
                let (a, b) = (self.extended(m, a, ty)?, self.extended(m, b, ty)?);
                let c = self.source(m, c, ty)?;
                let d = self.target(m, d, ty)?;
                let product = self.temporary(RegisterClass::Word)?;
                let bin32 = |f, d, a, b| Op::Bin32 { f, d, a, b };
                self.emit(bin32(Bin32::Mul, product, a, b));
                self.emit(Op::Un32 {
                    f: Un32::High16,
                    d: product,
                    a: product,
                });
                self.emit(bin32(Bin32::Add, d, product, c));
                self.cut(d, ty);
            }
            (Part::Wide, 2) => {
                let (a, b) = (self.extended(m, a, ty)?, self.extended(m, b, ty)?);
                let c = self.source(m, c, Type::B32)?;
                let d = self.target(m, d, Type::B32)?;
                self.emit(Op::Tri32 {
                    f: Tri32::Mad,
                    d,
                    a,
                    b,
                    c,
                });
            }
            _ => return Err(m.unsupported()),
        }
        Ok(())
    }

    /// Lowers `mul24` and `mad24`, which multiply the operands' low 24 bits, sign- or
    /// zero-extended.
    pub(super) fn multiply_24(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U32, Type::S32])?;
        let high = m
            .take_one(&[("lo", false), ("hi", true)])
            .ok_or_else(|| m.unsupported())?;
        let add = m.base == "mad24";
        m.finish()?;
        let (d, a, b, c) = match m.operands {
            [d, a, b] if !add => (d, a, b, None),
            [d, a, b, c] if add => (d, a, b, Some(c)),
            _ => return Err(m.operand_count(if add { "4" } else { "3" })),
        };
        let f = if ty.is_signed() {
            Tri32::BfeS
        } else {
            Tri32::BfeU
        };
        let (zero, length) = (
            self.constant(RegisterClass::Word, 0)?,
            self.constant(RegisterClass::Word, 24)?,
        );
        let mut parts = [0; 2];
        for (part, operand) in parts.iter_mut().zip([a, b]) {
            let a = self.source(m, operand, ty)?;
            *part = self.temporary(RegisterClass::Word)?;
            self.emit(Op::Tri32 {
                f,
                d: *part,
                a,
                b: zero,
                c: length,
            });
        }
        let c = match c {
            Some(c) => self.source(m, c, ty)?,
            None => zero,
        };
        let d = self.target(m, d, ty)?;
        let [a, b] = parts;
        if !high {
            self.emit(Op::Tri32 {
                f: Tri32::Mad,
                d,
                a,
                b,
                c,
            });
            return Ok(());
        }
        // The upper 32 bits of the 48-bit product.
        let product = self.temporary(RegisterClass::Double)?;
        let (join, shift) = if ty.is_signed() {
            (Join::MulS, Shift64::ShrS)
        } else {
            (Join::MulU, Shift64::ShrU)
        };
        let by = self.constant(RegisterClass::Word, 16)?;
        self.emit(Op::Join {
            f: join,
            d: product,
            a,
            b,
        });
        self.emit(Op::Shift64 {
            f: shift,
            d: product,
            a: product,
            b: by,
        });
        let upper = self.temporary(RegisterClass::Word)?;
        self.emit(Op::Narrow {
            f: Narrow::Low,
            d: upper,
            a: product,
        });
        self.emit(Op::Bin32 {
            f: Bin32::Add,
            d,
            a: upper,
            b: c,
        });
        Ok(())
    }

    /// Lowers `addc`, `subc` and `madc`, with or without `.cc`.
    pub(super) fn with_carry(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty()?;
        let write = m.take("cc");
        self.carry_chain(m, ty, true, write)
    }

    fn carry_chain(
        &mut self,
        m: &mut Mnemonic<'a>,
        ty: Type,
        read: bool,
        write: bool,
    ) -> Result<(), PtxError> {
        if !matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64) {
            return Err(m.unsupported());
        }
        let flag = match self.carry {
            Some(flag) => flag,
            None => {
                let flag = self.new_slot(RegisterClass::Predicate)?;
                self.carry = Some(flag);
                flag
            }
        };
        let double = ty.bytes() == 8;
        let class = RegisterClass::of(ty);
        let (d, a, b) = if matches!(m.base, "mad" | "madc") {
            let part = m.take_one(&PARTS[..2]).ok_or_else(|| m.unsupported())?;
            let [d, a, b, c] = m.operands()?;
            let (a, b, c) = (
                self.source(m, a, ty)?,
                self.source(m, b, ty)?,
                self.source(m, c, ty)?,
            );
            let product = self.temporary(class)?;
            let (high, signed) = (part == Part::High, ty.is_signed());
            self.emit(if double {
                let f = [[Bin64::Mul, Bin64::Mul], [Bin64::MulHighU, Bin64::MulHighS]];
                Op::Bin64 {
                    f: f[usize::from(high)][usize::from(signed)],
                    d: product,
                    a,
                    b,
                }
            } else {
                let f = [[Bin32::Mul, Bin32::Mul], [Bin32::MulHighU, Bin32::MulHighS]];
                Op::Bin32 {
                    f: f[usize::from(high)][usize::from(signed)],
                    d: product,
                    a,
                    b,
                }
            });
            (d, product, c)
        } else {
            let [d, a, b] = m.operands()?;
            (d, self.source(m, a, ty)?, self.source(m, b, ty)?)
        };
        let d = self.target(m, d, ty)?;
        let subtract = m.base.starts_with("sub");
        let f = Carry {
            subtract,
            read: read.then_some(flag),
            write: write.then_some(flag),
        };
        self.emit(if double {
            Op::Carry64 { f, d, a, b }
        } else {
            Op::Carry32 { f, d, a, b }
        });
        Ok(())
    }

    /// Lowers `sad`: `c + |a - b|`.
    pub(super) fn sad(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[
            Type::U16,
            Type::S16,
            Type::U32,
            Type::S32,
            Type::U64,
            Type::S64,
        ])?;
        let [d, a, b, c] = m.operands()?;
        let signed = ty.is_signed();
        if ty.bytes() == 8 {
            let (a, b, c) = (
                self.source(m, a, ty)?,
                self.source(m, b, ty)?,
                self.source(m, c, ty)?,
            );
            let d = self.target(m, d, ty)?;
            self.emit(Op::Tri64 {
                f: if signed { Tri64::SadS } else { Tri64::SadU },
                d,
                a,
                b,
                c,
            });
        } else {
            let (a, b, c) = (
                self.extended(m, a, ty)?,
                self.extended(m, b, ty)?,
                self.extended(m, c, ty)?,
            );
            let d = self.target(m, d, ty)?;
            self.emit(Op::Tri32 {
                f: if signed { Tri32::SadS } else { Tri32::SadU },
                d,
                a,
                b,
                c,
            });
            self.cut(d, ty);
        }
        Ok(())
    }
}
