//! The nodes of executable graphs, in an order in which they can run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millstream_driver::{GraphHandle, GraphNodeHandle};
use millstream_ptx::Site;

use super::{
    graph::{Graph, NodeOperation},
    op::{KernelLaunch, OpKind},
};

/// The nodes of an executable graph, or of a child or body in it, in an order in which each node
/// comes after its dependencies.
#[derive(Clone, Default)]
pub(crate) struct Template {
    pub(crate) nodes: Vec<TemplateNode>,
}

#[derive(Clone)]
pub(crate) struct TemplateNode {
    pub(crate) handle: GraphNodeHandle,
    /// The position among the nodes of that graph, from 1, in the order of addition.
    pub(crate) number: usize,
    pub(crate) operation: NodeOperation<Arc<Template>>,
    /// Set if launches leave the operation out.
    pub(crate) disabled: bool,
    pub(crate) dependencies: Vec<usize>,
    pub(crate) site: Option<Site>,
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
                let index_of = |dependency| indices.get(dependency).copied();
                let Some(mut dependencies) = node
                    .dependencies
                    .iter()
                    .map(index_of)
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
                    operation: node.operation.with_bodies(|body| Self::of(body, graphs))?,
                    disabled: false,
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
        let inner = self.nodes.iter().flat_map(|node| node.operation.inner());
        self.nodes.len() as u64 + inner.map(|inner| inner.count()).sum::<u64>()
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

    pub(crate) fn kernels(&self) -> Vec<&Arc<KernelLaunch>> {
        let mut kernels = Vec::new();
        for node in &self.nodes {
            if let NodeOperation::Kernel(launch) = &node.operation {
                kernels.push(launch);
            }
            let inner = node.operation.inner().iter();
            kernels.extend(inner.flat_map(|inner| inner.kernels()));
        }
        kernels
    }

    /// Returns whether a node is a host function.
    pub(crate) fn calls_host(&self) -> bool {
        self.nodes.iter().any(|node| {
            let mut inner = node.operation.inner().iter();
            matches!(node.operation, NodeOperation::Host(_)) || inner.any(|it| it.calls_host())
        })
    }

    /// Returns whether a node is one that the body of a conditional node cannot have.
    pub(crate) fn has_outside_work(&self) -> bool {
        self.nodes.iter().any(|node| {
            let mut inner = node.operation.inner().iter();
            node.operation.is_outside_work() || inner.any(|it| it.has_outside_work())
        })
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
    pub(crate) fn with_bodies(
        &self,
        template: impl Fn(B) -> Result<Template, GraphNodeHandle>,
    ) -> Result<NodeOperation<Arc<Template>>, GraphNodeHandle> {
        Ok(match self {
            Self::Kernel(launch) => NodeOperation::Kernel(Arc::clone(launch)),
            Self::Copy(copy) => NodeOperation::Copy(copy.clone()),
            Self::Fill(fill) => NodeOperation::Fill(*fill),
            Self::Host(function) => NodeOperation::Host(function.clone()),
            Self::Record(event) => NodeOperation::Record(*event),
            Self::Wait(event) => NodeOperation::Wait(*event),
            Self::Empty => NodeOperation::Empty,
            Self::Allocation(base) => NodeOperation::Allocation(*base),
            Self::Free(base) => NodeOperation::Free(*base),
            Self::Child(child) => NodeOperation::Child(Arc::clone(child)),
            Self::Conditional {
                condition,
                form,
                bodies,
            } => NodeOperation::Conditional {
                condition: *condition,
                form: *form,
                bodies: bodies
                    .iter()
                    .map(|body| template(*body).map(Arc::new))
                    .collect::<Result<_, _>>()?,
            },
        })
    }
}

impl NodeOperation<Arc<Template>> {
    /// Returns the templates in the operation: a child, or the bodies of a conditional node.
    fn inner(&self) -> &[Arc<Template>] {
        match self {
            Self::Child(child) => std::slice::from_ref(child),
            Self::Conditional { bodies, .. } => bodies,
            _ => &[],
        }
    }

    /// Returns the operation to enqueue for a node without nodes of its own.
    pub(crate) fn kind(&self) -> OpKind {
        match self {
            Self::Kernel(launch) => OpKind::Kernel(Box::new((**launch).clone())),
            Self::Copy(copy) => OpKind::Copy(copy.clone()),
            Self::Fill(fill) => OpKind::Fill(*fill),
            Self::Host(function) => {
                let function = Arc::clone(&function.function);
                OpKind::HostFunction(Some(Box::new(move || function())))
            }
            Self::Record(event) => OpKind::Record(*event),
            Self::Allocation(base) => OpKind::GraphAllocation(*base),
            Self::Free(base) => OpKind::GraphFree(*base),
            Self::Empty | Self::Wait(_) | Self::Child(_) | Self::Conditional { .. } => {
                OpKind::Marker
            }
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
            (Self::Fill(_), Self::Fill(_))
            | (Self::Host(_), Self::Host(_))
            | (Self::Record(_), Self::Record(_))
            | (Self::Wait(_), Self::Wait(_))
            | (Self::Empty, Self::Empty) => {}
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
