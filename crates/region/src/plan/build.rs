//! Construction of the fused kernels, from the decisions about stored nodes.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op},
    plan::{
        candidate::Candidate,
        epilogue::fuse_product_epilogues,
        groups::group_siblings,
        joins::{joins_arrays, largest_first},
        kernel::{FusedKernel, FusedNode, KernelOutput, Step, Work},
        partition::partition,
        planned::PlannedGraph,
        replace::Replacement,
    },
    shape::{AxisMap, AxisSource, preserves_linear_index},
};

/// Returns the steps that materialise the targets of a graph, operands first, as far as the
/// identifiers of their nodes are less than `end`.
pub(crate) fn steps(graph: &PlannedGraph, end: u64) -> Vec<Step> {
    planned(graph, end).0
}

/// Returns these steps, and the decisions about all nodes.
pub(crate) fn planned(graph: &PlannedGraph, end: u64) -> (Vec<Step>, Vec<Candidate>) {
    let mut candidates = partition(graph);
    let mut order = group_siblings(&mut candidates, end);
    fuse_product_epilogues(&mut candidates);
    order.retain(|&at| candidates[at].is_stored);
    let mut builder = StepBuilder {
        last_walk: vec![0; candidates.len()],
        walk: 0,
        candidates: &candidates,
        group: None,
        stack: Vec::new(),
    };
    let steps = order.into_iter().map(|at| builder.step(at)).collect();
    (steps, candidates)
}

/// The number of nodes of a kernel for which memory is reserved.
const NODES_USUAL: usize = 16;

/// A builder of steps, which walks over the candidates once for each kernel.
struct StepBuilder<'a> {
    candidates: &'a [Candidate],
    /// The number of the last walk that visited each candidate.
    last_walk: Vec<u32>,
    /// The number of the current walk.
    walk: u32,
    /// The group whose kernel is being built.
    group: Option<usize>,
    /// The candidates to visit, each with whether its operands were visited; empty between walks.
    stack: Vec<(usize, bool)>,
}

/// A kernel under construction.
#[derive(Default)]
struct KernelParts {
    nodes: Vec<FusedNode>,
    inputs: SmallVec<[NodeRef; 4]>,
}

