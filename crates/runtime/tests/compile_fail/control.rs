//! The control: correct versions of the other programs' mistakes. It compiles; if it did not, the
//! other programs could fail for an unrelated reason.

use millstream::{Device, LaunchConfig, Result};

millstream::kernels! {
    // SAFETY: the program is only compiled; the signature is that of vecadd in vecadd.cu.
    unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
    }
}

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let stream = device.stream()?;
    let kernels = sums::load(&device)?;
    let mut buffer = stream.upload(&[1.0_f32; 4])?;
    let (left, mut right) = buffer.split_at_mut(2);
    kernels.vecadd(&stream, LaunchConfig::linear(2), &left, &left, &mut right, 2)?;
    stream.fill(right.reborrow(), 1.0)?;
    stream.fill(&mut right, 2.0)?;
    let mut pinned = device.pinned::<f32>(4)?;
    stream.copy(&buffer, &mut pinned)?;
    pinned.write()?[0] = 3.0;
    let mut target = [0.0; 4];
    device.scope(|scope| scope.download(&stream, &buffer, &mut target))?;
    println!("{target:?} {:?}", stream.download(&buffer)?.wait()?);
    Ok(())
}
