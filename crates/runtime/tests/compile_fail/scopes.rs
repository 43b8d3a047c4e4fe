//! A scope does not escape its closure, and neither reads nor writes a target before it has ended.

use millstream::{Buffer, Device, Result, Scope, Stream};

/// Neither an outer variable nor the return value takes a scope.
fn kept(device: &Device) -> Result<()> {
    let mut kept = None;
    device.scope(|scope| {
        kept = Some(scope); //~ E0521
        Ok(())
    })?;
    let _scope = device.scope(|scope| Ok(scope))?; //~ "lifetime may not live long enough"
    Ok(())
}

fn sent_to_a_thread_that_may_outlive_it(device: &Device) -> Result<()> {
    device.scope(|scope| {
        std::thread::spawn(move || println!("{scope:?}")); //~ E0521
        Ok(())
    })
}

/// `Scope` is invariant in the lifetime of its borrows: a shorter one would accept a slice that
/// ends before the scope.
fn shorter<'short, 'env: 'short>(scope: &'short Scope<'env>) -> &'short Scope<'short> {
    scope //~ "lifetime may not live long enough"
}

fn longer<'short, 'env: 'short>(scope: &'short Scope<'short>) -> &'short Scope<'env> {
    scope //~ "lifetime may not live long enough"
}

fn outlives_its_target(device: &Device, stream: &Stream, buffer: &Buffer<f32>) -> Result<()> {
    device.scope(|scope| {
        let mut target = [0.0; 4];
        scope.download(stream, buffer, &mut target) //~ E0597
    })
}

fn target_is_seen_inside(device: &Device, stream: &Stream, buffer: &Buffer<f32>) -> Result<()> {
    let mut target = [0.0; 4];
    device.scope(|scope| {
        scope.download(stream, buffer, &mut target)?;
        println!("{target:?}"); //~ E0502
        Ok(())
    })
}

fn target_is_written_twice(device: &Device, stream: &Stream, buffer: &Buffer<f32>) -> Result<()> {
    let mut target = [0.0; 4];
    device.scope(|scope| {
        scope.download(stream, buffer, &mut target)?;
        scope.download(stream, buffer, &mut target) //~ E0499
    })
}

fn main() {}
