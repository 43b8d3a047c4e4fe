//! `millstream devices`: what there is, and what is chosen.

use std::fmt::Display;

use millstream::{Device, Select};
use millstream_driver::{DeviceAttribute, DeviceOrdinal, Driver, DriverError, cuda::Cuda};
use millstream_sim::{Gpu, SimConfig};

/// Everything about this machine.
pub(crate) fn report() -> String {
    let choice = Device::open(Select::Auto);
    let choice = choice.as_ref().map(|device| (device.name(), device.note()));
    let cuda = match Cuda::load() {
        Ok(cuda) => driver_lines("cuda:", &*cuda),
        Err(error) => format!("cuda: none: {error}\n"),
    };
    choice_line(choice) + &cuda + &driver_lines("sim:", &Gpu::new(SimConfig::new()))
}

/// What a program gets that leaves the choice to Millstream: name and reason.
fn choice_line(choice: Result<(&str, &str), impl Display>) -> String {
    match choice {
        Ok((name, reason)) => format!("chosen: {name} ({reason})\n"),
        Err(error) => format!("chosen: none: {error}\n"),
    }
}

/// A line for each device of a driver.
fn driver_lines(prefix: &str, driver: &dyn Driver) -> String {
    let count = match driver.device_count() {
        Ok(count) => count,
        Err(error) => return format!("{prefix} none: {error}\n"),
    };
    let line = |ordinal: i32| match facts(driver, DeviceOrdinal::from_raw(ordinal)) {
        Ok(facts) => format!("{prefix}{ordinal} {facts}, {}\n", driver.name()),
        Err(error) => format!("{prefix}{ordinal} cannot be asked: {error}\n"),
    };
    (0..count).map(line).collect()
}

/// What one device is.
fn facts(driver: &dyn Driver, device: DeviceOrdinal) -> Result<String, DriverError> {
    let attribute = |attribute| driver.device_attribute(device, attribute);
    Ok(format!(
        "{}, {:.1} GiB, compute capability {}.{}, {} multiprocessors",
        driver.device_name(device)?,
        driver.device_total_bytes(device)? as f64 / f64::from(1 << 30),
        attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
        attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
        attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
    ))
}

#[cfg(test)]
mod tests {
    use millstream_driver::ResultCode;

    use super::*;

    #[test]
    fn each_device_of_a_driver_has_a_line() {
        let gpu = Gpu::new(SimConfig::new().devices(2).memory_bytes(3 << 29));
        let lines = driver_lines("sim:", &gpu);
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (ordinal, line) in lines.into_iter().enumerate() {
            let name = gpu.name();
            assert_eq!(
                line,
                format!(
                    "sim:{ordinal} Simulated GPU, 1.5 GiB, compute capability 9.0, 132 multiprocessors, {name}"
                )
            );
        }
    }

    #[test]
    fn the_choice_has_its_reason_and_a_failure_its_error() {
        assert_eq!(
            choice_line(Ok::<_, DriverError>(("Simulated GPU", "by request"))),
            "chosen: Simulated GPU (by request)\n"
        );
        let error = DriverError::new("cuInit", ResultCode::NOT_PERMITTED);
        assert_eq!(
            choice_line(Err(error)),
            "chosen: none: cuInit failed: CUDA_ERROR_NOT_PERMITTED (800)\n"
        );
    }

    #[test]
    fn a_machine_has_a_choice_its_gpus_or_the_reason_and_the_simulated_one() {
        let report = report();
        let lines: Vec<_> = report.lines().collect();
        assert!(lines[0].starts_with("chosen: "), "{report}");
        match Cuda::load() {
            Ok(_) => assert!(lines[1].starts_with("cuda:0 "), "{report}"),
            Err(error) => assert_eq!(lines[1], format!("cuda: none: {error}")),
        }
        assert!(
            lines
                .last()
                .is_some_and(|line| line.starts_with("sim:0 Simulated GPU")),
            "{report}"
        );
    }
}
