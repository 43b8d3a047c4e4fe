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
use smallvec::SmallVec;

use super::{DriverStream, SubmitGuard};
use crate::{
    Result,
    context::{DeviceState, Operation, StreamState, SubmitQueue, trace::StartedOperation},
    sync::ranked::{self, Ranked, RankedGuard, SUBMIT_QUEUE},
    tracker::{Dependencies, GroupMember, Plan, Sequence, plan_and_publish_group},
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
static GROUPS: Ranked<{ ranked::GROUPS }, ()> = Ranked::new(());

/// Locks the submit queues, publishes the operations together, and enqueues them.
///
/// # Safety
///
/// As for [`submit`](super::submit): `enqueue` makes driver calls on the streams that it is given,
/// in the order of `members`, and these use only the memory that the operations name.
pub(crate) unsafe fn enqueue_group(
    members: &mut [GroupOperation<'_>],
    enqueue: impl FnOnce(&[DriverStream<'_>]) -> Result<()>,
) -> Result<Vec<Sequence>> {
    let mut others = None;
    let _alone = GROUPS.lock();
    let mut queues: Vec<RankedGuard<'_, SUBMIT_QUEUE, SubmitQueue>> = members
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
    let mut traced: Vec<(Dependencies, Option<StartedOperation>)> = Vec::new();
    for guard in &mut guards {
        let mut waited_for = traces.then(Dependencies::new);
        if guard.has_to_wait() {
            guard.wait(waited_for.as_mut(), &mut others)?;
        }
        traced.extend(waited_for.map(|waited_for| (waited_for, None)));
    }
    for (guard, (_, trace)) in guards.iter().zip(&mut traced) {
        *trace = guard.device.tracer().begin(guard.device, guard.stream);
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
