//! The calls of graphs that only programs of CUDA's driver API make: nodes for the host, events and
//! memory, branches, captures into a graph, and changes of graphs.

#![allow(unsafe_code, reason = "the calls have the contracts of the driver's")]

use millstream_driver::{
    CaptureMode, ConditionHandle, ContextHandle, DeviceOrdinal, DevicePtr, EventHandle,
    GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle, StreamHandle,
};

use super::{
    driver::{Result, given, other},
    graph::GivenNode,
};
use crate::{
    Gpu,
    core::{
        graph::{ConditionalForm, NodeOperation},
        objects::host_functions::RepeatedFunction,
    },
};

/// The operation of a graph's node: one of the driver interface, or a further one.
///
/// ```
/// use millstream_driver::{EventHandle, GraphNode};
/// use millstream_sim::ProgramNode;
/// let event = EventHandle::from_raw(7);
/// let nodes = [ProgramNode::Driver(GraphNode::Empty), ProgramNode::Wait(event)];
/// assert!(matches!(nodes[0], ProgramNode::Driver(_)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProgramNode<'a> {
    /// An operation of the driver interface.
    Driver(GraphNode<'a>),
    /// A call of a host function (`cuGraphAddHostNode`).
    Host(RepeatedFunction),
    /// A record of an event (`cuGraphAddEventRecordNode`), as on a stream at the launch.
    Record(EventHandle),
    /// A wait for the event's last record before the launch (`cuGraphAddEventWaitNode`).
    Wait(EventHandle),
    /// The end of memory that the graph allocates (`cuGraphAddMemFreeNode`).
    Free(DevicePtr),
}

/// The use of a condition by a node with several bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchKind {
    /// The first body runs if the value is not 0, else the second one.
    IfElse,
    /// The body with the value as its index runs, if there is one.
    Switch,
}

/// Passes on the caller's promises about a node.
///
/// # Safety
///
/// As for [`graph_add_node`](millstream_driver::Driver::graph_add_node).
unsafe fn given_by_program<'a>(node: &'a ProgramNode<'a>) -> GivenNode<'a> {
    GivenNode::Own(match node {
        ProgramNode::Driver(node) => {
            // SAFETY: the caller promises what the node's operation requires.
            return unsafe { given(node) };
        }
        ProgramNode::Host(function) => NodeOperation::Host(function.clone()),
        ProgramNode::Record(event) => NodeOperation::Record(*event),
        ProgramNode::Wait(event) => NodeOperation::Wait(*event),
        ProgramNode::Free(pointer) => NodeOperation::Free(pointer.as_raw()),
    })
}

