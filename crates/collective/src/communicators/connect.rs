//! Connecting communicators: of the devices of this process, or of the ranks of a world.

#![allow(unsafe_code, reason = "creates its own communicators")]

use std::{
    panic::Location,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use millstream::{__log as log, Error, Result, groups::prepare_pair};

use super::{comms::Comms, group::CommGroup, store::SharedStore};
use crate::{
    local_rank::LocalRank,
    nccl::{CommHandle, CommState, Nccl, NcclError, UniqueId},
    world::{Rendezvous, World},
};

/// The time within which all ranks of a world must have connected.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);
/// The pause between two looks at a communicator that is connecting.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Connects the devices of this process, one rank each. `blocks` says whether the calls of their
/// communicators block until their work is enqueued: they wait for no other process, but cannot be
/// ended by an abort.
pub(crate) fn in_process(
    nccl: Arc<dyn Nccl>,
    locals: Arc<[LocalRank]>,
    blocks: bool,
    location: &'static Location<'static>,
) -> Result<CommGroup> {
    // NCCL may access arrays of one process over the links, which the pools of the devices do not
    // admit unless they are told to (rule 38).
    for (at, one) in locals.iter().enumerate() {
        for other in &locals[..at] {
            prepare_pair(&one.device(), &other.device())?;
        }
    }
    let id = nccl.unique_id().map_err(refused)?;
    let ranks = locals.len();
    let comms = connect(&*nccl, &locals, ranks, &id, blocks)?;
    let comms = Comms::new(nccl, comms, blocks);
    Ok(CommGroup::new(comms, locals, ranks, location, None))
}

/// Connects the one rank of this process with those of the other processes of a world, and waits
/// for all of them.
pub(crate) fn in_world(
    nccl: Arc<dyn Nccl>,
    locals: Arc<[LocalRank]>,
    world: &World,
    location: &'static Location<'static>,
) -> Result<CommGroup> {
    world.check_lost()?;
    let store: Arc<dyn Rendezvous> = world.rendezvous(CONNECT_WITHIN)?;
    let prefix = format!("millstream/collectives/{}", world.next_group());
    let key = format!("{prefix}/id");
    let id = if world.rank() == 0 {
        let id = nccl.unique_id().map_err(refused)?;
        store.set(&key, id.as_bytes())?;
        id
    } else {
        let bytes = store.get(&key, CONNECT_WITHIN)?;
        let bytes = <[u8; UniqueId::BYTES]>::try_from(bytes.as_slice());
        UniqueId::from_bytes(bytes.map_err(|_| {
            Error::unavailable(format!("the rendezvous gave {key} with another length"))
        })?)
    };
    // Its calls may have to wait for other processes, for ever if one has ended.
    let blocks = false;
    let comms = connect(&*nccl, &locals, world.size(), &id, blocks)?;
    let comms = Comms::new(nccl, comms, blocks);
    let store = SharedStore::new(world, store, prefix);
    Ok(CommGroup::new(
        comms,
        locals,
        world.size(),
        location,
        Some(store),
    ))
}

fn refused(error: NcclError) -> Error {
    Error::unavailable(error)
}

/// Creates the communicators of the local ranks and waits until they are connected.
fn connect(
    nccl: &dyn Nccl,
    locals: &[LocalRank],
    ranks: usize,
    id: &UniqueId,
    blocks: bool,
) -> Result<Vec<CommHandle>> {
    let mut comms = Vec::new();
    let connected = begin(nccl, locals, ranks, id, blocks, &mut comms)
        .and_then(|()| wait_until_connected(nccl, &comms));
    if let Err(error) = connected {
        for comm in comms {
            // SAFETY: the communicator was created above and is not used any more.
            if let Err(error) = unsafe { nccl.abort(comm) } {
                log!(warn, %error, "cannot abort a communicator");
            }
        }
        return Err(error);
    }
    Ok(comms)
}

fn begin(
    nccl: &dyn Nccl,
    locals: &[LocalRank],
    ranks: usize,
    id: &UniqueId,
    blocks: bool,
    comms: &mut Vec<CommHandle>,
) -> Result<()> {
    nccl.group_start().map_err(refused)?;
    let begun: Result<()> = locals.iter().try_for_each(|local| {
        let device = local.device();
        let current = if device.is_simulated() {
            None
        } else {
            Some(device.enter_context()?)
        };
        let (context, rank) = (device.as_raw(), local.rank);
        // SAFETY: the rank keeps its device and thereby the context alive, and the context is
        // current.
        let comm = unsafe { nccl.comm_init_rank(context, ranks, id, rank, blocks) };
        drop(current);
        comms.push(comm.map_err(refused)?);
        Ok(())
    });
    // Also after an error, because the group was begun. SAFETY: the group has no operations.
    let ended = unsafe { nccl.group_end() };
    begun?;
    ended.map(drop).map_err(refused)
}

fn wait_until_connected(nccl: &dyn Nccl, comms: &[CommHandle]) -> Result<()> {
    let end = Instant::now() + CONNECT_WITHIN;
    for &comm in comms {
        loop {
            // SAFETY: the communicator is alive.
            match unsafe { nccl.async_error(comm) }.map_err(refused)? {
                CommState::Success => break,
                CommState::InProgress if Instant::now() < end => thread::sleep(LOOK_EVERY),
                CommState::InProgress => {
                    return Err(Error::unavailable(format!(
                        "the ranks' communicators were not connected within {CONNECT_WITHIN:?}"
                    )));
                }
                CommState::Failed(code) => {
                    // SAFETY: as above.
                    let text = unsafe { nccl.last_error(comm) };
                    return Err(refused(NcclError::new(
                        "ncclCommInitRankConfig",
                        code,
                        text,
                    )));
                }
            }
        }
    }
    Ok(())
}
