//! The body of a kernel under construction: registers, parameters and instructions.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
    sync::Arc,
};

use rustc_hash::FxHashMap;

use crate::{
    element::{DType, Scalar},
    expr::NodeRef,
    maths,
    product::RawShape,
};

/// The number of threads per block of generated kernels, except those of long rows.
pub(crate) const BLOCK: usize = 256;

/// The maximum bytes of a kernel's parameters, which every driver from CUDA 12.0 on accepts.
pub(crate) const PARAMETER_BYTES_MAX: usize = 4096;

/// The size in bytes of a value in the table of a kernel whose parameters would exceed that limit.
pub(crate) const ENTRY_BYTES: usize = 8;

#[derive(Clone)]
pub(crate) enum KernelParameter {
    /// The address of a node's elements.
    Input(NodeRef),
    /// The address of an output of this pass, by number.
    Output(usize),
    /// The address of a temporary that an earlier pass has written, by number.
    Temporary(usize),
    /// A length, a step or an index, of the width of the kernel's indices.
    Index(i64),
    /// The length of an axis of the node with this identifier, of the width of the indices.
    Length {
        node: u64,
        axis: usize,
        length: usize,
    },
    /// The number of elements of the node with this identifier, of the width of the indices.
    ElementsOf { node: u64, elements: usize },
    /// A scalar that the kind of kernel determines.
    Scalar(Scalar),
    /// The value of the constant node with this identifier.
    Constant(u64),
    /// The sizes and strides of a matrix product.
    ProductShape(Arc<RawShape>),
    /// The address of the flag word of bounds checks.
    Flag,
    /// The address of the counters of finished blocks, which are 0 between kernels.
    Counters,
    /// The code to which the flag is raised if an index of this node is out of bounds.
    CheckCode {
        node: NodeRef,
        axis: usize,
        length: usize,
    },
}

impl KernelParameter {
    /// Returns the value of a length, a step or an index, if it is in the parameter.
    pub(crate) fn length(&self) -> Option<i64> {
        match self {
            KernelParameter::Index(value) => Some(*value),
            KernelParameter::Length { length, .. }
            | KernelParameter::ElementsOf {
                elements: length, ..
            } => Some(*length as i64),
            _ => None,
        }
    }

    /// Returns whether the parameter is an array's address, which a launch passes as an operand.
    pub(crate) fn is_array(&self) -> bool {
        match self {
            KernelParameter::Input(_)
            | KernelParameter::Output(_)
            | KernelParameter::Temporary(_)
            | KernelParameter::Flag
            | KernelParameter::Counters => true,
            KernelParameter::Index(_)
            | KernelParameter::Length { .. }
            | KernelParameter::ElementsOf { .. }
            | KernelParameter::Scalar(_)
            | KernelParameter::Constant(_)
            | KernelParameter::ProductShape(_)
            | KernelParameter::CheckCode { .. } => false,
        }
    }
}

pub(crate) struct Kernel<P = KernelParameter> {
    /// The PTX of the module; its entry is named `region`.
    pub(crate) ptx: Arc<str>,
    pub(crate) parameters: Vec<P>,
    /// The scalars that the kernel reads from a table in device memory, because as parameters they
    /// would exceed [`PARAMETER_BYTES_MAX`]; each has [`ENTRY_BYTES`]. If there are any, the
    /// table's address is the last parameter.
    pub(crate) table: Vec<P>,
    /// True if indices have 64 bits instead of 32.
    pub(crate) wide: bool,
    /// The number of threads per block.
    pub(crate) block: usize,
    /// The operations of the kernel, as shown in timelines and errors.
    pub(crate) name: Arc<str>,
}

