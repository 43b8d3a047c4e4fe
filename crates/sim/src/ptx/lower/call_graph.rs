//! The call graph of a kernel, which determines the functions that cannot be inlined.

use std::collections::{BTreeMap, BTreeSet};

use millstream_ptx::ast::{FunctionAst, InstructionAst, ModuleAst, Operand, Statement};

/// The outgoing edges of a function in the call graph.
#[derive(Debug, Default)]
struct CallEdges {
    /// The functions that it calls by name.
    calls: BTreeSet<usize>,
    /// The functions whose addresses it takes.
    takes: BTreeSet<usize>,
    /// True if it calls functions through pointers.
    calls_pointers: bool,
}

/// Returns the functions that a kernel must call at run time, with their indices in the module.
///
/// These are the functions that are recursive, directly or through others, and, if the kernel can
/// call through pointers, the functions whose address is taken anywhere in the module.
pub(super) fn out_of_line_functions<'a>(
    module: &'a ModuleAst<'a>,
    kernel: &'a FunctionAst<'a>,
) -> Vec<(usize, &'a FunctionAst<'a>)> {
    let links: BTreeMap<usize, CallEdges> = module
        .functions
        .iter()
        .enumerate()
        .filter(|(_, function)| !function.entry)
        .map(|(index, function)| (index, links(module, function)))
        .collect();
    let own = self::links(module, kernel);
    let mut reached = reach(&links, own.calls.iter().copied());
    let calls_pointers =
        own.calls_pointers || reached.iter().any(|index| links[index].calls_pointers);
    let mut pointed_at = BTreeSet::new();
    if calls_pointers {
        pointed_at = addresses_taken(module, &links);
        reached = reach(&links, own.calls.iter().chain(&pointed_at).copied());
    }
    reached
        .into_iter()
        .filter(|index| {
            let recursive = || reach(&links, links[index].calls.iter().copied()).contains(index);
            pointed_at.contains(index) || recursive()
        })
        .map(|index| (index, &module.functions[index]))
        .filter(|(_, function)| function.body.is_some())
        .collect()
}

/// Returns all functions reachable by calls from `start`, including `start`.
fn reach(
    links: &BTreeMap<usize, CallEdges>,
    start: impl Iterator<Item = usize>,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = start.collect();
    while let Some(index) = open.pop() {
        if found.insert(index) {
            open.extend(&links[&index].calls);
        }
    }
    found
}

/// Returns the functions whose addresses occur in initial values or are taken by code, including
/// that of kernels.
fn addresses_taken(module: &ModuleAst<'_>, found: &BTreeMap<usize, CallEdges>) -> BTreeSet<usize> {
    let in_values = module
        .variables
        .iter()
        .flat_map(|variable| &variable.references)
        .filter_map(|reference| Some(module.function(reference.name)?.0));
    let kernels = module.functions.iter().filter(|function| function.entry);
    let in_kernels = kernels.flat_map(|kernel| links(module, kernel).takes);
    let in_functions = found.values().flat_map(|links| &links.takes).copied();
    in_values.chain(in_kernels).chain(in_functions).collect()
}

fn links(module: &ModuleAst<'_>, function: &FunctionAst<'_>) -> CallEdges {
    let mut found = CallEdges::default();
    if let Some(body) = &function.body {
        add_block(module, body, &mut found);
    }
    found
}

fn add_block(module: &ModuleAst<'_>, statements: &[Statement<'_>], found: &mut CallEdges) {
    for statement in statements {
        match statement {
            Statement::Block(inner) => add_block(module, inner, found),
            Statement::Instruction(instruction) => add(module, instruction, found),
            _ => {}
        }
    }
}

fn add(module: &ModuleAst<'_>, instruction: &InstructionAst<'_>, found: &mut CallEdges) {
    let mut symbols = instruction
        .operands
        .iter()
        .filter_map(|operand| match operand {
            Operand::Name(name) => Some(*name),
            _ => None,
        });
    let function = |name: &str| Some(module.function(name)?.0);
    if instruction.opcode == "call" || instruction.opcode.starts_with("call.") {
        // The callee is the first operand that is not a list.
        match symbols.next().map(function) {
            Some(Some(index)) => {
                found.calls.insert(index);
            }
            Some(None) => found.calls_pointers = true,
            None => {}
        }
    } else {
        found.takes.extend(symbols.filter_map(function));
    }
}
