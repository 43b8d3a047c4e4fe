//! Items whose safety the caller must guarantee require `unsafe`: unsafe kernels, blocks of kernel
//! declarations, and devices of foreign drivers.

use std::sync::Arc;

use millstream::{Device, LaunchConfig, Result, driver::Driver};

millstream::kernels! {
    // SAFETY: the signature is that of gate.cu.
    unsafe mod gates from include_str!("../../../../kernels/gate.ptx") {
        unsafe fn gate(flag: u64);
    }
}

fn trust(driver: Arc<dyn Driver>) -> Result<Device> {
    Device::with_driver(driver, 0) //~ E0133
}

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let stream = device.stream()?;
    let kernels = gates::load(&device)?;
    kernels.gate(&stream, LaunchConfig::linear(1), 0) //~ E0133
}
