//! Polling: detects on the host that operations are complete.
//!
//! Polling records no events. A ticket with a sync point behind it is complete once that sync
//! point's event is; otherwise its stream is queried, which reports completion at the latest when
//! the stream is idle. A caller that may wait for the stream's last ticket registers a
//! [`HostWaiter`](super::HostWaiter); the next submission then records a sync point first, so that
//! the wait never includes later work.
//!
//! The reactor ([`register`]) polls on behalf of futures.

#![allow(unsafe_code, reason = "queries streams and events")]

#[cfg_attr(
    not(feature = "sim"),
    allow(
        dead_code,
        reason = "only checks of programs on the simulated device create a local reactor"
    )
)]
mod local;
mod reactor;

use std::{any::Any, mem, sync::Arc, time::Duration};

use millstream_driver::{Completion, Driver};

#[cfg(feature = "sim")]
pub(crate) use local::LocalReactor;
pub(crate) use reactor::{Action, Registration, register};

use super::{DeviceState, PooledEvent, StreamState, realm};
use crate::{
    Result,
    sync::spin_loop,
    tracker::{Sequence, VectorClock},
};

/// The time for which a wait spins before it sleeps: about as long as a launch and a small copy
/// take.
const SPIN_NS: u64 = 30_000;
/// The shortest sleep between two polls. A sleep lasts a hundredth of the time waited so far,
/// within these bounds. That limits the added latency to one per cent and the number of polls to a
/// few hundred.
pub(crate) const SLEEP_NS_MIN: u64 = 20_000;
/// The longest sleep between two polls.
const SLEEP_NS_MAX: u64 = 20_000_000;

/// Returns the sleep before the next poll after waiting for `waited_ns`; `None` means to poll again
/// at once.
pub(crate) fn poll_backoff(waited_ns: u64) -> Option<Duration> {
    (waited_ns >= SPIN_NS)
        .then(|| Duration::from_nanos((waited_ns / 100).clamp(SLEEP_NS_MIN, SLEEP_NS_MAX)))
}

/// Returns the pause before the next poll of a blocking wait; `None` means to poll again at once. A
/// GPU's driver keeps short pauses exactly, so that the latency is one per cent of the time waited
/// from the start.
pub(crate) fn wait_backoff(waited_ns: u64, is_simulated: bool) -> Option<Duration> {
    let backoff = poll_backoff(waited_ns)?;
    match is_simulated {
        true => Some(backoff),
        false => Some(backoff.min(Duration::from_nanos(waited_ns / 100))),
    }
}

