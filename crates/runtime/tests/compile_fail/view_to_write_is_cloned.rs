//! A mutable view is unique: it cannot be cloned, and while it is reborrowed it cannot be used.

use millstream::{Device, Result, Stream, ViewMut};

fn cloned(stream: &Stream, view: ViewMut<'_, u8>) -> Result<()> {
    let again = view.clone(); //~ E0599
    stream.fill(view, 1)?;
    stream.fill(again, 1)
}

fn used_twice(stream: &Stream, view: ViewMut<'_, u8>) -> Result<()> {
    stream.fill(view, 1)?;
    stream.fill(view, 2) //~ E0382
}

fn used_while_lent(stream: &Stream, mut view: ViewMut<'_, u8>) -> Result<()> {
    let lent = view.reborrow();
    stream.fill(&mut view, 1)?; //~ E0499
    stream.fill(lent, 2)
}

fn main() -> Result<()> {
    let stream = Device::simulated()?.stream()?;
    let mut buffer = stream.zeros::<u8>(4)?;
    cloned(&stream, buffer.view_mut())?;
    used_twice(&stream, buffer.view_mut())?;
    used_while_lent(&stream, buffer.view_mut())
}
