//! Operations whose results are the same in all blocks of a launch: loads of parameters, and
//! operations on constants, thread indices and such results.
//!
//! A warp executes them once, before its first block, and keeps their results. In their places it
//! counts them and does nothing. No result changes, because the register is written nowhere else,
//! and is never read before it is written.

use super::restart::each_result;
use super::uses::other_results;
use crate::ptx::ir::{
    Access, AccessSpace, AddressBase, Code, InitialValue, Instr, NO_GUARD, Op, RegisterClass, Slot,
    SpecialRegister, Window,
};

/// The maximum number of hoisted operations, so that a large kernel of which little runs starts as
/// fast as before.
const HOISTED_MAX: usize = 48;

/// Fills in the code that warps execute, with the hoisted operations behind the kernel's own, for
/// finished code whose kernel has this many bytes of parameters.
pub(super) fn hoist(code: &mut Code, param_bytes: usize) {
    code.executed = code.instrs.clone();
    code.first_entry = code.entry;
    let is_back = |(pc, instr): (usize, &Instr)| match instr.op {
        Op::Branch { target } => target as usize <= pc,
        Op::BranchIndexed { .. } | Op::Call(_) => true,
        _ => false,
    };
    code.repeats = code.instrs.iter().enumerate().any(is_back);
    if code.restart.everything {
        return;
    }
    let sizes = [code.words, code.doubles, code.predicates];
    let mut writers = sizes.map(|size| vec![0u32; size as usize]);
    for instr in &code.instrs {
        let mut write = |class: RegisterClass, slot: Slot| {
            // An operation may report a slot of the wrong register file.
            if let Some(writers) = writers[class as usize].get_mut(slot as usize) {
                *writers += 1;
            }
        };
        each_result(code, &instr.op, &mut write);
        other_results(code, &instr.op, &mut write);
    }
    let mut same = sizes.map(|size| vec![false; size as usize]);
    for (slot, value) in &code.initial_words {
        let varies = matches!(value, InitialValue::Special(SpecialRegister::Ctaid(_)));
        same[RegisterClass::Word as usize][*slot as usize] = !varies;
    }
    for (slot, _) in &code.initial_doubles {
        same[RegisterClass::Double as usize][*slot as usize] = true;
    }
    for (slot, _) in &code.initial_predicates {
        same[RegisterClass::Predicate as usize][*slot as usize] = true;
    }
    let mut hoisted = Vec::new();
    for (pc, instr) in code.instrs.iter().enumerate() {
        if hoisted.len() == HOISTED_MAX {
            break;
        }
        let Some((class, d)) = result(code, &instr.op, param_bytes) else {
            continue;
        };
        let once = writers[class as usize][d as usize] == 1
            && code.restart.cleared[class as usize]
                .binary_search(&d)
                .is_err();
        let mut operands_same = true;
        if !matches!(instr.op, Op::Load(_)) {
            instr.op.register_operands(&mut |class, slot| {
                operands_same &= same[class as usize][slot as usize];
            });
        }
        if once && operands_same && instr.guard == NO_GUARD {
            same[class as usize][d as usize] = true;
            hoisted.push(Instr {
                counted: 0,
                ..*instr
            });
            code.executed[pc].op = Op::Nop;
        }
    }
    if !hoisted.is_empty() {
        code.first_entry = u32::try_from(code.executed.len()).unwrap_or(u32::MAX);
        code.executed.append(&mut hoisted);
        code.executed.push(Instr {
            op: Op::Enter,
            guard: NO_GUARD,
            counted: 0,
        });
    }
}

/// Returns the result of an operation that depends on its operands alone.
fn result(code: &Code, op: &Op, param_bytes: usize) -> Option<(RegisterClass, Slot)> {
    match *op {
        // Their carry flags are parameters.
        Op::Carry32 { .. } | Op::Carry64 { .. } => None,
        Op::Load(index) => {
            let access = &code.loads[index as usize];
            is_parameter(access, param_bytes).then(|| {
                let class = RegisterClass::of_bytes(if access.double { 8 } else { 4 });
                (class, access.values[0])
            })
        }
        op => op.register_result(),
    }
}

/// Returns whether an access loads one value of the kernel's parameters, at a fixed place.
fn is_parameter(access: &Access, param_bytes: usize) -> bool {
    let width = usize::from(access.width);
    let fits = usize::try_from(access.address.offset).is_ok_and(|offset| {
        offset.is_multiple_of(width)
            && offset
                .checked_add(width)
                .is_some_and(|end| end <= param_bytes)
    });
    access.space == AccessSpace::Is(Window::Param)
        && access.address.base == AddressBase::None
        && access.count == 1
        && !access.synchronises
        && fits
}
