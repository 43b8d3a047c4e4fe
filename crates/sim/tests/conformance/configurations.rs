//! Configurations in which the rules are tested: the GPU that the environment names, or the
//! simulated device in each reading of the disputed rules.

use std::{
    env,
    io::{self, Write},
    process,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use libtest_mimic::Failed;
use millstream_driver::{DeviceOrdinal, Driver, cuda::Cuda};
use millstream_sim::{Gpu, Rules, Schedule, SimConfig};

use crate::conformance::{device_harness::DeviceHarness, rules::Rule, table};

/// The time that one rule may take in one configuration before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(20);

/// The time after which a call counts as blocked if the observation is not the expected one.
const LONG_PATIENCE: Duration = Duration::from_millis(500);

/// Returns the value of `MILLSTREAM_DEVICE` if it names a GPU.
fn gpu_asked_for() -> Option<String> {
    env::var("MILLSTREAM_DEVICE")
        .ok()
        .filter(|value| value.starts_with("cuda"))
}

/// Returns whether the environment selects a GPU.
pub(crate) fn on_gpu() -> bool {
    gpu_asked_for().is_some()
}

/// Returns the number of devices under test: 1 if the driver cannot be loaded or queried, so that
/// the tests that need a device fail.
pub(crate) fn device_count() -> i32 {
    if !on_gpu() {
        return SIMULATED_DEVICES as i32;
    }
    Cuda::load().map_or(1, |cuda| cuda.device_count().unwrap_or(1))
}

const SIMULATED_DEVICES: u32 = 2;

/// A device under test, with its names in the table.
struct Configuration {
    /// The column heading: the driver and the reading, which determine the observations.
    driver: String,
    /// The schedule, which distinguishes configurations of one column.
    schedule: String,
    open: Box<dyn Fn() -> Result<DeviceHarness, Failed>>,
}

fn configurations() -> Vec<Configuration> {
    if on_gpu() {
        return vec![Configuration {
            driver: "GPU".into(),
            schedule: String::new(),
            open: Box::new(open_gpu),
        }];
    }
    let schedules = [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
        Schedule::Random(2),
        Schedule::Pct { seed: 1, depth: 3 },
    ];
    let mut configurations = Vec::new();
    for rules in [Rules::observed(), Rules::strict()] {
        for schedule in schedules {
            let mut config = SimConfig::new()
                .devices(SIMULATED_DEVICES)
                .rules(rules)
                .schedule(schedule);
            if rules == Rules::observed() {
                config = config.queue_operations_max(SimConfig::H200_QUEUE_OPERATIONS);
            }
            configurations.push(Configuration {
                driver: format!("simulator, {rules}"),
                schedule: schedule.to_string(),
                open: Box::new(move || {
                    let gpu = Gpu::new(config.clone());
                    DeviceHarness::open(gpu.driver(), Some(gpu), DeviceOrdinal::from_raw(0))
                }),
            });
        }
    }
    configurations
}

pub(crate) fn open_gpu() -> Result<DeviceHarness, Failed> {
    let value = gpu_asked_for().ok_or("MILLSTREAM_DEVICE names no GPU")?;
    let ordinal = value
        .strip_prefix("cuda:")
        .and_then(|number| number.parse().ok())
        .ok_or("a device's number must follow `cuda:`")?;
    let driver: Arc<dyn Driver> = Cuda::load().map_err(|error| error.to_string())?;
    DeviceHarness::open(driver, None, DeviceOrdinal::from_raw(ordinal))
}

/// Returns the observation of a rule's test on the simulated device in one reading.
fn expected(rule: &Rule, driver: &str) -> Option<&'static str> {
    let row = |driver| {
        let head = format!("{} {driver}: ", rule.number);
        let mut rows = include_str!("simulated.txt").lines();
        rows.find_map(|row| row.strip_prefix(&head))
    };
    let expected = || row(driver).or_else(|| row("simulator"));
    (!on_gpu()).then(|| expected().unwrap_or_default())
}

/// Runs a rule's test in every configuration, and records the observations. On the simulated device
/// they are compared with `simulated.txt`.
pub(crate) fn run(rule: &Rule) -> Result<(), Failed> {
    for configuration in configurations() {
        let name = format!(
            "{} on the {} {}",
            rule.test_name(),
            configuration.driver,
            configuration.schedule
        );
        let _watch = Watchdog::over(name.clone());
        let in_place = |patience| -> Result<String, Failed> {
            let mut dev = (configuration.open)()?;
            dev.patience = dev.patience.max(patience);
            let seen = (rule.test)(&dev)?;
            dev.finish()?;
            Ok(seen)
        };
        let mut outcome = in_place(Duration::ZERO);
        if let (Ok(seen), Some(expected)) = (&outcome, expected(rule, &configuration.driver))
            && seen != expected
        {
            // On a busy machine a call that returns may have counted as blocked.
            outcome = in_place(LONG_PATIENCE).and_then(|seen| match seen == expected {
                true => Ok(seen),
                false => Err(format!("{seen}; but expected: {expected}").into()),
            });
        }
        match outcome {
            Ok(seen) => table::note(rule.number, &configuration.driver, seen),
            Err(failed) => {
                let problem = failed.message().unwrap_or("it failed").to_owned();
                table::note(
                    rule.number,
                    &configuration.driver,
                    format!("FAILED: {problem}"),
                );
                return Err(format!("{name}: {problem}").into());
            }
        }
    }
    Ok(())
}

/// A timer that ends the process when a rule hangs.
struct Watchdog {
    _finished: mpsc::Sender<()>,
}

impl Watchdog {
    fn over(name: String) -> Self {
        let (finished, traced_region) = mpsc::channel::<()>();
        thread::spawn(move || {
            if traced_region.recv_timeout(HUNG_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Written directly to stderr, because the test harness captures output until the
                // test ends.
                let _ = writeln!(io::stderr(), "hung: {name}");
                table::print();
                process::abort();
            }
        });
        Self {
            _finished: finished,
        }
    }
}
