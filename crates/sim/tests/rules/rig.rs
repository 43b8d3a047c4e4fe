//! A simulated GPU with one context, and the driver's calls without `unsafe`: the tests hand over wrong handles and
//! addresses on purpose, and see what the simulator makes of them.

#![allow(
    unsafe_code,
    reason = "calls the seam's unsafe methods, and reads host memory as a host would"
)]

use std::{ffi::c_void, ptr, ptr::NonNull, sync::mpsc, thread, time::Duration};

use millstream_driver::{
    Completion, ContextHandle, Copy2d, DeviceOrdinal, DevicePtr, Driver, DriverError, EventHandle, EventKind,
    FillPattern, FunctionAttribute, FunctionHandle, LaunchDims, ManagedAdvice, ManagedLocation, ModuleHandle,
    PoolHandle, PoolUsage, ResultCode, StreamHandle,
};
use millstream_sim::{Gpu, Hold, ReportKind, Rules, Schedule, SimConfig};

pub(crate) type Result<T> = std::result::Result<T, DriverError>;

pub(crate) const DEVICE: DeviceOrdinal = DeviceOrdinal::from_raw(0);

/// Every schedule, with a few seeds.
pub(crate) const SCHEDULES: [Schedule; 8] = [
    Schedule::Timed,
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Random(1),
    Schedule::Random(2),
    Schedule::Random(3),
    Schedule::Pct { seed: 1, depth: 3 },
    Schedule::Pct { seed: 2, depth: 2 },
];

/// Runs `test` under every schedule, naming it if the test fails.
pub(crate) fn each_schedule(test: impl Fn(&Rig)) {
    each_schedule_with(SimConfig::new(), test);
}

/// The same for a configuration.
pub(crate) fn each_schedule_with(config: SimConfig, test: impl Fn(&Rig)) {
    struct Named(Schedule);
    impl Drop for Named {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!("failed under {:?}", self.0);
            }
        }
    }
    for schedule in SCHEDULES {
        let _named = Named(schedule);
        test(&Rig::new(config.clone().schedule(schedule)));
    }
}

/// The same for both readings of the disputed rules.
pub(crate) fn each_schedule_and_reading(test: impl Fn(&Rig)) {
    for rules in [Rules::observed(), Rules::strict()] {
        each_schedule_with(SimConfig::new().rules(rules), &test);
    }
}

/// Host memory that outlives every test: it is never given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
}

// SAFETY: accesses are volatile and of single bytes; the tests order those that conflict.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl Host {
    /// Ordinary, pageable memory.
    pub(crate) fn pageable(bytes: usize) -> Self {
        let memory = Box::leak(vec![0u8; bytes.max(1)].into_boxed_slice());
        Self {
            pointer: NonNull::from(&mut memory[0]),
            bytes,
        }
    }

    pub(crate) fn filled(bytes: usize, value: u8) -> Self {
        let host = Self::pageable(bytes);
        host.fill(value);
        host
    }

    pub(crate) fn of(values: &[u8]) -> Self {
        let host = Self::pageable(values.len());
        for (index, value) in values.iter().enumerate() {
            host.write(index, *value);
        }
        host
    }

    pub(crate) fn fill(self, value: u8) {
        (0..self.bytes).for_each(|index| self.write(index, value));
    }

    pub(crate) fn read(self) -> Vec<u8> {
        let byte = |index| {
            let at = self.part(index, 1).pointer;
            // SAFETY: the byte is inside the memory, which is live as long as the test uses it.
            unsafe { at.read_volatile() }
        };
        (0..self.bytes).map(byte).collect()
    }

    fn write(self, index: usize, value: u8) {
        let at = self.part(index, 1).pointer;
        // SAFETY: the byte is inside the memory, which is live as long as the test uses it.
        unsafe { at.write_volatile(value) };
    }

    /// Whether every byte is `value`.
    pub(crate) fn is(self, value: u8) -> bool {
        self.read().iter().all(|&byte| byte == value)
    }

    pub(crate) fn address(self) -> DevicePtr {
        DevicePtr::from_raw(self.pointer.as_ptr().expose_provenance() as u64)
    }

    /// The part from `at` on.
    pub(crate) fn part(self, at: usize, bytes: usize) -> Self {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the offset is inside the memory.
        let pointer = unsafe { self.pointer.add(at) };
        Self { pointer, bytes }
    }
}

