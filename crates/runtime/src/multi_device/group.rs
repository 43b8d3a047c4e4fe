//! Groups: operations on several devices that are submitted as one.

#![allow(unsafe_code, reason = "hands the calls of a group to the driver")]

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    arrival::{Arrival, note_group},
    verdict::Failure,
};
use crate::{
    Result,
    context::{
        DeviceState, DriverStream, GroupOperation, end_returned_leases, enqueue_group, imports,
        refuse_unordered,
    },
    tracker::{Imports, LaterCollective, Sequence},
};

/// Submits a group of operations, at most one on each stream, with one call of `enqueue`. Returns
/// their sequence numbers. If `failure` is set before the operations are known to be complete, the
/// memory that they write is poisoned.
///
/// Never waits for a device. It may wait for other threads that are submitting operations on which
/// the group depends.
///
/// # Errors
///
/// As [`submit`], for any of the operations. If `enqueue` fails, some of them may have been
/// enqueued.
///
/// # Safety
///
/// As for [`submit`]: `enqueue` makes driver calls on the streams that it is given, in the order of
/// `members`, and these use only the memory that the operations name.
///
/// [`submit`]: crate::context::submit
pub(crate) unsafe fn submit_group<'a>(
    members: &mut [GroupOperation<'a>],
    failure: &Failure,
    enqueue: impl FnOnce(&[DriverStream<'_>]) -> Result<()>,
) -> Result<Vec<Sequence>> {
    for GroupOperation {
        device,
        stream,
        operation,
    } in &mut *members
    {
        device.check_alive()?;
        let label = (operation.label, operation.location);
        end_returned_leases(label, operation.accesses.iter())?;
        if device.admission.has_borrowers() {
            refuse_unordered(device, stream, operation)?;
        }
    }
    let later = LaterCollective {
        group: failure.group(),
        streams: members.iter().map(|member| member.stream.id).collect(),
        devices: members
            .iter()
            .map(|member| member.device.number())
            .collect(),
    };
    let accesses = members
        .iter()
        .flat_map(|member| member.operation.accesses.iter());
    let carried = imports::unsettled_imports_before(&later, accesses)?;
    imports::reach(&carried, later.devices.iter().copied());
    for GroupOperation {
        device, operation, ..
    } in &*members
    {
        imports::note(operation.kind, &carried, operation.accesses.iter(), false);
        device.run_deferred();
    }
    let mut settling = Settling {
        members,
        carried,
        failure,
        sequences: None,
    };
    // SAFETY: by this function's contract.
    let sequences = unsafe { enqueue_group(settling.members, enqueue) }?;
    settling.sequences = Some(sequences.clone());
    Ok(sequences)
}

/// A group that is being submitted. Its drop notes the imports and watches the operations, also
/// after an error or a panic: they may have been enqueued nevertheless.
struct Settling<'s, 'a> {
    members: &'s mut [GroupOperation<'a>],
    carried: Imports,
    failure: &'s Failure,
    /// Set if the submission succeeded.
    sequences: Option<Vec<Sequence>>,
}

impl Drop for Settling<'_, '_> {
    fn drop(&mut self) {
        // The devices of each member, with its own first.
        let devices: SmallVec<[SmallVec<[&Arc<DeviceState>; 4]>; 4]> = (0..self.members.len())
            .map(|at| {
                let mut devices: SmallVec<[_; 4]> =
                    self.members.iter().map(|member| member.device).collect();
                devices.swap(0, at);
                devices
            })
            .collect();
        let members = self.members.iter().enumerate();
        let arrivals = members.map(|(at, member)| {
            let GroupOperation {
                stream, operation, ..
            } = member;
            let sequence = match &self.sequences {
                Some(sequences) => sequences[at],
                None => stream.shared.lock().points.submitted(),
            };
            let arrival = Arrival {
                kind: operation.kind,
                label: operation.label,
                location: operation.location,
                devices: &devices[at],
                stream,
                sequence,
                failure: Some(self.failure),
                submitted: self.sequences.is_some(),
            };
            (arrival, &operation.accesses)
        });
        let arrivals: SmallVec<[_; 4]> = arrivals.collect();
        note_group(&arrivals, std::mem::take(&mut self.carried));
    }
}
