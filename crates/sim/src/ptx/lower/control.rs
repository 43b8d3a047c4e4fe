//! Branches, calls and barriers.

use super::mnemonic::Mnemonic;
use super::names::{Scope, Symbol};
use super::operand::Class;
use super::{CALLS_MAX, Lowerer, PtxError, PtxErrorKind, names};
use crate::ptx::ast::{FormalAst, FunctionAst, Operand};
use crate::ptx::code::{Barrier, BarrierOp, Op, Slot};
use crate::ptx::types::Type;

impl<'a> Lowerer<'a> {
    /// An instruction without operands.
    pub(super) fn bare(&mut self, m: &Mnemonic<'a>, op: Op) -> Result<(), PtxError> {
        let [] = m.operands()?;
        self.emit(op);
        Ok(())
    }

    fn label(&mut self, name: &'a str) -> Result<u32, PtxError> {
        let undefined = || PtxErrorKind::UndefinedLabel(name.to_owned()).at(self.line);
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        match found {
            Some(Symbol::Label(label)) => u32::try_from(label).map_err(|_| undefined()),
            _ => Err(undefined()),
        }
    }

    fn named_label(&mut self, m: &Mnemonic<'a>, operand: &'a Operand<'a>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name) => self.label(name),
            _ => Err(m.mismatch(operand, "a label must stand here")),
        }
    }

    pub(super) fn branch(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        let [target] = m.operands()?;
        let target = self.named_label(m, target)?;
        self.emit(Op::Branch { target });
        Ok(())
    }

    /// `brx.idx`: a branch to one of a list of labels.
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
                _ => return Err(m.mismatch(list, "a list of branch targets must stand here")),
            },
            _ => return Err(m.mismatch(list, "a list of branch targets must stand here")),
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

    pub(super) fn ret(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        let [] = m.operands()?;
        self.emit(match self.return_label {
            Some(label) => Op::Branch {
                target: u32::try_from(label).unwrap_or(u32::MAX),
            },
            None => Op::Exit,
        });
        Ok(())
    }

    /// `call`: the function's code is put in place of the call.
    pub(super) fn call(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        m.finish()?;
        let (results, name, arguments) = match m.operands {
            [Operand::Name(name)] => (&[][..], *name, &[][..]),
            [Operand::Name(name), Operand::List(arguments)] => (&[][..], *name, arguments.as_slice()),
            [Operand::List(results), Operand::Name(name)] => (results.as_slice(), *name, &[][..]),
            [
                Operand::List(results),
                Operand::Name(name),
                Operand::List(arguments),
            ] => (results.as_slice(), *name, arguments.as_slice()),
            _ => {
                let problem = "calls through function pointers".to_owned();
                return Err(self.error(PtxErrorKind::Unsupported(problem)));
            }
        };
        let module = self.module;
        let function = module
            .functions
            .iter()
            .filter(|function| function.name == name && !function.entry)
            .max_by_key(|function| function.body.is_some());
        let Some(function) = function else {
            if name.starts_with('%') {
                let problem = "calls through function pointers".to_owned();
                return Err(self.error(PtxErrorKind::Unsupported(problem)));
            }
            return Err(self.error(PtxErrorKind::UndefinedSymbol(name.to_owned())));
        };
        if function.body.is_none() {
            if name == "__assertfail" {
                self.emit(Op::Trap);
                return Ok(());
            }
            let problem = format!("the external function `{name}`");
            return Err(self.error(PtxErrorKind::Unsupported(problem)));
        }
        if self.calls.contains(&name) {
            return Err(self.error(PtxErrorKind::Unsupported(format!("recursion (of `{name}`)"))));
        }
        if self.calls.len() == CALLS_MAX {
            let problem = format!("calls nested deeper than {CALLS_MAX}");
            return Err(self.error(PtxErrorKind::TooLarge(problem)));
        }
        self.put_in_place(m, function, results, arguments)
    }

    fn put_in_place(
        &mut self,
        m: &Mnemonic<'a>,
        function: &'a FunctionAst<'a>,
        results: &'a [Operand<'a>],
        arguments: &'a [Operand<'a>],
    ) -> Result<(), PtxError> {
        let counts = (function.results.len(), function.params.len());
        if (results.len(), arguments.len()) != counts {
            return Err(m.operand_count(&format!("{} and {}", counts.0, counts.1)));
        }
        let (line, location) = (self.line, self.location);
        // A guarded call is jumped over by the threads that do not make it.
        let after = self.new_label();
        if self.guard != super::NO_GUARD {
            self.guard ^= super::GUARD_NEGATED;
            self.emit(Op::Branch {
                target: u32::try_from(after).unwrap_or(u32::MAX),
            });
            self.guard = super::NO_GUARD;
        }
        let mut formals = Scope::default();
        let mut copies_out = Vec::new();
        let pairs = function.params.iter().zip(arguments).map(|pair| (pair, false));
        let pairs = pairs.chain(function.results.iter().zip(results).map(|pair| (pair, true)));
        for ((formal, actual), result) in pairs {
            match formal {
                FormalAst::Memory(variable) => {
                    let symbol = match actual {
                        Operand::Name(name) => self.resolve(name)?,
                        _ => return Err(m.mismatch(actual, "a `.param` variable must stand here")),
                    };
                    if !matches!(symbol, Symbol::Memory { .. }) || names::window(variable).is_none() {
                        return Err(m.mismatch(actual, "a `.param` variable must stand here"));
                    }
                    formals.add(variable.name, symbol, variable.line)?;
                }
                FormalAst::Register(registers) => {
                    let register = self.new_register(registers.ty)?;
                    let class = Class::of(registers.ty);
                    if result {
                        copies_out.push((class, self.target(m, actual, registers.ty)?, register.slot));
                    } else {
                        let a = self.source(m, actual, registers.ty)?;
                        self.emit_move(class, register.slot, a);
                    }
                    formals.add(registers.name, Symbol::Register(register), registers.line)?;
                }
            }
        }
        let scopes = std::mem::replace(&mut self.scopes, vec![formals]);
        let inner_return = self.new_label();
        let outer_return = self.return_label.replace(inner_return);
        self.calls.push(function.name);
        if let Some(body) = &function.body {
            self.block(body)?;
        }
        self.calls.pop();
        self.return_label = outer_return;
        self.scopes = scopes;
        (self.line, self.location) = (line, location);
        self.guard = super::NO_GUARD;
        self.counted = 0;
        self.place_label(inner_return);
        for (class, d, a) in copies_out {
            self.emit_move(class, d, a);
        }
        // The label must have an operation behind it.
        self.place_label(after);
        self.emit(Op::Nop);
        Ok(())
    }

    /// `bar` and `barrier`, of the block or the warp.
    pub(super) fn barrier(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if m.take("warp") {
            if !m.take("sync") {
                return Err(m.unsupported());
            }
            return self.warp_barrier(m);
        }
        m.ignore(&["cta", "aligned"]);
        if m.take("red") {
            return self.reducing_barrier(m);
        }
        let f = m
            .take_one(&[("sync", BarrierOp::Sync), ("arrive", BarrierOp::Arrive)])
            .ok_or_else(|| m.unsupported())?;
        m.finish()?;
        let (id, threads) = match m.operands {
            [id] if f == BarrierOp::Sync => (id, None),
            [id, threads] => (id, Some(threads)),
            _ => return Err(m.operand_count("1 or 2")),
        };
        let predicate = self.constant(Class::Predicate, 0)?;
        self.emit_barrier(m, f, id, threads, predicate)
    }

    fn reducing_barrier(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let operation = m
            .take_one(&[("popc", 0), ("and", 1), ("or", 2)])
            .ok_or_else(|| m.unsupported())?;
        let ty = m.ty_of(&[if operation == 0 { Type::U32 } else { Type::Pred }])?;
        m.finish()?;
        let (d, id, threads, predicate) = match m.operands {
            [d, id, predicate] => (d, id, None, predicate),
            [d, id, threads, predicate] => (d, id, Some(threads), predicate),
            _ => return Err(m.operand_count("3 or 4")),
        };
        let d = self.target(m, d, ty)?;
        let predicate = self.source(m, predicate, Type::Pred)?;
        let f = [BarrierOp::CountTrue(d), BarrierOp::All(d), BarrierOp::Any(d)][operation];
        self.emit_barrier(m, f, id, threads, predicate)
    }

    fn emit_barrier(
        &mut self,
        m: &Mnemonic<'a>,
        f: BarrierOp,
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
        });
        self.emit(Op::Barrier(
            u32::try_from(self.code.barriers.len() - 1).unwrap_or(u32::MAX),
        ));
        Ok(())
    }

    /// `nanosleep`: a hint that the thread waits for something.
    pub(super) fn nanosleep(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.ty_of(&[Type::U32])?;
        let [time] = m.operands()?;
        self.source(m, time, Type::U32)?;
        self.emit(Op::Pause);
        Ok(())
    }
}
