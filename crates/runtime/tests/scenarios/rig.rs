//! What the scenarios run on: a device under every schedule, gates that keep a stream busy, and a watchdog.

#![allow(
    unsafe_code,
    reason = "launches the gate kernel, and opens devices of a driver that counts"
)]

use std::{
    env,
    io::{self, Write},
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use millstream::{
    Buffer, Device, Grid, Select, Stream,
    driver::{ContextHandle, DeviceOrdinal, Driver, cuda::Cuda},
    sim::{Gpu, Hold, Rules, Schedule, SimConfig},
};

use parking_lot::{Mutex, MutexGuard};

use crate::calls::Calls;

millstream::kernels! {
    /// A kernel that keeps its stream busy.
    // SAFETY: the signature is that of gate.cu.
    pub(crate) unsafe mod gate_kernel from include_str!("../../../../kernels/gate.ptx") {
        /// Spins until the word at `flag` is not 0. `flag` must be readable by the device until then.
        pub(crate) unsafe fn gate(flag: u64);
    }
}

/// How many seeds of the random schedule each scenario runs under.
const SEEDS: u64 = 32;
/// How long one run of a scenario may take before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(120);

/// A device to run a scenario on.
pub(crate) struct Rig {
    pub(crate) device: Device,
    gpu: Option<Gpu>,
}

/// Runs the scenario on the GPU that `MILLSTREAM_DEVICE` names, or else on the simulated device under every schedule.
pub(crate) fn everywhere(scenario: impl Fn(&Rig)) {
    let _alone = alone();
    for (name, gpu) in places() {
        let _watch = Watch::over(name);
        let device = match &gpu {
            Some(gpu) => Device::of(gpu, 0),
            None => Device::open(Select::Auto),
        };
        let rig = Rig {
            device: device.expect("the device opens"),
            gpu,
        };
        scenario(&rig);
        rig.assert_no_reports();
    }
}

/// As [`everywhere`], with every driver call noted down.
pub(crate) fn everywhere_counted(scenario: impl Fn(&Rig, &Calls)) {
    let _alone = alone();
    for (name, gpu) in places() {
        let _watch = Watch::over(name);
        let inner: Arc<dyn Driver> = match &gpu {
            Some(gpu) => gpu.driver(),
            None => Cuda::load().expect("MILLSTREAM_DEVICE names a GPU"),
        };
        let calls = Arc::new(Calls::over(inner));
        // SAFETY: the driver passes every call on to one that does what it says.
        let device = unsafe { Device::with_driver(Arc::clone(&calls) as Arc<dyn Driver>, 0) };
        let rig = Rig {
            device: device.expect("the device opens"),
            gpu,
        };
        scenario(&rig, &calls);
        rig.assert_no_reports();
    }
}

/// The schedules, each with a new simulated GPU; or `None` for the GPU that the environment names.
fn places() -> Vec<(String, Option<Gpu>)> {
    if on_gpu() {
        return vec![(String::from("the GPU"), None)];
    }
    let simulated = |name: String, config: SimConfig| (name, Some(Gpu::new(config)));
    let mut places = Vec::new();
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Lazy] {
        let config = SimConfig::new().schedule(schedule);
        places.push(simulated(format!("{schedule:?}"), config.clone()));
        places.push(simulated(
            format!("{schedule:?}, strict rules"),
            config.rules(strict_rules()),
        ));
    }
    for seed in 0..SEEDS {
        let config = SimConfig::new().schedule(Schedule::Random(seed));
        places.push(simulated(format!("sim:seed={seed}"), config));
    }
    places
}

/// On a GPU one scenario runs at a time. Loading a module may wait for every kernel of the context, and so for a gate of
/// another scenario, which a call in the driver then keeps from being opened.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static GPU: Mutex<()> = Mutex::new(());
    on_gpu().then(|| {
        let guard = GPU.lock();
        // Loaded before any gate is closed.
        let device = Device::open(Select::Auto).expect("MILLSTREAM_DEVICE names a GPU");
        gate_kernel::load(&device).expect("the gate kernel loads");
        guard
    })
}

