//! Array elements must be plain data: a `bool`, a `char`, a reference and a `String` have invalid
//! bit patterns.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let stream = device.stream()?;
    stream.upload(&[true, false])?; //~ E0277
    stream.upload(&['a'])?; //~ E0277
    stream.upload(&[&1_u32])?; //~ E0277
    stream.upload(&[String::new()])?; //~ E0277
    stream.zeros::<bool>(1)?; //~ E0277
    stream.zeros::<Option<u32>>(1)?; //~ E0277
    device.pinned::<char>(1)?; //~ E0277
    device.pinned_from(&[Box::new(1)])?; //~ E0277
    Ok(())
}
