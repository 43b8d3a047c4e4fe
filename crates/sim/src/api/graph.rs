//! Graph calls: graphs and their nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millstream_driver::{
    ConditionHandle, ContextHandle, Copy2d, GraphHandle, GraphNode, GraphNodeHandle, KernelNode,
    ResultCode,
};

use super::copy::CopyOperand;
use crate::{
    ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        graph::{ConditionalForm, GraphOwner, Node, NodeOperation},
        graph_template::Template,
    },
    ids::{Handle, name},
    memory::host::HostParams,
};

/// The operation of a node, as given by a call: the safe parts of a [`GraphNode`].
pub(crate) enum GivenNode<'a> {
    Kernel(&'a KernelNode<'a>, HostParams<'a>),
    /// The ends of the copy are in host memory that the caller keeps valid, or device addresses.
    Copy((CopyOperand, CopyOperand), &'a Copy2d),
    /// An operation that the driver interface does not have.
    Own(NodeOperation<GraphHandle>),
    Other(&'a GraphNode<'a>),
}

impl StateGuard<'_> {
    pub(crate) fn graph_create(&mut self, context: ContextHandle) -> CallResult<GraphHandle> {
        self.context(context)?;
        Ok(self.add_graph(context, GraphOwner::Caller))
    }

    /// Resolves a graph handle, which must belong to `context`.
    pub(crate) fn graph(&mut self, context: ContextHandle, graph: GraphHandle) -> CallResult<()> {
        self.context(context)?;
        let owner = self.graphs.get(&graph).map(|found| found.context);
        self.check_owner(context, graph, owner)
    }

    pub(super) fn refuse_argument<T>(&mut self, text: String) -> CallResult<T> {
        Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text))
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
        if self.graphs[&graph].owner == GraphOwner::Node {
            let text = format!("{} is the body of a conditional node", name(graph));
            return self.refuse_argument(text);
        }
        if let Some(captured) = self.captured_within(graph) {
            return self.refuse_argument(format!("a stream captures into {}", name(captured)));
        }
        self.remove_graph(graph);
        self.free_graph_memory();
        lost
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
            let node = Node {
                original: Some(handle),
                ..node
            };
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
        let is_outside_work = match &operation {
            NodeOperation::Child(child) => child.has_outside_work(),
            operation => operation.is_outside_work(),
        };
        if is_outside_work {
            self.refuse_outside_work(graph)?;
        }
        Ok(self.insert_node(graph, dependencies, operation))
    }

    /// Checks that each dependency is a node of the graph, and that none is named twice.
    pub(super) fn check_dependencies(
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
            GivenNode::Own(operation) => {
                self.check_own_node(context, operation)?;
                operation.clone()
            }
            GivenNode::Other(_) => NodeOperation::Empty,
        })
    }

    pub(super) fn template(&mut self, graph: GraphHandle) -> CallResult<Template> {
        Template::of(graph, &self.graphs).map_err(|node| {
            let text = format!("the dependencies of {} form a cycle", name(node));
            self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text)
                .at_node(node)
        })
    }

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
            return self.refuse_argument(text);
        }
        let nodes = &mut self.graph_mut(graph).nodes;
        for (from, to) in known {
            if let Some(node) = nodes.get_mut(&to) {
                node.dependencies.insert(from);
            }
        }
        Ok(())
    }

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

    /// Adds a conditional node with empty bodies.
    pub(crate) fn graph_add_conditional(
        &mut self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        (form, bodies): (ConditionalForm, u32),
    ) -> CallResult<(GraphNodeHandle, Vec<GraphHandle>)> {
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
            return self.refuse_argument(text);
        }
        let bodies: Vec<_> = (0..bodies)
            .map(|_| self.add_graph(context, GraphOwner::Node))
            .collect();
        let operation = NodeOperation::Conditional {
            condition,
            form,
            bodies: bodies.clone(),
        };
        Ok((self.insert_node(graph, dependencies, operation), bodies))
    }

    /// Rejects work for the host, events or memory in the body of a conditional node.
    pub(super) fn refuse_outside_work(&mut self, graph: GraphHandle) -> CallResult<()> {
        if self.graphs[&graph].owner != GraphOwner::Node {
            return Ok(());
        }
        self.refuse_argument(format!(
            "{} is the body of a conditional node, which has no nodes for the host, events or \
             memory",
            name(graph)
        ))
    }
}
