//! The target of a scope's download cannot be read before the scope has ended.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let stream = device.stream()?;
    let buffer = stream.zeros::<f32>(4)?;
    let mut target = [0.0; 4];
    device.scope(|scope| {
        scope.download(&stream, &buffer, &mut target)?;
        println!("{target:?}"); //~ E0502
        Ok(())
    })
}
