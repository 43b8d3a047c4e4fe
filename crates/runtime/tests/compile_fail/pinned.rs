//! A guard does not outlive its pinned array, and while the host holds one, no conflicting copy can
//! be enqueued. A read guard gives no mutable access.

use millstream::{Buffer, Device, Pinned, Result, Stream};

fn outlived(device: &Device, pinned: Pinned<f32>) -> Result<()> {
    let guard = pinned.read()?;
    drop(pinned); //~ E0505
    println!("{guard:?}");

    let values: &[f32] = {
        let pinned = device.pinned::<f32>(2)?;
        &pinned.read()? //~ E0597
    };
    println!("{values:?}");
    Ok(())
}

fn written_by_a_read_guard(pinned: Pinned<f32>) -> Result<()> {
    pinned.read()?[0] = 1.0; //~ E0594
    Ok(())
}

fn used(stream: &Stream, mut pinned: Pinned<f32>, mut buffer: Buffer<f32>) -> Result<()> {
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

fn main() {}
