//! The implementation of [`Driver`]: a macro generates each method from the driver's table. It
//! locks the simulator state, adds the call's cost (`cost_ns`) and calls the guard's method of the
//! same name. Methods with pointers to arguments are written by hand.

#![allow(unsafe_code, reason = "implements unsafe methods")]

use std::{ffi::c_void, ptr::NonNull, sync::Arc, time::Duration};

use millstream_driver::*;

use super::{
    copy::{CopyForm, CopyOperand},
    graph::GivenNode,
};
use crate::{
    CostModel, Gpu,
    core::{graph::ConditionalForm, host_threads},
    ids,
    memory::host::{HostParams, HostRange},
};

pub(super) type Result<T> = std::result::Result<T, DriverError>;

/// The maximum real time that a pause sleeps if no operation can run.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// Returns the cost of a call that was not measured separately.
pub(super) fn other(cost: &CostModel) -> u64 {
    cost.other_call_ns
}

/// Returns 0, for a call that adds its cost once it knows its operands.
pub(super) fn counted_inside(_: &CostModel) -> u64 {
    0
}

/// Converts one side of a 2-D copy to a copy operand.
///
/// # Safety
///
/// For rows in host memory the contract of [`HostRange::new`] applies.
pub(super) unsafe fn side(side: &Side2d, copy: &Copy2d) -> CopyOperand {
    match side.memory {
        Memory2d::Device(first) => CopyOperand::Device(first),
        Memory2d::Host(first) => {
            // A span that overflows is rejected before the range is used.
            let span = side.span_bytes(copy.width_bytes, copy.height);
            // SAFETY: the caller promises that the rows are valid; the bytes between them are never
            // accessed.
            unsafe { first.operand(span.unwrap_or(0), false) }
        }
    }
}

/// Converts the operation of a graph node.
///
/// # Safety
///
/// Each pointer to an argument of a kernel points to a readable value of the parameter's size. For
/// a copy of host memory the contract of [`HostRange::new`] applies.
pub(super) unsafe fn given<'a>(node: &'a GraphNode<'a>) -> GivenNode<'a> {
    match node {
        GraphNode::Kernel(kernel) => {
            // SAFETY: the caller promises readable values.
            let params = unsafe { HostParams::new(kernel.params) };
            GivenNode::Kernel(kernel, params)
        }
        GraphNode::Copy(copy) => {
            // SAFETY: the caller upholds the contract of `HostRange::new`.
            let target = unsafe { side(&copy.target, copy) };
            // SAFETY: the caller upholds the contract of `HostRange::new`.
            let source = unsafe { side(&copy.source, copy) };
            GivenNode::Copy((target, source), copy)
        }
        other => GivenNode::Other(other),
    }
}

/// An address in a call that copies.
trait Address {
    /// Converts the address to a copy operand. `unified` says that a device's address type may also
    /// hold an address of the host.
    ///
    /// # Safety
    ///
    /// For a host address the contract of [`HostRange::new`] applies.
    unsafe fn operand(self, bytes: usize, unified: bool) -> CopyOperand;
}

impl Address for DevicePtr {
    unsafe fn operand(self, bytes: usize, unified: bool) -> CopyOperand {
        if !unified {
            return CopyOperand::Device(self);
        }
        let pointer = std::ptr::with_exposed_provenance(self.as_raw() as usize);
        // SAFETY: a range at a device address is never accessed as host memory; for a host address
        // the caller upholds the contract of `HostRange::new`.
        CopyOperand::Unified(unsafe { HostRange::new(pointer, bytes) })
    }
}

impl Address for *const u8 {
    unsafe fn operand(self, bytes: usize, _: bool) -> CopyOperand {
        // SAFETY: the caller upholds the contract of `HostRange::new`.
        CopyOperand::Host(unsafe { HostRange::new(self, bytes) })
    }
}

impl Address for *mut u8 {
    unsafe fn operand(self, bytes: usize, unified: bool) -> CopyOperand {
        // SAFETY: the caller upholds the contract of `HostRange::new`.
        unsafe { self.cast_const().operand(bytes, unified) }
    }
}

