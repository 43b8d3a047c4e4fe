//! Configurations of the tests: simulated devices with different schedules, or the GPU that the
//! environment names.

use std::env;

use millstream::{
    Select,
    sim::{Gpu, Schedule, SimConfig},
};

use crate::differential::prelude::*;

pub(crate) struct Configuration {
    pub(crate) name: String,
    /// The simulated GPU; `None` for the GPU that the environment names.
    gpu: Option<Gpu>,
}

impl Configuration {
    pub(crate) fn open(&self) -> Result<Device, String> {
        let device = match &self.gpu {
            Some(gpu) => Device::open_simulated(gpu, 0),
            None => Device::open(Select::Auto),
        };
        device.map_err(|error| error.to_string())
    }

    fn run(&self, test: impl Fn(&Device) -> Outcome) -> Outcome {
        let device = self.open()?;
        test(&device)?;
        Ok(self.close(device)?)
    }

    /// Returns the number of blocks that kernels have run, if the GPU is simulated.
    pub(crate) fn blocks(&self) -> Option<u64> {
        self.gpu.as_ref().map(|gpu| gpu.kernel_stats().blocks)
    }

    /// Closes the device. Fails if the race checker has reports.
    pub(crate) fn close(&self, device: Device) -> Result<(), String> {
        drop(device);
        let reports = self.gpu.as_ref().map(Gpu::reports).unwrap_or_default();
        if reports.is_empty() {
            return Ok(());
        }
        Err(format!("{reports:?}"))
    }
}

/// The interval at which rounds of the four schedules also check for races within kernels.
const WITHIN_KERNELS: u64 = 8;

pub(crate) fn configuration(seed: u64) -> Configuration {
    let schedule = match seed % 4 {
        0 => Schedule::Timed,
        1 => Schedule::Eager,
        2 => Schedule::Lazy,
        _ => Schedule::Random(seed),
    };
    simulated(schedule, (seed / 4).is_multiple_of(WITHIN_KERNELS))
}

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

/// Runs a test in every configuration, then closes the device and checks for races.
pub(crate) fn everywhere(test: impl Fn(&Device) -> Outcome) -> Outcome {
    configurations().iter().try_for_each(|one| one.run(&test))
}

/// Does the same in one configuration.
pub(crate) fn in_one(seed: u64, test: impl Fn(&Device) -> Outcome) -> Outcome {
    configuration(seed).run(test)
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