impl StepBuilder<'_> {
    /// Returns the step that materialises a candidate.
    fn step(&mut self, at: usize) -> Step {
        let candidate = &self.candidates[at];
        let node = NodeRef::clone(&candidate.node);
        if let Some(source) = self.alias(candidate) {
            let work = Work::Alias(NodeRef::clone(source));
            return Step::of(node, work);
        }
        if candidate.group.is_some() {
            return self.group(at);
        }
        let mut kernels = Vec::new();
        match &*candidate.op {
            Op::Concatenate { parts, axis } if !joins_arrays(self.candidates, candidate) => {
                let ends = parts.iter().scan(0, |end, part| {
                    *end += part.shape[*axis];
                    Some(*end)
                });
                let ends: SmallVec<[_; 4]> = ends.collect();
                for number in largest_first(parts) {
                    let part = &parts[number];
                    let mut map: AxisMap = (0..node.shape.len()).map(AxisSource::same).collect();
                    map[*axis].start = ends[number] - part.shape[*axis];
                    kernels.push(self.map(part, candidate.operand(number), &node, Some(map)));
                }
            }
            Op::Update { base, map, value } => {
                let part = |builder: &mut Self| {
                    builder.map(value, candidate.operand(1), &node, Some(map.clone()))
                };
                if value.elements > 0 && self.selects(candidate) {
                    kernels.push(self.kernel(at));
                } else {
                    kernels.push(self.map(base, candidate.operand(0), &node, None));
                    kernels.push(part(self));
                }
                let in_place = self.is_input(candidate.operand(0)).then(|| part(self));
                return Step::replacing(node, &candidate.op, in_place, kernels);
            }
            Op::Scatter { base, .. } => {
                kernels.push(self.map(base, candidate.operand(0), &node, None));
                kernels.push(self.scatter(candidate));
                let is_stored = self.is_input(candidate.operand(0));
                let in_place = is_stored.then(|| self.scatter(candidate));
                return Step::replacing(node, &candidate.op, in_place, kernels);
            }
            _ => kernels.push(self.kernel(at)),
        }
        Step::of(node, Work::Kernels(kernels))
    }

    /// Returns the step of the group of which this candidate is the last member.
    fn group(&mut self, last: usize) -> Step {
        self.group = Some(last);
        let members: SmallVec<[usize; 8]> = (0..=last)
            .filter(|&at| self.candidates[at].group == Some(last))
            .collect();
        let kernel = self.kernel_of(&members);
        self.group = None;
        let nodes = members
            .iter()
            .map(|&at| NodeRef::clone(&self.candidates[at].node));
        Step {
            nodes: nodes.collect(),
            work: Work::Kernels(vec![kernel]),
        }
    }

    /// Returns whether one kernel computes all elements of an update, each from the value or from
    /// the base. It computes both for each element, so the values must take few operations, or be
    /// needed for most elements.
    fn selects(&self, update: &Candidate) -> bool {
        let Op::Update { value, .. } = &*update.op else {
            return false;
        };
        let fused = update
            .operand(1)
            .filter(|&at| !self.candidates[at].is_stored);
        fused.is_none_or(|at| self.candidates[at].size.is_hidden())
            || value.elements >= update.node.elements.div_ceil(2)
    }

    /// Returns the stored operand that has the candidate's elements in the same order.
    fn alias<'c>(&self, candidate: &'c Candidate) -> Option<&'c NodeRef> {
        let source = match &*candidate.op {
            Op::Reshape(source) => source,
            Op::View(source, map)
                if preserves_linear_index(&candidate.node.shape, map, &source.shape) =>
            {
                source
            }
            _ => return None,
        };
        self.is_input(candidate.operand(0)).then_some(source)
    }

    /// Returns whether a kernel reads the node with this candidate index from memory.
    fn is_input(&self, index: Option<usize>) -> bool {
        index.is_none_or(|at| self.candidates[at].is_stored)
    }

    /// Returns the kernel that computes a candidate, as the epilogue of a reduction or a product if
    /// it is one.
    fn kernel(&mut self, at: usize) -> FusedKernel {
        self.kernel_of(&[at])
    }

    /// Returns the kernel that computes these candidates, of which there is one or a group.
    fn kernel_of(&mut self, members: &[usize]) -> FusedKernel {
        let root_of = |at: usize| self.candidates[at].epilogue_of.unwrap_or(at);
        let roots: SmallVec<[usize; 4]> = members.iter().map(|&at| root_of(at)).collect();
        let (last, root) = (members[members.len() - 1], roots[roots.len() - 1]);
        let mut parts = KernelParts::default();
        self.start_walk();
        for &root in &roots {
            self.add_candidate(root, &mut parts);
        }
        let nodes = std::mem::take(&mut parts.nodes);
        if members != &roots[..] {
            // Nodes that a root and an epilogue both use are in both lists.
            self.start_walk();
            for &root in &roots {
                self.last_walk[root] = self.walk;
            }
            for &at in members {
                self.add_candidate(at, &mut parts);
            }
        }
        let output_of = |&at: &usize| KernelOutput::of(&self.candidates[at].node);
        let outputs = members.iter().map(output_of);
        let tiled = self.candidates[last].tiled.iter();
        let tiled = tiled.map(|&at| NodeRef::clone(&self.candidates[at].node));
        FusedKernel {
            root: NodeRef::clone(&self.candidates[root].node),
            nodes,
            inputs: parts.inputs,
            outputs: outputs.collect(),
            epilogue: parts.nodes,
            overwrites: None,
            rows: self.candidates[last].rows,
            tiled: tiled.collect(),
            code: None,
        }
    }

    /// Returns a kernel that computes or copies a node into all or some elements of a target.
    fn map(
        &mut self,
        node: &NodeRef,
        index: Option<usize>,
        target: &NodeRef,
        target_map: Option<AxisMap>,
    ) -> FusedKernel {
        let mut parts = KernelParts::default();
        self.start_walk();
        self.add_operand(node, index, &mut parts);
        FusedKernel {
            root: NodeRef::clone(node),
            nodes: parts.nodes,
            inputs: parts.inputs,
            outputs: smallvec![KernelOutput {
                value: NodeRef::clone(node),
                target: NodeRef::clone(target),
                target_map,
            }],
            epilogue: Vec::new(),
            overwrites: None,
            rows: None,
            tiled: SmallVec::new(),
            code: None,
        }
    }

    /// Returns the kernel that scatters the values into the target, which an earlier kernel has
    /// filled with the base.
    fn scatter(&mut self, candidate: &Candidate) -> FusedKernel {
        let Op::Scatter { index, value, .. } = &*candidate.op else {
            unreachable!("the candidate is a scatter");
        };
        let mut parts = KernelParts::default();
        self.start_walk();
        self.add_operand(index, candidate.operand(1), &mut parts);
        self.add_operand(value, candidate.operand(2), &mut parts);
        parts.nodes.push(FusedNode::of(candidate));
        let node = &candidate.node;
        FusedKernel {
            root: NodeRef::clone(node),
            nodes: parts.nodes,
            inputs: parts.inputs,
            outputs: smallvec![KernelOutput::of(node)],
            epilogue: Vec::new(),
            overwrites: None,
            rows: None,
            tiled: SmallVec::new(),
            code: None,
        }
    }

    /// Returns whether the kernel that is being built computes a candidate, if it uses it.
    fn is_computed(&self, at: usize) -> bool {
        let candidate = &self.candidates[at];
        !candidate.is_stored || (self.group.is_some() && candidate.group == self.group)
    }

    /// Starts a walk in which no candidate is visited yet.
    fn start_walk(&mut self) {
        self.walk += 1;
    }

    /// Adds an operand, as an input or with everything that it is computed from.
    fn add_operand(&mut self, node: &NodeRef, index: Option<usize>, parts: &mut KernelParts) {
        match index {
            Some(at) if self.is_computed(at) => self.add_candidate(at, parts),
            _ => parts.add_input(node),
        }
    }

    /// Adds a candidate after everything that it is computed from.
    fn add_candidate(&mut self, at: usize, parts: &mut KernelParts) {
        parts.nodes.reserve(self.candidates.len().min(NODES_USUAL));
        self.stack.push((at, false));
        while let Some((at, operands_added)) = self.stack.pop() {
            let candidate = &self.candidates[at];
            if operands_added {
                parts.nodes.push(FusedNode::of(candidate));
                continue;
            }
            if std::mem::replace(&mut self.last_walk[at], self.walk) == self.walk {
                continue;
            }
            self.stack.push((at, true));
            let mut indices = candidate.operands.iter();
            candidate.op.operands(|operand| {
                match indices.next().and_then(|known| known.candidate) {
                    Some(at) if self.is_computed(at) => self.stack.push((at, false)),
                    _ => parts.add_input(operand),
                }
            });
        }
    }
}

