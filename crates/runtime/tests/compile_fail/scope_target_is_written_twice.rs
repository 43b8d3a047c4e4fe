//! Two downloads of one scope cannot have the same target.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let buffer = stream.zeros::<f32>(4)?;
    let mut target = [0.0; 4];
    device.scope(|scope| {
        scope.download(&stream, &buffer, &mut target)?;
        scope.download(&stream, &buffer, &mut target) //~ E0499
    })
}
