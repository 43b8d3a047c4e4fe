//! Sync points: records events behind tickets and enqueues waits for them.

#![allow(unsafe_code, reason = "enqueues waits and records")]

use std::{ops::Deref, ptr, slice, sync::Arc};

use millstream_driver::{DriverError, EventHandle};
use smallvec::SmallVec;

use super::owner::{record_on_owners_stream, refused};
use crate::{
    Error, Result,
    context::{
        DeviceState, EventPool, HostWaiter, PooledEvent, StreamState, SubmitQueue,
        polling::query_stream,
        realm::{self, Visit},
    },
    tracker::{Dependencies, Sequence, Ticket, VectorClock, drop_implied},
};

/// Sync points to wait for: usually one, which needs no list.
pub(super) enum Waits {
    None,
    One(PooledEvent),
    Several(SmallVec<[PooledEvent; 8]>),
}

impl Deref for Waits {
    type Target = [PooledEvent];

    #[inline]
    fn deref(&self) -> &[PooledEvent] {
        match self {
            Self::None => &[],
            Self::One(point) => slice::from_ref(point),
            Self::Several(points) => points,
        }
    }
}

/// The other devices whose sync points are waited for, which stay open meanwhile.
pub(super) type OtherDevices = Option<SmallVec<[Visit; 1]>>;

/// Records a sync point behind the stream's last ticket if the host may still wait for it. Records
/// nothing if `next`, the next operation's waiter, continues the chain of all earlier ones.
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
    // Only now: if recording fails, the next submission must try again.
    submit_queue.host_waiters.clear();
    Ok(())
}

/// Finds a sync point for each incomplete dependency, and omits those that others imply. Tickets
/// that a failed submission among the dependencies had displaced become dependencies too.
///
/// A dependency on a device that is lost needs no wait: nothing runs there any more. The devices of
/// the others are added to `others`.
#[inline(always)]
pub(super) fn find_sync_points(
    device: &DeviceState,
    stream: &StreamState,
    dependencies: &mut Dependencies,
    others: &mut OtherDevices,
) -> Result<Waits> {
    if let [ticket] = dependencies[..]
        && let Some(other) = device.stream(ticket.stream)
    {
        let covering = find_covering(stream, other, ticket, dependencies);
        if dependencies.len() == 1 {
            return Ok(match covering {
                Covering::Done => Waits::None,
                Covering::Point(point) => Waits::One(point),
                Covering::None => Waits::One(record_late(device, other)?),
            });
        }
    }
    find_several(device, stream, dependencies, others).map(Waits::Several)
}

/// Finds sync points for several dependencies, as [`find_sync_points`].
#[inline(never)]
fn find_several(
    device: &DeviceState,
    stream: &StreamState,
    dependencies: &mut Dependencies,
    others: &mut OtherDevices,
) -> Result<SmallVec<[PooledEvent; 8]>> {
    let mut waits = SmallVec::new();
    let mut at = 0;
    while let Some(&ticket) = dependencies.get(at) {
        at += 1;
        let Some(other) = device.stream(ticket.stream) else {
            waits.extend(find_elsewhere(stream, ticket, dependencies, others)?);
            continue;
        };
        match find_covering(stream, other, ticket, dependencies) {
            Covering::Done => {}
            Covering::Point(point) => waits.push(point),
            Covering::None => waits.push(record_late(device, other)?),
        }
    }
    if waits.len() > 1 {
        drop_implied(&mut waits, device.number());
    }
    Ok(waits)
}

/// The result of looking for a sync point behind a ticket.
enum Covering {
    /// The ticket is complete.
    Done,
    Point(PooledEvent),
    /// There is no sync point yet.
    None,
}

/// Waits until the ticket of the stream `other` is submitted, and looks for a sync point behind it.
/// Tickets that a failed submission had displaced are added to the dependencies.
#[inline(always)]
fn find_covering(
    stream: &StreamState,
    other: &StreamState,
    ticket: Ticket,
    dependencies: &mut Dependencies,
) -> Covering {
    let point = {
        let mut shared = other.shared.lock();
        while shared.points.submitted() < ticket.sequence {
            other.submitted.wait(shared.for_condition());
        }
        // Before the check for completion: a failed ticket may be complete while the tickets that
        // it displaced are not.
        shared.points.each_displaced_by(ticket.sequence, |ticket| {
            if ticket.stream != stream.id && !dependencies.contains(&ticket) {
                dependencies.push(ticket);
            }
        });
        shared.points.covering(ticket.sequence).map(Arc::clone)
    };
    if other.is_done(ticket.sequence) {
        return Covering::Done;
    }
    point.map_or(Covering::None, Covering::Point)
}

