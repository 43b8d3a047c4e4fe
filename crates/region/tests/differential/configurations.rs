//! Where programs run: the simulated device under each kind of schedule, or the GPU that the
//! environment names.

use std::env;

use millstream::{
    Device, Select,
    sim::{Gpu, Schedule, SimConfig},
};

use crate::Outcome;

/// One device to run a program on.
pub(crate) struct Configuration {
    pub(crate) name: String,
    /// The simulated GPU; none stands for the GPU that the environment names.
    gpu: Option<Gpu>,
}

impl Configuration {
    /// The device.
    pub(crate) fn open(&self) -> Result<Device, String> {
        let device = match &self.gpu {
            Some(gpu) => Device::open_simulated(gpu, 0),
            None => Device::open(Select::Auto),
        };
        device.map_err(|error| error.to_string())
    }

    /// Blocks that kernels had so far, if the GPU is simulated.
    pub(crate) fn blocks(&self) -> Option<u64> {
        self.gpu.as_ref().map(|gpu| gpu.kernel_stats().blocks)
    }

    /// Whether the race checker has nothing to say.
    pub(crate) fn is_clean(&self) -> Result<(), String> {
        let reports = self.gpu.as_ref().map(Gpu::reports).unwrap_or_default();
        if reports.is_empty() {
            return Ok(());
        }
        Err(format!("{reports:?}"))
    }
}

/// Every so many programs, races between the threads of each kernel are looked for as well.
const WITHIN_KERNELS: u64 = 8;

/// The place for a program with this seed.
pub(crate) fn configuration(seed: u64) -> Configuration {
    let schedule = match seed % 4 {
        0 => Schedule::Timed,
        1 => Schedule::Eager,
        2 => Schedule::Lazy,
        _ => Schedule::Random(seed),
    };
    simulated(schedule, (seed / 4).is_multiple_of(WITHIN_KERNELS))
}

/// A place of each kind.
pub(crate) fn configurations() -> Vec<Configuration> {
    let schedules = [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
    ];
    let each = schedules.into_iter().enumerate();
    each.map(|(number, schedule)| simulated(schedule, number == 0))
        .collect()
}

/// Runs a test at each of them, whose device it closes behind it.
pub(crate) fn everywhere(test: impl Fn(&Device) -> Outcome) -> Outcome {
    for configuration in configurations() {
        let device = configuration.open()?;
        test(&device)?;
        drop(device);
        configuration.is_clean()?;
    }
    Ok(())
}

fn simulated(schedule: Schedule, within_kernels: bool) -> Configuration {
    if env::var("MILLSTREAM_DEVICE").is_ok_and(|value| value.starts_with("cuda")) {
        return Configuration {
            name: String::from("the GPU"),
            gpu: None,
        };
    }
    let config = SimConfig::new()
        .schedule(schedule)
        .kernel_race_check(within_kernels);
    Configuration {
        name: format!("{schedule:?}, race check within kernels: {within_kernels}"),
        gpu: Some(Gpu::new(config)),
    }
}
