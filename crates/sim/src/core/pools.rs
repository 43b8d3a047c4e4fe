//! The memory pools of all devices: the default pool of each, and own pools of the caller.

use millstream_driver::{PoolHandle, ResultCode};
use millstream_ptx::Site;

use super::{
    peers::Grants,
    state::{CallResult, SimState},
};
use crate::{
    ReportKind,
    ids::name,
    memory::pool::{Pool, Reuse},
};

/// A memory pool of the stream-ordered allocator.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    /// The index of the device whose memory the pool has.
    pub(crate) device: u32,
    /// The bytes used and reserved.
    pub(crate) bytes: Pool,
    /// The maximum number of reserved bytes; 0 for as many as the device has.
    pub(crate) bytes_max: u64,
    /// The other devices that can access the pool's memory (rule 38).
    pub(crate) access: Grants<u32>,
    /// The device without peer access that the pool gave access to: every allocation fails.
    pub(crate) access_fails: Option<u32>,
    /// Set once the caller has destroyed the pool, which ends with its last allocation.
    pub(crate) destroyed: bool,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
}

impl MemoryPool {
    /// Creates an empty pool.
    pub(crate) fn new(device: u32, bytes_max: u64) -> Self {
        Self {
            device,
            bytes: Pool::default(),
            bytes_max,
            access: Grants::default(),
            access_fails: None,
            destroyed: false,
            site: Site::current(),
        }
    }

    /// Returns the number of bytes by which the pool may grow, if its device has `free` bytes.
    pub(crate) fn room(&self, free: u64) -> u64 {
        match self.bytes_max {
            0 => free,
            max => free.min(max.saturating_sub(self.bytes.usage().reserved_bytes)),
        }
    }
}

impl SimState {
    /// Returns the pool with this handle. Fails if there is none, or it was destroyed.
    pub(crate) fn pool(&mut self, handle: PoolHandle) -> CallResult<&mut MemoryPool> {
        if self.pools.get(&handle).is_none_or(|pool| pool.destroyed) {
            let (kind, text) = self.handles.explain(handle);
            return Err(self.violation(kind, ResultCode::INVALID_VALUE, text));
        }
        Ok(self.known_pool(handle))
    }

    /// Returns a pool that has allocations, or was looked up before.
    pub(crate) fn known_pool(&mut self, handle: PoolHandle) -> &mut MemoryPool {
        self.pools
            .get_mut(&handle)
            .expect("a pool lives as long as its allocations")
    }

    /// Returns the pools of a device, also destroyed ones with allocations.
    pub(crate) fn pools_of(&self, device: u32) -> impl Iterator<Item = &MemoryPool> {
        let pools = self.pools.values();
        pools.filter(move |pool| pool.device == device)
    }

    /// Adds a pool.
    pub(crate) fn add_pool(&mut self, device: u32, bytes_max: u64) -> PoolHandle {
        let handle = self.handles.next();
        self.pools
            .insert(handle, MemoryPool::new(device, bytes_max));
        handle
    }

    /// Destroys an own pool. Its memory stays until the last allocation is freed; a device whose
    /// current pool it is allocates from the default pool again.
    pub(crate) fn destroy_pool(&mut self, handle: PoolHandle) -> CallResult<()> {
        let device = self.pool(handle)?.device as usize;
        let device = &mut self.devices[device];
        if device.default_pool == handle {
            let text = format!("{} is the default pool of its device", name(handle));
            return Err(self.violation(ReportKind::BadArgument, ResultCode::INVALID_VALUE, text));
        }
        if device.current_pool == handle {
            device.current_pool = device.default_pool;
        }
        self.known_pool(handle).destroyed = true;
        self.drop_unused_pool(handle);
        Ok(())
    }

    /// Removes a destroyed pool once it has no allocations.
    pub(crate) fn drop_unused_pool(&mut self, handle: PoolHandle) {
        let unused = |pool: &MemoryPool| pool.destroyed && pool.bytes.usage().used_bytes == 0;
        if self.pools.get(&handle).is_some_and(unused) {
            self.pools.remove(&handle);
        }
    }

    /// Returns the kinds of reuse across streams that the pool's attributes and the rules allow.
    pub(crate) fn reuse(&self, pool: &MemoryPool) -> Reuse {
        if self.config.rules.cross_stream_reuse.is_strict() {
            return Reuse::NONE;
        }
        pool.bytes.reuse()
    }
}
