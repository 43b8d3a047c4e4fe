//! The calls of the simulated device as safe methods of [`Process`].
//!
//! The simulator checks handles, device addresses and launch configurations itself. The contracts
//! of its unsafe methods concern host memory and the order of accesses, and CUDA's contracts oblige
//! the calling program to the same.

#![allow(
    unsafe_code,
    reason = "passes on the promises of the calling program about its memory"
)]

use std::{ffi::c_void, ptr::NonNull};

use millstream_driver::{
    CaptureInfo, CaptureMode, Completion, ConditionHandle, ConditionalKind, ConditionalNode,
    ContextHandle, Copy2d, DeviceOrdinal, DevicePtr, Driver, DriverError, EventHandle, EventKind,
    FillPattern, FunctionAttribute, FunctionHandle, GraphExecHandle, GraphHandle, GraphNodeHandle,
    HostFunction, LaunchAttributes, LaunchDims, ManagedAdvice, ManagedLocation, Memory2d,
    ModuleHandle, P2pAttribute, PoolHandle, PoolUsage, PriorityRange, StreamHandle,
};

use millstream_sim::{BranchKind, ProgramNode, RepeatedFunction};

use crate::{codes::Answer, process::Process};

/// Labels a call with the place of the program's call, if reports show the label.
macro_rules! label {
    (plain, $process:expr) => {};
    (labelled, $process:expr) => {
        let _label = $process.label();
    };
}

macro_rules! calls {
    ($kind:ident: $(fn $name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {
        impl Process {
            $(pub(crate) fn $name(&self, $($argument: $ty),*) -> Answer$(<$result>)? {
                label!($kind, self);
                // SAFETY: the simulator checks handles and device addresses; the program vouches
                // for host memory and for the order of accesses, as the module says.
                let result = unsafe { self.gpu.$name($($argument),*) };
                result.map_err(|error| self.failed(&error))
            })*
        }
    };
}

calls! { plain:
    fn context_destroy(context: ContextHandle);
    fn context_synchronize(context: ContextHandle);
    fn context_enable_peer_access(context: ContextHandle, peer: ContextHandle);
    fn context_disable_peer_access(context: ContextHandle, peer: ContextHandle);
    fn primary_context_release(device: DeviceOrdinal);
    fn stream_priority_range(context: ContextHandle) -> PriorityRange;
    fn stream_destroy(context: ContextHandle, stream: StreamHandle);
    fn stream_query(context: ContextHandle, stream: StreamHandle) -> Completion;
    fn stream_synchronize(context: ContextHandle, stream: StreamHandle);
    fn stream_wait_event(context: ContextHandle, stream: StreamHandle, event: EventHandle);
    fn event_destroy(context: ContextHandle, event: EventHandle);
    fn event_record(context: ContextHandle, event: EventHandle, stream: StreamHandle);
    fn event_query(context: ContextHandle, event: EventHandle) -> Completion;
    fn event_synchronize(context: ContextHandle, event: EventHandle);
    fn event_elapsed_ms(context: ContextHandle, start: EventHandle, end: EventHandle) -> f32;
    fn mem_info(context: ContextHandle) -> (u64, u64);
    fn mem_advise(
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        advice: ManagedAdvice,
        location: ManagedLocation
    );
    fn pool_destroy(pool: PoolHandle);
    fn pool_set_release_threshold(pool: PoolHandle, bytes: u64);
    fn pool_set_access(pool: PoolHandle, device: DeviceOrdinal, accessible: bool);
    fn pool_trim(pool: PoolHandle, keep_bytes: usize);
    fn pool_usage(pool: PoolHandle) -> PoolUsage;
    fn module_unload(context: ContextHandle, module: ModuleHandle);
    fn module_function(
        context: ContextHandle,
        module: ModuleHandle,
        name: &str
    ) -> FunctionHandle;
    fn module_global(
        context: ContextHandle,
        module: ModuleHandle,
        name: &str
    ) -> (DevicePtr, usize);
    fn function_attribute(
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute
    ) -> i32;
    fn function_set_attribute(
        context: ContextHandle,
        function: FunctionHandle,
        attribute: FunctionAttribute,
        value: i32
    );
}

calls! { plain:
    fn stream_begin_capture(context: ContextHandle, stream: StreamHandle, mode: CaptureMode);
    fn stream_end_capture(context: ContextHandle, stream: StreamHandle) -> GraphHandle;
    fn stream_capture_info(context: ContextHandle, stream: StreamHandle) -> CaptureInfo;
    fn stream_set_capture_dependencies(
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[GraphNodeHandle]
    );
    fn graph_destroy(context: ContextHandle, graph: GraphHandle);
    fn graph_add_dependencies(
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)]
    );
    fn stream_begin_capture_into(
        context: ContextHandle,
        stream: StreamHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        mode: CaptureMode
    );
    fn graph_remove_dependencies(
        context: ContextHandle,
        graph: GraphHandle,
        pairs: &[(GraphNodeHandle, GraphNodeHandle)]
    );
    fn graph_remove_node(context: ContextHandle, node: GraphNodeHandle);
    fn graph_exec_set_enabled(
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        enabled: bool
    );
    fn graph_exec_enabled(
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle
    ) -> bool;
    fn graph_condition(
        context: ContextHandle,
        graph: GraphHandle,
        initial: u32
    ) -> ConditionHandle;
    fn graph_exec_destroy(context: ContextHandle, exec: GraphExecHandle);
    fn graph_upload(context: ContextHandle, exec: GraphExecHandle, stream: StreamHandle);
    fn graph_launch(context: ContextHandle, exec: GraphExecHandle, stream: StreamHandle);
}

