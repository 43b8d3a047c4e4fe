//! Graph calls of the harness.

#![allow(unsafe_code, reason = "calls the seam's unsafe methods")]

use std::ffi::c_void;

use millstream_driver::{
    CaptureInfo, CaptureMode, ConditionHandle, ConditionalKind, ConditionalNode, Copy2d, DevicePtr,
    FillPattern, FunctionHandle, GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle,
    KernelNode, LaunchAttributes, LaunchDims, Side2d, StreamHandle,
};

use super::{Harness, Result};

/// Kernels for graphs. `add(word, value)` adds to a word. `count(word, condition)` decrements a
/// word and sets the condition to the new value. `set(condition, value)` sets a condition.
pub(crate) const GRAPH_PTX: &str = include_str!("graphs.ptx");

pub(crate) const ONE_THREAD: LaunchDims = LaunchDims {
    grid: [1; 3],
    block: [1; 3],
    shared_bytes: 0,
};

impl Harness {
    calls! {
        graph_create() -> GraphHandle;
        graph_destroy(graph: GraphHandle) -> ();
        graph_clone(graph: GraphHandle) -> GraphHandle;
        graph_add_dependencies(
            graph: GraphHandle,
            pairs: &[(GraphNodeHandle, GraphNodeHandle)],
        ) -> ();
        graph_condition(graph: GraphHandle, initial: u32) -> ConditionHandle;
        graph_add_conditional(
            graph: GraphHandle,
            dependencies: &[GraphNodeHandle],
            condition: ConditionHandle,
            kind: ConditionalKind,
        ) -> ConditionalNode;
        graph_instantiate(graph: GraphHandle) -> GraphExecHandle;
        graph_exec_destroy(exec: GraphExecHandle) -> ();
        graph_upload(exec: GraphExecHandle, stream: StreamHandle) -> ();
        graph_launch(exec: GraphExecHandle, stream: StreamHandle) -> ();
        graph_exec_update(exec: GraphExecHandle, graph: GraphHandle) -> ();
        stream_begin_capture(stream: StreamHandle, mode: CaptureMode) -> ();
        stream_end_capture(stream: StreamHandle) -> GraphHandle;
        stream_capture_info(stream: StreamHandle) -> CaptureInfo;
        stream_set_capture_dependencies(
            stream: StreamHandle,
            dependencies: &[GraphNodeHandle],
        ) -> ();
    }

    /// Adds a fill, a copy of device memory, a child or an empty node.
    pub(crate) fn graph_add(
        &self,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        assert!(!matches!(node, GraphNode::Kernel(_)), "see `graph_kernel`");
        // SAFETY: the simulator checks handles and device addresses; on a GPU they are alive.
        unsafe {
            self.driver
                .graph_add_node(self.context, graph, dependencies, node)
        }
    }

    /// Changes a fill or a copy of device memory in a graph.
    pub(crate) fn graph_set_own(
        &self,
        graph: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        assert!(
            !matches!(operation, GraphNode::Kernel(_)),
            "its parameters would be pointers"
        );
        // SAFETY: the simulator checks handles and device addresses; on a GPU they are alive.
        unsafe {
            self.driver
                .graph_set_node(self.context, graph, node, operation)
        }
    }

    /// Changes a fill, a copy of device memory or a child in an executable graph.
    pub(crate) fn graph_set(
        &self,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        assert!(
            !matches!(operation, GraphNode::Kernel(_)),
            "see `graph_set_kernel`"
        );
        // SAFETY: the simulator checks handles and device addresses; on a GPU they are alive.
        unsafe {
            self.driver
                .graph_exec_set_node(self.context, exec, node, operation)
        }
    }

    /// Adds a kernel.
    ///
    /// # Safety
    ///
    /// Each of `params` points to a value of its parameter's type.
    pub(crate) unsafe fn graph_kernel(
        &self,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        (function, dims): (FunctionHandle, LaunchDims),
        params: &[*const c_void],
    ) -> Result<GraphNodeHandle> {
        let node = kernel_node(function, dims, params);
        // SAFETY: the caller vouches for the parameters.
        unsafe {
            self.driver
                .graph_add_node(self.context, graph, dependencies, &node)
        }
    }

    /// Adds a kernel of [`GRAPH_PTX`] with one thread. A 32-bit parameter takes the lower half of
    /// its argument.
    pub(crate) fn graph_one_thread(
        &self,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        function: FunctionHandle,
        args: &[u64; 2],
    ) -> Result<GraphNodeHandle> {
        let params = args
            .each_ref()
            .map(|arg| std::ptr::from_ref(arg).cast::<c_void>());
        // SAFETY: each parameter of these kernels has at most 8 bytes, and there are two.
        unsafe { self.graph_kernel(graph, dependencies, (function, ONE_THREAD), &params) }
    }

    /// Changes a kernel in an executable graph.
    ///
    /// # Safety
    ///
    /// As [`graph_kernel`](Self::graph_kernel).
    pub(crate) unsafe fn graph_set_kernel(
        &self,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        (function, dims): (FunctionHandle, LaunchDims),
        params: &[*const c_void],
    ) -> Result<()> {
        let operation = kernel_node(function, dims, params);
        // SAFETY: the caller vouches for the parameters.
        unsafe {
            self.driver
                .graph_exec_set_node(self.context, exec, node, &operation)
        }
    }
}

fn kernel_node<'a>(
    function: FunctionHandle,
    dims: LaunchDims,
    params: &'a [*const c_void],
) -> GraphNode<'a> {
    GraphNode::Kernel(KernelNode {
        function,
        dims,
        attributes: LaunchAttributes::default(),
        params,
    })
}

pub(crate) fn fill(target: DevicePtr, value: u8, count: usize) -> GraphNode<'static> {
    GraphNode::Fill {
        target,
        pattern: FillPattern::U8(value),
        count,
    }
}

pub(crate) fn copy(target: DevicePtr, source: DevicePtr, bytes: usize) -> GraphNode<'static> {
    GraphNode::Copy(Copy2d {
        source: Side2d::device(source, bytes),
        target: Side2d::device(target, bytes),
        width_bytes: bytes,
        height: 1,
    })
}
