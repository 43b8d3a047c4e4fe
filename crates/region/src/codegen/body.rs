//! The text of one kernel as it grows: registers, parameters, instructions.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
    sync::Arc,
};

use rustc_hash::FxHashMap;

use crate::{
    element::{DType, Scalar},
    graph::NodeRef,
    maths,
};

/// Threads of a block in every generated kernel.
pub(crate) const BLOCK: usize = 256;

/// Bytes of a kernel's parameters, at most: every driver from 12.0 accepts so many.
pub(crate) const PARAMETER_BYTES_MAX: usize = 4096;

/// Bytes of a value in the table of a kernel that has more parameters than that.
pub(crate) const ENTRY_BYTES: usize = 8;

/// What is passed for one parameter.
#[derive(Clone)]
pub(crate) enum KernelParameter {
    /// The address of a node's elements.
    Input(NodeRef),
    /// The address of what this pass writes, by number.
    Output(usize),
    /// The address of what an earlier pass has left, by number.
    Temporary(usize),
    /// A length, a step or an index, as wide as the kernel's indices are.
    Index(i64),
    /// A value that follows from the kind of kernel.
    Scalar(Scalar),
    /// The value of a node.
    Constant { node: u64, value: Scalar },
    /// The address of the word that tells of indices that are none.
    Flag,
    /// What that word becomes if an index of this node is none of an axis of this length.
    CheckCode {
        node: NodeRef,
        axis: usize,
        length: usize,
    },
}

impl KernelParameter {
    /// Whether it is the address of an array, of which a launch must know.
    fn is_array(&self) -> bool {
        match self {
            KernelParameter::Input(_)
            | KernelParameter::Output(_)
            | KernelParameter::Temporary(_)
            | KernelParameter::Flag => true,
            KernelParameter::Index(_)
            | KernelParameter::Scalar(_)
            | KernelParameter::Constant { .. }
            | KernelParameter::CheckCode { .. } => false,
        }
    }
}

/// One generated kernel.
pub(crate) struct Kernel<P = KernelParameter> {
    /// The whole module; its entry is called `region`.
    pub(crate) ptx: Arc<str>,
    pub(crate) parameters: Vec<P>,
    /// Values that the kernel reads from a table in device memory, because as parameters they would
    /// take more than [`PARAMETER_BYTES_MAX`]; each has [`ENTRY_BYTES`]. If there are any, the
    /// table's address is one more parameter, behind the others.
    pub(crate) table: Vec<P>,
    /// Whether indices have 64 bits instead of 32.
    pub(crate) wide: bool,
    /// What the kernel does, in a few words.
    pub(crate) name: Arc<str>,
}

impl<P> Kernel<P> {
    /// The same kernel with other parameters.
    pub(super) fn each<Q>(&self, mut parameter: impl FnMut(&P) -> Q) -> Kernel<Q> {
        Kernel {
            ptx: Arc::clone(&self.ptx),
            parameters: self.parameters.iter().map(&mut parameter).collect(),
            table: self.table.iter().map(&mut parameter).collect(),
            wide: self.wide,
            name: Arc::clone(&self.name),
        }
    }
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RegClass {
    Predicate,
    B32,
    B64,
    F32,
    F64,
}

impl RegClass {
    /// What holds an element. A `u8` is in a word of which the other bits are 0.
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 => RegClass::F32,
            DType::F64 => RegClass::F64,
            DType::I32 | DType::U8 => RegClass::B32,
            DType::I64 => RegClass::B64,
            DType::Bool => RegClass::Predicate,
        }
    }

    /// The type that instructions have which only move bits: `mov`, `selp`, loads and stores of
    /// registers as they are.
    pub(super) fn move_type(self) -> &'static str {
        match self {
            RegClass::F32 => "f32",
            RegClass::F64 => "f64",
            RegClass::B64 => "b64",
            RegClass::B32 | RegClass::Predicate => "b32",
        }
    }

    fn declaration(self) -> (&'static str, &'static str) {
        match self {
            RegClass::Predicate => (".pred", "%p"),
            RegClass::B32 => (".b32", "%r"),
            RegClass::B64 => (".b64", "%rd"),
            RegClass::F32 => (".f32", "%f"),
            RegClass::F64 => (".f64", "%fd"),
        }
    }
}

/// A register.
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

/// What a parameter is for, so that the same is passed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ParameterKey {
    Input(u64),
    Output(usize),
    Temporary(usize),
    /// A node's constant.
    Constant(u64),
    /// A length of a node's axis.
    Length(u64, usize),
    /// A start of a node's view.
    Start(u64, usize),
    /// A step of a node's view.
    Step(u64, usize),
    /// A number of the kernel itself.
    Named(&'static str),
    Flag,
    /// What the flag becomes if an index of a node is none.
    CheckCode(u64),
    /// The length that a node's indices are compared with.
    CheckedLength(u64),
}

