//! D1 for interoperation: every driver call of adoptions, leases and foreign calls fails. The
//! other library's calls succeed.

#![allow(unsafe_code, reason = "adopts streams and memory")]

use crate::scenarios::{
    outsiders::BYTES as N,
    prelude::*,
    sweep::{KINDS_OF_CODES, Subject},
};

/// Adopts a stream and memory, lends arrays, and lets the outsider enqueue to our stream.
fn hand_overs(gpu: &Gpu, device: &Device) -> Result<()> {
    let outsider = Outsider::new(Some(gpu), 0);
    // SAFETY: the stream is destroyed when the last reference is dropped.
    let theirs = unsafe { device.adopt_stream(outsider.raw, Arc::clone(&outsider)) }?;
    let (ours, other) = (device.stream()?, device.stream()?);
    let mut tensor = outsider.allocate(N);
    tensor.used_on = Some(device.clone());
    let pointer = tensor.pointer;
    outsider.fill(pointer, N, 1);
    let (after, release) = (After::Stream(&theirs), Release::behind(&theirs, tensor));
    // SAFETY: the memory has this size, and the keeper frees it.
    let mut adopted = unsafe { device.adopt_buffer::<u8>(pointer, N, after, release) }?;
    let mut array = ours.zeros::<u8>(N)?;
    ours.copy(&adopted, &mut array)?;
    other.fill(array.slice_mut(..N / 2), 2)?;
    let lease = array.slice_mut(N / 2..).lend_mut(&theirs)?;
    outsider.fill(lease.as_raw(), lease.len(), 3);
    drop(lease);
    let source = adopted.lend(&theirs)?;
    let target = array.slice_mut(..10).lend_mut(&theirs)?;
    outsider.copy(source.as_raw(), target.as_raw(), 10);
    drop((source, target));
    let fill = |call: ForeignCall<'_>| {
        outsider.fill_on(call.stream(), call.address(0), N, 4);
        Ok::<_, Error>(())
    };
    // SAFETY: the call fills its operand on the given stream.
    unsafe { other.foreign("fill", [write(&mut adopted)], fill) }?;
    let (one, two) = (ours.download(&array)?, ours.download(&adopted)?);
    drop((theirs, adopted));
    let found = one.wait()?;
    assert_eq!(found[..10], [1; 10]);
    assert_eq!(found[10..N / 2], [2; N / 2 - 10]);
    assert_eq!(found[N / 2..], [3; N / 2]);
    assert_eq!(two.wait()?, [4; N]);
    Ok(())
}

#[test]
fn d01_every_driver_call_of_hand_overs_may_fail() {
    for schedule in [Schedule::Timed, Schedule::Lazy] {
        let subject = Subject::new("hand-overs", schedule, &|gpu, devices| {
            hand_overs(gpu, &devices[0])
        });
        subject.sweep_with(&KINDS_OF_CODES);
    }
}
