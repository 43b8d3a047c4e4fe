//! Assembly of finished bodies: modules, and blocks within other kernels.

use std::fmt::Write;

use crate::{
    emit::body::kernel::{
        DeclaredParameter, ENTRY_BYTES, Kernel, KernelBody, KernelParameter, PARAMETER_BYTES_MAX,
        Reg, RegClass, STRING,
    },
    maths,
};

impl KernelBody {
    /// Returns the declarations and loads of the parameters, which begin at this offset. Beyond the
    /// limit, all except the addresses of arrays are loaded from a table.
    fn load_parameters(&mut self, reserved: usize) -> LoadedParameters {
        let all = std::mem::take(&mut self.parameters);
        let has_table = parameter_bytes(reserved, all.iter().map(|declared| declared.kind))
            > PARAMETER_BYTES_MAX;
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

    fn declare_registers(&self) -> String {
        let mut counts: Vec<_> = self.counts.iter().collect();
        counts.sort_by_key(|(class, _)| class.declaration().1);
        let mut declared = String::new();
        for (class, count) in counts {
            let (kind, prefix) = class.declaration();
            writeln!(declared, "\t.reg {kind} {prefix}<{}>;", count + 1).expect(STRING);
        }
        declared
    }

    /// Assembles the module. `shared` declares shared memory.
    pub(crate) fn finish(mut self, shared: &str) -> Kernel {
        let loaded = self.load_parameters(0);
        let mut ptx = String::from(HEADER);
        ptx.push_str(&maths::sources(self.calls.iter().map(String::as_str)));
        ptx.push_str(".visible .entry region(\n");
        ptx.push_str(&loaded.declarations);
        writeln!(ptx, "\n)\n.maxntid {}, 1, 1", self.block).expect(STRING);
        if let Some(blocks) = self.blocks_min {
            writeln!(ptx, ".minnctapersm {blocks}").expect(STRING);
        }
        ptx.push_str("{\n");
        ptx.push_str(&self.declare_registers());
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
            block: self.block,
            name: name_of(&self.name_parts).into(),
        }
    }

    /// Assembles a block for another kernel, whose own parameters have this many bytes.
    pub(crate) fn finish_block(mut self, reserved: usize) -> Block {
        let loaded = self.load_parameters(reserved);
        let text = [
            "\t{\n",
            &self.declare_registers(),
            &loaded.loads,
            &self.prologue,
            &self.text,
            "\t}\n",
        ];
        Block {
            functions: maths::sources(self.calls.iter().map(String::as_str)),
            declarations: loaded.declarations,
            text: text.concat(),
            parameters: loaded.parameters,
            table: loaded.table,
            name: name_of(&self.name_parts),
        }
    }
}

/// The first lines of a module.
pub(crate) const HEADER: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// Instructions in braces, with registers of their own, that a kernel may contain several times.
pub(crate) struct Block {
    /// The functions of the maths library that it calls.
    pub(crate) functions: String,
    /// The last parameters in the parameter list of the kernel.
    pub(crate) declarations: String,
    pub(crate) text: String,
    pub(crate) parameters: Vec<KernelParameter>,
    /// As of [`Kernel::table`].
    pub(crate) table: Vec<KernelParameter>,
    pub(crate) name: String,
}

/// The parameters of a finished kernel, with their declarations and loads.
#[derive(Default)]
struct LoadedParameters {
    parameters: Vec<KernelParameter>,
    table: Vec<KernelParameter>,
    /// The parameter list of the entry.
    declarations: String,
    loads: String,
    count: usize,
}

impl LoadedParameters {
    fn declare(&mut self, kind: &str, reg: Reg) {
        let (number, comma) = (self.count, if self.count > 0 { ",\n" } else { "" });
        write!(self.declarations, "{comma}\t.param {kind} p{number}").expect(STRING);
        writeln!(self.loads, "\tld.param{kind} {reg}, [p{number}];").expect(STRING);
        self.count += 1;
    }
}

/// The maximum number of words in a kernel's name.
const NAME_PARTS_MAX: usize = 6;

/// Joins the words of a name, replacing those beyond the maximum by their number.
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

/// Returns the size of `first` bytes and parameters of these types, each aligned to its size.
fn parameter_bytes<'a>(first: usize, kinds: impl Iterator<Item = &'a str>) -> usize {
    kinds.fold(first, |bytes: usize, kind| {
        let size = if kind.ends_with("64") { 8 } else { 4 };
        bytes.next_multiple_of(size) + size
    })
}
