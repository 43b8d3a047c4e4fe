//! The driver's objects of a graph: the template that names its nodes, and the executable graph.

#![allow(
    unsafe_code,
    reason = "makes, changes and destroys the driver's graphs"
)]

use std::sync::Arc;

use millstream_driver::{DriverError, GraphExecHandle, GraphHandle, GraphNodeHandle};

use super::node::{Node, Operand};
use crate::{context::DeviceState, disposal::log};

/// A graph of the driver, destroyed on drop.
#[derive(Debug)]
pub(super) struct OwnedGraph {
    device: Arc<DeviceState>,
    handle: GraphHandle,
}

impl PartialEq for OwnedGraph {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl OwnedGraph {
    /// Takes over a graph.
    pub(super) fn new(device: &Arc<DeviceState>, handle: GraphHandle) -> Self {
        Self {
            device: Arc::clone(device),
            handle,
        }
    }

    /// Creates an empty graph.
    fn create(device: &Arc<DeviceState>) -> Result<Self, DriverError> {
        // SAFETY: the device keeps its context alive.
        let handle = unsafe { device.driver.graph_create(device.context) }?;
        Ok(Self::new(device, handle))
    }

    /// Returns the driver's handle.
    pub(super) fn handle(&self) -> GraphHandle {
        self.handle
    }

    /// Makes an executable graph.
    pub(super) fn instantiate(&self) -> Result<OwnedExec, DriverError> {
        let Self { device, handle } = self;
        // SAFETY: the graph is alive. Kernels stay loaded while the device is open.
        let exec = unsafe { device.driver.graph_instantiate(device.context, *handle) }?;
        Ok(OwnedExec {
            device: Arc::clone(device),
            handle: exec,
        })
    }
}

impl Drop for OwnedGraph {
    fn drop(&mut self) {
        let Self { device, handle } = self;
        // SAFETY: the graph is alive and not used again.
        let destroyed = unsafe { device.driver.graph_destroy(device.context, *handle) };
        if let Err(error) = destroyed {
            log!(debug, %error, "cannot destroy a graph");
        }
    }
}

/// An executable graph of the driver, destroyed on drop, which may be while it runs (rule 47:
/// launches that are enqueued complete).
#[derive(Debug)]
pub(super) struct OwnedExec {
    device: Arc<DeviceState>,
    handle: GraphExecHandle,
}

impl OwnedExec {
    /// Returns the driver's handle.
    pub(super) fn handle(&self) -> GraphExecHandle {
        self.handle
    }
}

impl Drop for OwnedExec {
    fn drop(&mut self) {
        let Self { device, handle } = self;
        // SAFETY: the executable graph is alive and not used again.
        let destroyed = unsafe { device.driver.graph_exec_destroy(device.context, *handle) };
        if let Err(error) = destroyed {
            log!(debug, %error, "cannot destroy an executable graph");
        }
    }
}

/// An executable graph and the template by which its nodes are named.
#[derive(Debug)]
pub(super) struct Exec {
    exec: OwnedExec,
    /// Kept, because nodes of an executable graph are named by those of its template.
    _template: OwnedGraph,
    nodes: Vec<GraphNodeHandle>,
}

/// The failure to build an executable graph, with the number of the node, if the driver names one.
#[derive(Debug)]
pub(super) struct BuildError {
    pub(super) error: DriverError,
    pub(super) node: Option<usize>,
}

impl Exec {
    /// Builds an executable graph of these nodes.
    pub(super) fn build(
        device: &Arc<DeviceState>,
        nodes: &[Node],
        operands: &[Operand],
    ) -> Result<Self, BuildError> {
        let unknown = |error| BuildError { error, node: None };
        let template = OwnedGraph::create(device).map_err(unknown)?;
        let mut handles: Vec<GraphNodeHandle> = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter().enumerate() {
            let before: Vec<_> = node.dependencies.iter().map(|&at| handles[at]).collect();
            let _name = device.named(node.label, node.location);
            let added = node.work.with_node(operands, |operation| {
                let (driver, graph) = (&device.driver, template.handle());
                // SAFETY: the graph and its nodes are alive. The graph's operands live as long as
                // it, and each launch names them as its accesses.
                unsafe { driver.graph_add_node(device.context, graph, &before, operation) }
            });
            handles.push(added.map_err(|error| BuildError {
                error,
                node: Some(number),
            })?);
        }
        let exec = template.instantiate().map_err(|error| BuildError {
            node: error
                .graph_node()
                .and_then(|named| handles.iter().position(|&handle| handle == named)),
            error,
        })?;
        Ok(Self {
            exec,
            _template: template,
            nodes: handles,
        })
    }

    /// Returns the handle to launch.
    pub(super) fn handle(&self) -> GraphExecHandle {
        self.exec.handle()
    }

    /// Changes a node in later launches.
    pub(super) fn set(
        &self,
        number: usize,
        node: &Node,
        operands: &[Operand],
    ) -> Result<(), DriverError> {
        let device = &self.exec.device;
        let _name = device.named(node.label, node.location);
        node.work.with_node(operands, |operation| {
            // SAFETY: the executable graph and its template are alive, and the operands live as
            // long as the graph.
            unsafe {
                device.driver.graph_exec_set_node(
                    device.context,
                    self.exec.handle(),
                    self.nodes[number],
                    operation,
                )
            }
        })
    }
}
