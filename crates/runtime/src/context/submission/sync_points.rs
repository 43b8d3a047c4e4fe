//! Sync points: the events that are recorded behind tickets, and the waits for them.

#![allow(unsafe_code, reason = "enqueues waits and records")]

use std::sync::Arc;

use millstream_driver::{DriverError, EventHandle};
use smallvec::SmallVec;

use crate::{
    Result,
    context::{
        DeviceState, HostWaiter, PooledEvent, StreamState, SubmitQueue, polling::query_sync_point,
    },
    tracker::{Dependencies, Sequence, Ticket, VectorClock, drop_implied},
};

/// Sync points to wait for.
pub(super) type Waits = SmallVec<[PooledEvent; 4]>;

/// Records a sync point behind the stream's last ticket if someone on the host may still wait for
/// it, unless the operation at hand is one for which `next` waits and continues a chain.
#[inline]
pub(super) fn record_for_host_waiters(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    next: Option<&HostWaiter>,
) -> Result<()> {
    submit_queue
        .host_waiters
        .retain(|host_waiter| host_waiter.alive.strong_count() > 0);
    if next.is_some_and(|next| {
        submit_queue
            .host_waiters
            .iter()
            .all(|earlier| next.continues(earlier))
    }) || submit_queue.host_waiters.is_empty()
    {
        return Ok(());
    }
    let (sequence, clock) = stream.shared.lock().points.tail();
    if !stream.is_done(sequence) && stream.shared.lock().points.covering(sequence).is_none() {
        let point = acquire_and_record(device, stream, stream.ticket(sequence), &clock)?;
        insert_late(device, stream, point);
    }
    // Only now: whoever waits must still find a sync point if this one could not be recorded.
    submit_queue.host_waiters.clear();
    Ok(())
}

/// Finds a sync point for each dependency that is not done, and leaves out those that others imply.
/// What a failed submission among the dependencies had displaced becomes one of them.
#[inline]
pub(super) fn find_sync_points(
    device: &DeviceState,
    stream: &StreamState,
    dependencies: &mut Dependencies,
    waits: &mut Waits,
) -> Result<()> {
    let mut at = 0;
    while let Some(&ticket) = dependencies.get(at) {
        at += 1;
        let Some(other) = device.stream(ticket.stream) else {
            continue;
        };
        let found = {
            let mut shared = other.shared.lock();
            while shared.points.submitted() < ticket.sequence {
                other.submitted.wait(&mut shared);
            }
            // Before asking whether the ticket is done: one that failed soon is, and what it
            // displaced may not be.
            shared
                .points
                .each_displaced_until(ticket.sequence, |ticket| {
                    if ticket.stream != stream.id && !dependencies.contains(&ticket) {
                        dependencies.push(ticket);
                    }
                });
            shared.points.covering(ticket.sequence).map(Arc::clone)
        };
        if other.is_done(ticket.sequence) {
            continue;
        }
        waits.push(match found {
            Some(point) => point,
            None => record_late(device, other)?,
        });
    }
    if waits.len() > 1 {
        drop_implied(waits);
    }
    Ok(())
}

/// Puts a stream, whose submit queue the caller holds, behind these tickets, on the device.
///
/// May wait for other threads that are in the middle of submitting one of them.
pub(crate) fn order_after(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    mut tickets: Dependencies,
) -> Result<()> {
    tickets.retain(|ticket| !submit_queue.clock.covers(*ticket));
    let mut points = Waits::new();
    find_sync_points(device, stream, &mut tickets, &mut points)?;
    for point in &points {
        enqueue_wait(device, stream, point)?;
        submit_queue.join(&point.clock);
    }
    Ok(())
}

/// Records a sync point on another stream, behind all that is submitted there: the first crossing,
/// which may wait for more than it must, once.
fn record_late(device: &DeviceState, other: &StreamState) -> Result<PooledEvent> {
    let point = record_at_tail(device, other)?;
    Ok(insert_late(device, other, point))
}

/// Records an event behind all that is submitted on a stream.
pub(crate) fn record_at_tail(device: &DeviceState, stream: &StreamState) -> Result<PooledEvent> {
    let (sequence, clock) = stream.shared.lock().points.tail();
    acquire_and_record(device, stream, stream.ticket(sequence), &clock)
}

