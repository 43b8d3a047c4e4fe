//! `MemoryStats`: what a device's memory is used for; and the settings that bound it.

use super::{StagingOptions, cache::evict, out_of_memory};
use crate::{Device, Result};

/// What a device's memory is used for, in bytes, as [`Device::memory_stats`] found it.
///
/// Millstream counts its own arrays, managed ones apart; the pool's and the device's figures are
/// the driver's, and count what other libraries and programs do as well.
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
    /// Bytes of the arrays that live. One that was dropped and is not kept counts until its free is
    /// enqueued, which is at once unless another thread is in the middle of using its stream.
    pub allocated_bytes: u64,
    /// The most that `allocated_bytes` has been.
    pub allocated_peak_bytes: u64,
    /// How many arrays these are; those without elements take no memory and do not count.
    pub allocations: u64,
    /// The most that `allocated_bytes` may be: see [`Device::set_memory_limit`].
    pub limit_bytes: Option<u64>,
    /// Bytes of dropped arrays that are kept for the next ones of their sizes.
    pub cached_bytes: u64,
    /// The most that `cached_bytes` may be: see [`Device::set_cache_limit`].
    pub cache_limit_bytes: u64,
    /// How many arrays were made of memory that was kept.
    pub cache_hits: u64,
    /// How many were not, so that the device's pool was asked.
    pub cache_misses: u64,
    /// Given out by the device's pool and not yet freed, what is kept included: by work on the
    /// device, unlike `allocated_bytes`.
    pub used_bytes: u64,
    /// The most that `used_bytes` has been.
    pub used_peak_bytes: u64,
    /// Held by the device's pool, used or not.
    pub reserved_bytes: u64,
    /// The most that `reserved_bytes` has been.
    pub reserved_peak_bytes: u64,
    /// Free on the device, other programs considered.
    pub free_bytes: u64,
    /// All of the device's memory.
    pub total_bytes: u64,
    /// Page-locked memory of the host: in [`Pinned`](crate::Pinned) arrays, in downloads that
    /// nobody has taken, and kept.
    pub page_locked_bytes: u64,
    /// The part of `page_locked_bytes` that is kept: copies may still be using it, and whoever
    /// comes next will.
    pub page_locked_kept_bytes: u64,
    /// How much page-locked memory is made before what is kept is waited for: see
    /// [`Device::set_staging_limit`].
    pub staging_limit_bytes: u64,
}

impl Device {
    /// What the device's memory is used for.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        out_of_memory::stats(self.state())
    }

    /// Bounds the bytes of all arrays of the device together, those in managed memory apart, or
    /// lifts the bound. An allocation beyond it fails before the driver is asked. Arrays that live
    /// already stay, even if they are more.
    ///
    /// ```
    /// use millstream::{Device, Error};
    ///
    /// let device = Device::simulated()?;
    /// device.set_memory_limit(Some(1000));
    /// let Err(Error::OutOfMemory(full)) = device.stream()?.zeros::<u8>(1001) else { unreachable!("it is one too many") };
    /// assert_eq!(full.limit_bytes, Some(1000));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.state().memory().budget.set_limit(limit_bytes);
    }

    /// Bounds the device memory that is kept when arrays are dropped, 1 GiB unless set; 0 keeps
    /// none.
    ///
    /// What is kept becomes the next array of exactly its size, without a call to the driver, on a
    /// stream that is ordered after its last uses. What nobody wants for a while, or what is too
    /// much, is freed in stream order. Where the device has no room, all of it is.
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

    /// Bounds the page-locked memory of the host that Millstream makes for copies, 256 MiB unless
    /// set.
    ///
    /// Where more would be needed, memory that was used before is used again: uploads and downloads
    /// then block until the device has finished with some that is large enough. A download that is
    /// larger than the limit copies its first elements out before the last are submitted. Where
    /// none is large enough, or programs hold it all, as [`Pinned`](crate::Pinned) arrays or as
    /// downloads not taken, more is made all the same. While the device is idle, what is kept
    /// beyond the limit is given back to the system.
    ///
    /// Copies of a MiB and more between this memory and a program's own are shared out to threads
    /// of the process, as many as three of four of its cores, the calling thread among them, up to
    /// 12; or to as many as the environment variable `MILLSTREAM_COPY_THREADS` said when the first
    /// of them was made. They sleep while there is nothing to copy.
    pub fn set_staging_limit(&self, limit_bytes: u64) {
        self.state().memory().staging.set_limit(limit_bytes);
    }

    /// Sets how copies of pageable memory are cut and shared out: for measurements and tests.
    /// `false` if such a copy was made already, or this was set before.
    #[doc(hidden)]
    pub fn set_staging_options(&self, staging_options: StagingOptions) -> bool {
        self.state().set_staging_options(staging_options)
    }

    /// Gives memory that nobody uses back to the system: what is kept of dropped arrays, the
    /// pool's, and, while none of the device's streams has work, page-locked memory. Otherwise that
    /// would make the caller wait for all of it (rule 30).
    ///
    /// What was freed a moment ago may stay.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn trim(&self) -> Result<()> {
        out_of_memory::trim(self.state())
    }
}
