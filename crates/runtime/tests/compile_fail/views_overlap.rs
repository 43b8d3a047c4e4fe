//! Two mutable views cannot overlap, nor can a mutable and a shared one.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut buffer = stream.zeros::<u8>(4)?;
    let mut left = buffer.slice_mut(0..3);
    let mut right = buffer.slice_mut(2..4); //~ E0499
    stream.fill(&mut left, 1)?;
    stream.fill(&mut right, 2)?;

    let mut written = buffer.slice_mut(0..3);
    let read = buffer.slice(2..4); //~ E0502
    stream.fill(&mut written, 1)?;
    let _later = stream.download(read)?;
    Ok(())
}
