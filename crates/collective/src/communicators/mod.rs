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
mod journal;
mod loss;
#[cfg(all(test, feature = "sim", not(shuttle)))]
mod tests;
mod watchdog;

use std::{
    fmt,
    panic::Location,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use comms::{Comms, Gone};
pub(super) use connect::{in_process, in_world};
use journal::{Entry, Journal, entry_of};
use loss::SharedStore;
use watchdog::{Ending, Watchdog};

use millstream::{
    Error, Result,
    groups::{Failure, Group, Member, submit},
    kernel::DriverStream,
};

use crate::{
    Reduce,
    local_rank::LocalRank,
    nccl::{CommHandle, CommState, NcclCode, NcclError, Operation, OperationType},
    operation::{Backend, CollectiveKind, CollectiveOp, Part},
};

/// The pause between two looks at a communicator that is enqueuing an operation, after the first
/// ones.
const ENQUEUE_PAUSE: Duration = Duration::from_micros(20);
/// The number of looks without a pause.
const ENQUEUE_SPINS: u32 = 10_000;

/// Collectives by the communicators of the local ranks. Dropping it leaves the operations in flight
/// to the watchdog, which then ends the communicators.
pub(super) struct NcclBackend {
    group: Arc<CommGroup>,
    watchdog: Watchdog,
}

/// The state that submission and watchdog share.
struct CommGroup {
    comms: Comms,
    locals: Arc<[LocalRank]>,
    /// The number of ranks of all processes.
    ranks: usize,
    /// The source line that created the group.
    location: &'static Location<'static>,
    /// Set when the group is lost.
    failure: OnceLock<Error>,
    identity: Group,
    /// Locked while a thread finds out why the group is lost.
    losing: Mutex<()>,
    in_flight: Arc<watchdog::Shared>,
    journal: Mutex<Journal>,
    /// The time that an operation may take.
    deadline: Mutex<Option<Duration>>,
    /// The store in which the ranks of a world compare their journals.
    store: Option<SharedStore>,
}

impl NcclBackend {
    /// Starts to look after the communicators of a group.
    fn new(group: CommGroup) -> Result<Self> {
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

impl CommGroup {
    /// Returns the failure of the group, if it is lost.
    fn check(&self) -> Result<()> {
        self.failure
            .get()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Adds the operations to the journal.
    fn note(&self, operations: &[CollectiveOp<'_>]) -> Entry {
        let ranks: Vec<usize> = self.locals.iter().map(|local| local.rank).collect();
        self.journal.lock().add(operations, &ranks);
        entry_of(operations).unwrap_or_else(|| self.entry())
    }

    /// Returns the last operations, or those that created the group.
    fn entry(&self) -> Entry {
        let created = Entry {
            label: "collectives",
            location: self.location,
        };
        self.journal.lock().last().unwrap_or(created)
    }

    /// Enqueues the operations. If NCCL reports a failure the group is lost when this returns, so
    /// that the results are known to be invalid before anyone can see the operations complete.
    fn enqueue(
        self: &Arc<Self>,
        entry: Entry,
        operations: &[CollectiveOp<'_>],
        indices: &[usize],
        streams: &[DriverStream<'_>],
    ) -> Result<()> {
        match self.issue(operations, indices, streams) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.lose(entry, &error.to_string());
                self.check()
            }
            Err(Gone) => {
                self.check()?;
                Err(Error::unavailable("the communicators are closed"))
            }
        }
    }

    /// Makes NCCL's calls for the operations as one group, and waits until they are on the streams.
    /// `indices` are the local ranks of `streams`.
    fn issue(
        &self,
        operations: &[CollectiveOp<'_>],
        indices: &[usize],
        streams: &[DriverStream<'_>],
    ) -> Result<Result<(), NcclError>, Gone> {
        let issued = self.comms.group(|comms| {
            operations.iter().try_for_each(|operation| {
                operation.parts.iter().try_for_each(|part| {
                    let at = indices.iter().position(|&index| index == part.local);
                    // Ranks without elements are no members.
                    at.map_or(Ok(()), |at| {
                        self.call(operation, part, comms[part.local], &streams[at])
                    })
                })
            })
        })?;
        if issued.is_err() {
            return Ok(issued);
        }
        let deadline = *self.deadline.lock();
        let end = deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        for &index in indices {
            let enqueued = self.wait_until_enqueued(index, end)?;
            if enqueued.is_err() {
                return Ok(enqueued);
            }
        }
        Ok(Ok(()))
    }

    /// Waits until a communicator has enqueued its operation, or is ended.
    fn wait_until_enqueued(
        &self,
        local: usize,
        end: Option<Instant>,
    ) -> Result<Result<(), NcclError>, Gone> {
        const CALL: &str = "ncclGroupEnd";
        let mut looks = 0_u32;
        loop {
            match self.comms.state(local, CALL)? {
                Ok(CommState::InProgress) => {}
                state => return Ok(state.map(drop)),
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                let text = "not on the stream before the deadline";
                return Ok(Err(NcclError::new(CALL, NcclCode::IN_PROGRESS, text)));
            }
            looks = looks.saturating_add(1);
            if looks < ENQUEUE_SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(ENQUEUE_PAUSE);
            }
        }
    }

    /// Makes NCCL's calls for one rank's part of an operation.
    fn call(
        &self,
        operation: &CollectiveOp<'_>,
        part: &Part<'_>,
        comm: CommHandle,
        stream: &DriverStream<'_>,
    ) -> Result<(), NcclError> {
        let (source, target) = (part.source.as_ref(), part.target.as_ref());
        // The unused side of a rank without a source or a target.
        let (Some(from), Some(to)) = (source.or(target), target.or(source)) else {
            return Ok(());
        };
        // Enqueues an operation of this many bytes at offsets into both arrays.
        let enqueue = |kind: OperationType, bytes: usize, [from_at, to_at]: [usize; 2]| {
            if bytes == 0 {
                return Ok(());
            }
            let operation = Operation {
                kind,
                send: from.pointer().offset(from_at as u64),
                recv: to.pointer().offset(to_at as u64),
                count: bytes / operation.element.size(),
                data_type: operation.element,
            };
            // SAFETY: `CollectiveOp` has checked the lengths and devices of the arrays, which are in
            // use by this operation until it is complete; the stream belongs to the rank's device,
            // and the communicator is alive, because none is ended while operations are issued.
            let issued = unsafe { self.comms.nccl.enqueue(&operation, comm, stream.stream) };
            issued.map(drop)
        };
        let op = operation.reduce.unwrap_or(Reduce::Sum);
        let (kind, bytes) = match operation.kind {
            CollectiveKind::AllReduce => (OperationType::AllReduce(op), from.bytes()),
            CollectiveKind::ReduceScatter => (OperationType::ReduceScatter(op), to.bytes()),
            CollectiveKind::AllGather => (OperationType::AllGather, from.bytes()),
            CollectiveKind::Broadcast { root } => (OperationType::Broadcast { root }, to.bytes()),
            CollectiveKind::Reduce { root } => (OperationType::Reduce { op, root }, from.bytes()),
            CollectiveKind::Send { to } => (OperationType::Send { peer: to }, from.bytes()),
            CollectiveKind::Recv { from } => (OperationType::Recv { peer: from }, to.bytes()),
            CollectiveKind::AllGatherUneven => {
                return operation
                    .ranges
                    .iter()
                    .enumerate()
                    .try_for_each(|(peer, range)| {
                        enqueue(OperationType::Send { peer }, from.bytes(), [0, 0])?;
                        enqueue(OperationType::Recv { peer }, range.len(), [0, range.start])
                    });
            }
            CollectiveKind::AllToAll => {
                let bytes = from.bytes() / self.ranks;
                return (0..self.ranks).try_for_each(|peer| {
                    let at = [peer * bytes; 2];
                    enqueue(OperationType::Send { peer }, bytes, at)?;
                    enqueue(OperationType::Recv { peer }, bytes, at)
                });
            }
        };
        enqueue(kind, bytes, [0, 0])
    }

    /// Creates the error of a lost operation.
    fn lost(&self, entry: Entry, reason: impl Into<Arc<str>>) -> Error {
        let rank = self.locals.first().map_or(0, |local| local.rank);
        Error::collective_lost(entry.label, entry.location, rank, reason.into())
    }
}

impl fmt::Debug for NcclBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclBackend({:?})", self.group.comms.nccl)
    }
}
