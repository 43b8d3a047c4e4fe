//! The scenarios' test harness: devices in every configuration, and gates that block a stream.

#![allow(unsafe_code, reason = "closes gates and opens devices")]

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millstream::{
    Device, Event, Graph, GraphRecorder, LaunchConfig, Pending, Result, Select, Stream,
    driver::{ContextHandle, DeviceOrdinal, Driver, cuda::Cuda},
    kernel::{self, DriverStream},
    sim::{Gpu, Hold, LiveObjectCounts, SimConfig},
};
use parking_lot::{Mutex, MutexGuard};

pub use crate::watch::Watch;
use crate::{
    calls::Calls,
    configurations::{Configuration, Sizes, all_simulated, configurations, devices, on_gpu},
    outsiders::{Outsiders, are_adopted},
};

millstream::kernels! {
    /// A kernel that blocks its stream.
    // SAFETY: the signature is that of gate.cu.
    pub unsafe mod gate_kernel from include_str!("../../../kernels/gate.ptx") {
        /// Spins until the word at `flag` is not 0. `flag` must be readable by the device until
        /// then.
        pub unsafe fn gate(flag: u64);
    }
}

/// The time limit within which a closed device must have freed everything.
pub const CLOSED_WITHIN: Duration = Duration::from_secs(30);

/// A length in elements of 4 bytes that exceeds one chunk of every kind of copy and is no multiple
/// of a chunk.
pub const LARGE_LEN: usize = (4 << 20) / 4 + 777;

/// A device to run a scenario on, with its configuration.
pub struct Harness {
    pub device: Device,
    gpu: Option<Gpu>,
    gates_hold: bool,
    sizes: Sizes,
    /// Set if the scenario leaks objects that keep the device open.
    leaks: AtomicBool,
    outsiders: Outsiders,
}

/// Runs the scenario on the GPU that `MILLSTREAM_DEVICE` names, or else on the simulated device
/// under every schedule and every reading of the disputed rules.
pub fn everywhere(scenario: impl Fn(&Harness)) {
    let _alone = alone();
    for configuration in configurations() {
        run_at(configuration, &scenario);
    }
}

/// Runs the scenario on the simulated device under every schedule and every reading of the disputed
/// rules, with settings that `change` changes: for machines that cannot be had as a GPU.
pub fn everywhere_simulated(change: impl Fn(SimConfig) -> SimConfig, scenario: impl Fn(&Harness)) {
    for configuration in all_simulated(&change) {
        run_at(configuration, &scenario);
    }
}

/// Runs the scenario on the GPU that `MILLSTREAM_DEVICE` names, or else on the simulated device in
/// the first configuration only: for scenarios with many operations.
pub fn once(scenario: impl Fn(&Harness) -> Result<()>) {
    let _alone = alone();
    run_at(configurations().swap_remove(0), &|harness| {
        scenario(harness).unwrap()
    });
}

fn run_at(configuration: Configuration, scenario: &impl Fn(&Harness)) {
    let _watch = Watch::over(configuration.name.clone());
    let device = match &configuration.gpu {
        Some(gpu) => Device::open_simulated(gpu, 0),
        None => Device::open(Select::Auto),
    };
    let harness = Harness::new(device, configuration);
    scenario(&harness);
    harness.finish();
}

/// As [`everywhere`], with every driver call recorded.
pub fn everywhere_counted(scenario: impl Fn(&Harness, &Arc<Calls>)) {
    let _alone = alone();
    for configuration in configurations() {
        run_counted(configuration, &scenario);
    }
}

/// As [`once`], with every driver call recorded.
pub fn once_counted(scenario: impl Fn(&Harness, &Calls)) {
    let _alone = alone();
    let first = configurations().swap_remove(0);
    run_counted(first, &|harness, calls: &Arc<Calls>| {
        scenario(harness, calls)
    });
}

fn run_counted(configuration: Configuration, scenario: &impl Fn(&Harness, &Arc<Calls>)) {
    let _watch = Watch::over(configuration.name.clone());
    let (calls, device) = counted(configuration.gpu.as_ref());
    // Each chunk is a driver call, so other chunk sizes would change the counts.
    let configuration = Configuration {
        sizes: Sizes::Own,
        ..configuration
    };
    let harness = Harness::new(device, configuration);
    scenario(&harness, &calls);
    harness.finish();
}

