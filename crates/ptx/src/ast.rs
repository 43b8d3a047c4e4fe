//! The syntax tree of a PTX module, with names unresolved.

use std::collections::BTreeMap;

use super::error::PtxError;
use super::header::Header;
use super::types::Type;

/// The syntax tree of a PTX module.
#[derive(Debug, Default)]
pub struct ModuleAst<'a> {
    pub header: Header<'a>,
    pub variables: Vec<VariableAst<'a>>,
    /// The variables in global and constant memory that function bodies declare.
    pub inner_variables: Vec<VariableAst<'a>>,
    pub functions: Vec<FunctionAst<'a>>,
    /// The source files of `.file` directives, with their numbers.
    pub files: Vec<(u32, &'a str)>,
    /// The aliases of functions: the alias, and the function's name.
    pub aliases: Vec<(&'a str, &'a str)>,
    pub(super) names: Names<'a>,
}

/// The indices of functions and variables by name, so that a search does not grow with the module.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    aliases: BTreeMap<&'a str, &'a str>,
    /// The last definition of each function, or its last declaration.
    functions: BTreeMap<&'a str, usize>,
    variables: BTreeMap<&'a str, usize>,
    /// The variables on the device, by their indices among those.
    on_device: BTreeMap<&'a str, usize>,
    device_variables: usize,
}

impl<'a> ModuleAst<'a> {
    /// Returns the function of that name or alias and its index, preferring a definition to a
    /// declaration.
    pub fn function(&self, name: &str) -> Option<(usize, &FunctionAst<'a>)> {
        let name = self.names.aliases.get(name).copied().unwrap_or(name);
        let index = *self.names.functions.get(name)?;
        Some((index, &self.functions[index]))
    }

    /// Returns the first variable of that name at module scope.
    pub fn variable(&self, name: &str) -> Option<&VariableAst<'a>> {
        Some(&self.variables[*self.names.variables.get(name)?])
    }

    /// Returns the index of the first variable of that name among the module's variables in global
    /// and constant memory.
    pub fn device_variable(&self, name: &str) -> Option<usize> {
        self.names.on_device.get(name).copied()
    }

    /// Returns the number of variables in global and constant memory at module scope.
    pub fn device_variables(&self) -> usize {
        self.names.device_variables
    }

    pub(super) fn enter_names(&mut self) {
        let names = &mut self.names;
        for &(alias, own) in &self.aliases {
            names.aliases.entry(alias).or_insert(own);
        }
        for (index, function) in self.functions.iter().enumerate() {
            let known = names.functions.get(function.name);
            let is_defined = known.is_some_and(|known| self.functions[*known].body.is_some());
            if !function.entry && (function.body.is_some() || !is_defined) {
                names.functions.insert(function.name, index);
            }
        }
        for (index, variable) in self.variables.iter().enumerate() {
            names.variables.entry(variable.name).or_insert(index);
            if variable.is_on_device() {
                let index = names.device_variables;
                names.on_device.entry(variable.name).or_insert(index);
                names.device_variables += 1;
            }
        }
    }
}

/// A memory space of a variable or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A variable, or a parameter in memory.
#[derive(Clone, Debug)]
pub struct VariableAst<'a> {
    pub space: Space,
    pub name: &'a str,
    pub ty: Type,
    /// The size in bytes; 0 for an array without a size.
    pub size: usize,
    pub align: usize,
    /// The leading bytes of the initial value; all further bytes are 0.
    pub initial: Vec<u8>,
    /// The addresses within the initial value.
    pub references: Vec<ReferenceAst<'a>>,
    pub external: bool,
    /// True for `.attribute(.managed)`.
    pub managed: bool,
    pub line: u32,
}

impl VariableAst<'_> {
    /// Returns whether the variable lies in global or constant memory, which the module's loader
    /// allocates.
    pub fn is_on_device(&self) -> bool {
        matches!(self.space, Space::Global | Space::Const)
    }
}

/// The address of a variable or a function within an initial value.
#[derive(Clone, Debug)]
pub struct ReferenceAst<'a> {
    pub name: &'a str,
    pub addend: i64,
    /// The offset within the initial value, in bytes.
    pub offset: usize,
    /// The number of bytes of the address that are stored.
    pub bytes: usize,
    /// The number of low bits of the address that are omitted, as in `0xFF00(name)`.
    pub shift: u32,
    pub line: u32,
}

/// The type of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterType {
    Scalar(Type),
    /// A vector of two or four elements.
    Vector(Type, u8),
    /// A 128-bit register (`.b128`): two 64-bit halves, the lower first.
    Wide,
}

/// A `.reg` declaration: one register, or a family of `count` registers named by prefix and number.
#[derive(Clone, Debug)]
pub struct RegistersAst<'a> {
    pub ty: RegisterType,
    pub name: &'a str,
    pub count: Option<u32>,
    pub line: u32,
}

