//! Graphs: nodes with their dependencies, and the executable graphs made from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millstream_driver::{
    ConditionHandle, ContextHandle, EventHandle, GraphHandle, GraphNodeHandle, StreamHandle,
};
use millstream_ptx::Site;
use parking_lot::Mutex;

use super::{
    graph_template::Template,
    objects::host_functions::RepeatedFunction,
    op::{CopyOp, FillOp, KernelLaunch},
};
use crate::{
    ids::OpId,
    race::{OpClock, OperationSummary},
};

/// The owner of a graph, which may destroy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphOwner {
    /// The caller.
    Caller,
    /// A conditional node, whose body the graph is.
    Node,
}

pub(crate) struct Graph {
    pub(crate) context: ContextHandle,
    pub(crate) owner: GraphOwner,
    /// Set while a stream captures into the graph.
    pub(crate) is_captured_into: bool,
    /// The nodes; their handles rise in the order of addition.
    pub(crate) nodes: BTreeMap<GraphNodeHandle, Node<GraphHandle>>,
    /// The conditions that were created for the graph, with their initial values.
    pub(crate) conditions: BTreeMap<ConditionHandle, u32>,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
}

/// A node. `B` is a body of a conditional node: a graph, or a template in an executable graph.
#[derive(Clone)]
pub(crate) struct Node<B> {
    pub(crate) operation: NodeOperation<B>,
    /// The nodes that run before it.
    pub(crate) dependencies: BTreeSet<GraphNodeHandle>,
    /// The node that it was copied from with its graph.
    pub(crate) original: Option<GraphNodeHandle>,
    /// The label and source line of the call that added it, if recorded.
    pub(crate) site: Option<Site>,
}

#[derive(Clone)]
pub(crate) enum NodeOperation<B> {
    Kernel(Arc<KernelLaunch>),
    Copy(CopyOp),
    Fill(FillOp),
    Host(RepeatedFunction),
    /// The record of an event, as on a stream at the launch.
    Record(EventHandle),
    /// A wait for the event's last record before the launch.
    Wait(EventHandle),
    Empty,
    /// An allocation of the graph, by base address (rule 45). Its memory lives as long as the
    /// graph.
    Allocation(u64),
    /// The end of an allocation of the graph.
    Free(u64),
    Child(Arc<Template>),
    Conditional {
        condition: ConditionHandle,
        form: ConditionalForm,
        bodies: Vec<B>,
    },
}

/// The use that a conditional node makes of its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionalForm {
    /// The first body runs once if the value is not 0, else the second one, if there is one.
    If,
    /// The body runs while the value is not 0.
    While,
    /// The body with the value as its index runs once, if there is one.
    Switch,
}

impl ConditionalForm {
    /// Returns the index of the body to run for a value of the condition, before the first
    /// iteration or a later one.
    pub(crate) fn body(self, value: u32, is_first: bool) -> Option<usize> {
        match self {
            Self::If => is_first.then_some(usize::from(value == 0)),
            Self::While => (value != 0).then_some(0),
            Self::Switch => is_first.then_some(value as usize),
        }
    }
}

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

pub(crate) struct ConditionalOp {
    pub(crate) condition: ConditionHandle,
    pub(crate) form: ConditionalForm,
    pub(crate) bodies: Vec<LaunchedBody>,
    /// All iterations but the first in the race checker, where they are one operation.
    pub(crate) repeats: OpId,
}

pub(crate) struct LaunchedBody {
    pub(crate) template: Arc<Template>,
    /// The nodes in the race checker, as in the template.
    pub(crate) places: Vec<BodyPlace>,
}

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
            is_captured_into: false,
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
        let lists = self.nodes.values().map(|node| match &node.operation {
            NodeOperation::Conditional { bodies, .. } => bodies.as_slice(),
            _ => &[],
        });
        lists.flatten().copied()
    }
}

impl<B> NodeOperation<B> {
    /// Returns whether the body of a conditional node cannot have the operation: it concerns the
    /// host, events or memory.
    pub(crate) fn is_outside_work(&self) -> bool {
        matches!(
            self,
            Self::Host(_) | Self::Record(_) | Self::Wait(_) | Self::Allocation(_) | Self::Free(_)
        )
    }
}

impl Conditions {
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

    pub(crate) fn value(&self, condition: ConditionHandle) -> u32 {
        self.0.lock().get(&condition).map_or(0, |found| found.value)
    }
}

impl NodePlace {
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
        for body in &self.bodies {
            add(&body.places, &mut ops);
        }
        ops.push(self.repeats);
        ops
    }
}
