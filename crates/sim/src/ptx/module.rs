//! A loaded module: its executable kernels and the variables they share.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ir::function_address;
use super::ir::{Code, ExchangeOp, SystemCall};
use super::lower::{self, CallGraph};
use millstream_ptx::Signature;
use millstream_ptx::ast::{ModuleAst, Space, VariableAst};
use millstream_ptx::parser::{self, Bodies};
use millstream_ptx::{PtxError, PtxErrorKind};

/// A PTX module, checked and lowered.
#[derive(Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
    target: Option<u32>,
    notes: Vec<String>,
}

impl Module {
    /// Returns the kernel named `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name() == name)
    }

    /// Iterates over the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// Returns the variables in global and constant memory, with those of functions last.
    ///
    /// The loader of the module must allocate them, write their initial bytes, and pass their
    /// addresses to each launch.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the number of the target architecture: 90 for `sm_90` and `sm_90a`.
    pub fn target(&self) -> Option<u32> {
        self.target
    }

    /// Returns remarks about the text that are not errors, in whole sentences: a target newer than
    /// the simulator knows, and the [refused](Kernel::refusal) kernels.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// A variable in global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable's name.
    pub name: String,
    /// The variable's size in bytes.
    pub size: usize,
    /// The variable's alignment in bytes.
    pub align: usize,
    /// The initial bytes. Bytes not given are 0, and so are addresses: see [`Self::initial_at`].
    pub initial: Vec<u8>,
    /// True for a `.const` variable, which kernels can only read.
    pub constant: bool,
    /// True for a managed variable, which the host accesses at the same address.
    pub managed: bool,
    /// True if a function declares the variable: the host cannot look it up by name.
    pub in_function: bool,
    relocations: Vec<Relocation>,
}

/// An address in an initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Relocation {
    /// The variable whose address it is; `None` if the address is already known.
    variable: Option<usize>,
    /// The constant added to the address.
    addend: u64,
    offset: usize,
    bytes: usize,
    shift: u32,
}

impl Variable {
    /// Returns the initial bytes, given the addresses of the module's variables in the order of
    /// [`Module::variables`].
    #[must_use]
    pub fn initial_at(&self, addresses: &[u64]) -> Vec<u8> {
        let mut bytes = self.initial.clone();
        for reference in &self.relocations {
            let base = reference
                .variable
                .map_or(0, |index| addresses.get(index).copied().unwrap_or(0));
            let address = base.wrapping_add(reference.addend) >> reference.shift;
            bytes[reference.offset..][..reference.bytes]
                .copy_from_slice(&address.to_le_bytes()[..reference.bytes]);
        }
        bytes
    }
}

/// A lowered kernel, ready to run.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) signature: Signature,
    pub(crate) code: Code,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_block: Option<[u32; 3]>,
    pub(crate) max_registers: Option<u32>,
    pub(crate) refusal: Option<PtxError>,
    /// The source files by the numbers that the code's locations use.
    pub(crate) files: Arc<[(u32, String)]>,
}

impl Kernel {
    /// Returns the kernel's name.
    pub fn name(&self) -> &str {
        &self.signature.name
    }

    /// Returns the kernel's name and parameters.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the reason why the simulator cannot run the kernel: the first feature that it lacks
    /// among those that the kernel and the functions that it calls use. Such a kernel has no code.
    pub fn refusal(&self) -> Option<&PtxError> {
        self.refusal.as_ref()
    }

    /// Returns the refusal in a sentence with the kernel's name.
    pub(crate) fn refused(&self) -> Option<String> {
        let refusal = self.refusal.as_ref()?;
        let name = self.name();
        Some(format!(
            "kernel `{name}` cannot run on the simulated device: {refusal}"
        ))
    }

    /// Returns the bytes of static shared memory; a launch may add dynamic shared memory.
    pub fn static_shared_bytes(&self) -> u32 {
        self.code.shared_bytes
    }

    /// Returns the names of the kernel's instructions on matrices, such as `mma.sync`, in
    /// alphabetical order.
    pub fn matrix_instructions(&self) -> Vec<&'static str> {
        let names = self
            .code
            .exchanges
            .iter()
            .filter_map(|exchange| match exchange.f {
                ExchangeOp::Together(name) => Some(name),
                _ => None,
            });
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the bytes of local memory of each thread.
    pub fn local_bytes(&self) -> u32 {
        self.code.local_bytes
    }

