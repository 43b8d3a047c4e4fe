//! The device under test, opened by Millstream and for raw driver calls.

use std::sync::Arc;

use anyhow::{Context, Result};
use millstream::{Device, Select, driver::cuda::Cuda};
use millstream_driver::Driver;

use crate::{raw::Raw, timing::SampleSize};

/// The factor by which `--quick` divides the number of rounds.
const QUICK: usize = 8;

/// A device under test.
pub(crate) struct Harness {
    pub(crate) device: Device,
    pub(crate) raw: Arc<Raw>,
    pub(crate) quick: bool,
}

impl Harness {
    /// Opens the first GPU; the error is the reason why it cannot be used.
    pub(crate) fn gpu(quick: bool) -> Result<Self, String> {
        let open = || -> Result<Self> {
            let cuda: Arc<dyn Driver> = Cuda::load()?;
            let device = Device::open(Select::Cuda(0)).context("cannot open the GPU")?;
            Self::of(device, cuda, quick)
        };
        open().map_err(|error| format!("{error:#}"))
    }

    pub(crate) fn of(device: Device, driver: Arc<dyn Driver>, quick: bool) -> Result<Self> {
        let raw = Raw::open(driver, 0)?;
        Ok(Self { device, raw, quick })
    }

    /// Returns the time on the device's clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.raw.driver().now_ns()
    }

    /// Reduces a sample size with `--quick` and on a simulated device.
    pub(crate) fn scaled(&self, sample_size: SampleSize) -> SampleSize {
        let rounds = match self.quick {
            // On a simulated device every round takes the same virtual time.
            _ if self.device.is_simulated() => 1,
            true => (sample_size.rounds / QUICK).max(1),
            false => sample_size.rounds,
        };
        SampleSize {
            rounds,
            ..sample_size
        }
    }

    pub(crate) fn large_bytes(&self) -> usize {
        if self.device.is_simulated() {
            1 << 20
        } else {
            256 << 20
        }
    }
}
