//! A loaded module: kernels ready to run, and the variables they share.

use std::sync::Arc;

use super::ast::{Space, VariableAst};
use super::code::Code;
use super::error::PtxError;
use super::lower;
use super::parser::{self, Bodies};
use super::signature::Signature;

/// A PTX text, checked and lowered.
#[derive(Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
}

impl Module {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name() == name)
    }

    /// All kernels, in the text's order.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// The variables in global and constant memory, in the text's order. Whoever loads the module allocates them, writes their
    /// initial bytes, and gives their addresses to each launch.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }
}

/// A module-scope variable in global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Its first bytes; those not given are 0.
    pub initial: Vec<u8>,
    /// Whether it is a `.const`, which kernels only read.
    pub constant: bool,
}

/// A kernel, ready to run.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) signature: Signature,
    pub(crate) code: Code,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_block: Option<[u32; 3]>,
    /// The source files that the code's locations name by number.
    pub(crate) files: Arc<[(u32, String)]>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.signature.name
    }

    /// Its name and parameters.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Bytes of shared memory that it declares; a launch may add dynamic ones.
    pub fn static_shared_bytes(&self) -> u32 {
        self.code.shared_bytes
    }

    /// Bytes of local memory of each thread.
    pub fn local_bytes(&self) -> u32 {
        self.code.local_bytes
    }

    /// The most threads of a block, from `.maxntid` or `.reqntid`.
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }

    /// The block shape that `.reqntid` demands.
    pub fn required_block(&self) -> Option<[u32; 3]> {
        self.required_block
    }

    /// How many 32-bit registers a thread has, 64-bit ones counted twice. These are PTX's virtual registers: a GPU's compiler
    /// needs far fewer.
    pub fn registers(&self) -> u32 {
        self.code.words + 2 * self.code.doubles
    }

    /// The line of the PTX text that an operation comes from.
    pub(crate) fn line(&self, pc: u32) -> u32 {
        self.code.lines.get(pc as usize).copied().unwrap_or(0)
    }

    /// The source file and line that an operation comes from, if the text has them: NVRTC writes them for `-lineinfo`.
    pub(crate) fn source(&self, pc: u32) -> Option<String> {
        let (number, line) = *self.code.locations.get(pc as usize)?;
        let (_, name) = self.files.iter().find(|(file, _)| *file == number)?;
        (line > 0).then(|| format!("{name}:{line}"))
    }

    /// Whether the launch's blocks run one after the other, because the result could otherwise differ from run to run.
    pub fn is_ordered(&self) -> bool {
        self.code.ordered
    }
}

/// Reads a PTX text, checks it and lowers its kernels.
///
/// # Errors
/// The first thing in the text that is wrong or that the simulator does not execute, with its line.
pub fn parse(source: &str) -> Result<Module, PtxError> {
    let ast = parser::module(source, Bodies::Read)?;
    let variables = ast
        .variables
        .iter()
        .filter(|variable| is_device_variable(variable))
        .map(device_variable);
    let kernels = ast
        .functions
        .iter()
        .filter(|function| function.entry && function.body.is_some());
    let files = ast.files.iter().map(|(file, name)| (*file, (*name).to_owned()));
    let files: Arc<[_]> = files.collect();
    Ok(Module {
        variables: variables.collect(),
        kernels: kernels
            .map(|function| {
                Ok(Kernel {
                    signature: Signature::of(function)?,
                    code: lower::kernel(&ast, function)?,
                    max_threads: function.max_threads,
                    required_block: function.required_block,
                    files: Arc::clone(&files),
                })
            })
            .collect::<Result<_, PtxError>>()?,
    })
}

/// Whether the loader has to allocate this variable.
pub(crate) fn is_device_variable(variable: &VariableAst<'_>) -> bool {
    matches!(variable.space, Space::Global | Space::Const)
}

fn device_variable(variable: &VariableAst<'_>) -> Variable {
    Variable {
        name: variable.name.to_owned(),
        size: variable.size,
        align: variable.align,
        initial: variable.initial.clone(),
        constant: variable.space == Space::Const,
    }
}
