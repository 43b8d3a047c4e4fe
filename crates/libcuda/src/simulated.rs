//! The calls of the simulated device as safe methods of [`Process`].
//!
//! The simulator checks handles, device addresses and launch configurations itself. The contracts
//! of its unsafe methods concern host memory and the order of accesses, and CUDA's contracts oblige
//! the calling program to the same.

#![allow(unsafe_code, reason = "passes on the program's promises about memory")]

use std::sync::Once;

use millstream_driver::*;
use millstream_sim::{BranchKind, ProgramNode, RepeatedFunction, race::Label};

use crate::{
    codes::Answer,
    process::{Process, say},
};

/// Returns the code of an error of the simulated device. The first shortage of memory is printed
/// with the option that gives more.
pub(crate) fn code_of(error: DriverError) -> ResultCode {
    static SAID: Once = Once::new();
    if error.code() == ResultCode::OUT_OF_MEMORY {
        SAID.call_once(|| {
            let detail = error.detail().unwrap_or("out of memory");
            say(&format!(
                "{}: {detail}: `--memory SIZE` of `millstream run`, or \
                 MILLSTREAM_DEVICE=sim:memory=SIZE, gives the device more",
                error.call()
            ));
        });
    }
    error.code()
}

/// Returns whether reports show the place of the program's call: that of work, and that of objects
/// which may be left alive.
#[inline(always)]
fn is_labelled(name: &str) -> bool {
    matches!(
        name,
        "graph_create"
            | "graph_clone"
            | "graph_instantiate"
            | "module_load"
            | "graph_add_conditional"
            | "stream_create"
            | "event_create"
            | "mem_alloc"
            | "mem_alloc_managed"
            | "mem_alloc_async"
            | "mem_free"
            | "mem_free_async"
            | "mem_prefetch_async"
            | "host_alloc"
            | "host_free"
            | "host_register"
            | "host_unregister"
            | "copy_host_to_device_async"
            | "copy_device_to_host_async"
            | "copy_device_to_device_async"
            | "copy_2d_async"
            | "memset_async"
            | "launch_kernel"
            | "launch_kernel_with"
            | "launch_host_function"
            | "graph_add_program_node"
            | "graph_add_allocation"
            | "graph_add_branches"
            | "graph_set_program_node"
            | "graph_exec_set_program_node"
            | "launch_repeated_function"
            | "mem_alloc_from_pool_async"
            | "copy_synchronous"
            | "copy_2d_synchronous"
            | "array_create"
            | "array_destroy"
            | "copy_3d_async"
            | "copy_3d_synchronous"
    )
}

/// Returns whether the call is a wait, whose place a list of redundant ones shows.
#[inline(always)]
fn is_wait(name: &str) -> bool {
    name == "stream_wait_event" || name.ends_with("_synchronize")
}

impl Process {
    #[inline(always)]
    fn label_of(&self, name: &str) -> Option<Label> {
        let is_shown = is_labelled(name) || is_wait(name) && self.lists_waits;
        if is_shown { self.label() } else { None }
    }
}

/// Returns whether what kernels have printed is written at the start of a call, or else at its end,
/// as the CUDA C++ Programming Guide says ("Formatted Output").
#[inline(always)]
fn flushes(name: &str, at_start: bool) -> bool {
    match name {
        "launch_kernel" | "launch_kernel_with" | "graph_launch" => at_start,
        "module_load" | "module_unload" | "context_destroy" | "primary_context_release" => {
            !at_start
        }
        _ => !at_start && (name.ends_with("_synchronize") || name.ends_with("_synchronous")),
    }
}

macro_rules! simulated {
    ($process:ident, $name:ident($($argument:ident),*)) => {{
        if flushes(stringify!($name), true) {
            $process.gpu.flush_printf();
        }
        let result = $process.gpu.$name($($argument),*);
        if flushes(stringify!($name), false) {
            $process.gpu.flush_printf();
            $process.report_work();
        }
        result
    }};
}

/// Implements a method from its row of the table, unless its error has more than a code.
macro_rules! method {
    (graph_instantiate $($row:tt)*) => {};
    (graph_exec_update $($row:tt)*) => {};
    (module_load $($row:tt)*) => {};
    (device_count $($row:tt)*) => {};
    ($name:ident [safe] ($($argument:ident: $ty:ty),*) -> $value:ty) => {
        pub(crate) fn $name(&self, $($argument: $ty),*) -> Answer<$value> {
            self.gpu.$name($($argument),*).map_err(|error| error.code())
        }
    };
    ($name:ident [unsafe] ($($argument:ident: $ty:ty),*) -> $value:ty) => {
        pub(crate) fn $name(&self, $($argument: $ty),*) -> Answer<$value> {
            let _label = self.label_of(stringify!($name));
            // SAFETY: the simulator checks handles and device addresses; the program vouches for
            // host memory and for the order of accesses, as the module says.
            let result = unsafe { simulated!(self, $name($($argument),*)) };
            result.map_err(code_of)
        }
    };
}