/// A parameter with its type in the kernel's text and the register that it is loaded to.
struct DeclaredParameter {
    parameter: KernelParameter,
    kind: &'static str,
    reg: Reg,
}

/// The text of one kernel as it grows.
pub(crate) struct KernelBody {
    /// Instructions so far.
    text: String,
    /// Registers so far, by class.
    counts: FxHashMap<RegClass, u32>,
    /// What is ahead of all other instructions, behind the loads of parameters.
    prologue: String,
    parameters: Vec<DeclaredParameter>,
    registers: FxHashMap<ParameterKey, Reg>,
    /// Functions of the maths library that are called.
    calls: BTreeSet<String>,
    name_parts: Vec<&'static str>,
    pub(crate) wide: bool,
}

/// Appends an instruction: `line!(body, "add.s32 {}, {}, {};", a, b, c)`.
macro_rules! line {
    ($body:expr, $($argument:tt)*) => {
        $body.line(format_args!($($argument)*))
    };
}
pub(super) use line;

impl KernelBody {
    pub(super) fn new(wide: bool) -> Self {
        Self {
            text: String::new(),
            counts: FxHashMap::default(),
            prologue: String::new(),
            parameters: Vec::new(),
            registers: FxHashMap::default(),
            calls: BTreeSet::new(),
            name_parts: Vec::new(),
            wide,
        }
    }

    /// Appends an instruction.
    pub(super) fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.text, "\t{line}").expect(STRING);
    }

    /// Appends an instruction to those ahead of all others.
    pub(super) fn prologue_line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.prologue, "\t{line}").expect(STRING);
    }

    /// Appends a label.
    pub(super) fn label(&mut self, name: &str) {
        writeln!(self.text, "{name}:").expect(STRING);
    }

    /// Notes a word for the kernel's name.
    pub(super) fn name_part(&mut self, part: &'static str) {
        self.name_parts.push(part);
    }

    /// How many words there are.
    pub(super) fn name_parts(&self) -> usize {
        self.name_parts.len()
    }

    /// Forgets all words but the first: what follows them does the same once more.
    pub(super) fn truncate_name(&mut self, keep: usize) {
        self.name_parts.truncate(keep);
    }

    /// A new register.
    pub(super) fn reg(&mut self, class: RegClass) -> Reg {
        let count = self.counts.entry(class).or_default();
        *count += 1;
        Reg {
            class,
            number: *count,
        }
    }

    /// A new register for an index.
    pub(super) fn index_reg(&mut self) -> Reg {
        self.reg(if self.wide {
            RegClass::B64
        } else {
            RegClass::B32
        })
    }

    /// The suffix of instructions on indices: 32 or 64.
    pub(super) fn bits(&self) -> &'static str {
        if self.wide { "64" } else { "32" }
    }

    /// Calls a function of the maths library.
    pub(super) fn call(&mut self, name: &str, result: Reg, arguments: &[Reg]) {
        let arguments: Vec<_> = arguments.iter().map(Reg::to_string).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        maths::call(&mut self.text, name, &result.to_string(), &arguments);
        self.calls.insert(name.to_owned());
    }

    /// The register with an index that is passed.
    pub(super) fn index_parameter(&mut self, purpose: ParameterKey, value: i64) -> Reg {
        let (class, declaration) = if self.wide {
            (RegClass::B64, ".u64")
        } else {
            (RegClass::B32, ".u32")
        };
        self.parameter(purpose, class, declaration, || {
            KernelParameter::Index(value)
        })
    }

    /// The register with an address that is passed.
    pub(super) fn address(
        &mut self,
        purpose: ParameterKey,
        parameter: impl FnOnce() -> KernelParameter,
    ) -> Reg {
        self.parameter(purpose, RegClass::B64, ".u64", parameter)
    }

    /// The register with what the flag becomes if an index of the node is none.
    pub(super) fn check_code(&mut self, node: &NodeRef, axis: usize, length: usize) -> Reg {
        self.parameter(
            ParameterKey::CheckCode(node.id),
            RegClass::B32,
            ".u32",
            || KernelParameter::CheckCode {
                node: NodeRef::clone(node),
                axis,
                length,
            },
        )
    }

    /// The register with a value that is passed and follows from the kind of kernel.
    pub(super) fn scalar(&mut self, purpose: ParameterKey, value: Scalar) -> Reg {
        self.value(purpose, value, || KernelParameter::Scalar(value))
    }

    /// The register with the value of a node, which is passed.
    pub(super) fn constant(&mut self, node: u64, value: Scalar) -> Reg {
        self.value(ParameterKey::Constant(node), value, || {
            KernelParameter::Constant { node, value }
        })
    }

    fn value(
        &mut self,
        purpose: ParameterKey,
        value: Scalar,
        parameter: impl FnOnce() -> KernelParameter,
    ) -> Reg {
        let declaration = match value.dtype() {
            DType::F32 => ".f32",
            DType::F64 => ".f64",
            DType::I32 | DType::U8 | DType::Bool => ".u32",
            DType::I64 => ".u64",
        };
        let passed = match RegClass::of(value.dtype()) {
            RegClass::Predicate => RegClass::B32,
            class => class,
        };
        self.parameter(purpose, passed, declaration, parameter)
    }

    fn parameter(
        &mut self,
        purpose: ParameterKey,
        class: RegClass,
        kind: &'static str,
        value: impl FnOnce() -> KernelParameter,
    ) -> Reg {
        if let Some(&registers) = self.registers.get(&purpose) {
            return registers;
        }
        let reg = self.reg(class);
        self.parameters.push(DeclaredParameter {
            parameter: value(),
            kind,
            reg,
        });
        self.registers.insert(purpose, reg);
        reg
    }

    /// The declarations of the parameters, and what loads them. If they take too many bytes, all
    /// but the addresses of arrays come from a table.
    fn load_parameters(&mut self) -> LoadedParameters {
        let all = std::mem::take(&mut self.parameters);
        let has_table =
            parameter_bytes(all.iter().map(|declared| declared.kind)) > PARAMETER_BYTES_MAX;
        let mut loaded = LoadedParameters::default();
        let table = has_table.then(|| self.reg(RegClass::B64));
        let mut of_table = String::new();
        for DeclaredParameter {
            parameter,
            kind,
            reg,
        } in all
        {
            match table {
                Some(table) if !parameter.is_array() => {
                    let offset = loaded.table.len() * ENTRY_BYTES;
                    writeln!(of_table, "\tld.global{kind} {reg}, [{table}+{offset}];")
                        .expect(STRING);
                    loaded.table.push(parameter);
                }
                _ => {
                    loaded.declare(kind, reg);
                    loaded.parameters.push(parameter);
                }
            }
        }
        if let Some(table) = table {
            loaded.declare(".u64", table);
        }
        loaded.loads.push_str(&of_table);
        loaded
    }

    /// The whole module. `shared` declares shared memory.
    pub(super) fn finish(mut self, shared: &str) -> Kernel {
        let loaded = self.load_parameters();
        let mut ptx = String::from(".version 8.0\n.target sm_75\n.address_size 64\n");
        ptx.push_str(&maths::sources(self.calls.iter().map(String::as_str)));
        ptx.push_str(".visible .entry region(\n");
        ptx.push_str(&loaded.declarations);
        writeln!(ptx, "\n)\n.maxntid {BLOCK}, 1, 1\n{{").expect(STRING);
        let mut counts: Vec<_> = self.counts.into_iter().collect();
        counts.sort_by_key(|(class, _)| class.declaration().1);
        for (class, count) in counts {
            let (kind, prefix) = class.declaration();
            writeln!(ptx, "\t.reg {kind} {prefix}<{}>;", count + 1).expect(STRING);
        }
        ptx.push_str(shared);
        ptx.push_str(&loaded.loads);
        ptx.push_str(&self.prologue);
        ptx.push_str(&self.text);
        ptx.push_str("\tret;\n}\n");
        Kernel {
            ptx: ptx.into(),
            parameters: loaded.parameters,
            table: loaded.table,
            wide: self.wide,
            name: name_of(&self.name_parts).into(),
        }
    }
}

