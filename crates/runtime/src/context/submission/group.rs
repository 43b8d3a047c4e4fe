//! Groups: operations on several devices that are submitted as one.
//!
//! A collective library enqueues the operations of all its devices in one call, and none of them
//! completes before all have begun. The operations of a group are therefore published together, and
//! the call is made once the waits of all of them are enqueued.
//!
//! A thread that submits a group waits for several submit queues. They belong to streams on which
//! only groups are submitted, and one lock serialises all groups of the process. No thread that
//! waits for another submit queue therefore holds one of these, except for frees, which only try to
//! lock it.

#![allow(unsafe_code, reason = "hands commands to the driver")]

use std::sync::Arc;

use millstream_ptx::Label;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{DriverStream, Operation, OtherDevices, SubmitGuard, refuse_unordered};
use crate::{
    Result,
    context::{
        DeviceState, StreamState, SubmitQueue,
        crossing::{Arrival, Failure, note_group},
        imports, leases,
        recorder::Trace,
    },
    tracker::{
        Dependencies, GroupMember, Imports, LaterCollective, Plan, Sequence, plan_and_publish_group,
    },
};

/// An operation of a group, with the stream on which it runs.
pub(crate) struct GroupOperation<'a> {
    pub(crate) device: &'a Arc<DeviceState>,
    /// A stream on which only groups are submitted.
    pub(crate) stream: &'a Arc<StreamState>,
    /// The accesses are to memory of `device`, which no other operation of the group uses.
    pub(crate) operation: Operation<'a>,
}

/// Serialises the groups of the process.
static GROUPS: Mutex<()> = Mutex::new(());

/// Submits a group of operations, at most one on each stream, with one call of `enqueue`. Returns
/// their sequence numbers. If `failure` is set before the operations are known to be complete, the
/// memory that they write is poisoned.
///
/// Never waits for a device. It may wait for other threads that are submitting operations on which
/// the group depends.
///
/// # Errors
///
/// As [`submit`](super::submit), for any of the operations. If `enqueue` fails, some of them may
/// have been enqueued.
///
/// # Safety
///
/// As for [`submit`](super::submit): `enqueue` makes driver calls on the streams that it is given,
/// in the order of `members`, and these use only the memory that the operations name.
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
        leases::end_returned(label, operation.accesses.iter())?;
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
    let carried = imports::of_operands_before(&later, accesses)?;
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
    // Dropped after everything is unlocked.
    let mut others = None;
    let sequences = submit_members(settling.members, &mut others, enqueue)?;
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

/// Locks the submit queues, publishes the operations together, and enqueues them.
fn submit_members(
    members: &mut [GroupOperation<'_>],
    others: &mut OtherDevices,
    enqueue: impl FnOnce(&[DriverStream<'_>]) -> Result<()>,
) -> Result<Vec<Sequence>> {
    let _alone = GROUPS.lock();
    let mut queues: Vec<MutexGuard<'_, SubmitQueue>> = members
        .iter()
        .map(|member| member.stream.submit_queue.lock())
        .collect();
    let mut guards: Vec<SubmitGuard<'_, '_>> = members
        .iter_mut()
        .zip(&mut queues)
        .map(|(member, submit_queue)| {
            let ticket = member.stream.ticket(submit_queue.next);
            submit_queue.next = submit_queue.next.next();
            SubmitGuard {
                device: member.device,
                stream: member.stream,
                submit_queue,
                operation: &mut member.operation,
                ticket,
                plan: Plan::default(),
                settled: false,
            }
        })
        .collect();
    publish(&mut guards);
    // For the timeline: the waits of each member, and its trace.
    let traces = guards.iter().any(|guard| guard.device.admission.traces());
    let mut traced: Vec<(Dependencies, Option<Trace>)> = Vec::new();
    for guard in &mut guards {
        let mut waited_for = traces.then(Dependencies::new);
        if guard.has_to_wait() {
            guard.wait(waited_for.as_mut(), others)?;
        }
        traced.extend(waited_for.map(|waited_for| (waited_for, None)));
    }
    for (guard, (_, trace)) in guards.iter().zip(&mut traced) {
        *trace = guard.device.recorder.begin(guard.device, guard.stream);
    }
    let driver_streams: SmallVec<[DriverStream<'_>; 4]> = guards
        .iter()
        .map(|guard| guard.device.driver_stream(guard.stream))
        .collect();
    let name = guards.first().and_then(|first| {
        let Operation {
            label, location, ..
        } = *first.operation;
        first
            .device
            .is_simulated
            .then(|| Label::at(label, location))
    });
    enqueue(&driver_streams)?;
    drop(name);
    for guard in &mut guards {
        guard.plan.records_event |= guard.device.waits_exactly();
        guard.settle();
    }
    for (guard, (waited_for, trace)) in guards.iter().zip(traced) {
        if let Some(trace) = trace {
            guard.note(trace, &waited_for);
        }
    }
    Ok(guards.iter().map(|guard| guard.ticket.sequence).collect())
}

/// Publishes all operations of the group at once.
fn publish(guards: &mut [SubmitGuard<'_, '_>]) {
    let Some(device) = guards.first().map(|first| first.device) else {
        return;
    };
    let mut members: Vec<GroupMember<'_, '_>> = guards
        .iter_mut()
        .map(|guard| GroupMember {
            ticket: guard.ticket,
            clock: &guard.submit_queue.clock,
            accesses: &mut guard.operation.accesses,
            plan: &mut guard.plan,
        })
        .collect();
    plan_and_publish_group(&mut members, &|ticket| device.is_done(ticket));
}
