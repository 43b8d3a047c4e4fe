//! A guard cannot outlive its pinned array, and a read guard gives no mutable access.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let pinned = device.pinned::<f32>(2)?;
    let guard = pinned.read()?;
    drop(pinned); //~ E0505
    println!("{guard:?}");

    let values: &[f32] = {
        let pinned = device.pinned::<f32>(2)?;
        &pinned.read()? //~ E0597
    };
    println!("{values:?}");

    let pinned = device.pinned::<f32>(2)?;
    pinned.read()?[0] = 1.0; //~ E0594
    Ok(())
}
