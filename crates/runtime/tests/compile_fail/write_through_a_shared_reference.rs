//! A shared reference or a shared view is no target of a fill, an upload or a copy.

use millstream::{Buffer, Device, Result};

fn viewed(buffer: &Buffer<f32>) {
    let _view = buffer.slice_mut(1..); //~ E0596
}

fn main() -> Result<()> {
    let device = Device::open(millstream::Select::Auto)?;
    let stream = device.stream()?;
    let source = stream.zeros::<f32>(3)?;
    let buffer = stream.zeros::<f32>(3)?;
    let pinned = device.pinned::<f32>(3)?;
    stream.fill(&buffer, 1.0)?; //~ E0277
    stream.fill(buffer.view(), 1.0)?; //~ E0277
    stream.upload_into(&[1.0; 3], &buffer)?; //~ E0277
    stream.copy(&source, &buffer)?; //~ E0277
    stream.copy(&source, &pinned)?; //~ E0277
    let mut shared = std::sync::Arc::new(stream.zeros::<f32>(3)?);
    stream.fill(&shared, 1.0)?; //~ E0277
    stream.fill(&mut shared, 1.0)?; //~ E0277
    stream.copy(&source, &mut shared)?; //~ E0277
    viewed(&buffer);
    Ok(())
}
