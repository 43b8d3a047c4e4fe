//! Numbers of kernels, and of bytes that they read and write, counted at the driver of a simulated
//! device that also checks for races within kernels.

#![allow(unsafe_code, reason = "opens a device of a counting driver")]

mod attention;
mod butterflies;
mod compilations;
mod counters;
mod elementwise;
mod explanations;
mod following;
mod indices;
mod joins;
mod long_sessions;
mod nested;
mod numbers_of_rows;
mod order;
mod packed;
mod patterns;
mod peak_memory;
mod prelude;
mod random_joins;
mod random_rows;
mod random_siblings;
mod random_updates;
mod rearranging;
mod row_outputs;
mod rows;
mod scans;
mod shifts;
mod siblings;
mod stencils;
mod transposes;
mod updates;
mod variances;

use std::{env, ops::Range, sync::Arc};

use millstream::{
    Device,
    driver::Driver,
    sim::{Gpu, Schedule, SimConfig},
};
use millstream_region::{Array, DeviceValue, Element, Input, Region};
use millstream_testkit::{calls::Calls, share};
use ndarray::{Array2, Dimension};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

use crate::{Value, evaluate};

/// Returns the seeds of so many random programs of today, unless the environment says another
/// number or one seed.
fn seeds(programs: u64) -> Range<u64> {
    let number = |name: &str| env::var(name).ok().and_then(|value| value.parse().ok());
    match number("MILLSTREAM_SEED") {
        Some(seed) => seed..seed + 1,
        None => match number("MILLSTREAM_PROGRAMS") {
            Some(programs) => 0..programs,
            None => share::numbers(programs, 10 * programs),
        },
    }
}

fn below(random: &mut Pcg64Mcg, end: usize) -> usize {
    (random.next_u64() % end as u64) as usize
}

/// Returns a matrix of multiples of 1/16 from −3 on, whose neighbours differ.
fn matrix(shape: (usize, usize)) -> Array2<f32> {
    Array2::from_shape_fn(shape, |(row, column)| {
        ((row * 37 + column * 61) % 101) as f32 / 16.0 - 3.0
    })
}

/// A simulated device whose driver calls are counted.
struct Counted {
    device: Device,
    calls: Arc<Calls>,
    gpu: Gpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    kernels: usize,
    bytes_read: u64,
    bytes_written: u64,
}

impl Work {
    fn of(kernels: usize, bytes_read: u64, bytes_written: u64) -> Self {
        Self {
            kernels,
            bytes_read,
            bytes_written,
        }
    }
}

const SCHEDULES: [Schedule; 3] = [Schedule::Timed, Schedule::Lazy, Schedule::Random(7)];

impl Counted {
    /// Runs a test on a device of each schedule, and asserts that nothing is reported.
    fn everywhere(test: impl Fn(&Self)) {
        for schedule in SCHEDULES {
            Self::with(schedule, &test);
        }
    }

    /// Does the same with one of the schedules, on each day another.
    fn somewhere(test: impl Fn(&Self)) {
        share::cases(SCHEDULES, 3).for_each(|schedule| Self::with(schedule, &test));
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

    /// Returns an array on the device with the elements of one on the host.
    fn array<T: Element, D: Dimension>(&self, host: impl Input<Array<T, D>>) -> Array<T, D> {
        Array::from_host(&self.device, host).unwrap()
    }

    fn result<R: DeviceValue>(&self, body: impl FnOnce(&Region) -> R) -> Value<R> {
        evaluate(&self.device, body).unwrap()
    }

    fn region<R: DeviceValue>(&self, body: impl FnOnce(&Region) -> R) -> (Value<R>, Work) {
        self.work(|_| {
            let result = self.result(body);
            self.wait_unnoticed();
            result
        })
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
