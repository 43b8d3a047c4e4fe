//! Devices and their contexts.

use std::{collections::BTreeMap, thread::ThreadId};

use millstream_driver::{ContextHandle, PoolHandle, StreamHandle};

use super::stream::WaitSet;
use crate::core::{call_error::CallError, engine::Engines};

/// The grants of access to one owner's memory, or of one context: for each peer the number of
/// operations that were enqueued before the grant.
pub(crate) type Grants<P> = BTreeMap<P, u64>;

#[derive(Debug)]
pub(crate) struct Device {
    /// The device's default memory pool.
    pub(crate) default_pool: PoolHandle,
    /// The pool of allocations that name none.
    pub(crate) current_pool: PoolHandle,
    /// The number of bytes allocated outside of pools.
    pub(crate) non_pool_bytes: u64,
    /// The primary context, while it is retained.
    pub(crate) context: Option<ContextHandle>,
    /// The reference count of the primary context.
    pub(crate) references: u64,
    /// The occupancy of the device's engines in virtual time.
    pub(crate) engines: Engines,
}

/// A context: the primary one of its device, or an own one.
#[derive(Debug)]
pub(crate) struct Context {
    /// The index of the context's device.
    pub(crate) device: u32,
    /// The legacy default stream (rule 17: it synchronises with every blocking stream).
    pub(crate) legacy: StreamHandle,
    /// The per-thread default streams (rule 19: one for each thread and context).
    pub(crate) per_thread: Vec<(ThreadId, StreamHandle)>,
    /// The latest finish time of all finished operations.
    pub(crate) busy_until_ns: u64,
    /// The latest finish time of operations on destroyed blocking streams.
    pub(crate) destroyed_blocking_until_ns: u64,
    /// The operations that all later work waits for, if rule 29 (implicit synchronisation between
    /// streams) is strict.
    pub(crate) fence: WaitSet,
    /// The contexts whose memory outside the pool the context can access (rule 39).
    pub(crate) peers: Grants<ContextHandle>,
    /// The size of the heap of the context's kernels, in bytes.
    pub(crate) heap_bytes: u64,
    /// Set once a kernel that uses the heap was launched.
    pub(crate) heap_is_used: bool,
    /// The sticky error, once the context is lost.
    pub(crate) lost: Option<CallError>,
}
