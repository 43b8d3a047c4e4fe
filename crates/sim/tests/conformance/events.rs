//! Rules 22 to 25: what events capture, and what waits for them hold back.

use crate::rig::{Outcome, Rig, check};

pub(crate) fn r22(rig: &Rig) -> Outcome {
    let (stream, event) = (rig.stream()?, rig.event()?);
    check(
        rig.event_query(event)?.is_complete(),
        "complete, for it was never recorded",
    )?;
    rig.event_synchronize(event)?;
    rig.stream_wait_event(stream, event)?;
    rig.stream_synchronize(stream)?;

    let gate = rig.gate(stream)?;
    rig.event_record(event, stream)?;
    check(
        !rig.event_query(event)?.is_complete(),
        "pending with the work before it",
    )?;
    gate.open();
    rig.event_synchronize(event)?;
    rig.event_record(event, stream)?;
    let later = rig.gate(stream)?;
    rig.event_synchronize(event)?;
    check(
        rig.event_query(event)?.is_complete(),
        "complete beside later work",
    )?;
    check(rig.pending(stream)?, "the later work is not done")?;
    later.open();
    rig.stream_synchronize(stream)?;
    rig.event_destroy(event)?;
    Ok("complete before it is recorded, and beside later work".into())
}

pub(crate) fn r23(rig: &Rig) -> Outcome {
    let (first, second, waiting) = (rig.stream()?, rig.stream()?, rig.stream()?);
    let event = rig.recorded(first)?;
    rig.stream_wait_event(waiting, event)?;
    let gate = rig.gate(second)?;
    rig.event_record(event, second)?;
    rig.stream_synchronize(waiting)?;
    check(
        !rig.event_query(event)?.is_complete(),
        "the event has the later capture",
    )?;
    rig.stream_wait_event(waiting, event)?;
    check(rig.stays_pending(waiting)?, "a later wait has it, too")?;
    gate.open();
    rig.stream_synchronize(waiting)?;
    rig.event_destroy(event)?;
    Ok("the earlier capture".into())
}

pub(crate) fn r24(rig: &Rig) -> Outcome {
    let (writer, reader, memory) = (rig.stream()?, rig.stream()?, rig.memory(4)?);
    let (one, two, target) = (rig.pinned(4, 1)?, rig.pinned(4, 2)?, rig.pinned(4, 0)?);
    rig.upload(memory, one, reader)?;
    let before = rig.recorded(reader)?;
    rig.stream_wait_event(writer, before)?;
    let gate = rig.gate(writer)?;
    rig.upload(memory, two, writer)?;
    let written = rig.recorded(writer)?;
    let gate = rig.returns(gate, || {
        rig.stream_wait_event(reader, written)?;
        rig.download(target, memory, reader)
    })?;
    rig.event_synchronize(before)?;
    check(rig.stays_pending(reader)?, "later work waits")?;
    check(target.is(0), "and has not run")?;
    gate.open();
    rig.stream_synchronize(reader)?;
    check(target.is(2), "it comes behind what it waited for")?;
    rig.event_destroy(before)?;
    rig.event_destroy(written)?;
    Ok("returns; later work waits, earlier does not".into())
}

pub(crate) fn r25(rig: &Rig) -> Outcome {
    let (first, second) = (rig.stream()?, rig.stream()?);
    let gate = rig.gate(first)?;
    let event = rig.recorded(first)?;
    rig.stream_wait_event(second, event)?;
    let gate = rig.returns(gate, || rig.event_destroy(event))?;
    check(rig.stays_pending(second)?, "the wait stays")?;
    gate.open();
    rig.stream_synchronize(second)?;
    Ok("returns; the wait stays".into())
}
