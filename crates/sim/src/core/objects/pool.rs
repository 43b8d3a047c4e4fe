//! Memory pools.

use millstream_ptx::Site;

use super::device::Grants;
use crate::memory::pool::Pool;

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