/// Finds a sync point for a ticket of another device, which is added to `others`. Returns `None` if
/// no wait is needed.
#[cold]
#[inline(never)]
fn find_elsewhere(
    stream: &StreamState,
    ticket: Ticket,
    dependencies: &mut Dependencies,
    others: &mut OtherDevices,
) -> Result<Option<PooledEvent>> {
    let Some(owner_stream) = realm::find(ticket.stream) else {
        return Ok(None);
    };
    let others = others.get_or_insert_default();
    others.push(owner_stream.device);
    let owner = others.last().expect("pushed above");
    match find_covering(stream, &owner_stream.stream, ticket, dependencies) {
        Covering::Done => Ok(None),
        Covering::Point(point) => Ok(Some(point)),
        Covering::None => match record_late(owner, &owner_stream.stream) {
            Err(_) if owner.lost().is_some() => Ok(None),
            point => point.map(Some),
        },
    }
}

/// Orders a stream after these tickets, on the device. The caller holds its submit queue.
///
/// May wait for other threads that are submitting one of them.
pub(crate) fn order_after(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    mut tickets: Dependencies,
) -> Result<()> {
    tickets.retain(|ticket| !submit_queue.clock.covers(*ticket));
    let mut others = None;
    wait_for_tickets(device, stream, submit_queue, &mut tickets, &mut others)
}

/// Makes the stream wait for these tickets, which its clock does not cover. Adds their devices to
/// `others`, and the tickets that failed submissions among them had displaced to `tickets`.
#[inline(always)]
pub(super) fn wait_for_tickets(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    tickets: &mut Dependencies,
    others: &mut OtherDevices,
) -> Result<()> {
    let waits = find_sync_points(device, stream, tickets, others)?;
    for point in &*waits {
        wait_for_point(device, stream, submit_queue, point, others)?;
    }
    Ok(())
}

/// Records a sync point late, at the tail of another stream: at the first dependency between two
/// streams. The wait may therefore include later work, once.
fn record_late(device: &DeviceState, other: &StreamState) -> Result<PooledEvent> {
    let point = record_at_tail(device, other)?;
    Ok(insert_late(device, other, point))
}

/// Records an event behind everything submitted to a stream.
pub(crate) fn record_at_tail(device: &DeviceState, stream: &StreamState) -> Result<PooledEvent> {
    let (sequence, clock) = stream.shared.lock().points.tail();
    acquire_and_record(device, stream, stream.ticket(sequence), &clock)
}

/// Adds a sync point that was recorded late. If another thread was faster, its sync point is
/// returned and this event goes back to the pool.
fn insert_late(device: &DeviceState, stream: &StreamState, point: PooledEvent) -> PooledEvent {
    let mut shared = stream.shared.lock();
    shared
        .points
        .record_late(point, |point| device.events_of(stream).give(point))
}

/// Records a sync point behind everything submitted to the stream, so that its completion can be
/// polled.
pub(crate) fn record_sync_point(device: &DeviceState, stream: &StreamState) -> Result<()> {
    record_late(device, stream).map(drop)
}

/// Returns a sync point behind the stream's submitted ticket `sequence`: an existing one, or a new
/// one.
pub(crate) fn sync_point_after(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<PooledEvent> {
    let point = stream.covering(sequence);
    match point {
        Some(point) => Ok(point),
        None => record_late(device, stream),
    }
}

/// Records an event of the device behind everything submitted to the stream. Returns the event's
/// vector clock.
pub(crate) fn record_with_clock(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<VectorClock> {
    device.check_alive()?;
    // With the submit queue locked, all reserved tickets are submitted and the clock is the tail's.
    let submit_queue = stream.submit_queue.lock();
    record_event(device, stream, event)?;
    let mut clock = submit_queue.clock.clone();
    clock.advance(stream.ticket(submit_queue.next.previous()));
    Ok(clock)
}

/// Makes the stream's later work wait for an event of `owner`, this device or another, whose vector
/// clock is `clock`.
///
/// # Errors
///
/// If either device is lost.
pub(crate) fn wait_with_clock(
    device: &DeviceState,
    stream: &StreamState,
    owner: &DeviceState,
    event: EventHandle,
    clock: &VectorClock,
) -> Result<()> {
    device.check_alive()?;
    owner.check_alive()?;
    let mut submit_queue = stream.submit_queue.lock();
    enqueue_wait_for(device, stream, owner, event)?;
    if ptr::eq(device, owner) {
        submit_queue.join(clock);
    } else {
        submit_queue.join_device(clock, owner.number());
    }
    Ok(())
}

/// Orders the later work of a stream after all work that is submitted to another, `earlier`, of the
/// same device or another.
///
/// # Errors
///
/// If either device is lost.
pub(crate) fn follow(
    (device, stream): (&DeviceState, &StreamState),
    (owner, earlier): (&DeviceState, &StreamState),
) -> Result<()> {
    // The event carries no ticket, because it is not a sync point of a stream.
    let (nothing, before) = (earlier.ticket(Sequence::START), VectorClock::default());
    let pool = owner.events_of(earlier);
    let event = pool.take(&*owner.driver, owner.context, nothing, &before);
    let lent = PooledEventGuard {
        pool,
        event: Some(owner.checked(event)?),
    };
    let Some(event) = lent.event.as_ref().map(|event| event.event) else {
        unreachable!("the guard has its event until it is dropped");
    };
    let clock = record_with_clock(owner, earlier, event)?;
    // An enqueued wait keeps waiting for the record that it saw (rule 23), so the event may be
    // recorded again afterwards.
    wait_with_clock(device, stream, owner, event, &clock)
}

struct PooledEventGuard<'a> {
    pool: &'a EventPool,
    event: Option<PooledEvent>,
}

impl Drop for PooledEventGuard<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.pool.give(event);
        }
    }
}