/// Enters a sync point that was recorded late. If another thread was first, its sync point will do
/// and the event is given back.
fn insert_late(device: &DeviceState, stream: &StreamState, point: PooledEvent) -> PooledEvent {
    let mut shared = stream.shared.lock();
    shared
        .points
        .record_late(point, |point| device.events.give(point))
}

/// Records a sync point behind all that is submitted on the stream, so that its completion can be
/// asked about.
pub(crate) fn record_sync_point(device: &DeviceState, stream: &StreamState) -> Result<()> {
    record_late(device, stream).map(drop)
}

/// The event of a sync point behind the stream's ticket `sequence`, which is submitted: one that is
/// there, or a new one.
pub(crate) fn sync_point_after(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<PooledEvent> {
    let known = stream
        .shared
        .lock()
        .points
        .covering(sequence)
        .map(Arc::clone);
    match known {
        Some(point) => Ok(point),
        None => record_late(device, stream),
    }
}

/// Records an event that the device owns behind all that is submitted on the stream; gives what it
/// is ordered after.
pub(crate) fn record_with_clock(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<VectorClock> {
    device.check_alive()?;
    // With the submit queue held, all tickets are submitted and the clock is the tail's.
    let submit_queue = stream.submit_queue.lock();
    record_event(device, stream, event)?;
    let mut clock = submit_queue.clock.clone();
    clock.advance(stream.ticket(submit_queue.next.previous()));
    Ok(clock)
}

/// Makes the stream's later work wait for an event that is ordered after `clock`.
pub(crate) fn wait_with_clock(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
    clock: &VectorClock,
) -> Result<()> {
    device.check_alive()?;
    let mut submit_queue = stream.submit_queue.lock();
    enqueue_wait_for(device, stream, event)?;
    submit_queue.join(clock);
    Ok(())
}

/// An event that was taken and not recorded yet. It goes back to its pool if that fails, also by a
/// panic of the driver.
struct Unrecorded<'a> {
    device: &'a DeviceState,
    event: Option<PooledEvent>,
}

impl Drop for Unrecorded<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.device.events.give(event);
        }
    }
}

/// Records a pooled event behind `ticket` of the stream, or behind later ones too. `before` is
/// ordered before the tail.
fn acquire_and_record(
    device: &DeviceState,
    stream: &StreamState,
    ticket: Ticket,
    before: &VectorClock,
) -> Result<PooledEvent> {
    let taken = device
        .events
        .take(&*device.driver, device.context, ticket, before);
    device.checked(taken.and_then(|event| record_pooled(device, stream, event)))
}

/// Records an event that was taken behind all that is on the stream.
#[inline]
pub(super) fn record_pooled(
    device: &DeviceState,
    stream: &StreamState,
    event: PooledEvent,
) -> Result<PooledEvent, DriverError> {
    let handle = event.event;
    let mut unrecorded = Unrecorded {
        device,
        event: Some(event),
    };
    enqueue_record(device, stream, handle)?;
    Ok(unrecorded.event.take().expect("it was put there above"))
}

/// Records an event that the device owns and that nobody else is recording.
pub(crate) fn record_event(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<()> {
    device.checked(enqueue_record(device, stream, event))
}

#[inline]
fn enqueue_record(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<(), DriverError> {
    // SAFETY: the device owns the event and the stream.
    unsafe {
        device
            .driver
            .event_record(device.context, event, stream.handle)
    }
}

#[inline]
pub(super) fn enqueue_wait(
    device: &DeviceState,
    stream: &StreamState,
    point: &PooledEvent,
) -> Result<()> {
    // `point` keeps the event from being recorded anew.
    enqueue_wait_for(device, stream, point.event)
}

/// Enqueues a wait for an event that the device owns.
#[inline]
fn enqueue_wait_for(device: &DeviceState, stream: &StreamState, event: EventHandle) -> Result<()> {
    // SAFETY: the device owns the stream and the event.
    device.checked(unsafe {
        device
            .driver
            .stream_wait_event(device.context, stream.handle, event)
    })
}

/// Keeps the number of sync points bounded: now and then asks about one in the middle.
#[cold]
pub(super) fn query_middle(device: &DeviceState, stream: &StreamState) {
    let middle = stream.shared.lock().points.middle().map(Arc::clone);
    let is_done =
        middle.is_some_and(|point| query_sync_point(device, stream, &point).unwrap_or(false));
    if !is_done {
        stream
            .shared
            .lock()
            .points
            .postpone_query(device.events.give_many());
    }
}
