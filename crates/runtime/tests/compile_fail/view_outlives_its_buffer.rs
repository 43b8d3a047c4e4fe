//! A view cannot outlive its buffer.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let buffer = stream.zeros::<u8>(4)?;
    let view = buffer.slice(1..);
    drop(buffer); //~ E0505
    let _later = stream.download(view)?;

    let escaped = {
        let mut inner = stream.zeros::<u8>(4)?;
        inner.slice_mut(1..) //~ E0597
    };
    stream.fill(escaped, 1)
}
