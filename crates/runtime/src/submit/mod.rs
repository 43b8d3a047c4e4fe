//! Submission: the only place that enqueues work.
//!
//! One operation goes through these steps: take the stream's lane, reserve a ticket, plan and publish, find a point for
//! each dependency, make the waits that no other implies, make the operation's own driver calls, record a point behind
//! it if others will want one, and note it as submitted. The lane is held throughout, so that tickets and queue agree;
//! ledgers are held only while planning. See [`crate::tracker`] for why this is enough.

#![allow(
    unsafe_code,
    reason = "enqueues waits and records, and hands commands to the driver"
)]

mod commands;
mod free;
#[cfg(all(test, shuttle))]
mod interleavings;
mod rows;

use std::{panic::Location, sync::Arc};

use millstream_driver::{DriverError, EventHandle};
use millstream_sim::race::Label;
use smallvec::SmallVec;

pub use commands::Queue;
pub(crate) use commands::{
    Allocate, Behind, Command, Fill, Foreign, Launch, Prefetch, Repeat, StagedUpload, ToDevice, ToHost,
    WithinDevice,
};
pub(crate) use free::{Freed, drain_frees, free_unused, release};
pub(crate) use rows::{Move, RepeatRow, Rows};

use crate::{
    Result,
    completion::query_point,
    device::{Awaited, DeviceState, Lane, PooledEvent, StreamState},
    timeline::{Kind, Note, Trace},
    tracker::{
        Accesses, Clock, Dependencies, Plan, Ticket, drop_implied, plan_and_publish, restore_displaced,
    },
};

/// How many streams a clock may list before those that are done are dropped from it.
const CLOCK_STREAMS_MAX: usize = 16;

/// Points to wait for.
type Waits = SmallVec<[PooledEvent; 4]>;

/// What is submitted besides the command: its operands, and what people will want to know of it.
pub(crate) struct Operation<'a> {
    pub(crate) kind: Kind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) accesses: Accesses<'a>,
    /// Who on the host may come to wait for this very operation.
    pub(crate) awaited: Option<Awaited>,
}

/// Submits an operation to a stream and returns its ticket's number there with what the driver answered.
///
/// Never blocks on the device. It may wait for other threads that are in the middle of submitting what this operation
/// depends on.
///
/// # Errors
///
/// On any error, and on a panic of the driver, the ticket counts as submitted, and no later operation loses a dependency
/// by it. It may still stand for work: a call that failed may have enqueued something first. So what the command names
/// stays in use until the ticket is done.
///
/// # Safety
///
/// The contract of [`Command::enqueue`], except for the order: the operation's accesses name all that the command
/// touches, and what they name stays allocated until it is freed through [`release`] or returned with its ticket.
pub(crate) unsafe fn submit<C: Command>(
    device: &DeviceState,
    stream: &StreamState,
    mut operation: Operation<'_>,
    command: C,
) -> Result<(u64, C::Output)> {
    // SAFETY: this function's contract.
    unsafe { submit_in_place(device, stream, &mut operation, command) }
}

/// The same for an operation that is not worth moving.
///
/// # Safety
///
/// As for [`submit`].
#[inline(always)]
pub(crate) unsafe fn submit_in_place<C: Command>(
    device: &DeviceState,
    stream: &StreamState,
    operation: &mut Operation<'_>,
    command: C,
) -> Result<(u64, C::Output)> {
    device.check_alive()?;
    drain_frees(device);
    let mut lane = stream.lane.lock();
    let ticket = stream.ticket(lane.next);
    lane.next += 1;
    let mut publication = Publication {
        device,
        stream,
        lane: &mut lane,
        operation,
        ticket,
        plan: Plan::default(),
        settled: false,
    };
    publication.publish();
    let mut waited_for = Dependencies::new();
    if publication.has_to_wait() {
        publication.wait(&mut waited_for)?;
    }
    let trace = device.timeline.begin(device, stream);
    let queue = Queue {
        driver: &*device.driver,
        context: device.context,
        stream: stream.handle,
    };
    // What the simulated device's race checker is to call the operation.
    let name = device
        .is_simulated
        .then(|| Label::at(publication.operation.label, publication.operation.location));
    // SAFETY: the device keeps context and stream alive; the rest is this function's contract, and the order is what
    // the waits above have seen to.
    let output = device.checked(unsafe { command.enqueue(queue) })?;
    drop(name);
    publication.settle();
    if let Some(trace) = trace {
        publication.note(trace, &waited_for);
    }
    Ok((ticket.sequence, output))
}

/// A published ticket on its way to being submitted. Dropped before it is settled, it settles as a failure.
struct Publication<'a, 'op> {
    device: &'a DeviceState,
    stream: &'a StreamState,
    lane: &'a mut Lane,
    operation: &'a mut Operation<'op>,
    ticket: Ticket,
    plan: Plan,
    settled: bool,
}

