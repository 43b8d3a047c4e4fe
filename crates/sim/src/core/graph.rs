//! Graphs: nodes with their dependencies, and the executable graphs made from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millstream_driver::{
    ConditionHandle, ConditionalKind, ContextHandle, GraphHandle, GraphNodeHandle, StreamHandle,
};
use millstream_ptx::Site;
use parking_lot::Mutex;

use super::op::{CopyOp, FillOp, KernelLaunch, OpKind};
use crate::{
    ids::OpId,
    race::{OpClock, OperationSummary},
};

/// The owner of a graph, which may destroy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphOwner {
    /// The caller.
    Caller,
    /// A conditional node, of which the graph is the body.
    Node,
    /// A capture that builds the graph.
    Capture,
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) context: ContextHandle,
    pub(crate) owner: GraphOwner,
    /// The nodes; their handles rise in the order of addition.
    pub(crate) nodes: BTreeMap<GraphNodeHandle, Node<GraphHandle>>,
    /// The conditions that were created for the graph, with their initial values.
    pub(crate) conditions: BTreeMap<ConditionHandle, u32>,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
}

/// A node. `B` is the body of a conditional node: a graph, or a template in an executable graph.
#[derive(Clone)]
pub(crate) struct Node<B> {
    pub(crate) operation: NodeOperation<B>,
    /// The nodes that run before it.
    pub(crate) dependencies: BTreeSet<GraphNodeHandle>,
    /// The label and source line of the call that added it, if recorded.
    pub(crate) site: Option<Site>,
}

/// The operation of a node.
#[derive(Clone)]
pub(crate) enum NodeOperation<B> {
    Kernel(Arc<KernelLaunch>),
    Copy(CopyOp),
    Fill(FillOp),
    Empty,
    /// An allocation of the graph, by base address (rule 45). Its memory lives as long as the
    /// graph.
    Allocation(u64),
    /// The end of an allocation of the graph.
    Free(u64),
    Child(Arc<Template>),
    Conditional {
        condition: ConditionHandle,
        kind: ConditionalKind,
        body: B,
    },
}

/// The nodes of an executable graph, or of a child or body in it, in an order in which each node
/// comes after its dependencies.
#[derive(Clone, Default)]
pub(crate) struct Template {
    pub(crate) nodes: Vec<TemplateNode>,
}

/// A node of a [`Template`].
#[derive(Clone)]
pub(crate) struct TemplateNode {
    /// The node of the graph that the template was made from.
    pub(crate) handle: GraphNodeHandle,
    /// The position among the nodes of that graph, from 1, in the order of addition.
    pub(crate) number: usize,
    pub(crate) operation: NodeOperation<Arc<Template>>,
    /// The indices of its dependencies in the template.
    pub(crate) dependencies: Vec<usize>,
    pub(crate) site: Option<Site>,
}

/// An executable graph.
pub(crate) struct Executable {
    pub(crate) context: ContextHandle,
    pub(crate) template: Template,
    pub(crate) conditions: Arc<Conditions>,
    /// The name in reports: the label of the graph, or the number of the executable graph.
    pub(crate) name: Arc<str>,
    /// The lines of nodes into which launches divide the template.
    pub(crate) branches: Vec<StreamHandle>,
    /// The end of the last launch (rule 46: launches run one after the other).
    pub(crate) last: Option<OpId>,
    /// The race checker's clock of the end of the last launch.
    pub(crate) last_clock: OpClock,
    /// The latest finish time of the complete launches.
    pub(crate) last_finish_ns: u64,
    /// The label and source line of the call that made it, if recorded.
    pub(crate) site: Option<Site>,
}

/// The conditions of an executable graph, with their values in the current launch.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<BTreeMap<ConditionHandle, Condition>>);

#[derive(Clone, Copy, Debug)]
struct Condition {
    initial: u32,
    value: u32,
}

