//! Which device to open: as the program says, or as the environment does.

use std::{env, sync::Arc};

use millstream_driver::{
    DeviceOrdinal, Driver, PerProcess,
    cuda::{Cuda, LoadError},
};
use millstream_sim::{Gpu, SimConfig};

use super::registry;
use crate::{Device, Error, Result, disposal::log};

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
    /// What the environment variable `MILLSTREAM_DEVICE` says: `cuda:0`, `sim`, or `sim:` with settings such as
    /// `sim:seed=7`. Without it, the first GPU if there is one, else a simulated device: [`Device::note`] says which and
    /// why. All `Auto` devices of a process that are simulated are the same one.
    #[default]
    Auto,
    /// The GPU of this ordinal, through `libcuda`.
    Cuda(i32),
    /// A simulated device of its own.
    Simulated(Box<SimConfig>),
}

/// Opens what was selected.
#[track_caller]
pub(super) fn open(select: Select) -> Result<Device> {
    match select {
        Select::Auto => auto(),
        Select::Cuda(ordinal) => cuda(ordinal, "a GPU, as asked for"),
        Select::Simulated(config) => Device::of(&Gpu::new(*config), 0),
    }
}

/// How many GPUs the driver shows.
pub(super) fn count() -> Result<i32> {
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
            Err(error) => {
                let note = format!("simulated, for there is no GPU to use: {error}");
                let text = note.clone();
                log!(warn, "{text}");
                shared_simulation(SimConfig::default(), &note)
            }
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
        let config = SimConfig::from_spec(&value).map_err(|error| refuse(&error.to_string()))?;
        return shared_simulation(config, &format!("simulated, by {VARIABLE}={value}"));
    }
    Err(refuse("expected `cuda:N`, `sim` or `sim:` with settings"))
}

#[track_caller]
fn cuda(ordinal: i32, note: &str) -> Result<Device> {
    let driver = Cuda::load().map_err(Error::unavailable)?;
    registry::open(driver, DeviceOrdinal::from_raw(ordinal), note)
}

/// The process's simulated device; the settings of whoever comes first hold.
#[track_caller]
fn shared_simulation(config: SimConfig, note: &str) -> Result<Device> {
    static SHARED: PerProcess<Arc<dyn Driver>> = PerProcess::new();
    let driver = SHARED.get_or_init(|| Gpu::new(config).driver());
    registry::open(Arc::clone(driver), DeviceOrdinal::from_raw(0), note)
}
