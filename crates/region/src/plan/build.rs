//! Construction of the fused kernels, from the decisions about stored nodes.

use smallvec::{SmallVec, smallvec};

use crate::{
    expr::{NodeRef, Op, ScatterMode},
    plan::{
        candidate::Candidate,
        epilogue::{fuse_epilogues, product_to_fuse},
        groups::group_siblings,
        joins::{fits_in_sections, joins_arrays, largest_first, maps_of_parts},
        limits::OVERLAPS_MAX,
        partition::partition,
        planned::PlannedGraph,
        replace::in_place,
        row_outputs::aliased,
        step::{KernelKind, KernelPlan, OutputPlan, Step},
        updates::{series_of, slice},
    },
    shape::AxisMap,
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

impl StepBuilder<'_> {
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
            // This candidate is the last member.
            self.group = candidate.group;
            let is_member = |&at: &usize| self.candidates[at].group == self.group;
            let members: SmallVec<[usize; 8]> = (0..=at).filter(is_member).collect();
            step.kernels.push(self.kernel_of(&members));
            step.nodes = members.iter().map(|&at| at as u32).collect();
            self.group = None;
            return step;
        }
        let kernels = &mut step.kernels;
        match &*candidate.op {
            Op::Concatenate { parts, .. }
                if !candidate.is_split && !joins_arrays(self.candidates, candidate) =>
            {
                let maps = maps_of_parts(candidate);
                let part = |number: usize| (&parts[number], Some(maps[number].clone()));
                let order = largest_first(parts);
                match fits_in_sections(self.candidates, candidate) {
                    true => kernels.push(self.sections(order.into_iter().map(part), at)),
                    false => kernels.extend(order.into_iter().map(|number| {
                        let (part, map) = part(number);
                        self.map(part, at, map)
                    })),
                }
            }
            Op::Update { .. } => {
                let series = series_of(self.candidates, at);
                let first = &self.candidates[series[0]].operands[0];
                let slices = || {
                    let updates = series.iter().map(|&at| &self.candidates[at]);
                    let slices =
                        updates.map(|it| (&it.operands[1].node, Some(slice(it).0.clone())));
                    slices.filter(|(value, _)| value.elements > 0)
                };
                let count = slices().count();
                if count == 1 && series.len() == 1 && self.selects(candidate) {
                    kernels.push(self.kernel_of(&[at]));
                } else if count > OVERLAPS_MAX || count == 0 {
                    kernels.push(self.map(&first.node, at, None));
                    kernels.extend((count > 0).then(|| self.sections(slices(), at)));
                } else {
                    let base = std::iter::once((&first.node, None));
                    kernels.push(self.sections(base.chain(slices()), at));
                }
                if self.is_input(first.candidate) {
                    let kernel = self.sections(slices(), at);
                    let replaced = series.iter().map(|&at| at as u32).collect();
                    step.in_place = in_place(self.graph, &first.node, replaced, kernel);
                }
            }
            Op::Scatter {
                mode: ScatterMode::Permute,
                ..
            } => kernels.push(self.scatter(at)),
            Op::Scatter { base, .. } => {
                kernels.push(self.map(base, at, None));
                kernels.push(self.scatter(at));
                if self.is_input(candidate.operand(0)) {
                    let kernel = self.scatter(at);
                    step.in_place = in_place(self.graph, base, smallvec![at as u32], kernel);
                }
            }
            _ => kernels.push(self.kernel_of(&[at])),
        }
        step
    }

    /// Returns whether one kernel computes all elements of an update, each from the value or from
    /// the base. It computes both for each element, so the values must take few operations, or be
    /// needed for most elements.
    fn selects(&self, update: &Candidate) -> bool {
        let value = &update.operands[1];
        let fused = value.computed(self.candidates);
        fused.is_none_or(|at| self.candidates[at].size.is_hidden())
            || value.node.elements >= update.node.elements.div_ceil(2)
    }

    /// Returns the stored operand that has the candidate's elements in the same order.
    fn alias(&self, candidate: &Candidate) -> Option<u32> {
        let source = candidate.same_elements()?;
        (self.is_input(candidate.operand(0))).then(|| self.graph.number(source))
    }

    /// Returns whether a kernel reads the node with this candidate index from memory.
    fn is_input(&self, index: Option<usize>) -> bool {
        index.is_none_or(|at| self.candidates[at].is_stored)
    }

    /// Returns the kernel that computes these candidates: one, or a group. They may be the epilogue
    /// of a reduction or a product.
    fn kernel_of(&mut self, members: &[usize]) -> KernelPlan {
        let root_of = |at: usize| self.candidates[at].epilogue_of.unwrap_or(at);
        let roots: SmallVec<[usize; 4]> = members.iter().map(|&at| root_of(at)).collect();
        let (last, root) = (members[members.len() - 1], roots[roots.len() - 1]);
        let mut plan = self.start_walk();
        for &root in &roots {
            self.add_candidate(root, &mut plan);
        }
        if members != &roots[..] {
            let nodes = std::mem::take(&mut plan.nodes);
            // Nodes that a root and an epilogue both use are in both lists.
            self.walk += 1;
            for &root in &roots {
                self.last_walk[root] = self.walk;
            }
            for &at in members {
                self.add_candidate(at, &mut plan);
            }
            plan.epilogue = std::mem::replace(&mut plan.nodes, nodes);
        }
        for (slot, &at) in members.iter().enumerate() {
            self.add_outputs(at, slot, &mut plan);
        }
        plan.root = match &plan.outputs.last() {
            // The kernel computes the parts of a join, and not the join.
            Some(last) if root as u32 == last.target => last.value,
            _ => root as u32,
        };
        plan.rows = self.candidates[last].rows.map(|rows| {
            let class = rows.class(self.graph.node(plan.root));
            let class = class.expect("the root of a row kernel is of its rows");
            (rows.length, class)
        });
        let tiled = self.candidates[last].tiled.iter();
        plan.tiled = tiled.map(|&at| at as u32).collect();
        plan.kind = self.kind(&plan.outputs);
        let op = &*self.candidates[root].op;
        if matches!(op, Op::Sort(..) | Op::Search { .. }) && plan.kind == KernelKind::Generated {
            plan.kind = KernelKind::Order;
        }
        if matches!(op, Op::MatrixProduct(..)) {
            if plan.kind == KernelKind::Generated {
                plan.kind = KernelKind::Product;
            }
            if !plan.epilogue.is_empty() {
                plan.separate_epilogue = Some(Box::new(self.separate_epilogue(&plan.epilogue)));
            }
        }
        plan
    }

    /// Adds the outputs of a kernel that stores a candidate: the parts of a split join, each in its
    /// place, or the candidate.
    fn add_outputs(&self, at: usize, slot: usize, plan: &mut KernelPlan) {
        let (target, candidate) = (at as u32, &self.candidates[at]);
        if !candidate.is_split {
            let output = OutputPlan::of(target);
            return plan.outputs.push(OutputPlan { slot, ..output });
        }
        for (part, map) in candidate.operands.iter().zip(maps_of_parts(candidate)) {
            if part.node.elements > 0 {
                plan.outputs.push(OutputPlan {
                    value: self.graph.number(&part.node),
                    target,
                    slot,
                    target_map: Some(map),
                });
            }
        }
    }

    /// Returns the kernel that computes an epilogue alone, and reads the results of the root from
    /// memory.
    fn separate_epilogue(&self, epilogue: &[u32]) -> KernelPlan {
        let root = epilogue[epilogue.len() - 1];
        let mut plan = KernelPlan {
            root,
            nodes: epilogue.to_vec(),
            outputs: smallvec![OutputPlan::of(root)],
            ..KernelPlan::default()
        };
        for &number in epilogue {
            self.graph.nodes[number as usize].op.operands(|operand| {
                let operand = self.graph.number(operand);
                if !epilogue.contains(&operand) {
                    plan.add_input(operand);
                }
            });
        }
        plan
    }

    /// Returns a kernel that computes or copies a node into all or some elements of a candidate.
    fn map(&mut self, node: &NodeRef, target: usize, target_map: Option<AxisMap>) -> KernelPlan {
        let mut plan = self.start_walk();
        self.add_operand(node, &mut plan);
        plan.root = self.graph.number(node);
        plan.outputs = smallvec![OutputPlan {
            value: plan.root,
            target: target as u32,
            slot: 0,
            target_map,
        }];
        plan.kind = self.kind(&plan.outputs);
        plan
    }

    /// Returns the kernel that computes or copies nodes into parts of a candidate, each by blocks
    /// of its own.
    fn sections<'b>(
        &mut self,
        parts: impl Iterator<Item = (&'b NodeRef, Option<AxisMap>)>,
        target: usize,
    ) -> KernelPlan {
        let mut plan = self.start_walk();
        for (node, target_map) in parts {
            self.add_operand(node, &mut plan);
            plan.root = self.graph.number(node);
            plan.outputs.push(OutputPlan {
                value: plan.root,
                target: target as u32,
                slot: 0,
                target_map,
            });
        }
        plan.is_sectioned = true;
        plan.kind = self.kind(&plan.outputs);
        plan
    }

    /// Returns the kernel that scatters the values into the target, which an earlier kernel has
    /// filled with the base.
    fn scatter(&mut self, at: usize) -> KernelPlan {
        let Op::Scatter { index, value, .. } = &*self.candidates[at].op else {
            unreachable!("the candidate is a scatter");
        };
        let mut plan = self.start_walk();
        for node in [index, value] {
            self.add_operand(node, &mut plan);
        }
        plan.nodes.push(at as u32);
        plan.root = at as u32;
        plan.outputs.push(OutputPlan::of(at as u32));
        if index.elements == 0 {
            plan.kind = KernelKind::Empty;
        }
        plan
    }

    fn kind(&self, outputs: &[OutputPlan]) -> KernelKind {
        let mut values = outputs.iter().map(|output| self.graph.node(output.value));
        match values.all(|value| value.elements == 0) {
            true => KernelKind::Empty,
            false => KernelKind::Generated,
        }
    }

    /// Returns whether the kernel that is being built computes a candidate, if it uses it.
    fn is_computed(&self, at: usize) -> bool {
        let is_member = |at: usize| self.group.is_some() && self.candidates[at].group == self.group;
        let is_alias_of_member = || aliased(self.candidates, at).is_some_and(is_member);
        !self.candidates[at].is_stored || is_member(at) || is_alias_of_member()
    }

    /// Starts a kernel, for which no candidate is visited yet.
    fn start_walk(&mut self) -> KernelPlan {
        self.walk += 1;
        KernelPlan::default()
    }

    /// Adds an operand, as an input or with everything that it is computed from.
    fn add_operand(&mut self, node: &NodeRef, plan: &mut KernelPlan) {
        match self.graph.planned_number(node) {
            Some(at) if self.is_computed(at) => self.add_candidate(at, plan),
            _ => plan.add_input(self.graph.number(node)),
        }
    }

    /// Adds a candidate after everything that it is computed from.
    fn add_candidate(&mut self, at: usize, plan: &mut KernelPlan) {
        plan.nodes.reserve(self.candidates.len().min(NODES_USUAL));
        self.stack.push((at, false));
        while let Some((at, operands_added)) = self.stack.pop() {
            let candidate = &self.candidates[at];
            if operands_added {
                if !candidate.is_split {
                    plan.nodes.push(at as u32);
                }
                continue;
            }
            if std::mem::replace(&mut self.last_walk[at], self.walk) == self.walk {
                continue;
            }
            self.stack.push((at, true));
            for operand in &candidate.operands {
                match operand.candidate {
                    Some(at) if self.is_computed(at) => self.stack.push((at, false)),
                    _ => plan.add_input(self.graph.number(&operand.node)),
                }
            }
        }
    }
}

impl KernelPlan {
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
    use ndarray::{Array1, Ix1, array, s};

    use super::*;
    use crate::{
        Array,
        plan::{FusedKernel, HeldNodes},
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