impl Step {
    /// Returns the step that replaces elements of a node, in place if there is a kernel for that.
    fn replacing(
        node: NodeRef,
        op: &Arc<Op>,
        in_place: Option<FusedKernel>,
        copying: Vec<FusedKernel>,
    ) -> Self {
        let work = match Replacement::new(op, in_place, copying) {
            Ok(replacement) => Work::Replace(Box::new(replacement)),
            Err(copying) => Work::Kernels(copying),
        };
        Self::of(node, work)
    }

    /// Returns the step of one node.
    fn of(node: NodeRef, work: Work) -> Self {
        Self {
            nodes: smallvec![node],
            work,
        }
    }
}

impl KernelParts {
    /// Adds a stored node to the inputs, once.
    fn add_input(&mut self, node: &NodeRef) {
        if !self.inputs.iter().any(|known| known.id == node.id) {
            self.inputs.push(NodeRef::clone(node));
        }
    }
}

impl FusedNode {
    fn of(candidate: &Candidate) -> Self {
        Self {
            node: NodeRef::clone(&candidate.node),
            op: Arc::clone(&candidate.op),
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis, Ix1, array, s};

    use super::*;
    use crate::{Array, plan::only_kernel, run::plans::steps};

    fn arrays() -> (Array<f32, Ix1>, Array<f32, Ix1>) {
        let device = Device::simulated().unwrap();
        let from = |elements: &Array1<f32>| Array::from_host(&device, elements).unwrap();
        let x = from(&array![1.0, 2.0, 3.0]);
        let y = from(&array![4.0, 5.0, 6.0]).in_session(x.session());
        (x, y)
    }

    fn ids<'a>(nodes: impl IntoIterator<Item = &'a NodeRef>) -> Vec<u64> {
        nodes.into_iter().map(|node| node.id).collect()
    }

    /// Returns the kernels of each step of a node; a step that is an alias has none.
    fn kernels(node: &NodeRef) -> Vec<Vec<FusedKernel>> {
        let kernels = |step: Step| match step.work {
            Work::Alias(_) => Vec::new(),
            Work::Kernels(kernels) => kernels,
            Work::Replace(replacement) => replacement.copying,
        };
        steps(std::slice::from_ref(node), u64::MAX)
            .map(kernels)
            .collect()
    }

