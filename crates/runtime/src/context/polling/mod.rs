//! Polling: how the host learns that an operation is done.
//!
//! Nothing is recorded for that. A ticket with a sync point behind it is asked about by that sync
//! point's event; one without is asked about by its stream, which answers «done» at the latest when
//! the stream is idle. Whoever wants the answer for the stream's last ticket marks it *awaited*; a
//! later submission then records a sync point first, so that the wait never becomes one for later
//! work.
//!
//! The reactor ([`register`]) polls on behalf of futures.

#![allow(unsafe_code, reason = "queries streams and events")]

#[cfg_attr(
    not(feature = "sim"),
    allow(
        dead_code,
        reason = "only the checks of programs on the simulated device make one"
    )
)]
mod local;
mod reactor;

use std::{any::Any, mem, sync::Arc, time::Duration};

use millstream_driver::Completion;

#[cfg(feature = "sim")]
pub(crate) use local::LocalReactor;
pub(crate) use reactor::{Action, Registration, register};

use super::{DeviceState, PooledEvent, StreamState};
use crate::{
    Result,
    tracker::{Sequence, VectorClock},
};

/// How long a wait spins before it sleeps: about what a launch and a copy of a few bytes take.
const SPIN_NS: u64 = 30_000;
/// The shortest and the longest sleep between two questions. In between, a hundredth of the time
/// waited so far: that bounds the added latency to one per cent and the questions to a few hundred,
/// however long the wait.
pub(crate) const SLEEP_NS_MIN: u64 = 20_000;
const SLEEP_NS_MAX: u64 = 20_000_000;

/// How long to sleep before the next question after waiting for `waited_ns`; `None` means to ask
/// again at once.
pub(crate) fn poll_backoff(waited_ns: u64) -> Option<Duration> {
    (waited_ns >= SPIN_NS)
        .then(|| Duration::from_nanos((waited_ns / 100).clamp(SLEEP_NS_MIN, SLEEP_NS_MAX)))
}

/// Whether the stream's ticket `sequence`, which is submitted, is done, and what it made can be
/// believed. Never blocks.
pub(crate) fn poll_ticket(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<bool> {
    let done = poll_own_ticket(device, stream, sequence)?;
    if done {
        device.cross_device.check(device)?;
    }
    Ok(done)
}

/// The same, whatever became of other devices that this one waits for.
pub(crate) fn poll_own_ticket(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<bool> {
    if stream.is_done(sequence) {
        return Ok(true);
    }
    device.check_alive()?;
    let point = stream
        .shared
        .lock()
        .points
        .covering(sequence)
        .map(Arc::clone);
    match point {
        Some(point) => query_sync_point(device, stream, &point),
        None => query_stream(device, stream).map(|idle| idle || stream.is_done(sequence)),
    }
}

/// Whether the sync point's event is complete; if so, everything before it is noted as done.
pub(crate) fn query_sync_point(
    device: &DeviceState,
    stream: &StreamState,
    point: &PooledEvent,
) -> Result<bool> {
    // SAFETY: the device owns the event, and `point` holds it so that it is not recorded anew.
    let answer =
        device.checked(unsafe { device.driver.event_query(device.context, point.event) })?;
    if answer == Completion::Pending {
        return Ok(false);
    }
    note_done(device, &point.clock);
    let done = stream.done();
    stream
        .shared
        .lock()
        .points
        .retire(done, device.events.give_many());
    Ok(true)
}

/// Whether the stream has finished all that was submitted before this call; if so, that is noted as
/// done.
pub(crate) fn query_stream(device: &DeviceState, stream: &StreamState) -> Result<bool> {
    let (submitted, clock) = stream.shared.lock().points.tail();
    // SAFETY: the device owns the stream.
    let answer =
        device.checked(unsafe { device.driver.stream_query(device.context, stream.handle) })?;
    if answer == Completion::Pending {
        return Ok(false);
    }
    note_done(device, &clock);
    stream.mark_done(submitted);
    stream
        .shared
        .lock()
        .points
        .retire(submitted, device.events.give_many());
    Ok(true)
}

/// Notes that everything in the clock is done.
pub(crate) fn note_done(device: &DeviceState, clock: &VectorClock) {
    for ticket in clock.tickets() {
        if let Some(stream) = device.stream(ticket.stream) {
            stream.mark_done(ticket.sequence);
        }
    }
}

/// Keeps a value of this library's own until the stream's ticket `sequence`, which is submitted, is
/// done or the device is lost. The device stays open as long. The value is dropped on the reactor's
/// thread: its drop runs no user code.
pub(crate) fn retain_until_complete(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
    kept: impl Any + Send,
) {
    let registered = register(Registration {
        device: Arc::clone(device),
        stream: Arc::clone(stream),
        sequence,
        action: Action::Drop(Box::new(kept)),
    });
    // Without a reactor no thread polls for the end, so the value is kept for ever.
    if let Err(registration) = registered {
        mem::forget(registration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_for_long_sleeps_for_a_hundredth_of_it() {
        assert_eq!(poll_backoff(0), None);
        assert_eq!(poll_backoff(SPIN_NS - 1), None);
        let sleeps = [SPIN_NS, 10_000_000, 3_600_000_000_000].map(poll_backoff);
        let expected =
            [SLEEP_NS_MIN, 100_000, SLEEP_NS_MAX].map(|ns| Some(Duration::from_nanos(ns)));
        assert_eq!(sleeps, expected);
    }
}
