//! Where the rules are tried: the GPU that the environment names, or the simulated device in each
//! reading.

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

use crate::{rig::Rig, rules::Rule, table};

/// How long one rule may take in one place before it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(20);

/// What `MILLSTREAM_DEVICE` says, if it names a GPU.
fn gpu_asked_for() -> Option<String> {
    env::var("MILLSTREAM_DEVICE")
        .ok()
        .filter(|value| value.starts_with("cuda"))
}

/// Whether the environment asks for a GPU.
pub(crate) fn on_gpu() -> bool {
    gpu_asked_for().is_some()
}

/// How many devices there are where the rules are tried. None if the driver cannot tell: what needs
/// a device then fails.
pub(crate) fn device_count() -> i32 {
    if !on_gpu() {
        return SIMULATED_DEVICES as i32;
    }
    Cuda::load().map_or(1, |cuda| cuda.device_count().unwrap_or(1))
}

const SIMULATED_DEVICES: u32 = 2;

/// One device, and what it is called in the table.
struct Place {
    /// The column's heading: what decides what is seen.
    driver: String,
    /// What tells it from others of that heading.
    schedule: String,
    open: Box<dyn Fn() -> Result<Rig, Failed>>,
}

fn places() -> Vec<Place> {
    if on_gpu() {
        return vec![Place {
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
    let mut places = Vec::new();
    for rules in [Rules::observed(), Rules::strict()] {
        for schedule in schedules {
            let mut config = SimConfig::new()
                .devices(SIMULATED_DEVICES)
                .rules(rules)
                .schedule(schedule);
            if rules == Rules::observed() {
                config = config.queue_operations_max(SimConfig::H200_QUEUE_OPERATIONS);
            }
            places.push(Place {
                driver: format!("simulator, {rules}"),
                schedule: schedule.to_string(),
                open: Box::new(move || {
                    let gpu = Gpu::new(config.clone());
                    Rig::open(gpu.driver(), Some(gpu), DeviceOrdinal::from_raw(0))
                }),
            });
        }
    }
    places
}

/// The GPU that the environment names.
pub(crate) fn open_gpu() -> Result<Rig, Failed> {
    let value = gpu_asked_for().ok_or("MILLSTREAM_DEVICE names no GPU")?;
    let ordinal = value
        .strip_prefix("cuda:")
        .and_then(|number| number.parse().ok())
        .ok_or("a device's number must follow `cuda:`")?;
    let driver: Arc<dyn Driver> = Cuda::load().map_err(|error| error.to_string())?;
    Rig::open(driver, None, DeviceOrdinal::from_raw(ordinal))
}

/// Tries a rule in every place, and notes what is seen.
pub(crate) fn run(rule: &Rule) -> Result<(), Failed> {
    for place in places() {
        let name = format!(
            "{} on the {} {}",
            rule.test_name(),
            place.driver,
            place.schedule
        );
        let _watch = Watch::over(name.clone());
        let in_place = || -> Result<String, Failed> {
            let rig = (place.open)()?;
            let seen = (rule.test)(&rig)?;
            rig.finish()?;
            Ok(seen)
        };
        match in_place() {
            Ok(seen) => table::note(rule.number, &place.driver, seen),
            Err(failed) => {
                let problem = failed.message().unwrap_or("it failed").to_owned();
                table::note(rule.number, &place.driver, format!("FAILED: {problem}"));
                return Err(format!("{name}: {problem}").into());
            }
        }
    }
    Ok(())
}

/// Ends the process when a rule hangs.
struct Watch {
    _finished: mpsc::Sender<()>,
}

impl Watch {
    fn over(name: String) -> Self {
        let (finished, watched) = mpsc::channel::<()>();
        thread::spawn(move || {
            if watched.recv_timeout(HUNG_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Written past the test harness, which would keep it for after the test.
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
