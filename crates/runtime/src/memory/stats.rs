//! `MemoryStats`: memory statistics of a device, and the settings that limit its memory.

use super::{cache::evict, out_of_memory};
use crate::{Device, Result, StagingOptions};

/// The memory statistics of a device, in bytes, returned by [`Device::memory_stats`].
///
/// Millstream counts its own arrays, except managed ones. The figures of the pool and of the device
/// come from the driver and include other libraries and programs.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let before = device.memory_stats()?;
/// let buffer = stream.zeros::<f32>(1 << 20)?;
/// assert_eq!(device.memory_stats()?.allocated_bytes, 4 << 20);
/// drop(buffer);
/// assert_eq!(device.memory_stats()?.allocations, before.allocations);
/// assert_eq!(device.memory_stats()?.allocated_peak_bytes, 4 << 20);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes of live arrays. A dropped array that is not cached counts until its free is enqueued,
    /// which happens at once unless another thread is submitting to its stream.
    pub allocated_bytes: u64,
    /// The maximum of `allocated_bytes` so far.
    pub allocated_peak_bytes: u64,
    /// The number of live arrays. Arrays without elements take no memory and do not count.
    pub allocations: u64,
    /// The limit of `allocated_bytes`: see [`Device::set_memory_limit`].
    pub limit_bytes: Option<u64>,
    /// Bytes of dropped arrays that are cached for the next arrays of their sizes.
    pub cached_bytes: u64,
    /// The limit of `cached_bytes`: see [`Device::set_cache_limit`].
    pub cache_limit_bytes: u64,
    /// The number of arrays that reused cached memory.
    pub cache_hits: u64,
    /// The number of arrays that were allocated from the device's pool.
    pub cache_misses: u64,
    /// Bytes allocated from the device's pool and not yet freed by work on the device, including
    /// cached bytes.
    pub used_bytes: u64,
    /// The maximum of `used_bytes` so far.
    pub used_peak_bytes: u64,
    /// Bytes held by the device's pool, used or not.
    pub reserved_bytes: u64,
    /// The maximum of `reserved_bytes` so far.
    pub reserved_peak_bytes: u64,
    /// Free bytes on the device, with other programs taken into account.
    pub free_bytes: u64,
    /// The size of the device's memory.
    pub total_bytes: u64,
    /// Page-locked bytes of the host: in [`Pinned`](crate::Pinned) arrays, in pending downloads,
    /// and pooled.
    pub page_locked_bytes: u64,
    /// The pooled part of `page_locked_bytes`. Copies may still be using it.
    pub page_locked_kept_bytes: u64,
    /// The amount of page-locked memory above which copies wait for pooled memory: see
    /// [`Device::set_staging_limit`].
    pub staging_limit_bytes: u64,
}

impl Device {
    /// Returns the memory statistics.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("cuMemGetInfo", "cudaMemGetInfo", "mem_get_info", "memory_allocated"))]
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        out_of_memory::stats(self.state())
    }

    /// Limits the bytes of all arrays of the device together, except managed ones, or removes the
    /// limit. An allocation beyond the limit fails without a driver call. Live arrays stay, even
    /// beyond the limit.
    ///
    /// ```
    /// use millstream::{Device, Error};
    ///
    /// let device = Device::simulated()?;
    /// device.set_memory_limit(Some(1000));
    /// let Err(Error::OutOfMemory(full)) = device.stream()?.zeros::<u8>(1001) else {
    ///     unreachable!("the limit is 1000 bytes")
    /// };
    /// assert_eq!(full.limit_bytes, Some(1000));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[doc(alias("set_per_process_memory_fraction"))]
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.state().memory().budget.set_limit(limit_bytes);
    }

    /// Limits the device memory of dropped arrays that is cached. The default is 1 GiB; 0 disables
    /// the cache.
    ///
    /// A cached block becomes the next array of exactly its size, without a driver call, on a
    /// stream that is ordered after its last uses. Blocks that stay unused for long or exceed the
    /// limit are freed in stream order. When the device runs out of memory, all of them are.
    ///
    /// ```
    /// let device = millstream::Device::simulated()?;
    /// let stream = device.stream()?;
    /// for _ in 0..100 {
    ///     stream.zeros::<f32>(1 << 20)?; // dropped at once, and made of the same memory again
    /// }
    /// let memory = device.memory_stats()?;
    /// assert_eq!((memory.cache_hits, memory.cached_bytes), (99, 4 << 20));
    /// device.set_cache_limit(0);
    /// assert_eq!(device.memory_stats()?.cached_bytes, 0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn set_cache_limit(&self, limit_bytes: u64) {
        let device = self.state();
        evict(
            device,
            device
                .memory()
                .budget
                .with_cache(|cache| cache.set_limit(limit_bytes)),
        );
    }

    /// Limits the page-locked host memory that Millstream allocates for copies. The default is
    /// 256 MiB.
    ///
    /// At the limit, copies reuse memory: uploads and downloads block until the device has finished
    /// with a block that is large enough. A download larger than the limit copies its first
    /// elements out before its last are submitted. If no block is large enough, or the program
    /// holds all of them as [`Pinned`](crate::Pinned) arrays or pending downloads, more memory is
    /// allocated in spite of the limit. While all devices are idle, pooled memory beyond the limit
    /// is returned to the system.
    ///
    /// Copies of 1 MiB or more between this memory and a program's own memory are divided among
    /// threads of the process: three of four cores including the calling thread, at most 12; or the
    /// number in the environment variable `MILLSTREAM_COPY_THREADS` at the first such copy. They
    /// sleep while idle.
    pub fn set_staging_limit(&self, limit_bytes: u64) {
        self.state().page_locked().staging.set_limit(limit_bytes);
    }

    /// Sets the chunk sizes and threads of copies from and to pageable memory, for measurements and
    /// tests. Returns `false` if such a copy was made already, or the options were set before.
    #[doc(hidden)]
    pub fn set_staging_options(&self, staging_options: StagingOptions) -> bool {
        self.state().set_staging_options(staging_options)
    }

    /// Returns unused memory to the system: the cache of dropped arrays, the pool's unused memory
    /// and, if no stream of any device has work, page-locked memory. Freeing page-locked memory
    /// would otherwise wait for that work ([rule 30]).
    ///
    /// Memory that was freed a moment ago may stay.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    ///
    /// [rule 30]: crate::guide::semantics#rule-30
    #[doc(alias("cuMemPoolTrimTo", "cudaMemPoolTrimTo", "empty_cache"))]
    pub fn trim(&self) -> Result<()> {
        out_of_memory::trim(self.state())
    }
}