calls! { labelled:
    fn graph_create(context: ContextHandle) -> GraphHandle;
    fn graph_clone(context: ContextHandle, graph: GraphHandle) -> GraphHandle;
    fn graph_add_program_node(
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        node: &ProgramNode<'_>
    ) -> GraphNodeHandle;
    fn graph_add_allocation(
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        device: DeviceOrdinal,
        bytes: usize
    ) -> (GraphNodeHandle, DevicePtr);
    fn graph_add_branches(
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        of: (BranchKind, u32)
    ) -> (GraphNodeHandle, Vec<GraphHandle>);
    fn graph_add_conditional(
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[GraphNodeHandle],
        condition: ConditionHandle,
        kind: ConditionalKind
    ) -> ConditionalNode;
    fn graph_set_program_node(
        context: ContextHandle,
        node: GraphNodeHandle,
        operation: &ProgramNode<'_>
    );
    fn graph_exec_set_program_node(
        context: ContextHandle,
        exec: GraphExecHandle,
        node: GraphNodeHandle,
        operation: &ProgramNode<'_>
    );
    fn launch_repeated_function(
        context: ContextHandle,
        stream: StreamHandle,
        function: &RepeatedFunction
    );
    fn stream_create(context: ContextHandle, non_blocking: bool, priority: i32) -> StreamHandle;
    fn event_create(context: ContextHandle, kind: EventKind) -> EventHandle;
    fn mem_alloc(context: ContextHandle, bytes: usize) -> DevicePtr;
    fn mem_alloc_managed(context: ContextHandle, bytes: usize) -> DevicePtr;
    fn mem_alloc_async(context: ContextHandle, bytes: usize, stream: StreamHandle) -> DevicePtr;
    fn mem_alloc_from_pool_async(
        context: ContextHandle,
        bytes: usize,
        pool: PoolHandle,
        stream: StreamHandle
    ) -> DevicePtr;
    fn mem_free(context: ContextHandle, pointer: DevicePtr);
    fn mem_free_async(context: ContextHandle, pointer: DevicePtr, stream: StreamHandle);
    fn mem_prefetch_async(
        context: ContextHandle,
        pointer: DevicePtr,
        bytes: usize,
        location: ManagedLocation,
        stream: StreamHandle
    );
    fn host_alloc(context: ContextHandle, bytes: usize) -> NonNull<u8>;
    fn host_free(context: ContextHandle, pointer: NonNull<u8>);
    fn host_register(context: ContextHandle, pointer: NonNull<u8>, bytes: usize);
    fn host_unregister(context: ContextHandle, pointer: NonNull<u8>);
    fn copy_host_to_device_async(
        context: ContextHandle,
        target: DevicePtr,
        source: *const u8,
        bytes: usize,
        stream: StreamHandle
    );
    fn copy_device_to_host_async(
        context: ContextHandle,
        target: *mut u8,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle
    );
    fn copy_device_to_device_async(
        context: ContextHandle,
        target: DevicePtr,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle
    );
    fn copy_synchronous(
        context: ContextHandle,
        target: Memory2d,
        source: Memory2d,
        bytes: usize,
        stream: StreamHandle
    );
    fn copy_2d_async(context: ContextHandle, copy: &Copy2d, stream: StreamHandle);
    fn copy_2d_synchronous(context: ContextHandle, copy: &Copy2d, stream: StreamHandle);
    fn memset_async(
        context: ContextHandle,
        target: DevicePtr,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle
    );
    fn launch_kernel(
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        params: &[*const c_void]
    );
    fn launch_kernel_with(
        context: ContextHandle,
        function: FunctionHandle,
        dims: &LaunchDims,
        attributes: &LaunchAttributes,
        stream: StreamHandle,
        params: &[*const c_void]
    );
    fn launch_host_function(
        context: ContextHandle,
        stream: StreamHandle,
        function: HostFunction
    );
}

