//! Checked-in PTX must be that of its source.

use millstream::{Device, signature};

millstream::kernels! {
    // SAFETY: no kernel of this module is launched.
    unsafe mod stale from cuda "__global__ void k() {}", ptx //
        ".version 8.0" //~ E0080 "was not compiled from"
    {
        unsafe fn k();
    }
}

fn main() -> millstream::Result<()> {
    let device = Device::simulated()?;
    let module = device.module(millstream::Ptx::text("k.ptx", ""))?;
    let kernel = module.function::<signature!(&[f32], u32)>("k")?;
    let (stream, wrong) = (device.stream()?, device.stream()?.upload(&[1_u8])?);
    // SAFETY: nothing is launched, because this does not compile.
    unsafe { kernel.launch(&stream, 1, (&wrong, 1)) } //~ E0277
}
