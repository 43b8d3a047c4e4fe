//! The executable graph, with the template that names its nodes.

#![allow(unsafe_code, reason = "adds and changes nodes of the driver's graphs")]

use std::sync::Arc;

use millstream_driver::{
    ConditionalNode, DriverError, GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle,
};

use super::{
    conditional::{Conditional, SetterPlace},
    conditions::Conditions,
    driver_graph::{OwnedExec, OwnedGraph},
    node::{Node, Work},
    operand::Operand,
};
use crate::context::DeviceState;

/// An executable graph and the template by which its nodes are named.
#[derive(Debug)]
pub(super) struct Exec {
    exec: OwnedExec,
    /// Kept, because nodes of an executable graph are named by those of its template, and because
    /// changes of many nodes are made there first.
    template: OwnedGraph,
    nodes: Vec<BuiltNode>,
    /// The nodes that were changed in the executable graph and not in the template.
    ahead: Vec<usize>,
}

/// The driver's nodes for one node.
#[derive(Debug)]
struct BuiltNode {
    handle: GraphNodeHandle,
    /// The kernels that set the condition of a conditional node.
    setters: Vec<GraphNodeHandle>,
    body: Vec<Self>,
}

impl BuiltNode {
    /// Returns the numbers that lead to a node of the driver, through the bodies.
    fn path_to(nodes: &[Self], named: GraphNodeHandle) -> Option<Vec<usize>> {
        let in_node = |(number, node): (usize, &Self)| {
            if node.handle == named || node.setters.contains(&named) {
                return Some(vec![number]);
            }
            let mut path = Self::path_to(&node.body, named)?;
            path.insert(0, number);
            Some(path)
        };
        nodes.iter().enumerate().find_map(in_node)
    }
}

/// The failure to build an executable graph. If it concerns a node, `path` has the numbers that
/// lead to it through the bodies around it.
#[derive(Debug)]
pub(super) struct BuildError {
    pub(super) error: DriverError,
    pub(super) path: Vec<usize>,
}

impl From<DriverError> for BuildError {
    fn from(error: DriverError) -> Self {
        let path = Vec::new();
        Self { error, path }
    }
}

/// The parts that all nodes of a graph need to be built.
struct Builder<'a> {
    device: &'a Arc<DeviceState>,
    template: &'a OwnedGraph,
    operands: &'a [Operand],
    conditions: Option<&'a Conditions>,
}

impl Builder<'_> {
    fn add(&self, graph: GraphHandle, nodes: &[Node]) -> Result<Vec<BuiltNode>, BuildError> {
        let mut built: Vec<BuiltNode> = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter().enumerate() {
            let before: Vec<_> = node
                .dependencies
                .iter()
                .map(|&at| built[at].handle)
                .collect();
            let _name = self.device.named(node.label, node.location);
            let added = match &node.work {
                Work::Conditional(conditional) => self.add_conditional(graph, &before, conditional),
                work => work
                    .with_node(self.operands, |operation| {
                        self.add_node(graph, &before, operation)
                    })
                    .map(|handle| BuiltNode {
                        handle,
                        setters: Vec::new(),
                        body: Vec::new(),
                    })
                    .map_err(BuildError::from),
            };
            built.push(added.map_err(|mut error| {
                error.path.insert(0, number);
                error
            })?);
        }
        Ok(built)
    }

    fn add_node(
        &self,
        graph: GraphHandle,
        before: &[GraphNodeHandle],
        operation: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle, DriverError> {
        let device = self.device;
        // SAFETY: the graph and its nodes are alive. The graph's operands live as long as it, and
        // each launch names them as its accesses.
        unsafe {
            device
                .driver
                .graph_add_node(device.context, graph, before, operation)
        }
    }

    /// Adds the kernel that sets a condition, the conditional node, and its body, for a loop with
    /// another such kernel at its end.
    fn add_conditional(
        &self,
        graph: GraphHandle,
        before: &[GraphNodeHandle],
        conditional: &Conditional,
    ) -> Result<BuiltNode, BuildError> {
        let device = self.device;
        let (function, noting) = self
            .conditions
            .and_then(|conditions| {
                Some((conditions.setter?, conditions.noting_place(self.operands)))
            })
            .expect("a graph with conditional nodes is built only where the driver has them");
        let condition = self.template.condition()?;
        let set = |graph, place, before: &[GraphNodeHandle]| {
            let setter = (function, place);
            conditional.with_setter(setter, condition, noting, self.operands, |operation| {
                self.add_node(graph, before, operation)
            })
        };
        let front = set(graph, SetterPlace::Front, before)?;
        let kind = conditional.kind();
        // SAFETY: the graph and the node are alive, and the condition was made for this node, in
        // this graph or one around it.
        let ConditionalNode { node, body } = unsafe {
            let (driver, context) = (&device.driver, device.context);
            driver.graph_add_conditional(context, graph, &[front], condition, kind)
        }?;
        let nodes = self.add(body, &conditional.body)?;
        let mut setters = vec![front];
        if conditional.repeat.is_some() {
            let inner = || conditional.body.iter();
            let is_last = |number: &usize| !inner().any(|node| node.dependencies.contains(number));
            let last = (0..nodes.len()).filter(is_last);
            let last: Vec<_> = last.map(|number| nodes[number].handle).collect();
            setters.push(set(body, SetterPlace::End, &last)?);
        }
        Ok(BuiltNode {
            handle: node,
            setters,
            body: nodes,
        })
    }
}

