//! A kernel's `&mut [T]` operand cannot alias any other operand.

use millstream::{Device, LaunchConfig, Result};

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod both from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &mut [f32], c: &mut [f32], n: u64);
    }
}

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let kernels = both::load(&device)?;
    let mut a = stream.zeros::<f32>(4)?;
    let mut b = stream.zeros::<f32>(4)?;
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &mut b, &mut b, 4)?; //~ E0499
    kernels.vecadd(&stream, LaunchConfig::linear(4), &a, &mut a, &mut b, 4)?; //~ E0502
    let config = LaunchConfig::linear(4);
    kernels.vecadd(&stream, config, &a, &mut b.slice_mut(..2), &mut b.slice_mut(1..), 4) //~ E0499
}
