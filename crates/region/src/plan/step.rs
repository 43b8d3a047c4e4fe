//! The steps of a plan, in terms of node numbers.
//!
//! A plan depends on the operations, the shapes and the requested nodes of a graph, and not on
//! constants and arrays. Steps therefore refer to nodes by their numbers in the graph, and serve
//! all graphs with the same key.

use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

use smallvec::SmallVec;

use crate::{
    plan::{
        held::HeldNodes,
        kernel::{FusedKernel, KernelOutput},
        rows::{RowClass, RowShape},
    },
    shape::AxisMap,
};

/// The materialisation of one node, or of several that one kernel computes.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) nodes: SmallVec<[u32; 2]>,
    /// A stored node with the elements of the step's node, in the same order: there are no kernels.
    pub(crate) alias_of: Option<u32>,
    /// Kernels that write the elements of the nodes, run in this order. The outputs of each are the
    /// nodes of the step.
    pub(crate) kernels: Vec<KernelPlan>,
    /// The kernel that replaces elements of a stored node instead, if nothing else needs them.
    pub(crate) in_place: Option<Box<Replacement>>,
    /// The nodes and operations that no later step needs.
    pub(crate) released: Release,
}

/// The replacement of a part of the elements of a stored node, in its memory.
pub(crate) struct Replacement {
    pub(crate) base: u32,
    /// The updates, each of the elements of the one before, or the scatter.
    pub(crate) replaced: SmallVec<[u32; 2]>,
    pub(crate) kernel: KernelPlan,
}

/// Nodes and operations to drop, by node numbers. A node that a later step reads from memory is
/// held without its operation, which would hold the operands and so their memory.
#[derive(Default)]
pub(crate) struct Release {
    pub(crate) nodes: Vec<u32>,
    pub(crate) operations: Vec<u32>,
}

/// A fused kernel in terms of node numbers: the plan of a [`FusedKernel`].
#[derive(Default)]
pub(crate) struct KernelPlan {
    pub(crate) root: u32,
    pub(crate) nodes: Vec<u32>,
    pub(crate) inputs: SmallVec<[u32; 4]>,
    pub(crate) outputs: SmallVec<[OutputPlan; 1]>,
    pub(crate) epilogue: Vec<u32>,
    pub(crate) overwrites: Option<u32>,
    /// The number of elements of a row of a row kernel, and the class of its root.
    pub(crate) rows: Option<(usize, RowClass)>,
    pub(crate) tiled: SmallVec<[u32; 1]>,
    pub(crate) is_sectioned: bool,
    pub(crate) kind: KernelKind,
    /// The epilogue of a product as a kernel of its own, for a library that computes the product.
    pub(crate) separate_epilogue: Option<Box<KernelPlan>>,
    /// The generated code. Code generation determines the type of the content.
    pub(crate) code: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// The way in which a kernel is enqueued.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum KernelKind {
    #[default]
    Generated,
    /// A matrix product, which a library may compute.
    Product,
    /// A sort or a search, by built-in kernels.
    Order,
    /// A kernel without elements to write, which is not launched.
    Empty,
}

/// A [`KernelOutput`] in terms of node numbers.
pub(crate) struct OutputPlan {
    pub(crate) value: u32,
    pub(crate) target: u32,
    /// As of [`KernelOutput::slot`].
    pub(crate) slot: usize,
    pub(crate) target_map: Option<AxisMap>,
}

impl Step {
    fn all_kernels(&self) -> impl Iterator<Item = &KernelPlan> {
        let in_place = self.in_place.iter().map(|replacement| &replacement.kernel);
        self.kernels.iter().chain(in_place)
    }

    /// Returns the numbers of the nodes whose operations the step needs, some several times: those
    /// that its kernels compute, and those that it replaces.
    fn computed(&self) -> impl Iterator<Item = u32> {
        let kernels = self.all_kernels();
        let computed = kernels.flat_map(|plan| plan.nodes.iter().chain(&plan.epilogue));
        let replaced = self.in_place.iter().flat_map(|it| &it.replaced);
        computed.chain(replaced).copied()
    }