/// The cost of a change of one node in an executable graph, in nanoseconds, as measured on an H200.
const SET_NS: usize = 300;
/// The cost that each changed node adds to the next launch, in nanoseconds. Measured: 30 µs after a
/// change of one of 1,000 nodes, 130 µs after a change of all.
const LAUNCH_NS: usize = 100;
/// The cost of a change of one node in a template. Not measured: assumed to equal the same change
/// in an executable graph.
const TEMPLATE_SET_NS: usize = 300;
/// The cost of an update for each node of the graph, changed or not, as measured on an H200.
const UPDATE_NS: usize = 60;
/// The fixed cost of an update.
const UPDATE_CALL_NS: usize = 300;

/// Returns whether one update is cheaper than setting `changed` of `nodes` nodes one by one,
/// including the cost of the next launch. For an update, `ahead` nodes are changed in the template
/// first.
fn is_update_cheaper(nodes: usize, changed: usize, ahead: usize) -> bool {
    let one_by_one = changed * (SET_NS + LAUNCH_NS);
    let at_once = ahead * TEMPLATE_SET_NS + nodes * UPDATE_NS + UPDATE_CALL_NS;
    at_once < one_by_one
}

impl Exec {
    pub(super) fn build(
        device: &Arc<DeviceState>,
        nodes: &[Node],
        operands: &[Operand],
        conditions: Option<&Conditions>,
    ) -> Result<Self, BuildError> {
        let template = OwnedGraph::create(device)?;
        let builder = Builder {
            device,
            template: &template,
            operands,
            conditions,
        };
        let built = builder.add(template.handle(), nodes)?;
        let exec = template.instantiate().map_err(|error| {
            let named = error.graph_node();
            let path = named.and_then(|named| BuiltNode::path_to(&built, named));
            BuildError {
                path: path.unwrap_or_default(),
                error,
            }
        })?;
        Ok(Self {
            exec,
            template,
            nodes: built,
            ahead: Vec::new(),
        })
    }

    pub(super) fn handle(&self) -> GraphExecHandle {
        self.exec.handle()
    }

    /// Changes nodes in later launches, in the cheaper of two ways: one by one, or in the template,
    /// with which the executable graph is then updated at once.
    #[inline]
    pub(super) fn change(
        &mut self,
        changed: &[usize],
        nodes: &[Node],
        operands: &[Operand],
    ) -> Result<(), DriverError> {
        if let &[only] = changed
            && self.ahead.last() == Some(&only)
        {
            return self.set(only, &nodes[only], operands);
        }
        self.change_in_cheaper_way(changed, nodes, operands)
    }

    #[inline(never)]
    fn change_in_cheaper_way(
        &mut self,
        changed: &[usize],
        nodes: &[Node],
        operands: &[Operand],
    ) -> Result<(), DriverError> {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.extend(changed);
        ahead.sort_unstable();
        ahead.dedup();
        let is_plain = || nodes.iter().all(|node| node.work.body().is_empty());
        if is_update_cheaper(nodes.len(), changed.len(), ahead.len()) && is_plain() {
            return self.update(&ahead, nodes, operands);
        }
        self.ahead = ahead;
        changed
            .iter()
            .try_for_each(|&number| self.set(number, &nodes[number], operands))
    }

    #[inline]
    fn set(&self, number: usize, node: &Node, operands: &[Operand]) -> Result<(), DriverError> {
        let device = self.exec.device();
        let _name = device.named(node.label, node.location);
        node.work.with_node(operands, |operation| {
            // SAFETY: the executable graph and its template are alive, and the operands live as
            // long as the graph.
            unsafe {
                device.driver.graph_exec_set_node(
                    device.context,
                    self.exec.handle(),
                    self.nodes[number].handle,
                    operation,
                )
            }
        })
    }

    /// Changes nodes of the template, and then the executable graph.
    fn update(
        &self,
        changed: &[usize],
        nodes: &[Node],
        operands: &[Operand],
    ) -> Result<(), DriverError> {
        let device = self.exec.device();
        let (context, template) = (device.context, self.template.handle());
        for &number in changed {
            let node = &nodes[number];
            let _name = device.named(node.label, node.location);
            let handle = self.nodes[number].handle;
            node.work.with_node(operands, |operation| {
                // SAFETY: the template is alive, and the operands live as long as the graph.
                unsafe {
                    device
                        .driver
                        .graph_set_node(context, template, handle, operation)
                }
            })?;
        }
        // SAFETY: the executable graph and its template are alive.
        unsafe {
            device
                .driver
                .graph_exec_update(context, self.exec.handle(), template)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_update_cheaper;

    #[test]
    fn an_update_pays_once_most_nodes_have_changed() {
        let fewest =
            |nodes| (1..=nodes).find(|&changed| is_update_cheaper(nodes, changed, changed));
        assert_eq!(
            [1, 5, 10, 100, 1000].map(fewest),
            [None, None, Some(10), Some(64), Some(604)]
        );
        // Not if many others must be brought up to date in the template.
        assert!(!is_update_cheaper(100, 64, 100));
    }
}
