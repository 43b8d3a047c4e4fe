//! The symbol table: registers, variables and labels, by scope.

use std::collections::BTreeMap;

use crate::ptx::ir::{Slot, Window};
use millstream_ptx::Type;
use millstream_ptx::ast::{RegisterType, RegistersAst, Space, VariableAst, is_number_below};
use millstream_ptx::{PtxError, PtxErrorKind};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Register {
    pub(super) ty: Type,
    pub(super) slot: Slot,
}

impl Register {
    /// Returns an element of the vector register that begins with this one.
    pub(super) fn element(self, index: u8) -> Self {
        Self {
            slot: self.slot + u32::from(index),
            ..self
        }
    }
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol<'a> {
    Register(Register),
    /// A vector register: its first element and the number of elements, in consecutive slots.
    Vector(Register, u8),
    /// A `.b128` register: the slots of its lower and upper half.
    Wide([Slot; 2]),
    /// The number of a label.
    Label(usize),
    /// A variable with a fixed offset in a window.
    Memory {
        window: Window,
        offset: u32,
    },
    /// An offset in the stack frame of a function that is called at run time.
    Frame(u32),
    /// A parameter or result of such a function: the slot that holds its address in local memory.
    Formal(Slot),
    /// The address of a function.
    Function(u64),
    /// The index of a variable of the module.
    Variable(u32),
    /// The unsized array at the start of dynamic shared memory.
    DynamicShared,
    /// A list of branch targets.
    Targets(&'a [&'a str]),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterFamily {
    pub(super) ty: RegisterType,
    count: u32,
}

/// The names declared in one block in braces.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    symbols: BTreeMap<&'a str, Symbol<'a>>,
    /// The register families, such as `.reg .b32 %r<24>`, by prefix. Each register is created on
    /// first use.
    families: BTreeMap<&'a str, RegisterFamily>,
}

impl<'a> Scope<'a> {
    pub(super) fn add(
        &mut self,
        name: &'a str,
        symbol: Symbol<'a>,
        line: u32,
    ) -> Result<(), PtxError> {
        match self.symbols.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(PtxErrorKind::Duplicate(name.to_owned()).at(line)),
        }
    }

    pub(super) fn add_family(
        &mut self,
        registers: &RegistersAst<'a>,
        count: u32,
    ) -> Result<(), PtxError> {
        let family = RegisterFamily {
            ty: registers.ty,
            count,
        };
        match self.families.insert(registers.name, family) {
            None => Ok(()),
            Some(_) => Err(PtxErrorKind::Duplicate(registers.name.to_owned()).at(registers.line)),
        }
    }

    /// Returns the symbol of `name`, if it is declared in this scope or is a numbered register
    /// already used.
    pub(super) fn get(&self, name: &str) -> Option<Symbol<'a>> {
        self.symbols.get(name).copied()
    }

    pub(super) fn family_of(&self, name: &str) -> Option<RegisterFamily> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        (name.len() - digits..name.len()).find_map(|at| {
            let (prefix, number) = name.split_at(at);
            let family = self.families.get(prefix)?;
            is_number_below(number, family.count).then_some(*family)
        })
    }
}

/// Returns the window of a shared variable or of a variable declared in a function.
pub(super) fn window(variable: &VariableAst<'_>) -> Option<Window> {
    match variable.space {
        Space::Shared => Some(Window::Shared),
        // A parameter declared in a function body holds a call's arguments, separately for each
        // thread.
        Space::Local | Space::Param => Some(Window::Local),
        Space::Global | Space::Const => None,
    }
}
