//! Lowering of calls: most functions are inlined; recursive functions and those called through
//! pointers are called at run time.

use super::lowerer::{LocalFrame, Lowerer};
use super::mnemonic::Mnemonic;
use super::symbols::{Scope, Symbol};
use crate::ptx::ir::RegisterClass;
use crate::ptx::ir::function_address;
use crate::ptx::ir::{AddressBase, Bin, Call, CallTarget, Callee, Op, Slot, Window};
use crate::ptx::ir::{GUARD_NEGATED, NO_GUARD};
use millstream_ptx::Type;
use millstream_ptx::ast::{FormalAst, FunctionAst, Operand, RegisterType};
use millstream_ptx::{PtxError, PtxErrorKind};

/// The maximum depth of inlined calls.
const CALLS_MAX: usize = 64;

/// The size of a thread's stack in bytes, if the kernel has one.
const STACK_BYTES: u32 = 16 << 10;

/// A call as written in the PTX text.
struct CallSyntax<'a> {
    name: &'a str,
    results: &'a [Operand<'a>],
    arguments: &'a [Operand<'a>],
}

/// The slots that all functions called at run time share: the stack pointer, and the slots that
/// pass the addresses of arguments and results.
#[derive(Debug, Default)]
pub(super) struct CallingConvention {
    stack_pointer: Option<Slot>,
    arguments: Vec<Slot>,
    results: Vec<Slot>,
}