impl Gpu {
    /// Adds a node, like [`graph_add_node`](millstream_driver::Driver::graph_add_node). The body of
    /// a conditional node has no nodes for the host, events or memory.
    ///
    /// # Errors
    ///
    /// As `graph_add_node`, and `INVALID_VALUE` for an event that is not alive and for memory that
    /// no node of the graph allocates.
    ///
    /// # Safety
    ///
    /// As `graph_add_node`.
    pub unsafe fn graph_add_program_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &ProgramNode<'_>,
    ) -> Result<GraphNodeHandle> {
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let node = unsafe { given_by_program(node) };
        self.call(
            "cuGraphAddNode",
            |cost| cost.graph_node_call_ns,
            |state| state.graph_add_node(context, graph, dependencies, &node),
        )
    }

    /// Adds an allocation (`cuGraphAddMemAllocNode`, rule 45), whose memory lives as long as the
    /// graph and the executable graphs made from it.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY` if the device has not enough memory.
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn graph_add_allocation(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        device: DeviceOrdinal,
        bytes: usize,
    ) -> Result<(GraphNodeHandle, DevicePtr)> {
        self.call(
            "cuGraphAddMemAllocNode",
            |cost| cost.graph_node_call_ns,
            |state| state.graph_add_allocation(context, graph, dependencies, device, bytes),
        )
    }

    /// Adds a conditional node with `bodies` empty bodies (`cuGraphAddNode`).
    ///
    /// # Errors
    ///
    /// As [`graph_add_conditional`](millstream_driver::Driver::graph_add_conditional).
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn graph_add_branches(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        (kind, bodies): (BranchKind, u32),
    ) -> Result<(GraphNodeHandle, Vec<GraphHandle>)> {
        let form = match kind {
            BranchKind::IfElse => ConditionalForm::If,
            BranchKind::Switch => ConditionalForm::Switch,
        };
        self.call(
            "cuGraphAddNode",
            |cost| cost.graph_node_call_ns,
            |state| {
                let of = (form, bodies);
                state.graph_add_conditional(context, graph, dependencies, condition, of)
            },
        )
    }

    /// Replaces the operation of a node of a graph (`cuGraphKernelNodeSetParams` and its like).
    /// Executable graphs stay as they are.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a node that is not alive, and for an operation of another kind.
    ///
    /// # Safety
    ///
    /// As [`graph_add_node`](millstream_driver::Driver::graph_add_node).
    pub unsafe fn graph_set_program_node(
        &self,
        context: ContextHandle,
        node: GraphNodeHandle,
        operation: &ProgramNode<'_>,
    ) -> Result<()> {
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given_by_program(operation) };
        self.call(
            "cuGraphNodeSetParams",
            |cost| cost.graph_set_node_call_ns,
            |state| state.graph_set_node(context, node, &operation),
        )
    }

    /// Changes the operation of a node in later launches, like
    /// [`graph_exec_set_node`](millstream_driver::Driver::graph_exec_set_node).
    ///
    /// # Errors
    ///
    /// As `graph_exec_set_node`.
    ///
    /// # Safety
    ///
    /// As `graph_exec_set_node`.
    pub unsafe fn graph_exec_set_program_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &ProgramNode<'_>,
    ) -> Result<()> {
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given_by_program(operation) };
        self.call(
            "cuGraphExecNodeSetParams",
            |cost| cost.graph_set_node_call_ns,
            |state| state.graph_exec_set_node(context, exec, node, &operation),
        )
    }

    /// Sets whether later launches run the operation of a kernel, copy or fill
    /// (`cuGraphNodeSetEnabled`).
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a node of another kind, or of no graph that `exec` was made from.
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn graph_exec_set_enabled(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()> {
        self.call("cuGraphNodeSetEnabled", other, |state| {
            let disabled = state.graph_exec_disabled(context, exec, node)?;
            *disabled = !enabled;
            Ok(())
        })
    }

    /// Returns whether launches run the operation of a kernel, copy or fill
    /// (`cuGraphNodeGetEnabled`).
    ///
    /// # Errors
    ///
    /// As [`graph_exec_set_enabled`](Self::graph_exec_set_enabled).
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn graph_exec_enabled(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
    ) -> Result<bool> {
        self.call("cuGraphNodeGetEnabled", other, |state| {
            Ok(!*state.graph_exec_disabled(context, exec, node)?)
        })
    }

    /// Removes dependencies between nodes (`cuGraphRemoveDependencies`).
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a dependency that does not exist.
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn graph_remove_dependencies(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)],
    ) -> Result<()> {
        self.call("cuGraphRemoveDependencies", other, |state| {
            state.graph_remove_dependencies(context, graph, pairs)
        })
    }

    /// Removes a node with its dependencies (`cuGraphDestroyNode`).
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a node that is not alive, and for one of a graph that a stream captures
    /// into.
    ///
    /// # Safety
    ///
    /// The node is not used again, and neither are the bodies that it has.
    pub unsafe fn graph_remove_node(
        &self,
        context: ContextHandle,
        node: GraphNodeHandle,
    ) -> Result<()> {
        self.call("cuGraphDestroyNode", other, |state| {
            state.graph_remove_node(context, node)
        })
    }

    /// Begins a capture that adds to a graph, behind `dependencies`
    /// (`cuStreamBeginCaptureToGraph`).
    ///
    /// # Errors
    ///
    /// As [`stream_begin_capture`](millstream_driver::Driver::stream_begin_capture), and
    /// `ILLEGAL_STATE` for a graph that a stream captures into.
    ///
    /// # Safety
    ///
    /// The handles are alive.
    pub unsafe fn stream_begin_capture_into(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        mode: CaptureMode,
    ) -> Result<()> {
        self.call("cuStreamBeginCaptureToGraph", other, |state| {
            state.stream_begin_capture_into(context, stream, (graph, dependencies), mode)
        })
    }

    /// Enqueues a host function, which a capture takes as a node (`cuLaunchHostFunc`).
    ///
    /// # Errors
    ///
    /// As [`launch_host_function`](millstream_driver::Driver::launch_host_function).
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`. The function does not call the driver.
    pub unsafe fn launch_repeated_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: &RepeatedFunction,
    ) -> Result<()> {
        self.call(
            "cuLaunchHostFunc",
            |cost| cost.host_function_call_ns,
            |state| state.launch_repeated_function(context, stream, function),
        )
    }
}
