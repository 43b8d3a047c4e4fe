//! Construction of the fused kernels, from the decisions about stored nodes.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op},
    plan::{
        candidate::Candidate,
        epilogue::{fuse_epilogues, product_to_fuse},
        groups::group_siblings,
        joins::{joins_arrays, largest_first},
        partition::partition,
        planned::PlannedGraph,
        replace::in_place,
        step::{KernelKind, KernelPlan, OutputPlan, Step},
    },
    shape::{AxisMap, AxisSource},
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
    fuse_epilogues(&mut candidates, product_to_fuse);
    order.retain(|&at| candidates[at].is_stored);
    let mut builder = StepBuilder {
        last_walk: vec![0; candidates.len()],
        walk: 0,
        graph,
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
    graph: &'a PlannedGraph,
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
    nodes: Vec<u32>,
    inputs: SmallVec<[u32; 4]>,
}

impl StepBuilder<'_> {
    /// Returns the step that materialises a candidate.
    fn step(&mut self, at: usize) -> Step {
        let candidate = &self.candidates[at];
        let mut step = Step {
            nodes: smallvec![at as u32],
            alias_of: self.alias(candidate),
            ..Step::default()
        };
        if step.alias_of.is_some() {
            return step;
        }
        if candidate.group.is_some() {
            return self.group(at);
        }
        let kernels = &mut step.kernels;
        match &*candidate.op {
            Op::Concatenate { parts, axis } if !joins_arrays(self.candidates, candidate) => {
                let ends = parts.iter().scan(0, |end, part| {
                    *end += part.shape[*axis];
                    Some(*end)
                });
                let ends: SmallVec<[_; 4]> = ends.collect();
                for number in largest_first(parts) {
                    let part = &parts[number];
                    let axes = 0..candidate.node.shape.len();
                    let mut map: AxisMap = axes.map(AxisSource::same).collect();
                    map[*axis].start = ends[number] - part.shape[*axis];
                    kernels.push(self.map(part, at, Some(map)));
                }
            }
            Op::Update { base, map, value } => {
                if value.elements > 0 && self.selects(candidate) {
                    kernels.push(self.kernel_of(&[at]));
                } else {
                    kernels.push(self.map(base, at, None));
                    kernels.push(self.map(value, at, Some(map.clone())));
                }
                if self.is_input(candidate.operand(0)) {
                    let kernel = self.map(value, at, Some(map.clone()));
                    step.in_place = in_place(self.graph, base, Some(map), kernel);
                }
            }
            Op::Scatter { base, .. } => {
                kernels.push(self.map(base, at, None));
                kernels.push(self.scatter(at));
                if self.is_input(candidate.operand(0)) {
                    let kernel = self.scatter(at);
                    step.in_place = in_place(self.graph, base, None, kernel);
                }
            }
            _ => kernels.push(self.kernel_of(&[at])),
        }
        step
    }

    /// Returns the step of the group of which this candidate is the last member.
    fn group(&mut self, last: usize) -> Step {
        self.group = Some(last);
        let members: SmallVec<[usize; 8]> = (0..=last)
            .filter(|&at| self.candidates[at].group == Some(last))
            .collect();
        let kernel = self.kernel_of(&members);
        self.group = None;
        Step {
            nodes: members.iter().map(|&at| at as u32).collect(),
            kernels: vec![kernel],
            ..Step::default()
        }
    }

    /// Returns whether one kernel computes all elements of an update, each from the value or from
    /// the base. It computes both for each element, so the values must take few operations, or be
    /// needed for most elements.
    fn selects(&self, update: &Candidate) -> bool {
        let Op::Update { value, .. } = &*update.op else {
            return false;
        };
        let fused = update.operands[1].computed(self.candidates);
        fused.is_none_or(|at| self.candidates[at].size.is_hidden())
            || value.elements >= update.node.elements.div_ceil(2)
    }

    /// Returns the stored operand that has the candidate's elements in the same order.
    fn alias(&self, candidate: &Candidate) -> Option<u32> {
        let source = candidate.same_elements()?;
        let is_stored = self.is_input(candidate.operand(0));
        is_stored.then(|| self.graph.number(source))
    }

    /// Returns whether a kernel reads the node with this candidate index from memory.
    fn is_input(&self, index: Option<usize>) -> bool {
        index.is_none_or(|at| self.candidates[at].is_stored)
    }

    /// Returns the kernel that computes these candidates, of which there is one or a group. They
    /// may be the epilogue of a reduction or a product.
    fn kernel_of(&mut self, members: &[usize]) -> KernelPlan {
        let root_of = |at: usize| self.candidates[at].epilogue_of.unwrap_or(at);
        let roots: SmallVec<[usize; 4]> = members.iter().map(|&at| root_of(at)).collect();
        let (last, root) = (members[members.len() - 1], roots[roots.len() - 1]);
        let mut parts = self.start_walk();
        for &root in &roots {
            self.add_candidate(root, &mut parts);
        }
        let nodes = std::mem::take(&mut parts.nodes);
        if members != &roots[..] {
            // Nodes that a root and an epilogue both use are in both lists.
            self.walk += 1;
            for &root in &roots {
                self.last_walk[root] = self.walk;
            }
            for &at in members {
                self.add_candidate(at, &mut parts);
            }
        }
        let rows = self.candidates[last].rows.map(|rows| {
            let class = rows.class(&self.candidates[root].node);
            (
                rows.length,
                class.expect("the root of a row kernel is of its rows"),
            )
        });
        let is_product = matches!(&*self.candidates[root].op, Op::MatrixProduct(..));
        let epilogue = std::mem::replace(&mut parts.nodes, nodes);
        let separate_epilogue = (is_product && !epilogue.is_empty())
            .then(|| Box::new(self.separate_epilogue(&epilogue)));
        let outputs = members.iter().map(|&at| OutputPlan::of(at as u32));
        let mut kernel = self.plan(root as u32, parts, outputs.collect());
        if is_product && kernel.kind == KernelKind::Generated {
            kernel.kind = KernelKind::Product;
        }
        let tiled = self.candidates[last].tiled.iter();
        KernelPlan {
            separate_epilogue,
            epilogue,
            rows,
            tiled: tiled.map(|&at| at as u32).collect(),
            ..kernel
        }
    }

    /// Returns the kernel that computes an epilogue alone, and reads the results of the root from
    /// memory.
    fn separate_epilogue(&self, epilogue: &[u32]) -> KernelPlan {
        let mut parts = KernelParts::default();
        for &number in epilogue {
            self.graph.nodes[number as usize].op.operands(|operand| {
                let operand = self.graph.number(operand);
                if !epilogue.contains(&operand) {
                    parts.add_input(operand);
                }
            });
        }
        parts.nodes = epilogue.to_vec();
        let root = epilogue[epilogue.len() - 1];
        self.plan(root, parts, smallvec![OutputPlan::of(root)])
    }

    /// Returns a kernel that computes or copies a node into all or some elements of a candidate.
    fn map(&mut self, node: &NodeRef, target: usize, target_map: Option<AxisMap>) -> KernelPlan {
        let mut parts = self.start_walk();
        self.add_operand(node, &mut parts);
        let root = self.graph.number(node);
        let output = OutputPlan {
            value: root,
            target: target as u32,
            target_map,
        };
        self.plan(root, parts, smallvec![output])
    }

    /// Returns the kernel that scatters the values into the target, which an earlier kernel has
    /// filled with the base.
    fn scatter(&mut self, at: usize) -> KernelPlan {
        let Op::Scatter { index, value, .. } = &*self.candidates[at].op else {
            unreachable!("the candidate is a scatter");
        };
        let mut parts = self.start_walk();
        for node in [index, value] {
            self.add_operand(node, &mut parts);
        }
        parts.nodes.push(at as u32);
        let mut kernel = self.plan(at as u32, parts, smallvec![OutputPlan::of(at as u32)]);
        kernel.kind = match index.elements {
            0 => KernelKind::Empty,
            _ => KernelKind::Generated,
        };
        kernel
    }

    /// Returns the kernel of these nodes, inputs and outputs.
    fn plan(
        &self,
        root: u32,
        KernelParts { nodes, inputs }: KernelParts,
        outputs: SmallVec<[OutputPlan; 1]>,
    ) -> KernelPlan {
        let mut values = outputs.iter().map(|output| self.graph.node(output.value));
        let kind = match values.all(|value| value.elements == 0) {
            true => KernelKind::Empty,
            false => KernelKind::Generated,
        };
        KernelPlan {
            root,
            nodes,
            inputs,
            outputs,
            kind,
            ..KernelPlan::default()
        }
    }

    /// Returns whether the kernel that is being built computes a candidate, if it uses it.
    fn is_computed(&self, at: usize) -> bool {
        let candidate = &self.candidates[at];
        !candidate.is_stored || (self.group.is_some() && candidate.group == self.group)
    }

    /// Starts a kernel, for which no candidate is visited yet.
    fn start_walk(&mut self) -> KernelParts {
        self.walk += 1;
        KernelParts::default()
    }

    /// Adds an operand, as an input or with everything that it is computed from.
    fn add_operand(&mut self, node: &NodeRef, parts: &mut KernelParts) {
        match self.graph.planned_number(node) {
            Some(at) if self.is_computed(at) => self.add_candidate(at, parts),
            _ => parts.add_input(self.graph.number(node)),
        }
    }

    /// Adds a candidate after everything that it is computed from.
    fn add_candidate(&mut self, at: usize, parts: &mut KernelParts) {
        parts.nodes.reserve(self.candidates.len().min(NODES_USUAL));
        self.stack.push((at, false));
        while let Some((at, operands_added)) = self.stack.pop() {
            let candidate = &self.candidates[at];
            if operands_added {
                parts.nodes.push(at as u32);
                continue;
            }
            if std::mem::replace(&mut self.last_walk[at], self.walk) == self.walk {
                continue;
            }
            self.stack.push((at, true));
            for operand in &candidate.operands {
                match operand.candidate {
                    Some(at) if self.is_computed(at) => self.stack.push((at, false)),
                    _ => parts.add_input(self.graph.number(&operand.node)),
                }
            }
        }
    }
}

impl KernelParts {
    /// Adds a stored node to the inputs, once.
    fn add_input(&mut self, number: u32) {
        if !self.inputs.contains(&number) {
            self.inputs.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::{Array1, Axis, Ix1, array, s};

    use super::*;
    use crate::{
        Array,
        plan::{FusedKernel, HeldNodes, only_kernel},
    };

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
        let graph = PlannedGraph::of(std::slice::from_ref(node));
        let (steps, nodes) = (steps(&graph, u64::MAX), HeldNodes::of(graph));
        let kernels = |step: &Step| step.kernels.iter().map(|plan| plan.fused(&nodes)).collect();
        steps.iter().map(kernels).collect()
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
            let graph = PlannedGraph::of(&[NodeRef::clone(changed.node())]);
            let step = steps(&graph, u64::MAX).pop().unwrap();
            let replacement = step.in_place?;
            Some(replacement.kernel.fused(&HeldNodes::of(graph)))
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