/// The place of an operation in a launched graph.
#[derive(Clone)]
pub(crate) struct NodePlace {
    /// The graph's name in reports.
    pub(crate) graph: Arc<str>,
    /// The node's number, behind the numbers of the nodes around it: `4`, `4.2`.
    pub(crate) number: Arc<str>,
    pub(crate) conditions: Arc<Conditions>,
}

/// A launched conditional node.
pub(crate) struct ConditionalOp {
    pub(crate) condition: ConditionHandle,
    pub(crate) kind: ConditionalKind,
    pub(crate) body: Arc<Template>,
    /// The nodes of the body in the race checker, as in the template.
    pub(crate) places: Vec<BodyPlace>,
    /// All iterations but the first in the race checker, where they are one operation.
    pub(crate) repeats: OpId,
}

/// A node of a launched body.
pub(crate) enum BodyPlace {
    Node(OpId, NodePlace),
    Child(Vec<BodyPlace>),
    Conditional(Box<ConditionalOp>),
}

impl Graph {
    pub(crate) fn new(context: ContextHandle, owner: GraphOwner) -> Self {
        Self {
            context,
            owner,
            nodes: BTreeMap::new(),
            conditions: BTreeMap::new(),
            site: Site::current(),
        }
    }

    /// Returns whether a node allocates this memory.
    pub(crate) fn allocates(&self, base: u64) -> bool {
        self.nodes
            .values()
            .any(|node| matches!(node.operation, NodeOperation::Allocation(own) if own == base))
    }

    /// Returns the bodies of the graph's conditional nodes.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = GraphHandle> {
        self.nodes.values().filter_map(|node| match node.operation {
            NodeOperation::Conditional { body, .. } => Some(body),
            _ => None,
        })
    }
}

impl Template {
    /// Makes a template of a graph among `graphs`. Fails with a node of a cycle, if there is one.
    pub(crate) fn of(
        graph: GraphHandle,
        graphs: &BTreeMap<GraphHandle, Graph>,
    ) -> Result<Self, GraphNodeHandle> {
        let nodes = &graphs[&graph].nodes;
        let mut indices: BTreeMap<GraphNodeHandle, usize> = BTreeMap::new();
        let mut template = Self::default();
        let mut left: Vec<_> = nodes.iter().enumerate().collect();
        while !left.is_empty() {
            let before = left.len();
            let mut waiting = Vec::new();
            for (index, (handle, node)) in left {
                let found = |dependency| indices.get(dependency).copied();
                let Some(mut dependencies) = node
                    .dependencies
                    .iter()
                    .map(found)
                    .collect::<Option<Vec<_>>>()
                else {
                    waiting.push((index, (handle, node)));
                    continue;
                };
                dependencies.sort_unstable();
                indices.insert(*handle, template.nodes.len());
                template.nodes.push(TemplateNode {
                    handle: *handle,
                    number: index + 1,
                    operation: node.operation.with_body(|body| Self::of(body, graphs))?,
                    dependencies,
                    site: node.site.clone(),
                });
            }
            left = waiting;
            if left.len() == before {
                return Err(*left[0].1.0);
            }
        }
        Ok(template)
    }

    /// Returns whether a node allocates this memory.
    pub(crate) fn allocates(&self, base: u64) -> bool {
        self.nodes
            .iter()
            .any(|node| matches!(node.operation, NodeOperation::Allocation(own) if own == base))
    }

    /// Returns the number of nodes, with those of children and bodies.
    pub(crate) fn count(&self) -> u64 {
        let inner = self.nodes.iter().map(|node| match &node.operation {
            NodeOperation::Child(inner) | NodeOperation::Conditional { body: inner, .. } => {
                inner.count()
            }
            _ => 0,
        });
        self.nodes.len() as u64 + inner.sum::<u64>()
    }

