//! A stand-in for NCCL in tests: collective operations over TCP, on one machine, for any driver.
//!
//! [`Loopback`] implements [`Nccl`] without NVIDIA's library and without a GPU. The ranks are
//! processes, or threads of one process, of one machine. Each operation copies its input to
//! page-locked memory, exchanges it with the other ranks through a router in the process that
//! created the [`UniqueId`], and copies the result to the device. Reductions are made in order of
//! ranks, so results are the same on every run.
//!
//! # Differences from NCCL
//!
//! - Operations are enqueued when a call returns: only the creation and the end of a communicator
//!   are in progress for a while.
//! - A send does not wait for its receive.
//! - Ranks with different world sizes, or the same rank twice, are an error.
//!
//! As with NCCL, ranks that make different calls, or name different counts, wait for each other
//! until they are aborted. If a rank's process ends, the communicators of the other ranks fail, and
//! their operations end when they are aborted.
//!
//! # Host functions
//!
//! The exchange happens in a host function, which makes the stream wait. A driver runs the host
//! functions of all its devices on one thread, where ranks on two devices of one driver would wait
//! for each other for ever. So if a process has communicators on several devices of one driver,
//! each operation instead waits on the calling thread until the stream reaches it, and exchanges
//! the data there, before the call returns. A call then blocks until the other ranks have made
//! theirs. One thread that drives several ranks must issue their operations in one group, as with
//! NCCL.

#![allow(unsafe_code, reason = "frees the memory of a context")]

mod calls;
mod communicator;
mod enqueue;
mod frame;
mod hub;
mod link;
mod operation;
mod reduce;
mod staging;

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[cfg(doc)]
use super::Nccl;
use super::{CommHandle, NcclCode, NcclError, Result, UniqueId};
use communicator::{Comm, DEVICES};
use hub::Hub;
use millstream_driver::{ContextHandle, Driver};
use staging::Blocks;

/// The first bytes of an identifier.
const ID_MAGIC: &[u8; 8] = b"MSLOOP01";

/// A failure to inject into an operation of a [`Loopback`] communicator.
///
/// ```
/// use millstream_collective::nccl::loopback::Fault;
/// assert_ne!(Fault::Hang, Fault::Fail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The call returns an error, and nothing is enqueued.
    Refuse,
    /// The communicator fails when the stream reaches the operation, which then does not end until
    /// it is aborted.
    Fail,
    /// The operation does not end until it is aborted, and the communicator does not fail.
    Hang,
    /// The operation begins after this time.
    Delay(Duration),
}

/// Collective operations over TCP on one machine: a stand-in for NCCL in tests.
///
/// Dropping it aborts its communicators; [`Nccl::destroy`] and [`Nccl::abort`] also free the
/// page-locked memory that they have used.
pub struct Loopback {
    driver: Arc<dyn Driver>,
    /// Distinguishes the groups of several instances on one thread.
    instance: usize,
    faults: Vec<(u64, Fault)>,
    comms: Mutex<HashMap<CommHandle, Arc<Comm>>>,
    hubs: Mutex<Vec<Hub>>,
    blocks: Mutex<HashMap<ContextHandle, Blocks>>,
}

/// Issues numbers of communicators and instances.
static NUMBERS: AtomicUsize = AtomicUsize::new(1);

impl Loopback {
    /// Creates a stand-in for the devices of this driver.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Self {
        Self {
            driver,
            instance: NUMBERS.fetch_add(1, Ordering::Relaxed),
            faults: Vec::new(),
            comms: Mutex::default(),
            hubs: Mutex::default(),
            blocks: Mutex::default(),
        }
    }

    /// Injects a fault into operation `number`, counted from 1 on each communicator. One operation
    /// may have several faults.
    #[must_use]
    pub fn fault(mut self, number: u64, fault: Fault) -> Self {
        self.faults.push((number, fault));
        self
    }

    fn comm(&self, call: &'static str, handle: CommHandle) -> Result<Arc<Comm>> {
        let comm = lock(&self.comms).get(&handle).cloned();
        comm.ok_or_else(|| invalid(call, format!("{handle:?} is not a communicator")))
    }

    fn remove(&self, call: &'static str, handle: CommHandle) -> Result<Arc<Comm>> {
        let comm = self.comm(call, handle)?;
        lock(&self.comms).remove(&handle);
        lock(&DEVICES).retain(|(.., other)| *other != handle);
        Ok(comm)
    }

    /// Frees the page-locked memory of a context without communicators.
    ///
    /// # Safety
    ///
    /// `context` is alive.
    unsafe fn free_blocks(&self, context: ContextHandle) {
        let comms = lock(&self.comms);
        if comms.values().any(|comm| comm.context == context) {
            return;
        }
        let blocks = lock(&self.blocks).remove(&context);
        drop(comms);
        if let Some(blocks) = blocks {
            // SAFETY: the caller vouches for the context, which is the one of these blocks.
            unsafe { blocks.free(&*self.driver, context) };
        }
    }
}

fn invalid(call: &'static str, text: String) -> NcclError {
    NcclError::new(call, NcclCode::INVALID_ARGUMENT, text)
}

/// Converts a rank. Ranks beyond the type are as invalid as the largest of it.
fn rank_number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the identifier for a hub at this address: magic, secret, address.
fn encode(secret: u64, address: SocketAddr) -> UniqueId {
    let mut bytes = [0; UniqueId::BYTES];
    bytes[..8].copy_from_slice(ID_MAGIC);
    bytes[8..16].copy_from_slice(&secret.to_le_bytes());
    let text = address.to_string();
    bytes[16..16 + text.len()].copy_from_slice(text.as_bytes());
    UniqueId::from_bytes(bytes)
}

/// Returns the secret and the address in an identifier, or `None` if a [`Loopback`] did not create
/// it.
fn decode(id: &UniqueId) -> Option<(u64, SocketAddr)> {
    let (secret, text) = id.as_bytes().strip_prefix(ID_MAGIC)?.split_at_checked(8)?;
    let text = std::str::from_utf8(text).ok()?.trim_end_matches('\0');
    Some((
        u64::from_le_bytes(secret.try_into().ok()?),
        text.parse().ok()?,
    ))
}

/// Returns a number that other hubs do not have, from the random keys that the system gives the
/// standard library.
fn new_secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for (handle, comm) in lock(&self.comms).drain() {
            comm.link.abort();
            lock(&DEVICES).retain(|(.., other)| *other != handle);
        }
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback")
            .field("driver", &self.driver)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_encodes_secret_and_address() {
        let address = SocketAddr::from(([127, 0, 0, 1], 40_123));
        let id = encode(7 << 50, address);
        assert_eq!(decode(&id), Some((7 << 50, address)));
        assert_eq!(decode(&UniqueId::from_bytes([1; UniqueId::BYTES])), None);
        assert_ne!(new_secret(), new_secret());
    }
}
