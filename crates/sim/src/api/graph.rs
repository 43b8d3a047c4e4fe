//! Graph calls: graphs and their nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millstream_driver::{
    ConditionHandle, ConditionalKind, ConditionalNode, ContextHandle, Copy2d, GraphHandle,
    GraphNode, GraphNodeHandle, KernelNode, ResultCode,
};
use millstream_ptx::Site;

use super::copy::CopyOperand;
use crate::{
    ReportKind,
    core::{
        gpu::StateGuard,
        graph::{Graph, GraphOwner, Node, NodeOperation, Template},
        state::{CallError, CallResult},
    },
    ids::{Handle, name},
    memory::host::HostParams,
};

/// The operation of a node, as given by a call: the safe parts of a [`GraphNode`].
pub(crate) enum GivenNode<'a> {
    Kernel(&'a KernelNode<'a>, HostParams<'a>),
    /// The ends of the copy are in host memory that the caller keeps valid, or device addresses.
    Copy((CopyOperand, CopyOperand), &'a Copy2d),
    Other(&'a GraphNode<'a>),
}

impl StateGuard<'_> {
    /// Creates an empty graph.
    pub(crate) fn graph_create(&mut self, context: ContextHandle) -> CallResult<GraphHandle> {
        self.context(context)?;
        Ok(self.add_graph(context, GraphOwner::Caller))
    }

    /// Adds an empty graph.
    pub(crate) fn add_graph(&mut self, context: ContextHandle, owner: GraphOwner) -> GraphHandle {
        let handle = self.handles.next();
        self.graphs.insert(handle, Graph::new(context, owner));
        handle
    }

    /// Resolves a graph handle, which must belong to `context`.
    pub(crate) fn graph(&mut self, context: ContextHandle, graph: GraphHandle) -> CallResult<()> {
        self.context(context)?;
        let owner = self.graphs.get(&graph).map(|found| found.context);
        self.check_owner(context, graph, owner)
    }

    /// Checks the context of a graph or an executable graph; `None` if the handle is invalid.
    pub(super) fn check_owner<H: Handle>(
        &mut self,
        context: ContextHandle,
        handle: H,
        owner: Option<ContextHandle>,
    ) -> CallResult<()> {
        let (kind, text) = match owner {
            Some(owner) if owner == context => return Ok(()),
            Some(owner) => (
                ReportKind::WrongContext,
                format!(
                    "{} belongs to {}, not {}",
                    name(handle),
                    name(owner),
                    name(context)
                ),
            ),
            None => self.handles.explain(handle),
        };
        Err(self.violation(kind, ResultCode::INVALID_VALUE, text))
    }

    /// Destroys a graph, also in a lost context.
    pub(crate) fn graph_destroy(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> CallResult<()> {
        let lost = self.context_even_lost(context)?;
        let owner = self.graphs.get(&graph).map(|found| found.context);
        self.check_owner(context, graph, owner)?;
        if self.graphs[&graph].owner != GraphOwner::Caller {
            let text = format!(
                "{} is the body of a conditional node, or a stream captures into it: it cannot be \
                 destroyed",
                name(graph)
            );
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        self.remove_graph(graph);
        self.free_graph_memory();
        lost
    }

    /// Removes a graph with the bodies in it.
    pub(crate) fn remove_graph(&mut self, graph: GraphHandle) {
        if let Some(gone) = self.graphs.remove(&graph) {
            for body in gone.bodies().collect::<Vec<_>>() {
                self.remove_graph(body);
            }
        }
    }

    /// Copies a graph without conditional nodes.
    pub(crate) fn graph_clone(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> CallResult<GraphHandle> {
        self.graph(context, graph)?;
        self.refuse_to_copy(graph, "a clone")?;
        let copy = self.add_graph(context, GraphOwner::Caller);
        let mut handles: BTreeMap<GraphNodeHandle, GraphNodeHandle> = BTreeMap::new();
        for (handle, node) in self.graphs[&graph].nodes.clone() {
            handles.insert(handle, self.handles.next());
            // A dependency on a later node, which `graph_add_dependencies` can make, has a handle
            // only once that node is copied.
            self.graph_mut(copy).nodes.insert(handles[&handle], node);
        }
        for node in self.graph_mut(copy).nodes.values_mut() {
            let old = std::mem::take(&mut node.dependencies);
            node.dependencies = old.iter().map(|old| handles[old]).collect();
        }
        Ok(copy)
    }

    fn graph_mut(&mut self, graph: GraphHandle) -> &mut Graph {
        self.graphs
            .get_mut(&graph)
            .expect("the graph was looked up by the caller")
    }

    /// Rejects a graph with conditional nodes or allocations for `what`.
    fn refuse_to_copy(&self, graph: GraphHandle, what: &str) -> CallResult<()> {
        let problem = self.graphs[&graph]
            .nodes
            .values()
            .find_map(|node| match node.operation {
                NodeOperation::Conditional { .. } => Some("conditional nodes"),
                NodeOperation::Allocation(_) => Some("allocations"),
                _ => None,
            });
        match problem {
            None => Ok(()),
            Some(problem) => Err(CallError::new(
                ResultCode::NOT_SUPPORTED,
                format!("{what} of {}, which has {problem}", name(graph)),
            )),
        }
    }

    /// Adds a node to a graph.
    pub(crate) fn graph_add_node(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GivenNode<'_>,
    ) -> CallResult<GraphNodeHandle> {
        self.graph(context, graph)?;
        let dependencies = self.check_dependencies(graph, dependencies)?;
        let operation = self.operation(context, node)?;
        Ok(self.insert_node(graph, dependencies, operation))
    }

    /// Adds a validated node to a graph.
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
            site: Site::current(),
        };
        self.graph_mut(graph).nodes.insert(handle, node);
        handle
    }

    /// Changes the operation of a node to another of the same kind.
    pub(crate) fn graph_set_node(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        node: GraphNodeHandle,
        operation: &GivenNode<'_>,
    ) -> CallResult<()> {
        self.graph(context, graph)?;
        self.check_node(graph, node)?;
        let operation = self.operation(context, operation)?;
        let found = self
            .graph_mut(graph)
            .nodes
            .get_mut(&node)
            .expect("the node was looked up");
        let is_plain = matches!(
            operation,
            NodeOperation::Kernel(_) | NodeOperation::Copy(_) | NodeOperation::Fill(_)
        );
        let is_same_kind =
            std::mem::discriminant(&found.operation) == std::mem::discriminant(&operation);
        if is_plain && is_same_kind {
            found.site = Site::current().or(found.site.take());
            found.operation = operation;
            return Ok(());
        }
        let text = format!(
            "{} of {} cannot become an operation of another kind",
            name(node),
            name(graph)
        );
        Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text))
    }

    /// Checks that each dependency is a node of the graph, and that none is named twice.
    fn check_dependencies(
        &mut self,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
    ) -> CallResult<BTreeSet<GraphNodeHandle>> {
        let mut checked = BTreeSet::new();
        for &dependency in dependencies {
            self.check_node(graph, dependency)?;
            if !checked.insert(dependency) {
                let text = format!("{} is named twice as a dependency", name(dependency));
                return Err(self.violation(
                    ReportKind::BadArgument,
                    ResultCode::INVALID_VALUE,
                    text,
                ));
            }
        }
        Ok(checked)
    }

    /// Checks that a node belongs to the graph.
    pub(crate) fn check_node(
        &mut self,
        graph: GraphHandle,
        node: GraphNodeHandle,
    ) -> CallResult<()> {
        if self.graphs[&graph].nodes.contains_key(&node) {
            return Ok(());
        }
        let elsewhere = self
            .graphs
            .iter()
            .find(|(_, other)| other.nodes.contains_key(&node));
        let (kind, text) = match elsewhere {
            Some((other, _)) => (
                ReportKind::BadArgument,
                format!(
                    "{} belongs to {}, not {}",
                    name(node),
                    name(*other),
                    name(graph)
                ),
            ),
            None => self.handles.explain(node),
        };
        Err(self.violation(kind, ResultCode::INVALID_VALUE, text))
    }

    /// Validates the operation of a node.
    pub(super) fn operation(
        &mut self,
        context: ContextHandle,
        node: &GivenNode<'_>,
    ) -> CallResult<NodeOperation<GraphHandle>> {
        Ok(match node {
            GivenNode::Kernel(kernel, params) => {
                self.refuse_clusters(context, kernel.function, &kernel.attributes)?;
                let dims = (&kernel.dims, kernel.attributes.cooperative);
                let launch = self.prepare_launch(context, kernel.function, dims, *params)?;
                NodeOperation::Kernel(Arc::new(launch))
            }
            GivenNode::Copy(ends, copy) => NodeOperation::Copy(self.prepare_copy(*ends, copy)?),
            GivenNode::Other(GraphNode::Fill {
                target,
                pattern,
                count,
            }) => NodeOperation::Fill(self.prepare_fill(*target, *pattern, *count)?),
            GivenNode::Other(GraphNode::Child(child)) => {
                self.graph(context, *child)?;
                self.refuse_to_copy(*child, "a child")?;
                NodeOperation::Child(Arc::new(self.template(*child)?))
            }
            GivenNode::Other(_) => NodeOperation::Empty,
        })
    }

    /// Makes a template of a graph.
    pub(super) fn template(&mut self, graph: GraphHandle) -> CallResult<Template> {
        Template::of(graph, &self.graphs).map_err(|node| {
            let text = format!("the dependencies of {} form a cycle", name(node));
            self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text)
                .at_node(node)
        })
    }

    /// Adds dependencies between nodes.
    pub(crate) fn graph_add_dependencies(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> CallResult<()> {
        self.graph(context, graph)?;
        let mut known: BTreeSet<(GraphNodeHandle, GraphNodeHandle)> = BTreeSet::new();
        for &(from, to) in pairs {
            self.check_node(graph, from)?;
            self.check_node(graph, to)?;
            let exists = self.graphs[&graph].nodes[&to].dependencies.contains(&from);
            let problem = if from == to {
                "it would run after itself"
            } else if exists || !known.insert((from, to)) {
                "the dependency exists already"
            } else {
                continue;
            };
            let text = format!("{} after {}: {problem}", name(to), name(from));
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        let nodes = &mut self.graph_mut(graph).nodes;
        for (from, to) in known {
            if let Some(node) = nodes.get_mut(&to) {
                node.dependencies.insert(from);
            }
        }
        Ok(())
    }

    /// Creates a condition for a graph.
    pub(crate) fn graph_condition(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32,
    ) -> CallResult<ConditionHandle> {
        self.graph(context, graph)?;
        self.conditions_made += 1;
        let condition = ConditionHandle::from_raw(self.conditions_made);
        self.graph_mut(graph).conditions.insert(condition, initial);
        Ok(condition)
    }

    /// Adds a conditional node with an empty body.
    pub(crate) fn graph_add_conditional(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> CallResult<ConditionalNode> {
        self.graph(context, graph)?;
        let dependencies = self.check_dependencies(graph, dependencies)?;
        let known = self
            .graphs
            .values()
            .any(|graph| graph.conditions.contains_key(&condition));
        let taken = self.graphs.values().any(|graph| {
            graph.nodes.values().any(|node| {
                matches!(node.operation, NodeOperation::Conditional { condition: other, .. }
                    if other == condition)
            })
        });
        if !known || taken {
            let problem = if taken {
                "another conditional node has it"
            } else {
                "no graph has it"
            };
            let text = format!("condition {:#x}: {problem}", condition.as_raw());
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        let body = self.add_graph(context, GraphOwner::Node);
        let operation = NodeOperation::Conditional {
            condition,
            kind,
            body,
        };
        let node = self.insert_node(graph, dependencies, operation);
        Ok(ConditionalNode { node, body })
    }
}
