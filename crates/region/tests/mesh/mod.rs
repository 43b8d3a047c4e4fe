//! Arrays and regions on meshes of simulated devices, each under several schedules and both
//! readings of the disputed rules.

#![allow(unsafe_code, reason = "opens devices of a counting driver")]

mod collectives;
mod errors;
mod halo;
mod layouts;
mod training;

use std::sync::Arc;

use millstream::{
    Device,
    driver::Driver,
    sim::{Gpu, Link, Links, Rules, Schedule, SimConfig},
};
use millstream_region::{Error, Mesh, MeshErrorKind, Result, UsageError, UsageErrorKind};
use millstream_testkit::calls::Calls;

/// Simulated devices, with their driver calls counted.
struct Machine {
    devices: Vec<Device>,
    calls: Arc<Calls>,
    gpu: Gpu,
    name: String,
}

impl Machine {
    /// Returns a mesh of all devices along one axis, `data`.
    #[track_caller]
    fn mesh(&self) -> Mesh {
        let axes = [("data", self.devices.len())];
        Mesh::new(self.devices.clone(), axes).expect("the devices form a mesh")
    }
}

/// Runs a test on machines of this many devices, one for each schedule and reading of the rules,
/// and asserts that nothing is reported.
#[track_caller]
fn on_devices(count: u32, test: impl Fn(&Machine) -> Result<()>) {
    on_linked_devices(count, Link::NvLink, test);
}

/// As [`on_devices`], with this link between every two devices.
#[track_caller]
fn on_linked_devices(count: u32, link: Link, test: impl Fn(&Machine) -> Result<()>) {
    let fixed = [Schedule::Timed, Schedule::Eager, Schedule::Lazy];
    let schedules = fixed.into_iter().chain((0..5).map(Schedule::Random));
    for (number, schedule) in schedules.enumerate() {
        let rules = if number % 2 == 0 {
            Rules::observed()
        } else {
            Rules::strict()
        };
        let config = SimConfig::new().devices(count).links(Links::all(link));
        let gpu = Gpu::new(config.schedule(schedule).rules(rules));
        let calls = Arc::new(Calls::over(gpu.driver()));
        let machine = Machine {
            devices: (0..count as i32).map(|at| open(&calls, at)).collect(),
            calls,
            gpu: gpu.clone(),
            name: format!("{count} devices, {link:?}, {schedule:?}, {rules:?}"),
        };
        if let Err(error) = test(&machine) {
            panic!("{}: {error}", machine.name);
        }
        let name = machine.name.clone();
        drop(machine);
        assert!(gpu.reports().is_empty(), "{name}: {:#?}", gpu.reports());
    }
}

fn open(calls: &Arc<Calls>, ordinal: i32) -> Device {
    let driver = Arc::clone(calls) as Arc<dyn Driver>;
    // SAFETY: the wrapper forwards every call to a conforming driver.
    unsafe { Device::with_driver(driver, ordinal) }.expect("the device opens")
}

#[track_caller]
fn usage_error<T>(result: Result<T>) -> UsageError {
    match result {
        Err(Error::Usage(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the region succeeds"),
    }
}

#[track_caller]
fn mesh_error<T>(result: Result<T>) -> MeshErrorKind {
    match usage_error(result).problem() {
        UsageErrorKind::Mesh(kind) => kind.clone(),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn assert_contains(message: &impl std::fmt::Display, text: &str) {
    let message = message.to_string();
    assert!(message.contains(text), "{message}");
}
