//! A driver that notes down every call on its way to another, and can make calls fail.

#![allow(
    unsafe_code,
    reason = "passes unsafe calls on, with the contract they came with"
)]

use std::{collections::BTreeMap, ffi::c_void, fmt, ptr::NonNull, sync::Arc, time::Duration};

use millstream::driver::{
    Completion, ContextHandle, Copy2d, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, DriverError,
    EventHandle, EventKind, FillPattern, FloatOperand, FunctionAttribute, FunctionHandle, HostAccess,
    HostFunction, LaunchDims, ManagedAdvice, ManagedLocation, MemoryReuse, ModuleHandle, PoolHandle,
    PoolUsage, PriorityRange, StreamHandle,
};
use parking_lot::Mutex;

type Result<T> = std::result::Result<T, DriverError>;

/// How a call is to fail.
pub(crate) enum Failure {
    /// It is not passed on.
    Instead(DriverError),
    /// It is passed on, and its answer kept back: a driver that fails after it has done what it was asked for.
    Afterwards(DriverError),
}

/// Says, given a call's name, whether it is to fail.
type Fault = Arc<dyn Fn(&'static str) -> Option<Failure> + Send + Sync>;

/// Another driver, with the names of the calls made to it.
pub(crate) struct Calls {
    inner: Arc<dyn Driver>,
    made: Mutex<Vec<&'static str>>,
    fault: Mutex<Option<Fault>>,
    /// Calls that named a default stream.
    legacy: Mutex<usize>,
}

impl Calls {
    pub(crate) fn over(inner: Arc<dyn Driver>) -> Self {
        Self {
            inner,
            made: Mutex::default(),
            fault: Mutex::default(),
            legacy: Mutex::default(),
        }
    }

    /// From now on asks `fault` before every call. A call that fails is not passed on and not noted.
    pub(crate) fn fail(&self, fault: impl Fn(&'static str) -> Option<DriverError> + Send + Sync + 'static) {
        self.fail_so(move |call| fault(call).map(Failure::Instead));
    }

    /// As [`fail`](Self::fail), with the way in which each call fails.
    pub(crate) fn fail_so(&self, fault: impl Fn(&'static str) -> Option<Failure> + Send + Sync + 'static) {
        *self.fault.lock() = Some(Arc::new(fault));
    }

    /// From now on no call is made to fail.
    pub(crate) fn fail_no_more(&self) {
        *self.fault.lock() = None;
    }

    /// Makes the call and notes it, unless it is to fail.
    fn make<T>(&self, call: &'static str, pass_on: impl FnOnce() -> Result<T>) -> Result<T> {
        let fault = self.fault.lock().clone();
        let failure = fault.and_then(|fault| fault(call));
        if let Some(Failure::Instead(error)) = failure {
            return Err(error);
        }
        self.made.lock().push(call);
        let answer = pass_on();
        match failure {
            Some(Failure::Afterwards(error)) => Err(error),
            _ => answer,
        }
    }

    /// A call that cannot fail, and is not noted; the fault may panic.
    fn may_panic(&self, call: &'static str) {
        let fault = self.fault.lock().clone();
        if let Some(fault) = fault {
            drop(fault(call));
        }
    }

    /// Forgets the calls noted so far.
    pub(crate) fn forget(&self) {
        self.made.lock().clear();
    }

    /// How often each call was made since.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for &call in &*self.made.lock() {
            *counts.entry(call).or_default() += 1;
        }
        counts
    }

    /// How often a call named the legacy or the per-thread default stream.
    pub(crate) fn legacy(&self) -> usize {
        *self.legacy.lock()
    }

    fn look_at(&self, stream: Option<StreamHandle>) {
        let defaults = [
            StreamHandle::LEGACY,
            StreamHandle::PER_THREAD,
            StreamHandle::from_raw(0),
        ];
        if stream.is_some_and(|stream| defaults.contains(&stream)) {
            *self.legacy.lock() += 1;
        }
    }

    /// How often this call was made since.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.made.lock().iter().filter(|&&made| made == call).count()
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls over {:?}", self.inner)
    }
}

