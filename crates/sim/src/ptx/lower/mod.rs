//! Lowering of a kernel's syntax tree to the intermediate representation: resolves names, checks
//! types, and inlines called functions.

mod atomic;
mod bits;
mod call;
mod call_graph;
mod compare;
mod compare_half;
mod control;
mod convert;
mod copy;
mod extra;
mod float;
mod float8;
mod half;
mod hoist;
mod image;
mod integer;
mod lowerer;
mod matrix;
mod matrix_moves;
mod mbarrier;
mod memory;
mod mnemonic;
mod moves;
mod operand;
mod resolve;
mod restart;
mod symbols;
mod system;
mod unsupported;
mod uses;
mod video;
mod warp_exchange;
mod wide;
mod wmma;

use std::collections::BTreeMap;

use super::ir::{Code, GUARD_NEGATED, InitialValue, NO_GUARD, Op, Slot, Window};
use call::CallingConvention;
pub(super) use call_graph::CallGraph;
use lowerer::Lowerer;
use millstream_ptx::ast::{FormalAst, FunctionAst, InstructionAst, ModuleAst, Statement};
use millstream_ptx::{PtxError, PtxErrorKind, Signature, Type};
use mnemonic::Mnemonic;
use operand::Temporaries;
pub(crate) use restart::each_result;
use symbols::{Scope, Symbol};
pub(crate) use uses::{other_results, sources};

/// The maximum number of operations of a kernel, including called functions.
const OPERATIONS_MAX: usize = 1 << 20;

/// Lowers the kernel with this index among the module's functions.
pub(super) fn kernel<'a>(
    module: &'a ModuleAst<'a>,
    graph: &CallGraph,
    index: usize,
) -> Result<Code, PtxError> {
    let function = &module.functions[index];
    let mut lowerer = Lowerer {
        module,
        code: Code::default(),
        scopes: vec![Scope::default()],
        labels: Vec::new(),
        constants: BTreeMap::new(),
        specials: BTreeMap::new(),
        shared: BTreeMap::new(),
        reserved: None,
        dynamic_shared_align: None,
        temporaries: Temporaries::default(),
        carry: None,
        calls: vec![function.name],
        return_label: None,
        frame: None,
        convention: CallingConvention::default(),
        line: function.line,
        location: (0, 0),
        guard: NO_GUARD,
        counted: 1,
        refusal: None,
    };
    let functions = graph.out_of_line_functions(module, index);
    lowerer.announce(&functions)?;
    for (callee, (_, function)) in functions.iter().enumerate() {
        lowerer.function(callee, function)?;
    }
    lowerer.calls = vec![function.name];
    lowerer.code.entry = u32::try_from(lowerer.code.instrs.len()).unwrap_or(u32::MAX);
    let signature = Signature::of(function, &module.header)?;
    for (formal, param) in function.params.iter().zip(&signature.params) {
        let FormalAst::Memory(formal) = formal else {
            continue;
        };
        let offset = u32::try_from(param.offset).unwrap_or(u32::MAX);
        lowerer.declare(
            formal.name,
            Symbol::Memory {
                window: Window::Param,
                offset,
            },
            formal.line,
        )?;
    }
    lowerer.body(function)?;
    match lowerer.refusal.take() {
        Some(refusal) => Err(refusal),
        None => lowerer.finish(signature.param_bytes()),
    }
}

fn is_too_large(error: &PtxError) -> bool {
    matches!(error.kind, PtxErrorKind::TooLarge(_))
}

impl<'a> Lowerer<'a> {
    /// Lowers the body of a function.
    fn body(&mut self, function: &'a FunctionAst<'a>) -> Result<(), PtxError> {
        if let Some(refusal) = &function.refusal {
            self.refusal.get_or_insert_with(|| refusal.clone());
        }
        self.block(function.body.as_deref().unwrap_or_default())
    }