    /// Returns whether the nodes form a line.
    pub(crate) fn is_line(&self) -> bool {
        self.nodes.iter().enumerate().all(|(index, node)| {
            let in_line = match index.checked_sub(1) {
                None => node.dependencies.is_empty(),
                Some(previous) => node.dependencies.last() == Some(&previous),
            };
            in_line
                && match &node.operation {
                    NodeOperation::Child(child) => child.is_line(),
                    _ => true,
                }
        })
    }

    /// Returns the kernels of the template, with those of children and bodies.
    pub(crate) fn kernels(&self) -> Vec<&Arc<KernelLaunch>> {
        let mut kernels = Vec::new();
        for node in &self.nodes {
            match &node.operation {
                NodeOperation::Kernel(launch) => kernels.push(launch),
                NodeOperation::Child(inner) | NodeOperation::Conditional { body: inner, .. } => {
                    kernels.extend(inner.kernels());
                }
                _ => {}
            }
        }
        kernels
    }

    /// Returns the indices of the nodes in an order in which each comes after its dependencies: of
    /// two nodes that do not depend on each other, the later one first if `reversed`.
    pub(crate) fn order(&self, reversed: bool) -> Vec<usize> {
        if !reversed {
            return (0..self.nodes.len()).collect();
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        while !left.is_empty() {
            let ready = |index: &usize| {
                let dependencies = &self.nodes[*index].dependencies;
                dependencies
                    .iter()
                    .all(|dependency| !left.contains(dependency))
            };
            let next = left
                .iter()
                .rposition(ready)
                .expect("a template has no cycle");
            order.push(left.remove(next));
        }
        order
    }

    /// Returns the indices of the nodes that no other node depends on.
    pub(crate) fn leaves(&self) -> Vec<usize> {
        let inner: BTreeSet<usize> = self
            .nodes
            .iter()
            .flat_map(|node| node.dependencies.iter().copied())
            .collect();
        (0..self.nodes.len())
            .filter(|index| !inner.contains(index))
            .collect()
    }
}

impl<B: Copy> NodeOperation<B> {
    /// Returns the operation with a template for its body.
    fn with_body(
        &self,
        template: impl Fn(B) -> Result<Template, GraphNodeHandle>,
    ) -> Result<NodeOperation<Arc<Template>>, GraphNodeHandle> {
        Ok(match self {
            Self::Kernel(launch) => NodeOperation::Kernel(Arc::clone(launch)),
            Self::Copy(copy) => NodeOperation::Copy(copy.clone()),
            Self::Fill(fill) => NodeOperation::Fill(*fill),
            Self::Empty => NodeOperation::Empty,
            Self::Allocation(base) => NodeOperation::Allocation(*base),
            Self::Free(base) => NodeOperation::Free(*base),
            Self::Child(child) => NodeOperation::Child(Arc::clone(child)),
            Self::Conditional {
                condition,
                kind,
                body,
            } => NodeOperation::Conditional {
                condition: *condition,
                kind: *kind,
                body: Arc::new(template(*body)?),
            },
        })
    }
}

impl NodeOperation<Arc<Template>> {
    /// Returns the operation to enqueue for a node without nodes of its own.
    pub(crate) fn kind(&self) -> OpKind {
        match self {
            Self::Kernel(launch) => OpKind::Kernel(Box::new((**launch).clone())),
            Self::Copy(copy) => OpKind::Copy(copy.clone()),
            Self::Fill(fill) => OpKind::Fill(*fill),
            Self::Empty
            | Self::Allocation(_)
            | Self::Free(_)
            | Self::Child(_)
            | Self::Conditional { .. } => OpKind::Marker,
        }
    }

