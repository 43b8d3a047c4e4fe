//! Lowering of atomics, and the test whether a kernel's result depends on the order of its blocks.

use super::lowerer::{Lowerer, add};
use super::memory::takes_block_scope;
use super::mnemonic::Mnemonic;
use super::uses;
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::{
    AccessSpace, Address, Atomic, AtomicOp, Code, HighHalves, MemoryOrder, Op, SystemCall, Window,
};
use millstream_ptx::PtxError;
use millstream_ptx::Type;
use millstream_ptx::ast::Operand;

impl<'a> Lowerer<'a> {
    /// Lowers `atom` and `red`.
    pub(super) fn atomic(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let wide = m.take("b128");
        let ty = if wide { Type::B64 } else { m.ty()? };
        let policy = m.has("L2::cache_hint");
        let block_only = takes_block_scope(m);
        let (space, order) = Self::space_and_order(m);
        let order = MemoryOrder {
            block_only,
            reduction: m.base == "red",
            ..order.unwrap_or_default()
        };
        let count = m.take_one(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let operations = [
            ("add", AtomicOp::Add),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
            ("xor", AtomicOp::Xor),
            ("inc", AtomicOp::Inc),
            ("dec", AtomicOp::Dec),
            ("exch", AtomicOp::Exchange),
            ("cas", AtomicOp::CompareSwap),
        ];
        let f = m.one_of(&operations)?;
        let integer = matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
        let untyped = matches!(ty, Type::B32 | Type::B64);
        let fits = match f {
            AtomicOp::Add => integer || ty.is_float(),
            AtomicOp::Min | AtomicOp::Max => integer,
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => untyped,
            AtomicOp::Inc | AtomicOp::Dec => ty == Type::U32,
            AtomicOp::Exchange => untyped || integer,
            AtomicOp::CompareSwap => untyped || integer || ty == Type::B16,
        };
        let fits = fits
            && (!wide
                || m.base == "atom" && matches!(f, AtomicOp::Exchange | AtomicOp::CompareSwap));
        // A vector of floats is added element by element, each atomically, up to 16 bytes.
        let fits =
            fits && (count == 1 || f == AtomicOp::Add && ty.is_float() && count * ty.bytes() <= 16);
        let in_memory = matches!(
            space,
            AccessSpace::Generic | AccessSpace::Is(Window::Global | Window::Shared)
        );
        m.finish()?;
        if !fits || !in_memory {
            return Err(m.unsupported());
        }
        let (d, rest) = match (m.base, m.operands) {
            ("atom", [d, rest @ ..]) => (Some(d), rest),
            (_, rest) => (None, rest),
        };
        let swap = f == AtomicOp::CompareSwap;
        let rest = match rest {
            [rest @ .., _] if policy => rest,
            all => all,
        };
        let (target, b, c) = match rest {
            [target, b] if !swap => (target, b, b),
            [target, b, c] if swap => (target, b, c),
            _ => return Err(m.operand_count(if swap { "4" } else { "3" })),
        };
        let (address, space) = self.address(m, target, space)?;
        if wide {
            let ([b, b_high], [c, c_high]) = (self.wide(m, b)?, self.wide(m, c)?);
            let result = match d {
                Some(Operand::Name("_")) | None => None,
                Some(d) => Some(self.wide(m, d)?),
            };
            let high = Some(HighHalves {
                result: result.map(|[_, high]| high),
                b: b_high,
                c: c_high,
            });
            let result = result.map(|[low, _]| low);
            self.emit_atomic(Atomic {
                f,
                ty,
                order,
                space,
                address,
                result,
                b,
                c,
                high,
            });
            return Ok(());
        }
        let (values, others) = (Self::values(m, b, count)?, Self::values(m, c, count)?);
        // Constants of 16-bit floats are written as bits.
        let ty_of_value = if matches!(ty, Type::F16 | Type::Bf16) {
            Type::B16
        } else {
            ty
        };
        let mut sources = Vec::new();
        for at in 0..count {
            let mut b = self.source(m, &values[at], ty_of_value)?;
            if count > 1 {
                // The result of an element may overwrite the operand of a later one.
                let own = self.temporary(RegisterClass::of(ty))?;
                self.emit_move(RegisterClass::of(ty), own, b);
                b = own;
            }
            sources.push([b, self.source(m, &others[at], ty_of_value)?]);
        }
        for (at, [b, c]) in sources.into_iter().enumerate() {
            let result = match d {
                Some(Operand::Name("_")) | None => None,
                Some(d) => Some(self.target(m, &Self::values(m, d, count)?[at], ty)?),
            };
            let address = Address {
                offset: address.offset.wrapping_add((at * ty.bytes()) as i64),
                ..address
            };
            let high = None;
            self.emit_atomic(Atomic {
                f,
                ty,
                order,
                space,
                address,
                result,
                b,
                c,
                high,
            });
        }
        Ok(())
    }

    fn emit_atomic(&mut self, atomic: Atomic) {
        let index = add(&mut self.code.atomics, atomic);
        self.emit(Op::Atomic(index));
    }
}

/// Returns whether the result of a kernel can depend on the order of its blocks: see
/// [`Code::ordered`].
pub(super) fn is_ordered(code: &Code) -> bool {
    // Output appears in the order of the blocks, of several values of a condition the last one
    // stays, and addresses on the heap depend on the order.
    let calls_in_order = code
        .system_calls
        .iter()
        .any(|system| !matches!(system, SystemCall::Assert { .. }));
    calls_in_order || synchronises(code, AccessSpace::is_outside_block)
}

/// Returns whether the values that atomics and strong loads return can depend on the order of the
/// threads: see [`Code::synchronises`].
pub(super) fn synchronises(code: &Code, counts: impl Fn(AccessSpace) -> bool) -> bool {
    let atomics = code.atomics.iter().any(|atomic| {
        let commutes = !matches!(
            atomic.f,
            AtomicOp::Exchange | AtomicOp::CompareSwap | AtomicOp::Inc | AtomicOp::Dec
        ) && !atomic.ty.is_float();
        let result_read = atomic
            .result
            .is_some_and(|slot| uses::is_read(code, RegisterClass::of(atomic.ty), slot));
        counts(atomic.space) && (!commutes || result_read)
    });
    let waits = code
        .loads
        .iter()
        .any(|load| load.synchronises && counts(load.space));
    atomics || waits
}
