//! Collectives by NCCL, within one process or over several.
//!
//! Each local rank has a communicator. The operations of all local ranks are submitted as one group
//! ([`submit_group`]), with one group call of NCCL, so that they are ordered with all other work by
//! their arrays. NCCL requires that all ranks make the same calls in the same order: the process
//! serialises its groups, and the program must make the same calls on every rank.
//!
//! An operation never completes if another rank does not take part in it. A [watchdog](watchdog)
//! therefore looks after the operations in flight, and ends them if a communicator fails, a device
//! is lost, or a deadline passes: see [`loss`](loss).

#![allow(unsafe_code, reason = "calls NCCL with its own communicators")]

mod connect;
mod journal;
mod loss;
mod watchdog;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use millstream_driver::nccl::{CommHandle, CommState, DataType, Nccl, NcclError, ReduceOp};
use parking_lot::Mutex;

pub(super) use connect::{in_process, in_world};
use journal::{Entry, Journal};
use watchdog::Watchdog;

use super::{
    Reduce,
    element::ElementType,
    local_rank::LocalRank,
    operation::{Backend, CollectiveKind, CollectiveOp, Part},
};
use crate::{
    Error, Result,
    context::{DriverStream, Failure, GroupOperation, Operation, submit_group},
    error::OperationKind,
    memory::Span,
    tracker::{AccessKind, Accesses},
    world::Rendezvous,
};

/// The pause between two looks at a communicator that is enqueuing an operation, after the first
/// ones.
const ENQUEUE_PAUSE: Duration = Duration::from_micros(20);
/// The number of looks without a pause.
const ENQUEUE_SPINS: u32 = 10_000;

/// The communicators of the local ranks.
pub(super) struct NcclBackend {
    group: Arc<CommGroup>,
    watchdog: Watchdog,
}

/// The state that submission and watchdog share.
struct CommGroup {
    nccl: Arc<dyn Nccl>,
    locals: Arc<[LocalRank]>,
    /// The communicators of the local ranks, in their order. `None` once they are being ended.
    comms: Mutex<Option<Vec<CommHandle>>>,
    /// The number of ranks of all processes.
    ranks: usize,
    /// Set when the group is lost, before its operations are ended.
    failure: Failure,
    journal: Mutex<Journal>,
    /// The time that an operation may take.
    deadline: Mutex<Option<Duration>>,
    /// The store in which the ranks of a world compare their journals, and the prefix of its keys.
    store: Option<(Arc<dyn Rendezvous>, String)>,
}

impl NcclBackend {
    fn new(group: CommGroup) -> Self {
        let group = Arc::new(group);
        Self {
            watchdog: Watchdog::new(&group),
            group,
        }
    }
}

