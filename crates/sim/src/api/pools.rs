//! The calls of own memory pools, which only programs of CUDA's driver API make.

#![allow(unsafe_code, reason = "the calls have the contracts of the driver's")]

use millstream_driver::{ContextHandle, DeviceOrdinal, DevicePtr, PoolHandle, StreamHandle};

use super::driver::{Result, other};
use crate::{Gpu, memory::pool::Reuse};

/// The settings of a memory pool.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver};
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let pool = gpu.default_pool(DeviceOrdinal::from_raw(0)).unwrap();
/// let settings = gpu.pool_settings(pool).unwrap();
/// assert!(settings.reuses_idle && settings.release_threshold == 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSettings {
    /// The device whose memory the pool has.
    pub device: DeviceOrdinal,
    /// The maximum number of reserved bytes; 0 for as many as the device has.
    pub bytes_max: u64,
    /// The number of reserved bytes that the pool keeps at a synchronisation.
    pub release_threshold: u64,
    /// True if an allocation may reuse memory that another stream has freed
    /// (`CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`).
    pub reuses_idle: bool,
    /// True if an allocation may wait for a pending free of another stream
    /// (`CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`).
    pub reuses_behind_frees: bool,
    /// The other devices that can access the memory.
    pub accessible_to: Vec<DeviceOrdinal>,
}

impl Gpu {
    /// Creates a memory pool of a device (`cuMemPoolCreate`), which reserves at most `bytes_max`
    /// bytes; 0 for as many as the device has.
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver};
    /// use millstream_sim::{Gpu, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// let pool = gpu.pool_create(DeviceOrdinal::from_raw(0), 1 << 20).unwrap();
    /// // SAFETY: the pool is alive, and not used after it is destroyed.
    /// unsafe {
    ///     assert_eq!(gpu.pool_usage(pool).unwrap().reserved_bytes, 0);
    ///     gpu.pool_destroy(pool).unwrap();
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// `INVALID_DEVICE` if there is no such device.
    pub fn pool_create(&self, device: DeviceOrdinal, bytes_max: u64) -> Result<PoolHandle> {
        self.call("cuMemPoolCreate", other, |state| {
            state.pool_create(device, bytes_max)
        })
    }

    /// Destroys an own pool (`cuMemPoolDestroy`). Returns at once: the memory of the pool stays
    /// until its last allocation is freed. If it was its device's current pool, the default pool
    /// is.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a default pool.
    ///
    /// # Safety
    ///
    /// The handle is not used again.
    pub unsafe fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        self.call("cuMemPoolDestroy", other, |state| state.destroy_pool(pool))
    }

    /// Allocates from a pool in stream order (`cuMemAllocFromPoolAsync`), as
    /// [`mem_alloc_async`](millstream_driver::Driver::mem_alloc_async) does from the current pool
    /// of the stream's device. The pool may be another device's.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY` if the pool cannot provide the bytes.
    ///
    /// # Safety
    ///
    /// `stream` is alive and belongs to `context`; `pool` is alive; `bytes` is not 0.
    pub unsafe fn mem_alloc_from_pool_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        pool: PoolHandle,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        self.call(
            "cuMemAllocFromPoolAsync",
            |cost| cost.pool_call_ns,
            |state| state.mem_alloc_async(context, bytes, Some(pool), stream),
        )
    }

    /// Returns the pool of allocations that name none (`cuDeviceGetMemPool`): the default pool,
    /// until another is set.
    ///
    /// # Errors
    ///
    /// `INVALID_DEVICE` if there is no such device.
    pub fn device_pool(&self, device: DeviceOrdinal) -> Result<PoolHandle> {
        self.call("cuDeviceGetMemPool", other, |state| {
            let index = state.device_index(device)?;
            Ok(state.devices[index].current_pool)
        })
    }

    /// Sets the pool of allocations that name none (`cuDeviceSetMemPool`).
    ///
    /// ```
    /// use millstream_driver::{DeviceOrdinal, Driver};
    /// use millstream_sim::{Gpu, SimConfig};
    /// let gpu = Gpu::new(SimConfig::new());
    /// let device = DeviceOrdinal::from_raw(0);
    /// let pool = gpu.pool_create(device, 0).unwrap();
    /// gpu.device_set_pool(device, pool).unwrap();
    /// assert_eq!(gpu.device_pool(device).unwrap(), pool);
    /// ```
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a pool of another device.
    pub fn device_set_pool(&self, device: DeviceOrdinal, pool: PoolHandle) -> Result<()> {
        self.call("cuDeviceSetMemPool", other, |state| {
            state.device_set_pool(device, pool)
        })
    }

    /// Sets how allocations of a pool may reuse memory that another stream freed, before the host
    /// has synchronised (rules 34 and 35).
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a handle that is not alive.
    pub fn pool_set_reuse(
        &self,
        pool: PoolHandle,
        reuses_idle: bool,
        reuses_behind_frees: bool,
    ) -> Result<()> {
        self.call("cuMemPoolSetAttribute", other, |state| {
            state.pool(pool)?.bytes.set_reuse(Reuse {
                opportunistic: reuses_idle,
                internal_dependencies: reuses_behind_frees,
            });
            Ok(())
        })
    }

    /// Makes the current number of reserved bytes, or of used ones, the peak.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a handle that is not alive.
    pub fn pool_reset_peak(&self, pool: PoolHandle, of_reserved: bool) -> Result<()> {
        self.call("cuMemPoolSetAttribute", other, |state| {
            let bytes = &mut state.pool(pool)?.bytes;
            if of_reserved {
                bytes.reset_reserved_peak();
            } else {
                bytes.reset_used_peak();
            }
            Ok(())
        })
    }

    /// Returns the settings of a pool; `None` for a handle that is not alive.
    #[must_use]
    pub fn pool_settings(&self, pool: PoolHandle) -> Option<PoolSettings> {
        let state = self.enter();
        let found = state.pools.get(&pool).filter(|pool| !pool.destroyed)?;
        let reuse = found.bytes.reuse();
        let devices = found.access.keys();
        Some(PoolSettings {
            device: DeviceOrdinal::from_raw(found.device as i32),
            bytes_max: found.bytes_max,
            release_threshold: found.bytes.release_threshold(),
            reuses_idle: reuse.opportunistic,
            reuses_behind_frees: reuse.internal_dependencies,
            accessible_to: devices
                .map(|device| DeviceOrdinal::from_raw(*device as i32))
                .collect(),
        })
    }
}
