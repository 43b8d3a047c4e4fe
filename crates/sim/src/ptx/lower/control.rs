//! Lowering of branches, barriers and fences.

use super::memory::takes_block_scope;
use super::{lowerer::Lowerer, mnemonic::Mnemonic, symbols::Symbol};
use crate::ptx::ir::{Barrier, BarrierOp, MemoryOrder, Op, RegisterClass, Slot};
use millstream_ptx::{PtxError, PtxErrorKind, Type, ast::Operand};

impl<'a> Lowerer<'a> {
    /// Lowers an instruction without operands.
    pub(super) fn bare(&mut self, m: &Mnemonic<'a>, op: Op) -> Result<(), PtxError> {
        let [] = m.operands()?;
        self.emit(op);
        Ok(())
    }

    fn label(&mut self, name: &'a str) -> Result<u32, PtxError> {
        let undefined = || PtxErrorKind::UndefinedLabel(name.to_owned()).at(self.line);
        let label = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        match label {
            Some(Symbol::Label(label)) => u32::try_from(label).map_err(|_| undefined()),
            _ => Err(undefined()),
        }
    }

    fn named_label(&mut self, m: &Mnemonic<'a>, operand: &'a Operand<'a>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name) => self.label(name),
            _ => Err(m.mismatch(operand, "expected a label")),
        }
    }

    pub(super) fn branch(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        let [target] = m.operands()?;
        let target = self.named_label(m, target)?;
        self.emit(Op::Branch { target });
        Ok(())
    }

    /// Lowers `brx.idx`, a branch to one of a list of labels.
    pub(super) fn branch_indexed(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        if !m.take("idx") {
            return Err(m.unsupported());
        }
        let [index, list] = m.operands()?;
        let index = self.source(m, index, Type::U32)?;
        let targets = match list {
            Operand::Name(name) => match self.resolve(name)? {
                Symbol::Targets(targets) => targets,
                _ => return Err(m.mismatch(list, "expected a list of branch targets")),
            },
            _ => return Err(m.mismatch(list, "expected a list of branch targets")),
        };
        let table = targets
            .iter()
            .map(|name| self.label(name))
            .collect::<Result<Vec<_>, _>>()?;
        self.code.tables.push(table);
        let table = u32::try_from(self.code.tables.len() - 1).unwrap_or(u32::MAX);
        self.emit(Op::BranchIndexed { table, index });
        Ok(())
    }

    /// Lowers `bar` and `barrier`, of the block or the warp.
    pub(super) fn barrier(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if m.take("warp") {
            if !m.take("sync") {
                return Err(m.unsupported());
            }
            return self.warp_barrier(m);
        }
        let aligned = m.take("aligned") || m.base == "bar";
        m.ignore(&["cta"]);
        if m.take("red") {
            return self.reducing_barrier(m, aligned);
        }
        let f = m.one_of(&[("sync", BarrierOp::Sync), ("arrive", BarrierOp::Arrive)])?;
        m.finish()?;
        let (id, threads) = match m.operands {
            [id] if f == BarrierOp::Sync => (id, None),
            [id, threads] => (id, Some(threads)),
            _ => return Err(m.operand_count("1 or 2")),
        };
        let predicate = self.constant(RegisterClass::Predicate, 0)?;
        self.emit_barrier(m, (f, aligned), id, threads, predicate)
    }

    fn reducing_barrier(&mut self, m: &mut Mnemonic<'a>, aligned: bool) -> Result<(), PtxError> {
        let operation = m.one_of(&[("popc", 0), ("and", 1), ("or", 2)])?;
        let ty = m.ty_of(&[if operation == 0 {
            Type::U32
        } else {
            Type::Pred
        }])?;
        m.finish()?;
        let (d, id, threads, predicate) = match m.operands {
            [d, id, predicate] => (d, id, None, predicate),
            [d, id, threads, predicate] => (d, id, Some(threads), predicate),
            _ => return Err(m.operand_count("3 or 4")),
        };
        let d = self.target(m, d, ty)?;
        let predicate = self.source(m, predicate, Type::Pred)?;
        let f = [
            BarrierOp::CountTrue(d),
            BarrierOp::All(d),
            BarrierOp::Any(d),
        ][operation];
        self.emit_barrier(m, (f, aligned), id, threads, predicate)
    }

    fn emit_barrier(
        &mut self,
        m: &Mnemonic<'a>,
        (f, aligned): (BarrierOp, bool),
        id: &'a Operand<'a>,
        threads: Option<&'a Operand<'a>>,
        predicate: Slot,
    ) -> Result<(), PtxError> {
        let id = self.source(m, id, Type::U32)?;
        let threads = threads
            .map(|threads| self.source(m, threads, Type::U32))
            .transpose()?;
        self.code.barriers.push(Barrier {
            f,
            id,
            threads,
            predicate,
            aligned,
        });
        self.emit(Op::Barrier(
            u32::try_from(self.code.barriers.len() - 1).unwrap_or(u32::MAX),
        ));
        Ok(())
    }

    /// Lowers `nanosleep`, a hint that the thread waits for something.
    pub(super) fn nanosleep(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.ty_of(&[Type::U32])?;
        let [time] = m.operands()?;
        self.source(m, time, Type::U32)?;
        self.emit(Op::Pause);
        Ok(())
    }

    /// Lowers `membar` and `fence`. The interpreter executes accesses in order, so only the race
    /// detector uses fences.
    pub(super) fn fence(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let block_only = takes_block_scope(m);
        // A barrier object can be observed before its first fence only in a cluster of several
        // blocks.
        if m.take("mbarrier_init") && !m.has("release") {
            return Err(m.unsupported());
        }
        // A proxy fence orders the accesses of one thread, and synchronises no threads.
        if m.take("proxy") {
            m.ignore(&["alias"]);
            return self.bare(m, Op::Nop);
        }
        let (acquire, release) = (m.take("acquire"), m.take("release"));
        // From compute capability 7.0 on, `membar` means `fence.sc`.
        let sequential = m.take("sc") || m.base == "membar";
        m.ignore(&["acq_rel", "gl", "gpu", "sys"]);
        let [] = m.operands()?;
        let order = MemoryOrder {
            acquire: !release,
            release: !acquire,
            block_only,
            sequential,
            ..MemoryOrder::default()
        };
        self.emit(Op::Fence { order });
        Ok(())
    }
}
