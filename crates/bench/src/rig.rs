//! What the measurements run on: one device, opened by Millstream, by raw calls and, on a GPU, by
//! cudarc.

use std::sync::Arc;

use anyhow::{Context, Result};
use millstream::{
    Device, Select,
    driver::cuda::Cuda,
    sim::{Gpu, SimConfig},
};
use millstream_driver::Driver;

use crate::{raw::Raw, timing::Effort};

/// How many rounds are left of those that a measurement asks for, with `--quick`: one in this many.
const QUICK: usize = 8;

/// A device.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) raw: Arc<Raw>,
    quick: bool,
}

impl Rig {
    /// The first GPU, or `None` where there is none, with the reason.
    pub(crate) fn gpu(quick: bool) -> Result<Self, String> {
        let open = || -> Result<Self> {
            let cuda: Arc<dyn Driver> = Cuda::load()?;
            let device = Device::open(Select::Cuda(0)).context("cannot open the GPU")?;
            Self::of(device, cuda, quick)
        };
        open().map_err(|error| format!("{error:#}"))
    }

    /// A simulated device, whose times are virtual.
    pub(crate) fn simulated(quick: bool) -> Result<Self> {
        let gpu = Gpu::new(SimConfig::default());
        Self::of(Device::open_simulated(&gpu, 0)?, gpu.driver(), quick)
    }

    fn of(device: Device, driver: Arc<dyn Driver>, quick: bool) -> Result<Self> {
        let raw = Raw::open(driver, 0)?;
        Ok(Self { device, raw, quick })
    }

    /// Nanoseconds on the device's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.raw.driver().now_ns()
    }

    /// The effort that is asked for, or less if that is wanted.
    pub(crate) fn scaled(&self, effort: Effort) -> Effort {
        let rounds = match self.quick {
            // Every round takes the same virtual time.
            _ if self.device.is_simulated() => 1,
            true => (effort.rounds / QUICK).max(1),
            false => effort.rounds,
        };
        Effort { rounds, ..effort }
    }

    /// Bytes of the large copies.
    pub(crate) fn large_bytes(&self) -> usize {
        if self.device.is_simulated() {
            1 << 20
        } else {
            256 << 20
        }
    }
}
