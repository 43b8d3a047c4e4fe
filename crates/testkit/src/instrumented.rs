//! Simulated devices behind a driver that records calls and can make them fail.

#![allow(unsafe_code, reason = "opens devices that fail as told")]

use std::sync::Arc;

use millstream::{
    Device, Result,
    driver::Driver,
    sim::{Gpu, Links, Schedule, SimConfig},
};

use crate::calls::Calls;

/// Creates a simulated GPU with this many devices, behind a driver that can fail.
pub fn instrumented_gpu(schedule: Schedule, devices: u32) -> (Gpu, Arc<Calls>) {
    linked_gpu(schedule, devices, Links::default())
}

fn linked_gpu(schedule: Schedule, devices: u32, links: Links) -> (Gpu, Arc<Calls>) {
    let config = SimConfig::new().schedule(schedule).devices(devices);
    let gpu = Gpu::new(config.links(links));
    let calls = Arc::new(Calls::over(gpu.driver()));
    (gpu, calls)
}

/// Opens one of the GPU's devices.
pub fn open(calls: &Arc<Calls>, ordinal: i32) -> Result<Device> {
    // SAFETY: the wrapper forwards calls to a conforming driver; a failing call may or may not have
    // taken effect.
    unsafe { Device::with_driver(Arc::clone(calls) as Arc<dyn Driver>, ordinal) }
}

/// Creates a simulated GPU with these links between its devices, and opens all of them.
pub fn instrumented_devices(
    schedule: Schedule,
    devices: u32,
    links: Links,
) -> (Gpu, Arc<Calls>, Vec<Device>) {
    let (gpu, calls) = linked_gpu(schedule, devices, links);
    let opened =
        (0..devices as i32).map(|ordinal| open(&calls, ordinal).expect("the device opens"));
    let opened = opened.collect();
    (gpu, calls, opened)
}
