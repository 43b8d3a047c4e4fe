//! Rules 22 to 25: the work that an event captures, and the work that a wait for it delays.

use crate::conformance::prelude::*;

pub(crate) fn r22(dev: &DeviceHarness) -> Observation {
    let (stream, event) = (dev.stream()?, dev.event()?);
    check(
        dev.event_query(event)?.is_complete(),
        "complete, for it was never recorded",
    )?;
    dev.event_synchronize(event)?;
    dev.stream_wait_event(stream, event)?;
    dev.stream_synchronize(stream)?;

    let gate = dev.gate(stream)?;
    dev.event_record(event, stream)?;
    check(
        !dev.event_query(event)?.is_complete(),
        "pending with the work before it",
    )?;
    gate.open();
    dev.event_synchronize(event)?;
    dev.event_record(event, stream)?;
    let later = dev.gate(stream)?;
    dev.event_synchronize(event)?;
    check(
        dev.event_query(event)?.is_complete(),
        "complete beside later work",
    )?;
    check(dev.pending(stream)?, "the later work is not done")?;
    later.open();
    dev.stream_synchronize(stream)?;
    dev.event_destroy(event)?;
    Ok("complete before it is recorded, and beside later work".into())
}

pub(crate) fn r23(dev: &DeviceHarness) -> Observation {
    let (first, second, waiting) = (dev.stream()?, dev.stream()?, dev.stream()?);
    let event = dev.recorded(first)?;
    dev.stream_wait_event(waiting, event)?;
    let gate = dev.gate(second)?;
    dev.event_record(event, second)?;
    dev.stream_synchronize(waiting)?;
    check(
        !dev.event_query(event)?.is_complete(),
        "the event has the later capture",
    )?;
    dev.stream_wait_event(waiting, event)?;
    check(
        dev.stays_pending(waiting)?,
        "a later wait uses the later capture",
    )?;
    gate.open();
    dev.stream_synchronize(waiting)?;
    dev.event_destroy(event)?;
    Ok("the earlier capture".into())
}

pub(crate) fn r24(dev: &DeviceHarness) -> Observation {
    let (writer, reader, memory) = (dev.stream()?, dev.stream()?, dev.memory(4)?);
    let (one, two, target) = (dev.pinned(4, 1)?, dev.pinned(4, 2)?, dev.pinned(4, 0)?);
    dev.upload(memory, one, reader)?;
    let before = dev.recorded(reader)?;
    dev.stream_wait_event(writer, before)?;
    let gate = dev.gate(writer)?;
    dev.upload(memory, two, writer)?;
    let written = dev.recorded(writer)?;
    let gate = dev.returns(gate, || {
        dev.stream_wait_event(reader, written)?;
        dev.download(target, memory, reader)
    })?;
    dev.event_synchronize(before)?;
    check(dev.stays_pending(reader)?, "later work waits")?;
    check(target.is(0), "the later work has not run")?;
    gate.open();
    dev.stream_synchronize(reader)?;
    check(
        target.is(2),
        "the later work runs after the work it waited for",
    )?;
    dev.event_destroy(before)?;
    dev.event_destroy(written)?;
    Ok("returns; later work waits, earlier does not".into())
}

pub(crate) fn r25(dev: &DeviceHarness) -> Observation {
    let (first, second) = (dev.stream()?, dev.stream()?);
    let gate = dev.gate(first)?;
    let event = dev.recorded(first)?;
    dev.stream_wait_event(second, event)?;
    let gate = dev.returns(gate, || dev.event_destroy(event))?;
    check(
        dev.stays_pending(second)?,
        "destroying the event cancels no wait",
    )?;
    gate.open();
    dev.stream_synchronize(second)?;
    Ok("returns; the wait stays".into())
}
