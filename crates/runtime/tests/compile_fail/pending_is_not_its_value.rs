//! The value of a `Pending` can be obtained only by waiting, and only once.

use millstream::{Buffer, Device, Result, Stream};

fn used_before_it_came(stream: &Stream, buffer: &Buffer<u8>) -> Result<Vec<u8>> {
    let value = stream.download(buffer)?;
    println!("{}", value[0]); //~ E0608
    println!("{}", value.len()); //~ E0599
    let again = value.clone(); //~ E0599
    Ok(value) //~ E0308
}

fn taken_twice(stream: &Stream, buffer: &Buffer<u8>) -> Result<()> {
    let pending = stream.download(buffer)?;
    pending.wait()?;
    pending.wait()?; //~ E0382
    Ok(())
}

fn main() -> Result<()> {
    let stream = Device::open(millstream::Select::Auto)?.stream()?;
    let buffer = stream.zeros::<u8>(4)?;
    used_before_it_came(&stream, &buffer)?;
    taken_twice(&stream, &buffer)
}