impl Publication<'_, '_> {
    /// Plans and publishes the operation.
    #[inline(always)]
    fn publish(&mut self) {
        let (device, accesses) = (self.device, &mut self.operation.accesses);
        let is_done = |ticket| device.is_done(ticket);
        plan_and_publish(self.ticket, &self.lane.clock, accesses, &is_done, &mut self.plan);
    }

    /// Whether something must be enqueued in front of the operation: waits, or a point for someone on the host.
    #[inline]
    fn has_to_wait(&self) -> bool {
        !self.plan.dependencies.is_empty() || !self.lane.awaited.is_empty()
    }

    /// Enqueues that, and says what is waited for.
    #[inline(never)]
    fn wait(&mut self, waited_for: &mut Dependencies) -> Result<()> {
        let Self { device, stream, .. } = *self;
        let mut waits = Waits::new();
        find_points(device, stream, &mut self.plan.dependencies, &mut waits)?;
        if !self.lane.awaited.is_empty() {
            let next = self.operation.awaited.as_ref().filter(|_| waits.is_empty());
            record_if_awaited(device, stream, self.lane, next)?;
        }
        for point in &waits {
            enqueue_wait(device, stream, point)?;
            self.lane.join(&point.clock);
            waited_for.push(point.ticket);
        }
        Ok(())
    }

    /// Ends the operation's entry in the timeline.
    #[cold]
    fn note(&self, trace: Trace, waited_for: &[Ticket]) {
        let Operation {
            kind,
            label,
            location,
            bytes,
            ..
        } = *self.operation;
        trace.end(
            self.device,
            self.stream,
            Note {
                kind,
                label,
                location,
                bytes,
                ticket: self.ticket,
                waits: waited_for.to_vec(),
            },
        );
    }

    /// The operation is enqueued: records a point behind it, if others will want one, and notes the ticket as submitted.
    #[inline(always)]
    fn settle(&mut self) {
        let Self { device, stream, .. } = *self;
        // Without a point, whoever needs one records it late, so a failure here loses nothing.
        let mut failure = None;
        let point = if self.plan.awaited {
            let lane = &mut *self.lane;
            let taken = device.events.take_ahead(
                &mut lane.spares,
                &*device.driver,
                device.context,
                self.ticket,
                &lane.clock,
            );
            let recorded = taken.and_then(|event| record_taken(device, stream, event));
            recorded.map_err(|error| failure = Some(error)).ok()
        } else {
            None
        };
        let lane = &mut *self.lane;
        if lane.clock.len() > CLOCK_STREAMS_MAX {
            lane.clock.forget_done(|ticket| device.is_done(ticket));
        }
        if let Some(awaited) = self.operation.awaited.take() {
            lane.note_awaited(awaited);
        }
        let joined = std::mem::take(&mut lane.joined).then_some(&lane.clock);
        self.settled = true;
        let Operation {
            kind,
            label,
            location,
            ..
        } = *self.operation;
        let mut shared = stream.shared.lock();
        shared.recent.note(self.ticket, kind, label, location);
        shared.points.submit(self.ticket.sequence, joined, point);
        let has_many_points = shared.points.are_worth_a_query();
        drop(shared);
        stream.submitted.notify_all();
        // If it tells that the context is lost, this operation is among the suspects by now.
        if let Some(error) = failure {
            device.noted(error);
        }
        if has_many_points {
            ask_about_middle(device, stream);
        }
    }

    #[cold]
    fn fail(&mut self) {
        let device = self.device;
        restore_displaced(&mut self.operation.accesses, &self.plan.dependencies);
        let displaced = std::mem::take(&mut self.plan.dependencies);
        self.stream
            .shared
            .lock()
            .points
            .fail(self.ticket.sequence, displaced, &|ticket| device.is_done(ticket));
        self.stream.submitted.notify_all();
    }
}

impl Drop for Publication<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.settled {
            self.fail();
        }
    }
}

/// Records a point behind the stream's last ticket if someone on the host may still wait for it, unless the operation at
/// hand is one for which `next` waits and continues a chain.
fn record_if_awaited(
    device: &DeviceState,
    stream: &StreamState,
    lane: &mut Lane,
    next: Option<&Awaited>,
) -> Result<()> {
    lane.awaited.retain(|awaited| awaited.alive.strong_count() > 0);
    if next.is_some_and(|next| lane.awaited.iter().all(|earlier| next.continues(earlier)))
        || lane.awaited.is_empty()
    {
        return Ok(());
    }
    let (sequence, clock) = stream.shared.lock().points.tail();
    if !stream.is_done(sequence) && stream.shared.lock().points.covering(sequence).is_none() {
        let point = take_and_record(device, stream, stream.ticket(sequence), &clock)?;
        enter_late(device, stream, point);
    }
    // Only now: whoever waits must still find a point if this one could not be recorded.
    lane.awaited.clear();
    Ok(())
}