/// The parameters of a finished kernel.
#[derive(Default)]
struct LoadedParameters {
    parameters: Vec<KernelParameter>,
    table: Vec<KernelParameter>,
    /// The list between the entry's brackets.
    declarations: String,
    loads: String,
    count: usize,
}

impl LoadedParameters {
    /// One more parameter of the entry.
    fn declare(&mut self, kind: &str, reg: Reg) {
        let (number, comma) = (self.count, if self.count > 0 { ",\n" } else { "" });
        write!(self.declarations, "{comma}\t.param {kind} p{number}").expect(STRING);
        writeln!(self.loads, "\tld.param{kind} {reg}, [p{number}];").expect(STRING);
        self.count += 1;
    }
}

/// Bytes of parameters of these types, each at a multiple of its size.
fn parameter_bytes<'a>(kinds: impl Iterator<Item = &'a str>) -> usize {
    kinds.fold(0, |bytes: usize, kind| {
        let size = if kind.ends_with("64") { 8 } else { 4 };
        bytes.next_multiple_of(size) + size
    })
}

/// Why writing to a string does not fail.
const STRING: &str = "a string takes everything";

/// Most words of a kernel's name.
const NAME_PARTS_MAX: usize = 6;

/// The words, with a count where there are too many.
fn name_of(name_parts: &[&str]) -> String {
    match name_parts {
        [] => String::from("copy"),
        _ if name_parts.len() <= NAME_PARTS_MAX => name_parts.join("+"),
        _ => format!(
            "{}+{} more",
            name_parts[..NAME_PARTS_MAX].join("+"),
            name_parts.len() - NAME_PARTS_MAX
        ),
    }
}
