//! What the names of a PTX text stand for: registers, variables, labels, scope by scope.

use std::collections::BTreeMap;

use crate::ptx::ir::{Slot, Window};
use millstream_ptx::Type;
use millstream_ptx::ast::{RegisterType, RegistersAst, Space, VariableAst, is_number_below};
use millstream_ptx::{PtxError, PtxErrorKind};

/// A register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Register {
    pub(super) ty: Type,
    pub(super) slot: Slot,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol<'a> {
    Register(Register),
    /// A vector register: its first element, and how many there are, in slots one after the other.
    Vector(Register, u8),
    /// A `.b128` register: the slots of its lower and its upper half.
    Wide([Slot; 2]),
    /// The number of a label.
    Label(usize),
    /// A variable with a fixed offset in a window.
    Memory {
        window: Window,
        offset: u32,
    },
    /// An offset in the frame of a function that is really called.
    Frame(u32),
    /// A parameter or result of such a function: the slot that holds where it lies in local memory.
    Formal(Slot),
    /// The address of a function.
    Function(u64),
    /// The index of a module's variable.
    Variable(u32),
    /// The array without a size where dynamic shared memory begins.
    DynamicShared,
    /// A list of branch targets.
    Targets(&'a [&'a str]),
}

/// Numbered registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterFamily {
    pub(super) ty: RegisterType,
    count: u32,
}

/// The names of one `{ }` block.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    symbols: BTreeMap<&'a str, Symbol<'a>>,
    /// `.reg .b32 %r<24>` by the prefix. The registers themselves are made when they are first
    /// used.
    families: BTreeMap<&'a str, RegisterFamily>,
}

impl<'a> Scope<'a> {
    /// Adds a name that must be new.
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

    /// Adds a family of numbered registers.
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

    /// What `name` stands for, if it has been declared or used here.
    pub(super) fn get(&self, name: &str) -> Option<Symbol<'a>> {
        self.symbols.get(name).copied()
    }

    /// The family here that has the numbered register `name`.
    pub(super) fn family_of(&self, name: &str) -> Option<RegisterFamily> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        (name.len() - digits..name.len()).find_map(|at| {
            let (prefix, number) = name.split_at(at);
            let family = self.families.get(prefix)?;
            is_number_below(number, family.count).then_some(*family)
        })
    }
}

/// The window of a variable that is declared in a function or is shared.
pub(super) fn window(variable: &VariableAst<'_>) -> Option<Window> {
    match variable.space {
        Space::Shared => Some(Window::Shared),
        // A parameter declared in a body is where a call's arguments lie: each thread's own.
        Space::Local | Space::Param => Some(Window::Local),
        Space::Global | Space::Const => None,
    }
}