/// The stream that an argument of a driver call is.
trait IsStream {
    fn as_stream(&self) -> Option<StreamHandle>;
}

impl IsStream for StreamHandle {
    fn as_stream(&self) -> Option<StreamHandle> {
        Some(*self)
    }
}

/// Every other argument: found by a method call only where [`IsStream`] is not, one reference further on.
trait IsNoStream {
    fn as_stream(&self) -> Option<StreamHandle> {
        None
    }
}

impl<T> IsNoStream for &T {}

macro_rules! pass_on {
    (safe { $(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)* }
     trusting { $(fn $trusting:ident($($given:ident: $given_type:ty),*) -> $answer:ty;)* }) => {
        impl Driver for Calls {
            fn name(&self) -> String {
                format!("{}, counted", self.inner.name())
            }

            fn handle_space(&self) -> usize {
                self.inner.handle_space()
            }

            fn is_simulated(&self) -> bool {
                self.inner.is_simulated()
            }

            fn now_ns(&self) -> u64 {
                self.may_panic("now_ns");
                self.inner.now_ns()
            }

            fn stream_number(&self, stream: StreamHandle) -> Option<u64> {
                self.inner.stream_number(stream)
            }

            fn note_host_access(&self, access: &HostAccess) {
                self.inner.note_host_access(access);
            }

            fn note_float_operands(&self, function: FunctionHandle, operands: &[FloatOperand]) {
                self.inner.note_float_operands(function, operands);
            }

            fn note_memory_reuse(&self, reuse: &MemoryReuse) {
                self.inner.note_memory_reuse(reuse);
            }

            fn pause(&self, duration: Duration) {
                self.may_panic("pause");
                self.inner.pause(duration);
            }

            $(
                fn $name(&self, $($arg: $type),*) -> $result {
                    self.make(stringify!($name), || self.inner.$name($($arg),*))
                }
            )*

            $(
                unsafe fn $trusting(&self, $($given: $given_type),*) -> $answer {
                    $(self.look_at((&$given).as_stream());)*
                    self.make(stringify!($trusting), || {
                        // SAFETY: this function's contract is that of the one behind it.
                        unsafe { self.inner.$trusting($($given),*) }
                    })
                }
            )*
        }
    };
}