/// A kernel's argument.
pub(crate) enum Arg {
    Pointer(DevicePtr),
    U32(u32),
    U64(u64),
}

/// A GPU and a context of its first device.
pub(crate) struct Rig {
    pub(crate) gpu: Gpu,
    pub(crate) context: ContextHandle,
}

macro_rules! calls {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $(pub(crate) fn $name(&self, $($arg: $ty),*) -> Result<$ret> {
            // SAFETY: the simulator checks handles and device addresses; no host memory is involved.
            unsafe { self.gpu.$name(self.context, $($arg),*) }
        })*
    };
}

impl Rig {
    pub(crate) fn new(config: SimConfig) -> Self {
        Self::over(Gpu::new(config))
    }

    pub(crate) fn over(gpu: Gpu) -> Self {
        let context = gpu.primary_context_retain(DEVICE).unwrap();
        Self { gpu, context }
    }

    calls! {
        context_synchronize() -> ();
        stream_create(non_blocking: bool, priority: i32) -> StreamHandle;
        stream_destroy(stream: StreamHandle) -> ();
        stream_query(stream: StreamHandle) -> Completion;
        stream_synchronize(stream: StreamHandle) -> ();
        stream_wait_event(stream: StreamHandle, event: EventHandle) -> ();
        event_create(kind: EventKind) -> EventHandle;
        event_destroy(event: EventHandle) -> ();
        event_record(event: EventHandle, stream: StreamHandle) -> ();
        event_query(event: EventHandle) -> Completion;
        event_synchronize(event: EventHandle) -> ();
        event_elapsed_ms(start: EventHandle, end: EventHandle) -> f32;
        mem_info() -> (u64, u64);
        mem_alloc(bytes: usize) -> DevicePtr;
        mem_alloc_managed(bytes: usize) -> DevicePtr;
        mem_prefetch_async(pointer: DevicePtr, bytes: usize, location: ManagedLocation, stream: StreamHandle) -> ();
        mem_advise(pointer: DevicePtr, bytes: usize, advice: ManagedAdvice, location: ManagedLocation) -> ();
        mem_free(pointer: DevicePtr) -> ();
        mem_alloc_async(bytes: usize, stream: StreamHandle) -> DevicePtr;
        mem_free_async(pointer: DevicePtr, stream: StreamHandle) -> ();
        memset_async(target: DevicePtr, pattern: FillPattern, count: usize, stream: StreamHandle) -> ();
        copy_device_to_device(target: DevicePtr, source: DevicePtr, bytes: usize) -> ();
        copy_device_to_device_async(target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle) -> ();
        copy_unified(target: DevicePtr, source: DevicePtr, bytes: usize) -> ();
        copy_unified_async(target: DevicePtr, source: DevicePtr, bytes: usize, stream: StreamHandle) -> ();
        copy_2d_async(copy: &Copy2d, stream: StreamHandle) -> ();
        function_load(function: FunctionHandle) -> ();
        module_load(image: &[u8]) -> ModuleHandle;
        module_unload(module: ModuleHandle) -> ();
        module_function(module: ModuleHandle, name: &str) -> FunctionHandle;
        module_global(module: ModuleHandle, name: &str) -> (DevicePtr, usize);
        function_attribute(function: FunctionHandle, attribute: FunctionAttribute) -> i32;
        function_set_attribute(function: FunctionHandle, attribute: FunctionAttribute, value: i32) -> ();
    }

    /// The same GPU seen from the primary context of another device.
    pub(crate) fn on_device(&self, ordinal: i32) -> Self {
        let gpu = self.gpu.clone();
        let context = gpu
            .primary_context_retain(DeviceOrdinal::from_raw(ordinal))
            .unwrap();
        Self { gpu, context }
    }

    pub(crate) fn release_context(&self) -> Result<()> {
        // SAFETY: the simulator checks the reference count.
        unsafe { self.gpu.primary_context_release(DEVICE) }
    }

    pub(crate) fn stream(&self) -> StreamHandle {
        self.stream_create(true, 0).unwrap()
    }

    pub(crate) fn blocking_stream(&self) -> StreamHandle {
        self.stream_create(false, 0).unwrap()
    }

    pub(crate) fn event(&self) -> EventHandle {
        self.event_create(EventKind::Ordering).unwrap()
    }

    /// An event recorded on `stream` now.
    pub(crate) fn recorded(&self, stream: StreamHandle) -> EventHandle {
        let event = self.event();
        self.event_record(event, stream).unwrap();
        event
    }