impl Backend for NcclBackend {
    fn name(&self) -> &'static str {
        "NCCL"
    }

    fn submit(&self, operations: &[CollectiveOp<'_>]) -> Result<()> {
        let group = &self.group;
        if let Some(failure) = group.failure.get() {
            return Err(failure.clone());
        }
        let mut members = members(&group.locals, operations);
        let entry = group.journal.lock().add(operations);
        let indices: Vec<usize> = members.iter().map(|(local, _)| *local).collect();
        let mut members: Vec<GroupOperation<'_>> =
            members.drain(..).map(|(_, member)| member).collect();
        let enqueue = |streams: &[DriverStream<'_>]| group.enqueue(operations, &indices, streams);
        // SAFETY: NCCL's operations use the arrays of the operations and no other memory of the
        // program. Each part's arrays are on the device of its rank.
        let submitted = unsafe { submit_group(&mut members, Some(&group.failure), enqueue) };
        match submitted {
            Ok(sequences) => {
                let in_flight = indices.iter().copied().zip(sequences);
                self.watchdog.watch(&entry, in_flight.collect());
                Ok(())
            }
            Err(Error::CollectiveLost { reason, .. }) => {
                self.watchdog.give_up(&entry, &reason);
                let failure = group.failure.get();
                Err(failure
                    .cloned()
                    .unwrap_or_else(|| group.lost(&entry, reason)))
            }
            Err(error) => Err(error),
        }
    }

    fn set_deadline(&self, deadline: Option<Duration>) {
        *self.group.deadline.lock() = deadline;
    }
}

/// Returns one operation for each local rank that takes part, with the index of the rank.
fn members<'a>(
    locals: &'a [LocalRank],
    operations: &[CollectiveOp<'a>],
) -> Vec<(usize, GroupOperation<'a>)> {
    let of_rank = |(index, local): (usize, &'a LocalRank)| {
        let mut accesses = Accesses::default();
        let mut bytes = 0;
        let parts = operations.iter().flat_map(|operation| &operation.parts);
        for Part { source, target, .. } in parts.filter(|part| part.local == index) {
            for (span, kind) in [(source, AccessKind::Read), (target, AccessKind::Write)] {
                if let Some(span) = span {
                    accesses.push(span.access(kind));
                    bytes += span.bytes.len() as u64;
                }
            }
        }
        let first = operations.first()?;
        let member = GroupOperation {
            device: local.device(),
            stream: local.stream.state(),
            operation: Operation {
                kind: OperationKind::Collective,
                label: first.kind.label(),
                location: first.location,
                bytes,
                accesses,
                host_waiter: None,
            },
        };
        (bytes > 0).then_some((index, member))
    };
    locals.iter().enumerate().filter_map(of_rank).collect()
}

impl CommGroup {
    /// Makes NCCL's calls for the operations as one group, and waits until they are on the streams.
    /// `indices` are the local ranks of `streams`.
    fn enqueue(
        &self,
        operations: &[CollectiveOp<'_>],
        indices: &[usize],
        streams: &[DriverStream<'_>],
    ) -> Result<()> {
        let comms = self.comms.lock();
        let Some(comms) = &*comms else {
            return Err(self.failure.get().cloned().unwrap_or_else(closed));
        };
        let issued = self.issue(operations, comms, indices, streams);
        let first = operations.first().map(|first| (first.kind, first.location));
        issued.map_err(|error| {
            let (label, location) = first.map_or(
                ("collective", std::panic::Location::caller()),
                |(kind, location)| (kind.label(), location),
            );
            Error::CollectiveLost {
                operation: label,
                location,
                rank: self.locals.first().map_or(0, |local| local.rank),
                reason: error.to_string().into(),
            }
        })
    }

    fn issue(
        &self,
        operations: &[CollectiveOp<'_>],
        comms: &[CommHandle],
        indices: &[usize],
        streams: &[DriverStream<'_>],
    ) -> Result<(), NcclError> {
        self.nccl.group_start()?;
        let mut called = Ok(());
        for operation in operations {
            for part in &operation.parts {
                let Some(at) = indices.iter().position(|&index| index == part.local) else {
                    continue;
                };
                called = called
                    .and_then(|()| self.call(operation, part, comms[part.local], &streams[at]));
            }
        }
        // Also after an error, because the group was begun. SAFETY: the arrays and streams are in
        // use by this operation until it is complete.
        let ended = unsafe { self.nccl.group_end() };
        called?;
        let _ = ended?;
        let deadline = *self.deadline.lock();
        let end = deadline.and_then(|deadline| Instant::now().checked_add(deadline));
        for &index in indices {
            self.wait_until_enqueued(comms[index], end)?;
        }
        Ok(())
    }

    /// Waits until a communicator has enqueued its operation.
    fn wait_until_enqueued(&self, comm: CommHandle, end: Option<Instant>) -> Result<(), NcclError> {
        let mut looks = 0_u32;
        loop {
            // SAFETY: the communicator is alive while `comms` is locked.
            match unsafe { self.nccl.async_error(comm) }? {
                CommState::Success => return Ok(()),
                CommState::InProgress => {}
                CommState::Failed(code) => {
                    // SAFETY: as above.
                    let text = unsafe { self.nccl.last_error(comm) };
                    return Err(NcclError::new("ncclGroupEnd", code, text));
                }
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                let code = millstream_driver::nccl::NcclCode::IN_PROGRESS;
                return Err(NcclError::new(
                    "ncclGroupEnd",
                    code,
                    "the deadline has passed",
                ));
            }
            looks = looks.saturating_add(1);
            if looks < ENQUEUE_SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(ENQUEUE_PAUSE);
            }
        }
    }

    /// Makes NCCL's call for one rank's part of an operation.
    fn call(
        &self,
        operation: &CollectiveOp<'_>,
        part: &Part<'_>,
        comm: CommHandle,
        stream: &DriverStream<'_>,
    ) -> Result<(), NcclError> {
        let (nccl, stream) = (&*self.nccl, stream.stream);
        let data_type = data_type(operation.element);
        let op = operation.reduce.map_or(ReduceOp::Sum, reduce_op);
        let count = |span: &Span<'_>| span.bytes.len() / operation.element.bytes();
        let (source, target) = (part.source.as_ref(), part.target.as_ref());
        // The unused side of a rank without a source or a target.
        let (Some(send), Some(recv)) = (source.or(target), target.or(source)) else {
            return Ok(());
        };
        let (from, to) = (send.pointer(), recv.pointer());
        let progress = match operation.kind {
            CollectiveKind::AllReduce => {
                let count = count(send);
                // SAFETY: `CollectiveOp` has checked the lengths and devices of the arrays, which are
                // in use by this operation until it is complete; the stream belongs to the rank's
                // device, and the communicator is alive while `comms` is locked.
                unsafe { nccl.all_reduce(from, to, count, data_type, op, comm, stream) }
            }
            CollectiveKind::ReduceScatter => {
                let count = count(recv);
                // SAFETY: as above.
                unsafe { nccl.reduce_scatter(from, to, count, data_type, op, comm, stream) }
            }
            CollectiveKind::AllGather => {
                let count = count(send);
                // SAFETY: as above.
                unsafe { nccl.all_gather(from, to, count, data_type, comm, stream) }
            }
            CollectiveKind::Broadcast { root } => {
                let count = count(recv);
                // SAFETY: as above.
                unsafe { nccl.broadcast(from, to, count, data_type, root, comm, stream) }
            }
            CollectiveKind::Reduce { root } => {
                let count = count(send);
                // SAFETY: as above.
                unsafe { nccl.reduce(from, to, count, data_type, op, root, comm, stream) }
            }
            CollectiveKind::AllToAll => {
                let chunk = count(send) / self.ranks;
                let bytes = (chunk * operation.element.bytes()) as u64;
                for rank in 0..self.ranks {
                    let offset = rank as u64 * bytes;
                    let (from, to) = (from.offset(offset), to.offset(offset));
                    // SAFETY: as above.
                    let sent = unsafe { nccl.send(from, chunk, data_type, rank, comm, stream) };
                    // SAFETY: as above.
                    let got = unsafe { nccl.recv(to, chunk, data_type, rank, comm, stream) };
                    let _ = sent.and(got)?;
                }
                return Ok(());
            }
            CollectiveKind::Send { to } => {
                let count = count(send);
                // SAFETY: as above.
                unsafe { nccl.send(from, count, data_type, to, comm, stream) }
            }
            CollectiveKind::Recv { from } => {
                let count = count(recv);
                // SAFETY: as above.
                unsafe { nccl.recv(to, count, data_type, from, comm, stream) }
            }
        };
        progress.map(|_| ())
    }

    /// Creates the error of a lost operation.
    fn lost(&self, entry: &Entry, reason: impl Into<Arc<str>>) -> Error {
        Error::CollectiveLost {
            operation: entry.label,
            location: entry.location,
            rank: self.locals.first().map_or(0, |local| local.rank),
            reason: reason.into(),
        }
    }
}

impl fmt::Debug for NcclBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclBackend({:?})", self.group.nccl)
    }
}

/// Returns the error of a call after the communicators were ended.
fn closed() -> Error {
    Error::unavailable("the communicators are closed")
}

fn data_type(element: ElementType) -> DataType {
    match element {
        ElementType::F32 => DataType::F32,
        ElementType::F64 => DataType::F64,
        ElementType::I32 => DataType::I32,
        ElementType::I64 => DataType::I64,
        ElementType::U32 => DataType::U32,
        ElementType::U64 => DataType::U64,
    }
}

fn reduce_op(reduce: Reduce) -> ReduceOp {
    match reduce {
        Reduce::Sum => ReduceOp::Sum,
        Reduce::Prod => ReduceOp::Prod,
        Reduce::Min => ReduceOp::Min,
        Reduce::Max => ReduceOp::Max,
        Reduce::Avg => ReduceOp::Avg,
    }
}
