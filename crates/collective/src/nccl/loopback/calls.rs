//! The functions of NCCL on a [`Loopback`], and groups.

#![allow(unsafe_code, reason = "implements the unsafe methods of NCCL's table")]

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
};

use super::{
    Loopback, NUMBERS,
    communicator::{Comm, DEVICES},
    decode, encode,
    hub::Hub,
    invalid,
    link::Link,
    lock, new_secret,
    operation::Issued,
    rank_number,
};
use millstream_driver::{ContextHandle, StreamHandle};

use crate::nccl::{
    CommHandle, CommState, Nccl, NcclCode, NcclError, OLDEST_NCCL_VERSION, Operation, Progress,
    Result, UniqueId,
};

#[derive(Default)]
struct Group {
    depth: usize,
    operations: Vec<(Arc<Comm>, Issued)>,
}

thread_local! {
    /// The groups that are open on this thread, by instance.
    static GROUPS: RefCell<HashMap<usize, Group>> = RefCell::default();
}

impl Nccl for Loopback {
    fn version(&self) -> i32 {
        OLDEST_NCCL_VERSION
    }

    fn unique_id(&self) -> Result<UniqueId> {
        let secret = new_secret();
        let hub = Hub::start(secret).map_err(|error| {
            NcclError::new("ncclGetUniqueId", NcclCode::SYSTEM_ERROR, error.to_string())
        })?;
        let id = encode(secret, hub.address());
        lock(&self.hubs).push(hub);
        Ok(id)
    }

    unsafe fn comm_init_rank(
        &self,
        context: ContextHandle,
        world_size: usize,
        id: &UniqueId,
        rank: usize,
        _blocks: bool,
    ) -> Result<CommHandle> {
        const CALL: &str = "ncclCommInitRankConfig";
        let (secret, hub) =
            decode(id).ok_or_else(|| invalid(CALL, format!("{id:?} is not a loopback's")))?;
        if rank >= world_size || u32::try_from(world_size).is_err() {
            let text = format!("rank {rank} is not in a world of {world_size} ranks");
            return Err(invalid(CALL, text));
        }
        let handle = CommHandle::from_raw(NUMBERS.fetch_add(1, Ordering::Relaxed));
        // Registered before any rank can be ready, so that every operation sees all devices.
        lock(&DEVICES).push((self.driver.handle_space(), context, handle));
        let link = Link::connect(hub, secret, rank_number(rank), world_size).map_err(|error| {
            lock(&DEVICES).retain(|(.., other)| *other != handle);
            NcclError::new(CALL, NcclCode::SYSTEM_ERROR, error.to_string())
        })?;
        let comm = Comm {
            handle,
            context,
            rank,
            size: world_size,
            link,
            counters: Mutex::default(),
        };
        lock(&self.comms).insert(handle, Arc::new(comm));
        Ok(handle)
    }

    unsafe fn async_error(&self, comm: CommHandle) -> Result<CommState> {
        let comm = self.comm("ncclCommGetAsyncError", comm)?;
        Ok(comm.link.comm_state())
    }

    unsafe fn finalize(&self, comm: CommHandle) -> Result {
        self.comm("ncclCommFinalize", comm)?.link.finalize();
        Ok(Progress::InProgress)
    }

    unsafe fn destroy(&self, comm: CommHandle) -> Result<()> {
        let comm = self.comm("ncclCommDestroy", comm)?;
        comm.link.finalize();
        comm.link.wait_finished();
        // Ends the operations of a communicator that failed.
        comm.link.abort();
        self.remove("ncclCommDestroy", comm.handle)?;
        // SAFETY: the context is alive until this call returns.
        unsafe { self.free_blocks(comm.context) };
        Ok(())
    }

    unsafe fn abort(&self, comm: CommHandle) -> Result<()> {
        let comm = self.comm("ncclCommAbort", comm)?;
        comm.link.abort();
        self.remove("ncclCommAbort", comm.handle)?;
        // SAFETY: the context is alive until this call returns.
        unsafe { self.free_blocks(comm.context) };
        Ok(())
    }

    unsafe fn last_error(&self, comm: CommHandle) -> String {
        let comm = self.comm("ncclGetLastError", comm);
        comm.map_or_else(|_| String::new(), |comm| comm.link.failure_text())
    }

    fn group_start(&self) -> Result<()> {
        GROUPS.with_borrow_mut(|groups| groups.entry(self.instance).or_default().depth += 1);
        Ok(())
    }

    unsafe fn group_end(&self) -> Result {
        const CALL: &str = "ncclGroupEnd";
        let ended = GROUPS.with_borrow_mut(|groups| {
            let group = groups.get_mut(&self.instance)?;
            group.depth -= 1;
            Some(if group.depth == 0 {
                groups.remove(&self.instance)
            } else {
                None
            })
        });
        let Some(outermost) = ended else {
            let text = "the thread has not begun a group";
            return Err(NcclError::new(CALL, NcclCode::INVALID_USAGE, text));
        };
        let mut by_comm: Vec<(Arc<Comm>, Vec<Issued>)> = Vec::new();
        for (comm, operation) in outermost.unwrap_or_default().operations {
            match by_comm
                .iter_mut()
                .find(|(known, _)| known.handle == comm.handle)
            {
                Some((_, operations)) => operations.push(operation),
                None => by_comm.push((comm, vec![operation])),
            }
        }
        for (_, operations) in &mut by_comm {
            operations.sort_by_key(Issued::place_in_group);
        }
        // Calls that wait for each other, because they exchange data before they return, need a
        // thread each.
        let mut results = thread::scope(|scope| {
            let (first, others) = match by_comm.split_first() {
                Some(parts) => parts,
                None => return Vec::new(),
            };
            // SAFETY: the caller vouches for the operations.
            let issue = |(comm, operations): &(Arc<Comm>, Vec<Issued>)| unsafe {
                self.issue(comm, operations)
            };
            let others: Vec<_> = others
                .iter()
                .map(|part| scope.spawn(move || issue(part)))
                .collect();
            let mut results = vec![issue(first)];
            results.extend(others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    let text = "a thread of the group has panicked";
                    Err(NcclError::new(CALL, NcclCode::INTERNAL_ERROR, text))
                })
            }));
            results
        });
        results
            .drain(..)
            .collect::<Result<()>>()
            .map(|()| Progress::Done)
    }

    unsafe fn enqueue(
        &self,
        operation: &Operation,
        comm: CommHandle,
        stream: StreamHandle,
    ) -> Result {
        let call = operation.kind.function();
        let comm = self.comm(call, comm)?;
        let bytes = operation.count.checked_mul(operation.data_type.size());
        let issued = Issued {
            operation: *operation,
            bytes: bytes.ok_or_else(|| invalid(call, "the count is too large".to_owned()))?,
            stream,
        };
        comm.check(&issued)?;
        let grouped = GROUPS.with_borrow_mut(|groups| {
            let group = groups.get_mut(&self.instance)?;
            group.operations.push((Arc::clone(&comm), issued));
            Some(())
        });
        if grouped.is_none() {
            // SAFETY: this method's contract.
            unsafe { self.issue(&comm, &[issued]) }?;
        }
        Ok(Progress::Done)
    }
}
