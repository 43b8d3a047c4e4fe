//! Rules 16 to 21: operations are ordered within a stream and unordered across streams, except for
//! the barriers of the default streams.
//!
//! The tests across streams use copies of page-locked memory, because these are not among the
//! commands of rule 29 (commands that may synchronise two streams).

use crate::conformance::prelude::*;

const LEGACY: StreamHandle = StreamHandle::LEGACY;

pub(crate) fn r16(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(64)?);
    for value in 0..20 {
        let count = 64 - usize::from(value);
        dev.memset_async(memory, FillPattern::U8(value), count, stream)?;
    }
    let expected: Vec<u8> = (0..64)
        .map(|at: u8| if at < 45 { 19 } else { 63 - at })
        .collect();
    check(dev.read(memory, 64, stream)? == expected, "in order")?;

    let (held, source) = (dev.stream()?, dev.pinned(4, 1)?);
    let gate = dev.gate(held)?;
    dev.upload(memory, source, stream)?;
    dev.stream_synchronize(stream)?;
    check(dev.pending(held)?, "the gate is closed")?;
    gate.open();
    Ok("in order; not held by another stream".into())
}

pub(crate) fn r17(dev: &DeviceHarness) -> Observation {
    let (first, second, memory) = (
        dev.blocking_stream()?,
        dev.blocking_stream()?,
        dev.memory(4)?,
    );
    let (one, two) = (dev.pinned(4, 1)?, dev.pinned(4, 2)?);
    let gate = dev.gate(first)?;
    dev.upload(memory, one, LEGACY)?;
    dev.upload(memory, two, second)?;
    check(
        dev.stays_pending(LEGACY)?,
        "the legacy stream waits for the first",
    )?;
    check(
        dev.stays_pending(second)?,
        "the second waits for the legacy stream",
    )?;
    gate.open();
    check(
        dev.holds(memory, 2, 4, second)?,
        "the later work runs after it",
    )?;
    Ok("both wait".into())
}

pub(crate) fn r18(dev: &DeviceHarness) -> Observation {
    let (stream, memory, source) = (dev.stream()?, dev.memory(4)?, dev.pinned(4, 1)?);
    let gate = dev.gate(stream)?;
    dev.upload(memory, source, LEGACY)?;
    dev.stream_synchronize(LEGACY)?;
    gate.open();
    dev.stream_synchronize(stream)?;
    let gate = dev.gate(LEGACY)?;
    dev.upload(memory, source, stream)?;
    dev.stream_synchronize(stream)?;
    check(dev.pending(LEGACY)?, "the gate is closed")?;
    gate.open();
    Ok("neither waits".into())
}

pub(crate) fn r19(dev: &DeviceHarness) -> Observation {
    const MINE: StreamHandle = StreamHandle::PER_THREAD;
    let memory = dev.memory(4)?;
    let (one, two) = (dev.pinned(4, 1)?, dev.pinned(4, 2)?);
    let gate = dev.gate(MINE)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            dev.upload(memory, one, MINE)?;
            dev.stream_synchronize(MINE)
        });
        other.join().map_err(|_| "the other thread panicked")
    })??;
    check(dev.pending(MINE)?, "the gate is closed")?;
    dev.upload(memory, two, LEGACY)?;
    check(
        dev.stays_pending(LEGACY)?,
        "the legacy stream waits for this thread's",
    )?;
    gate.open();
    check(dev.holds(memory, 2, 4, LEGACY)?, "the work continues")?;
    Ok("one for each thread; the legacy stream waits".into())
}

pub(crate) fn r21(dev: &DeviceHarness) -> Observation {
    let (dying, other) = (dev.stream_create(true, 0)?, dev.stream()?);
    let (memory, source) = (dev.memory(4)?, dev.pinned(4, 5)?);
    let gate = dev.gate(dying)?;
    dev.upload(memory, source, dying)?;
    let event = dev.recorded(dying)?;
    let gate = dev.returns(gate, || dev.stream_destroy(dying))?;
    dev.stream_wait_event(other, event)?;
    check(dev.stays_pending(other)?, "its work is still to be done")?;
    gate.open();
    check(
        dev.holds(memory, 5, 4, other)?,
        "its work is complete after the stream is destroyed",
    )?;
    dev.event_destroy(event)?;
    Ok("returns; the work completes".into())
}