/// The strict reading of every rule but 29: by that one, memory made while a gate is closed would close all streams.
fn strict_rules() -> Rules {
    Rules {
        implicit_synchronisation: Rules::observed().implicit_synchronisation,
        ..Rules::strict()
    }
}

/// Whether the environment asks for a GPU.
pub(crate) fn on_gpu() -> bool {
    env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda"))
}

impl Rig {
    pub(crate) fn stream(&self) -> Stream {
        self.device.stream().expect("a stream")
    }

    pub(crate) fn streams<const N: usize>(&self) -> [Stream; N] {
        std::array::from_fn(|_| self.stream())
    }

    /// Keeps the stream busy from here on, until the gate is opened or dropped.
    pub(crate) fn gate(&self, stream: &Stream) -> Gate {
        match &self.gpu {
            Some(gpu) => Gate::held(gpu, stream),
            None => Gate::kernel(stream),
        }
    }

    /// Opens the rig's device a second time, as an independent part of a program would.
    pub(crate) fn open_again(&self) -> Device {
        match &self.gpu {
            Some(gpu) => Device::of(gpu, 0),
            None => Device::open(Select::Cuda(0)),
        }
        .expect("the device opens again")
    }

    /// The simulated GPU that this runs on.
    pub(crate) fn simulated(&self) -> &Gpu {
        self.gpu.as_ref().expect("this is not run on a GPU")
    }

    fn assert_no_reports(&self) {
        if let Some(gpu) = &self.gpu {
            let reports = gpu.reports();
            assert!(reports.is_empty(), "the simulated device complains: {reports:#?}");
        }
    }
}

/// Something that keeps a stream busy until it is opened.
pub(crate) enum Gate {
    Held { _hold: Hold, _marker: Buffer<u32> },
    Spinning { flag: Flag },
}

impl Gate {
    /// Lets the stream go on.
    pub(crate) fn open(self) {
        drop(self);
    }

    /// A hold is not the library's work. An operation in front of it stands for the launch that a gate is on a GPU.
    fn held(gpu: &Gpu, stream: &Stream) -> Self {
        let marker = stream.zeros(1).expect("an operation in front of the gate");
        Self::Held {
            _hold: gpu.hold(stream.as_raw()),
            _marker: marker,
        }
    }

    fn kernel(stream: &Stream) -> Self {
        let flag = Flag::new();
        let kernels = gate_kernel::load(&stream.device()).expect("the gate kernel loads");
        let grid = Grid::new([1, 1, 1], [1, 1, 1]);
        // SAFETY: the flag's memory is never freed.
        unsafe { kernels.gate(stream, grid, flag.address()) }.expect("the gate launches");
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

/// A word of page-locked memory that the device can see, for as long as the process lives.
pub(crate) struct Flag(&'static AtomicU32);

impl Flag {
    fn new() -> Self {
        let driver = Cuda::load().expect("MILLSTREAM_DEVICE names a GPU");
        let context: ContextHandle = driver
            .primary_context_retain(DeviceOrdinal::from_raw(0))
            .expect("a context");
        // SAFETY: the context was just retained.
        let pointer = unsafe { driver.host_alloc(context, size_of::<AtomicU32>()) }.expect("pinned memory");
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

/// Ends the process when a run hangs, and says under which schedule a run failed.
pub(crate) struct Watch {
    name: String,
    _finished: mpsc::Sender<()>,
}

impl Watch {
    pub(crate) fn over(name: String) -> Self {
        let (finished, watched) = mpsc::channel::<()>();
        let shown = name.clone();
        thread::spawn(move || {
            if watched.recv_timeout(HUNG_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Written past the test harness, which would keep it for after the test.
                let _ = writeln!(io::stderr(), "hung under {shown}");
                process::abort();
            }
        });
        Self {
            name,
            _finished: finished,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed under {}", self.name);
        }
    }
}
