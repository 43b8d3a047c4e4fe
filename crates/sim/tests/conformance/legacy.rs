//! Rule 55: a synchronisation with the legacy default stream waits for the work of every blocking
//! stream, even if the legacy stream itself is idle.

use crate::conformance::prelude::*;

const LEGACY: StreamHandle = StreamHandle::LEGACY;
const NULL: StreamHandle = StreamHandle::from_raw(0);
const MINE: StreamHandle = StreamHandle::PER_THREAD;

type NamedCall<'a> = (
    &'static str,
    Box<dyn FnOnce() -> Result<(), DriverError> + Send + 'a>,
);

pub(crate) fn r55(dev: &DeviceHarness) -> Observation {
    waits_for_blocking_streams(dev)?;
    answers_for_blocking_streams(dev)?;
    captures_blocking_streams(dev)?;
    leaves_others_out(dev)?;

    let dying = dev.stream_create(false, 0)?;
    let gate = dev.gate(dying)?;
    dev.stream_destroy(dying)?;
    let destroyed = dev.either(gate, || dev.stream_synchronize(LEGACY))?;
    // The legacy stream has work, and the blocking stream has none behind it.
    let idle = dev.blocking_stream()?;
    let behind = dev.either(dev.gate(LEGACY)?, || dev.stream_synchronize(idle))?;
    Ok(format!(
        "waits for and answers for blocking streams, not for others; for a destroyed one: {}; an \
         idle blocking stream: {} while the legacy one works",
        destroyed.word(),
        behind.word()
    ))
}

/// Checks that each call that waits for the legacy stream blocks while a blocking stream is busy,
/// and returns after that stream's work is complete.
fn waits_for_blocking_streams(dev: &DeviceHarness) -> Result<(), Failed> {
    let (busy, memory) = (dev.blocking_stream()?, dev.memory(4)?);
    let (source, target, other) = (dev.pinned(4, 7)?, dev.pinned(4, 0)?, dev.pinned(4, 0)?);
    let pageable = dev.pageable(4, 0);
    for stream in [busy, MINE] {
        let event = dev.event()?;
        let calls: [NamedCall<'_>; 6] = [
            (
                "cuStreamSynchronize",
                Box::new(|| dev.stream_synchronize(LEGACY)),
            ),
            ("the same of 0", Box::new(|| dev.stream_synchronize(NULL))),
            (
                "an event of the legacy stream",
                Box::new(|| {
                    dev.event_record(event, LEGACY)?;
                    dev.event_synchronize(event)
                }),
            ),
            ("cuCtxSynchronize", Box::new(|| dev.context_synchronize())),
            ("a download", Box::new(|| dev.download_now(other, memory))),
            (
                "a download to pageable memory",
                Box::new(|| dev.download_now(pageable, memory)),
            ),
        ];
        for (name, call) in calls {
            target.fill(0);
            let gate = dev.gate(stream)?;
            dev.upload(memory, source, stream)?;
            dev.download(target, memory, stream)?;
            dev.blocks(gate, call)
                .map_err(|failed| format!("{name}: {}", failed.message().unwrap_or_default()))?;
            check(target.is(7), &format!("{name}: the stream's work is done"))?;
        }
        dev.event_destroy(event)?;
    }
    check(
        other.is(7) && pageable.is(7),
        "the copies run after the blocking stream's work",
    )
}

fn answers_for_blocking_streams(dev: &DeviceHarness) -> Result<(), Failed> {
    let stream = dev.blocking_stream()?;
    for handle in [LEGACY, NULL] {
        check(!dev.pending(handle)?, "nothing is pending")?;
        let gate = dev.gate(stream)?;
        check(
            dev.stays_pending(handle)?,
            "the legacy stream is pending while a blocking stream is",
        )?;
        gate.open();
        dev.stream_synchronize(stream)?;
        check(
            !dev.pending(handle)?,
            "the legacy stream is complete when the blocking stream is",
        )?;
    }
    Ok(())
}

/// Checks that an event and a host function on the legacy stream follow the work of the blocking
/// streams.
fn captures_blocking_streams(dev: &DeviceHarness) -> Result<(), Failed> {
    let (busy, other, free) = (
        dev.blocking_stream()?,
        dev.blocking_stream()?,
        dev.stream()?,
    );
    let (called, calls) = mpsc::channel();
    let gate = dev.gate(busy)?;
    let event = dev.recorded(LEGACY)?;
    dev.stream_wait_event(free, event)?;
    dev.host_function(LEGACY, move || {
        let _ = called.send(());
    })?;
    check(
        !dev.event_query(event)?.is_complete(),
        "the event is pending",
    )?;
    check(
        dev.stays_pending(free)?,
        "the stream that waits for the event is pending",
    )?;
    check(calls.try_recv().is_err(), "the host function is not called")?;
    gate.open();
    dev.stream_synchronize(LEGACY)?;
    check(calls.try_recv().is_ok(), "the host function was called")?;
    check(
        dev.event_query(event)?.is_complete(),
        "the event is complete",
    )?;
    dev.stream_synchronize(free)?;

    let gate = dev.gate(free)?;
    dev.event_record(event, free)?;
    dev.stream_wait_event(LEGACY, event)?;
    let behind = dev.recorded(other)?;
    check(
        dev.stays_pending(LEGACY)? && !dev.event_query(behind)?.is_complete(),
        "a wait on the legacy stream holds blocking streams",
    )?;
    gate.open();
    dev.event_synchronize(behind)?;
    dev.event_destroy(event)?;
    Ok(dev.event_destroy(behind)?)
}

/// Checks that the legacy stream neither waits for non-blocking streams nor counts their work as
/// pending, and that a blocking stream counts only its own work.
fn leaves_others_out(dev: &DeviceHarness) -> Result<(), Failed> {
    let (free, busy, idle) = (
        dev.stream()?,
        dev.blocking_stream()?,
        dev.blocking_stream()?,
    );
    let gate = dev.returns(dev.gate(free)?, || dev.stream_synchronize(LEGACY))?;
    check(
        !dev.pending(LEGACY)?,
        "a non-blocking stream does not make it pending",
    )?;
    dev.blocks(gate, || dev.context_synchronize())?;
    let gate = dev.returns(dev.gate(busy)?, || dev.stream_synchronize(idle))?;
    check(
        !dev.pending(idle)?,
        "a blocking stream answers for itself alone",
    )?;
    gate.open();
    Ok(dev.stream_synchronize(busy)?)
}
