//! A slice that a scope downloads to must outlive the scope.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let buffer = stream.zeros::<f32>(4)?;
    device.scope(|scope| {
        let mut target = [0.0; 4];
        scope.download(&stream, &buffer, &mut target) //~ E0597
    })
}
