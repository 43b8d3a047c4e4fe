//! The memory pools of all devices: the default pool of each, and own pools of the caller.

use millstream_driver::{PoolHandle, ResultCode};

use super::{call_error::CallResult, objects::pool::MemoryPool, state::SimState};
use crate::{ReportKind, ids::name, memory::pool::Reuse};

impl SimState {
    /// Returns the pool with this handle. Fails if there is none, or it was destroyed.
    pub(crate) fn pool(&mut self, handle: PoolHandle) -> CallResult<&mut MemoryPool> {
        if self.pools.get(&handle).is_none_or(|pool| pool.destroyed) {
            let (kind, text) = self.handles.explain(handle);
            return Err(self.violation(kind, ResultCode::INVALID_VALUE, text));
        }
        Ok(self.pool_mut(handle))
    }

    /// Returns a pool that has allocations, or was looked up before.
    pub(crate) fn pool_mut(&mut self, handle: PoolHandle) -> &mut MemoryPool {
        self.pools
            .get_mut(&handle)
            .expect("a pool lives as long as its allocations")
    }

    /// Returns the pools of a device, also destroyed ones with allocations.
    pub(crate) fn pools_of(&self, device: u32) -> impl Iterator<Item = &MemoryPool> {
        let pools = self.pools.values();
        pools.filter(move |pool| pool.device == device)
    }

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
        self.pool_mut(handle).destroyed = true;
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