/// Opens a device through a recording driver: of the simulated GPU, or else of the GPU that
/// `MILLSTREAM_DEVICE` names.
fn counted(gpu: Option<&Gpu>) -> (Arc<Calls>, Result<Device>) {
    let inner: Arc<dyn Driver> = match gpu {
        Some(gpu) => gpu.driver(),
        None => Cuda::load().expect("MILLSTREAM_DEVICE names a GPU"),
    };
    let calls = Arc::new(Calls::over(inner));
    // SAFETY: the wrapper forwards every call to a conforming driver.
    let device = unsafe { Device::with_driver(Arc::clone(&calls) as Arc<dyn Driver>, 0) };
    (calls, device)
}

/// Returns a harness with the first configuration.
pub fn somewhere() -> Harness {
    let configuration = configurations().swap_remove(0);
    let device = match &configuration.gpu {
        Some(gpu) => Device::open_simulated(gpu, 0),
        None => Device::open(Select::Auto),
    };
    Harness::new(device, configuration)
}

/// Takes the lock that serialises scenarios on a GPU; returns `None` on the simulated device.
/// Loading a module may wait for every running kernel of the context, including another scenario's
/// gate, which the blocked driver call then keeps from being opened.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static GPU: Mutex<()> = Mutex::new(());
    on_gpu().then(|| {
        let guard = GPU.lock();
        // The gate kernel is loaded before any gate is closed.
        let device = Device::open(Select::Auto).expect("MILLSTREAM_DEVICE names a GPU");
        gate_kernel::load(&device).expect("the gate kernel loads");
        guard
    })
}

/// An operation whose completion can be queried without blocking.
pub trait Ask {
    fn is_done(&self) -> Result<bool>;
}

impl<T> Ask for Pending<T> {
    fn is_done(&self) -> Result<bool> {
        self.is_ready()
    }
}

impl Ask for Event {
    fn is_done(&self) -> Result<bool> {
        self.is_complete()
    }
}

impl Harness {
    fn new(device: Result<Device>, configuration: Configuration) -> Self {
        let device = device.expect("the device opens");
        // A GPU's settings belong to the process, and earlier scenarios may have changed them.
        device.set_cache_limit(configuration.cache_bytes.unwrap_or(1 << 30));
        let is_new = configuration.sizes.set(&device, !configuration.gates_hold);
        assert!(is_new, "the sizes must be set before the first copy");
        Self {
            device,
            gpu: configuration.gpu,
            gates_hold: configuration.gates_hold,
            sizes: configuration.sizes,
            leaks: AtomicBool::new(false),
            outsiders: Outsiders::default(),
        }
    }

    /// Declares that the scenario leaks objects that keep the device open, so remaining objects are
    /// no failure.
    pub fn leaks(&self) {
        self.leaks.store(true, Ordering::Relaxed);
    }

    /// Checks the conditions that hold at the end of every scenario.
    fn finish(self) {
        self.assert_no_reports();
        drop(self.outsiders);
        drop(self.device);
        if let Some(gpu) = self.gpu.filter(|_| !self.leaks.into_inner()) {
            assert_nothing_left(&gpu);
        }
    }

    pub fn stream(&self) -> Stream {
        let adopted = self.outsiders.next(self.if_simulated(), &self.device);
        adopted.unwrap_or_else(|| self.device.stream().expect("a stream"))
    }

    #[track_caller]
    pub fn record(
        &self,
        name: &str,
        body: impl FnOnce(&GraphRecorder) -> Result<()>,
    ) -> Result<Graph> {
        self.device.record(name, body)
    }

    pub fn streams<const N: usize>(&self) -> [Stream; N] {
        std::array::from_fn(|_| self.stream())
    }

    /// Blocks the stream from here on until the gate is opened or dropped, if gates hold in this
    /// configuration.
    pub fn gate(&self, stream: &Stream) -> Gate {
        self.outsiders.work();
        match &self.gpu {
            Some(gpu) => Gate::held(self.gates_hold.then_some(gpu), stream),
            None => Gate::kernel(stream),
        }
    }

