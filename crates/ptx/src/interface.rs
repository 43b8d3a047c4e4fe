//! The interface of a module: its kernels, its variables on the device, and which kernel uses
//! which.

use std::collections::{BTreeMap, BTreeSet};

use super::ast::{ModuleAst, Space};
use super::error::PtxError;
use super::mentions::{Mentions, mentions};
use super::parser::{self, Bodies};
use super::signature::Signature;

/// The kernels and the variables of a module.
///
/// ```
/// let source = ".version 8.0
///     .target sm_75
///     .address_size 64
///     .const .align 4 .b8 weights[64];
///     .global .align 4 .u32 hits;
///     .visible .entry count(.param .u64 x)
///     { .reg .b32 %r; atom.global.add.u32 %r, [hits], 1; ret; }";
/// let interface = millstream_ptx::interface(source).unwrap();
/// let count = &interface.kernels[0];
/// assert_eq!(count.signature.name, "count");
/// assert_eq!(interface.variables[count.uses[0].variable].name, "hits");
/// assert!(count.uses[0].writes);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernels, in the order of the text.
    pub kernels: Vec<KernelInterface>,
    /// The variables in global and constant memory at module scope.
    pub variables: Vec<DeviceVariable>,
}

/// A kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInterface {
    /// The name and the parameters.
    pub signature: Signature,
    /// The module's variables that the kernel, or a function that it calls, may access; in the
    /// order of [`Interface::variables`].
    pub uses: Vec<VariableUse>,
    /// The file and the line of the kernel in the source of the PTX, if the PTX has line
    /// information.
    pub source: Option<(String, u32)>,
}

/// The use of a variable by a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableUse {
    /// The index in [`Interface::variables`].
    pub variable: usize,
    /// False if the kernel only reads the variable: it lies in constant memory, or all that the
    /// kernel does with its address is to compute addresses of loads. True if that is not certain.
    pub writes: bool,
}

/// A variable in global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceVariable {
    /// The name.
    pub name: String,
    /// True in constant memory.
    pub constant: bool,
    /// The size in bytes.
    pub bytes: usize,
    /// The alignment in bytes.
    pub align: usize,
}

/// Returns the interface of a module. Function bodies are scanned for names, not parsed.
///
/// # Errors
///
/// As [`signatures`](super::signatures).
pub fn interface(source: &str) -> Result<Interface, PtxError> {
    let module = parser::module(source, Bodies::Skip)?;
    let variables = module.variables.iter();
    let variables: Vec<_> = variables
        .filter(|variable| variable.is_on_device())
        .map(|variable| DeviceVariable {
            name: variable.name.to_owned(),
            constant: variable.space == Space::Const,
            bytes: variable.size,
            align: variable.align,
        })
        .collect();
    let names: BTreeMap<&str, usize> = variables
        .iter()
        .enumerate()
        .map(|(index, variable)| (variable.name.as_str(), index))
        .collect();
    let mentions = mentions(source, &module, &names);
    let entries = module.functions.iter().filter(|function| function.entry);
    let kernels = entries.map(|function| {
        let own = mentions.get(function.name);
        let location = own.and_then(|own| own.location);
        let file = |number| {
            let mut files = module.files.iter();
            files
                .find(|(known, _)| *known == number)
                .map(|(_, name)| *name)
        };
        Ok(KernelInterface {
            signature: Signature::of(function, &module.header)?,
            uses: uses_of(function.name, &mentions, &module, &names, &variables),
            source: location.and_then(|(number, line)| Some((file(number)?.to_owned(), line))),
        })
    });
    let kernels = kernels.collect::<Result<_, PtxError>>()?;
    Ok(Interface { kernels, variables })
}

