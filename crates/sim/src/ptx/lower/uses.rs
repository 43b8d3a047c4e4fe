//! The slots that an operation reads.

use crate::ptx::ir::{
    Access, Address, AddressBase, AsyncCopy, BarrierOp, CallTarget, Code, GUARD_NEGATED, ImageOp,
    NO_GUARD, Op, RegisterClass, Slot, SystemCall,
};

/// Calls `read` with each slot that the operation reads, except its guard.
pub(crate) fn sources(code: &Code, op: &Op, read: &mut dyn FnMut(RegisterClass, Slot)) {
    use RegisterClass::{Double, Predicate, Word};
    let mut each =
        |class: RegisterClass, slots: &[Slot]| slots.iter().for_each(|slot| read(class, *slot));
    match *op {
        Op::Carry32 { f, .. } | Op::Carry64 { f, .. } => {
            op.register_operands(read);
            f.read.iter().for_each(|flag| read(Predicate, *flag));
        }
        Op::Extra { a, b, c, .. } => each(Word, &[a, b, c]),
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
            each(
                if double { Double } else { Word },
                &values[..usize::from(count)],
            );
        }
        Op::Atomic(index) => {
            let atomic = &code.atomics[index as usize];
            address(atomic.address, &mut each);
            each(RegisterClass::of(atomic.ty), &[atomic.b, atomic.c]);
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
            // The operand classes depend on the operation. Reporting too many slots is harmless.
            let exchange = &code.exchanges[index as usize];
            each(
                Word,
                &[exchange.members, exchange.a, exchange.b, exchange.c],
            );
            each(Double, &[exchange.a]);
            each(Predicate, &[exchange.a]);
        }
        // No other operation reads the slots that pass the arguments' addresses.
        Op::Call(index) => {
            if let CallTarget::Pointer(slot) = code.calls[index as usize].target {
                each(Double, &[slot]);
            }
        }
        Op::SystemCall(index) => match code.system_calls[index as usize] {
            SystemCall::Print {
                format, arguments, ..
            } => each(Double, &[format, arguments]),
            SystemCall::Allocate { bytes, align, .. } => {
                each(Double, &[bytes]);
                each(Double, align.as_slice());
            }
            SystemCall::Free { pointer } => each(Double, &[pointer]),
            SystemCall::SetCondition { condition, value } => {
                each(Double, &[condition]);
                each(Word, &[value]);
            }
            SystemCall::Assert {
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
        Op::Image(index) => {
            let image = &code.images[index as usize];
            each(Double, &[image.handle]);
            each(Word, &image.coordinates[..usize::from(image.dimensions)]);
            if image.layered {
                each(Word, &image.coordinates[3..]);
            }
        }
        Op::Matrix(index) => code.matrices[index as usize].operands(read),
        Op::Return
        | Op::Clock32 { .. }
        | Op::Clock64 { .. }
        | Op::Branch { .. }
        | Op::Fused(_)
        | Op::Enter
        | Op::Exit
        | Op::Trap
        | Op::ActiveMask { .. }
        | Op::Fence { .. }
        | Op::Pause
        | Op::Nop => {}
        _ => op.register_operands(read),
    }
}

/// Calls `write` with each slot that an operation other than a load, a call or an operation on
/// registers may write, and with each carry flag.
pub(crate) fn other_results(code: &Code, op: &Op, write: &mut dyn FnMut(RegisterClass, Slot)) {
    use RegisterClass::{Double, Predicate, Word};
    match *op {
        Op::Carry32 { f, .. } | Op::Carry64 { f, .. } => {
            f.write.iter().for_each(|flag| write(Predicate, *flag));
        }
        Op::Atomic(index) => {
            let atomic = &code.atomics[index as usize];
            let high = atomic.high.and_then(|high| high.result);
            for slot in atomic.result.into_iter().chain(high) {
                write(Word, slot);
                write(Double, slot);
            }
        }
        Op::Barrier(index) => match code.barriers[index as usize].f {
            BarrierOp::CountTrue(d) => write(Word, d),
            BarrierOp::All(d) | BarrierOp::Any(d) => write(Predicate, d),
            BarrierOp::Sync | BarrierOp::Arrive => {}
        },
        // The result's register file depends on the operation.
        Op::Exchange(index) => {
            let exchange = &code.exchanges[index as usize];
            write(Word, exchange.d);
            write(Predicate, exchange.d);
            exchange.p.iter().for_each(|p| write(Predicate, *p));
        }
        Op::Clock32 { d } | Op::ActiveMask { d } | Op::Extra { d, .. } => write(Word, d),
        Op::Clock64 { d } => write(Double, d),
        Op::SystemCall(index) => match code.system_calls[index as usize] {
            SystemCall::Print { result, .. } | SystemCall::Allocate { result, .. } => {
                write(Word, result);
                write(Double, result);
            }
            SystemCall::Free { .. }
            | SystemCall::SetCondition { .. }
            | SystemCall::Assert { .. } => {}
        },
        Op::Mbarrier(index) => {
            let operation = &code.mbarriers[index as usize];
            write(Predicate, operation.answer);
            operation
                .state
                .iter()
                .for_each(|state| write(Double, *state));
        }
        Op::Image(index) => {
            let image = &code.images[index as usize];
            image.results().iter().for_each(|slot| write(Word, *slot));
            if let ImageOp::Place(..) = image.f {
                write(Double, image.address);
                write(Predicate, image.inside);
            }
        }
        Op::Matrix(index) => code.matrices[index as usize].results(write),
        Op::Load(_)
        | Op::Store(_)
        | Op::Branch { .. }
        | Op::BranchIndexed { .. }
        | Op::Call(_)
        | Op::Return
        | Op::Copy(_)
        | Op::Fused(_)
        | Op::Enter
        | Op::Exit
        | Op::Trap
        | Op::Fence { .. }
        | Op::Pause
        | Op::Nop => {}
        // The table has the result.
        ref operation => debug_assert!(operation.register_result().is_some()),
    }
}

fn address(address: Address, each: &mut dyn FnMut(RegisterClass, &[Slot])) {
    match address.base {
        AddressBase::None => {}
        AddressBase::Word(slot) => each(RegisterClass::Word, &[slot]),
        AddressBase::Double(slot) | AddressBase::Offset(slot) => {
            each(RegisterClass::Double, &[slot]);
        }
    }
}

/// Returns whether any operation of `code` may read the slot.
pub(super) fn is_read(code: &Code, class: RegisterClass, slot: Slot) -> bool {
    code.instrs.iter().any(|instr| {
        let mut reads = class == RegisterClass::Predicate
            && instr.guard != NO_GUARD
            && instr.guard & !GUARD_NEGATED == slot;
        sources(code, &instr.op, &mut |read_class, read| {
            reads |= (read_class, read) == (class, slot)
        });
        reads
    })
}
