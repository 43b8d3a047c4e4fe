//! A scope cannot escape its closure, neither through an outer variable nor as the return value.

use millstream::{Device, Result};

fn main() -> Result<()> {
    let device = Device::simulated()?;
    let mut kept = None;
    device.scope(|scope| {
        kept = Some(scope); //~ E0521
        Ok(())
    })?;
    let _scope = device.scope(|scope| Ok(scope))?; //~ "lifetime may not live long enough"
    Ok(())
}
