//! While the host holds a guard of a pinned array, no conflicting copy can be enqueued.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let mut pinned = device.pinned::<f32>(2)?;
    let mut buffer = stream.zeros::<f32>(2)?;

    let mut writing = pinned.write()?;
    stream.copy(&pinned, &mut buffer)?; //~ E0502
    writing[0] = 5.0;
    drop(writing);

    let reading = pinned.read()?;
    stream.copy(&buffer, &mut pinned)?; //~ E0502
    println!("{reading:?}");
    drop(reading);

    let mut first = pinned.write()?;
    let mut second = pinned.write()?; //~ E0499
    first[0] = 1.0;
    second[0] = 2.0;
    Ok(())
}
