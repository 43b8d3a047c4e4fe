//! Changes of graphs: graphs, nodes and dependencies are added and removed here.

use std::collections::BTreeSet;

use millstream_driver::{ContextHandle, GraphHandle, GraphNodeHandle};
use millstream_ptx::Site;

use super::{
    graph::{Graph, GraphOwner, Node, NodeOperation},
    state::SimState,
};

impl SimState {
    pub(crate) fn add_graph(&mut self, context: ContextHandle, owner: GraphOwner) -> GraphHandle {
        let handle = self.handles.next();
        self.graphs.insert(handle, Graph::new(context, owner));
        handle
    }

    /// Returns a graph that was looked up before.
    pub(crate) fn graph_mut(&mut self, graph: GraphHandle) -> &mut Graph {
        self.graphs
            .get_mut(&graph)
            .expect("the graph was looked up by the caller")
    }

    pub(crate) fn insert_node(
        &mut self,
        graph: GraphHandle,
        dependencies: BTreeSet<GraphNodeHandle>,
        operation: NodeOperation<GraphHandle>,
    ) -> GraphNodeHandle {
        let handle = self.handles.next();
        let node = Node {
            operation,
            dependencies,
            original: None,
            site: Site::current(),
        };
        self.graph_mut(graph).nodes.insert(handle, node);
        handle
    }

    /// Returns a graph that a stream captures into: this one or a body in it.
    pub(crate) fn captured_within(&self, graph: GraphHandle) -> Option<GraphHandle> {
        let source = &self.graphs[&graph];
        if source.is_captured_into {
            return Some(graph);
        }
        source.bodies().find_map(|body| self.captured_within(body))
    }

    /// Removes a node with its dependencies, and the bodies that it has.
    pub(crate) fn remove_node(&mut self, graph: GraphHandle, node: GraphNodeHandle) {
        let nodes = &mut self.graph_mut(graph).nodes;
        let gone = nodes.remove(&node);
        for other in nodes.values_mut() {
            other.dependencies.remove(&node);
        }
        if let Some(Node {
            operation: NodeOperation::Conditional { bodies, .. },
            ..
        }) = gone
        {
            for body in bodies {
                self.remove_graph(body);
            }
        }
    }

    pub(crate) fn remove_graph(&mut self, graph: GraphHandle) {
        if let Some(gone) = self.graphs.remove(&graph) {
            for body in gone.bodies().collect::<Vec<_>>() {
                self.remove_graph(body);
            }
        }
    }
}
