//! Views of a buffer: none outlives it, two of them that conflict do not overlap, and the buffer
//! cannot be used while a mutable one is alive.

use millstream::{Buffer, Result, Stream, ViewMut};

fn used_while_a_view_writes(stream: &Stream, mut buffer: Buffer<u8>) -> Result<()> {
    let mut view = buffer.slice_mut(..2);
    let _value = stream.download(&buffer)?; //~ E0502
    stream.fill(&mut buffer, 1)?; //~ E0499
    stream.fill(&mut view, 2)?;

    let view = buffer.view_mut();
    let moved = buffer; //~ E0505
    stream.fill(view, 1)?;
    drop(moved);
    Ok(())
}

fn copied_onto_itself(stream: &Stream, buffer: &mut Buffer<u8>) -> Result<()> {
    stream.copy(&*buffer, &mut *buffer) //~ E0502
}

fn sent_to_a_thread_that_may_outlive_the_buffer(stream: Stream, mut buffer: Buffer<u8>) {
    let view = buffer.view_mut(); //~ E0597
    std::thread::spawn(move || stream.fill(view, 1));
}

fn outlive_their_buffers(stream: &Stream, buffer: Buffer<u8>) -> Result<()> {
    let view = buffer.slice(1..);
    drop(buffer); //~ E0505
    let _later = stream.download(view)?;

    let escaped = {
        let mut inner = stream.zeros::<u8>(4)?;
        inner.slice_mut(1..) //~ E0597
    };
    stream.fill(escaped, 1)
}

fn overlap(stream: &Stream, mut buffer: Buffer<u8>) -> Result<()> {
    let mut left = buffer.slice_mut(0..3);
    let mut right = buffer.slice_mut(2..4); //~ E0499
    stream.fill(&mut left, 1)?;
    stream.fill(&mut right, 2)?;

    let mut written = buffer.slice_mut(0..3);
    let read = buffer.slice(2..4); //~ E0502
    stream.fill(&mut written, 1)?;
    let _later = stream.download(read)?;
    Ok(())
}

fn cloned(stream: &Stream, view: ViewMut<'_, u8>) -> Result<()> {
    let again = view.clone(); //~ E0599
    stream.fill(view, 1)?;
    stream.fill(again, 1)
}

fn used_twice(stream: &Stream, view: ViewMut<'_, u8>) -> Result<()> {
    stream.fill(view, 1)?;
    stream.fill(view, 2) //~ E0382
}

fn used_while_reborrowed(stream: &Stream, mut view: ViewMut<'_, u8>) -> Result<()> {
    let lent = view.reborrow();
    stream.fill(&mut view, 1)?; //~ E0499
    stream.fill(lent, 2)
}

fn main() {}