    /// Returns the numbers of all nodes of the step, some several times.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let others = self.all_kernels().flat_map(|plan| {
            let outputs = plan.outputs.iter();
            let outputs = outputs.flat_map(|output| [output.value, output.target]);
            let inputs = plan.inputs.iter().copied();
            std::iter::once(plan.root).chain(outputs).chain(inputs)
        });
        let base = self.in_place.iter().map(|replacement| replacement.base);
        let nodes = self.nodes.iter().copied().chain(self.alias_of).chain(base);
        nodes.chain(others).chain(self.computed())
    }

    /// Returns the number of references to the base of a replacement that `nodes` holds, directly
    /// or through operations, if no other node, array or step can lead to its elements.
    pub(crate) fn only_references(
        &self,
        Replacement {
            base,
            replaced,
            kernel,
        }: &Replacement,
        nodes: &HeldNodes,
    ) -> Option<usize> {
        let mut computed: SmallVec<[u32; 16]> = self.computed().collect();
        computed.sort_unstable();
        computed.dedup();
        let refers = |number: u32, to: u32| {
            let (mut count, id) = (0, nodes.node(to).id);
            let op = nodes.op(number);
            op.operands(|operand| count += usize::from(operand.id == id));
            count
        };
        let references = |to: u32| -> Option<usize> {
            let is_last = self.released.nodes.contains(&to);
            let of_operations = computed.iter().map(|&number| refers(number, to));
            is_last.then(|| 1 + of_operations.sum::<usize>())
        };
        let mut dependent: SmallVec<[u32; 8]> = SmallVec::from_slice(&[*base]);
        for &number in kernel.nodes.iter().chain(replaced) {
            let depends = dependent.iter().any(|&to| refers(number, to) > 0);
            // The node of the step no longer leads to the base once it is enqueued.
            if depends && number != self.nodes[0] {
                dependent.push(number);
                if Some(Arc::strong_count(nodes.node(number))) != references(number) {
                    return None;
                }
            }
        }
        references(*base)
    }
}

impl Release {
    /// Sets for each step which of `nodes` planned nodes and of `all` no later step needs. Returns
    /// those that no step needs.
    pub(crate) fn plan(steps: &mut [Step], nodes: usize, all: usize) -> Self {
        let (mut needed, mut computed) = (vec![false; all], vec![false; nodes]);
        let new = |numbers: &mut Vec<bool>, number: u32| {
            !std::mem::replace(&mut numbers[number as usize], true)
        };
        for step in steps.iter_mut().rev() {
            step.released = Self {
                nodes: (step.numbers().filter(|&number| new(&mut needed, number))).collect(),
                operations: (step.computed().filter(|&number| new(&mut computed, number)))
                    .collect(),
            };
        }
        let others = |known: Vec<bool>| {
            let numbers = (0..).zip(known);
            numbers.filter_map(|(number, is_known)| (!is_known).then_some(number))
        };
        Self {
            nodes: others(needed).collect(),
            operations: others(computed).collect(),
        }
    }
}

impl KernelPlan {
    /// Returns the number in the graph of a node by its number in the kernel: first those up to the
    /// root, then those of the epilogue, then the inputs.
    pub(crate) fn node(&self, number: usize) -> u32 {
        match number.checked_sub(self.nodes.len()) {
            None => self.nodes[number],
            Some(number) => match number.checked_sub(self.epilogue.len()) {
                None => self.epilogue[number],
                Some(of_input) => self.inputs[of_input],
            },
        }
    }

    /// Returns the greatest number of launches. Passes count as one.
    pub(crate) fn launches(&self) -> usize {
        1 + usize::from(self.separate_epilogue.is_some())
    }

    pub(crate) fn fused(&self, nodes: &HeldNodes) -> FusedKernel {
        let node = |&number: &u32| nodes.node(number).clone();
        let fused = |&number: &u32| nodes.fused(number);
        let output = |output: &OutputPlan| KernelOutput {
            value: node(&output.value),
            target: node(&output.target),
            slot: output.slot,
            target_map: output.target_map.clone(),
        };
        let root = node(&self.root);
        let rows = |(length, class)| RowShape::of_root(length, class, &root);
        FusedKernel {
            rows: self.rows.map(rows),
            root,
            nodes: self.nodes.iter().map(fused).collect(),
            inputs: self.inputs.iter().map(node).collect(),
            outputs: self.outputs.iter().map(output).collect(),
            epilogue: self.epilogue.iter().map(fused).collect(),
            overwrites: self.overwrites.map(|number| nodes.node(number).id),
            tiled: self.tiled.iter().map(node).collect(),
            is_sectioned: self.is_sectioned,
        }
    }
}

impl OutputPlan {
    /// Returns the output that is all elements of a node.
    pub(crate) fn of(number: u32) -> Self {
        Self {
            value: number,
            target: number,
            slot: 0,
            target_map: None,
        }
    }
}