    pub(crate) fn hold(&self, stream: StreamHandle) -> Hold {
        self.gpu.hold(stream)
    }

    pub(crate) fn pinned(&self, bytes: usize) -> Host {
        // SAFETY: the context is alive and the size is not 0.
        let pointer = unsafe { self.gpu.host_alloc(self.context, bytes) }.unwrap();
        Host { pointer, bytes }
    }

    /// Managed memory, as the host sees it.
    pub(crate) fn managed(&self, bytes: usize) -> Host {
        let address = self.mem_alloc_managed(bytes).unwrap().as_raw() as usize;
        let pointer = NonNull::new(ptr::with_exposed_provenance_mut(address)).expect("an address");
        Host { pointer, bytes }
    }

    pub(crate) fn host_alloc(&self, bytes: usize) -> Result<NonNull<u8>> {
        // SAFETY: the simulator refuses a size of 0.
        unsafe { self.gpu.host_alloc(self.context, bytes) }
    }

    pub(crate) fn host_free(&self, host: Host) -> Result<()> {
        // SAFETY: the simulator checks the pointer; the tests do not touch the memory again.
        unsafe { self.gpu.host_free(self.context, host.pointer) }
    }

    pub(crate) fn host_register(&self, host: Host) -> Result<()> {
        // SAFETY: `Host` memory is never given back.
        unsafe { self.gpu.host_register(self.context, host.pointer, host.bytes) }
    }

    pub(crate) fn host_unregister(&self, host: Host) -> Result<()> {
        // SAFETY: the simulator checks the pointer.
        unsafe { self.gpu.host_unregister(self.context, host.pointer) }
    }

    pub(crate) fn upload(&self, target: DevicePtr, source: Host, stream: StreamHandle) -> Result<()> {
        let from = source.pointer.as_ptr();
        // SAFETY: `Host` memory stays valid.
        unsafe {
            self.gpu
                .copy_host_to_device_async(self.context, target, from, source.bytes, stream)
        }
    }

    pub(crate) fn upload_captured(
        &self,
        target: DevicePtr,
        source: Host,
        stream: StreamHandle,
    ) -> Result<()> {
        let from = source.pointer.as_ptr();
        // SAFETY: `Host` memory stays valid.
        unsafe {
            self.gpu
                .copy_captured_async(self.context, target, from, source.bytes, stream)
        }
    }

    pub(crate) fn download(&self, target: Host, source: DevicePtr, stream: StreamHandle) -> Result<()> {
        let to = target.pointer.as_ptr();
        // SAFETY: `Host` memory stays valid.
        unsafe {
            self.gpu
                .copy_device_to_host_async(self.context, to, source, target.bytes, stream)
        }
    }

    pub(crate) fn upload_now(&self, target: DevicePtr, source: Host) -> Result<()> {
        let from = source.pointer.as_ptr();
        // SAFETY: `Host` memory stays valid.
        unsafe {
            self.gpu
                .copy_host_to_device(self.context, target, from, source.bytes)
        }
    }

    pub(crate) fn download_now(&self, target: Host, source: DevicePtr) -> Result<()> {
        let to = target.pointer.as_ptr();
        // SAFETY: `Host` memory stays valid.
        unsafe {
            self.gpu
                .copy_device_to_host(self.context, to, source, target.bytes)
        }
    }

    pub(crate) fn default_pool(&self) -> PoolHandle {
        self.gpu.default_pool(DEVICE).unwrap()
    }

    pub(crate) fn keep_pool_bytes(&self, bytes: u64) {
        let pool = self.default_pool();
        // SAFETY: the pool is the device's.
        unsafe { self.gpu.pool_set_release_threshold(pool, bytes) }.unwrap();
    }

    pub(crate) fn trim(&self, keep_bytes: usize) {
        let pool = self.default_pool();
        // SAFETY: the pool is the device's.
        unsafe { self.gpu.pool_trim(pool, keep_bytes) }.unwrap();
    }

    pub(crate) fn pool_usage(&self) -> PoolUsage {
        let pool = self.default_pool();
        // SAFETY: the pool is the device's.
        unsafe { self.gpu.pool_usage(pool) }.unwrap()
    }

    pub(crate) fn host_function(&self, stream: StreamHandle, function: impl FnOnce() + Send + 'static) {
        self.try_host_function(stream, function).unwrap();
    }

