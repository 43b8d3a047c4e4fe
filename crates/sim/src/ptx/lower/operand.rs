//! Resolution of operands to slots.

use super::lowerer::Lowerer;
use super::mnemonic::Mnemonic;
use super::symbols::{Register, Symbol};
use crate::ptx::ir::{
    GUARD_NEGATED, InitialValue, NO_GUARD, Narrow, Op, PredOp, RegisterClass, Slot,
    SpecialRegister, Window,
};
use millstream_ptx::Type;
use millstream_ptx::ast::{Operand, is_number_below};
use millstream_ptx::{PtxError, PtxErrorKind};

/// Slots for values that live only within one PTX instruction, reused by the next one.
#[derive(Debug, Default)]
pub(super) struct Temporaries {
    slots: [Vec<Slot>; 3],
    used: [usize; 3],
}

impl Temporaries {
    /// Makes all temporaries available to the next instruction.
    pub(super) fn reset(&mut self) {
        self.used = [0; 3];
    }
}

impl<'a> Lowerer<'a> {
    /// Returns a slot that no other part of the current instruction uses.
    pub(super) fn temporary(&mut self, class: RegisterClass) -> Result<Slot, PtxError> {
        let index = class as usize;
        let used = self.temporaries.used[index];
        self.temporaries.used[index] += 1;
        if let Some(slot) = self.temporaries.slots[index].get(used) {
            return Ok(*slot);
        }
        let slot = self.new_slot(class)?;
        self.temporaries.slots[index].push(slot);
        Ok(slot)
    }

    /// Returns temporary slots; see [`temporary`](Self::temporary).
    pub(super) fn temporaries<const N: usize>(
        &mut self,
        class: RegisterClass,
    ) -> Result<[Slot; N], PtxError> {
        let mut slots = [0; N];
        for slot in &mut slots {
            *slot = self.temporary(class)?;
        }
        Ok(slots)
    }

    pub(super) fn constants<const N: usize>(
        &mut self,
        class: RegisterClass,
        bits: [u64; N],
    ) -> Result<[Slot; N], PtxError> {
        let mut slots = [0; N];
        for (slot, bits) in slots.iter_mut().zip(bits) {
            *slot = self.constant(class, bits)?;
        }
        Ok(slots)
    }

    pub(super) fn constant(&mut self, class: RegisterClass, bits: u64) -> Result<Slot, PtxError> {
        self.constant_of(class, bits, None)
    }

    /// Returns the slot of a constant, which may be an address in a variable of shared memory.
    pub(super) fn constant_of(
        &mut self,
        class: RegisterClass,
        bits: u64,
        variable: Option<u32>,
    ) -> Result<Slot, PtxError> {
        if let Some(slot) = self.constants.get(&(class, bits, variable)) {
            return Ok(*slot);
        }
        let slot = self.new_slot(class)?;
        let addresses = &mut self.code.shared_addresses;
        addresses.extend(variable.map(|start| ((class, slot), start)));
        match class {
            RegisterClass::Word => self
                .code
                .initial_words
                .push((slot, InitialValue::Constant(bits))),
            RegisterClass::Double => self
                .code
                .initial_doubles
                .push((slot, InitialValue::Constant(bits))),
            RegisterClass::Predicate => self.code.initial_predicates.push((slot, bits != 0)),
        }
        self.constants.insert((class, bits, variable), slot);
        Ok(slot)
    }

    pub(super) fn special(
        &mut self,
        class: RegisterClass,
        special: SpecialRegister,
    ) -> Result<Slot, PtxError> {
        if let Some(slot) = self.specials.get(&(class, special)) {
            return Ok(*slot);
        }
        let slot = self.new_slot(class)?;
        match class {
            RegisterClass::Double => self
                .code
                .initial_doubles
                .push((slot, InitialValue::Special(special))),
            _ => self
                .code
                .initial_words
                .push((slot, InitialValue::Special(special))),
        }
        if let SpecialRegister::DynamicShared(_) = special {
            self.code.shared_addresses.push(((class, slot), u32::MAX));
        }
        self.specials.insert((class, special), slot);
        Ok(slot)
    }

    pub(super) fn is_predicate(&mut self, name: &'a str) -> bool {
        matches!(
            self.resolve(name),
            Ok(Symbol::Register(Register { ty: Type::Pred, .. }))
        )
    }