/// Records a pooled event at the stream's tail, which is at or behind `ticket`. `before` is the
/// clock of the tail.
fn acquire_and_record(
    device: &DeviceState,
    stream: &StreamState,
    ticket: Ticket,
    before: &VectorClock,
) -> Result<PooledEvent> {
    let (driver, pool) = (&*device.driver, device.events_of(stream));
    let event = pool.take(driver, device.context, ticket, before);
    let recorded = event.and_then(|event| record_pooled(device, stream, event));
    recorded.map_err(|error| refused(device, stream, error))
}

/// Records a pooled event behind everything enqueued on the stream.
#[inline]
pub(super) fn record_pooled(
    device: &DeviceState,
    stream: &StreamState,
    event: PooledEvent,
) -> Result<PooledEvent, DriverError> {
    let handle = event.event;
    let mut unrecorded = PooledEventGuard {
        pool: device.events_of(stream),
        event: Some(event),
    };
    enqueue_record(device, stream, handle)?;
    Ok(unrecorded.event.take().expect("the event was stored above"))
}

/// Records an event of the device that no other thread is recording.
pub(crate) fn record_event(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<()> {
    enqueue_record(device, stream, event).map_err(|error| refused(device, stream, error))
}

#[inline]
fn enqueue_record(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<(), DriverError> {
    if !stream.is_own() {
        return record_on_owners_stream(device, stream, event);
    }
    let (driver, context) = (&device.driver, device.context);
    // SAFETY: the device owns the event and the stream.
    unsafe { driver.event_record(context, event, stream.handle) }
}

/// Makes the stream wait for a sync point of this device or one of `others`, and adds its clock to
/// the stream's. Returns `false` if that device is lost, so that there is nothing to wait for.
#[inline(always)]
pub(super) fn wait_for_point(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    point: &PooledEvent,
    others: &OtherDevices,
) -> Result<bool> {
    // The reference `point` prevents the event from being recorded again.
    if point.ticket.stream.device() != device.number() {
        return wait_elsewhere(device, stream, submit_queue, point, others);
    }
    enqueue_wait_for(device, stream, device, point.event)?;
    submit_queue.join(&point.clock);
    Ok(true)
}

#[cold]
#[inline(never)]
fn wait_elsewhere(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    point: &PooledEvent,
    others: &OtherDevices,
) -> Result<bool> {
    let number = point.ticket.stream.device();
    let mut others = others.iter().flatten();
    let Some(owner) = others.find(|other| other.number() == number) else {
        unreachable!("the owner of each sync point of another device is kept");
    };
    match enqueue_wait_for(device, stream, owner, point.event) {
        Err(_) if owner.lost().is_some() => Ok(false),
        Err(error) => Err(error),
        Ok(()) => {
            submit_queue.join_device(&point.clock, number);
            Ok(true)
        }
    }
}

#[inline]
fn enqueue_wait_for(
    device: &DeviceState,
    stream: &StreamState,
    owner: &DeviceState,
    event: EventHandle,
) -> Result<()> {
    // SAFETY: `device` owns the stream, and `owner` the event (rule 26: a stream may wait for an
    // event of another device).
    let result = unsafe {
        device
            .driver
            .stream_wait_event(device.context, stream.handle, event)
    };
    result.map_err(|error| wait_failure(device, stream, owner, error))
}

/// Converts the error of a wait. The loss of a context may be that of either device.
#[cold]
fn wait_failure(
    device: &DeviceState,
    stream: &StreamState,
    owner: &DeviceState,
    error: DriverError,
) -> Error {
    if ptr::eq(device, owner) || !error.code().is_sticky() {
        return refused(device, stream, error);
    }
    match query_stream(device, stream) {
        Err(lost) if device.lost().is_some() => lost,
        _ => owner.record_failure(error),
    }
}