    #[test]
    fn a_chain_is_one_kernel_with_its_operands_first_and_each_input_once() {
        let (x, y) = arrays();
        let product = &x * &y;
        let sum = &product + &x;
        let kernel = only_kernel(sum.node());
        assert_eq!(kernel.root.id, sum.node().id);
        assert_eq!(
            ids(kernel.nodes.iter().map(|fused| &fused.node)),
            ids([product.node(), sum.node()])
        );
        assert_eq!(kernel.inputs.len(), 2);
        assert!(kernel.op(product.node()).is_some() && kernel.op(x.node()).is_none());
        assert!(kernel.epilogue.is_empty());
        assert_eq!(kernel.output().value.id, sum.node().id);
    }

    #[test]
    fn functions_of_a_reduction_are_its_epilogue() {
        let (x, y) = arrays();
        let squares = &x * &x;
        let sum = squares.sum();
        let root = sum.sqrt();
        let (sum_id, root_id) = (sum.node().id, root.node().id);
        let kernel = only_kernel(root.node());
        assert_eq!(kernel.root.id, sum_id);
        assert_eq!(
            ids(kernel.nodes.iter().map(|fused| &fused.node)),
            [squares.node().id, sum_id]
        );
        assert_eq!(
            ids(kernel.epilogue.iter().map(|fused| &fused.node)),
            [root_id]
        );
        assert_eq!(ids(&kernel.inputs), ids([x.node()]));
        assert_eq!(
            (kernel.output().value.id, kernel.output().target.id),
            (root_id, root_id)
        );
        // The inputs of the epilogue are inputs of the kernel.
        let lines = x.insert_axis(Axis(1)).sum_axis(Axis(1)) + &y;
        let kernel = only_kernel(lines.node());
        assert_eq!(ids(&kernel.inputs), ids([x.node(), y.node()]));
    }

    #[test]
    fn an_update_is_one_kernel_that_selects_or_two_that_write_one_node() {
        let (x, y) = arrays();
        let mut changed = &x * 2.0;
        changed.slice_mut(s![1..]).assign(&y.slice(s![..2]));
        let steps = kernels(changed.node());
        let [kernels_of_update] = &steps[..] else {
            panic!("one step: {}", steps.len());
        };
        let [kernel] = &kernels_of_update[..] else {
            panic!("one kernel: {}", kernels_of_update.len());
        };
        assert!(kernel.root.id == changed.node().id && kernel.output().destination().is_none());

        // The value takes a costly function, and is needed for one element of three.
        changed.slice_mut(s![1..2]).assign(&y.slice(s![..1]).exp());
        let steps = kernels(changed.node());
        let kernels_of_update = steps.last().unwrap();
        let targets = kernels_of_update
            .iter()
            .map(|kernel| &kernel.output().target);
        assert_eq!(ids(targets), ids([changed.node(), changed.node()]));
        assert!(
            kernels_of_update[0].output().destination().is_none()
                && kernels_of_update[1].output().destination().is_some()
        );
    }

    #[test]
    fn an_update_in_place_reads_its_base_in_the_output_or_not_at_all() {
        let (x, y) = arrays();
        let replacement = |update: &dyn Fn(&mut Array<f32, Ix1>)| {
            let mut changed = x.clone();
            update(&mut changed);
            let step = steps(&[NodeRef::clone(changed.node())], u64::MAX).last();
            match step.unwrap().work {
                Work::Replace(replacement) => Some(replacement.in_place),
                _ => None,
            }
        };
        let same = replacement(&|z| {
            let mut part = z.slice_mut(s![1..]);
            part += &y.slice(s![1..]);
        });
        let same = same.unwrap();
        assert_eq!(same.overwrites, Some(x.node().id));
        assert_eq!(ids(&same.inputs), ids([y.node()]));
        let shifted = replacement(&|z| z.slice_mut(s![1..]).assign(&x.slice(s![..2])));
        assert!(shifted.is_none());
        let part = replacement(&|z| z.slice_mut(s![1..]).assign(&(&x.slice(s![1..]) + x.sum())));
        assert!(part.is_some());
        let reversed = replacement(&|z| {
            let seen = x.slice(s![1..]) * 2.0;
            z.slice_mut(s![1..])
                .assign(&(&seen + &seen.slice(s![..;-1])));
        });
        assert!(reversed.is_none());
    }

    #[test]
    fn a_reshape_of_a_stored_node_takes_no_kernel() {
        let (x, y) = arrays();
        let shaped = x.into_shape_with_order((3, 1));
        assert!(matches!(&kernels(shaped.node())[..], [none] if none.is_empty()));
        let shaped = (&x + &y).into_shape_with_order((3, 1));
        assert!(matches!(&kernels(shaped.node())[..], [one] if one.len() == 1));
    }
}