    /// Lowers the statements of a block in braces.
    fn block(&mut self, statements: &'a [Statement<'a>]) -> Result<(), PtxError> {
        self.scopes.push(Scope::default());
        // Labels and lists of branch targets may be used before their declaration.
        for statement in statements {
            match statement {
                Statement::Label(name, line) => {
                    let label = self.new_label();
                    self.declare(name, Symbol::Label(label), *line)?;
                }
                Statement::BranchTargets(name, targets) => {
                    self.declare(name, Symbol::Targets(targets), self.line)?;
                }
                _ => {}
            }
        }
        for statement in statements {
            match statement {
                Statement::Label(name, _) => {
                    if let Some(Symbol::Label(label)) = self.scope().get(name) {
                        self.place_label(label);
                    }
                }
                Statement::BranchTargets(..) => {}
                Statement::Location(file, line) => self.location = (*file, *line),
                Statement::Registers(registers) => self.declare_registers(registers)?,
                Statement::Variable(variable) => self.declare_variable(variable)?,
                Statement::DeviceVariable { name, index, line } => {
                    let index = self.module.device_variables() + *index;
                    let index = u32::try_from(index).unwrap_or(u32::MAX);
                    self.declare(name, Symbol::Variable(index), *line)?;
                }
                Statement::Instruction(instruction) => match self.instruction(instruction) {
                    // An error further on that makes the text invalid refuses the whole module.
                    Err(error) if error.kind.is_of_kernel() && !is_too_large(&error) => {
                        self.refusal.get_or_insert(error);
                    }
                    lowered => lowered?,
                },
                Statement::Block(inner) => self.block(inner)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn instruction(&mut self, instruction: &'a InstructionAst<'a>) -> Result<(), PtxError> {
        self.line = instruction.line;
        self.counted = 1;
        self.temporaries.reset();
        if self.code.instrs.len() > OPERATIONS_MAX {
            let problem = format!("more than {OPERATIONS_MAX} operations");
            return Err(self.error(PtxErrorKind::TooLarge(problem)));
        }
        let mut mnemonic = Mnemonic::new(instruction);
        self.guard = match instruction.guard {
            None => NO_GUARD,
            Some(guard) => {
                let predicate = self.predicate(guard.predicate)?;
                predicate | if guard.negated { GUARD_NEGATED } else { 0 }
            }
        };
        self.lower(&mut mnemonic)?;
        self.guard = NO_GUARD;
        Ok(())
    }

    fn lower(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        match m.base {
            "mov" => self.mov(m),
            "add" | "sub" | "mul" | "mad" | "div" | "rem" | "neg" | "abs" | "min" | "max"
            | "fma" => self.arithmetic(m),
            "addc" | "subc" | "madc" => self.with_carry(m),
            "mul24" | "mad24" => self.multiply_24(m),
            "sad" => self.sad(m),
            "and" | "or" | "xor" | "not" | "cnot" => self.logic(m),
            "shl" | "shr" => self.shift(m),
            "shf" => self.funnel_shift(m),
            "lop3" => self.lop3(m),
            "prmt" => self.prmt(m),
            "bfe" => self.bit_field_extract(m),
            "bfi" => self.bit_field_insert(m),
            "popc" | "clz" | "brev" | "bfind" => self.bit_count(m),
            "dp4a" | "dp2a" => self.dot_product(m),
            "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.float_function(m)
            }
            "copysign" => self.copy_sign(m),
            "testp" => self.test_class(m),
            "setp" => self.set_predicate(m),
            "set" => self.set(m),
            "selp" => self.select(m),
            "slct" => self.select_by_sign(m),
            "cvt" => self.convert(m),
            "cvta" => self.convert_address(m),
            "isspacep" => self.is_space(m),
            "ld" | "ldu" => self.load(m),
            "st" => self.store(m),
            "atom" | "red" => self.atomic(m),
            "alloca" => self.stack_allocate(m),
            "stacksave" | "stackrestore" => self.stack_keep(m),
            "cp" => self.copy_async(m),
            "prefetch" | "prefetchu" | "applypriority" | "discard" => self.prefetch(m),
            "createpolicy" => self.create_policy(m),
            "mbarrier" => self.mbarrier(m),
            "tex" | "tld4" | "txq" | "suq" => self.texture(m),
            "suld" | "sust" | "sured" => self.surface(m),
            "membar" | "fence" => self.fence(m),
            "nanosleep" => self.nanosleep(m),
            "bra" => self.branch(m),
            "brx" => self.branch_indexed(m),
            "call" => self.call(m),
            "ret" => self.ret(m),
            "exit" => self.bare(m, Op::Exit),
            "trap" | "brkpt" => self.bare(m, Op::Trap),
            "pmevent" | "griddepcontrol" => self.hint(m),
            "bar" | "barrier" => self.barrier(m),
            "shfl" => self.shuffle(m),
            "vote" => self.vote(m),
            "match" => self.match_lanes(m),
            "redux" => self.reduce(m),
            "activemask" => self.active_mask(m),
            "mma" => self.mma(m),
            "wmma" => self.wmma(m),
            "ldmatrix" | "stmatrix" | "movmatrix" => self.move_matrix(m),
            "szext" | "bmsk" | "fns" | "elect" => self.extra(m),
            base if video::is_video(base) => self.video(m),
            base if unsupported::why(base, m.full).is_some() => Err(m.unsupported()),
            _ if self.module.header.note().is_some() => Err(m.refuse(unsupported::NEWER)),
            _ => Err(self.error(PtxErrorKind::UnknownOpcode(m.full.to_owned()))),
        }
    }

    /// Lowers arithmetic by the kind of its type.
    fn arithmetic(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        if let Some(packed) = m.packed_integer() {
            return self.packed_integer(m, packed);
        }
        let ty = m.ty()?;
        match ty {
            Type::F32 | Type::F64 => self.float(m, ty),
            Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 => self.half(m, ty),
            _ => self.integer(m, ty),
        }
    }

    /// Sets the initial value of a slot to a constant that is known only now.
    fn set_constant(&mut self, slot: Slot, bits: u64) {
        self.code
            .initial_doubles
            .push((slot, InitialValue::Constant(bits)));
    }

    /// Finishes the code: appends an exit, replaces label numbers by positions, lays out memory,
    /// and prepares what blocks need not repeat.
    fn finish(mut self, param_bytes: usize) -> Result<Code, PtxError> {
        self.guard = NO_GUARD;
        self.counted = 0;
        self.emit(Op::Exit);
        let place = |label: u32| {
            self.labels
                .get(label as usize)
                .copied()
                .flatten()
                .unwrap_or(0)
        };
        for instr in &mut self.code.instrs {
            if let Op::Branch { target } = &mut instr.op {
                *target = place(*target);
            }
        }
        for target in self.code.tables.iter_mut().flatten() {
            *target = place(*target);
        }
        if let Some(align) = self.dynamic_shared_align {
            self.code.shared_bytes = self.code.shared_bytes.next_multiple_of(align);
        }
        // Each lane's local memory is aligned for the widest access, and so is its stack, which
        // follows the kernel's own variables.
        self.code.local_bytes = self.code.local_bytes.next_multiple_of(16);
        self.place_stack();
        self.code.ordered = atomic::is_ordered(&self.code);
        self.code.synchronises = atomic::synchronises(&self.code, |_| true);
        let is_clock = |op| matches!(op, Op::Clock32 { .. } | Op::Clock64 { .. });
        self.code.reads_clock = self.code.instrs.iter().any(|instr| is_clock(instr.op));
        self.code.restart = restart::restart(&self.code);
        hoist::hoist(&mut self.code, param_bytes);
        Ok(self.code)
    }
}