/// Finds a point for each dependency that is not done, and leaves out those that others imply. What a failed submission
/// among the dependencies had displaced becomes one of them.
fn find_points(
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
            // Before asking whether the ticket is done: one that failed soon is, and what it displaced may not be.
            shared.points.each_displaced_until(ticket.sequence, |ticket| {
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

/// Records a point on another stream, behind all that is submitted there: the first crossing, which may wait for more
/// than it must, once.
fn record_late(device: &DeviceState, other: &StreamState) -> Result<PooledEvent> {
    let point = record_at_tail(device, other)?;
    Ok(enter_late(device, other, point))
}

/// Records an event behind all that is submitted on a stream.
pub(crate) fn record_at_tail(device: &DeviceState, stream: &StreamState) -> Result<PooledEvent> {
    let (sequence, clock) = stream.shared.lock().points.tail();
    take_and_record(device, stream, stream.ticket(sequence), &clock)
}

/// Enters a point that was recorded late. If another thread was first, its point will do and the event is given back.
fn enter_late(device: &DeviceState, stream: &StreamState, point: PooledEvent) -> PooledEvent {
    let mut shared = stream.shared.lock();
    shared
        .points
        .record_late(point, |point| device.events.give(point))
}

/// Records a point behind all that is submitted on the stream, so that its completion can be asked about.
pub(crate) fn record_point(device: &DeviceState, stream: &StreamState) -> Result<()> {
    record_late(device, stream).map(drop)
}

/// The event of a point behind the stream's ticket `sequence`, which is submitted: one that is there, or a new one.
pub(crate) fn point_behind(device: &DeviceState, stream: &StreamState, sequence: u64) -> Result<PooledEvent> {
    let known = stream.shared.lock().points.covering(sequence).map(Arc::clone);
    match known {
        Some(point) => Ok(point),
        None => record_late(device, stream),
    }
}

/// Records an event that the device owns behind all that is submitted on the stream; gives what it is ordered after.
pub(crate) fn mark(device: &DeviceState, stream: &StreamState, event: EventHandle) -> Result<Clock> {
    device.check_alive()?;
    // With the lane held, all tickets are submitted and the clock is the tail's.
    let lane = stream.lane.lock();
    record_event(device, stream, event)?;
    let mut clock = lane.clock.clone();
    clock.advance(stream.ticket(lane.next - 1));
    Ok(clock)
}

/// Makes the stream's later work wait for an event that is ordered after `clock`.
pub(crate) fn wait_for_mark(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
    clock: &Clock,
) -> Result<()> {
    device.check_alive()?;
    let mut lane = stream.lane.lock();
    enqueue_wait_for(device, stream, event)?;
    lane.join(clock);
    Ok(())
}

/// An event that was taken and not recorded yet. It goes back to its pool if that fails, also by a panic of the driver.
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

/// Records a pooled event behind `ticket` of the stream, or behind later ones too. `before` is ordered before the tail.
fn take_and_record(
    device: &DeviceState,
    stream: &StreamState,
    ticket: Ticket,
    before: &Clock,
) -> Result<PooledEvent> {
    let taken = device
        .events
        .take(&*device.driver, device.context, ticket, before);
    device.checked(taken.and_then(|event| record_taken(device, stream, event)))
}

/// Records an event that was taken behind all that is on the stream.
fn record_taken(
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
pub(crate) fn record_event(device: &DeviceState, stream: &StreamState, event: EventHandle) -> Result<()> {
    device.checked(enqueue_record(device, stream, event))
}

fn enqueue_record(device: &DeviceState, stream: &StreamState, event: EventHandle) -> Result<(), DriverError> {
    // SAFETY: the device owns the event and the stream.
    unsafe { device.driver.event_record(device.context, event, stream.handle) }
}

fn enqueue_wait(device: &DeviceState, stream: &StreamState, point: &PooledEvent) -> Result<()> {
    // `point` keeps the event from being recorded anew.
    enqueue_wait_for(device, stream, point.event)
}

/// Enqueues a wait for an event that the device owns.
fn enqueue_wait_for(device: &DeviceState, stream: &StreamState, event: EventHandle) -> Result<()> {
    // SAFETY: the device owns the stream and the event.
    device.checked(unsafe {
        device
            .driver
            .stream_wait_event(device.context, stream.handle, event)
    })
}

/// Keeps the number of points bounded: now and then asks about one in the middle.
#[cold]
fn ask_about_middle(device: &DeviceState, stream: &StreamState) {
    let middle = stream.shared.lock().points.middle().map(Arc::clone);
    let is_done = middle.is_some_and(|point| query_point(device, stream, &point).unwrap_or(false));
    if !is_done {
        stream
            .shared
            .lock()
            .points
            .postpone_query(device.events.give_many());
    }
}
