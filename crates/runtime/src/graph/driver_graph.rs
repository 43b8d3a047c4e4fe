//! The driver's graphs and executable graphs, destroyed when they are dropped.

#![allow(unsafe_code, reason = "makes and destroys the driver's graphs")]

use std::sync::Arc;

use millstream_driver::{ConditionHandle, DriverError, GraphExecHandle, GraphHandle};

use smallvec::SmallVec;

use crate::{context::DeviceState, disposal::log, page_locked::Resource};

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
    pub(super) fn new(device: &Arc<DeviceState>, handle: GraphHandle) -> Self {
        Self {
            device: Arc::clone(device),
            handle,
        }
    }

    pub(super) fn create(device: &Arc<DeviceState>) -> Result<Self, DriverError> {
        // SAFETY: the device keeps its context alive.
        let handle = unsafe { device.driver.graph_create(device.context) }?;
        Ok(Self::new(device, handle))
    }

    pub(super) fn handle(&self) -> GraphHandle {
        self.handle
    }

    /// Creates a condition for a conditional node of the graph, or of a body in it.
    pub(super) fn condition(&self) -> Result<ConditionHandle, DriverError> {
        let Self { device, handle } = self;
        // SAFETY: the graph is alive. A condition without a node is only made to see whether the
        // driver has conditions, and that graph is not instantiated.
        unsafe { device.driver.graph_condition(device.context, *handle, 0) }
    }

    pub(super) fn instantiate(&self) -> Result<OwnedExec, DriverError> {
        let Self { device, handle } = self;
        device.page_locked().idle_frees.make_room_for_graph(device);
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

/// An executable graph of the driver. Dropping it defers its destruction, which may wait for the
/// device (rule 62).
#[derive(Debug)]
pub(super) struct OwnedExec {
    device: Arc<DeviceState>,
    handle: GraphExecHandle,
}

impl OwnedExec {
    pub(super) fn handle(&self) -> GraphExecHandle {
        self.handle
    }

    pub(super) fn device(&self) -> &Arc<DeviceState> {
        &self.device
    }
}

impl Drop for OwnedExec {
    fn drop(&mut self) {
        self.device
            .page_locked()
            .idle_frees
            .defer(Resource::Graph(self.handle), SmallVec::new());
    }
}