/// Returns the variables that a function, those that it mentions, and the initial values of these
/// variables refer to.
fn uses_of(
    function: &str,
    mentions: &BTreeMap<&str, Mentions<'_>>,
    module: &ModuleAst<'_>,
    names: &BTreeMap<&str, usize>,
    variables: &[DeviceVariable],
) -> Vec<VariableUse> {
    let mut uses: BTreeMap<usize, bool> = BTreeMap::new();
    let mut seen = BTreeSet::from([function]);
    let mut open = vec![function];
    while let Some(name) = open.pop() {
        let name = module
            .function(name)
            .map_or(name, |(_, function)| function.name);
        let Some(own) = mentions.get(name) else {
            continue;
        };
        for (&variable, &writes) in &own.variables {
            *uses.entry(variable).or_default() |= writes;
        }
        let callees = own.functions.iter().copied();
        open.extend(callees.filter(|callee| seen.insert(callee)));
    }
    // An address in a variable may be used for any access.
    let mut pending: Vec<usize> = uses.keys().copied().collect();
    while let Some(variable) = pending.pop() {
        let declared = module.variable(&variables[variable].name);
        for reference in declared.map_or(&[][..], |declared| &declared.references) {
            if let Some(&target) = names.get(reference.name)
                && uses.insert(target, true).is_none()
            {
                pending.push(target);
            }
        }
    }
    let uses = uses.into_iter();
    uses.map(|(variable, writes)| VariableUse {
        variable,
        writes: writes && !variables[variable].constant,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = include_str!("interface.ptx");

    fn uses(kernel: &str) -> Vec<(String, bool)> {
        let interface = interface(MODULE).expect("it is valid");
        let mut kernels = interface.kernels.iter();
        let kernel = kernels.find(|known| known.signature.name == kernel);
        let uses = kernel.expect("it is there").uses.iter();
        uses.map(|found| {
            let name = interface.variables[found.variable].name.clone();
            (name, found.writes)
        })
        .collect()
    }

    fn use_of(name: &str, writes: bool) -> (String, bool) {
        (name.to_owned(), writes)
    }

    #[test]
    fn a_kernel_uses_the_variables_that_its_body_names() {
        assert_eq!(uses("reads"), [use_of("table", false), use_of("c", false)]);
    }

    #[test]
    fn an_address_may_be_written_and_calls_are_followed() {
        assert_eq!(
            uses("writes"),
            [use_of("table", true), use_of("own", false)]
        );
    }

    #[test]
    fn an_indexed_table_is_read_if_only_loads_use_its_address() {
        assert_eq!(uses("looks_up"), [use_of("table", false)]);
        assert_eq!(uses("stores"), [use_of("table", true)]);
        assert_eq!(uses("passes"), [use_of("own", true)]);
    }

    #[test]
    fn variables_behind_a_pointer_are_used() {
        let expected = [use_of("behind", true), use_of("pointer", false)];
        assert_eq!(uses("indirect"), expected);
    }

    #[test]
    fn variables_on_the_device_are_listed_with_their_sizes() {
        let interface = interface(MODULE).expect("it is valid");
        let variables: Vec<_> = interface
            .variables
            .iter()
            .map(|variable| (variable.name.as_str(), variable.constant, variable.bytes))
            .collect();
        assert_eq!(
            variables,
            [
                ("table", false, 16),
                ("c", true, 8),
                ("own", false, 4),
                ("behind", false, 4),
                ("pointer", false, 8)
            ]
        );
        assert_eq!(interface.kernels[0].source, Some(("k.cu".to_owned(), 7)));
        assert_eq!(interface.kernels[1].source, None);
    }

    #[test]
    fn control_characters_are_in_no_name_of_a_file_and_in_no_error() {
        let named = interface(&MODULE.replace("k.cu", "k\x1b[2J.cu")).expect("it is valid");
        assert_eq!(named.kernels[0].source, None);
        let error = interface(".version \"\x1b[2J\"").expect_err("it is no number");
        assert!(
            error.to_string().ends_with("found `\u{fffd}[2J`"),
            "{error}"
        );
    }
}
