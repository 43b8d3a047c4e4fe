//! Collectives by NCCL, within one process or over several.
//!
//! Each local rank has a communicator. The operations of all local ranks are submitted as one group
//! ([`submit`]), with one group call of NCCL, so that they are ordered with all other work by
//! their arrays. NCCL requires that all ranks make the same calls in the same order: the process
//! serialises its groups, and the program must make the same calls on every rank.
//!
//! An operation never completes if another rank does not take part in it. A [watchdog](watchdog)
//! therefore looks after the operations in flight, and ends them if a communicator fails, a device
//! is lost, or a deadline passes: see [`loss`](loss).

#![allow(unsafe_code, reason = "calls NCCL with its own communicators")]

mod closing;
mod comms;
mod connect;
mod exit;
mod group;
mod in_flight;
mod journal;
mod loss;
mod store;
#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests;
mod watchdog;

use std::{fmt, sync::Arc, time::Duration};

use millstream::{
    Result,
    groups::{Failure, Member, submit},
    kernel::DriverStream,
};

use crate::{
    local_rank::LocalRank,
    operation::{Backend, CollectiveOp},
};
pub(super) use connect::{in_process, in_world};
use group::CommGroup;
use in_flight::Ending;
use watchdog::Watchdog;

/// Collectives by the communicators of the local ranks. Dropping it leaves the operations in flight
/// to the watchdog, which then ends the communicators.
pub(super) struct NcclBackend {
    group: Arc<CommGroup>,
    watchdog: Watchdog,
}

impl NcclBackend {
    /// Starts to look after the communicators of a group.
    pub(super) fn new(group: CommGroup) -> Result<Self> {
        let group = Arc::new(group);
        Ok(Self {
            watchdog: Watchdog::start(&group)?,
            group,
        })
    }
}

impl Backend for NcclBackend {
    fn name(&self) -> &'static str {
        "NCCL"
    }

    fn submit(&self, operations: &[CollectiveOp<'_>]) -> Result<()> {
        let group = &self.group;
        group.check()?;
        let (indices, members): (Vec<usize>, Vec<Member<'_>>) =
            members(&group.locals, operations).into_iter().unzip();
        // Known before the call, which may wait for other processes.
        let (mut watched, failure) = (None, Failure::new(&group.identity));
        let enqueue = |streams: &[DriverStream<'_>]| {
            let entry = group.note(operations);
            watched = Some(self.watchdog.begin(entry, &failure));
            // A loss from now on sets the failure of this collective too.
            group.check()?;
            group.enqueue(entry, operations, &indices, streams)
        };
        // SAFETY: NCCL's operations use the arrays of the operations and no other memory of the
        // program. Each part's arrays are on the device of its rank.
        let submitted = unsafe { submit(&members, &failure, enqueue) };
        if let Some(watched) = watched {
            let operations = submitted.as_ref().map(Vec::as_slice).unwrap_or_default();
            self.watchdog.submitted(watched, operations.into());
        }
        submitted.map(drop)
    }

    fn set_deadline(&self, deadline: Option<Duration>) {
        *self.group.deadline.lock() = deadline;
    }

    fn close(&self) -> Result<()> {
        self.watchdog.end(Ending::Closed);
        self.watchdog.wait_until_ended();
        self.group.check()
    }
}

impl Drop for NcclBackend {
    fn drop(&mut self) {
        self.watchdog.end(Ending::Dropped);
    }
}

/// Returns one operation for each local rank that takes part, with the index of the rank.
fn members<'a>(
    locals: &'a [LocalRank],
    operations: &[CollectiveOp<'a>],
) -> Vec<(usize, Member<'a>)> {
    let of_rank = |(index, local): (usize, &'a LocalRank)| {
        let parts = operations.iter().flat_map(|operation| &operation.parts);
        let own = parts.filter(|part| part.local == index);
        let (reads, writes): (Vec<_>, Vec<_>) = own
            .map(|part| (part.source.clone(), part.target.clone()))
            .unzip();
        let first = operations.first()?;
        let member = Member {
            stream: &local.stream,
            label: first.kind.label(),
            location: first.location,
            reads: reads.into_iter().flatten().collect(),
            writes: writes.into_iter().flatten().collect(),
        };
        let mut arrays = member.reads.iter().chain(&member.writes);
        let has_elements = arrays.any(|array| array.bytes() > 0);
        has_elements.then_some((index, member))
    };
    locals.iter().enumerate().filter_map(of_rank).collect()
}

impl fmt::Debug for NcclBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclBackend({:?})", self.group.comms.nccl)
    }
}
