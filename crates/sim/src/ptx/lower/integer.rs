//! Lowering of integer arithmetic.

use super::{lowerer::Lowerer, mnemonic::Mnemonic};
use crate::ptx::ir::{
    Bin, Carry, Join, Narrow, Op, RegisterClass, Shift, Slot, Tri, Un, Word1, Word3,
};
use millstream_ptx::{PtxError, Type, ast::Operand};

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
                let is_sum = m.base == "add";
                self.binary(m, ty, if is_sum { Bin::AddSat } else { Bin::SubSat })
            }
            "mul" => self.multiply(m, ty),
            "mad" => self.multiply_add(m, ty),
            "neg" | "abs" if ty.is_signed() => self.unary(m, ty),
            _ => {
                let f = match (base, ty.is_signed()) {
                    ("add", _) => Bin::Add,
                    ("sub", _) => Bin::Sub,
                    ("div", true) => Bin::DivS,
                    ("div", false) => Bin::DivU,
                    ("rem", true) => Bin::RemS,
                    ("rem", false) => Bin::RemU,
                    ("min", true) => Bin::MinS,
                    ("min", false) => Bin::MinU,
                    ("max", true) => Bin::MaxS,
                    ("max", false) => Bin::MaxU,
                    _ => return Err(m.unsupported()),
                };
                self.binary(m, ty, f)
            }
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
        self.emit(Op::word1(Word1::Sext16, d, a));
        Ok(d)
    }

    /// Returns the slots of operands as [`extended`](Self::extended) values.
    fn extended_all<const N: usize>(
        &mut self,
        m: &Mnemonic<'a>,
        operands: [&'a Operand<'a>; N],
        ty: Type,
    ) -> Result<[Slot; N], PtxError> {
        let mut slots = [0; N];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            *slot = self.extended(m, operand, ty)?;
        }
        Ok(slots)
    }

    /// Emits the truncation of a 16-bit result, if the type has 16 bits.
    pub(super) fn cut(&mut self, d: Slot, ty: Type) {
        if ty.bytes() == 2 {
            self.emit(Op::word1(Word1::Zext16, d, d));
        }
    }

    fn unary(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let [target, a] = m.operands()?;
        let d = self.target(m, target, ty)?;
        let a = self.extended(m, a, ty)?;
        let f = if m.base == "neg" { Un::Neg } else { Un::Abs };
        self.emit(Op::un(ty, f, d, a));
        self.cut(d, ty);
        Ok(())
    }

    fn binary(&mut self, m: &Mnemonic<'a>, ty: Type, f: Bin) -> Result<(), PtxError> {
        let [d, a, b] = m.operands()?;
        let [a, b] = self.extended_all(m, [a, b], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::bin(ty, f, d, a, b));
        self.cut(d, ty);
        Ok(())
    }

    fn ternary(
        &mut self,
        m: &Mnemonic<'a>,
        ty: Type,
        f: Tri,
        operands: [&'a Operand<'a>; 4],
    ) -> Result<(), PtxError> {
        let [d, a, b, c] = operands;
        let [a, b, c] = self.extended_all(m, [a, b, c], ty)?;
        let d = self.target(m, d, ty)?;
        self.emit(Op::tri(ty, f, d, a, b, c));
        self.cut(d, ty);
        Ok(())
    }

    fn multiply(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let part = m.one_of(&PARTS)?;
        let signed = ty.is_signed();
        if part == Part::Low || part == Part::High && ty.bytes() > 2 {
            return self.binary(m, ty, product(part, signed));
        }
        let [d, a, b] = m.operands()?;
        let [a, b] = self.extended_all(m, [a, b], ty)?;
        match (part, ty.bytes()) {
            (Part::Wide, 4) => {
                let d = self.target(m, d, Type::B64)?;
                self.emit(Op::join(
                    if signed { Join::MulS } else { Join::MulU },
                    d,
                    a,
                    b,
                ));
            }
            (Part::Wide, 2) => {
                let d = self.target(m, d, Type::B32)?;
                self.emit(Op::bin32(Bin::Mul, d, a, b));
            }
            (Part::High, 2) => {
                let d = self.target(m, d, ty)?;
                let product = self.temporary(RegisterClass::Word)?;
                self.emit(Op::bin32(Bin::Mul, product, a, b));
                self.emit(Op::word1(Word1::High16, d, product));
            }
            _ => return Err(m.unsupported()),
        }
        Ok(())
    }

    fn multiply_add(&mut self, m: &mut Mnemonic<'a>, ty: Type) -> Result<(), PtxError> {
        let part = m.one_of(&PARTS)?;
        let saturates = part == Part::High && ty == Type::S32 && m.take("sat");
        let operands = m.operands()?.each_ref();
        let signed = ty.is_signed();
        if saturates {
            let [d, a, b, c] = operands;
            let [a, b, c] = self.sources(m, [a, b, c], ty)?;
            let d = self.target(m, d, ty)?;
            let product = self.temporary(RegisterClass::Word)?;
            self.emit(Op::bin32(Bin::MulHighS, product, a, b));
            self.emit(Op::bin32(Bin::AddSat, d, product, c));
            return Ok(());
        }
        if part == Part::Low || part == Part::High && ty.bytes() > 2 {
            let f = match (part, signed) {
                (Part::High, true) => Tri::MadHighS,
                (Part::High, false) => Tri::MadHighU,
                _ => Tri::Mad,
            };
            return self.ternary(m, ty, f, operands);
        }
        let [d, a, b, c] = operands;
        let [a, b] = self.extended_all(m, [a, b], ty)?;
        match (part, ty.bytes()) {
            (Part::Wide, 4) => {
                let c = self.source(m, c, Type::B64)?;
                let d = self.target(m, d, Type::B64)?;
                self.emit(Op::mad_wide(signed, d, a, b, c));
            }
            (Part::Wide, 2) => {
                let c = self.source(m, c, Type::B32)?;
                let d = self.target(m, d, Type::B32)?;
                self.emit(Op::tri32(Tri::Mad, d, a, b, c));
            }
            (Part::High, 2) => {
                let c = self.source(m, c, ty)?;
                let d = self.target(m, d, ty)?;
                let product = self.temporary(RegisterClass::Word)?;
                self.emit(Op::bin32(Bin::Mul, product, a, b));
                self.emit(Op::word1(Word1::High16, product, product));
                self.emit(Op::bin32(Bin::Add, d, product, c));
                self.cut(d, ty);
            }
            _ => return Err(m.unsupported()),
        }
        Ok(())
    }

    /// Lowers `mul24` and `mad24`, which multiply the operands' low 24 bits, sign- or
    /// zero-extended.
    pub(super) fn multiply_24(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U32, Type::S32])?;
        let high = m.one_of(&[("lo", false), ("hi", true)])?;
        let add = m.base == "mad24";
        let saturates = add && high && ty.is_signed() && m.take("sat");
        m.finish()?;
        let (d, a, b, c) = match m.operands {
            [d, a, b] if !add => (d, a, b, None),
            [d, a, b, c] if add => (d, a, b, Some(c)),
            _ => return Err(m.operand_count(if add { "4" } else { "3" })),
        };
        let f = if ty.is_signed() {
            Word3::BfeS
        } else {
            Word3::BfeU
        };
        let [zero, length] = self.constants(RegisterClass::Word, [0, 24])?;
        let mut parts = [0; 2];
        for (part, operand) in parts.iter_mut().zip([a, b]) {
            let a = self.source(m, operand, ty)?;
            *part = self.temporary(RegisterClass::Word)?;
            self.emit(Op::word3(f, *part, a, zero, length));
        }
        let c = match c {
            Some(c) => self.source(m, c, ty)?,
            None => zero,
        };
        let d = self.target(m, d, ty)?;
        let [a, b] = parts;
        if !high {
            self.emit(Op::tri32(Tri::Mad, d, a, b, c));
            return Ok(());
        }
        // The upper 32 bits of the 48-bit product.
        let product = self.temporary(RegisterClass::Double)?;
        let (join, shift) = if ty.is_signed() {
            (Join::MulS, Shift::ShrS)
        } else {
            (Join::MulU, Shift::ShrU)
        };
        let by = self.constant(RegisterClass::Word, 16)?;
        self.emit(Op::join(join, product, a, b));
        self.emit(Op::shift64(shift, product, product, by));
        let upper = self.temporary(RegisterClass::Word)?;
        self.emit(Op::narrow(Narrow::Low, upper, product));
        let sum = if saturates { Bin::AddSat } else { Bin::Add };
        self.emit(Op::bin32(sum, d, upper, c));
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
        let (d, a, b) = if matches!(m.base, "mad" | "madc") {
            let part = m.one_of(&PARTS[..2])?;
            let [d, a, b, c] = m.operands()?;
            let [a, b, c] = self.sources(m, [a, b, c], ty)?;
            let into = self.temporary(RegisterClass::of(ty))?;
            let f = product(part, ty.is_signed());
            self.emit(Op::bin(ty, f, into, a, b));
            (d, into, c)
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
        self.emit(Op::carry(ty, f, d, a, b));
        Ok(())
    }

    /// Lowers `sad`: `c + |a - b|`.
    pub(super) fn sad(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        use Type::{S16, S32, S64, U16, U32, U64};
        let ty = m.ty_of(&[U16, S16, U32, S32, U64, S64])?;
        let f = if ty.is_signed() { Tri::SadS } else { Tri::SadU };
        self.ternary(m, ty, f, m.operands()?.each_ref())
    }
}

/// Returns the multiplication that returns a part of the product of the operands' size.
fn product(part: Part, signed: bool) -> Bin {
    match (part, signed) {
        (Part::High, true) => Bin::MulHighS,
        (Part::High, false) => Bin::MulHighU,
        _ => Bin::Mul,
    }
}