/// Implements the methods of the driver's table.
macro_rules! implement {
    ($($(#[$doc:meta])* [$safety:ident $($class:tt)*]
       fn $name:ident $arguments:tt -> $value:ty = $function:ident $call:tt;)*) => {
        #[allow(dead_code, reason = "no program calls some of the driver's methods")]
        impl Process {
            $(method! { $name [$safety] $arguments -> $value })*
        }
    };
}

driver_methods!(implement);

/// Implements the calls that only programs make.
macro_rules! calls {
    ($safety:ident: $(fn $name:ident $arguments:tt -> $value:ty;)*) => {
        impl Process {
            $(method! { $name [$safety] $arguments -> $value })*
        }
    };
}

calls! { unsafe:
    fn context_destroy(context: ContextHandle) -> ();
    fn context_disable_peer_access(context: ContextHandle, peer: ContextHandle) -> ();
    fn pool_destroy(pool: PoolHandle) -> ();
    fn stream_begin_capture_into(
        context: ContextHandle, stream: StreamHandle, graph: GraphHandle,
        dependencies: &[GraphNodeHandle], mode: CaptureMode
    ) -> ();
    fn graph_remove_dependencies(
        context: ContextHandle, graph: GraphHandle, pairs: &[(GraphNodeHandle, GraphNodeHandle)]
    ) -> ();
    fn graph_remove_node(context: ContextHandle, node: GraphNodeHandle) -> ();
    fn graph_exec_set_enabled(
        context: ContextHandle, exec: GraphExecHandle, node: GraphNodeHandle, enabled: bool
    ) -> ();
    fn graph_exec_enabled(
        context: ContextHandle, exec: GraphExecHandle, node: GraphNodeHandle
    ) -> bool;
    fn graph_add_program_node(
        context: ContextHandle, graph: GraphHandle, dependencies: &[GraphNodeHandle],
        node: &ProgramNode<'_>
    ) -> GraphNodeHandle;
    fn graph_add_allocation(
        context: ContextHandle, graph: GraphHandle, dependencies: &[GraphNodeHandle],
        device: DeviceOrdinal, bytes: usize
    ) -> (GraphNodeHandle, DevicePtr);
    fn graph_add_branches(
        context: ContextHandle, graph: GraphHandle, dependencies: &[GraphNodeHandle],
        condition: ConditionHandle, of: (BranchKind, u32)
    ) -> (GraphNodeHandle, Vec<GraphHandle>);
    fn graph_set_program_node(
        context: ContextHandle, node: GraphNodeHandle, operation: &ProgramNode<'_>
    ) -> ();
    fn graph_exec_set_program_node(
        context: ContextHandle, exec: GraphExecHandle, node: GraphNodeHandle,
        operation: &ProgramNode<'_>
    ) -> ();
    fn launch_repeated_function(
        context: ContextHandle, stream: StreamHandle, function: &RepeatedFunction
    ) -> ();
    fn mem_alloc_from_pool_async(
        context: ContextHandle, bytes: usize, pool: PoolHandle, stream: StreamHandle
    ) -> DevicePtr;
    fn copy_synchronous(
        context: ContextHandle, target: Memory2d, source: Memory2d, bytes: usize,
        stream: StreamHandle
    ) -> ();
    fn copy_2d_synchronous(context: ContextHandle, copy: &Copy2d, stream: StreamHandle) -> ();
    fn copy_3d_synchronous(context: ContextHandle, copy: &Copy3d, stream: StreamHandle) -> ();
}

calls! { safe:
    fn context_create(device: DeviceOrdinal) -> ContextHandle;
    fn context_set_heap(context: ContextHandle, bytes: u64) -> ();
    fn device_pool(device: DeviceOrdinal) -> PoolHandle;
    fn device_set_pool(device: DeviceOrdinal, pool: PoolHandle) -> ();
    fn pool_set_reuse(pool: PoolHandle, reuses_idle: bool, reuses_behind_frees: bool) -> ();
    fn pool_reset_peak(pool: PoolHandle, of_reserved: bool) -> ();
}

/// Implements calls whose error has more than a code.
macro_rules! detailed {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $ty:ty),*) -> $value:ty;)*) => {
        impl Process {$(
            $(#[$doc])*
            pub(crate) fn $name(&self, $($argument: $ty),*) -> Result<$value, DriverError> {
                let _label = self.label_of(stringify!($name));
                // SAFETY: the simulator checks the handles.
                unsafe { simulated!(self, $name($($argument),*)) }
            }
        )*}
    };
}

detailed! {
    /// Makes an executable graph. The error may name a node.
    fn graph_instantiate(context: ContextHandle, graph: GraphHandle) -> GraphExecHandle;
    /// Changes later launches of an executable graph to those of another graph. The error may name
    /// a node.
    fn graph_exec_update(context: ContextHandle, exec: GraphExecHandle, graph: GraphHandle) -> ();
    /// Loads a module. The error has the compiler's log.
    fn module_load(context: ContextHandle, ptx: &[u8]) -> ModuleHandle;
}

impl Process {
    /// Replaces the calling thread's capture mode, and returns the one before.
    pub(crate) fn exchange_capture_mode(&self, mode: CaptureMode) -> CaptureMode {
        self.gpu.exchange_capture_mode(mode)
    }

    pub(crate) fn pool_create(&self, device: DeviceOrdinal, bytes_max: u64) -> Answer<PoolHandle> {
        let _label = self.label();
        let result = self.gpu.pool_create(device, bytes_max);
        result.map_err(|error| error.code())
    }
}
