//! The state of lowering a kernel.

use std::collections::BTreeMap;

use super::call::CallingConvention;
use super::operand::Temporaries;
use super::symbols::Scope;
use crate::ptx::ir::{Code, Instr, Op, RegisterClass, Slot, SpecialRegister};
use millstream_ptx::ast::{ModuleAst, VariableAst};
use millstream_ptx::{PtxError, PtxErrorKind};

/// The stack frame of a function that is called at run time, with its local variables.
pub(super) struct LocalFrame {
    /// The slot that holds the frame's address in local memory.
    pub(super) slot: Slot,
    pub(super) bytes: u32,
}

/// The state of lowering one kernel.
pub(super) struct Lowerer<'a> {
    pub(super) module: &'a ModuleAst<'a>,
    pub(super) code: Code,
    /// The scopes of the current function, innermost last. A called function does not see its
    /// caller's scopes.
    pub(super) scopes: Vec<Scope<'a>>,
    /// The position of each label, once known. Branches hold label numbers until
    /// [`Lowerer::finish`].
    pub(super) labels: Vec<Option<u32>>,
    /// The slots of constants. Addresses in a variable of shared memory have its offset, too.
    pub(super) constants: BTreeMap<(RegisterClass, u64, Option<u32>), Slot>,
    pub(super) specials: BTreeMap<(RegisterClass, SpecialRegister), Slot>,
    /// The offsets of the shared variables that this kernel uses. A variable declared in a function
    /// exists once per block, however often the function is called.
    pub(super) shared: BTreeMap<*const VariableAst<'a>, u32>,
    /// The offset of the reserved shared memory, if the kernel uses it.
    pub(super) reserved: Option<u32>,
    /// The alignment of dynamic shared memory, if the kernel uses it.
    pub(super) dynamic_shared_align: Option<u32>,
    pub(super) temporaries: Temporaries,
    /// The predicate that holds the carry flag.
    pub(super) carry: Option<Slot>,
    /// The functions being lowered, outermost first.
    pub(super) calls: Vec<&'a str>,
    /// The label that `ret` branches to in a called function.
    pub(super) return_label: Option<usize>,
    /// The frame of the current function, if it is called at run time.
    pub(super) frame: Option<LocalFrame>,
    pub(super) convention: CallingConvention,
    pub(super) line: u32,
    /// The source file number and line, if the PTX has line information.
    pub(super) location: (u32, u32),
    pub(super) guard: u32,
    pub(super) counted: u32,
    /// The first feature that the simulated device lacks.
    pub(super) refusal: Option<PtxError>,
}

impl<'a> Lowerer<'a> {
    pub(super) fn error(&self, kind: PtxErrorKind) -> PtxError {
        kind.at(self.line)
    }

    /// Appends an operation with the current guard.
    pub(super) fn emit(&mut self, op: Op) {
        self.code.instrs.push(Instr {
            op,
            guard: self.guard,
            counted: self.counted,
        });
        self.code.lines.push(self.line);
        self.code.locations.push(self.location);
        self.counted = 0;
    }

    pub(super) fn new_label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    pub(super) fn place_label(&mut self, label: usize) {
        self.labels[label] = u32::try_from(self.code.instrs.len()).ok();
    }
}

/// Appends an entry to a table of the code, and returns its index.
pub(super) fn add<T>(table: &mut Vec<T>, entry: T) -> u32 {
    table.push(entry);
    u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
}