    /// Makes this operation `other` in an executable graph. Fails with the reason if an executable
    /// graph cannot change so.
    pub(crate) fn change_to(&mut self, other: &Self) -> Result<(), String> {
        match (&mut *self, other) {
            (Self::Kernel(own), Self::Kernel(new)) => {
                if own.cooperative != new.cooperative {
                    return Err("the launch attributes of a kernel changed".into());
                }
            }
            (Self::Copy(own), Self::Copy(new)) => {
                if own.direction != new.direction {
                    return Err("the kinds of memory of a copy changed".into());
                }
                if (own.rows.height, new.rows.height) != (1, 1)
                    && (own.rows.width, own.rows.height) != (new.rows.width, new.rows.height)
                {
                    return Err("the shape of a copy of rows changed".into());
                }
            }
            (Self::Fill(_), Self::Fill(_)) | (Self::Empty, Self::Empty) => {}
            (Self::Allocation(own), Self::Allocation(new)) | (Self::Free(own), Self::Free(new))
                if own == new => {}
            (Self::Child(own), Self::Child(new)) => {
                return Arc::make_mut(own)
                    .change_to(new)
                    .map_err(|(_, problem)| problem);
            }
            (Self::Conditional { .. }, Self::Conditional { .. }) => {
                return Err("a conditional node does not support updates".into());
            }
            _ => return Err("the kind of a node changed".into()),
        }
        *self = other.clone();
        Ok(())
    }
}

impl Template {
    /// Makes the operations of this template those of `other`. Fails with a node of `other`, and
    /// the reason, if an executable graph cannot change so.
    pub(crate) fn change_to(
        &mut self,
        other: &Self,
    ) -> Result<(), (Option<GraphNodeHandle>, String)> {
        let same = self.nodes.len() == other.nodes.len()
            && self
                .nodes
                .iter()
                .zip(&other.nodes)
                .all(|(own, new)| own.dependencies == new.dependencies);
        if !same {
            return Err((None, "the topology changed".into()));
        }
        for (own, new) in self.nodes.iter_mut().zip(&other.nodes) {
            own.operation
                .change_to(&new.operation)
                .map_err(|problem| (Some(new.handle), problem))?;
            own.site.clone_from(&new.site);
        }
        Ok(())
    }
}

impl Conditions {
    /// Creates conditions with these initial values.
    pub(crate) fn new(initial: impl Iterator<Item = (ConditionHandle, u32)>) -> Self {
        let conditions = initial.map(|(condition, initial)| {
            let value = initial;
            (condition, Condition { initial, value })
        });
        Self(Mutex::new(conditions.collect()))
    }

    /// Sets every condition to its initial value.
    pub(crate) fn reset(&self) {
        for condition in self.0.lock().values_mut() {
            condition.value = condition.initial;
        }
    }

    /// Sets a condition. Returns `false` if there is no such condition.
    pub(crate) fn set(&self, condition: ConditionHandle, value: u32) -> bool {
        match self.0.lock().get_mut(&condition) {
            Some(found) => {
                found.value = value;
                true
            }
            None => false,
        }
    }

    /// Returns whether a condition holds.
    pub(crate) fn holds(&self, condition: ConditionHandle) -> bool {
        self.0
            .lock()
            .get(&condition)
            .is_some_and(|found| found.value != 0)
    }
}

impl NodePlace {
    /// Returns the description of an operation at this place.
    pub(crate) fn summary(&self, operation: OperationSummary) -> OperationSummary {
        OperationSummary::Node {
            operation: Box::new(operation),
            number: Arc::clone(&self.number),
            graph: Arc::clone(&self.graph),
        }
    }
}

impl ConditionalOp {
    /// Returns the operations of the race checker that stand for the body.
    pub(crate) fn race_ops(&self) -> Vec<OpId> {
        fn add(places: &[BodyPlace], ops: &mut Vec<OpId>) {
            for place in places {
                match place {
                    BodyPlace::Node(op, _) => ops.push(*op),
                    BodyPlace::Child(places) => add(places, ops),
                    BodyPlace::Conditional(inner) => ops.extend(inner.race_ops()),
                }
            }
        }
        let mut ops = Vec::new();
        add(&self.places, &mut ops);
        ops.push(self.repeats);
        ops
    }
}