    /// Returns the maximum number of threads of a block, from `.maxntid` or `.reqntid`.
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }

    /// Returns the block dimensions that `.reqntid` requires.
    pub fn required_block(&self) -> Option<[u32; 3]> {
        self.required_block
    }

    /// Returns the number of 32-bit registers of a thread, with 64-bit registers counted twice, at
    /// most the number in `.maxnreg`.
    ///
    /// These are PTX's virtual registers: a GPU's compiler needs far fewer.
    pub fn registers(&self) -> u32 {
        let registers = self.code.words + 2 * self.code.doubles;
        registers.min(self.max_registers.unwrap_or(u32::MAX))
    }

    /// Returns the line of the PTX text that an operation comes from.
    pub(crate) fn line(&self, pc: u32) -> u32 {
        self.code.lines.get(pc as usize).copied().unwrap_or(0)
    }

    /// Returns the source file and line that an operation comes from, if the PTX has line
    /// information (NVRTC's `-lineinfo`).
    pub(crate) fn source(&self, pc: u32) -> Option<String> {
        let (number, line) = *self.code.locations.get(pc as usize)?;
        let (_, name) = self.files.iter().find(|(file, _)| *file == number)?;
        (line > 0).then(|| format!("{name}:{line}"))
    }

    /// Returns whether the kernel can call `malloc` or `free`.
    pub(crate) fn uses_heap(&self) -> bool {
        let calls = self.code.system_calls.iter();
        let heap = |system: &SystemCall| {
            matches!(
                system,
                SystemCall::Allocate { .. } | SystemCall::Free { .. }
            )
        };
        calls.into_iter().any(heap)
    }

    /// Returns whether the kernel can call `printf`.
    pub(crate) fn prints(&self) -> bool {
        let mut calls = self.code.system_calls.iter();
        calls.any(|system| matches!(system, SystemCall::Print { .. }))
    }

    /// Returns whether a launch runs its blocks in order, because the result could otherwise differ
    /// from run to run.
    pub fn is_ordered(&self) -> bool {
        self.code.ordered
    }
}

/// Parses a PTX text, checks it, and lowers its kernels.
///
/// A kernel that uses a feature that the simulator lacks is [refused](Kernel::refusal); the others
/// run.
///
/// # Errors
/// The first error in the text, with its line.
pub fn parse(source: &str) -> Result<Module, PtxError> {
    let ast = parser::module(source, Bodies::Parse)?;
    let outer = ast
        .variables
        .iter()
        .filter(|variable| variable.is_on_device());
    let outer = outer.map(|variable| device_variable(&ast, variable, false));
    let inner = ast.inner_variables.iter();
    let variables = outer.chain(inner.map(|variable| device_variable(&ast, variable, true)));
    let kernels = ast
        .functions
        .iter()
        .enumerate()
        .filter(|(_, function)| function.entry && function.body.is_some());
    let graph = CallGraph::new(&ast);
    let files = ast
        .files
        .iter()
        .map(|(file, name)| (*file, (*name).to_owned()));
    let files: Arc<[_]> = files.collect();
    let mut notes: Vec<String> = ast.header.note().into_iter().collect();
    let lowered = kernels.map(|(index, function)| {
        let (code, refusal) = match lower::kernel(&ast, &graph, index) {
            Ok(code) => (code, None),
            Err(error) if error.kind.is_of_kernel() => (Code::default(), Some(error)),
            Err(error) => return Err(error),
        };
        let kernel = Kernel {
            signature: Signature::of(function, &ast.header)?,
            code,
            max_threads: function.max_threads,
            required_block: function.required_block,
            max_registers: function.max_registers,
            refusal,
            files: Arc::clone(&files),
        };
        notes.extend(kernel.refused());
        Ok(kernel)
    });
    let kernels = lowered.collect::<Result<_, PtxError>>()?;
    Ok(Module {
        variables: variables.collect::<Result<_, PtxError>>()?,
        kernels,
        target: ast.header.target_number(),
        notes,
    })
}

fn device_variable(
    module: &ModuleAst<'_>,
    variable: &VariableAst<'_>,
    in_function: bool,
) -> Result<Variable, PtxError> {
    let relocations = variable.references.iter().map(|found| {
        let function = module.function(found.name);
        let index = module.device_variable(found.name);
        let start = match (index, function) {
            (Some(_), _) => 0,
            (None, Some((index, _))) => function_address(index),
            (None, None) => {
                return Err(PtxErrorKind::UndefinedSymbol(found.name.to_owned()).at(found.line));
            }
        };
        Ok(Relocation {
            variable: index,
            addend: start.wrapping_add(found.addend.cast_unsigned()),
            offset: found.offset,
            bytes: found.bytes,
            shift: found.shift,
        })
    });
    Ok(Variable {
        name: variable.name.to_owned(),
        size: variable.size,
        align: variable.align,
        initial: variable.initial.clone(),
        constant: variable.space == Space::Const,
        managed: variable.managed,
        in_function,
        relocations: relocations.collect::<Result<_, PtxError>>()?,
    })
}