    /// Returns whether a closed gate blocks its stream, which it does wherever it can block that
    /// stream alone.
    pub fn gates_hold(&self) -> bool {
        self.gates_hold
    }

    /// Asserts that an operation behind a closed gate is still pending.
    #[track_caller]
    pub fn assert_pending(&self, behind: &(impl Ask + ?Sized)) {
        self.outsiders.work();
        if self.gates_hold {
            assert!(
                !behind.is_done().expect("nothing fails"),
                "it went past a closed gate"
            );
        }
    }

    /// Asserts that an operation is still pending, and opens the gate that it is behind.
    #[track_caller]
    pub fn open_pending(&self, gate: Gate, behind: &(impl Ask + ?Sized)) {
        self.assert_pending(behind);
        gate.open();
    }

    /// As [`open_pending`](Self::open_pending), and waits for the value.
    #[track_caller]
    pub fn opened<T>(&self, gate: Gate, behind: Pending<T>) -> T {
        self.open_pending(gate, &behind);
        behind.wait().expect("nothing fails")
    }

    /// Asserts that `call` was made exactly `expected` times if gates hold; without gates at most
    /// that often, because operations seen complete may make a call unnecessary. Adopted streams
    /// make further ones for the order with their owners.
    #[track_caller]
    pub fn assert_count(&self, calls: &Calls, call: &str, expected: usize) {
        let count = calls.count(call);
        let is_right = if are_adopted() {
            count >= expected || !self.gates_hold
        } else if self.gates_hold {
            count == expected
        } else {
            count <= expected
        };
        assert!(
            is_right,
            "{call}, expected {expected}: {:?}",
            calls.counts()
        );
    }

    /// As [`LARGE_LEN`], for the chunk sizes of this configuration.
    pub fn large_len(&self) -> usize {
        match self.sizes {
            Sizes::Own => LARGE_LEN,
            Sizes::Odd | Sizes::Tiny { .. } => (16 << 10) / 4 + 77,
        }
    }

    /// Opens the harness's device a second time, as an independent part of a program would.
    pub fn open_again(&self) -> Device {
        match &self.gpu {
            Some(gpu) => Device::open_simulated(gpu, 0),
            None => Device::open(Select::Cuda(0)),
        }
        .expect("the device opens again")
    }

    /// Opens the same GPU through another, recording driver: a separate device to this library, in
    /// the same context.
    pub fn by_another_driver(&self) -> (Arc<Calls>, Device) {
        let (calls, device) = counted(self.gpu.as_ref());
        let device = device.expect("the device opens by another driver");
        if self.gpu.is_none() {
            // Loading a module waits for running kernels, and so for a gate of the other device
            // (rule 53).
            for device in [&device, &self.device] {
                gate_kernel::load(device).expect("the gate kernel loads");
            }
        }
        (calls, device)
    }

    /// Returns another device of the same driver.
    pub fn second(&self) -> Device {
        self.other(1)
    }

    /// Returns all other devices of the simulated GPU; a second one on a GPU.
    pub fn others(&self) -> Vec<Device> {
        let end = if self.gpu.is_some() { devices() } else { 2 };
        (1..end as i32).map(|ordinal| self.other(ordinal)).collect()
    }

    fn other(&self, ordinal: i32) -> Device {
        let second = match &self.gpu {
            Some(gpu) => Device::open_simulated(gpu, ordinal),
            None => Device::open(Select::Cuda(ordinal)),
        };
        let second = second.expect("the machine has this device");
        // The sizes may have been set by an earlier call.
        self.sizes.set(&second, !self.gates_hold);
        if self.gpu.is_none() {
            // The probe of kernels loads a module, which waits for running kernels, and so for a
            // gate (rule 53).
            let status = self.device.peer_status(&second);
            status.expect("the state of the pair is known");
        }
        second
    }

