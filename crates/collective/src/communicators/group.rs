//! The communicators of a group, and the calls of NCCL for its collectives.

#![allow(unsafe_code, reason = "calls NCCL with its own communicators")]

use std::{
    panic::Location,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use millstream::{Error, Result, groups::Group, kernel::DriverStream};
use parking_lot::Mutex;

use super::{
    comms::{Comms, Gone},
    in_flight::Shared,
    journal::{Entry, Journal, entry_of},
    store::SharedStore,
};
use crate::{
    Reduce,
    local_rank::LocalRank,
    nccl::{CommHandle, CommState, NcclCode, NcclError, Operation, OperationType},
    operation::{CollectiveKind, CollectiveOp, Part},
};

/// The deadline of each collective of a world, until the program sets another. Also the time that
/// the end of a group without a deadline may take.
pub(super) const WORLD_DEADLINE: Duration = Duration::from_secs(600);
/// The pause between two looks at a communicator that is enqueuing an operation, after the first
/// ones.
const ENQUEUE_PAUSE: Duration = Duration::from_micros(20);
/// The number of looks without a pause.
const ENQUEUE_SPINS: u32 = 10_000;

/// The state that submission and watchdog share.
pub(crate) struct CommGroup {
    pub(super) comms: Comms,
    pub(super) locals: Arc<[LocalRank]>,
    /// The number of ranks of all processes.
    pub(super) ranks: usize,
    /// The source line that created the group.
    pub(super) location: &'static Location<'static>,
    /// Set when the group is lost.
    pub(super) failure: OnceLock<Error>,
    pub(super) identity: Group,
    /// Locked while a thread finds out why the group is lost.
    pub(super) losing: Mutex<()>,
    pub(super) in_flight: Arc<Shared>,
    pub(super) journal: Mutex<Journal>,
    /// The time that an operation may take.
    pub(super) deadline: Mutex<Option<Duration>>,
    /// The store in which the ranks of a world compare their journals.
    pub(super) store: Option<SharedStore>,
}

impl CommGroup {
    /// Creates a group that has made no calls. Its collectives have a deadline if it has ranks in
    /// other processes, which compare their calls in `store`.
    pub(super) fn new(
        comms: Comms,
        locals: Arc<[LocalRank]>,
        ranks: usize,
        location: &'static Location<'static>,
        store: Option<SharedStore>,
    ) -> Self {
        Self {
            comms,
            locals,
            ranks,
            location,
            failure: OnceLock::new(),
            identity: Group::default(),
            losing: Mutex::default(),
            in_flight: Arc::default(),
            journal: Mutex::default(),
            deadline: Mutex::new(store.as_ref().map(|_| WORLD_DEADLINE)),
            store,
        }
    }

    /// Returns the failure of the group, if it is lost.
    pub(super) fn check(&self) -> Result<()> {
        self.failure
            .get()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }

    pub(super) fn note(&self, operations: &[CollectiveOp<'_>]) -> Entry {
        let ranks: Vec<usize> = self.locals.iter().map(|local| local.rank).collect();
        self.journal.lock().add(operations, &ranks);
        entry_of(operations).unwrap_or_else(|| self.entry())
    }

    /// Returns the last operations, or those that created the group.
    pub(super) fn entry(&self) -> Entry {
        let created = Entry {
            label: "collectives",
            location: self.location,
        };
        self.journal.lock().last().unwrap_or(created)
    }

    /// Enqueues the operations. If NCCL reports a failure the group is lost when this returns, so
    /// that the results are known to be invalid before anyone can see the operations complete.
    pub(super) fn enqueue(
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
            // SAFETY: `CollectiveOp` has checked the lengths and devices of the arrays, which are
            // in use by this operation until it is complete; the stream belongs to the rank's
            // device, and no communicator is ended while operations are issued.
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

    pub(super) fn lost(&self, entry: Entry, reason: impl Into<Arc<str>>) -> Error {
        let rank = self.locals.first().map_or(0, |local| local.rank);
        Error::collective_lost(entry.label, entry.location, rank, reason.into())
    }
}
