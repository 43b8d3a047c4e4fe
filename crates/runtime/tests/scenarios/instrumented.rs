//! Simulated devices behind a driver that counts and fails.

#![allow(unsafe_code, reason = "opens devices of a driver that fails")]

use std::sync::Arc;

use millstream::{
    Device, Result,
    driver::Driver,
    sim::{Gpu, Schedule, SimConfig},
};

use crate::calls::Calls;

/// A new simulated GPU of so many devices, behind a driver that can fail.
pub(crate) fn instrumented_gpu(schedule: Schedule, devices: u32) -> (Gpu, Arc<Calls>) {
    let gpu = Gpu::new(SimConfig::new().schedule(schedule).devices(devices));
    let calls = Arc::new(Calls::over(gpu.driver()));
    (gpu, calls)
}

/// Opens one of its devices.
pub(crate) fn open(calls: &Arc<Calls>, ordinal: i32) -> Result<Device> {
    // SAFETY: the driver passes calls on to one that does what it says, and fails with or without
    // that.
    unsafe { Device::with_driver(Arc::clone(calls) as Arc<dyn Driver>, ordinal) }
}

/// All of its devices, opened.
pub(crate) fn instrumented_devices(
    schedule: Schedule,
    devices: u32,
) -> (Gpu, Arc<Calls>, Vec<Device>) {
    let (gpu, calls) = instrumented_gpu(schedule, devices);
    let opened =
        (0..devices as i32).map(|ordinal| open(&calls, ordinal).expect("the device opens"));
    let opened = opened.collect();
    (gpu, calls, opened)
}
