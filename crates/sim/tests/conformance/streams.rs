//! Rules 16 to 21: order within a stream, none across, and the default streams' barriers.
//!
//! What is tried across streams are copies of page-locked memory: those are not among the commands
//! of rule 29.

use std::thread;

use millstream_driver::{FillPattern, StreamHandle};

use crate::rig::{Outcome, Rig, check};

const LEGACY: StreamHandle = StreamHandle::LEGACY;

pub(crate) fn r16(rig: &Rig) -> Outcome {
    let (stream, memory) = (rig.stream()?, rig.memory(64)?);
    for value in 0..20 {
        let count = 64 - usize::from(value);
        rig.memset_async(memory, FillPattern::U8(value), count, stream)?;
    }
    let expected: Vec<u8> = (0..64)
        .map(|at: u8| if at < 45 { 19 } else { 63 - at })
        .collect();
    check(rig.read(memory, 64, stream)? == expected, "in order")?;

    let (held, source) = (rig.stream()?, rig.pinned(4, 1)?);
    let gate = rig.gate(held)?;
    rig.upload(memory, source, stream)?;
    rig.stream_synchronize(stream)?;
    check(rig.pending(held)?, "the gate is closed")?;
    gate.open();
    Ok("in order; not held by another stream".into())
}

pub(crate) fn r17(rig: &Rig) -> Outcome {
    let (first, second, memory) = (
        rig.blocking_stream()?,
        rig.blocking_stream()?,
        rig.memory(4)?,
    );
    let (one, two) = (rig.pinned(4, 1)?, rig.pinned(4, 2)?);
    let gate = rig.gate(first)?;
    rig.upload(memory, one, LEGACY)?;
    rig.upload(memory, two, second)?;
    check(
        rig.stays_pending(LEGACY)?,
        "the legacy stream waits for the first",
    )?;
    check(
        rig.stays_pending(second)?,
        "the second waits for the legacy stream",
    )?;
    gate.open();
    check(rig.holds(memory, 2, 4, second)?, "and comes behind it")?;
    Ok("both wait".into())
}

pub(crate) fn r18(rig: &Rig) -> Outcome {
    let (stream, memory, source) = (rig.stream()?, rig.memory(4)?, rig.pinned(4, 1)?);
    let gate = rig.gate(stream)?;
    rig.upload(memory, source, LEGACY)?;
    rig.stream_synchronize(LEGACY)?;
    gate.open();
    rig.stream_synchronize(stream)?;
    let gate = rig.gate(LEGACY)?;
    rig.upload(memory, source, stream)?;
    rig.stream_synchronize(stream)?;
    check(rig.pending(LEGACY)?, "the gate is closed")?;
    gate.open();
    Ok("neither waits".into())
}

pub(crate) fn r19(rig: &Rig) -> Outcome {
    const MINE: StreamHandle = StreamHandle::PER_THREAD;
    let memory = rig.memory(4)?;
    let (one, two) = (rig.pinned(4, 1)?, rig.pinned(4, 2)?);
    let gate = rig.gate(MINE)?;
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            rig.upload(memory, one, MINE)?;
            rig.stream_synchronize(MINE)
        });
        other.join().map_err(|_| "the other thread panicked")
    })??;
    check(rig.pending(MINE)?, "the gate is closed")?;
    rig.upload(memory, two, LEGACY)?;
    check(
        rig.stays_pending(LEGACY)?,
        "the legacy stream waits for this thread's",
    )?;
    gate.open();
    check(rig.holds(memory, 2, 4, LEGACY)?, "and goes on")?;
    Ok("one for each thread; the legacy stream waits".into())
}

pub(crate) fn r21(rig: &Rig) -> Outcome {
    let (dying, other) = (rig.stream_create(true, 0)?, rig.stream()?);
    let (memory, source) = (rig.memory(4)?, rig.pinned(4, 5)?);
    let gate = rig.gate(dying)?;
    rig.upload(memory, source, dying)?;
    let event = rig.recorded(dying)?;
    let gate = rig.returns(gate, || rig.stream_destroy(dying))?;
    rig.stream_wait_event(other, event)?;
    check(rig.stays_pending(other)?, "its work is still to be done")?;
    gate.open();
    check(rig.holds(memory, 5, 4, other)?, "and is done")?;
    rig.event_destroy(event)?;
    Ok("returns; the work completes".into())
}
