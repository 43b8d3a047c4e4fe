//! An instruction's dotted name, taken apart.

use smallvec::SmallVec;

use super::unsupported;
use crate::ptx::ir::Round;
use millstream_ptx::Type;
use millstream_ptx::ast::{InstructionAst, Operand};
use millstream_ptx::{PtxError, PtxErrorKind};

/// The parts of an instruction's name. Each family of instructions takes the parts it understands;
/// whatever is left makes the instruction an unsupported one.
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

    /// Takes `part` if it is there.
    pub(super) fn take(&mut self, part: &str) -> bool {
        let found = self.parts.iter().position(|known| *known == part);
        if let Some(at) = found {
            self.parts.remove(at);
        }
        found.is_some()
    }

    /// Whether `part` is there.
    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    /// Takes the first part of `choices` that is there.
    pub(super) fn take_one<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        choices
            .iter()
            .find(|(part, _)| self.take(part))
            .map(|(_, value)| *value)
    }

    /// Takes all of `parts` that are there: hints and scopes that change nothing here.
    pub(super) fn ignore(&mut self, parts: &[&str]) {
        self.parts.retain(|part| !parts.contains(part));
    }

    /// Takes the last part, which must be a type.
    pub(super) fn ty(&mut self) -> Result<Type, PtxError> {
        let ty = self.parts.last().and_then(|part| Type::from_name(part));
        self.parts.pop();
        ty.ok_or_else(|| self.unsupported())
    }

    /// Takes the last part, which must be one of `allowed`.
    pub(super) fn ty_of(&mut self, allowed: &[Type]) -> Result<Type, PtxError> {
        let ty = self.ty()?;
        if allowed.contains(&ty) {
            Ok(ty)
        } else {
            Err(self.unsupported())
        }
    }

    /// The integer type of an operation that is one for [`Extra`](crate::ptx::ir::Extra): it is
    /// taken.
    pub(super) fn packed_integer(&mut self) -> Option<Type> {
        let packed = [("u16x2", Type::U16), ("s16x2", Type::S16)];
        let relu = matches!(self.base, "min" | "max") && self.parts.contains(&"relu");
        match self.take_one(&packed) {
            None if relu && self.take("s32") => Some(Type::S32),
            found => found,
        }
    }

    /// Takes a rounding mode.
    pub(super) fn round(&mut self) -> Option<Round> {
        self.take_one(&[
            ("rn", Round::Nearest),
            ("rz", Round::Zero),
            ("rm", Round::Down),
            ("rp", Round::Up),
        ])
    }

    /// Checks that every part has been taken.
    pub(super) fn finish(&self) -> Result<(), PtxError> {
        if self.parts.is_empty() {
            Ok(())
        } else {
            Err(self.unsupported())
        }
    }

    /// Checks that every part has been taken, and gives the operands, which must be `N`.
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

    /// The error of an instruction that is refused for this reason.
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
