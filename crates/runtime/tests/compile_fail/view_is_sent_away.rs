//! A view cannot be sent to a thread that may outlive its buffer.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut buffer = stream.zeros::<u8>(4)?;
    let view = buffer.view_mut(); //~ E0597
    std::thread::spawn(move || stream.fill(view, 1));
    Ok(())
}
