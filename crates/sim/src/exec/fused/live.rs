//! The registers that operations outside a fused block may read.

use crate::ptx::ir::{Access, Code, GUARD_NEGATED, Instr, NO_GUARD, Op, RegisterClass, Slot};
use crate::ptx::{each_result, other_results, sources};

/// Calls `read` with each register that an operation of a fused block reads in a lane, its guard
/// included. The addresses of loads and stores are read before the block.
pub(super) fn register_reads(
    code: &Code,
    instr: &Instr,
    read: &mut dyn FnMut(RegisterClass, Slot),
) {
    if instr.guard != NO_GUARD {
        read(RegisterClass::Predicate, instr.guard & !GUARD_NEGATED);
    }
    if let Op::Store(index) = instr.op {
        let access = &code.stores[index as usize];
        read(value_class(access), access.values[0]);
    } else if instr.op.register_result().is_some() {
        instr.op.register_operands(read);
    }
}

fn value_class(access: &Access) -> RegisterClass {
    if access.double {
        RegisterClass::Double
    } else {
        RegisterClass::Word
    }
}

/// Returns the register that an operation of a fused block writes.
pub(super) fn register_result(code: &Code, op: Op) -> Option<(RegisterClass, Slot)> {
    match op {
        Op::Load(index) => {
            let access = &code.loads[index as usize];
            Some((value_class(access), access.values[0]))
        }
        op => op.register_result(),
    }
}

/// The registers that must be in the register file behind the blocks. All others are read only in
/// the block that writes them, behind a write without a guard.
#[derive(Default)]
pub(super) struct LiveRegisters {
    live: [Vec<bool>; 3],
    /// The registers that some operation writes.
    written: [Vec<bool>; 3],
}

impl LiveRegisters {
    /// Finds the registers in operations that are divided into blocks and others: `block_of` has
    /// the number of an operation's block.
    pub(super) fn new(code: &Code, instrs: &[Instr], block_of: &[Option<u32>]) -> Self {
        let sizes = [code.words, code.doubles, code.predicates];
        let mut live = sizes.map(|size| vec![false; size as usize]);
        let mut ever_written = live.clone();
        let mut written = sizes.map(|size| vec![None; size as usize]);
        for (instr, block) in instrs.iter().zip(block_of) {
            let mut read = |class: RegisterClass, slot: Slot| {
                // An exchange may report a slot of the wrong register file.
                let Some(live) = live[class as usize].get_mut(slot as usize) else {
                    return;
                };
                *live |= block.is_none() || written[class as usize][slot as usize] != *block;
            };
            if instr.guard != NO_GUARD {
                read(RegisterClass::Predicate, instr.guard & !GUARD_NEGATED);
            }
            sources(code, &instr.op, &mut read);
            let mut write = |class: RegisterClass, slot: Slot| {
                if let Some(written) = ever_written[class as usize].get_mut(slot as usize) {
                    *written = true;
                }
            };
            each_result(code, &instr.op, &mut write);
            other_results(code, &instr.op, &mut write);
            if block.is_some()
                && let Some((class, slot)) = register_result(code, instr.op)
                && instr.guard == NO_GUARD
            {
                written[class as usize][slot as usize] = *block;
            }
        }
        Self {
            live,
            written: ever_written,
        }
    }

    /// Returns whether a register must be stored.
    pub(super) fn has(&self, class: RegisterClass, slot: Slot) -> bool {
        self.live[class as usize][slot as usize]
    }

    /// Returns whether a register keeps its initial value.
    pub(super) fn is_constant(&self, class: RegisterClass, slot: Slot) -> bool {
        let written = self.written[class as usize].get(slot as usize);
        !written.copied().unwrap_or(false)
    }
}
