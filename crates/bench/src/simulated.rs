//! The simulated device, apart from the harness so that other benchmarks build without it.

use anyhow::Result;
use millstream::{
    Device,
    sim::{Gpu, SimConfig},
};

use crate::harness::Harness;

impl Harness {
    /// Creates a simulated device, whose times are virtual.
    pub(crate) fn simulated(quick: bool) -> Result<Self> {
        let gpu = Gpu::new(SimConfig::default());
        Self::of(Device::open_simulated(&gpu, 0)?, gpu.driver(), quick)
    }
}
