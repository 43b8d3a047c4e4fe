//! The call graph of a kernel, which determines the functions that cannot be inlined.

use std::collections::BTreeSet;

use millstream_ptx::ast::{FormalAst, FunctionAst, InstructionAst, ModuleAst, Operand, Statement};

/// The number of nested calls that are inlined. A function that would exceed it is called at run
/// time, so that a long chain of calls neither recurses here nor grows the caller without bound.
const INLINED_MAX: usize = 32;

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

pub(in crate::ptx) struct CallGraph {
    /// The edges of each function and kernel.
    edges: Vec<CallEdges>,
    /// The functions that are recursive, directly or through others, or nested too deeply.
    not_inlined: BTreeSet<usize>,
    /// The functions whose address is taken anywhere in the module.
    pointed_at: BTreeSet<usize>,
}

impl CallGraph {
    pub(in crate::ptx) fn new(module: &ModuleAst<'_>) -> Self {
        let functions = module.functions.iter();
        let edges: Vec<_> = functions.map(|function| links(module, function)).collect();
        let in_values = module
            .variables
            .iter()
            .flat_map(|variable| &variable.references)
            .filter_map(|reference| Some(module.function(reference.name)?.0));
        let in_code = edges.iter().flat_map(|edges| &edges.takes).copied();
        Self {
            pointed_at: in_values.chain(in_code).collect(),
            not_inlined: not_inlined(module, &edges),
            edges,
        }
    }

    /// Returns the functions that a kernel must call at run time, with their indices in the module.
    ///
    /// These are the functions that cannot be inlined. If the kernel can call through pointers,
    /// they include the functions whose address is taken anywhere in the module.
    pub(super) fn out_of_line_functions<'a>(
        &self,
        module: &'a ModuleAst<'a>,
        kernel: usize,
    ) -> Vec<(usize, &'a FunctionAst<'a>)> {
        let own = &self.edges[kernel];
        let mut reached = self.reach(own.calls.iter().copied());
        let pointers = |index: &usize| self.edges[*index].calls_pointers;
        let calls_pointers = own.calls_pointers || reached.iter().any(pointers);
        if calls_pointers {
            reached = self.reach(own.calls.iter().chain(&self.pointed_at).copied());
        }
        reached
            .into_iter()
            .filter(|index| {
                self.not_inlined.contains(index)
                    || calls_pointers && self.pointed_at.contains(index)
            })
            .map(|index| (index, &module.functions[index]))
            .filter(|(_, function)| function.body.is_some())
            .collect()
    }

    /// Returns all functions reachable by calls from `start`, including `start`.
    fn reach(&self, start: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = start.collect();
        while let Some(index) = open.pop() {
            if found.insert(index) {
                open.extend(&self.edges[index].calls);
            }
        }
        found
    }
}

/// Returns the functions that are recursive or nested too deeply to be inlined.
fn not_inlined(module: &ModuleAst<'_>, edges: &[CallEdges]) -> BTreeSet<usize> {
    let calls = |index: usize| edges[index].calls.iter().copied();
    let mut callers = vec![Vec::new(); edges.len()];
    for (caller, edges) in edges.iter().enumerate() {
        edges
            .calls
            .iter()
            .for_each(|&callee| callers[callee].push(caller));
    }
    // Kosaraju's algorithm for strongly connected components.
    let order = postorder(0..edges.len(), &mut vec![false; edges.len()], calls);
    let mut not_inlined = BTreeSet::new();
    let mut seen = vec![false; edges.len()];
    for &index in order.iter().rev() {
        let component = postorder([index], &mut seen, |callee| callers[callee].iter().copied());
        if component.len() > 1 || calls(index).any(|callee| callee == index) {
            not_inlined.extend(component);
        }
    }
    let mut depth = vec![0; edges.len()];
    for index in order {
        let inlined = calls(index).filter(|callee| !not_inlined.contains(callee));
        depth[index] = 1 + inlined.map(|callee| depth[callee]).max().unwrap_or(0);
        let function = &module.functions[index];
        let mut formals = function.params.iter().chain(&function.results);
        if depth[index] >= INLINED_MAX
            && formals.all(|formal| matches!(formal, FormalAst::Memory(_)))
        {
            not_inlined.insert(index);
        }
    }
    not_inlined
}

/// Returns the functions reachable from `starts` that are not `seen`, each behind those reachable
/// from it.
fn postorder<I: Iterator<Item = usize>>(
    starts: impl IntoIterator<Item = usize>,
    seen: &mut [bool],
    next: impl Fn(usize) -> I,
) -> Vec<usize> {
    let mut order = Vec::new();
    for start in starts {
        let mut open = vec![(start, false)];
        while let Some((index, is_left)) = open.pop() {
            if is_left {
                order.push(index);
            } else if !std::mem::replace(&mut seen[index], true) {
                open.push((index, true));
                open.extend(next(index).map(|index| (index, false)));
            }
        }
    }
    order
}

fn links(module: &ModuleAst<'_>, function: &FunctionAst<'_>) -> CallEdges {
    let mut edges = CallEdges::default();
    if let Some(body) = &function.body {
        add_block(module, body, &mut edges);
    }
    edges
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
