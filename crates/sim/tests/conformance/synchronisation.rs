//! Rules 29 and 30: calls that may synchronise streams with each other, and calls that may wait for
//! the device.

use crate::conformance::prelude::*;

const BYTES: usize = 4096;

/// A call of rule 29 (calls that may synchronise streams): its name, and a closure that makes it on
/// a stream.
type SynchronisingCall<'a> = (
    &'static str,
    Box<dyn FnOnce(StreamHandle) -> Result<(), DriverError> + Send + 'a>,
);

pub(crate) fn r29(dev: &DeviceHarness) -> Observation {
    let (a, b) = (dev.memory(BYTES)?, dev.memory(BYTES)?);
    let host = dev.pageable(BYTES, 0);
    let fill = FillPattern::U8(1);
    let calls: [SynchronisingCall<'_>; 6] = [
        (
            "device allocation",
            Box::new(|_| dev.memory_to_keep(BYTES).map(drop)),
        ),
        (
            "page-locked allocation",
            Box::new(|_| dev.pinned(BYTES, 0).map(drop)),
        ),
        ("page-locking", Box::new(|_| dev.host_register(host))),
        ("stream", Box::new(|_| dev.stream().map(drop))),
        (
            "fill",
            Box::new(|stream| dev.memset_async(a, fill, BYTES, stream)),
        ),
        (
            "copy within the device",
            Box::new(|stream| dev.copy_device_to_device_async(b, a, BYTES, stream)),
        ),
    ];
    let (mut barriers, mut none) = (Vec::new(), Vec::new());
    for (what, call) in calls {
        if is_a_barrier(dev, call)? {
            barriers.push(what);
        } else {
            none.push(what);
        }
    }
    dev.host_unregister(host)?;
    Ok(match (&barriers[..], &none[..]) {
        (_, []) => "return; each is a barrier".into(),
        ([], _) => "return; none is a barrier".into(),
        _ => format!("return; barriers: {}", barriers.join(", ")),
    })
}

/// Returns whether work behind the call waits for the work of another stream. Checks that the call
/// itself does not block.
fn is_a_barrier(
    dev: &DeviceHarness,
    call: impl FnOnce(StreamHandle) -> Result<(), DriverError> + Send,
) -> Result<bool, Failed> {
    let (held, stream, later) = (dev.stream()?, dev.stream()?, dev.stream()?);
    let (memory, source) = (dev.memory(4)?, dev.pinned(4, 1)?);
    let gate = dev.returns(dev.gate(held)?, || call(stream))?;
    dev.upload(memory, source, later)?;
    let goes_on = dev.gets_done(later)?;
    gate.open();
    dev.stream_synchronize(held)?;
    dev.stream_synchronize(later)?;
    dev.stream_synchronize(stream)?;
    Ok(!goes_on)
}

pub(crate) fn r30(dev: &DeviceHarness) -> Observation {
    let held = dev.stream()?;
    let memory = dev.mem_alloc(BYTES)?;
    let device = dev.either(dev.gate(held)?, || dev.mem_free(memory))?.word();
    let pinned = dev.pinned_to_free(BYTES, 0)?;
    let page_locked = dev
        .either(dev.gate(held)?, || dev.host_free(pinned))?
        .word();
    let host = dev.pageable(BYTES, 0);
    dev.host_register(host)?;
    let registered = dev
        .either(dev.gate(held)?, || dev.host_unregister(host))?
        .word();

    let stream = dev.stream()?;
    let ordered = dev.mem_alloc_async(BYTES, stream)?;
    let gate = dev.returns(dev.gate(held)?, || dev.mem_free_async(ordered, stream))?;
    gate.open();
    dev.stream_synchronize(stream)?;
    Ok(format!(
        "cuMemFree {device}, cuMemFreeHost {page_locked}, cuMemHostUnregister {registered}, \
         cuMemFreeAsync returns"
    ))
}
