//! A copy's source and target cannot be the same buffer.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut buffer = stream.zeros::<u8>(4)?;
    stream.copy(&buffer, &mut buffer) //~ E0502
}
