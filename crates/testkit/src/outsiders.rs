//! Outsiders: streams and memory that another library created, here through the driver's interface.

#![allow(unsafe_code, reason = "calls the driver as another library would")]

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Buffer, Device, Release, Result, Stream,
    driver::{
        CaptureMode, ContextHandle, CurrentContext, DeviceOrdinal, DevicePtr, Driver, DriverError,
        FillPattern, HostFunction, StreamHandle, cuda::Cuda,
    },
    interop::After,
    sim::{Gpu, Hold},
};

use parking_lot::Mutex;

use crate::harness::CLOSED_WITHIN;

pub const BYTES: usize = 3000;
/// The bytes of an outsider's own memory.
const SCRATCH_BYTES: usize = 4096;

thread_local! {
    static ADOPTS: Cell<bool> = const { Cell::new(false) };
}

/// Runs scenarios in which every second stream of a harness is one of an outsider.
pub fn with_adopted_streams(scenarios: impl FnOnce()) {
    ADOPTS.set(true);
    scenarios();
    ADOPTS.set(false);
}

/// Returns whether this thread runs scenarios [with adopted streams](with_adopted_streams).
pub fn are_adopted() -> bool {
    ADOPTS.get()
}

/// The outsiders whose streams a harness has adopted. Those that are not in use any more are
/// dropped.
#[derive(Default)]
pub struct Outsiders(Mutex<Adoptions>);

#[derive(Default)]
struct Adoptions {
    streams: usize,
    outsiders: Vec<Arc<Outsider>>,
}

impl Outsiders {
    /// Returns an adopted stream at every second call, if the thread's harnesses adopt streams.
    pub fn next(&self, gpu: Option<&Gpu>, device: &Device) -> Option<Stream> {
        if !ADOPTS.get() {
            return None;
        }
        self.work();
        let mut adoptions = self.0.lock();
        adoptions
            .outsiders
            .retain(|outsider| Arc::strong_count(outsider) > 1);
        adoptions.streams += 1;
        if adoptions.streams.is_multiple_of(2) {
            return None;
        }
        let outsider = Outsider::new(gpu, 0);
        let stream = outsider.adopt(device);
        adoptions.outsiders.push(outsider);
        Some(stream)
    }

    /// Returns streams, of which every second is adopted if the thread's harnesses adopt streams.
    pub fn streams<const N: usize>(&self, gpu: &Gpu, device: &Device) -> [Stream; N] {
        [(); N].map(|()| {
            let adopted = self.next(Some(gpu), device);
            adopted.unwrap_or_else(|| device.stream().expect("a stream"))
        })
    }

    /// Lets the owners enqueue work of their own.
    pub fn work(&self) {
        self.0
            .lock()
            .outsiders
            .iter()
            .for_each(|outsider| outsider.work());
    }
}

/// A stream that another library created, with memory of its own. The drop destroys it.
pub struct Outsider {
    driver: Arc<dyn Driver>,
    context: ContextHandle,
    pub raw: StreamHandle,
    scratch: DevicePtr,
    /// The number of outsiders that were dropped before and with this one.
    drops: Arc<AtomicUsize>,
}

impl Outsider {
    /// Creates a stream in the primary context of a device, on the simulated GPU or a real one.
    pub fn new(gpu: Option<&Gpu>, ordinal: i32) -> Arc<Self> {
        let driver: Arc<dyn Driver> = match gpu {
            Some(gpu) => gpu.driver(),
            None => Cuda::load().expect("there is a driver"),
        };
        let made = || -> Result<Self, DriverError> {
            let context = driver.primary_context_retain(DeviceOrdinal::from_raw(ordinal))?;
            // SAFETY: the context is retained.
            let raw = unsafe { driver.stream_create(context, true, 0) }?;
            // SAFETY: context and stream are alive.
            let scratch = unsafe { driver.mem_alloc_async(context, SCRATCH_BYTES, raw) }?;
            Ok(Self {
                driver: Arc::clone(&driver),
                context,
                raw,
                scratch,
                drops: Arc::default(),
            })
        };
        Arc::new(made().expect("an outsider's stream"))
    }

