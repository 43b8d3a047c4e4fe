//! Opening devices: which one, as the program or the environment says, and one state for each
//! however often it is opened.

#![allow(
    unsafe_code,
    reason = "passes on the contract of a driver that safe code could not vouch for"
)]

use std::{
    env,
    panic::Location,
    sync::{Arc, Weak},
};

#[cfg(feature = "sim")]
use millstream_driver::PerProcess;
use millstream_driver::{
    DeviceOrdinal, Driver,
    cuda::{Cuda, LoadError},
};
#[cfg(feature = "sim")]
use millstream_sim::{Gpu, SimConfig};
use parking_lot::Mutex;

use super::teardown::Hooks;
#[cfg(feature = "sim")]
use crate::disposal::log;
use crate::{Device, Error, Result, context::DeviceState};

/// The environment variable that decides for [`Select::Auto`].
const VARIABLE: &str = "MILLSTREAM_DEVICE";

/// Which device to open.
///
/// ```
/// use millstream::{Device, Select, sim::SimConfig};
/// let config = SimConfig::new().memory_bytes(1 << 30);
/// assert!(Device::open(Select::Simulated(Box::new(config)))?.is_simulated());
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Select {
    /// What the environment variable `MILLSTREAM_DEVICE` says: `cuda:0`, `sim`, or `sim:` with
    /// settings such as `sim:seed=7`. Without it, the first GPU if there is one, else a simulated
    /// device: [`Device::selection_reason`] says which and why. All `Auto` devices of a process
    /// that are simulated are the same one. Without the feature `sim` there is no simulated device,
    /// and [`Error::NoSimulator`] takes its place.
    #[default]
    Auto,
    /// The GPU of this ordinal, through `libcuda`.
    Cuda(i32),
    /// A simulated device of its own.
    #[cfg(feature = "sim")]
    Simulated(Box<SimConfig>),
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// If there is no such device, or nothing that can drive it; the error lists what was looked
    /// for. With the feature `sim`, which is on by default, `Auto` does not need a GPU.
    #[track_caller]
    pub fn open(select: Select) -> Result<Self> {
        open(select)
    }

    /// The number of GPUs that [`Select::Cuda`] can open, by ordinals from 0: those that NVIDIA's
    /// driver shows to this process, and none without such a driver. Simulated devices are not
    /// among them: a program makes as many as it likes.
    ///
    /// ```
    /// use millstream::{Device, Select};
    ///
    /// for ordinal in 0..Device::count()? {
    ///     let device = Device::open(Select::Cuda(ordinal))?;
    ///     println!("{device}: {:?}", device.properties()?);
    /// }
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is a driver that is too old, or does not start.
    pub fn count() -> Result<i32> {
        count()
    }

    /// Opens a new simulated device with the default settings.
    ///
    /// # Errors
    ///
    /// None is known.
    #[cfg(feature = "sim")]
    #[track_caller]
    pub fn simulated() -> Result<Self> {
        Self::open_simulated(&Gpu::new(SimConfig::default()), 0)
    }

    /// Opens a device of a simulated GPU that the caller keeps a handle to.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    ///
    /// let gpu = Gpu::new(SimConfig::default());
    /// let device = Device::open_simulated(&gpu, 0)?;
    /// let hold = gpu.hold(device.stream()?.as_raw());
    /// drop(hold);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the simulated GPU has no device of this ordinal.
    #[cfg(feature = "sim")]
    #[track_caller]
    pub fn open_simulated(gpu: &Gpu, ordinal: i32) -> Result<Self> {
        open_once(
            gpu.driver(),
            DeviceOrdinal::from_raw(ordinal),
            "simulated, as asked for",
        )
    }

    /// Opens a device of any driver: one that counts calls, or makes them fail, in front of
    /// another.
    ///
    /// # Errors
    ///
    /// If the driver has no device of this ordinal.
    ///
    /// # Safety
    ///
    /// The driver does what [`Driver`] says: among other things, pointers that it gives out are
    /// valid memory, and copies touch no other.
    #[track_caller]
    pub unsafe fn with_driver(driver: Arc<dyn Driver>, ordinal: i32) -> Result<Self> {
        open_once(
            driver,
            DeviceOrdinal::from_raw(ordinal),
            "a driver of the caller's",
        )
    }
}