impl<'a> Lowerer<'a> {
    fn written_call(&self, m: &Mnemonic<'a>) -> Result<CallSyntax<'a>, PtxError> {
        let (results, rest) = match m.operands {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        // A call through a pointer ends with its prototype.
        let (name, arguments) = match rest {
            [Operand::Name(name)] | [Operand::Name(name), Operand::Name(_)] => (*name, &[][..]),
            [Operand::Name(name), Operand::List(arguments)]
            | [
                Operand::Name(name),
                Operand::List(arguments),
                Operand::Name(_),
            ] => (*name, arguments.as_slice()),
            _ => return Err(m.operand_count("1 to 4")),
        };
        Ok(CallSyntax {
            name,
            results,
            arguments,
        })
    }

    pub(super) fn call(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        m.take("uni");
        m.finish()?;
        let mut call = self.written_call(m)?;
        let Some((index, function)) = self.module.function(call.name) else {
            return self.call_pointer(m, &call);
        };
        if function.body.is_none() {
            return self.system_call(m, call.name, call.results, call.arguments);
        }
        let results = function.results.len();
        // Texts that were linked may declare a function with a result that its definition lacks.
        // The result is then undefined, as after linking machine code.
        if results < call.results.len() && self.is_declared_as(&call) {
            call.results = &call.results[..results];
        }
        let arguments = function.params.len();
        if (call.arguments.len(), call.results.len()) != (arguments, results) {
            return Err(m.operand_count(&format!("{results} and {arguments}")));
        }
        // They are in the order of their addresses.
        let callees = &self.code.callees;
        let callee = callees.binary_search_by_key(&function_address(index), |it| it.address);
        if let Ok(callee) = callee {
            let target = CallTarget::Function(u32::try_from(callee).unwrap_or(u32::MAX));
            return self.emit_call(m, target, &call);
        }
        if self.calls.len() == CALLS_MAX {
            let problem = format!("calls nested deeper than {CALLS_MAX}");
            return Err(self.error(PtxErrorKind::TooLarge(problem)));
        }
        self.inline_call(m, function, &call)
    }

    /// Returns whether the module declares the called function, beside its definition, with as many
    /// arguments and results as the call has.
    fn is_declared_as(&self, call: &CallSyntax<'a>) -> bool {
        self.module.functions.iter().any(|function| {
            function.name == call.name
                && function.body.is_none()
                && function.params.len() == call.arguments.len()
                && function.results.len() == call.results.len()
        })
    }

    fn call_pointer(&mut self, m: &Mnemonic<'a>, call: &CallSyntax<'a>) -> Result<(), PtxError> {
        match self.resolve(call.name)? {
            Symbol::Register(register) if register.ty.bytes() == 8 => {
                self.emit_call(m, CallTarget::Pointer(register.slot), call)
            }
            _ => Err(self.error(PtxErrorKind::UndefinedSymbol(call.name.to_owned()))),
        }
    }

    /// Passes the addresses of the arguments and results, and emits a run-time call.
    fn emit_call(
        &mut self,
        m: &Mnemonic<'a>,
        target: CallTarget,
        call: &CallSyntax<'a>,
    ) -> Result<(), PtxError> {
        for (results, actuals) in [(false, call.arguments), (true, call.results)] {
            for (at, actual) in actuals.iter().enumerate() {
                let (base, offset) = self.actual_place(m, actual)?;
                let d = self.handed_over(results, at)?;
                self.emit_address(d, base, offset)?;
            }
        }
        let calls = &mut self.code.calls;
        calls.push(Call {
            target,
            actuals: (call.arguments.len(), call.results.len()),
        });
        let index = u32::try_from(calls.len() - 1).unwrap_or(u32::MAX);
        self.emit(Op::Call(index));
        // The operation that the threads return to.
        self.emit(Op::Nop);
        Ok(())
    }

    /// Returns the slot that passes the address of an argument or result, allocating it if
    /// necessary.
    fn handed_over(&mut self, result: bool, at: usize) -> Result<Slot, PtxError> {
        loop {
            let convention = &self.convention;
            let slots = if result {
                &convention.results
            } else {
                &convention.arguments
            };
            if let Some(slot) = slots.get(at) {
                return Ok(*slot);
            }
            let slot = self.new_slot(RegisterClass::Double)?;
            if result {
                self.convention.results.push(slot);
            } else {
                self.convention.arguments.push(slot);
            }
        }
    }

    /// Returns the local-memory address of the variable that a call names as an argument or result.
    pub(super) fn actual_place(
        &mut self,
        m: &Mnemonic<'a>,
        actual: &'a Operand<'a>,
    ) -> Result<(AddressBase, u32), PtxError> {
        let wrong = || m.mismatch(actual, "expected a `.param` variable");
        let Operand::Name(name) = actual else {
            return Err(wrong());
        };
        let symbol = self.resolve(name)?;
        self.place_in_local_memory(symbol).ok_or_else(wrong)
    }

    /// Returns the address of a symbol's variable in local memory, if it lies there.
    pub(super) fn place_in_local_memory(&self, symbol: Symbol<'a>) -> Option<(AddressBase, u32)> {
        match symbol {
            Symbol::Memory {
                window: Window::Local,
                offset,
            } => Some((AddressBase::None, offset)),
            Symbol::Frame(offset) => Some((AddressBase::Double(self.frame.as_ref()?.slot), offset)),
            Symbol::Formal(slot) => Some((AddressBase::Double(slot), 0)),
            _ => None,
        }
    }

    /// Emits `d = base + offset`.
    pub(super) fn emit_address(
        &mut self,
        d: Slot,
        base: AddressBase,
        offset: u32,
    ) -> Result<(), PtxError> {
        let b = self.constant(RegisterClass::Double, offset.into())?;
        match base {
            AddressBase::Double(a) => self.emit(Op::bin64(Bin::Add, d, a, b)),
            _ => self.emit_move(RegisterClass::Double, d, b),
        }
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

    /// Allocates the slots that functions called at run time share, and declares the functions,
    /// before the code of any of them is lowered.
    pub(super) fn announce(
        &mut self,
        functions: &[(usize, &'a FunctionAst<'a>)],
    ) -> Result<(), PtxError> {
        if !functions.is_empty() {
            self.stack_pointer()?;
        }
        for (index, function) in functions {
            for at in 0..function.params.len() {
                self.handed_over(false, at)?;
            }
            for at in 0..function.results.len() {
                self.handed_over(true, at)?;
            }
            self.code.callees.push(Callee {
                name: function.name.to_owned(),
                address: function_address(*index),
                entry: 0,
                words: 0..0,
                doubles: 0..0,
                predicates: 0..0,
                formals: (function.params.len(), function.results.len()),
            });
        }
        Ok(())
    }

    /// Returns the number of slots allocated in each register file.
    fn slots(&self) -> [Slot; 3] {
        [self.code.words, self.code.doubles, self.code.predicates]
    }

    /// Lowers a function that is called at run time, number `callee` of these functions.
    pub(super) fn function(
        &mut self,
        callee: usize,
        function: &'a FunctionAst<'a>,
    ) -> Result<(), PtxError> {
        let from = self.slots();
        self.line = function.line;
        self.code.callees[callee].entry = u32::try_from(self.code.instrs.len()).unwrap_or(u32::MAX);
        // Align the stack pointer, which `alloca` may have left unaligned, for the widest access.
        let (slot, size) = (
            self.new_slot(RegisterClass::Double)?,
            self.new_slot(RegisterClass::Double)?,
        );
        let stack_pointer = self.stack_pointer()?;
        self.counted = 0;
        let [round_up, cut] = self.constants(RegisterClass::Double, [15, !15])?;
        self.emit(Op::bin64(Bin::Add, slot, stack_pointer, round_up));
        self.emit(Op::bin64(Bin::And, slot, slot, cut));
        self.emit(Op::bin64(Bin::Add, stack_pointer, slot, size));
        let mut formals = Scope::default();
        for (result, list) in [(false, &function.params), (true, &function.results)] {
            for (at, formal) in list.iter().enumerate() {
                let FormalAst::Memory(variable) = formal else {
                    let problem = "register parameters of a function that is recursive or called \
                                   through a pointer";
                    return Err(PtxErrorKind::Unsupported(problem.to_owned()).at(function.line));
                };
                let own = self.new_slot(RegisterClass::Double)?;
                let handed_over = self.handed_over(result, at)?;
                self.emit_move(RegisterClass::Double, own, handed_over);
                formals.add(variable.name, Symbol::Formal(own), variable.line)?;
            }
        }
        let scopes = std::mem::replace(&mut self.scopes, vec![formals]);
        let label = self.new_label();
        self.return_label = Some(label);
        self.frame = Some(LocalFrame { slot, bytes: 0 });
        self.calls = vec![function.name];
        self.body(function)?;
        self.place_label(label);
        self.counted = 0;
        self.emit_move(RegisterClass::Double, stack_pointer, slot);
        self.emit(Op::Return);
        self.scopes = scopes;
        self.return_label = None;
        let bytes = self.frame.take().map_or(0, |frame| frame.bytes);
        self.set_constant(size, bytes.next_multiple_of(16).into());
        let to = self.slots();
        let own = &mut self.code.callees[callee];
        own.words = from[0]..to[0];
        own.doubles = from[1]..to[1];
        own.predicates = from[2]..to[2];
        Ok(())
    }

    /// Lowers the function's body in place of the call.
    fn inline_call(
        &mut self,
        m: &Mnemonic<'a>,
        function: &'a FunctionAst<'a>,
        call: &CallSyntax<'a>,
    ) -> Result<(), PtxError> {
        let (line, location) = (self.line, self.location);
        // Threads whose guard is false branch over a guarded call.
        let after = self.new_label();
        if self.guard != NO_GUARD {
            self.guard ^= GUARD_NEGATED;
            self.emit(Op::Branch {
                target: u32::try_from(after).unwrap_or(u32::MAX),
            });
            self.guard = NO_GUARD;
        }
        let mut formals = Scope::default();
        let mut copies_out = Vec::new();
        let pairs = function
            .params
            .iter()
            .zip(call.arguments)
            .map(|pair| (pair, false));
        let pairs = pairs.chain(
            function
                .results
                .iter()
                .zip(call.results)
                .map(|pair| (pair, true)),
        );
        for ((formal, actual), result) in pairs {
            match formal {
                FormalAst::Memory(variable) => {
                    self.actual_place(m, actual)?;
                    let symbol = match actual {
                        Operand::Name(name) => self.resolve(name)?,
                        _ => return Err(m.mismatch(actual, "expected a `.param` variable")),
                    };
                    formals.add(variable.name, symbol, variable.line)?;
                }
                FormalAst::Register(registers) => {
                    let RegisterType::Scalar(ty) = registers.ty else {
                        let problem = "vector and 128-bit register parameters".to_owned();
                        return Err(PtxErrorKind::Unsupported(problem).at(registers.line));
                    };
                    let register = self.new_register(ty)?;
                    let class = RegisterClass::of(ty);
                    if result {
                        copies_out.push((class, self.target(m, actual, ty)?, register.slot));
                    } else {
                        let a = self.source(m, actual, ty)?;
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
        self.body(function)?;
        self.calls.pop();
        self.return_label = outer_return;
        self.scopes = scopes;
        (self.line, self.location) = (line, location);
        self.guard = NO_GUARD;
        self.counted = 0;
        self.place_label(inner_return);
        for (class, d, a) in copies_out {
            self.emit_move(class, d, a);
        }
        // A label must be followed by an operation.
        self.place_label(after);
        self.emit(Op::Nop);
        Ok(())
    }

    /// Lowers `alloca`, which allocates memory on the thread's stack.
    pub(super) fn stack_allocate(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U64])?;
        m.finish()?;
        let (d, bytes, align) = match m.operands {
            [d, bytes] => (d, bytes, 8),
            [d, bytes, Operand::Int(align)] if align.is_power_of_two() => (d, bytes, *align),
            _ => return Err(m.operand_count("2 or 3")),
        };
        let bytes = self.source(m, bytes, ty)?;
        let d = self.target(m, d, ty)?;
        let at = self.stack_pointer()?;
        let [round_up, cut] = self.constants(RegisterClass::Double, [align - 1, !(align - 1)])?;
        let t = self.temporary(RegisterClass::Double)?;
        self.emit(Op::bin64(Bin::Add, t, at, round_up));
        self.emit(Op::bin64(Bin::And, t, t, cut));
        self.emit(Op::bin64(Bin::Add, at, t, bytes));
        self.emit_move(RegisterClass::Double, d, t);
        Ok(())
    }

    /// Lowers `stacksave` and `stackrestore`, which read and write the stack pointer.
    pub(super) fn stack_keep(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty_of(&[Type::U64])?;
        let [operand] = m.operands()?;
        let at = self.stack_pointer()?;
        if m.base == "stacksave" {
            let d = self.target(m, operand, ty)?;
            self.emit_move(RegisterClass::Double, d, at);
        } else {
            let a = self.source(m, operand, ty)?;
            self.emit_move(RegisterClass::Double, at, a);
        }
        Ok(())
    }

    fn stack_pointer(&mut self) -> Result<Slot, PtxError> {
        if let Some(slot) = self.convention.stack_pointer {
            return Ok(slot);
        }
        let slot = self.new_slot(RegisterClass::Double)?;
        self.convention.stack_pointer = Some(slot);
        Ok(slot)
    }

    /// Places the stack after the kernel's own local variables, if the kernel has one.
    pub(super) fn place_stack(&mut self) {
        if let Some(slot) = self.convention.stack_pointer {
            self.set_constant(slot, self.code.local_bytes.into());
            self.code.local_bytes += STACK_BYTES;
        }
    }
}
