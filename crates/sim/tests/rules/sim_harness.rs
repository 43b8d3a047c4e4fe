//! A simulated GPU for the tests of its rules, with every schedule, and assertions about calls and
//! reports.

#![allow(unsafe_code, reason = "launches kernels, and releases contexts")]

use std::{ffi::c_void, ops::Deref, ptr, sync::mpsc, thread, time::Duration};

use millstream_driver::{
    Completion, DeviceOrdinal, DevicePtr, Driver, EventHandle, EventKind, FillPattern,
    FunctionHandle, LaunchDims, PoolUsage, ResultCode, StreamHandle,
};
use millstream_sim::{Gpu, Hold, ReportKind, Rules, Schedule, SimConfig};

use crate::harness::dims;
use crate::rules::harness::Harness;
pub(crate) use crate::rules::harness::{Host, Result};

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

/// Runs `test` in the default configuration.
pub(crate) fn by_default(test: impl FnOnce(&SimHarness)) {
    test(&SimHarness::new(SimConfig::new()));
}

/// Runs `test` in the default configuration, with a stream.
pub(crate) fn with_stream(test: impl FnOnce(&SimHarness, StreamHandle)) {
    by_default(|sim| test(sim, sim.stream()));
}

/// Runs `test` under every schedule, and names the schedule if the test fails.
pub(crate) fn each_schedule(test: impl Fn(&SimHarness)) {
    each_schedule_with(SimConfig::new(), test);
}

/// Runs `test` under every schedule, with a stream.
pub(crate) fn each_schedule_and_stream(test: impl Fn(&SimHarness, StreamHandle)) {
    each_schedule(|sim| test(sim, sim.stream()));
}

/// Runs `test` under every schedule with a given configuration.
pub(crate) fn each_schedule_with(config: SimConfig, test: impl Fn(&SimHarness)) {
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
        test(&SimHarness::new(config.clone().schedule(schedule)));
    }
}

