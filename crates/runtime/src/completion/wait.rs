//! Asking whether a ticket is done, and waiting for it on the host.
//!
//! Nothing is recorded for a wait. A ticket with a point behind it is asked about by that point's event; one without is
//! asked about by its stream, which answers «done» at the latest when the stream is idle. Whoever wants the answer for
//! the stream's last ticket marks it *awaited*; a later submission then records a point first, so that the wait never
//! becomes one for later work.

#![allow(unsafe_code, reason = "queries streams and events")]

use std::{sync::Arc, time::Duration};

use millstream_driver::{Completion, Driver};

use crate::{
    Result,
    device::{DeviceState, PooledEvent, StreamState},
    submit::{drain_frees, record_point},
    sync::spin_loop,
    tracker::{Clock, Ticket},
};

/// How long a wait spins before it sleeps: about what a launch and a copy of a few bytes take.
const SPIN_NS: u64 = 30_000;
/// The shortest and the longest sleep between two questions. In between, a hundredth of the time waited so far: that
/// bounds the added latency to one per cent and the questions to a few hundred, however long the wait.
pub(super) const SLEEP_NS_MIN: u64 = 20_000;
const SLEEP_NS_MAX: u64 = 20_000_000;

/// How long to sleep before the next question after waiting for `waited_ns`; `None` means to ask again at once.
pub(crate) fn patience(waited_ns: u64) -> Option<Duration> {
    (waited_ns >= SPIN_NS).then(|| Duration::from_nanos((waited_ns / 100).clamp(SLEEP_NS_MIN, SLEEP_NS_MAX)))
}

/// Whether the stream's ticket `sequence`, which is submitted, is done, and what it made can be believed. Never blocks.
pub(crate) fn poll_ticket(device: &DeviceState, stream: &StreamState, sequence: u64) -> Result<bool> {
    let done = poll_own_ticket(device, stream, sequence)?;
    if done {
        device.sources.check(device)?;
    }
    Ok(done)
}

/// The same, whatever became of other devices that this one waits for.
pub(crate) fn poll_own_ticket(device: &DeviceState, stream: &StreamState, sequence: u64) -> Result<bool> {
    if stream.is_done(sequence) {
        return Ok(true);
    }
    device.check_alive()?;
    let point = stream.shared.lock().points.covering(sequence).map(Arc::clone);
    match point {
        Some(point) => query_point(device, stream, &point),
        None => query_stream(device, stream).map(|idle| idle || stream.is_done(sequence)),
    }
}

/// Waits until the stream's ticket `sequence` is done. Holds no lock meanwhile.
pub(crate) fn wait_ticket(device: &DeviceState, stream: &StreamState, sequence: u64) -> Result<()> {
    drain_frees(device);
    wait_until(&*device.driver, || poll_ticket(device, stream, sequence))
}

/// Whether all these operations are done. Never blocks.
pub(crate) fn is_over(device: &DeviceState, tickets: &[Ticket]) -> Result<bool> {
    for ticket in tickets {
        if let Some(stream) = device.stream(ticket.stream)
            && !poll_ticket(device, stream, ticket.sequence)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits until an operation that nobody was expected to wait for is done, but not for what comes later.
pub(crate) fn wait_for_ticket(device: &DeviceState, ticket: Ticket) -> Result<()> {
    prepare_wait(device, ticket)?;
    match device.stream(ticket.stream) {
        Some(stream) => wait_ticket(device, stream, ticket.sequence),
        None => Ok(()),
    }
}

/// Sees to it that waiting for an operation that nobody was expected to wait for is not waiting for what comes later.
pub(crate) fn prepare_wait(device: &DeviceState, ticket: Ticket) -> Result<()> {
    let Some(stream) = device.stream(ticket.stream) else {
        return Ok(());
    };
    let has_point = stream.shared.lock().points.covering(ticket.sequence).is_some();
    if !has_point && !query_stream(device, stream)? {
        record_point(device, stream)?;
    }
    Ok(())
}

/// Asks again and again, with growing patience, until the answer is yes.
pub(crate) fn wait_until(driver: &dyn Driver, mut is_over: impl FnMut() -> Result<bool>) -> Result<()> {
    let started_ns = driver.now_ns();
    while !is_over()? {
        match patience(driver.now_ns().saturating_sub(started_ns)) {
            None => spin_loop(),
            Some(sleep) => driver.pause(sleep),
        }
    }
    Ok(())
}

/// Whether the point's event is complete; if so, everything before it is noted as done.
pub(crate) fn query_point(device: &DeviceState, stream: &StreamState, point: &PooledEvent) -> Result<bool> {
    // SAFETY: the device owns the event, and `point` holds it so that it is not recorded anew.
    let answer = device.checked(unsafe { device.driver.event_query(device.context, point.event) })?;
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

/// Whether the stream has finished all that was submitted before this call; if so, that is noted as done.
pub(crate) fn query_stream(device: &DeviceState, stream: &StreamState) -> Result<bool> {
    let (submitted, clock) = stream.shared.lock().points.tail();
    // SAFETY: the device owns the stream.
    let answer = device.checked(unsafe { device.driver.stream_query(device.context, stream.handle) })?;
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
pub(crate) fn note_done(device: &DeviceState, clock: &Clock) {
    for ticket in clock.tickets() {
        if let Some(stream) = device.stream(ticket.stream) {
            stream.mark_done(ticket.sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_for_long_sleeps_for_a_hundredth_of_it() {
        assert_eq!(patience(0), None);
        assert_eq!(patience(SPIN_NS - 1), None);
        let sleeps = [SPIN_NS, 10_000_000, 3_600_000_000_000].map(patience);
        let expected = [SLEEP_NS_MIN, 100_000, SLEEP_NS_MAX].map(|ns| Some(Duration::from_nanos(ns)));
        assert_eq!(sleeps, expected);
    }
}
