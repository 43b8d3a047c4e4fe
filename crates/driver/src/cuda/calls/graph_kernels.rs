//! The kernels of a graph that exists.

#![allow(unsafe_code, reason = "calls libcuda's graph functions")]

use std::{
    ffi::{c_int, c_void},
    ptr, slice,
};

use super::Result;
use crate::{
    ContextHandle, FunctionHandle, GraphHandle, GraphKernel, GraphNodeHandle, LaunchAttributes,
    LaunchDims, ResultCode,
    cuda::{Cuda, api, fork},
};

/// Writes a list of nodes to a place for so many, or to none, and returns their number.
type List<'a> = dyn Fn(*mut GraphNodeHandle, &mut usize) -> Result<()> + 'a;

impl Cuda {
    /// Implements [`Driver::graph_kernels`](crate::Driver::graph_kernels).
    ///
    /// # Safety
    ///
    /// As there; the context is current.
    pub(super) unsafe fn kernels_of(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<Option<Vec<GraphKernel>>> {
        let nodes = list(&|nodes, count| {
            // SAFETY: the caller vouches for the graph; `nodes` is null or has room for `count`.
            unsafe { call!(self, cuGraphGetNodes(graph, nodes, count)) }
        })?;
        let mut left = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut kind = 0;
            // SAFETY: the driver just named the node, and the result goes to a local.
            unsafe { call!(self, cuGraphNodeGetType(node, &mut kind)) }?;
            if kind != api::GRAPH_NODE_TYPE_KERNEL {
                return Ok(None);
            }
            let before = list(&|nodes, count| {
                // SAFETY: the driver just named the node; `nodes` is null or has room for `count`.
                unsafe { call!(self, cuGraphNodeGetDependencies(node, nodes, count)) }
            });
            let before = match before {
                Err(error) if error.code() == ResultCode::LOSSY_QUERY => return Ok(None),
                before => before?,
            };
            left.push((node, before));
        }
        let mut done: Vec<GraphNodeHandle> = Vec::with_capacity(left.len());
        let mut kernels = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let is_next = |(_, before): &(_, Vec<GraphNodeHandle>)| {
                before.iter().all(|before| done.contains(before))
            };
            let Some(next) = left.iter().position(is_next) else {
                // A cycle, which the driver refuses at instantiation only.
                return Ok(None);
            };
            let (node, _) = left.remove(next);
            // SAFETY: the node is a kernel of a graph that is alive.
            let Some(kernel) = (unsafe { self.kernel_of(context, node) })? else {
                return Ok(None);
            };
            done.push(node);
            kernels.push(kernel);
        }
        Ok(Some(kernels))
    }

    /// Returns a kernel, or `None` if the driver does not tell the sizes of its arguments.
    ///
    /// # Safety
    ///
    /// `node` is a kernel of a graph that is alive; `context` is its context, and current.
    unsafe fn kernel_of(
        &self,
        context: ContextHandle,
        node: GraphNodeHandle,
    ) -> Result<Option<GraphKernel>> {
        let mut fields = api::KernelNodeParams {
            function: FunctionHandle::from_raw(0),
            grid: [0; 3],
            block: [0; 3],
            shared_bytes: 0,
            params: ptr::null_mut(),
            extra: ptr::null_mut(),
            kernel: 0,
            context: ContextHandle::from_raw(0),
        };
        // SAFETY: the caller vouches for the node, and the result goes to a local.
        unsafe { call!(self, cuGraphKernelNodeGetParams(node, &mut fields)) }?;
        if fields.function == FunctionHandle::from_raw(0) || !fields.extra.is_null() {
            return Ok(None);
        }
        // SAFETY: the driver just named the function.
        let Some(layouts) = (unsafe { self.function_params(context, fields.function) })? else {
            return Ok(None);
        };
        let values: &[*mut c_void] = match layouts.len() {
            0 => &[],
            _ if fields.params.is_null() => return Ok(None),
            // SAFETY: the driver keeps the address of a value for each parameter until the node is
            // changed or destroyed.
            count => unsafe { slice::from_raw_parts(fields.params, count) },
        };
        let params = values.iter().zip(layouts).map(|(value, layout)| {
            // SAFETY: as above; the value has the size of its parameter.
            unsafe { slice::from_raw_parts(value.cast::<u8>(), layout.size) }.into()
        });
        Ok(Some(GraphKernel {
            function: fields.function,
            dims: LaunchDims {
                grid: fields.grid,
                block: fields.block,
                shared_bytes: fields.shared_bytes,
            },
            params: params.collect(),
            // SAFETY: the caller vouches for the node.
            attributes: unsafe { self.attributes_of(node) }?,
        }))
    }

    /// Returns the attributes of a kernel.
    ///
    /// # Safety
    ///
    /// `node` is a kernel of a graph that is alive.
    unsafe fn attributes_of(&self, node: GraphNodeHandle) -> Result<LaunchAttributes> {
        let words = |attribute: c_int| {
            let mut value = [0_i32; 16];
            let result = value.as_mut_ptr().cast();
            // SAFETY: the caller vouches for the node, and the result has the 64 bytes of the
            // union.
            unsafe { call!(self, cuGraphKernelNodeGetAttribute(node, attribute, result)) }?;
            Ok(value)
        };
        let [cooperative, ..] = words(api::LAUNCH_ATTRIBUTE_COOPERATIVE)?;
        let [x, y, z, ..] = words(api::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)?;
        let [priority, ..] = words(api::LAUNCH_ATTRIBUTE_PRIORITY)?;
        Ok(LaunchAttributes {
            cooperative: cooperative != 0,
            cluster: (x != 0).then_some([x, y, z].map(i32::cast_unsigned)),
            priority: (priority != 0).then_some(priority),
        })
    }
}

fn list(read: &List<'_>) -> Result<Vec<GraphNodeHandle>> {
    let mut count = 0;
    read(ptr::null_mut(), &mut count)?;
    let mut nodes = vec![GraphNodeHandle::from_raw(0); count];
    if count > 0 {
        read(nodes.as_mut_ptr(), &mut count)?;
    }
    nodes.truncate(count);
    Ok(nodes)
}
