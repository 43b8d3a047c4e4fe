//! The planned nodes that an evaluation depends on, numbered in the order of their recording.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, State},
    plan::{kernel::FusedNode, numbers::Numbers},
};

/// The number of nodes for which memory is reserved.
const NODES_USUAL: usize = 28;

/// The planned nodes that targets depend on, and the nodes in memory that they read.
pub(crate) struct PlannedGraph {
    /// The planned nodes in the order in which they were recorded, which is independent of the
    /// targets and has operands first.
    pub(crate) nodes: Vec<FusedNode>,
    pub(crate) inputs: SmallVec<[NodeRef; 4]>,
    /// The numbers of the requested nodes.
    pub(crate) targets: SmallVec<[u32; 2]>,
    /// The number of each node by its identifier: first the planned nodes, then the inputs.
    numbers: Numbers,
}

impl PlannedGraph {
    pub(crate) fn of(targets: &[NodeRef]) -> Self {
        let mut nodes: Vec<FusedNode> = Vec::with_capacity(NODES_USUAL);
        let mut inputs: SmallVec<[NodeRef; 4]> = SmallVec::new();
        let last = targets.iter().map(|node| node.id).max();
        let mut numbers = Numbers::up_to(last.unwrap_or(0));
        let mut visit = |node: &NodeRef, nodes: &mut Vec<FusedNode>| {
            if numbers.insert(node.id, 0) {
                let node = NodeRef::clone(node);
                match node.state() {
                    State::Planned(op) => nodes.push(FusedNode { node, op }),
                    _ => inputs.push(node),
                }
            }
        };
        targets.iter().for_each(|node| visit(node, &mut nodes));
        let mut visited = 0;
        while let Some(fused) = nodes.get(visited) {
            let op = Arc::clone(&fused.op);
            op.operands(|operand| visit(operand, &mut nodes));
            visited += 1;
        }
        // The traversal finds the youngest first.
        nodes.reverse();
        nodes.sort_unstable_by_key(|fused| fused.node.id);
        number_all(&mut numbers, &nodes, &inputs);
        let number = |target: &NodeRef| numbers.get(target.id).expect("every target has a number");
        Self {
            targets: targets.iter().map(number).collect(),
            nodes,
            inputs,
            numbers,
        }
    }

    /// Returns a graph with the same inputs and copies of the planned nodes, which are not stored
    /// when those are.
    pub(crate) fn copied(&self) -> Self {
        let mut nodes: Vec<FusedNode> = Vec::with_capacity(self.nodes.len());
        for FusedNode { node, op } in &self.nodes {
            let copied = |operand: &NodeRef| match self.planned_number(operand) {
                Some(number) => NodeRef::clone(&nodes[number].node),
                None => NodeRef::clone(operand),
            };
            let op = Arc::new(op.with_operands(copied));
            let node = Arc::new(node.alike(State::Planned(Arc::clone(&op)), node.location));
            nodes.push(FusedNode { node, op });
        }
        let inputs = self.inputs.clone();
        let last = nodes.last().map_or(0, |fused| fused.node.id);
        let mut numbers = Numbers::up_to(last);
        number_all(&mut numbers, &nodes, &inputs);
        Self {
            nodes,
            inputs,
            targets: self.targets.clone(),
            numbers,
        }
    }

    pub(crate) fn number(&self, node: &NodeRef) -> u32 {
        let number = self.numbers.get(node.id);
        number.expect("the node is in the graph")
    }

    /// Returns the number of a node among the planned nodes; `None` for a node in memory.
    pub(crate) fn planned_number(&self, node: &NodeRef) -> Option<usize> {
        Some(self.number(node) as usize).filter(|&number| number < self.nodes.len())
    }

    pub(crate) fn node(&self, number: u32) -> &NodeRef {
        let number = number as usize;
        match number.checked_sub(self.nodes.len()) {
            None => &self.nodes[number].node,
            Some(of_input) => &self.inputs[of_input],
        }
    }
}

fn number_all(numbers: &mut Numbers, nodes: &[FusedNode], inputs: &[NodeRef]) {
    let all = nodes.iter().map(|fused| &fused.node).chain(inputs);
    for (number, node) in (0..).zip(all) {
        numbers.insert(node.id, number);
    }
}