impl<P> Kernel<P> {
    pub(crate) fn map_parameters<Q>(&self, mut parameter: impl FnMut(&P) -> Q) -> Kernel<Q> {
        Kernel {
            ptx: Arc::clone(&self.ptx),
            parameters: self.parameters.iter().map(&mut parameter).collect(),
            table: self.table.iter().map(&mut parameter).collect(),
            wide: self.wide,
            block: self.block,
            name: Arc::clone(&self.name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RegClass {
    Predicate,
    /// For conversions of `f16` alone; the registers of elements have at least 32 bits.
    B16,
    B32,
    B64,
    F32,
    F64,
}

impl RegClass {
    /// Returns the class of registers that hold an element. Integers of less than 32 bits are
    /// extended to 32, by their sign if they have one, and the bits of an `f16` or `bf16` by zeros.
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => RegClass::F32,
            DType::F64 => RegClass::F64,
            DType::I64 | DType::U64 => RegClass::B64,
            DType::Bool => RegClass::Predicate,
            _ => RegClass::B32,
        }
    }

    /// Returns the class of registers that hold such an element in memory: a predicate is a word.
    pub(crate) fn word(self) -> Self {
        match self {
            RegClass::Predicate => RegClass::B32,
            class => class,
        }
    }

    /// Returns the type suffix of instructions that move bits: `mov`, `selp`, loads and stores.
    pub(crate) fn move_type(self) -> &'static str {
        match self {
            RegClass::Predicate => "b32",
            class => &class.declaration().0[1..],
        }
    }

    /// Returns the type and the prefix of such registers.
    pub(crate) fn declaration(self) -> (&'static str, &'static str) {
        match self {
            RegClass::Predicate => (".pred", "%p"),
            RegClass::B16 => (".b16", "%h"),
            RegClass::B32 => (".b32", "%r"),
            RegClass::B64 => (".b64", "%rd"),
            RegClass::F32 => (".f32", "%f"),
            RegClass::F64 => (".f64", "%fd"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reg {
    pub(crate) class: RegClass,
    number: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.declaration().1)?;
        self.number.fmt(f)
    }
}

/// The purpose of a parameter, by which equal parameters are passed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ParameterKey {
    Input(u64),
    Output(usize),
    Temporary(usize),
    /// The value of a constant node.
    Constant(u64),
    /// The length of a node's axis.
    Length(u64, usize),
    /// The start of a view along a source axis.
    Start(u64, usize),
    /// The step of a view along a source axis.
    Step(u64, usize),
    /// A named value of the kernel itself.
    Named(&'static str),
    Flag,
    Counters,
    /// The code to which the flag is raised if an index of a node is out of bounds.
    CheckCode(u64),
    /// The length against which a node's indices are checked.
    CheckedLength(u64),
}

/// A parameter, its PTX type, and the register that holds it.
pub(crate) struct DeclaredParameter {
    pub(crate) parameter: KernelParameter,
    pub(crate) kind: &'static str,
    pub(crate) reg: Reg,
}

/// The body of a kernel under construction.
#[derive(Default)]
pub(crate) struct KernelBody {
    /// The instructions so far.
    pub(crate) text: String,
    /// The number of registers of each class.
    pub(crate) counts: FxHashMap<RegClass, u32>,
    /// The instructions between the loads of the parameters and all others.
    pub(crate) prologue: String,
    pub(crate) parameters: Vec<DeclaredParameter>,
    pub(crate) registers: FxHashMap<ParameterKey, Reg>,
    /// The indices that registers hold throughout the kernel.
    pub(crate) indices: Vec<(usize, Reg)>,
    /// The called functions of the maths library.
    pub(crate) calls: BTreeSet<String>,
    /// The registers of 16 bits with the same number as one of 32, for elements of 16-bit floats.
    pub(crate) halves: FxHashMap<Reg, Reg>,
    pub(crate) name_parts: Vec<&'static str>,
    /// The number of numbered labels.
    labels: usize,
    /// The number of blocks for which a multiprocessor must have registers.
    pub(crate) blocks_min: Option<usize>,
    pub(crate) wide: bool,
    /// The number of threads per block.
    pub(crate) block: usize,
}

/// Appends an instruction: `line!(body; "add.s32 {}, {}, {};", a, b, c)`. In this and all other
/// instructions, `#` stands for the width of indices: 32 or 64.
macro_rules! line {
    ($body:expr; $($argument:tt)*) => {
        $body.line(format_args!($($argument)*))
    };
}
pub(crate) use line;

/// Appends an instruction whose result is a new register of a class, which it returns:
/// `value!(body, B32; "add.s32 {}, {}", a, b)`. The class may be computed: `of class`.
macro_rules! value {
    ($body:expr, of $class:expr; $($argument:tt)*) => {
        $body.value_of($class, format_args!($($argument)*))
    };
    ($body:expr, $class:ident; $($argument:tt)*) => {
        value!($body, of $crate::emit::body::kernel::RegClass::$class; $($argument)*)
    };
}
pub(crate) use value;

/// Appends an instruction whose result is a new index: `index!(body; "add.s# {a}, {b}")`.
macro_rules! index {
    ($body:expr; $($argument:tt)*) => {
        $body.index_of(format_args!($($argument)*))
    };
}
pub(crate) use index;

/// Appends a comparison, whose result is a new predicate: `test!(body; "lt.u# {a}, {b}")`.
macro_rules! test {
    ($body:expr; $($argument:tt)*) => {
        $body.test_of(format_args!($($argument)*))
    };
}
pub(crate) use test;

/// Appends a comparison and a jump to a label if it holds:
/// `jump!(body; "DONE" if "ge.u# {a}, {b}")`. The predicate is new unless it is given.
macro_rules! jump {
    ($body:expr, $holds:expr; $label:literal if $($argument:tt)*) => {
        $body.jump_if($holds, format_args!($label), format_args!($($argument)*))
    };
    ($body:expr; $label:literal if $($argument:tt)*) => {{
        let holds = $body.predicate();
        jump!($body, holds; $label if $($argument)*);
    }};
}
pub(crate) use jump;

impl KernelBody {
    pub(crate) fn new(wide: bool) -> Self {
        Self {
            wide,
            block: BLOCK,
            ..Self::default()
        }
    }

    /// Appends an instruction, in which `#` stands for the width of indices.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        let line = line.to_string().replace('#', self.bits());
        writeln!(self.text, "\t{line}").expect(STRING);
    }

    /// Appends an instruction whose result is a new register.
    pub(crate) fn value_of(&mut self, class: RegClass, instruction: fmt::Arguments<'_>) -> Reg {
        let (reg, text) = (self.reg(class), instruction.to_string());
        let (name, operands) = text.split_once(' ').expect("an instruction has operands");
        line!(self; "{name} {reg}, {operands};");
        reg
    }

    /// Appends an instruction on indices, whose result is one.
    pub(crate) fn index_of(&mut self, instruction: fmt::Arguments<'_>) -> Reg {
        self.value_of(self.index_class(), instruction)
    }

    /// Appends a comparison.
    pub(crate) fn test_of(&mut self, comparison: fmt::Arguments<'_>) -> Reg {
        self.value_of(RegClass::Predicate, format_args!("setp.{comparison}"))
    }

    /// Appends a comparison and a jump to a label if it holds.
    pub(crate) fn jump_if(
        &mut self,
        holds: Reg,
        label: fmt::Arguments<'_>,
        comparison: fmt::Arguments<'_>,
    ) {
        let text = comparison.to_string();
        let (name, operands) = text.split_once(' ').expect("a comparison has operands");
        line!(self; "setp.{name} {holds}, {operands};");
        line!(self; "@{holds} bra {label};");
    }

    pub(crate) fn label(&mut self, name: &str) {
        writeln!(self.text, "{name}:").expect(STRING);
    }

    /// Returns a number that no label has yet.
    pub(crate) fn label_number(&mut self) -> usize {
        self.labels += 1;
        self.labels - 1
    }

    /// Appends a word to the kernel's name.
    pub(crate) fn name_part(&mut self, part: &'static str) {
        self.name_parts.push(part);
    }

    /// Returns the number of words in the kernel's name.
    pub(crate) fn name_parts(&self) -> usize {
        self.name_parts.len()
    }

    /// Drops all but the first words of the kernel's name, to leave out a repetition.
    pub(crate) fn truncate_name(&mut self, keep: usize) {
        self.name_parts.truncate(keep);
    }

    pub(crate) fn reg(&mut self, class: RegClass) -> Reg {
        let count = self.counts.entry(class).or_default();
        *count += 1;
        Reg {
            class,
            number: *count,
        }
    }

    /// Allocates a register for a truth value.
    pub(crate) fn predicate(&mut self) -> Reg {
        self.reg(RegClass::Predicate)
    }

    pub(crate) fn regs<const N: usize>(&mut self, class: RegClass) -> [Reg; N] {
        std::array::from_fn(|_| self.reg(class))
    }

    /// Allocates registers for indices.
    pub(crate) fn index_regs<const N: usize>(&mut self) -> [Reg; N] {
        std::array::from_fn(|_| self.index_reg())
    }

    pub(crate) fn index_reg(&mut self) -> Reg {
        self.reg(self.index_class())
    }

    pub(crate) fn index_class(&self) -> RegClass {
        if self.wide {
            RegClass::B64
        } else {
            RegClass::B32
        }
    }

    /// Returns the suffix of instructions on indices: 32 or 64.
    pub(crate) fn bits(&self) -> &'static str {
        if self.wide { "64" } else { "32" }
    }

    /// Appends a call of a maths library function.
    pub(crate) fn call(&mut self, name: &str, result: Reg, arguments: &[Reg]) {
        let arguments: Vec<_> = arguments.iter().map(Reg::to_string).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        if maths::inline(&mut self.text, name, &result.to_string(), &arguments) {
            return;
        }
        maths::call(&mut self.text, name, &result.to_string(), &arguments);
        self.calls.insert(name.to_owned());
    }
}

/// The reason why writing to a string cannot fail.
pub(crate) const STRING: &str = "writing to a string does not fail";
