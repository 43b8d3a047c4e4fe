//! The mnemonic of an instruction: its dotted name, split into parts.

use smallvec::SmallVec;

use super::unsupported;
use crate::ptx::ir::Round;
use millstream_ptx::Type;
use millstream_ptx::ast::{InstructionAst, Operand};
use millstream_ptx::{PtxError, PtxErrorKind};

/// The parts of an instruction's mnemonic.
///
/// Each family of instructions takes the modifiers that it supports. A modifier that is left makes
/// the instruction unsupported.
pub(super) struct Mnemonic<'a> {
    pub(super) full: &'a str,
    pub(super) base: &'a str,
    parts: SmallVec<[&'a str; 8]>,
    pub(super) line: u32,
    pub(super) operands: &'a [Operand<'a>],
}

impl<'a> Mnemonic<'a> {
    pub(super) fn new(instruction: &'a InstructionAst<'a>) -> Self {
        let mut parts = instruction.opcode.split('.');
        Self {
            full: instruction.opcode,
            base: parts.next().unwrap_or(""),
            parts: parts.collect(),
            line: instruction.line,
            operands: &instruction.operands,
        }
    }

    /// Removes the modifier `part`, and returns whether it was present.
    pub(super) fn take(&mut self, part: &str) -> bool {
        let place = self.parts.iter().position(|known| *known == part);
        if let Some(at) = place {
            self.parts.remove(at);
        }
        place.is_some()
    }

    /// Returns whether the modifier `part` is present.
    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    /// Removes the first modifier of `choices` that is present, and returns its value.
    pub(super) fn take_one<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        choices
            .iter()
            .find(|(part, _)| self.take(part))
            .map(|(_, value)| *value)
    }

    /// Removes the first modifier of `choices` that is present, and returns its value. Fails if
    /// there is none.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, PtxError> {
        self.take_one(choices).ok_or_else(|| self.unsupported())
    }

    /// Removes all modifiers of `choices` that are present, and returns their values in the order
    /// of the mnemonic.
    pub(super) fn take_all<T: Copy>(&mut self, choices: &[(&str, T)]) -> SmallVec<[T; 4]> {
        let mut values = SmallVec::new();
        self.parts.retain(|part| {
            let found = choices.iter().find(|(known, _)| known == part);
            values.extend(found.map(|(_, value)| *value));
            found.is_none()
        });
        values
    }

    /// Removes all of `parts` that are present: hints and scopes that have no effect in the
    /// simulator.
    pub(super) fn ignore(&mut self, parts: &[&str]) {
        self.parts.retain(|part| !parts.contains(part));
    }

    /// Removes the last part that is a type. Like `ptxas`, accepts modifiers behind it.
    pub(super) fn ty(&mut self) -> Result<Type, PtxError> {
        let types = self
            .parts
            .iter()
            .rposition(|part| Type::from_name(part).is_some());
        let at = types.ok_or_else(|| self.unsupported())?;
        let ty = Type::from_name(self.parts.remove(at));
        ty.ok_or_else(|| self.unsupported())
    }

    /// Removes the last part that is a type, which must be one of the `allowed` types.
    pub(super) fn ty_of(&mut self, allowed: &[Type]) -> Result<Type, PtxError> {
        let ty = self.ty()?;
        if allowed.contains(&ty) {
            Ok(ty)
        } else {
            Err(self.unsupported())
        }
    }

    /// Removes and returns the integer type of an instruction that lowers to a packed operation or
    /// has `.relu`.
    pub(super) fn packed_integer(&mut self) -> Option<Type> {
        let packed = [("u16x2", Type::U16), ("s16x2", Type::S16)];
        let relu = matches!(self.base, "min" | "max") && self.parts.contains(&"relu");
        match self.take_one(&packed) {
            None if relu && self.take("s32") => Some(Type::S32),
            found => found,
        }
    }

    /// Removes a rounding mode, if one is present.
    pub(super) fn round(&mut self) -> Option<Round> {
        self.take_one(&[
            ("rn", Round::Nearest),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
        ])
    }

    /// Returns an error if any modifier is left.
    pub(super) fn finish(&self) -> Result<(), PtxError> {
        if self.parts.is_empty() {
            Ok(())
        } else {
            Err(self.unsupported())
        }
    }

    /// Returns the operands, or an error if any modifier is left or there are not exactly `N`
    /// operands.
    pub(super) fn operands<const N: usize>(&self) -> Result<&'a [Operand<'a>; N], PtxError> {
        self.finish()?;
        self.operands
            .try_into()
            .map_err(|_| self.operand_count(&N.to_string()))
    }

    pub(super) fn unsupported(&self) -> PtxError {
        let opcode = self.full.to_owned();
        let kind = match unsupported::why(self.base, self.full) {
            Some(reason) => PtxErrorKind::RefusedOpcode { opcode, reason },
            None => PtxErrorKind::UnsupportedOpcode(opcode),
        };
        kind.at(self.line)
    }

    /// Returns the error of an instruction rejected for the given reason.
    pub(super) fn refuse(&self, reason: &'static str) -> PtxError {
        let opcode = self.full.to_owned();
        PtxErrorKind::RefusedOpcode { opcode, reason }.at(self.line)
    }

    pub(super) fn operand_count(&self, expected: &str) -> PtxError {
        PtxErrorKind::OperandCount {
            opcode: self.full.to_owned(),
            expected: expected.to_owned(),
            found: self.operands.len(),
        }
        .at(self.line)
    }

    pub(super) fn mismatch(&self, operand: &Operand<'_>, reason: impl Into<String>) -> PtxError {
        PtxErrorKind::TypeMismatch {
            opcode: self.full.to_owned(),
            operand: operand.to_string(),
            reason: reason.into(),
        }
        .at(self.line)
    }
}
