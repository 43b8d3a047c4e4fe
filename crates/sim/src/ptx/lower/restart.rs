//! The registers that a warp must set anew when it starts another block of the same launch.
//!
//! Setting all of them takes longer than many a kernel. A register can keep its value of the last
//! block if every thread writes it in the new block before it reads it. One pass over the code
//! proves that for most registers: a thread that executes an operation has executed all operations
//! since the last branch target, and all from the kernel's entry to the first branch.

use super::uses::sources;
use crate::ptx::ir::{
    Code, GUARD_NEGATED, InitialValue, NO_GUARD, Op, RegisterClass, Restart, Slot, SpecialRegister,
};

/// The number of the stretch of code, up to the next branch target, in which a register was written
/// last.
type Stretch = u32;

/// The stretch of a register that has not been written.
const NEVER: Stretch = 0;
/// The stretch of a register with an initial value.
const INITIAL: Stretch = 1;
/// The stretch from the kernel's entry to the first branch or branch target.
const ENTRY: Stretch = 2;

/// Returns the registers that a warp must set anew, for the finished code of a kernel.
pub(super) fn restart(code: &Code) -> Restart {
    let mut restart = Restart::default();
    let targets = code.branch_targets();
    let sizes = [code.words, code.doubles, code.predicates];
    let mut written = sizes.map(|size| vec![NEVER; size as usize]);
    let initial_slots = [
        code.initial_words
            .iter()
            .map(|(slot, _)| *slot)
            .collect::<Vec<_>>(),
        code.initial_doubles.iter().map(|(slot, _)| *slot).collect(),
        code.initial_predicates
            .iter()
            .map(|(slot, _)| *slot)
            .collect(),
    ];
    for (written, slots) in written.iter_mut().zip(initial_slots) {
        slots
            .iter()
            .for_each(|slot| written[*slot as usize] = INITIAL);
    }
    // A function is entered from many places, so its registers' values are not known.
    restart.everything = !code.callees.is_empty();
    let mut stretch = ENTRY;
    for (instr, is_target) in code.instrs.iter().zip(targets) {
        stretch += Stretch::from(is_target);
        let mut read = |class: RegisterClass, slot: Slot| {
            // An exchange may report a slot of the wrong register file.
            if let Some(last) = written[class as usize].get(slot as usize)
                && ![INITIAL, ENTRY, stretch].contains(last)
            {
                restart.cleared[class as usize].push(slot);
            }
        };
        if instr.guard != NO_GUARD {
            read(RegisterClass::Predicate, instr.guard & !GUARD_NEGATED);
        }
        sources(code, &instr.op, &mut read);
        each_result(code, &instr.op, &mut |class, slot| {
            let last = &mut written[class as usize][slot as usize];
            restart.everything |= *last == INITIAL;
            if instr.guard == NO_GUARD && *last != ENTRY {
                *last = stretch;
            }
        });
        let branches = matches!(instr.op, Op::Branch { .. } | Op::BranchIndexed { .. });
        stretch += Stretch::from(branches && stretch == ENTRY);
    }
    for slots in &mut restart.cleared {
        slots.sort_unstable();
        slots.dedup();
    }
    for (slot, value) in &code.initial_words {
        if let InitialValue::Special(special @ SpecialRegister::Ctaid(_)) = value {
            restart.of_block.push((*slot, *special));
        }
    }
    restart
}

/// Calls `write` with each register that a load or an operation on registers writes. The results of
/// other operations count as unwritten, which costs time only.
pub(crate) fn each_result(code: &Code, op: &Op, write: &mut dyn FnMut(RegisterClass, Slot)) {
    if let Op::Load(index) = *op {
        let access = &code.loads[index as usize];
        let class = RegisterClass::of_bytes(if access.double { 8 } else { 4 });
        for slot in &access.values[..usize::from(access.count)] {
            write(class, *slot);
        }
    } else if let Some((class, slot)) = op.register_result() {
        write(class, slot);
    }
}
