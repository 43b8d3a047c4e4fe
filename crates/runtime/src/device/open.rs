//! Opening devices: selects the device by the program's or the environment's choice, and keeps one
//! state per device.

#![allow(unsafe_code, reason = "exposes the safety contract of a custom driver")]

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

use super::teardown::Hooks;
#[cfg(feature = "sim")]
use crate::disposal::log;
use crate::{
    Device, Error, Result,
    context::{DeviceState, enter_realm},
    sync::ranked::{OPEN_DEVICES, Ranked},
};

/// The environment variable that selects the device for [`Select::Auto`].
const VARIABLE: &str = "MILLSTREAM_DEVICE";

/// The device to open.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Select {
    /// The device that the environment variable `MILLSTREAM_DEVICE` names: `cuda:0`, `sim`, or
    /// `sim:` with settings such as `sim:seed=7`. If it is not set: the first GPU if there is one,
    /// else a simulated device. [`Device::selection_reason`] explains the choice. All simulated
    /// `Auto` devices of a process are the same device. Without the feature `sim` there is no
    /// simulated device, and opening fails with [`Error::NoSimulator`].
    #[default]
    Auto,
    /// The GPU with this ordinal, through `libcuda`.
    Cuda(i32),
    /// A new simulated device with this configuration.
    #[cfg(feature = "sim")]
    Simulated(Box<SimConfig>),
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// If there is no such device or no driver for it; the error lists what was tried. With the
    /// feature `sim`, which is on by default, `Auto` does not need a GPU.
    #[track_caller]
    pub fn open(select: Select) -> Result<Self> {
        open(select)
    }

    /// Returns the number of GPUs that [`Select::Cuda`] can open, by ordinals from 0: those that
    /// NVIDIA's driver shows to this process, or 0 without such a driver. Simulated devices are not
    /// counted, since a program may create any number of them.
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
    /// If the driver is too old or cannot be initialised.
    #[doc(alias("cuDeviceGetCount", "cudaGetDeviceCount", "device_count"))]
    pub fn count() -> Result<i32> {
        count()
    }

    /// Opens a new simulated device with the default settings.
    ///
    /// # Errors
    ///
    /// No error condition is known.
    #[cfg(feature = "sim")]
    #[track_caller]
    pub fn simulated() -> Result<Self> {
        Self::open_simulated(&Gpu::new(SimConfig::default()), 0)
    }

    /// Opens a device of a simulated GPU to which the caller keeps a handle.
    ///
    /// # Errors
    ///
    /// If the simulated GPU has no device with this ordinal.
    #[cfg(feature = "sim")]
    #[track_caller]
    pub fn open_simulated(gpu: &Gpu, ordinal: i32) -> Result<Self> {
        open_once(
            gpu.driver(),
            DeviceOrdinal::from_raw(ordinal),
            "simulated, as requested",
        )
    }

    /// Opens a device of a custom driver, such as a wrapper that counts calls or makes them fail.
    ///
    /// # Errors
    ///
    /// If the driver has no device with this ordinal.
    ///
    /// # Safety
    ///
    /// The driver fulfils the contract of [`Driver`]; in particular, the pointers that it returns
    /// refer to valid memory, and copies access no other memory.
    #[track_caller]
    pub unsafe fn with_driver(driver: Arc<dyn Driver>, ordinal: i32) -> Result<Self> {
        open_once(
            driver,
            DeviceOrdinal::from_raw(ordinal),
            "a driver supplied by the program",
        )
    }
}

#[track_caller]
fn open(select: Select) -> Result<Device> {
    match select {
        Select::Auto => auto(),
        Select::Cuda(ordinal) => cuda(ordinal, "a GPU, as requested"),
        #[cfg(feature = "sim")]
        Select::Simulated(config) => Device::open_simulated(&Gpu::new(*config), 0),
    }
}

/// Opens all devices of the driver to which the device for [`Select::Auto`] belongs, or only that
/// device if the environment names it.
#[track_caller]
pub(super) fn open_all() -> Result<Vec<Device>> {
    let first = auto()?;
    let state = first.state();
    let named = env::var(VARIABLE).is_ok_and(|value| value.starts_with("cuda:"));
    if named {
        return Ok(vec![first]);
    }
    let driver = &state.driver;
    let reason = format!("one of all devices: {}", state.selection_reason);
    (0..driver.device_count()?)
        .map(|ordinal| {
            let ordinal = DeviceOrdinal::from_raw(ordinal);
            open_once(Arc::clone(driver), ordinal, &reason)
        })
        .collect()
}

/// Returns the number of GPUs that the driver reports.
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
            .map_err(|_| refuse("a device ordinal must follow `cuda:`"))?;
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

/// Opens the process's simulated device because there is no usable GPU.
#[cfg(feature = "sim")]
#[track_caller]
fn simulate_instead(error: &Error) -> Result<Device> {
    let reason = format!("simulated, because there is no usable GPU: {error}");
    let text = reason.clone();
    log!(warn, "{text}");
    shared_simulation(SimConfig::default(), &reason)
}

#[cfg(not(feature = "sim"))]
fn simulate_instead(error: &Error) -> Result<Device> {
    let asked = format!("there is no usable GPU: {error}").into();
    Err(Error::NoSimulator { asked })
}

/// Opens the process's simulated device with the settings from the environment variable.
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

/// Opens the process's shared simulated device. The settings of the first call apply.
#[cfg(feature = "sim")]
#[track_caller]
fn shared_simulation(config: SimConfig, reason: &str) -> Result<Device> {
    static SHARED: PerProcess<Arc<dyn Driver>> = PerProcess::new();
    let driver = SHARED.get_or_init(|| Gpu::new(config).driver());
    open_once(Arc::clone(driver), DeviceOrdinal::from_raw(0), reason)
}

/// An entry of the list of open devices. The driver's identity is unique while the state lives.
struct OpenDevice {
    driver: usize,
    ordinal: DeviceOrdinal,
    state: Weak<DeviceState>,
}

static OPEN: Ranked<OPEN_DEVICES, Vec<OpenDevice>> = Ranked::new(Vec::new());

/// Returns the open device, or opens it; `reason` says how it was chosen. The caller of the first
/// call is recorded as the line that opened it.
#[track_caller]
fn open_once(driver: Arc<dyn Driver>, ordinal: DeviceOrdinal, reason: &str) -> Result<Device> {
    let identity = driver.identity();
    let mut open = OPEN.lock();
    open.retain(|entry| entry.state.strong_count() > 0);
    let device = open
        .iter()
        .find(|entry| entry.driver == identity && entry.ordinal == ordinal);
    if let Some(state) = device.and_then(|entry| entry.state.upgrade()) {
        return Ok(Device::from_state(state));
    }
    let state = Arc::new(DeviceState::open(
        driver,
        ordinal,
        reason,
        Location::caller(),
        &Hooks,
    )?);
    state.page_locked().shared.join(&state);
    enter_realm(&state);
    open.push(OpenDevice {
        driver: identity,
        ordinal,
        state: Arc::downgrade(&state),
    });
    Ok(Device::from_state(state))
}
