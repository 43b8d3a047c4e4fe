//! Lowering of asynchronous copies from global to shared memory.

use super::lowerer::{Lowerer, add};
use super::mnemonic::Mnemonic;
use crate::ptx::ir::{AccessSpace, AsyncCopy, Op, Window};
use millstream_ptx::PtxError;
use millstream_ptx::Type;
use millstream_ptx::ast::Operand;

impl<'a> Lowerer<'a> {
    /// Lowers the `cp.async` instructions.
    pub(super) fn copy_async(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if !m.take("async") {
            return Err(m.unsupported());
        }
        let copy = if m.take("mbarrier") {
            self.arrive_behind_copies(m)?
        } else if m.take("commit_group") {
            let [] = m.operands()?;
            AsyncCopy::Commit
        } else if m.take("wait_all") {
            let [] = m.operands()?;
            AsyncCopy::Wait { but: None }
        } else if m.take("wait_group") {
            let [count] = m.operands()?;
            match count {
                Operand::Int(count) => AsyncCopy::Wait {
                    but: Some(u32::try_from(*count).unwrap_or(u32::MAX)),
                },
                _ => return Err(m.mismatch(count, "expected a constant")),
            }
        } else {
            self.start_copy(m)?
        };
        let index = add(&mut self.code.copies, copy);
        self.emit(Op::Copy(index));
        Ok(())
    }

    /// Lowers `cp.async.mbarrier.arrive`.
    fn arrive_behind_copies(&mut self, m: &mut Mnemonic<'a>) -> Result<AsyncCopy, PtxError> {
        if !m.take("arrive") {
            return Err(m.unsupported());
        }
        m.ty_of(&[Type::B64])?;
        let increments = !m.take("noinc");
        let shared = m.take("shared") || m.take("shared::cta");
        let [object] = m.operands()?;
        let space = if shared {
            AccessSpace::Is(Window::Shared)
        } else {
            AccessSpace::Generic
        };
        let (address, space) = self.address(m, object, space)?;
        if !matches!(
            space,
            AccessSpace::Generic | AccessSpace::Is(Window::Shared)
        ) {
            return Err(m.mismatch(object, "a barrier object must lie in shared memory"));
        }
        Ok(AsyncCopy::Arrive {
            object: address,
            space,
            increments,
        })
    }

    fn start_copy(&mut self, m: &mut Mnemonic<'a>) -> Result<AsyncCopy, PtxError> {
        let whole = m.one_of(&[("ca", false), ("cg", true)])?;
        if !(m.take("shared") || m.take("shared::cta")) || !m.take("global") {
            return Err(m.unsupported());
        }
        let policy = m.take("L2::cache_hint");
        m.ignore(&["L2::64B", "L2::128B", "L2::256B"]);
        m.finish()?;
        let operands = match m.operands {
            [rest @ .., _] if policy => rest,
            all => all,
        };
        let (target, source, bytes, rest) = match operands {
            [target, source, Operand::Int(bytes), rest @ ..] if rest.len() <= 1 => {
                (target, source, *bytes, rest)
            }
            _ => return Err(m.operand_count("3 or 4")),
        };
        if !matches!((bytes, whole), (4 | 8, false) | (16, _)) {
            return Err(m.mismatch(&m.operands[2], "expected 4, 8 or 16 bytes (16 for `.cg`)"));
        }
        let (mut source_bytes, mut ignore) = (None, None);
        match rest {
            [Operand::Name(name)] if self.is_predicate(name) => {
                ignore = Some(self.predicate(name)?)
            }
            [operand] => source_bytes = Some(self.source(m, operand, Type::U32)?),
            _ => {}
        }
        let (target, _) = self.address(m, target, AccessSpace::Is(Window::Shared))?;
        let (source, source_space) = self.address(m, source, AccessSpace::Is(Window::Global))?;
        Ok(AsyncCopy::Start {
            target,
            source,
            source_space,
            bytes: bytes as usize,
            source_bytes,
            ignore,
        })
    }
}