/// Returns the cost of a call, by the name of its method; 0 for one that adds its cost once it
/// knows its operands.
#[inline(always)]
fn cost_ns(method: &str, cost: &CostModel) -> u64 {
    match method {
        "context_synchronize" | "stream_synchronize" | "event_synchronize" => {
            cost.synchronize_call_ns
        }
        "context_enable_peer_access" => cost.peer_access_call_ns,
        "stream_create" | "stream_destroy" => cost.stream_lifetime_call_ns,
        "stream_query" | "event_query" => cost.query_call_ns,
        "stream_wait_event" => cost.wait_call_ns,
        "event_create" | "event_destroy" => cost.event_lifetime_call_ns,
        "event_record" => cost.record_call_ns,
        "mem_alloc" | "mem_alloc_managed" | "mem_free" | "array_create" | "array_destroy" => {
            cost.device_memory_call_ns
        }
        "mem_prefetch_async" => cost.prefetch_call_ns,
        "mem_free_async" => cost.pool_call_ns,
        "pool_set_access" => cost.pool_access_call_ns,
        "host_alloc" | "host_free" => cost.pinned_memory_call_ns,
        "host_unregister" => cost.register_call_ns,
        "module_load" | "module_load_binary" | "module_unload" => cost.module_call_ns,
        "graph_instantiate" => cost.graph_instantiate_call_ns,
        "graph_upload" => cost.graph_upload_call_ns,
        "graph_launch" | "copy_peer_async" | "copy_peer_2d_async" => 0,
        _ => cost.other_call_ns,
    }
}

/// Implements a copy of bytes between two addresses.
macro_rules! copy {
    ($unified:literal $form:ident $name:ident [unsafe]
     ($context:ident: $c:ty, $target:ident: $t:ty, $source:ident: $s:ty, $bytes:ident: $b:ty
      $(, $stream:ident: $st:ty)?) -> $value:ty = $call:ident) => {
        unsafe fn $name(
            &self, $context: $c, $target: $t, $source: $s, $bytes: $b $(, $stream: $st)?
        ) -> Result<$value> {
            // SAFETY: the caller promises that a target in host memory is writable, with exclusive
            // access for the copy, until the copy is complete.
            let target = unsafe { $target.operand($bytes, $unified) };
            // SAFETY: the caller promises that a source in host memory is readable until the copy
            // is complete, or until the call has returned if the call captures it.
            let source = unsafe { $source.operand($bytes, $unified) };
            let stream = None$(.or(Some($stream)))?.unwrap_or(StreamHandle::LEGACY);
            self.call(stringify!($call), counted_inside, |state| {
                state.copy($context, (target, source), $bytes, stream, CopyForm::$form)
            })
        }
    };
}