/// Runs `test` under every schedule and both readings of the disputed rules.
pub(crate) fn each_schedule_and_reading(test: impl Fn(&SimHarness)) {
    for rules in [Rules::observed(), Rules::strict()] {
        each_schedule_with(SimConfig::new().rules(rules), &test);
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Arg {
    Pointer(DevicePtr),
    U32(u32),
    U64(u64),
}

/// A simulated GPU, with the primary context of one of its devices.
pub(crate) struct SimHarness {
    pub(crate) gpu: Gpu,
    harness: Harness,
}

impl Deref for SimHarness {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl SimHarness {
    pub(crate) fn new(config: SimConfig) -> Self {
        Self::over(Gpu::new(config))
    }

    pub(crate) fn over(gpu: Gpu) -> Self {
        Self::of_device(gpu, DEVICE)
    }

    fn of_device(gpu: Gpu, device: DeviceOrdinal) -> Self {
        let harness = Harness::open(gpu.driver(), device).unwrap();
        Self { gpu, harness }
    }

    /// Returns a harness for the primary context of another device of the same GPU.
    pub(crate) fn on_device(&self, ordinal: i32) -> Self {
        Self::of_device(self.gpu.clone(), DeviceOrdinal::from_raw(ordinal))
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

    pub(crate) fn recorded(&self, stream: StreamHandle) -> EventHandle {
        let event = self.event();
        self.event_record(event, stream).unwrap();
        event
    }

    pub(crate) fn hold(&self, stream: StreamHandle) -> Hold {
        self.gpu.hold(stream)
    }

    pub(crate) fn pinned(&self, bytes: usize) -> Host {
        let pointer = self.host_alloc(bytes).unwrap();
        Host { pointer, bytes }
    }

    /// Allocates managed memory, and returns its host side.
    pub(crate) fn managed(&self, bytes: usize) -> Host {
        self.harness.managed(bytes).unwrap()
    }

    pub(crate) fn keep_pool_bytes(&self, bytes: u64) {
        self.harness.keep_pool_bytes(bytes).unwrap();
    }

    pub(crate) fn trim(&self, keep_bytes: usize) {
        self.harness.trim(keep_bytes).unwrap();
    }

    pub(crate) fn pool_usage(&self) -> PoolUsage {
        self.harness.pool_usage().unwrap()
    }

    pub(crate) fn host_function(
        &self,
        stream: StreamHandle,
        function: impl FnOnce() + Send + 'static,
    ) {
        self.try_host_function(stream, function).unwrap();
    }

    pub(crate) fn try_host_function(
        &self,
        stream: StreamHandle,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        self.harness.host_function(stream, function)
    }

    pub(crate) fn fill(&self, target: DevicePtr, value: u8, bytes: usize, stream: StreamHandle) {
        let pattern = FillPattern::U8(value);
        self.memset_async(target, pattern, bytes, stream).unwrap();
    }

    /// Fills device memory with a 32-bit word.
    pub(crate) fn fill_words(
        &self,
        target: DevicePtr,
        value: u32,
        count: usize,
        stream: StreamHandle,
    ) {
        let pattern = FillPattern::U32(value);
        self.memset_async(target, pattern, count, stream).unwrap();
    }

    /// Loads a PTX text and returns its kernel.
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
        let dims = self::dims([dims.0, 1, 1], [dims.1, 1, 1]);
        self.launch_shaped(function, &dims, stream, args)
    }

    pub(crate) fn launch_shaped(
        &self,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        args: &[Arg],
    ) -> Result<()> {
        let values = values(args);
        // SAFETY: each pointer is to 8 readable bytes, which is as large as any parameter of the
        // tests' kernels.
        unsafe { self.launch_kernel(function, dims, stream, &pointers(&values)) }
    }

    pub(crate) fn launch_cooperative(
        &self,
        function: FunctionHandle,
        dims: &LaunchDims,
        stream: StreamHandle,
        args: &[Arg],
    ) -> Result<()> {
        let values = values(args);
        // SAFETY: as above.
        unsafe { self.launch_cooperative_kernel(function, dims, stream, &pointers(&values)) }
    }

    /// Launches a kernel with one null pointer as its argument.
    pub(crate) fn launch_with_null(
        &self,
        function: FunctionHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        let dims = dims([1; 3], [1; 3]);
        // SAFETY: the simulator refuses a null pointer.
        unsafe { self.launch_kernel(function, &dims, stream, &[ptr::null()]) }
    }

    /// Synchronises the stream and returns the content of device memory.
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

    /// Asserts that `call` blocks while `stream` is held, and returns after the release.
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
            assert!(
                early.is_err(),
                "the call returned while the stream was held; it must block"
            );
            is_done
                .recv_timeout(Duration::from_secs(20))
                .expect("the call did not return after the release");
        });
    }

    /// Asserts that `call` returns while `stream` is held, and returns the hold.
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
                panic!("the call blocked while the stream was held; it must return");
            }
            hold
        })
    }

    /// Asserts that the last call was refused before it enqueued anything.
    pub(crate) fn assert_nothing_enqueued(&self) {
        let pending = self.gpu.live_object_counts().pending_operations;
        assert_eq!(pending, 0, "nothing was enqueued");
    }

    pub(crate) fn assert_clean(&self) {
        let reports = self.gpu.reports();
        assert!(reports.is_empty(), "{}", reports[0]);
    }

    /// Asserts that there is a report of this kind, and that the last one contains all of `words`.
    pub(crate) fn assert_reported(&self, kind: ReportKind, words: &[&str]) {
        let reports = self.gpu.reports();
        let report = reports.iter().rfind(|report| report.kind == kind);
        let report =
            report.unwrap_or_else(|| panic!("no report of kind {kind:?} among {reports:?}"));
        for word in words {
            assert!(
                report.text.contains(word),
                "`{word}` is missing in: {report}"
            );
        }
    }
}

fn values(args: &[Arg]) -> Vec<u64> {
    let values = args.iter().map(|arg| match *arg {
        Arg::Pointer(pointer) => pointer.as_raw(),
        Arg::U32(value) => value.into(),
        Arg::U64(value) => value,
    });
    values.collect()
}

fn pointers(values: &[u64]) -> Vec<*const c_void> {
    let pointers = values.iter().map(|value| (value as *const u64).cast());
    pointers.collect()
}

/// An assertion about the result of a call.
pub(crate) trait Fails {
    fn fails(self, code: ResultCode);
}

impl<T: std::fmt::Debug> Fails for Result<T> {
    fn fails(self, code: ResultCode) {
        let error = self.expect_err("the call succeeded; it must fail");
        assert_eq!(error.code(), code);
    }
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, words: &str) {
    assert!(text.contains(words), "`{words}` is missing in: {text}");
}
