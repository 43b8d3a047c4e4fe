//! Rule 55: a synchronisation with the legacy default stream waits for the work of every blocking
//! stream, whether or not the legacy stream has work of its own.

use std::sync::mpsc;

use libtest_mimic::Failed;
use millstream_driver::{DriverError, StreamHandle};

use crate::rig::{Outcome, Rig, check};

const LEGACY: StreamHandle = StreamHandle::LEGACY;
const NULL: StreamHandle = StreamHandle::from_raw(0);
const MINE: StreamHandle = StreamHandle::PER_THREAD;

/// A call with its name.
type Named<'a> = (
    &'static str,
    Box<dyn FnOnce() -> Result<(), DriverError> + Send + 'a>,
);

pub(crate) fn r55(rig: &Rig) -> Outcome {
    waits_for_blocking_streams(rig)?;
    answers_for_blocking_streams(rig)?;
    captures_blocking_streams(rig)?;
    leaves_others_out(rig)?;

    let dying = rig.stream_create(false, 0)?;
    let gate = rig.gate(dying)?;
    rig.stream_destroy(dying)?;
    let destroyed = rig.either(gate, || rig.stream_synchronize(LEGACY))?;
    // With work on the legacy stream, and none behind it on the blocking one.
    let idle = rig.blocking_stream()?;
    let behind = rig.either(rig.gate(LEGACY)?, || rig.stream_synchronize(idle))?;
    Ok(format!(
        "waits for and answers for blocking streams, not for others; for a destroyed one: {}; an \
         idle blocking stream: {} while the legacy one works",
        destroyed.word(),
        behind.word()
    ))
}

/// Each call that waits for the legacy stream blocks while a blocking stream is busy, and finds
/// that stream's work done.
fn waits_for_blocking_streams(rig: &Rig) -> Result<(), Failed> {
    let (busy, memory) = (rig.blocking_stream()?, rig.memory(4)?);
    let (source, target, other) = (rig.pinned(4, 7)?, rig.pinned(4, 0)?, rig.pinned(4, 0)?);
    let pageable = rig.pageable(4, 0);
    for stream in [busy, MINE] {
        let event = rig.event()?;
        let calls: [Named<'_>; 6] = [
            (
                "cuStreamSynchronize",
                Box::new(|| rig.stream_synchronize(LEGACY)),
            ),
            ("the same of 0", Box::new(|| rig.stream_synchronize(NULL))),
            (
                "an event of the legacy stream",
                Box::new(|| {
                    rig.event_record(event, LEGACY)?;
                    rig.event_synchronize(event)
                }),
            ),
            ("cuCtxSynchronize", Box::new(|| rig.context_synchronize())),
            ("a download", Box::new(|| rig.download_now(other, memory))),
            (
                "a download to pageable memory",
                Box::new(|| rig.download_now(pageable, memory)),
            ),
        ];
        for (name, call) in calls {
            target.fill(0);
            let gate = rig.gate(stream)?;
            rig.upload(memory, source, stream)?;
            rig.download(target, memory, stream)?;
            rig.blocks(gate, call)
                .map_err(|failed| format!("{name}: {}", failed.message().unwrap_or_default()))?;
            check(target.is(7), &format!("{name}: the stream's work is done"))?;
        }
        rig.event_destroy(event)?;
    }
    check(other.is(7) && pageable.is(7), "the copies come behind it")
}

fn answers_for_blocking_streams(rig: &Rig) -> Result<(), Failed> {
    let stream = rig.blocking_stream()?;
    for handle in [LEGACY, NULL] {
        check(!rig.pending(handle)?, "nothing is pending")?;
        let gate = rig.gate(stream)?;
        check(rig.stays_pending(handle)?, "not ready with it")?;
        gate.open();
        rig.stream_synchronize(stream)?;
        check(!rig.pending(handle)?, "ready with it")?;
    }
    Ok(())
}

/// An event of the legacy stream, and a host function there, come behind the blocking streams.
fn captures_blocking_streams(rig: &Rig) -> Result<(), Failed> {
    let (busy, other, free) = (
        rig.blocking_stream()?,
        rig.blocking_stream()?,
        rig.stream()?,
    );
    let (called, calls) = mpsc::channel();
    let gate = rig.gate(busy)?;
    let event = rig.recorded(LEGACY)?;
    rig.stream_wait_event(free, event)?;
    rig.host_function(LEGACY, move || {
        let _ = called.send(());
    })?;
    check(
        !rig.event_query(event)?.is_complete(),
        "the event is pending",
    )?;
    check(rig.stays_pending(free)?, "what waits for it is held")?;
    check(calls.try_recv().is_err(), "the host function is not called")?;
    gate.open();
    rig.stream_synchronize(LEGACY)?;
    check(calls.try_recv().is_ok(), "the host function was called")?;
    check(
        rig.event_query(event)?.is_complete(),
        "the event is complete",
    )?;
    rig.stream_synchronize(free)?;

    let gate = rig.gate(free)?;
    rig.event_record(event, free)?;
    rig.stream_wait_event(LEGACY, event)?;
    let behind = rig.recorded(other)?;
    check(
        rig.stays_pending(LEGACY)? && !rig.event_query(behind)?.is_complete(),
        "a wait on the legacy stream holds blocking streams",
    )?;
    gate.open();
    rig.event_synchronize(behind)?;
    rig.event_destroy(event)?;
    Ok(rig.event_destroy(behind)?)
}

/// Streams that are not blocking are neither waited for nor answered for; a blocking one answers
/// for itself.
fn leaves_others_out(rig: &Rig) -> Result<(), Failed> {
    let (free, busy, idle) = (
        rig.stream()?,
        rig.blocking_stream()?,
        rig.blocking_stream()?,
    );
    let gate = rig.returns(rig.gate(free)?, || rig.stream_synchronize(LEGACY))?;
    check(!rig.pending(LEGACY)?, "ready beside a non-blocking stream")?;
    rig.blocks(gate, || rig.context_synchronize())?;
    let gate = rig.returns(rig.gate(busy)?, || rig.stream_synchronize(idle))?;
    check(
        !rig.pending(idle)?,
        "a blocking stream answers for itself alone",
    )?;
    gate.open();
    Ok(rig.stream_synchronize(busy)?)
}
