//! The methods of [`Driver`](crate::Driver) as a table, for generated implementations.
//!
//! A driver that wraps another, or one that does nothing, has the same body for dozens of methods.
//! Such a driver passes this table to a macro instead of repeating their signatures. Wherever the
//! table is used to implement the trait, the compiler compares it with the trait.

/// Applies the macro `$with` to the fallible methods of [`Driver`](crate::Driver).
///
/// Each entry reads `[safety class] fn method(argument: Type, …) -> Value;`, for a method that
/// returns `Result<Value, DriverError>`. The safety is `safe` or `unsafe`. The class is
/// `enqueue(stream)` for a method that only enqueues an operation on its argument `stream`, `call`
/// for a method that returns no value and that a driver without a device may leave empty, and
/// `value` for any other.
///
/// ```
/// use millstream_driver::driver_methods;
///
/// macro_rules! names {
///     ($([$safety:ident $class:ident $(($stream:ident))?]
///        fn $name:ident($($arguments:tt)*) -> $value:ty;)*) => {
///         &[$(stringify!($name)),*]
///     };
/// }
/// let names: &[&str] = driver_methods!(names);
/// assert!(names.contains(&"launch_kernel"));
/// ```
#[macro_export]
macro_rules! driver_methods {
    ($with:ident) => {
        $with! {
            [safe value] fn driver_version() -> i32;
            [safe value] fn current_context() -> $crate::ContextHandle;
            [safe value] fn device_count() -> i32;
            [safe value] fn device_name(device: $crate::DeviceOrdinal) -> String;
            [safe value] fn device_uuid(device: $crate::DeviceOrdinal) -> [u8; 16];
            [safe value] fn device_total_bytes(device: $crate::DeviceOrdinal) -> u64;
            [safe value] fn device_attribute(
                device: $crate::DeviceOrdinal,
                attribute: $crate::DeviceAttribute
            ) -> i32;
            [safe value] fn device_pci_bus_id(device: $crate::DeviceOrdinal) -> String;
            [safe value] fn device_can_access_peer(
                device: $crate::DeviceOrdinal,
                peer: $crate::DeviceOrdinal
            ) -> bool;
            [safe value] fn device_p2p_attribute(
                attribute: $crate::P2pAttribute,
                from: $crate::DeviceOrdinal,
                to: $crate::DeviceOrdinal
            ) -> i32;
            [safe value] fn primary_context_retain(
                device: $crate::DeviceOrdinal
            ) -> $crate::ContextHandle;
            [safe value] fn default_pool(device: $crate::DeviceOrdinal) -> $crate::PoolHandle;
            [unsafe value] fn make_current(context: $crate::ContextHandle) -> ();
            [unsafe call] fn primary_context_release(device: $crate::DeviceOrdinal) -> ();
            [unsafe call] fn context_synchronize(context: $crate::ContextHandle) -> ();
            [unsafe call] fn context_enable_peer_access(
                context: $crate::ContextHandle,
                peer: $crate::ContextHandle
            ) -> ();
            [unsafe value] fn stream_priority_range(
                context: $crate::ContextHandle
            ) -> $crate::PriorityRange;
            [unsafe value] fn stream_create(
                context: $crate::ContextHandle,
                non_blocking: bool,
                priority: i32
            ) -> $crate::StreamHandle;
            [unsafe call] fn stream_destroy(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe value] fn stream_query(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> $crate::Completion;
            [unsafe value] fn stream_context(
                stream: $crate::StreamHandle
            ) -> $crate::ContextHandle;
            [unsafe call] fn stream_synchronize(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe call] fn stream_wait_event(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                event: $crate::EventHandle
            ) -> ();
            [unsafe value] fn event_create(
                context: $crate::ContextHandle,
                kind: $crate::EventKind
            ) -> $crate::EventHandle;
            [unsafe value] fn event_destroy(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> ();
            [unsafe value] fn event_record(
                context: $crate::ContextHandle,
                event: $crate::EventHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe value] fn event_query(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> $crate::Completion;
            [unsafe call] fn event_synchronize(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> ();
            [unsafe value] fn event_elapsed_ms(
                context: $crate::ContextHandle,
                start: $crate::EventHandle,
                end: $crate::EventHandle
            ) -> f32;
            [unsafe value] fn mem_info(context: $crate::ContextHandle) -> (u64, u64);
            [safe value] fn pointer_info(
                pointer: $crate::DevicePtr
            ) -> Option<$crate::PointerInfo>;
            [unsafe value] fn mem_alloc(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> $crate::DevicePtr;
            [unsafe value] fn mem_alloc_managed(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> $crate::DevicePtr;
            [unsafe enqueue(stream)] fn mem_prefetch_async(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                bytes: usize,
                location: $crate::ManagedLocation,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe call] fn mem_advise(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                bytes: usize,
                advice: $crate::ManagedAdvice,
                location: $crate::ManagedLocation
            ) -> ();
            [unsafe call] fn mem_free(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr
            ) -> ();
            [unsafe value] fn mem_alloc_async(
                context: $crate::ContextHandle,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> $crate::DevicePtr;
            [unsafe enqueue(stream)] fn mem_free_async(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe call] fn pool_set_release_threshold(pool: $crate::PoolHandle, bytes: u64) -> ();
            [unsafe call] fn pool_set_access(
                pool: $crate::PoolHandle,
                device: $crate::DeviceOrdinal,
                accessible: bool
            ) -> ();
            [unsafe call] fn pool_trim(pool: $crate::PoolHandle, keep_bytes: usize) -> ();
            [unsafe value] fn pool_usage(pool: $crate::PoolHandle) -> $crate::PoolUsage;
            [unsafe value] fn host_alloc(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> std::ptr::NonNull<u8>;
            [unsafe call] fn host_free(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>
            ) -> ();
            [unsafe call] fn host_register(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>,
                bytes: usize
            ) -> ();
            [unsafe call] fn host_unregister(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>
            ) -> ();
            [unsafe call] fn copy_host_to_device(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize
            ) -> ();
            [unsafe call] fn copy_device_to_host(
                context: $crate::ContextHandle,
                target: *mut u8,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [unsafe call] fn copy_device_to_device(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [unsafe enqueue(stream)] fn copy_host_to_device_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_device_to_host_async(
                context: $crate::ContextHandle,
                target: *mut u8,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_device_to_device_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe call] fn copy_unified(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [unsafe enqueue(stream)] fn copy_captured_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_unified_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_2d_async(
                context: $crate::ContextHandle,
                copy: &$crate::Copy2d,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_peer_async(
                context: $crate::ContextHandle,
                copy: &$crate::PeerCopy,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn copy_peer_2d_async(
                context: $crate::ContextHandle,
                copy: &$crate::PeerCopy2d,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn memset_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                pattern: $crate::FillPattern,
                count: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe value] fn module_load(
                context: $crate::ContextHandle,
                image: &[u8]
            ) -> $crate::ModuleHandle;
            [unsafe value] fn module_load_binary(
                context: $crate::ContextHandle,
                image: &[u8]
            ) -> $crate::ModuleHandle;
            [unsafe call] fn module_unload(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle
            ) -> ();
            [unsafe value] fn module_function(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle,
                name: &str
            ) -> $crate::FunctionHandle;
            [unsafe value] fn module_global(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle,
                name: &str
            ) -> ($crate::DevicePtr, usize);
            [unsafe call] fn function_load(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle
            ) -> ();
            [unsafe value] fn function_attribute(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                attribute: $crate::FunctionAttribute
            ) -> i32;
            [unsafe call] fn function_set_attribute(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                attribute: $crate::FunctionAttribute,
                value: i32
            ) -> ();
            [unsafe enqueue(stream)] fn launch_kernel(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                dims: &$crate::LaunchDims,
                stream: $crate::StreamHandle,
                params: &[*const std::ffi::c_void]
            ) -> ();
            [unsafe enqueue(stream)] fn launch_kernel_with(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                dims: &$crate::LaunchDims,
                attributes: &$crate::LaunchAttributes,
                stream: $crate::StreamHandle,
                params: &[*const std::ffi::c_void]
            ) -> ();
            [unsafe value] fn occupancy_blocks(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                block_threads: u32,
                dynamic_shared_bytes: usize
            ) -> i32;
            [unsafe value] fn occupancy_block_size(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                dynamic_shared_bytes: usize
            ) -> $crate::BlockSize;
            [unsafe value] fn launch_host_function(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                function: $crate::HostFunction
            ) -> ();
            [unsafe value] fn graph_create(
                context: $crate::ContextHandle
            ) -> $crate::GraphHandle;
            [unsafe call] fn graph_destroy(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle
            ) -> ();
            [unsafe value] fn graph_clone(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle
            ) -> $crate::GraphHandle;
            [unsafe value] fn graph_add_node(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle,
                dependencies: &[$crate::GraphNodeHandle],
                node: &$crate::GraphNode<'_>
            ) -> $crate::GraphNodeHandle;
            [unsafe call] fn graph_add_dependencies(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle,
                pairs: &[($crate::GraphNodeHandle, $crate::GraphNodeHandle)]
            ) -> ();
            [unsafe value] fn graph_condition(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle,
                initial: u32
            ) -> $crate::ConditionHandle;
            [unsafe value] fn graph_add_conditional(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle,
                dependencies: &[$crate::GraphNodeHandle],
                condition: $crate::ConditionHandle,
                kind: $crate::ConditionalKind
            ) -> $crate::ConditionalNode;
            [unsafe value] fn graph_instantiate(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle
            ) -> $crate::GraphExecHandle;
            [unsafe call] fn graph_exec_destroy(
                context: $crate::ContextHandle,
                exec: $crate::GraphExecHandle
            ) -> ();
            [unsafe enqueue(stream)] fn graph_upload(
                context: $crate::ContextHandle,
                exec: $crate::GraphExecHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe enqueue(stream)] fn graph_launch(
                context: $crate::ContextHandle,
                exec: $crate::GraphExecHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [unsafe call] fn graph_exec_set_node(
                context: $crate::ContextHandle,
                exec: $crate::GraphExecHandle,
                node: $crate::GraphNodeHandle,
                operation: &$crate::GraphNode<'_>
            ) -> ();
            [unsafe call] fn graph_set_node(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle,
                node: $crate::GraphNodeHandle,
                operation: &$crate::GraphNode<'_>
            ) -> ();
            [unsafe value] fn graph_kernels(
                context: $crate::ContextHandle,
                graph: $crate::GraphHandle
            ) -> Option<Vec<$crate::GraphKernel>>;
            [unsafe call] fn graph_exec_update(
                context: $crate::ContextHandle,
                exec: $crate::GraphExecHandle,
                graph: $crate::GraphHandle
            ) -> ();
            [unsafe value] fn stream_begin_capture(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                mode: $crate::CaptureMode
            ) -> ();
            [unsafe value] fn stream_end_capture(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> $crate::GraphHandle;
            [unsafe value] fn stream_capture_info(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> $crate::CaptureInfo;
            [unsafe value] fn stream_set_capture_dependencies(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                dependencies: &[$crate::GraphNodeHandle]
            ) -> ();
        }
    };
}