macro_rules! safe_calls {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        impl Process {
            $(pub(crate) fn $name(&self, $($argument: $ty),*) -> Answer<$result> {
                self.gpu.$name($($argument),*).map_err(|error| self.failed(&error))
            })*
        }
    };
}

safe_calls! {
    fn device_uuid(device: DeviceOrdinal) -> [u8; 16];
    fn device_total_bytes(device: DeviceOrdinal) -> u64;
    fn device_pci_bus_id(device: DeviceOrdinal) -> String;
    fn device_can_access_peer(device: DeviceOrdinal, peer: DeviceOrdinal) -> bool;
    fn device_p2p_attribute(
        attribute: P2pAttribute,
        from: DeviceOrdinal,
        to: DeviceOrdinal
    ) -> i32;
    fn primary_context_retain(device: DeviceOrdinal) -> ContextHandle;
    fn context_create(device: DeviceOrdinal) -> ContextHandle;
    fn default_pool(device: DeviceOrdinal) -> PoolHandle;
    fn device_pool(device: DeviceOrdinal) -> PoolHandle;
    fn device_set_pool(device: DeviceOrdinal, pool: PoolHandle) -> ();
    fn pool_set_reuse(pool: PoolHandle, reuses_idle: bool, reuses_behind_frees: bool) -> ();
    fn pool_reset_peak(pool: PoolHandle, of_reserved: bool) -> ();
}

impl Process {
    /// Makes an executable graph. The error may name a node.
    pub(crate) fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
    ) -> Result<GraphExecHandle, DriverError> {
        label!(labelled, self);
        // SAFETY: the simulator checks the handles.
        let result = unsafe { self.gpu.graph_instantiate(context, graph) };
        result.inspect_err(|error| {
            self.failed(error);
        })
    }

    /// Changes later launches of an executable graph to those of another graph. The error may name
    /// a node.
    pub(crate) fn graph_exec_update(
        &self,
        context: ContextHandle,
        exec: GraphExecHandle,
        graph: GraphHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the simulator checks the handles.
        let result = unsafe { self.gpu.graph_exec_update(context, exec, graph) };
        result.inspect_err(|error| {
            self.failed(error);
        })
    }

    /// Replaces the calling thread's capture mode, and returns the one before.
    pub(crate) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.gpu.exchange_capture_mode(mode)
    }

    /// Creates a memory pool.
    pub(crate) fn pool_create(&self, device: DeviceOrdinal, bytes_max: u64) -> Answer<PoolHandle> {
        label!(labelled, self);
        let result = self.gpu.pool_create(device, bytes_max);
        result.map_err(|error| self.failed(&error))
    }

    /// Loads a module. The error has the compiler's log.
    pub(crate) fn module_load(
        &self,
        context: ContextHandle,
        ptx: &[u8],
    ) -> Result<ModuleHandle, DriverError> {
        label!(labelled, self);
        // SAFETY: the simulator checks the context.
        let result = unsafe { self.gpu.module_load(context, ptx) };
        result.inspect_err(|error| {
            self.failed(error);
        })
    }
}