    pub fn drops(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.drops)
    }

    /// Adopts the stream, kept alive by this outsider.
    pub fn adopt(self: &Arc<Self>, device: &Device) -> Stream {
        // SAFETY: the stream is destroyed when the last reference is dropped.
        unsafe { device.adopt_stream(self.raw, Arc::clone(self)) }.expect("the stream is adopted")
    }

    /// Enqueues work on memory of its own.
    pub fn work(&self) {
        self.fill(self.scratch, SCRATCH_BYTES, 1);
    }

    /// Enqueues a fill of memory that is the outsider's at the moment.
    pub fn fill(&self, target: DevicePtr, bytes: usize, value: u8) {
        self.fill_on(self.raw, target, bytes, value);
    }

    /// Enqueues a fill as [`fill`](Self::fill) on a stream that it is given.
    pub fn fill_on(&self, raw: StreamHandle, target: DevicePtr, bytes: usize, value: u8) {
        let pattern = FillPattern::U8(value);
        // SAFETY: the memory has this size and is alive until later work of the stream.
        unsafe {
            self.driver
                .memset_async(self.context, target, pattern, bytes, raw)
        }
        .expect("the fill is enqueued");
    }

    /// Enqueues a copy between memory that is the outsider's at the moment.
    pub fn copy(&self, source: DevicePtr, target: DevicePtr, bytes: usize) {
        let (driver, context) = (&self.driver, self.context);
        // SAFETY: as for `fill`.
        unsafe { driver.copy_device_to_device_async(context, target, source, bytes, self.raw) }
            .expect("the copy is enqueued");
    }

    /// Begins a capture of the stream, in relaxed mode, so that nothing but its own stream, work
    /// and events is concerned.
    pub fn begin_capture(&self) {
        // SAFETY: the stream is alive.
        unsafe {
            self.driver
                .stream_begin_capture(self.context, self.raw, CaptureMode::Relaxed)
        }
        .expect("the capture begins");
    }

    /// Ends the capture of the stream, and launches its graph if there is one and it `launches`,
    /// which may wait for the device. Returns whether there is a graph.
    pub fn end_capture(&self, launches: bool) -> bool {
        let (driver, context) = (&self.driver, self.context);
        // SAFETY: the stream is alive.
        let Ok(graph) = (unsafe { driver.stream_end_capture(context, self.raw) }) else {
            return false;
        };
        let launch = || -> Result<(), DriverError> {
            if launches {
                // SAFETY: the graph is alive.
                let exec = unsafe { driver.graph_instantiate(context, graph) }?;
                // SAFETY: stream and graph are alive.
                unsafe { driver.graph_launch(context, exec, self.raw) }?;
                // SAFETY: the executable graph is not used again.
                unsafe { driver.graph_exec_destroy(context, exec) }?;
            }
            // SAFETY: the graph is not used again.
            unsafe { driver.graph_destroy(context, graph) }
        };
        launch().expect("the graph is launched");
        true
    }

    /// Blocks the stream from here on until the gate is dropped, if gates `hold`. No operation of
    /// the library is submitted.
    pub fn gate(&self, gpu: Option<&Gpu>, hold: bool) -> OutsiderGate {
        let raised = Arc::new(AtomicBool::new(false));
        if let Some(gpu) = gpu {
            return OutsiderGate {
                _hold: hold.then(|| gpu.hold(self.raw)),
                raised,
            };
        }
        let waited = Arc::clone(&raised);
        let function: HostFunction = Box::new(move || {
            while !waited.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        });
        // SAFETY: the stream is alive, and the function makes no driver call.
        unsafe {
            self.driver
                .launch_host_function(self.context, self.raw, function)
        }
        .expect("the gate is enqueued");
        OutsiderGate {
            _hold: None,
            raised,
        }
    }

    /// Allocates in the stream's order.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Tensor {
        // SAFETY: context and stream are alive.
        let pointer = unsafe { self.driver.mem_alloc_async(self.context, bytes, self.raw) };
        Tensor {
            owner: Arc::clone(self),
            pointer: pointer.expect("memory"),
            used_on: None,
        }
    }

    /// Returns whether the device's context is current on this thread; true on a simulated device.
    pub fn is_current(&self) -> bool {
        self.driver.is_simulated()
            || self
                .driver
                .current_context()
                .is_ok_and(|current| current == self.context)
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        let (driver, context) = (&*self.driver, self.context);
        // SAFETY: the context is retained and never released.
        let enter = || unsafe { CurrentContext::enter(driver, context) };
        let _current = (!driver.is_simulated()).then(enter);
        // SAFETY: the memory is this outsider's, and its users are ordered before.
        let _ = unsafe { driver.mem_free_async(context, self.scratch, self.raw) };
        // A lazy schedule runs nothing that is not waited for.
        // SAFETY: the stream is alive.
        let _ = unsafe { driver.stream_synchronize(context, self.raw) };
        // SAFETY: the stream is this outsider's, whose last handle is dropped.
        let _ = unsafe { driver.stream_destroy(context, self.raw) };
    }
}

/// A stream that its owner blocks until this is dropped.
pub struct OutsiderGate {
    _hold: Option<Hold>,
    raised: Arc<AtomicBool>,
}

impl Drop for OutsiderGate {
    fn drop(&mut self) {
        self.raised.store(true, Ordering::SeqCst);
    }
}

/// Memory that its owner frees in the order of its stream when it is dropped.
pub struct Tensor {
    owner: Arc<Outsider>,
    pub pointer: DevicePtr,
    /// Set where calls of this device are made to fail. If it is lost, nothing is freed: the driver
    /// of a lost device would refuse the call.
    pub used_on: Option<Device>,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if self
            .used_on
            .as_ref()
            .is_some_and(|device| device.lost().is_some())
        {
            return;
        }
        let owner = &self.owner;
        // SAFETY: nothing uses the memory behind this point of the stream. After a loss the driver
        // refuses the call.
        let _ = unsafe {
            owner
                .driver
                .mem_free_async(owner.context, self.pointer, owner.raw)
        };
    }
}

/// Counts the drops of keepers.
#[derive(Clone, Default)]
pub struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until one keeper was dropped.
    #[track_caller]
    pub fn assert_one(&self) {
        wait_until(|| self.count() == 1);
    }
}

/// A keeper of adopted memory, which frees it.
pub struct Keeper {
    pub drops: Drops,
    pub tensor: Tensor,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.drops.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[track_caller]
pub fn wait_until(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < CLOSED_WITHIN, "it never happens");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Adopts memory of an outsider, after its work on its stream.
pub fn adopted(
    device: &Device,
    theirs: &Stream,
    (tensor, drops): (Tensor, &Drops),
    release: impl FnOnce(Keeper) -> Release,
) -> Buffer<u8> {
    let pointer = tensor.pointer;
    let keeper = Keeper {
        drops: drops.clone(),
        tensor,
    };
    let (after, release) = (After::Stream(theirs), release(keeper));
    // SAFETY: the memory has this size, and the keeper frees it.
    unsafe { device.adopt_buffer(pointer, BYTES, after, release) }.expect("the memory is adopted")
}
