//! A kernel's operands must have the declared types.

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
    let mut c = stream.zeros::<f32>(4)?;
    let wide = stream.zeros::<f64>(4)?;
    let pinned = device.pinned::<f32>(4)?;
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &wide, &mut c, 4)?; //~ E0277
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &pinned, &mut c, 4)?; //~ E0277
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &[1.0_f32; 4], &mut c, 4)?; //~ E0277
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &a, &mut c, 4_u32) //~ E0308
}
