//! Graph calls that take more than their arguments: nodes by kind, results with a node.
//!
//! The methods here require the context to be current, which the methods of
//! [`Driver`](crate::Driver) that call them see to.

#![allow(unsafe_code, reason = "calls libcuda's graph functions")]

use std::{ffi::c_int, ptr};

use super::{Result, missing};
use crate::{
    ActiveCapture, CaptureInfo, CaptureStatus, ConditionHandle, ConditionalKind, ConditionalNode,
    ContextHandle, DriverError, GraphExecHandle, GraphHandle, GraphNode, GraphNodeHandle,
    LaunchAttributes, ResultCode, StreamHandle,
    cuda::{
        Cuda, api,
        convert::{kernel_node, launch_attributes, memcpy_3d, memset},
        fork,
    },
};

/// The first driver with WHILE and IF nodes, by the CUDA version that it supports: 12.4.
const CONDITIONAL_VERSION: c_int = 12_040;

impl Cuda {
    /// Implements [`Driver::graph_add_node`](crate::Driver::graph_add_node).
    ///
    /// # Safety
    ///
    /// As there; `context` is current.
    pub(super) unsafe fn add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        let mut added = GraphNodeHandle::from_raw(0);
        let (list, count) = (dependencies.as_ptr(), dependencies.len());
        match node {
            GraphNode::Kernel(kernel) => {
                let params = kernel_node(kernel);
                // SAFETY: the caller vouches for graph, dependencies, kernel and arguments, the
                // parameters live until the call has returned, and the result goes to a local.
                unsafe {
                    call!(
                        self,
                        cuGraphAddKernelNode(&mut added, graph, list, count, &params)
                    )
                }?;
                // SAFETY: the node was just added.
                if let Err(error) = unsafe { self.set_attributes(added, &kernel.attributes) } {
                    // SAFETY: the node was just added, and its handle is not returned. The first
                    // error says more than one of this call.
                    let _ = unsafe { call!(self, cuGraphDestroyNode(added)) };
                    return Err(error);
                }
            }
            GraphNode::Copy(copy) => {
                let params = memcpy_3d(copy);
                // SAFETY: the caller vouches for graph, dependencies and memory, the parameters
                // live until the call has returned, and the result goes to a local.
                unsafe {
                    call!(
                        self,
                        cuGraphAddMemcpyNode(&mut added, graph, list, count, &params, context)
                    )
                }?;
            }
            &GraphNode::Fill {
                target,
                pattern,
                count: elements,
            } => {
                let params = memset(target, pattern, elements);
                // SAFETY: as for a copy.
                unsafe {
                    call!(
                        self,
                        cuGraphAddMemsetNode(&mut added, graph, list, count, &params, context)
                    )
                }?;
            }
            GraphNode::Empty => {
                // SAFETY: the caller vouches for graph and dependencies, and the result goes to a
                // local.
                unsafe { call!(self, cuGraphAddEmptyNode(&mut added, graph, list, count)) }?;
            }
            &GraphNode::Child(child) => {
                // SAFETY: the caller vouches for both graphs and the dependencies, and the result
                // goes to a local.
                unsafe {
                    call!(
                        self,
                        cuGraphAddChildGraphNode(&mut added, graph, list, count, child)
                    )
                }?;
            }
        }
        Ok(added)
    }

    /// Sets the attributes of a kernel node that are not the default.
    ///
    /// # Safety
    ///
    /// `node` is a live kernel node.
    unsafe fn set_attributes(
        &self,
        node: GraphNodeHandle,
        attributes: &LaunchAttributes,
    ) -> Result<()> {
        for attribute in launch_attributes(attributes) {
            let value = attribute.value.as_ptr().cast();
            // SAFETY: the caller vouches for the node, and the value has the 64 bytes of the union.
            unsafe {
                call!(
                    self,
                    cuGraphKernelNodeSetAttribute(node, attribute.id, value)
                )
            }?;
        }
        Ok(())
    }

    /// Implements [`Driver::graph_exec_set_node`](crate::Driver::graph_exec_set_node).
    ///
    /// # Safety
    ///
    /// As there; `context` is current.
    pub(super) unsafe fn set_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        match operation {
            GraphNode::Kernel(kernel) => {
                let params = kernel_node(kernel);
                // SAFETY: the caller vouches for graph, node, kernel and arguments, and the
                // parameters live until the call has returned.
                unsafe { call!(self, cuGraphExecKernelNodeSetParams(exec, node, &params)) }
            }
            GraphNode::Copy(copy) => {
                let params = memcpy_3d(copy);
                // SAFETY: the caller vouches for graph, node and memory, and the parameters live
                // until the call has returned.
                unsafe {
                    call!(
                        self,
                        cuGraphExecMemcpyNodeSetParams(exec, node, &params, context)
                    )
                }
            }
            &GraphNode::Fill {
                target,
                pattern,
                count,
            } => {
                let params = memset(target, pattern, count);
                // SAFETY: as for a copy.
                unsafe {
                    call!(
                        self,
                        cuGraphExecMemsetNodeSetParams(exec, node, &params, context)
                    )
                }
            }
            GraphNode::Empty => Err(DriverError::new(
                "cuGraphExecNodeSetParams",
                ResultCode::INVALID_VALUE,
            )
            .with_detail("an empty node has no parameters")),
            &GraphNode::Child(child) => {
                // SAFETY: the caller vouches for graph, node and child.
                unsafe { call!(self, cuGraphExecChildGraphNodeSetParams(exec, node, child)) }
            }
        }
    }

    /// Implements [`Driver::graph_set_node`](crate::Driver::graph_set_node).
    ///
    /// # Safety
    ///
    /// As there; the node's context is current.
    pub(super) unsafe fn set_template_node(
        &self,
        _: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        match operation {
            GraphNode::Kernel(kernel) => {
                let params = kernel_node(kernel);
                // SAFETY: the caller vouches for node, kernel and arguments, and the parameters
                // live until the call has returned.
                unsafe { call!(self, cuGraphKernelNodeSetParams(node, &params)) }
            }
            GraphNode::Copy(copy) => {
                let params = memcpy_3d(copy);
                // SAFETY: the caller vouches for node and memory, and the parameters live until the
                // call has returned.
                unsafe { call!(self, cuGraphMemcpyNodeSetParams(node, &params)) }
            }
            &GraphNode::Fill {
                target,
                pattern,
                count,
            } => {
                let params = memset(target, pattern, count);
                // SAFETY: as for a copy.
                unsafe { call!(self, cuGraphMemsetNodeSetParams(node, &params)) }
            }
            GraphNode::Empty | GraphNode::Child(_) => Err(DriverError::new(
                "cuGraphNodeSetParams",
                ResultCode::INVALID_VALUE,
            )
            .with_detail("an empty node and a child cannot be changed")),
        }
    }

    /// Implements [`Driver::graph_condition`](crate::Driver::graph_condition).
    ///
    /// # Safety
    ///
    /// As there; `context` is current.
    pub(super) unsafe fn create_condition(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32,
    ) -> Result<ConditionHandle> {
        const CALL: &str = "cuGraphConditionalHandleCreate";
        let create = self
            .api
            .cuGraphConditionalHandleCreate
            .filter(|_| self.version >= CONDITIONAL_VERSION)
            .ok_or_else(|| no_conditionals(CALL))?;
        fork::check(CALL)?;
        let mut condition = ConditionHandle::from_raw(0);
        let flags = api::GRAPH_COND_ASSIGN_DEFAULT;
        // SAFETY: the caller vouches for the graph, and the result goes to a local.
        let code = unsafe { create(&mut condition, graph, context, initial, flags) };
        self.check(CALL, code)?;
        Ok(condition)
    }

    /// Implements [`Driver::graph_add_conditional`](crate::Driver::graph_add_conditional).
    ///
    /// # Safety
    ///
    /// As there; `context` is current.
    pub(super) unsafe fn add_conditional(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> Result<ConditionalNode> {
        const CALL: &str = "cuGraphAddNode";
        let add = self
            .api
            .cuGraphAddNode
            .filter(|_| self.version >= CONDITIONAL_VERSION)
            .ok_or_else(|| no_conditionals(CALL))?;
        fork::check(CALL)?;
        let mut params = api::ConditionalNodeParams {
            node_type: api::GRAPH_NODE_TYPE_CONDITIONAL,
            reserved_0: [0; 3],
            conditional: api::ConditionalParams {
                condition,
                kind: match kind {
                    ConditionalKind::If => api::GRAPH_COND_TYPE_IF,
                    ConditionalKind::While => api::GRAPH_COND_TYPE_WHILE,
                },
                body_count: 1,
                bodies: ptr::null_mut(),
                context,
            },
            padding: [0; 25],
            reserved_2: 0,
        };
        let mut node = GraphNodeHandle::from_raw(0);
        // SAFETY: the caller vouches for graph, dependencies and condition; without edge data every
        // dependency is of the ordinary kind; the results go to locals.
        let code = unsafe {
            add(
                &mut node,
                graph,
                dependencies.as_ptr(),
                ptr::null(),
                dependencies.len(),
                &mut params,
            )
        };
        self.check(CALL, code)?;
        // SAFETY: on success the driver returned a list of as many graphs as were asked for: one.
        let body = unsafe { *params.conditional.bodies };
        Ok(ConditionalNode { node, body })
    }

    /// Implements [`Driver::graph_instantiate`](crate::Driver::graph_instantiate).
    ///
    /// # Safety
    ///
    /// As there; the context is current.
    pub(super) unsafe fn instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        let mut exec = GraphExecHandle::from_raw(0);
        let mut params = api::InstantiateParams {
            flags: 0,
            upload_stream: StreamHandle::from_raw(0),
            error_node: GraphNodeHandle::from_raw(0),
            result: 0,
        };
        // SAFETY: the caller vouches for the graph, and the results go to locals.
        unsafe {
            call!(
                self,
                cuGraphInstantiateWithParams(&mut exec, graph, &mut params)
            )
        }
        .map_err(|error| {
            let error = error.with_graph_node(params.error_node);
            match params.result {
                2 => error.with_detail("the structure of the graph is invalid"),
                3 => error.with_detail("the operation of a node is not supported"),
                4 => error.with_detail("the nodes belong to several contexts"),
                5 => error.with_detail("a condition belongs to no conditional node"),
                _ => error,
            }
        })?;
        Ok(exec)
    }

    /// Implements [`Driver::graph_exec_update`](crate::Driver::graph_exec_update).
    ///
    /// # Safety
    ///
    /// As there; the context is current.
    pub(super) unsafe fn update_exec(
        &self,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        let mut info = api::ExecUpdateResultInfo {
            result: 0,
            error_node: GraphNodeHandle::from_raw(0),
            error_from_node: GraphNodeHandle::from_raw(0),
        };
        // SAFETY: the caller vouches for both graphs, and the result goes to a local.
        unsafe { call!(self, cuGraphExecUpdate(exec, graph, &mut info)) }.map_err(|error| {
            let error = error.with_graph_node(info.error_node);
            match info.result {
                2 => error.with_detail("the topology changed"),
                3 => error.with_detail("the kind of a node changed"),
                4 => error.with_detail("the kernel of a node changed in an unsupported way"),
                5 => error.with_detail("parameters changed that cannot change"),
                6 => error.with_detail("a node does not support updates"),
                7 => error.with_detail("a node's kernel changed to one of another context"),
                8 => error.with_detail("the launch attributes of a node changed"),
                _ => error,
            }
        })
    }

    /// Implements [`Driver::stream_capture_info`](crate::Driver::stream_capture_info).
    ///
    /// # Safety
    ///
    /// As there; the context of a default stream is current.
    pub(super) unsafe fn capture_info(&self, stream: StreamHandle) -> Result<CaptureInfo> {
        let (mut status, mut id, mut count) = (0, 0, 0);
        let mut graph = GraphHandle::from_raw(0);
        let mut list: *const GraphNodeHandle = ptr::null();
        // SAFETY: the caller vouches for the stream, and the results go to locals.
        unsafe {
            call!(
                self,
                cuStreamGetCaptureInfo(
                    stream,
                    &mut status,
                    &mut id,
                    &mut graph,
                    &mut list,
                    &mut count
                )
            )
        }?;
        Ok(match status {
            api::STREAM_CAPTURE_STATUS_ACTIVE => CaptureInfo {
                status: CaptureStatus::Active,
                active: Some(ActiveCapture {
                    id,
                    graph,
                    dependencies: if count == 0 {
                        Vec::new()
                    } else {
                        // SAFETY: the driver returned a list of `count` nodes, which is valid until
                        // the next call that concerns the stream.
                        unsafe { std::slice::from_raw_parts(list, count) }.to_vec()
                    },
                }),
            },
            api::STREAM_CAPTURE_STATUS_INVALIDATED => CaptureInfo {
                status: CaptureStatus::Invalidated,
                active: None,
            },
            _ => CaptureInfo {
                status: CaptureStatus::None,
                active: None,
            },
        })
    }
}

/// Creates the error for a driver without conditional nodes.
#[cold]
fn no_conditionals(call: &'static str) -> DriverError {
    missing(
        call,
        "the driver is older than CUDA 12.4 and has no conditional nodes",
    )
}
