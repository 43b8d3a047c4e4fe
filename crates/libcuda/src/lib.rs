//! CUDA's driver API over the simulated device.

pub mod demangle;
pub mod fatbin;
pub mod kinds;
pub mod versions;
