//! The nodes of a graph that the remaining steps of its plan need.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    expr::{NodeRef, Op},
    plan::{kernel::FusedNode, planned::PlannedGraph, step::Release},
};

/// The nodes of a graph by number: first the planned nodes, then the inputs. `None` once released.
pub(crate) struct HeldNodes {
    nodes: Vec<Option<HeldNode>>,
    inputs: SmallVec<[Option<NodeRef>; 4]>,
}

/// A planned node that a step needs, with its operation if a step computes it.
struct HeldNode {
    node: NodeRef,
    op: Option<Arc<Op>>,
}

/// The reason why a step finds its nodes.
const HELD: &str = "a node is held until the last step that needs it";

impl HeldNodes {
    pub(crate) fn of(graph: PlannedGraph) -> Self {
        let held = |FusedNode { node, op }| Some(HeldNode { node, op: Some(op) });
        Self {
            nodes: graph.nodes.into_iter().map(held).collect(),
            inputs: graph.inputs.into_iter().map(Some).collect(),
        }
    }

    pub(crate) fn release(&mut self, release: &Release) {
        for &number in &release.operations {
            if let Some(held) = &mut self.nodes[number as usize] {
                held.op = None;
            }
        }
        for &number in &release.nodes {
            match (number as usize).checked_sub(self.nodes.len()) {
                None => self.nodes[number as usize] = None,
                Some(of_input) => self.inputs[of_input] = None,
            }
        }
    }

    pub(crate) fn node(&self, number: u32) -> &NodeRef {
        let node = match (number as usize).checked_sub(self.nodes.len()) {
            None => self.nodes[number as usize].as_ref().map(|held| &held.node),
            Some(of_input) => self.inputs[of_input].as_ref(),
        };
        node.expect(HELD)
    }

    pub(crate) fn op(&self, number: u32) -> &Arc<Op> {
        let held = self.nodes[number as usize].as_ref();
        held.and_then(|held| held.op.as_ref()).expect(HELD)
    }

    pub(crate) fn fused(&self, number: u32) -> FusedNode {
        FusedNode {
            node: NodeRef::clone(self.node(number)),
            op: Arc::clone(self.op(number)),
        }
    }
}
