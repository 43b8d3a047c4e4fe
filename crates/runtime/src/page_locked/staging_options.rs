//! `StagingOptions`: chunk sizes and threads of copies through page-locked memory.

use std::{env, sync::LazyLock, thread};

/// Chunk sizes and threads of copies from and to pageable memory. The defaults gave the highest
/// bandwidth on an H200 with 16 cores; tests use tiny sizes to cover every boundary.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingOptions {
    /// The chunk size: the host's copy of a chunk overlaps with the device's copy of the chunk
    /// before.
    pub chunk_bytes: usize,
    /// The smallest block of page-locked memory. Larger blocks are powers of two.
    pub block_bytes_min: usize,
    /// The unit of work of a copy thread.
    pub subchunk_bytes: usize,
    /// The maximal number of chunks of an upload that are captured at the same time, so that the
    /// copy threads have work while the first chunk is submitted.
    pub capturing_max: usize,
    /// The number of blocks that an owned upload uses in turn.
    pub owned_blocks: usize,
    /// The number of blocks with which a download proceeds once the staging limit is reached.
    pub download_blocks: usize,
    /// The size up to which the calling thread copies alone, because waking others takes longer.
    pub alone_bytes: usize,
    /// The number of threads that copy for one transfer, including the caller.
    pub threads: usize,
    /// The size up to which uploads share blocks, the staging arenas.
    pub small_bytes: usize,
    /// The size of a staging arena.
    pub arena_bytes: usize,
    /// The size up to which owned sources are captured at once, because a host function takes
    /// longer.
    pub captured_bytes: usize,
    /// Capture of sources with non-temporal stores.
    pub upload_non_temporal: bool,
    /// Copying downloads out with non-temporal stores.
    pub download_non_temporal: bool,
}

/// The default limit of the number of copy threads.
const THREADS_MAX: usize = 12;

impl StagingOptions {
    /// Returns the default of [`threads`](Self::threads): the environment variable
    /// `MILLSTREAM_COPY_THREADS`, or three of four cores, up to [`THREADS_MAX`].
    fn threads_default() -> usize {
        static THREADS: LazyLock<usize> = LazyLock::new(|| {
            let threads = env::var("MILLSTREAM_COPY_THREADS").ok();
            let threads = threads.and_then(|threads| threads.parse::<usize>().ok());
            let cores = thread::available_parallelism().map_or(1, usize::from);
            threads.unwrap_or((cores * 3 / 4).min(THREADS_MAX)).max(1)
        });
        // Threads that shuttle does not control must not use its locks.
        if cfg!(shuttle) { 1 } else { *THREADS }
    }

    /// Returns the options with sizes of 0 replaced by usable ones.
    pub(crate) fn usable(self) -> Self {
        let small_bytes = self.small_bytes.max(1);
        Self {
            chunk_bytes: self.chunk_bytes.max(1),
            block_bytes_min: self.block_bytes_min.max(1),
            subchunk_bytes: self.subchunk_bytes.max(1),
            capturing_max: self.capturing_max.max(1),
            owned_blocks: self.owned_blocks.max(1),
            download_blocks: self.download_blocks.max(1),
            threads: self.threads.max(1),
            small_bytes,
            arena_bytes: self.arena_bytes.max(small_bytes),
            ..self
        }
    }
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 4 << 20,
            block_bytes_min: 4096,
            subchunk_bytes: 512 << 10,
            capturing_max: 4,
            owned_blocks: 3,
            download_blocks: 4,
            alone_bytes: 1 << 20,
            threads: Self::threads_default(),
            small_bytes: 64 << 10,
            arena_bytes: 256 << 10,
            captured_bytes: 1 << 20,
            upload_non_temporal: false,
            download_non_temporal: true,
        }
    }
}
