//! The arguments of a launch must be those of the kernel's signature.

use millstream::{Device, Ptx, signature};

fn main() -> millstream::Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let module = device.module(Ptx::text("k.ptx", ""))?;
    let kernel = module.function::<signature!(&mut [f32], u32)>("k")?;
    let stream = device.stream()?;
    let mut bytes = stream.upload(&[1_u8])?;
    // SAFETY: nothing is launched, because this does not compile.
    unsafe { kernel.launch(&stream, 1, (&mut bytes, 1)) }?; //~ E0277
    let mut floats = stream.upload(&[1.0_f32])?;
    // SAFETY: as above.
    unsafe { kernel.launch(&stream, 1, (&mut floats,)) } //~ E0277
}