impl RegistersAst<'_> {
    /// Returns whether one of the registers has that name.
    pub fn has(&self, name: &str) -> bool {
        match (name.strip_prefix(self.name), self.count) {
            (Some(""), None) => true,
            (Some(number), Some(count)) => is_number_below(number, count),
            _ => false,
        }
    }
}

/// Returns whether `number` is a register number below `count` in PTX's notation, without leading
/// zeros.
pub fn is_number_below(number: &str, count: u32) -> bool {
    let canonical = number == "0" || !number.starts_with('0');
    canonical && number.parse::<u32>().is_ok_and(|number| number < count)
}

/// A formal parameter or result of a function.
#[derive(Clone, Debug)]
pub enum FormalAst<'a> {
    Memory(VariableAst<'a>),
    Register(RegistersAst<'a>),
}

/// A function: `.entry` or `.func`.
#[derive(Debug)]
pub struct FunctionAst<'a> {
    pub name: &'a str,
    pub entry: bool,
    pub results: Vec<FormalAst<'a>>,
    pub params: Vec<FormalAst<'a>>,
    /// The maximum number of threads of a block (`.maxntid` or `.reqntid`).
    pub max_threads: Option<u32>,
    /// The required block dimensions (`.reqntid`).
    pub required_block: Option<[u32; 3]>,
    /// The maximum number of registers of a thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// The body; `None` for a declaration, and empty if `refusal` is an error in it.
    pub body: Option<Vec<Statement<'a>>>,
    /// The first feature of the function that the simulator lacks, if the parser found one.
    pub refusal: Option<PtxError>,
    pub line: u32,
}

/// One statement of a function's body.
#[derive(Debug)]
pub enum Statement<'a> {
    /// A source location (`.loc`) of the statements that follow: the file's number and the line.
    Location(u32, u32),
    Label(&'a str, u32),
    Registers(RegistersAst<'a>),
    Variable(VariableAst<'a>),
    /// A variable in global or constant memory, by its index in [`ModuleAst::inner_variables`].
    DeviceVariable {
        name: &'a str,
        index: usize,
        line: u32,
    },
    /// A list of branch targets: `name: .branchtargets a, b, c;`.
    BranchTargets(&'a str, Vec<&'a str>),
    Instruction(InstructionAst<'a>),
    Block(Vec<Statement<'a>>),
}

/// An instruction with its guard.
#[derive(Debug)]
pub struct InstructionAst<'a> {
    pub line: u32,
    pub guard: Option<GuardAst<'a>>,
    /// The full dotted name.
    pub opcode: &'a str,
    pub operands: Vec<Operand<'a>>,
}

/// The guard predicate of an instruction: `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub struct GuardAst<'a> {
    pub predicate: &'a str,
    pub negated: bool,
}

/// The names of a vector register's elements, in order; each element has two.
pub const ELEMENTS: [[&str; 2]; 4] = [["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]];

/// An operand in the syntax tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or function, or `_` for an unused result.
    Name(&'a str),
    /// An element of a vector register.
    Element(&'a str, u8),
    /// A variable's address plus a constant.
    NameOffset(&'a str, i64),
    /// A negated predicate: `!p`.
    Not(&'a str),
    /// A negated register: `-r`.
    Negated(&'a str),
    /// A pair of results: `d|p`.
    Pair(&'a str, &'a str),
    /// An integer; negative ones in two's complement.
    Int(u64),
    /// The bits of an f32.
    F32(u32),
    /// The bits of an f64.
    F64(u64),
    /// A memory address: `[base+offset]`.
    Address { base: Option<&'a str>, offset: i64 },
    /// A vector: `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// A list of parameters or results: `(a, b)`.
    List(Vec<Operand<'a>>),
}

impl std::fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let join = |items: &[Operand<'_>]| {
            items
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Element(name, index) => write!(f, "{name}.{}", ELEMENTS[usize::from(*index)][0]),
            Self::NameOffset(name, offset) => write!(f, "{name}+{offset}"),
            Self::Not(name) => write!(f, "!{name}"),
            Self::Negated(name) => write!(f, "-{name}"),
            Self::Pair(first, second) => write!(f, "{first}|{second}"),
            Self::Int(value) => write!(f, "{}", value.cast_signed()),
            Self::F32(bits) => write!(f, "0f{bits:08X}"),
            Self::F64(bits) => write!(f, "0d{bits:016X}"),
            Self::Address { base, offset } => write!(f, "[{}+{offset}]", base.unwrap_or("")),
            Self::Vector(items) => write!(f, "{{{}}}", join(items)),
            Self::List(items) => write!(f, "({})", join(items)),
        }
    }
}