    /// As [`others`](Self::others), in a scenario whose driver calls are recorded.
    pub fn others_counted(&self, calls: &Arc<Calls>) -> Vec<Device> {
        let end = if self.gpu.is_some() { devices() } else { 2 };
        let open = |ordinal| {
            let driver = Arc::clone(calls) as Arc<dyn Driver>;
            // SAFETY: the wrapper forwards every call to a conforming driver.
            unsafe { Device::with_driver(driver, ordinal) }.expect("the machine has this device")
        };
        (1..end as i32).map(open).collect()
    }

    /// Returns the simulated GPU of this configuration; panics on a GPU.
    pub fn simulated(&self) -> &Gpu {
        self.gpu.as_ref().expect("this is not run on a GPU")
    }

    pub fn if_simulated(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    fn assert_no_reports(&self) {
        if let Some(gpu) = &self.gpu {
            let reports = gpu.reports();
            assert!(
                reports.is_empty(),
                "the simulated device has reports: {reports:#?}"
            );
        }
    }
}

/// Waits until closed devices have left no objects but their contexts, at the latest when the
/// reactor has released them and pending work is complete.
///
/// # Errors
///
/// Names what is left after [`CLOSED_WITHIN`].
pub fn nothing_left(gpu: &Gpu) -> Result<(), String> {
    let closing = Instant::now();
    loop {
        let left = gpu.live_object_counts();
        let nothing = LiveObjectCounts {
            contexts: left.contexts,
            ..LiveObjectCounts::default()
        };
        if left == nothing {
            return Ok(());
        }
        if closing.elapsed() > CLOSED_WITHIN {
            return Err(format!("left of closed devices: {left:?}"));
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Asserts that [`nothing_left`] of closed devices, and that nothing was reported.
pub fn assert_nothing_left(gpu: &Gpu) {
    nothing_left(gpu).unwrap_or_else(|left| panic!("{left}"));
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

/// A blocked stream, released when the gate is opened or dropped.
pub enum Gate {
    Held { _hold: Option<Hold> },
    Spinning { flag: Flag },
}

impl Gate {
    pub fn open(self) {
        drop(self);
    }

    /// Closes a gate by a hold of the simulated GPU, in a foreign call: with the submit queue
    /// locked, no thread frees at this moment what waits for an idle device, and would then wait
    /// for the gate.
    fn held(gpu: Option<&Gpu>, stream: &Stream) -> Self {
        let mut hold = None;
        let close = |queue: DriverStream<'_>| {
            hold = gpu.map(|gpu| gpu.hold(queue.stream));
            Ok(())
        };
        // SAFETY: a hold accesses no memory.
        unsafe { kernel::enqueue("gate", stream, &[], Location::caller(), close) }
            .expect("the gate is enqueued");
        Self::Held { _hold: hold }
    }

    fn kernel(stream: &Stream) -> Self {
        let flag = Flag::new();
        let kernels = gate_kernel::load(&stream.device()).expect("the gate kernel loads");
        let config = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
        // SAFETY: the flag's memory is never freed.
        unsafe { kernels.gate(stream, config, flag.address()) }.expect("the gate launches");
        Self::Spinning { flag }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Self::Spinning { flag } = self {
            flag.raise();
        }
    }
}

/// A word of page-locked memory that the device can read for the life of the process.
pub struct Flag(&'static AtomicU32);

impl Flag {
    fn new() -> Self {
        let driver = Cuda::load().expect("MILLSTREAM_DEVICE names a GPU");
        let context: ContextHandle = driver
            .primary_context_retain(DeviceOrdinal::from_raw(0))
            .expect("a context");
        // SAFETY: the context was just retained.
        let pointer =
            unsafe { driver.host_alloc(context, size_of::<AtomicU32>()) }.expect("pinned memory");
        let word = pointer.cast::<AtomicU32>();
        // SAFETY: the memory is new, large enough and aligned to a page.
        unsafe { word.write(AtomicU32::new(0)) };
        // SAFETY: the word was just written, and its memory is never freed.
        Self(unsafe { word.as_ref() })
    }

    fn address(&self) -> u64 {
        std::ptr::from_ref(self.0).addr() as u64
    }

    fn raise(&self) {
        self.0.store(1, Ordering::SeqCst);
    }
}