/// Opens what was selected.
#[track_caller]
fn open(select: Select) -> Result<Device> {
    match select {
        Select::Auto => auto(),
        Select::Cuda(ordinal) => cuda(ordinal, "a GPU, as asked for"),
        #[cfg(feature = "sim")]
        Select::Simulated(config) => Device::open_simulated(&Gpu::new(*config), 0),
    }
}

/// How many GPUs the driver shows.
fn count() -> Result<i32> {
    match Cuda::load() {
        Ok(driver) => Ok(driver.device_count()?),
        Err(LoadError::LibraryMissing { .. } | LoadError::NoDevice { .. }) => Ok(0),
        Err(error) => Err(Error::unavailable(error)),
    }
}

#[track_caller]
fn auto() -> Result<Device> {
    let Some(value) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return match cuda(0, "the first GPU") {
            Ok(device) => Ok(device),
            Err(error) => simulate_instead(&error),
        };
    };
    let value = value.to_string_lossy();
    let refuse = |problem: &str| Error::unavailable(format!("{VARIABLE}={value}: {problem}"));
    if let Some(ordinal) = value.strip_prefix("cuda:") {
        let ordinal = ordinal
            .parse()
            .map_err(|_| refuse("a device's number must follow `cuda:`"))?;
        return cuda(ordinal, &format!("a GPU, by {VARIABLE}={value}"));
    }
    if value == "sim" || value.starts_with("sim:") {
        return simulate(&value);
    }
    Err(refuse("expected `cuda:N`, `sim` or `sim:` with settings"))
}

#[track_caller]
fn cuda(ordinal: i32, reason: &str) -> Result<Device> {
    let driver = Cuda::load().map_err(Error::unavailable)?;
    open_once(driver, DeviceOrdinal::from_raw(ordinal), reason)
}

/// Opens the process's simulated device for want of a GPU.
#[cfg(feature = "sim")]
#[track_caller]
fn simulate_instead(error: &Error) -> Result<Device> {
    let reason = format!("simulated, for there is no GPU to use: {error}");
    let text = reason.clone();
    log!(warn, "{text}");
    shared_simulation(SimConfig::default(), &reason)
}

#[cfg(not(feature = "sim"))]
fn simulate_instead(error: &Error) -> Result<Device> {
    let asked = format!("there is no GPU to use: {error}").into();
    Err(Error::NoSimulator { asked })
}

/// Opens the process's simulated device with the settings that the environment gives.
#[cfg(feature = "sim")]
#[track_caller]
fn simulate(value: &str) -> Result<Device> {
    let config = SimConfig::parse(value)
        .map_err(|error| Error::unavailable(format!("{VARIABLE}={value}: {error}")))?;
    shared_simulation(config, &format!("simulated, by {VARIABLE}={value}"))
}

#[cfg(not(feature = "sim"))]
fn simulate(value: &str) -> Result<Device> {
    let asked = format!("{VARIABLE}={value}").into();
    Err(Error::NoSimulator { asked })
}

/// The process's simulated device; the settings of the first to open it hold.
#[cfg(feature = "sim")]
#[track_caller]
fn shared_simulation(config: SimConfig, reason: &str) -> Result<Device> {
    static SHARED: PerProcess<Arc<dyn Driver>> = PerProcess::new();
    let driver = SHARED.get_or_init(|| Gpu::new(config).driver());
    open_once(Arc::clone(driver), DeviceOrdinal::from_raw(0), reason)
}

/// An open device. Its driver's identity cannot be another's while the state lives.
struct OpenDevice {
    driver: usize,
    ordinal: DeviceOrdinal,
    state: Weak<DeviceState>,
}

static OPEN: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

/// The device, opened if it is not yet; `reason` says how it was chosen.
/// The line that asked for it is that of whoever comes first.
#[track_caller]
fn open_once(driver: Arc<dyn Driver>, ordinal: DeviceOrdinal, reason: &str) -> Result<Device> {
    let identity = driver.identity();
    let mut open = OPEN.lock();
    open.retain(|entry| entry.state.strong_count() > 0);
    let known = open
        .iter()
        .find(|entry| entry.driver == identity && entry.ordinal == ordinal);
    if let Some(state) = known.and_then(|entry| entry.state.upgrade()) {
        return Ok(Device::from_state(state));
    }
    let state = Arc::new(DeviceState::open(
        driver,
        ordinal,
        reason,
        Location::caller(),
        &Hooks,
    )?);
    state.memory().shared.join(&state);
    open.push(OpenDevice {
        driver: identity,
        ordinal,
        state: Arc::downgrade(&state),
    });
    Ok(Device::from_state(state))
}