pass_on! {
    safe {
        fn driver_version() -> Result<i32>;
        fn current_context() -> Result<ContextHandle>;
        fn device_count() -> Result<i32>;
        fn device_name(device: DeviceOrdinal) -> Result<String>;
        fn device_uuid(device: DeviceOrdinal) -> Result<[u8; 16]>;
        fn device_total_bytes(device: DeviceOrdinal) -> Result<u64>;
        fn device_attribute(device: DeviceOrdinal, attribute: DeviceAttribute) -> Result<i32>;
        fn primary_context_retain(device: DeviceOrdinal) -> Result<ContextHandle>;
        fn default_pool(device: DeviceOrdinal) -> Result<PoolHandle>;
    }
    trusting {
        fn make_current(context: ContextHandle) -> Result<()>;
        fn primary_context_release(device: DeviceOrdinal) -> Result<()>;
        fn context_synchronize(context: ContextHandle) -> Result<()>;
        fn stream_priority_range(context: ContextHandle) -> Result<PriorityRange>;
        fn stream_create(context: ContextHandle, non_blocking: bool, priority: i32) -> Result<StreamHandle>;
        fn stream_destroy(context: ContextHandle, stream: StreamHandle) -> Result<()>;
        fn stream_query(context: ContextHandle, stream: StreamHandle) -> Result<Completion>;
        fn stream_synchronize(context: ContextHandle, stream: StreamHandle) -> Result<()>;
        fn stream_wait_event(context: ContextHandle, stream: StreamHandle, event: EventHandle) -> Result<()>;
        fn event_create(context: ContextHandle, kind: EventKind) -> Result<EventHandle>;
        fn event_destroy(context: ContextHandle, event: EventHandle) -> Result<()>;
        fn event_record(context: ContextHandle, event: EventHandle, stream: StreamHandle) -> Result<()>;
        fn event_query(context: ContextHandle, event: EventHandle) -> Result<Completion>;
        fn event_synchronize(context: ContextHandle, event: EventHandle) -> Result<()>;
        fn event_elapsed_ms(context: ContextHandle, start: EventHandle, end: EventHandle) -> Result<f32>;
        fn mem_info(context: ContextHandle) -> Result<(u64, u64)>;
        fn mem_alloc(context: ContextHandle, bytes: usize) -> Result<DevicePtr>;
        fn mem_alloc_managed(context: ContextHandle, bytes: usize) -> Result<DevicePtr>;
        fn mem_prefetch_async(context: ContextHandle, pointer: DevicePtr, bytes: usize, location: ManagedLocation, stream: StreamHandle) -> Result<()>;
        fn mem_advise(context: ContextHandle, pointer: DevicePtr, bytes: usize, advice: ManagedAdvice, location: ManagedLocation) -> Result<()>;
        fn mem_free(context: ContextHandle, pointer: DevicePtr) -> Result<()>;
        fn mem_alloc_async(context: ContextHandle, bytes: usize, stream: StreamHandle) -> Result<DevicePtr>;
        fn mem_free_async(context: ContextHandle, pointer: DevicePtr, stream: StreamHandle) -> Result<()>;
        fn pool_set_release_threshold(pool: PoolHandle, bytes: u64) -> Result<()>;
        fn pool_trim(pool: PoolHandle, keep_bytes: usize) -> Result<()>;
        fn pool_usage(pool: PoolHandle) -> Result<PoolUsage>;
        fn host_alloc(context: ContextHandle, bytes: usize) -> Result<NonNull<u8>>;
        fn host_free(context: ContextHandle, pointer: NonNull<u8>) -> Result<()>;
        fn host_register(context: ContextHandle, pointer: NonNull<u8>, bytes: usize) -> Result<()>;
        fn host_unregister(context: ContextHandle, pointer: NonNull<u8>) -> Result<()>;
        fn copy_host_to_device(context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize) -> Result<()>;
        fn copy_device_to_host(context: ContextHandle, target: *mut u8, source: DevicePtr, bytes: usize) -> Result<()>;
        fn copy_device_to_device(context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize) -> Result<()>;
        fn copy_host_to_device_async(context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize, stream: StreamHandle) -> Result<()>;
        fn copy_device_to_host_async(context: ContextHandle, target: *mut u8, source: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()>;
        fn copy_device_to_device_async(context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()>;
        fn copy_unified(context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize) -> Result<()>;
        fn copy_captured_async(context: ContextHandle, target: DevicePtr, source: *const u8, bytes: usize, stream: StreamHandle) -> Result<()>;
        fn copy_unified_async(context: ContextHandle, target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle) -> Result<()>;
        fn copy_2d_async(context: ContextHandle, copy: &Copy2d, stream: StreamHandle) -> Result<()>;
        fn memset_async(context: ContextHandle, target: DevicePtr, pattern: FillPattern, count: usize, stream: StreamHandle) -> Result<()>;
        fn module_load(context: ContextHandle, image: &[u8]) -> Result<ModuleHandle>;
        fn module_unload(context: ContextHandle, module: ModuleHandle) -> Result<()>;
        fn module_function(context: ContextHandle, module: ModuleHandle, name: &str) -> Result<FunctionHandle>;
        fn module_global(context: ContextHandle, module: ModuleHandle, name: &str) -> Result<(DevicePtr, usize)>;
        fn function_load(context: ContextHandle, function: FunctionHandle) -> Result<()>;
        fn function_attribute(context: ContextHandle, function: FunctionHandle, attribute: FunctionAttribute) -> Result<i32>;
        fn function_set_attribute(context: ContextHandle, function: FunctionHandle, attribute: FunctionAttribute, value: i32) -> Result<()>;
        fn launch_kernel(context: ContextHandle, function: FunctionHandle, dims: &LaunchDims, stream: StreamHandle, params: &[*const c_void]) -> Result<()>;
        fn launch_host_function(context: ContextHandle, stream: StreamHandle, function: HostFunction) -> Result<()>;
    }
}