    pub(crate) fn try_host_function(
        &self,
        stream: StreamHandle,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        // SAFETY: the simulator checks the stream, and that the function does not call it.
        unsafe {
            self.gpu
                .launch_host_function(self.context, stream, Box::new(function))
        }
    }

    /// A kernel of a PTX text.
    pub(crate) fn kernel(&self, ptx: &str, name: &str) -> FunctionHandle {
        let module = self.module_load(ptx.as_bytes()).unwrap();
        self.module_function(module, name).unwrap()
    }

    pub(crate) fn launch(
        &self,
        function: FunctionHandle,
        dims: (u32, u32),
        stream: StreamHandle,
        args: &[Arg],
    ) -> Result<()> {
        let dims = LaunchDims {
            grid: [dims.0, 1, 1],
            block: [dims.1, 1, 1],
            shared_bytes: 0,
        };
        self.launch_shaped(function, &dims, stream, args)
    }

    pub(crate) fn launch_shaped(
        &self,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        args: &[Arg],
    ) -> Result<()> {
        let values: Vec<u64> = args
            .iter()
            .map(|arg| match *arg {
                Arg::Pointer(pointer) => pointer.as_raw(),
                Arg::U32(value) => value.into(),
                Arg::U64(value) => value,
            })
            .collect();
        let pointers: Vec<*const c_void> = values.iter().map(|v| (v as *const u64).cast()).collect();
        // SAFETY: each pointer is to 8 readable bytes, as much as any parameter of the tests' kernels has.
        unsafe {
            self.gpu
                .launch_kernel(self.context, function, dims, stream, &pointers)
        }
    }

    /// A launch with one null pointer for an argument.
    pub(crate) fn launch_with_null(&self, function: FunctionHandle, stream: StreamHandle) -> Result<()> {
        let dims = LaunchDims {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
        };
        // SAFETY: the simulator refuses a null pointer.
        unsafe {
            self.gpu
                .launch_kernel(self.context, function, &dims, stream, &[std::ptr::null()])
        }
    }

    /// What device memory holds once the stream's work is done.
    pub(crate) fn read(&self, source: DevicePtr, bytes: usize, stream: StreamHandle) -> Vec<u8> {
        let host = self.pinned(bytes);
        self.download(host, source, stream).unwrap();
        self.stream_synchronize(stream).unwrap();
        let bytes = host.read();
        self.host_free(host).unwrap();
        bytes
    }

    pub(crate) fn pending(&self, stream: StreamHandle) -> bool {
        self.stream_query(stream).unwrap() == Completion::Pending
    }

    /// Asserts that `call` blocks while `stream` is held, and returns once it is not.
    pub(crate) fn assert_blocks(&self, stream: StreamHandle, call: impl FnOnce() + Send) {
        let hold = self.hold(stream);
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                call();
                let _ = done.send(());
            });
            let early = is_done.recv_timeout(Duration::from_millis(30));
            hold.release();
            assert!(early.is_err(), "the call was to block, and returned");
            is_done
                .recv_timeout(Duration::from_secs(20))
                .expect("the call returns after the release");
        });
    }

    /// Asserts that `call` returns while `stream` is held, and gives the hold.
    pub(crate) fn assert_returns(&self, stream: StreamHandle, call: impl FnOnce() + Send) -> Hold {
        let hold = self.hold(stream);
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                call();
                let _ = done.send(());
            });
            if is_done.recv_timeout(Duration::from_secs(20)).is_err() {
                // Without a release the scope would wait for ever.
                hold.release();
                panic!("the call was to return, and blocks");
            }
            hold
        })
    }

    /// Asserts that nothing was reported.
    pub(crate) fn assert_clean(&self) {
        let reports = self.gpu.reports();
        assert!(reports.is_empty(), "{}", reports[0]);
    }

    /// Asserts that there is a report of this kind, and that the last one mentions all of `words`.
    pub(crate) fn assert_reported(&self, kind: ReportKind, words: &[&str]) {
        let reports = self.gpu.reports();
        let report = reports.iter().rfind(|report| report.kind == kind);
        let report = report.unwrap_or_else(|| panic!("a report of kind {kind:?} among {reports:?}"));
        for word in words {
            assert!(report.text.contains(word), "`{word}` in: {report}");
        }
    }
}

/// Asserts that a call answered this code.
pub(crate) fn assert_code<T: std::fmt::Debug>(answer: Result<T>, code: ResultCode) {
    assert_eq!(answer.expect_err("a refusal").code(), code);
}
