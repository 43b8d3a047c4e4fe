//! Refuses operations that cannot be ordered at the moment, before they have a ticket.
//!
//! An operation on lent memory is an error, and so is one that must wait for work of a stream which
//! its owner captures. Once a ticket is published, it has displaced others, and what would remain
//! of a refused operation could make later ones wait, or refuse them too. Operations are therefore
//! examined before, if other libraries use memory or streams of their devices.
//!
//! [`SubmitGuard::wait`](super::SubmitGuard::wait) decides: memory may be lent after this was
//! asked.

use super::{
    owner::AtCaller,
    sync_points::{OtherDevices, find_sync_points},
};
use crate::{
    Result,
    context::{DeviceState, Operation, StreamState, lease_conflicts::lent_error},
    tracker::{Plan, plan_unpublished},
};

/// Returns an error if the operation cannot be ordered at the moment. Records the sync points that
/// it needs and that are not recorded yet.
///
/// # Errors
///
/// If an operand is lent to another library, or if the driver refuses to record, as it does on a
/// captured stream.
#[cold]
#[inline(never)]
pub(crate) fn refuse_unordered(
    device: &DeviceState,
    stream: &StreamState,
    operation: &mut Operation<'_>,
) -> Result<()> {
    let mut others: OtherDevices = None;
    // Locked meanwhile: the clock covers only sync points for which the stream waits.
    let submit_queue = stream.submit_queue.lock();
    let mut plan = plan_unpublished(stream.id, &submit_queue.clock, &mut operation.accesses);
    refuse_lent(&plan, operation)?;
    let waits = find_sync_points(device, stream, &mut plan.dependencies, &mut others);
    let (label, location) = (operation.label, operation.location);
    waits.map(drop).at_caller(label, location)
}

/// Returns an error if an operand is lent.
#[inline]
pub(super) fn refuse_lent(plan: &Plan, operation: &Operation<'_>) -> Result<()> {
    match plan.lent {
        None => Ok(()),
        Some(since) => Err(lent_error(operation.label, operation.location, since)),
    }
}
