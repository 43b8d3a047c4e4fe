//! The parts of settling a submitted operation: the sync point behind it, and the note for other
//! threads.

use std::{panic::Location, sync::Arc};

use millstream_driver::DriverError;

use super::sync_points::record_pooled;
use crate::{
    context::{DeviceState, PooledEvent, StreamState, SubmitQueue, polling::query_sync_point},
    error::OperationKind,
    tracker::Ticket,
};

/// The number of streams that a clock may list before completed tickets are removed from it.
const CLOCK_STREAMS_MAX: usize = 16;

/// Records a pooled event behind everything enqueued on the stream, as the sync point of `ticket`,
/// which is the last of the stream.
#[inline(never)]
pub(super) fn record_behind_ticket(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    ticket: Ticket,
) -> Result<PooledEvent, DriverError> {
    let event = device.events_of(stream).take_batch(
        &mut submit_queue.spares,
        &*device.driver,
        device.context,
        ticket,
        &submit_queue.clock,
    )?;
    record_pooled(device, stream, event)
}

/// Bounds the number of streams that the stream's clock lists.
#[inline(always)]
pub(super) fn forget_done(device: &DeviceState, submit_queue: &mut SubmitQueue) {
    let clock = &mut submit_queue.clock;
    if clock.len() > CLOCK_STREAMS_MAX {
        clock.forget_done(|ticket| device.is_done(ticket));
    }
}

/// Notes for other threads that a ticket is submitted, with the sync point behind it. Returns
/// whether there are so many sync points that they are worth a query.
#[inline(always)]
pub(super) fn note_submitted(
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    ticket: Ticket,
    point: Option<PooledEvent>,
    (kind, label, location): (OperationKind, &'static str, &'static Location<'static>),
) -> bool {
    let joined = std::mem::take(&mut submit_queue.joined).then_some(&submit_queue.clock);
    let mut shared = stream.shared.lock();
    shared.recent.note(ticket, kind, label, location);
    shared.points.submit(ticket.sequence, joined, point);
    let has_many_points = shared.points.are_worth_a_query();
    drop(shared);
    stream.submitted.notify_all();
    has_many_points
}

/// Handles the error of a record behind a submitted operation, and bounds the number of sync
/// points.
#[inline(always)]
pub(super) fn after_submission(
    device: &DeviceState,
    stream: &StreamState,
    has_many_points: bool,
    failure: Option<DriverError>,
) {
    // Only now: if the error says that the context is lost, the operation is already among the
    // suspects.
    if let Some(error) = failure {
        device.record_failure(error);
    }
    if has_many_points {
        query_middle(device, stream);
    }
}

/// Bounds the number of sync points: polls one in the middle, and retires those that are complete.
#[cold]
fn query_middle(device: &DeviceState, stream: &StreamState) {
    let middle = stream.shared.lock().points.middle().map(Arc::clone);
    let is_done =
        middle.is_some_and(|point| query_sync_point(device, stream, &point).unwrap_or(false));
    if !is_done {
        stream
            .shared
            .lock()
            .points
            .postpone_query(device.waits_exactly(), device.events_of(stream).give_many());
    }
}