/// Returns whether the stream's submitted ticket `sequence` is complete. Never blocks.
pub(crate) fn poll_ticket(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<bool> {
    if stream.is_done(sequence) {
        return Ok(true);
    }
    device.check_alive()?;
    let point = stream.covering(sequence);
    match point {
        Some(point) => query_sync_point(device, stream, &point),
        None => query_stream(device, stream).map(|idle| idle || stream.is_done(sequence)),
    }
}

/// Returns whether the sync point's event is complete. If it is, everything ordered before it is
/// marked complete.
pub(crate) fn query_sync_point(
    device: &DeviceState,
    stream: &StreamState,
    point: &PooledEvent,
) -> Result<bool> {
    // SAFETY: the device owns the event, and `point` references it, so it is not recorded again.
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
        .retire(done, device.events_of(stream).give_many());
    Ok(true)
}

/// Returns whether the stream has completed everything submitted before this call. If it has, that
/// is marked complete.
pub(crate) fn query_stream(device: &DeviceState, stream: &StreamState) -> Result<bool> {
    let (submitted, clock) = stream.shared.lock().points.tail();
    let query = || {
        // SAFETY: the device owns the stream, or it is kept.
        unsafe { device.driver.stream_query(device.context, stream.handle) }
    };
    let Some(answer) = stream.while_kept(query) else {
        return Ok(stream.is_done(submitted));
    };
    if device.checked(answer)? == Completion::Pending {
        return Ok(false);
    }
    note_done(device, &clock);
    stream.mark_done(submitted);
    stream
        .shared
        .lock()
        .points
        .retire(submitted, device.events_of(stream).give_many());
    Ok(true)
}

/// Returns whether a stream of any open device of this one's driver has incomplete operations.
pub(crate) fn has_pending_work(device: &DeviceState) -> bool {
    let devices = realm::all();
    let of_driver = devices.iter().filter(|other| device.shares_driver(other));
    let mut streams = of_driver.flat_map(|device| {
        let streams = device.all_streams().into_iter();
        streams.map(move |stream| (device, stream))
    });
    streams.any(|(device, stream)| {
        stream.is_own() && matches!(query_stream(device, &stream), Ok(false))
    })
}

/// Polls with growing backoff until `is_done` returns `true`.
pub(crate) fn wait_until(driver: &dyn Driver, is_done: impl FnMut() -> Result<bool>) -> Result<()> {
    poll_until(driver, is_done)
}

/// Does the same as [`wait_until`], with errors of any type.
pub(crate) fn poll_until<E>(
    driver: &dyn Driver,
    is_done: impl FnMut() -> Result<bool, E>,
) -> Result<(), E> {
    wait_until_timeout(driver, Duration::MAX, is_done).map(drop)
}

/// Does the same for at most `timeout` of the driver's time. Returns whether it is done.
pub(crate) fn wait_until_timeout<E>(
    driver: &dyn Driver,
    timeout: Duration,
    mut is_done: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    let started_ns = driver.now_ns();
    let is_simulated = driver.is_simulated();
    while !is_done()? {
        let waited_ns = driver.now_ns().saturating_sub(started_ns);
        let left = timeout.saturating_sub(Duration::from_nanos(waited_ns));
        if left.is_zero() {
            return Ok(false);
        }
        match wait_backoff(waited_ns, is_simulated) {
            None => spin_loop(),
            Some(sleep) => driver.pause(sleep.min(left)),
        }
    }
    Ok(true)
}

/// Marks all tickets of the device that the clock covers as complete. Tickets of another device are
/// marked when that device is polled: if it is lost, waits for it end although its operations never
/// completed.
pub(crate) fn note_done(device: &DeviceState, clock: &VectorClock) {
    for ticket in clock.tickets() {
        if let Some(stream) = device.stream(ticket.stream) {
            stream.mark_done(ticket.sequence);
        }
    }
}

/// Keeps an internal value like [`retain_until_complete`], without hurry: a GPU is asked at most
/// every [`SLEEP_NS_MAX`], so that many short operations cost few calls.
pub(crate) fn retain_patiently(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
    value: impl Any + Send,
) {
    retain(
        device,
        stream,
        sequence,
        Action::DropPatiently(Box::new(value)),
    );
}

/// Keeps an internal value until the stream's submitted ticket `sequence` is complete or the device
/// is lost. The device stays open until then. The value is dropped on the reactor's thread, so its
/// drop must not run user code.
pub(crate) fn retain_until_complete(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
    value: impl Any + Send,
) {
    retain(device, stream, sequence, Action::Drop(Box::new(value)));
}

fn retain(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
    action: Action,
) {
    let registered = register(Registration {
        device: Arc::clone(device),
        stream: Arc::clone(stream),
        sequence,
        action,
    });
    // Without a reactor no thread polls for completion, so the value is leaked.
    if let Err(registration) = registered {
        mem::forget(registration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_sleep_for_a_hundredth_of_the_time_waited() {
        assert_eq!(poll_backoff(0), None);
        assert_eq!(poll_backoff(SPIN_NS - 1), None);
        let sleeps = [SPIN_NS, 10_000_000, 3_600_000_000_000].map(poll_backoff);
        let expected =
            [SLEEP_NS_MIN, 100_000, SLEEP_NS_MAX].map(|ns| Some(Duration::from_nanos(ns)));
        assert_eq!(sleeps, expected);
        let pauses = [SPIN_NS - 1, 100_000, 10_000_000].map(|waited| wait_backoff(waited, false));
        let expected = [1_000, 100_000].map(|ns| Some(Duration::from_nanos(ns)));
        assert_eq!(pauses, [None, expected[0], expected[1]]);
        assert_eq!(wait_backoff(100_000, true), poll_backoff(100_000));
    }
}
