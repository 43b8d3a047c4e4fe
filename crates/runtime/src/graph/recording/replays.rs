//! Replays that are recorded: the nodes of a graph become nodes of the recording.
//!
//! They are added as they are, and not as a child graph of the driver, because a child cannot
//! contain conditional nodes, and because its addresses could not be changed one by one. Together
//! they are one operation of the recorded stream, as a replay is. They stay in the memory of their
//! own graph, so that replays of the two graphs exclude each other.

use std::{collections::BTreeMap, panic::Location, sync::Arc};

use super::{Recording, Role};
use crate::{
    Result, UsageError, UsageErrorKind,
    context::StreamState,
    graph::{
        Graph,
        node::{Node, NodeAccess},
        operand::OperandMemory,
        options::Order,
    },
    tracker::AccessUnion,
};

impl Recording {
    /// Adds `times` replays of a graph as operations of the stream.
    pub(in crate::graph) fn add_replays(
        &self,
        stream: &StreamState,
        graph: &Graph,
        (name, location): (&'static str, &'static Location<'static>),
        times: usize,
    ) -> Result<()> {
        let stream = match self.options.order {
            Order::Stream => Some(stream.id),
            Order::Data => None,
        };
        let mut state = self.state.lock();
        if let Some(why) = state.refusal() {
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(name, problem).at(location).into());
        }
        let numbers: Vec<usize> = graph
            .operands
            .iter()
            .map(|operand| match &operand.memory {
                OperandMemory::Outside(allocation) | OperandMemory::Recorded { allocation, .. } => {
                    state.operand(Arc::clone(allocation), Role::Outside)
                }
                OperandMemory::Block(block) => {
                    let role = Role::OtherGraph(Arc::clone(block));
                    state.operand(Arc::clone(&block.allocation), role)
                }
            })
            .collect();
        for _ in 0..times {
            let mut nodes = graph.nodes.clone();
            let mut loops = self.loops.lock();
            let first_loop = u32::try_from(loops.len()).unwrap_or(u32::MAX);
            if let Some(conditions) = &graph.conditions {
                loops.extend_from_slice(conditions.notes.loops());
            }
            drop(loops);
            for node in &mut nodes {
                node.renumber(&numbers);
                node.renumber_loops(first_loop);
            }
            let accesses = accesses_of(&nodes);
            state.add(stream, &accesses, nodes)?;
        }
        Ok(())
    }
}

fn accesses_of(nodes: &[Node]) -> Vec<NodeAccess> {
    let mut unions: BTreeMap<usize, AccessUnion> = BTreeMap::new();
    for access in nodes.iter().flat_map(|node| &node.accesses) {
        let union = unions.entry(access.operand).or_default();
        union.add(&access.extent, access.kind, access.ordered);
    }
    NodeAccess::from_unions(unions).collect()
}
