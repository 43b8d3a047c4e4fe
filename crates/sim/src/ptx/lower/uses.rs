//! Which slots an operation reads.

use super::operand::Class;
use crate::ptx::ir::{
    Access, Address, AddressBase, AsyncCopy, CallTarget, Code, GUARD_NEGATED, NO_GUARD, Op, Slot, System,
};

/// Calls `read` with every slot that the operation at `at` reads, its guard aside.
fn sources(code: &Code, op: &Op, read: &mut dyn FnMut(Class, Slot)) {
    use Class::{Double, Predicate, Word};
    let mut each = |class: Class, slots: &[Slot]| slots.iter().for_each(|slot| read(class, *slot));
    match *op {
        Op::Un32 { a, .. } | Op::Widen { a, .. } | Op::F32Un { a, .. } | Op::Test32 { a, .. } => {
            each(Word, &[a])
        }
        Op::Bin32 { a, b, .. }
        | Op::Join { a, b, .. }
        | Op::F32Bin { a, b, .. }
        | Op::Cmp32 { a, b, .. }
        | Op::CmpF32 { a, b, .. } => each(Word, &[a, b]),
        Op::Tri32 { a, b, c, .. }
        | Op::Lop3 { a, b, c, .. }
        | Op::Prmt { a, b, c, .. }
        | Op::F32Fma { a, b, c, .. }
        | Op::Extra { a, b, c, .. }
        | Op::Half { a, b, c, .. } => each(Word, &[a, b, c]),
        Op::Un64 { a, .. }
        | Op::Narrow { a, .. }
        | Op::F64Un { a, .. }
        | Op::Test64 { a, .. }
        | Op::IsSpace { a, .. } => each(Double, &[a]),
        Op::Bin64 { a, b, .. }
        | Op::F64Bin { a, b, .. }
        | Op::Cmp64 { a, b, .. }
        | Op::CmpF64 { a, b, .. } => each(Double, &[a, b]),
        Op::Tri64 { a, b, c, .. } | Op::F64Fma { a, b, c, .. } => each(Double, &[a, b, c]),
        Op::Shift64 { a, b, .. } => {
            each(Double, &[a]);
            each(Word, &[b]);
        }
        Op::MadWide { a, b, c, .. } => {
            each(Word, &[a, b]);
            each(Double, &[c]);
        }
        Op::Bfe64 { a, b, c, .. } => {
            each(Double, &[a]);
            each(Word, &[b, c]);
        }
        Op::Bfi32 {
            a,
            b,
            position,
            length,
            ..
        } => each(Word, &[a, b, position, length]),
        Op::Bfi64 {
            a,
            b,
            position,
            length,
            ..
        } => {
            each(Double, &[a, b]);
            each(Word, &[position, length]);
        }
        Op::Carry32 { f, a, b, .. } => {
            each(Word, &[a, b]);
            each(Predicate, f.read.as_slice());
        }
        Op::Carry64 { f, a, b, .. } => {
            each(Double, &[a, b]);
            each(Predicate, f.read.as_slice());
        }
        Op::Convert { how, a, .. } => each(Class::of(how.from), &[a]),
        Op::Pred { a, b, .. } => each(Predicate, &[a, b]),
        Op::Select32 { a, b, p, .. } => {
            each(Word, &[a, b]);
            each(Predicate, &[p]);
        }
        Op::Select64 { a, b, p, .. } => {
            each(Double, &[a, b]);
            each(Predicate, &[p]);
        }
        Op::Load(index) => address(code.loads[index as usize].address, &mut each),
        Op::Store(index) => {
            let Access {
                address: at,
                double,
                count,
                values,
                ..
            } = code.stores[index as usize];
            address(at, &mut each);
            each(if double { Double } else { Word }, &values[..usize::from(count)]);
        }
        Op::Atomic(index) => {
            let atomic = &code.atomics[index as usize];
            address(atomic.address, &mut each);
            each(Class::of(atomic.ty), &[atomic.b, atomic.c]);
            if let Some(high) = atomic.high {
                each(Double, &[high.b, high.c]);
            }
        }
        Op::BranchIndexed { index, .. } => each(Word, &[index]),
        Op::Barrier(index) => {
            let barrier = &code.barriers[index as usize];
            each(Word, &[barrier.id]);
            each(Word, barrier.threads.as_slice());
            each(Predicate, &[barrier.predicate]);
        }
        Op::Exchange(index) => {
            // Which operands are of which class depends on the operation; naming too many does no harm.
            let exchange = &code.exchanges[index as usize];
            each(Word, &[exchange.members, exchange.a, exchange.b, exchange.c]);
            each(Double, &[exchange.a]);
            each(Predicate, &[exchange.a]);
        }
        // What is handed over has slots that nothing else reads.
        Op::Call(index) => {
            if let CallTarget::Pointer(slot) = code.calls[index as usize].target {
                each(Double, &[slot]);
            }
        }
        Op::System(index) => match code.systems[index as usize] {
            System::Print {
                format, arguments, ..
            } => each(Double, &[format, arguments]),
            System::Free { pointer } => each(Double, &[pointer]),
            System::Assert {
                message,
                file,
                line,
                function,
            } => {
                each(Double, &[message, file, function]);
                each(Word, &[line]);
            }
        },
        Op::Copy(index) => match code.copies[index as usize] {
            AsyncCopy::Start {
                target,
                source,
                source_bytes,
                ignore,
                ..
            } => {
                address(target, &mut each);
                address(source, &mut each);
                each(Word, source_bytes.as_slice());
                each(Predicate, ignore.as_slice());
            }
            AsyncCopy::Arrive { object, .. } => address(object, &mut each),
            AsyncCopy::Commit | AsyncCopy::Wait { .. } => {}
        },
        Op::Mbarrier(index) => {
            let operation = &code.mbarriers[index as usize];
            address(operation.address, &mut each);
            each(Word, &[operation.count]);
            each(Double, operation.state.as_slice());
        }
        Op::Return
        | Op::Clock32 { .. }
        | Op::Clock64 { .. }
        | Op::Branch { .. }
        | Op::Exit
        | Op::Trap
        | Op::ActiveMask { .. }
        | Op::Fence { .. }
        | Op::Pause
        | Op::Nop => {}
    }
}

fn address(address: Address, each: &mut dyn FnMut(Class, &[Slot])) {
    match address.base {
        AddressBase::None => {}
        AddressBase::Word(slot) => each(Class::Word, &[slot]),
        AddressBase::Double(slot) => each(Class::Double, &[slot]),
    }
}

/// Whether any operation of `code` may read the slot.
pub(super) fn is_read(code: &Code, class: Class, slot: Slot) -> bool {
    code.instrs.iter().any(|instr| {
        let mut found =
            class == Class::Predicate && instr.guard != NO_GUARD && instr.guard & !GUARD_NEGATED == slot;
        sources(code, &instr.op, &mut |read_class, read| {
            found |= (read_class, read) == (class, slot)
        });
        found
    })
}
