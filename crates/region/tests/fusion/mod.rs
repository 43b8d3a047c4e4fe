//! Numbers of kernels, and of bytes that they read and write, counted at the driver of a simulated
//! device that also checks for races within kernels.

#![allow(unsafe_code, reason = "opens a device of a counting driver")]

mod attention;
mod compilations;
mod counters;
mod elementwise;
mod explanations;
mod following;
mod indices;
mod joins;
mod long_reductions;
mod long_sessions;
mod numbers_of_rows;
mod patterns;
mod peak_memory;
mod random_rows;
mod random_siblings;
mod random_updates;
mod rows;
mod scans;
mod shifts;
mod siblings;
mod stencils;
mod transposes;
mod updates;
mod variances;

use std::sync::Arc;

use millstream::{
    Device,
    driver::Driver,
    sim::{Gpu, Schedule, SimConfig},
};
use millstream_testkit::calls::Calls;

/// A simulated device whose driver calls are counted.
struct Counted {
    device: Device,
    calls: Arc<Calls>,
    gpu: Gpu,
}

/// The work of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    kernels: usize,
    bytes_read: u64,
    bytes_written: u64,
}

/// The schedules of the tests.
const SCHEDULES: [Schedule; 3] = [Schedule::Timed, Schedule::Lazy, Schedule::Random(7)];

impl Counted {
    /// Runs a test on a device of each schedule, and asserts that nothing is reported.
    fn everywhere(test: impl Fn(&Self)) {
        for schedule in SCHEDULES {
            Self::with(schedule, &test);
        }
    }

    /// Runs a test on a device with a schedule, and asserts that nothing is reported.
    fn with(schedule: Schedule, test: impl Fn(&Self)) {
        let config = SimConfig::new().schedule(schedule).kernel_race_check(true);
        let gpu = Gpu::new(config);
        let calls = Arc::new(Calls::over(gpu.driver()));
        let driver = Arc::clone(&calls) as Arc<dyn Driver>;
        // SAFETY: the wrapper forwards every call to a conforming driver.
        let device = unsafe { Device::with_driver(driver, 0) }.expect("the device opens");
        let counted = Self {
            device,
            calls,
            gpu: gpu.clone(),
        };
        test(&counted);
        drop(counted);
        assert!(
            gpu.reports().is_empty(),
            "{schedule:?}: {:#?}",
            gpu.reports()
        );
    }

    /// Waits for all work by a call of the driver that the library does not see.
    fn wait_unnoticed(&self) {
        // SAFETY: the context is that of an open device.
        unsafe { self.calls.context_synchronize(self.device.as_raw()) }.unwrap();
    }

    /// Returns the result of a function that waits for the device, and the work of the kernels
    /// until then.
    fn work<R>(&self, run: impl FnOnce(&Device) -> R) -> (R, Work) {
        let before = self.gpu.kernel_stats();
        self.calls.forget();
        let result = run(&self.device);
        let after = self.gpu.kernel_stats();
        let work = Work {
            kernels: self
                .calls
                .counts()
                .get("launch_kernel")
                .copied()
                .unwrap_or(0),
            bytes_read: after.global_bytes_read - before.global_bytes_read,
            bytes_written: after.global_bytes_written - before.global_bytes_written,
        };
        (result, work)
    }
}