/// Implements a method from its row: the state's method of the same name does the work.
macro_rules! method {
    (copy_host_to_device $($row:tt)*) => {
        copy! { false Synchronous copy_host_to_device $($row)* }
    };
    (copy_device_to_host $($row:tt)*) => {
        copy! { false Synchronous copy_device_to_host $($row)* }
    };
    (copy_device_to_device $($row:tt)*) => {
        copy! { false Synchronous copy_device_to_device $($row)* }
    };
    (copy_unified $($row:tt)*) => { copy! { true Synchronous copy_unified $($row)* } };
    (copy_host_to_device_async $($row:tt)*) => {
        copy! { false Async copy_host_to_device_async $($row)* }
    };
    (copy_device_to_host_async $($row:tt)*) => {
        copy! { false Async copy_device_to_host_async $($row)* }
    };
    (copy_device_to_device_async $($row:tt)*) => {
        copy! { false Async copy_device_to_device_async $($row)* }
    };
    (copy_unified_async $($row:tt)*) => { copy! { true Async copy_unified_async $($row)* } };
    (copy_captured_async $($row:tt)*) => {
        copy! { false AsyncCaptured copy_captured_async $($row)* }
    };
    // The simulated device has no contexts of other libraries.
    (make_current $($row:tt)*) => {};
    (current_context $($row:tt)*) => {};
    // These are implemented by hand.
    (memset_async $($row:tt)*) => {};
    (launch_kernel $($row:tt)*) => {};
    (launch_kernel_with $($row:tt)*) => {};
    (launch_host_function $($row:tt)*) => {};
    (graph_add_node $($row:tt)*) => {};
    (graph_add_conditional $($row:tt)*) => {};
    (graph_exec_set_node $($row:tt)*) => {};
    (graph_set_node $($row:tt)*) => {};
    (host_register $($row:tt)*) => {};
    (mem_alloc_async $($row:tt)*) => {};
    (copy_2d_async $($row:tt)*) => {};
    (copy_3d_async $($row:tt)*) => {};
    ($name:ident [safe] ($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        fn $name(&self, $($arg: $type),*) -> Result<$value> {
            let cost = |cost: &CostModel| cost_ns(stringify!($name), cost);
            self.call(stringify!($call), cost, |state| state.$name($($arg),*))
        }
    };
    ($name:ident [unsafe] ($($arg:ident: $type:ty),*) -> $value:ty = $call:ident) => {
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value> {
            let cost = |cost: &CostModel| cost_ns(stringify!($name), cost);
            self.call(stringify!($call), cost, |state| state.$name($($arg),*))
        }
    };
}

/// Implements the methods of the table.
macro_rules! implement {
    ($($(#[$doc:meta])* [$safety:ident $class:ident $(($stream:ident))? $($optional:ident)?]
       fn $name:ident $arguments:tt -> $value:ty = $call:ident $forward:tt;)*) => {
        $(method! { $name [$safety] $arguments -> $value = $call })*
    };
}

impl Driver for Gpu {
    fn name(&self) -> String {
        "the simulator".into()
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        if !self.is_of_this_process() {
            return 0;
        }
        let mut state = self.enter();
        // Reading the clock costs time too, so that a loop that waits for a time terminates.
        state.now_ns += state.config.cost.other_call_ns;
        state.now_ns
    }

    fn pause(&self, duration: Duration) {
        if !self.is_of_this_process() {
            return;
        }
        let mut state = self.enter();
        let before = state.progress;
        state.now_ns += u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        state.pause();
        state.settle();
        if state.progress == before {
            // No operation ran, so a polling thread sleeps instead of burning a core.
            let limit = PAUSE_MAX.min(duration);
            if host_threads::pauses(duration) {
                state.sleep_or_fail(Some(limit));
            } else {
                state.sleep(limit);
            }
        } else {
            drop(state);
            self.inner.changed.notify_all();
        }
    }

    fn stream_number(&self, stream: StreamHandle) -> Option<u64> {
        ids::stream_number(stream)
    }

    fn note_host_access(&self, access: &HostAccess) {
        if self.is_of_this_process() {
            self.host_accesses(access);
        }
    }

    fn note_memory_reuse(&self, reuse: &MemoryReuse) {
        if self.is_of_this_process() {
            self.memory_is_reused(reuse);
        }
    }

    fn note_float_operands(&self, function: FunctionHandle, operands: &[FloatOperand]) {
        self.enter().note_float_operands(function, operands);
    }

    unsafe fn mem_alloc_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        self.call(
            "cuMemAllocAsync",
            |cost| cost.pool_call_ns,
            |state| state.mem_alloc_async(context, bytes, None, stream),
        )
    }

    unsafe fn host_register(
        &self,
        context: ContextHandle,
        pointer: NonNull<u8>,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller promises that the range is valid until it is unregistered.
        let range = unsafe { HostRange::new(pointer.as_ptr(), bytes) };
        self.call(
            "cuMemHostRegister",
            |cost| cost.register_call_ns,
            |state| state.host_register(context, range),
        )
    }

    unsafe fn copy_2d_async(
        &self,
        context: ContextHandle,
        copy: &Copy2d,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the caller promises rows that are writable, with exclusive access for the copy,
        // until the copy is complete.
        let target = unsafe { side(&copy.target, copy) };
        // SAFETY: the caller promises rows that are readable until the copy is complete.
        let source = unsafe { side(&copy.source, copy) };
        let ends = (target, source);
        self.call("cuMemcpy2DAsync", counted_inside, |state| {
            state.copy_2d(context, ends, copy, stream, CopyForm::Async)
        })
    }

    unsafe fn copy_3d_async(
        &self,
        context: ContextHandle,
        copy: &Copy3d,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.copy_box("cuMemcpy3DAsync", context, copy, stream, CopyForm::Async) }
    }

    unsafe fn memset_async(
        &self,
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()> {
        let name = match pattern {
            FillPattern::U8(_) => "cuMemsetD8Async",
            FillPattern::U16(_) => "cuMemsetD16Async",
            FillPattern::U32(_) => "cuMemsetD32Async",
        };
        self.call(
            name,
            |cost| cost.memset_call_ns,
            |state| state.memset(context, target, pattern, count, stream),
        )
    }

    unsafe fn launch_kernel(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller promises a readable value of each parameter's size.
        let params = unsafe { HostParams::new(params) };
        self.call(
            "cuLaunchKernel",
            |cost| cost.launch_call_ns,
            |state| state.launch_kernel(context, function, (dims, false), stream, params),
        )
    }

    unsafe fn launch_kernel_with(
        &self,
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        attributes: &LaunchAttributes,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller promises a readable value of each parameter's size.
        let params = unsafe { HostParams::new(params) };
        self.call(
            "cuLaunchKernelEx",
            |cost| cost.launch_call_ns,
            |state| state.launch_kernel_with(context, function, dims, attributes, stream, params),
        )
    }

    unsafe fn launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        function: HostFunction,
    ) -> Result<()> {
        // The option outlives the call, so that a rejected function is dropped without the lock:
        // its captures belong to the caller and may call the driver.
        let mut function = Some(function);
        self.call(
            "cuLaunchHostFunc",
            |cost| cost.host_function_call_ns,
            |state| state.launch_host_function(context, stream, &mut function),
        )
    }

    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &GraphNode<'_>,
    ) -> Result<GraphNodeHandle> {
        let name = match node {
            GraphNode::Kernel(_) => "cuGraphAddKernelNode",
            GraphNode::Copy(_) => "cuGraphAddMemcpyNode",
            GraphNode::Fill { .. } => "cuGraphAddMemsetNode",
            GraphNode::Empty => "cuGraphAddEmptyNode",
            GraphNode::Child(_) => "cuGraphAddChildGraphNode",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let node = unsafe { given(node) };
        self.call(
            name,
            |cost| cost.graph_node_call_ns,
            |state| state.graph_add_node(context, graph, dependencies, &node),
        )
    }

    unsafe fn graph_add_conditional(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind,
    ) -> Result<ConditionalNode> {
        self.call(
            "cuGraphAddNode",
            |cost| cost.graph_node_call_ns,
            |state| {
                let form = match kind {
                    ConditionalKind::If => ConditionalForm::If,
                    ConditionalKind::While => ConditionalForm::While,
                };
                let (node, bodies) = state.graph_add_conditional(
                    context,
                    graph,
                    dependencies,
                    condition,
                    (form, 1),
                )?;
                Ok(ConditionalNode {
                    node,
                    body: bodies[0],
                })
            },
        )
    }

    unsafe fn graph_exec_set_node(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        let name = match operation {
            GraphNode::Kernel(_) => "cuGraphExecKernelNodeSetParams",
            GraphNode::Copy(_) => "cuGraphExecMemcpyNodeSetParams",
            GraphNode::Fill { .. } => "cuGraphExecMemsetNodeSetParams",
            GraphNode::Empty => "cuGraphExecNodeSetParams",
            GraphNode::Child(_) => "cuGraphExecChildGraphNodeSetParams",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given(operation) };
        self.call(
            name,
            |cost| cost.graph_set_node_call_ns,
            |state| state.graph_exec_set_node(context, exec, node, &operation),
        )
    }

    unsafe fn graph_set_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        node: GraphNodeHandle,
        operation: &GraphNode<'_>,
    ) -> Result<()> {
        let name = match operation {
            GraphNode::Kernel(_) => "cuGraphKernelNodeSetParams",
            GraphNode::Copy(_) => "cuGraphMemcpyNodeSetParams",
            GraphNode::Fill { .. } => "cuGraphMemsetNodeSetParams",
            GraphNode::Empty | GraphNode::Child(_) => "cuGraphNodeSetParams",
        };
        // SAFETY: the caller promises what the node's operation requires, in every launch.
        let operation = unsafe { given(operation) };
        self.call(
            name,
            |cost| cost.graph_set_node_call_ns,
            |state| {
                state.graph(context, graph)?;
                state.check_node(graph, node)?;
                state.graph_set_node(context, node, &operation)
            },
        )
    }

    driver_methods!(implement);
}
