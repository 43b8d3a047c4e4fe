//! The begin and the end of a lease: no operations, but in the order of the stream's.

use std::panic::Location;

use super::{
    settle::{after_submission, forget_done, note_submitted, record_behind_ticket},
    sync_points::{record_for_host_waiters, wait_for_tickets},
};
use crate::{
    Result,
    context::{DeviceState, StreamState, SubmitQueue, trace::TracedOperation},
    error::OperationKind,
    tracker::{Access, ConflictingLease, LeaseNumber, plan_lease, plan_lease_end},
};

/// Enters a lease that permits this access, and orders the work that the borrower is about to
/// enqueue on the stream after everything that conflicts with it. The work gets no ticket until
/// [its end](submit_locked_end) is submitted. Returns the lease, or one with which it conflicts;
/// then nothing has changed.
///
/// # Errors
///
/// If the driver refuses a call, as it does if the borrower's stream is captured. There is then no
/// lease.
pub(in crate::context) fn begin_lease(
    device: &DeviceState,
    stream: &StreamState,
    access: &Access<'_>,
    location: &'static Location<'static>,
) -> Result<Result<LeaseNumber, ConflictingLease>> {
    let mut others = None;
    let mut submit_queue = stream.submit_queue.lock();
    let (lease, mut dependencies) =
        match plan_lease(stream.id, &submit_queue.clock, access, location) {
            Ok(planned) => planned,
            Err(conflict) => return Ok(Err(conflict)),
        };
    let mut ordered = Ok(());
    if !submit_queue.host_waiters.is_empty() {
        ordered = record_for_host_waiters(device, stream, &mut submit_queue, None);
    }
    if ordered.is_ok() && !dependencies.is_empty() {
        let tickets = &mut dependencies;
        ordered = wait_for_tickets(device, stream, &mut submit_queue, tickets, &mut others);
    }
    if let Err(error) = ordered {
        access.history.end_lease(lease);
        return Err(error);
    }
    Ok(Ok(lease))
}

/// Submits the end of another library's work under a lease, with the stream's submit queue locked
/// by the caller, who has checked that the device works. The lease has then ended.
///
/// The sync point is recorded first, behind the work. An operation that conflicts finds the lease,
/// and then the end with its sync point. The end waits for nothing: the lease has refused every
/// conflict since its begin waited for all.
pub(in crate::context) fn submit_locked_end(
    device: &DeviceState,
    stream: &StreamState,
    submit_queue: &mut SubmitQueue,
    (lease, access): (LeaseNumber, &Access<'_>),
    (label, location): (&'static str, &'static Location<'static>),
) {
    let trace = device.tracer().begin(device, stream);
    let ticket = stream.ticket(submit_queue.next);
    let recorded = record_behind_ticket(device, stream, submit_queue, ticket);
    submit_queue.next = submit_queue.next.next();
    forget_done(device, submit_queue);
    plan_lease_end(lease, ticket, access, &|ticket| device.is_done(ticket));
    let (point, failure) = match recorded {
        Ok(point) => (Some(point), None),
        // Operations that conflict with the end record a sync point late. That fails, too, as long
        // as the borrower's stream is captured.
        Err(error) => (None, Some(error)),
    };
    let kind = OperationKind::Kernel;
    let what = (kind, label, location);
    let has_many_points = note_submitted(stream, submit_queue, ticket, point, what);
    after_submission(device, stream, has_many_points, failure);
    if let Some(trace) = trace {
        let record = TracedOperation {
            kind,
            label,
            location,
            bytes: 0,
            ticket,
            waits: Vec::new(),
        };
        trace.end(device, stream, record);
    }
}