    pub(super) fn predicate(&mut self, name: &'a str) -> Result<Slot, PtxError> {
        match self.resolve(name)? {
            Symbol::Register(Register {
                ty: Type::Pred,
                slot,
            }) => Ok(slot),
            _ => {
                let (operand, opcode) = (name.to_owned(), "@".to_owned());
                let reason = "expected a predicate".to_owned();
                Err(self.error(PtxErrorKind::TypeMismatch {
                    opcode,
                    operand,
                    reason,
                }))
            }
        }
    }

    /// Returns the slot of an operand read as type `ty`. A register must have the size of `ty`.
    pub(super) fn source(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<Slot, PtxError> {
        let register = self.source_wide(m, operand, ty)?;
        if same_size(register.ty, ty) {
            Ok(register.slot)
        } else {
            Err(m.mismatch(operand, size_problem(register.ty, ty)))
        }
    }

    /// Returns the slots of operands read as type `ty`.
    pub(super) fn sources<const N: usize>(
        &mut self,
        m: &Mnemonic<'a>,
        operands: [&Operand<'a>; N],
        ty: Type,
    ) -> Result<[Slot; N], PtxError> {
        let mut slots = [0; N];
        for (slot, operand) in slots.iter_mut().zip(operands) {
            *slot = self.source(m, operand, ty)?;
        }
        Ok(slots)
    }

    /// Returns the register of an operand read as type `ty`. The register may be wider than `ty`.
    pub(super) fn source_wide(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<Register, PtxError> {
        let class = RegisterClass::of(ty);
        let register = |slot| Register { ty, slot };
        match operand {
            Operand::Name(name) => {
                if let Some(slot) = self.special_register(name, ty)? {
                    return Ok(register(slot));
                }
                match self.resolve(name)? {
                    Symbol::Register(register) => {
                        let fits = (register.ty == Type::Pred) == (ty == Type::Pred)
                            && register.ty.bytes() >= ty.bytes();
                        if !fits {
                            return Err(m.mismatch(operand, size_problem(register.ty, ty)));
                        }
                        Ok(register)
                    }
                    symbol => self.address_value(m, operand, symbol, 0, ty).map(register),
                }
            }
            Operand::Element(name, index) => {
                let register = self.vector_element(m, operand, name, *index)?;
                if register.ty.bytes() < ty.bytes() || ty == Type::Pred {
                    return Err(m.mismatch(operand, size_problem(register.ty, ty)));
                }
                Ok(register)
            }
            Operand::NameOffset(name, offset) => {
                let symbol = self.resolve(name)?;
                self.address_value(m, operand, symbol, *offset, ty)
                    .map(register)
            }
            Operand::Not(name) if ty == Type::Pred => {
                let a = self.predicate(name)?;
                let d = self.temporary(RegisterClass::Predicate)?;
                self.emit(Op::pred(PredOp::Not, d, a, a));
                Ok(register(d))
            }
            // A constant in brackets is parsed as a list, like the arguments of a call.
            Operand::List(items) if items.len() == 1 => self.source_wide(m, &items[0], ty),
            _ => match constant_bits(operand, ty) {
                Some(bits) => self.constant(class, bits).map(register),
                None => Err(m.mismatch(operand, format!("expected a value of type {}", ty.name()))),
            },
        }
    }

    fn address_value(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        symbol: Symbol<'a>,
        offset: i64,
        ty: Type,
    ) -> Result<Slot, PtxError> {
        if !ty.is_integer() || ty.bytes() < 4 {
            return Err(m.mismatch(
                operand,
                format!("an address does not fit type {}", ty.name()),
            ));
        }
        let class = RegisterClass::of(ty);
        match symbol {
            Symbol::Memory {
                window: Window::Shared,
                offset: start,
            } => self.shared_address(class, start, offset),
            Symbol::Memory { offset: base, .. } => {
                let address = u64::from(base).wrapping_add(offset.cast_unsigned());
                self.constant(class, truncate(address, ty.bytes()))
            }
            Symbol::Frame(_) | Symbol::Formal(_) if class == RegisterClass::Double => {
                let place = self.place_in_local_memory(symbol);
                let (base, start) = place.ok_or_else(|| m.mismatch(operand, "expected a value"))?;
                let d = self.temporary(class)?;
                let offset = u32::try_from(i64::from(start) + offset)
                    .map_err(|_| m.mismatch(operand, "the offset is too large for local memory"))?;
                self.emit_address(d, base, offset)?;
                Ok(d)
            }
            Symbol::Function(address) => {
                let address = address.wrapping_add(offset.cast_unsigned());
                self.constant(class, truncate(address, ty.bytes()))
            }
            Symbol::DynamicShared => self.special(class, SpecialRegister::DynamicShared(offset)),
            Symbol::Variable(index) if class == RegisterClass::Double => {
                self.special(class, SpecialRegister::Variable(index, offset))
            }
            _ => Err(m.mismatch(operand, "expected a value")),
        }
    }

    /// Returns the slot of one axis of a vector special register, if `name` is one. The fourth axis
    /// is 0.
    pub(super) fn special_axis(
        &mut self,
        name: &str,
        axis: u8,
        class: RegisterClass,
    ) -> Result<Option<Slot>, PtxError> {
        let special = match name {
            "%tid" => SpecialRegister::Tid(axis),
            "%ntid" => SpecialRegister::Ntid(axis),
            "%ctaid" => SpecialRegister::Ctaid(axis),
            "%nctaid" => SpecialRegister::Nctaid(axis),
            _ => return Ok(None),
        };
        if axis > 2 {
            return self.constant(class, 0).map(Some);
        }
        self.special(class, special).map(Some)
    }

    /// Returns the slot of a special register, if `name` is one.
    fn special_register(&mut self, name: &str, ty: Type) -> Result<Option<Slot>, PtxError> {
        if !name.starts_with('%') {
            return Ok(None);
        }
        let class = RegisterClass::of(ty);
        let axis = match name.rsplit_once('.') {
            Some((_, "x")) => Some(0),
            Some((_, "y")) => Some(1),
            Some((_, "z")) => Some(2),
            _ => None,
        };
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
        if let Some(axis) = axis
            && let Some(slot) = self.special_axis(stem, axis, class)?
        {
            return Ok(Some(slot));
        }
        let special = match (stem, axis) {
            ("%laneid", None) => SpecialRegister::LaneId,
            ("%warpid", None) => SpecialRegister::WarpId,
            ("%nwarpid", None) => SpecialRegister::WarpCount,
            ("%lanemask_eq", None) => SpecialRegister::LaneMaskEq,
            ("%lanemask_le", None) => SpecialRegister::LaneMaskLe,
            ("%lanemask_lt", None) => SpecialRegister::LaneMaskLt,
            ("%lanemask_ge", None) => SpecialRegister::LaneMaskGe,
            ("%lanemask_gt", None) => SpecialRegister::LaneMaskGt,
            ("%dynamic_smem_size", None) => SpecialRegister::DynamicSharedBytes,
            ("%total_smem_size", None) => SpecialRegister::TotalSharedBytes,
            // A kernel observes one multiprocessor, one grid, and no graph.
            ("%smid" | "%gridid" | "%current_graph_exec", None) => {
                return self.constant(class, 0).map(Some);
            }
            ("%nsmid", None) => return self.constant(class, 1).map(Some),
            // A cluster has one block.
            ("%cluster_ctaid", Some(_)) | ("%cluster_ctarank", None) => {
                return self.constant(class, 0).map(Some);
            }
            ("%cluster_nctaid", Some(_)) | ("%cluster_nctarank", None) => {
                return self.constant(class, 1).map(Some);
            }
            ("%is_explicit_cluster", None) if class == RegisterClass::Predicate => {
                return self.constant(class, 0).map(Some);
            }
            ("%clusterid", Some(axis)) => {
                return self.special(class, SpecialRegister::Ctaid(axis)).map(Some);
            }
            ("%nclusterid", Some(axis)) => {
                return self.special(class, SpecialRegister::Nctaid(axis)).map(Some);
            }
            ("%aggr_smem_size", None) => SpecialRegister::TotalSharedBytes,
            (stem, None) if stem.starts_with("%reserved_smem_offset_") => {
                return self.reserved_shared(class, stem);
            }
            ("%envreg1", None) => SpecialRegister::GridWorkspaceHigh,
            ("%envreg2", None) => SpecialRegister::GridWorkspaceLow,
            // The driver sets the others to 0.
            (stem, None)
                if stem
                    .strip_prefix("%envreg")
                    .is_some_and(|at| is_number_below(at, 32)) =>
            {
                return self.constant(class, 0).map(Some);
            }
            ("%clock_hi" | "%globaltimer_hi", None) => {
                let (a, d) = (
                    self.temporary(RegisterClass::Double)?,
                    self.temporary(RegisterClass::Word)?,
                );
                self.emit(Op::Clock64 { d: a });
                self.emit(Op::narrow(Narrow::High, d, a));
                return Ok(Some(d));
            }
            ("%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo", None) => {
                let d = self.temporary(class)?;
                self.emit(if class == RegisterClass::Double {
                    Op::Clock64 { d }
                } else {
                    Op::Clock32 { d }
                });
                return Ok(Some(d));
            }
            _ => return Ok(None),
        };
        self.special(class, special).map(Some)
    }

    /// Returns the slot of a result of type `ty`. The register must have the size of `ty`.
    pub(super) fn target(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<Slot, PtxError> {
        let register = self.target_wide(m, operand, ty)?;
        if same_size(register.ty, ty) {
            Ok(register.slot)
        } else {
            Err(m.mismatch(operand, size_problem(register.ty, ty)))
        }
    }

    /// Returns the register of a result of type `ty`. The register may be wider than `ty`; `_` is a
    /// register that no instruction reads.
    pub(super) fn target_wide(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        ty: Type,
    ) -> Result<Register, PtxError> {
        let name = match operand {
            Operand::Name(name) => name,
            Operand::Element(name, index) => {
                let register = self.vector_element(m, operand, name, *index)?;
                if register.ty.bytes() < ty.bytes() || ty == Type::Pred {
                    return Err(m.mismatch(operand, size_problem(register.ty, ty)));
                }
                return Ok(register);
            }
            _ => return Err(m.mismatch(operand, "expected a register")),
        };
        if *name == "_" {
            return Ok(Register {
                ty,
                slot: self.temporary(RegisterClass::of(ty))?,
            });
        }
        match self.resolve(name)? {
            Symbol::Register(register)
                if (register.ty == Type::Pred) == (ty == Type::Pred)
                    && register.ty.bytes() >= ty.bytes() =>
            {
                Ok(register)
            }
            Symbol::Register(register) => Err(m.mismatch(operand, size_problem(register.ty, ty))),
            _ => Err(m.mismatch(operand, "expected a register")),
        }
    }

    /// Returns an element of the vector register `name`.
    fn vector_element(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &Operand<'a>,
        name: &'a str,
        index: u8,
    ) -> Result<Register, PtxError> {
        match self.resolve(name)? {
            Symbol::Vector(first, elements) if index < elements => Ok(first.element(index)),
            _ => Err(m.mismatch(operand, "expected a vector register")),
        }
    }

    /// Copies the guard to a temporary, because one of an instruction's operations may overwrite
    /// it.
    pub(super) fn keep_guard(&mut self) -> Result<(), PtxError> {
        if self.guard == NO_GUARD {
            return Ok(());
        }
        let a = self.guard & !GUARD_NEGATED;
        let d = self.temporary(RegisterClass::Predicate)?;
        let negated = self.guard & GUARD_NEGATED;
        let guard = std::mem::replace(&mut self.guard, NO_GUARD);
        debug_assert_ne!(guard, NO_GUARD);
        self.emit(Op::pred(PredOp::Move, d, a, a));
        self.guard = d | negated;
        Ok(())
    }
}

/// Returns whether a register of type `a` can be used as a `b`: the sizes are equal, and both or
/// neither are predicates.
fn same_size(a: Type, b: Type) -> bool {
    a.bytes() == b.bytes() && (a == Type::Pred) == (b == Type::Pred)
}

fn size_problem(found: Type, wanted: Type) -> String {
    format!("expected type {}, found {}", wanted.name(), found.name())
}

pub(super) fn truncate(bits: u64, bytes: usize) -> u64 {
    if bytes >= 8 {
        bits
    } else {
        bits & ((1 << (8 * bytes)) - 1)
    }
}

/// Returns the bits of a literal as a `ty`, or `None` if the literal does not fit the type.
fn constant_bits(operand: &Operand<'_>, ty: Type) -> Option<u64> {
    match (operand, ty) {
        (Operand::Int(value), Type::Pred) => Some(u64::from(*value != 0)),
        (Operand::Int(value), _) if !ty.is_float() => Some(truncate(*value, ty.bytes())),
        (Operand::F32(bits), Type::F32 | Type::B32) => Some(u64::from(*bits)),
        (Operand::F32(bits), Type::F64) => Some(f64::from(f32::from_bits(*bits)).to_bits()),
        (Operand::F64(bits), Type::F64 | Type::B64) => Some(*bits),
        (Operand::F64(bits), Type::F32) => {
            Some(u64::from((f64::from_bits(*bits) as f32).to_bits()))
        }
        _ => None,
    }
}
