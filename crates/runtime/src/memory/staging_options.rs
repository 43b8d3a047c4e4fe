//! `StagingOptions`: into what copies by way of page-locked memory are cut, and how many threads
//! make them.

use std::{env, sync::LazyLock, thread};

/// How copies of pageable memory are cut and shared out. The defaults are what an H200 and its 16
/// cores did best with; tests have sizes so small that every edge is met.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingOptions {
    /// Copies go in chunks of this size, so that one leg of a chunk overlaps with the other leg of
    /// the chunk before.
    pub chunk_bytes: usize,
    /// The smallest block of page-locked memory. Sizes are powers of two from here on.
    pub block_bytes_min: usize,
    /// What a thread copies at a time.
    pub subchunk_bytes: usize,
    /// How many chunks of an upload are being captured at most: enough for the copy threads to have
    /// work while the first is submitted.
    pub capturing_max: usize,
    /// How many blocks an upload that took over its source uses in turn.
    pub owned_blocks: usize,
    /// Where the staging limit is reached, a download that has so many blocks makes do with them.
    pub download_blocks: usize,
    /// Up to this size the calling thread copies alone: that is quicker than to wake others.
    pub alone_bytes: usize,
    /// How many threads copy for one transfer, the calling one included.
    pub threads: usize,
    /// Uploads of up to this size share blocks.
    pub small_bytes: usize,
    /// The size of the blocks that they share.
    pub arena_bytes: usize,
    /// Sources of up to this size are captured at once even if they are owned: that is quicker than
    /// to come back for them.
    pub captured_bytes: usize,
    /// Whether sources are captured past the caches.
    pub upload_non_temporal: bool,
    /// Whether downloads are copied out past the caches.
    pub download_non_temporal: bool,
}

/// How many threads copy at most, unless someone says otherwise.
const THREADS_MAX: usize = 12;

impl StagingOptions {
    /// As [`threads`](Self::threads): three of four cores, for the others have work of their own,
    /// or what the environment says.
    fn threads_default() -> usize {
        static THREADS: LazyLock<usize> = LazyLock::new(|| {
            let asked = env::var("MILLSTREAM_COPY_THREADS").ok();
            let asked = asked.and_then(|asked| asked.parse::<usize>().ok());
            let cores = thread::available_parallelism().map_or(1, usize::from);
            asked.unwrap_or((cores * 3 / 4).min(THREADS_MAX)).max(1)
        });
        // Shuttle's locks are not for threads that it does not know.
        if cfg!(shuttle) { 1 } else { *THREADS }
    }

    /// The same with sizes that can be used: none is 0.
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
