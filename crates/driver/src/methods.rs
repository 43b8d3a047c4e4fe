//! The methods of [`Driver`](crate::Driver) as a table, for drivers that treat most of them alike.
//!
//! A driver that wraps another, or one that does nothing, has the same body for dozens of methods.
//! Such a driver applies a macro of its own to this table instead of repeating their signatures.
//! The compiler compares the table with the trait wherever it is used.

/// Applies the macro `$with` to the methods of [`Driver`](crate::Driver) that can fail.
///
/// Each entry reads `[kind class] fn method(argument: Type, …) -> Value;`, for a method that
/// returns `Result<Value, DriverError>`. The kind is `safe`, or `trusting` for an unsafe method.
/// The class is `enqueue(stream)` for a method that only enqueues an operation on its argument
/// `stream`, `call` for any other that returns no value, and `value` for one that returns a value,
/// or that need not be implemented.
///
/// ```
/// use millstream_driver::driver_methods;
///
/// macro_rules! names {
///     ($([$kind:ident $class:ident $(($stream:ident))?] fn $name:ident($($arguments:tt)*) -> $value:ty;)*) => {
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
            [safe value] fn primary_context_retain(
                device: $crate::DeviceOrdinal
            ) -> $crate::ContextHandle;
            [safe value] fn default_pool(device: $crate::DeviceOrdinal) -> $crate::PoolHandle;
            [trusting value] fn make_current(context: $crate::ContextHandle) -> ();
            [trusting call] fn primary_context_release(device: $crate::DeviceOrdinal) -> ();
            [trusting call] fn context_synchronize(context: $crate::ContextHandle) -> ();
            [trusting value] fn stream_priority_range(
                context: $crate::ContextHandle
            ) -> $crate::PriorityRange;
            [trusting value] fn stream_create(
                context: $crate::ContextHandle,
                non_blocking: bool,
                priority: i32
            ) -> $crate::StreamHandle;
            [trusting call] fn stream_destroy(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting value] fn stream_query(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> $crate::Completion;
            [trusting call] fn stream_synchronize(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting call] fn stream_wait_event(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                event: $crate::EventHandle
            ) -> ();
            [trusting value] fn event_create(
                context: $crate::ContextHandle,
                kind: $crate::EventKind
            ) -> $crate::EventHandle;
            [trusting value] fn event_destroy(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> ();
            [trusting value] fn event_record(
                context: $crate::ContextHandle,
                event: $crate::EventHandle,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting value] fn event_query(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> $crate::Completion;
            [trusting call] fn event_synchronize(
                context: $crate::ContextHandle,
                event: $crate::EventHandle
            ) -> ();
            [trusting value] fn event_elapsed_ms(
                context: $crate::ContextHandle,
                start: $crate::EventHandle,
                end: $crate::EventHandle
            ) -> f32;
            [trusting value] fn mem_info(context: $crate::ContextHandle) -> (u64, u64);
            [trusting value] fn mem_alloc(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> $crate::DevicePtr;
            [trusting value] fn mem_alloc_managed(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> $crate::DevicePtr;
            [trusting enqueue(stream)] fn mem_prefetch_async(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                bytes: usize,
                location: $crate::ManagedLocation,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting call] fn mem_advise(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                bytes: usize,
                advice: $crate::ManagedAdvice,
                location: $crate::ManagedLocation
            ) -> ();
            [trusting call] fn mem_free(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr
            ) -> ();
            [trusting value] fn mem_alloc_async(
                context: $crate::ContextHandle,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> $crate::DevicePtr;
            [trusting enqueue(stream)] fn mem_free_async(
                context: $crate::ContextHandle,
                pointer: $crate::DevicePtr,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting call] fn pool_set_release_threshold(pool: $crate::PoolHandle, bytes: u64) -> ();
            [trusting call] fn pool_trim(pool: $crate::PoolHandle, keep_bytes: usize) -> ();
            [trusting value] fn pool_usage(pool: $crate::PoolHandle) -> $crate::PoolUsage;
            [trusting value] fn host_alloc(
                context: $crate::ContextHandle,
                bytes: usize
            ) -> std::ptr::NonNull<u8>;
            [trusting call] fn host_free(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>
            ) -> ();
            [trusting call] fn host_register(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>,
                bytes: usize
            ) -> ();
            [trusting call] fn host_unregister(
                context: $crate::ContextHandle,
                pointer: std::ptr::NonNull<u8>
            ) -> ();
            [trusting call] fn copy_host_to_device(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize
            ) -> ();
            [trusting call] fn copy_device_to_host(
                context: $crate::ContextHandle,
                target: *mut u8,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [trusting call] fn copy_device_to_device(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [trusting enqueue(stream)] fn copy_host_to_device_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting enqueue(stream)] fn copy_device_to_host_async(
                context: $crate::ContextHandle,
                target: *mut u8,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting enqueue(stream)] fn copy_device_to_device_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting call] fn copy_unified(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize
            ) -> ();
            [trusting enqueue(stream)] fn copy_captured_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: *const u8,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting enqueue(stream)] fn copy_unified_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                source: $crate::DevicePtr,
                bytes: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting enqueue(stream)] fn copy_2d_async(
                context: $crate::ContextHandle,
                copy: &$crate::Copy2d,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting enqueue(stream)] fn memset_async(
                context: $crate::ContextHandle,
                target: $crate::DevicePtr,
                pattern: $crate::FillPattern,
                count: usize,
                stream: $crate::StreamHandle
            ) -> ();
            [trusting value] fn module_load(
                context: $crate::ContextHandle,
                image: &[u8]
            ) -> $crate::ModuleHandle;
            [trusting call] fn module_unload(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle
            ) -> ();
            [trusting value] fn module_function(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle,
                name: &str
            ) -> $crate::FunctionHandle;
            [trusting value] fn module_global(
                context: $crate::ContextHandle,
                module: $crate::ModuleHandle,
                name: &str
            ) -> ($crate::DevicePtr, usize);
            [trusting call] fn function_load(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle
            ) -> ();
            [trusting value] fn function_attribute(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                attribute: $crate::FunctionAttribute
            ) -> i32;
            [trusting call] fn function_set_attribute(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                attribute: $crate::FunctionAttribute,
                value: i32
            ) -> ();
            [trusting enqueue(stream)] fn launch_kernel(
                context: $crate::ContextHandle,
                function: $crate::FunctionHandle,
                dims: &$crate::LaunchDims,
                stream: $crate::StreamHandle,
                params: &[*const std::ffi::c_void]
            ) -> ();
            [trusting value] fn launch_host_function(
                context: $crate::ContextHandle,
                stream: $crate::StreamHandle,
                function: $crate::HostFunction
            ) -> ();
        }
    };
}
