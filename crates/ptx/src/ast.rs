//! A PTX text as the parser understood it, names not yet resolved.

use super::header::Header;
use super::types::Type;

/// A whole PTX text.
#[derive(Debug, Default)]
pub struct ModuleAst<'a> {
    pub header: Header<'a>,
    pub variables: Vec<VariableAst<'a>>,
    /// The variables in global and constant memory that function bodies declare.
    pub inner_variables: Vec<VariableAst<'a>>,
    pub functions: Vec<FunctionAst<'a>>,
    /// The source files that `.file` numbers.
    pub files: Vec<(u32, &'a str)>,
    /// Further names of functions: the name, and the function's own.
    pub aliases: Vec<(&'a str, &'a str)>,
}

impl<'a> ModuleAst<'a> {
    /// The function of that name, or of which it is an alias, and its place in the list; one with a
    /// body, if there is one.
    pub fn function(&self, name: &str) -> Option<(usize, &FunctionAst<'a>)> {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, own)| own);
        self.functions
            .iter()
            .enumerate()
            .filter(|(_, function)| function.name == name && !function.entry)
            .max_by_key(|(_, function)| function.body.is_some())
    }
}

/// A memory space in which a variable can be declared, or to which an access is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A variable, or a parameter that lies in memory.
#[derive(Clone, Debug)]
pub struct VariableAst<'a> {
    pub space: Space,
    pub name: &'a str,
    pub ty: Type,
    /// Bytes; 0 for an array without a size.
    pub size: usize,
    pub align: usize,
    /// The first bytes; those not given are 0.
    pub initial: Vec<u8>,
    /// Addresses among the first bytes.
    pub references: Vec<ReferenceAst<'a>>,
    pub external: bool,
    pub line: u32,
}

impl VariableAst<'_> {
    /// Whether it lies in global or constant memory, where the loader of the module allocates it.
    pub fn is_on_device(&self) -> bool {
        matches!(self.space, Space::Global | Space::Const)
    }
}

/// An address in an initial value: of a variable or of a function.
#[derive(Clone, Debug)]
pub struct ReferenceAst<'a> {
    pub name: &'a str,
    pub addend: i64,
    /// Where in the initial value, in bytes.
    pub offset: usize,
    /// How many bytes of the address stand there.
    pub bytes: usize,
    /// How many bits of the address are left out below them: `0xFF00(name)`.
    pub shift: u32,
    pub line: u32,
}

/// The type of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterType {
    Scalar(Type),
    /// Two or four elements.
    Vector(Type, u8),
    /// `.b128`: two 64-bit halves, the lower first.
    Wide,
}

/// `.reg` declarations: one register, or `count` of them named with a number behind the prefix.
#[derive(Clone, Debug)]
pub struct RegistersAst<'a> {
    pub ty: RegisterType,
    pub name: &'a str,
    pub count: Option<u32>,
    pub line: u32,
}

impl RegistersAst<'_> {
    /// Whether one of the registers has that name.
    pub fn has(&self, name: &str) -> bool {
        match (name.strip_prefix(self.name), self.count) {
            (Some(""), None) => true,
            (Some(number), Some(count)) => is_number_below(number, count),
            _ => false,
        }
    }
}

/// Whether `number` is written as PTX numbers the registers of a family of `count`.
pub fn is_number_below(number: &str, count: u32) -> bool {
    let canonical = number == "0" || !number.starts_with('0');
    canonical && number.parse::<u32>().is_ok_and(|number| number < count)
}

/// A formal parameter or result.
#[derive(Clone, Debug)]
pub enum FormalAst<'a> {
    Memory(VariableAst<'a>),
    Register(RegistersAst<'a>),
}

/// A `.entry` or a `.func`.
#[derive(Debug)]
pub struct FunctionAst<'a> {
    pub name: &'a str,
    pub entry: bool,
    pub results: Vec<FormalAst<'a>>,
    pub params: Vec<FormalAst<'a>>,
    /// From `.maxntid` or `.reqntid`: the most threads of a block.
    pub max_threads: Option<u32>,
    /// From `.reqntid`: exactly this block shape.
    pub required_block: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    pub line: u32,
}

/// One statement of a function's body.
#[derive(Debug)]
pub enum Statement<'a> {
    /// `.loc`: the file's number and the line of the source that what follows comes from.
    Location(u32, u32),
    Label(&'a str, u32),
    Registers(RegistersAst<'a>),
    Variable(VariableAst<'a>),
    /// A variable in global or constant memory, by its place in [`ModuleAst::inner_variables`].
    DeviceVariable {
        name: &'a str,
        index: usize,
        line: u32,
    },
    /// `name: .branchtargets a, b, c;`
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

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub struct GuardAst<'a> {
    pub predicate: &'a str,
    pub negated: bool,
}

/// The names of a vector register's elements, in order; there are two for each.
pub const ELEMENTS: [[&str; 2]; 4] = [["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]];

/// An operand as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or function; `_` is written for "no result".
    Name(&'a str),
    /// An element of a vector register.
    Element(&'a str, u8),
    /// A variable's address plus a constant.
    NameOffset(&'a str, i64),
    /// `!p`
    Not(&'a str),
    /// `-r`
    Negated(&'a str),
    /// `d|p`
    Pair(&'a str, &'a str),
    /// An integer; negative ones in two's complement.
    Int(u64),
    /// The bits of an f32.
    F32(u32),
    /// The bits of an f64.
    F64(u64),
    /// `[base+offset]`
    Address { base: Option<&'a str>, offset: i64 },
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)`
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
