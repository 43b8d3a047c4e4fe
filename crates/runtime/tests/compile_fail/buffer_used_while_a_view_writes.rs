//! A buffer cannot be used while a mutable view of it is alive.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut buffer = stream.zeros::<u8>(4)?;
    let mut view = buffer.slice_mut(..2);
    let _value = stream.download(&buffer)?; //~ E0502
    stream.fill(&mut buffer, 1)?; //~ E0499
    stream.fill(&mut view, 2)?;

    let view = buffer.view_mut();
    let moved = buffer; //~ E0505
    stream.fill(view, 1)?;
    drop(moved);
    Ok(())
}
