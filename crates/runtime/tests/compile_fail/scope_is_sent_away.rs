//! A scope cannot be sent to a thread that may outlive it.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    device.scope(|scope| {
        std::thread::spawn(move || println!("{scope:?}")); //~ E0521
        Ok(())
    })
}
