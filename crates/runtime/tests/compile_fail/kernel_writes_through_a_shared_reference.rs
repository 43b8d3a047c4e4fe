//! A shared reference is no operand for a kernel parameter that is declared `&mut [T]`.

use millstream::{Device, LaunchConfig, Result};

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
    }
}

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let kernels = sums::load(&device)?;
    let a = stream.zeros::<f32>(4)?;
    let c = stream.zeros::<f32>(4)?;
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &a, &c, 4)?; //~ E0277
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &a, c.view(), 4) //~ E0277
}
