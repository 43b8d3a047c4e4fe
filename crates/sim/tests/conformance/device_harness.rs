//! A device of either driver for one test, which owns the test's memory and streams.

#![allow(unsafe_code, reason = "calls the seam's unsafe methods")]

use std::{
    ffi::c_void,
    ops::Deref,
    ptr::NonNull,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use libtest_mimic::Failed;
use millstream_driver::{
    Completion, DeviceAttribute, DeviceOrdinal, DevicePtr, Driver, EventHandle, EventKind,
    FillPattern, FunctionHandle, LaunchDims, ResultCode, StreamHandle,
};
use millstream_sim::Gpu;

use crate::conformance::{
    harness::{Harness, Host, Result},
    kernels::Kernels,
};

/// A test's observation, or the reason for its failure.
pub(crate) type Observation = Result<String, Failed>;

pub(crate) struct DeviceHarness {
    harness: Harness,
    simulated: Option<Gpu>,
    kernels: Kernels,
    streams: Mutex<Vec<StreamHandle>>,
    pageable: Mutex<Vec<Vec<u8>>>,
    pinned: Mutex<Vec<Host>>,
    memory: Mutex<Vec<DevicePtr>>,
    refused: Arc<AtomicUsize>,
    any_reports: AtomicBool,
    /// The time after which a call counts as blocked.
    pub(crate) patience: Duration,
}

impl Deref for DeviceHarness {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl DeviceHarness {
    pub(crate) fn open(
        driver: Arc<dyn Driver>,
        simulated: Option<Gpu>,
        device: DeviceOrdinal,
    ) -> Result<Self, Failed> {
        let patience = Duration::from_millis(if driver.is_simulated() { 25 } else { 150 });
        let harness = Harness::open(driver, device)?;
        let kernels = Kernels::load(&harness)?;
        let dev = Self {
            harness,
            simulated,
            kernels,
            streams: Mutex::default(),
            pageable: Mutex::default(),
            pinned: Mutex::default(),
            memory: Mutex::default(),
            refused: Arc::default(),
            any_reports: AtomicBool::new(false),
            patience,
        };
        // The release threshold at the start of a process.
        dev.keep_pool_bytes(0)?;
        dev.trim(0)?;
        Ok(dev)
    }

    /// Opens another device of the same driver.
    pub(crate) fn second(&self) -> Result<Self, Failed> {
        let mut second = Self::open(
            Arc::clone(&self.driver),
            self.simulated.clone(),
            DeviceOrdinal::from_raw(if self.device.as_raw() == 0 { 1 } else { 0 }),
        )?;
        second.refused = Arc::clone(&self.refused);
        second.patience = self.patience;
        Ok(second)
    }

    /// Enqueues a kernel of one thread.
    ///
    /// # Safety
    ///
    /// `params` points to one value of its type for each parameter of the kernel.
    pub(crate) unsafe fn launch(
        &self,
        function: FunctionHandle,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the caller vouches for the parameters.
        unsafe { self.launch_with_shared(function, 0, stream, params) }
    }

    /// Enqueues a kernel of one thread with this much dynamic shared memory, in bytes.
    ///
    /// # Safety
    ///
    /// As [`launch`](Self::launch).
    pub(crate) unsafe fn launch_with_shared(
        &self,
        function: FunctionHandle,
        shared_bytes: u32,
        stream: StreamHandle,
        params: &[*const c_void],
    ) -> Result<()> {
        let dims = LaunchDims {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes,
        };
        // SAFETY: the caller vouches for the parameters.
        unsafe { self.launch_kernel(function, &dims, stream, params) }
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(crate) fn simulated(&self) -> Option<&Gpu> {
        self.simulated.as_ref()
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.driver.is_simulated()
    }

    pub(crate) fn attribute(&self, attribute: DeviceAttribute) -> Result<i32> {
        self.driver.device_attribute(self.device, attribute)
    }

    /// Creates a non-blocking stream that lives as long as the harness.
    pub(crate) fn stream(&self) -> Result<StreamHandle> {
        let stream = self.stream_create(true, 0)?;
        lock(&self.streams).push(stream);
        Ok(stream)
    }

    /// Creates a blocking stream (one that the legacy default stream waits for) that lives as long
    /// as the harness.
    pub(crate) fn blocking_stream(&self) -> Result<StreamHandle> {
        let stream = self.stream_create(false, 0)?;
        lock(&self.streams).push(stream);
        Ok(stream)
    }

    pub(crate) fn event(&self) -> Result<EventHandle> {
        self.event_create(EventKind::Ordering)
    }

    pub(crate) fn recorded(&self, stream: StreamHandle) -> Result<EventHandle> {
        let event = self.event()?;
        self.event_record(event, stream)?;
        Ok(event)
    }

    /// Allocates zeroed device memory that lives as long as the harness.
    pub(crate) fn memory(&self, bytes: usize) -> Result<DevicePtr> {
        let pointer = self.memory_to_keep(bytes)?;
        self.memset_async(pointer, FillPattern::U8(0), bytes, StreamHandle::LEGACY)?;
        self.stream_synchronize(StreamHandle::LEGACY)?;
        Ok(pointer)
    }

    /// Allocates uninitialised device memory that lives as long as the harness.
    pub(crate) fn memory_to_keep(&self, bytes: usize) -> Result<DevicePtr> {
        let pointer = self.mem_alloc(bytes)?;
        lock(&self.memory).push(pointer);
        Ok(pointer)
    }

    /// Frees device or managed memory with the harness.
    pub(crate) fn memory_to_free(&self, pointer: DevicePtr) {
        lock(&self.memory).push(pointer);
    }

    /// Allocates page-locked memory that lives as long as the harness.
    pub(crate) fn pinned(&self, bytes: usize, value: u8) -> Result<Host> {
        let host = self.pinned_to_free(bytes, value)?;
        lock(&self.pinned).push(host);
        Ok(host)
    }

    /// Allocates page-locked memory that the test frees.
    pub(crate) fn pinned_to_free(&self, bytes: usize, value: u8) -> Result<Host> {
        let pointer = self.host_alloc(bytes)?;
        let host = Host { pointer, bytes };
        host.fill(value);
        Ok(host)
    }

    /// Allocates page-aligned pageable memory that lives as long as the harness.
    pub(crate) fn pageable(&self, bytes: usize, value: u8) -> Host {
        const PAGE: usize = 4096;
        let mut memory = vec![value; bytes + PAGE];
        let skipped = memory.as_ptr().align_offset(PAGE).min(PAGE);
        let pointer = NonNull::from(&mut memory[skipped]);
        // Moving the owner does not move its heap memory.
        lock(&self.pageable).push(memory);
        Host { pointer, bytes }
    }

    /// Returns a closure that queries the stream and may be called on any thread.
    pub(crate) fn query_later(
        &self,
        stream: StreamHandle,
    ) -> impl FnOnce() -> Result<Completion> + Send + 'static {
        let (driver, context) = (Arc::clone(&self.driver), self.context);
        // SAFETY: the context is alive, and so is the stream.
        move || unsafe { driver.stream_query(context, stream) }
    }

    /// Synchronises the stream and returns the content of device memory.
    pub(crate) fn read(
        &self,
        source: DevicePtr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<Vec<u8>> {
        let host = self.pinned(bytes, 0)?;
        self.download(host, source, stream)?;
        self.stream_synchronize(stream)?;
        Ok(host.read())
    }

    /// Returns whether every byte of the device memory is `value` after the stream's work.
    pub(crate) fn holds(
        &self,
        source: DevicePtr,
        value: u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<bool> {
        Ok(self
            .read(source, bytes, stream)?
            .iter()
            .all(|&byte| byte == value))
    }

    pub(crate) fn pending(&self, stream: StreamHandle) -> Result<bool> {
        Ok(!self.stream_query(stream)?.is_complete())
    }

    /// Polls the stream repeatedly for a while. Returns whether its work stayed pending.
    pub(crate) fn stays_pending(&self, stream: StreamHandle) -> Result<bool> {
        for _ in 0..20 {
            if !self.pending(stream)? {
                return Ok(false);
            }
            self.driver.pause(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Polls the stream for as long as a call may take before it counts as blocked. Returns whether
    /// its work completed.
    pub(crate) fn gets_done(&self, stream: StreamHandle) -> Result<bool> {
        for _ in 0..100 {
            if !self.pending(stream)? {
                return Ok(true);
            }
            self.driver.pause(self.patience / 100);
        }
        Ok(false)
    }

    /// Returns the error code of a call that must fail.
    pub(crate) fn refusal<T>(&self, answer: Result<T>) -> Result<ResultCode, Failed> {
        match answer {
            Ok(_) => Err("the call succeeded; it must fail".into()),
            Err(error) => {
                self.refused.fetch_add(1, SeqCst);
                Ok(error.code())
            }
        }
    }

    /// Returns "taken" if a call that may fail succeeds, else its error code.
    pub(crate) fn taken_or_code(&self, answer: Result<()>) -> String {
        match answer {
            Ok(()) => "taken".to_owned(),
            Err(error) => {
                self.refused.fetch_add(1, SeqCst);
                error.code().to_string()
            }
        }
    }

    /// Marks the test as deliberately wrong: the simulated device may report any number of errors.
    pub(crate) fn does_wrong(&self) {
        self.any_reports.store(true, SeqCst);
    }

    /// Checks at the end of a test that the simulated device has no more reports than calls failed,
    /// unless the test was marked as deliberately wrong.
    pub(crate) fn finish(self) -> Result<(), Failed> {
        if let Some(gpu) = &self.simulated
            && !self.any_reports.load(SeqCst)
        {
            let reports = gpu.reports();
            check(
                reports.len() <= self.refused.load(SeqCst),
                &format!(
                    "the simulated device reported more errors than calls failed: \
                {reports:#?}"
                ),
            )?;
        }
        Ok(())
    }
}

impl Drop for DeviceHarness {
    fn drop(&mut self) {
        // All gates are open by now: they borrow nothing, but every test drops its gates before
        // this.
        let _ = self.context_synchronize();
        for pointer in lock(&self.memory).drain(..) {
            let _ = self.mem_free(pointer);
        }
        for host in lock(&self.pinned).drain(..) {
            let _ = self.host_free(host);
        }
        for stream in lock(&self.streams).drain(..) {
            let _ = self.stream_destroy(stream);
        }
        // A GPU's context stays alive: it is slow to create, and other tests of this process use
        // it.
        if self.is_simulated() {
            // SAFETY: the reference of `open`, once.
            let _ = unsafe { self.driver.primary_context_release(self.device) };
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) fn check(holds: bool, claim: &str) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(claim.into()) }
}
