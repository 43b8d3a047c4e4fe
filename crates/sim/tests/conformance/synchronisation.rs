//! Rules 29 and 30: calls that may synchronise streams with each other, and calls that may wait for
//! the device.

use libtest_mimic::Failed;
use millstream_driver::{DriverError, FillPattern, StreamHandle};

use crate::rig::{Outcome, Rig};

const BYTES: usize = 4096;

/// A call of rule 29: what it is called, and what makes it on a stream.
type Made<'a> = (
    &'static str,
    Box<dyn FnOnce(StreamHandle) -> Result<(), DriverError> + Send + 'a>,
);

pub(crate) fn r29(rig: &Rig) -> Outcome {
    let (a, b) = (rig.memory(BYTES)?, rig.memory(BYTES)?);
    let host = rig.pageable(BYTES, 0);
    let fill = FillPattern::U8(1);
    let calls: [Made<'_>; 6] = [
        (
            "device allocation",
            Box::new(|_| rig.memory_to_keep(BYTES).map(drop)),
        ),
        (
            "page-locked allocation",
            Box::new(|_| rig.pinned(BYTES, 0).map(drop)),
        ),
        ("page-locking", Box::new(|_| rig.host_register(host))),
        ("stream", Box::new(|_| rig.stream().map(drop))),
        (
            "fill",
            Box::new(|stream| rig.memset_async(a, fill, BYTES, stream)),
        ),
        (
            "copy within the device",
            Box::new(|stream| rig.copy_device_to_device_async(b, a, BYTES, stream)),
        ),
    ];
    let (mut barriers, mut none) = (Vec::new(), Vec::new());
    for (what, call) in calls {
        if is_a_barrier(rig, call)? {
            barriers.push(what);
        } else {
            none.push(what);
        }
    }
    rig.host_unregister(host)?;
    Ok(match (&barriers[..], &none[..]) {
        (_, []) => "return; each is a barrier".into(),
        ([], _) => "return; none is a barrier".into(),
        _ => format!("return; barriers: {}", barriers.join(", ")),
    })
}

/// Whether work behind the call waits for the work of another stream. The call itself must not.
fn is_a_barrier(
    rig: &Rig,
    call: impl FnOnce(StreamHandle) -> Result<(), DriverError> + Send,
) -> Result<bool, Failed> {
    let (held, stream, later) = (rig.stream()?, rig.stream()?, rig.stream()?);
    let (memory, source) = (rig.memory(4)?, rig.pinned(4, 1)?);
    let gate = rig.returns(rig.gate(held)?, || call(stream))?;
    rig.upload(memory, source, later)?;
    let goes_on = rig.gets_done(later)?;
    gate.open();
    rig.stream_synchronize(held)?;
    rig.stream_synchronize(later)?;
    rig.stream_synchronize(stream)?;
    Ok(!goes_on)
}

pub(crate) fn r30(rig: &Rig) -> Outcome {
    let held = rig.stream()?;
    let memory = rig.mem_alloc(BYTES)?;
    let device = rig.either(rig.gate(held)?, || rig.mem_free(memory))?.word();
    let pinned = rig.pinned_to_free(BYTES, 0)?;
    let page_locked = rig
        .either(rig.gate(held)?, || rig.host_free(pinned))?
        .word();
    let host = rig.pageable(BYTES, 0);
    rig.host_register(host)?;
    let registered = rig
        .either(rig.gate(held)?, || rig.host_unregister(host))?
        .word();

    let stream = rig.stream()?;
    let ordered = rig.mem_alloc_async(BYTES, stream)?;
    let gate = rig.returns(rig.gate(held)?, || rig.mem_free_async(ordered, stream))?;
    gate.open();
    rig.stream_synchronize(stream)?;
    Ok(format!(
        "cuMemFree {device}, cuMemFreeHost {page_locked}, cuMemHostUnregister {registered}, cuMemFreeAsync returns"
    ))
}
