//! The interface of a module: its kernels, its variables on the device, and which kernel uses
//! which.

use std::collections::BTreeMap;

use super::ast::{ModuleAst, Space};
use super::error::PtxError;
use super::lexer::{Lexer, Token, TokenKind};
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
    /// False if the kernel only reads the variable: it lies in constant memory, or every use is a
    /// load from its name. True if that is not certain.
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

/// The names that a function's body mentions.
#[derive(Default)]
struct Mentions<'a> {
    /// The variables by index, and whether one of the mentions may be no plain load.
    variables: BTreeMap<usize, bool>,
    functions: Vec<&'a str>,
    /// The first source location: the number of the file, and the line.
    location: Option<(u32, u32)>,
}

/// Scans the bodies of all functions.
fn mentions<'a>(
    source: &'a str,
    module: &ModuleAst<'a>,
    variables: &BTreeMap<&str, usize>,
) -> BTreeMap<&'a str, Mentions<'a>> {
    let mut functions = module.functions.iter();
    let mut found = BTreeMap::new();
    let mut lexer = Lexer::new(source);
    let is_function = |name: &str| module.function(name).is_some();
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            return found;
        }
        if !matches!(token.text, ".entry" | ".func") {
            continue;
        }
        let Some(function) = functions.next() else {
            return found;
        };
        // A declaration without a body ends in `;`, a body begins with `{`.
        let opening = std::iter::repeat_with(|| lexer.next())
            .find(|token| matches!(token.text, "{" | ";") || token.kind == TokenKind::End);
        if opening.is_some_and(|token| token.text == "{") {
            found.insert(function.name, body(&mut lexer, variables, &is_function));
        }
    }
}

/// Scans a body, up to its closing brace.
fn body<'a>(
    lexer: &mut Lexer<'a>,
    variables: &BTreeMap<&str, usize>,
    is_function: &dyn Fn(&str) -> bool,
) -> Mentions<'a> {
    let mut mentions = Mentions::default();
    let mut depth = 1_usize;
    let mut opcode: Option<&str> = None;
    while depth > 0 {
        let token: Token<'a> = lexer.next();
        match (token.kind, token.text) {
            (TokenKind::End, _) => break,
            (TokenKind::Punctuation, "{") => depth += 1,
            (TokenKind::Punctuation, "}") => depth -= 1,
            (TokenKind::Punctuation, ";" | ":") => opcode = None,
            (TokenKind::Word, ".loc") => {
                let mut number = || lexer.next().text.parse().ok();
                let location = number().zip(number());
                mentions.location = mentions.location.or(location);
            }
            (TokenKind::Word, text) => {
                if let Some(&variable) = variables.get(text) {
                    let is_load = opcode.is_some_and(|opcode| opcode.starts_with("ld."));
                    *mentions.variables.entry(variable).or_default() |= !is_load;
                } else if is_function(text) {
                    mentions.functions.push(text);
                } else if opcode.is_none() && !text.starts_with(['%', '.']) {
                    opcode = Some(text);
                }
            }
            _ => {}
        }
    }
    mentions
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
    let mut seen = vec![function];
    let mut at = 0;
    while let Some(&name) = seen.get(at) {
        at += 1;
        let name = module
            .function(name)
            .map_or(name, |(_, function)| function.name);
        let Some(own) = mentions.get(name) else {
            continue;
        };
        for (&variable, &writes) in &own.variables {
            *uses.entry(variable).or_default() |= writes;
        }
        for callee in &own.functions {
            if !seen.contains(callee) {
                seen.push(callee);
            }
        }
    }
    // An address in a variable may be used for any access.
    let mut pending: Vec<usize> = uses.keys().copied().collect();
    while let Some(variable) = pending.pop() {
        let name = &variables[variable].name;
        let declared = module.variables.iter().find(|known| known.name == name);
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

    const MODULE: &str = r#"
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b8 table[16];
.const .align 4 .b8 c[8];
.global .align 4 .u32 own;
.global .align 4 .u32 behind;
.global .align 8 .u64 pointer = behind;
.shared .align 4 .b8 tile[64];
.func helper(.param .b64 x)
{
    .reg .b32 %r;
    ld.global.u32 %r, [own];
    ret;
}
.visible .entry reads(.param .u64 x)
{
    .reg .b64 %rd<3>;
    .reg .f32 %f;
    .loc 1 7 0
    ld.const.f32 %f, [c+4];
L0: ld.global.f32 %f, [table];
    .loc 1 9 0
    mov.u64 %rd1, tile;
    ret;
}
.visible .entry writes(.param .u64 x)
{
    .reg .b64 %rd<3>;
    .reg .pred %p;
    @%p ld.global.u64 %rd2, [table];
    mov.u64 %rd1, table;
    call helper, (%rd1);
    ret;
}
.visible .entry indirect()
{
    .reg .b64 %rd;
    ld.global.u64 %rd, [pointer];
    ret;
}
.file 1 "k.cu"
"#;

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
}
