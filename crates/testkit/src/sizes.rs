//! Chunk sizes of pageable copies and limits of kept memory: the device's defaults, or sizes so
//! small that tests reach every boundary. `MILLSTREAM_SIZES=tiny` selects the smallest sizes in all
//! tests that draw them.

use std::{env, fmt, str::FromStr};

use millstream::{Device, StagingOptions};

/// The environment variable that selects the sizes.
const VARIABLE: &str = "MILLSTREAM_SIZES";
const TINY_CACHE_BYTES: u64 = 64 << 10;
const TINY_CHUNK_BYTES: usize = 1024;
/// The staging limit of the tiny sizes: two chunks.
const TINY_STAGING_BYTES: u64 = 2 * TINY_CHUNK_BYTES as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The device's defaults.
    Own,
    /// Chunks of nearly 4 KiB with unaligned ends, in subchunks copied by four threads.
    Odd,
    /// Chunks of 1 KiB, two of them in flight, copied by `threads` threads, and a cache of 64 KiB.
    Tiny { threads: usize },
}

impl Sizes {
    /// Returns the sizes that the environment selects for the case of this number, if any.
    pub fn asked(number: usize) -> Option<Self> {
        match env::var(VARIABLE).ok()?.as_str() {
            "tiny" => Some(Self::tiny(number)),
            other => panic!("{VARIABLE}: `{other}` is no choice, `tiny` is"),
        }
    }

    /// Returns the tiny sizes, with four threads for even numbers and one for odd ones.
    pub fn tiny(number: usize) -> Self {
        let threads = if number.is_multiple_of(2) { 4 } else { 1 };
        Self::Tiny { threads }
    }

    /// Applies the sizes to a device; returns whether the device had not copied anything yet, which
    /// is required.
    ///
    /// With `is_bounded`, page-locked memory is limited as well: copies then block until earlier
    /// ones complete, so no earlier operation may wait for the host.
    pub fn set(self, device: &Device, is_bounded: bool) -> bool {
        let staging_options = match self {
            Self::Own => return true,
            Self::Odd => StagingOptions {
                chunk_bytes: 4093,
                subchunk_bytes: 500,
                alone_bytes: 700,
                threads: 4,
                small_bytes: 300,
                arena_bytes: 1024,
                captured_bytes: 1000,
                upload_non_temporal: true,
                ..StagingOptions::default()
            },
            Self::Tiny { threads } => StagingOptions {
                chunk_bytes: TINY_CHUNK_BYTES,
                block_bytes_min: 64,
                subchunk_bytes: 256,
                capturing_max: 2,
                owned_blocks: 2,
                download_blocks: 2,
                alone_bytes: 100,
                threads,
                small_bytes: 200,
                arena_bytes: 512,
                captured_bytes: 0,
                upload_non_temporal: true,
                download_non_temporal: false,
            },
        };
        if matches!(self, Self::Tiny { .. }) {
            device.set_cache_limit(TINY_CACHE_BYTES);
            if is_bounded {
                device.set_staging_limit(TINY_STAGING_BYTES);
            }
        }
        device.set_staging_options(staging_options)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => write!(f, "own-sizes"),
            Self::Odd => write!(f, "odd-sizes"),
            Self::Tiny { threads } => write!(f, "tiny-sizes-{threads}"),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Own, Self::Odd, Self::tiny(0), Self::tiny(1)];
        let found = known.into_iter().find(|sizes| sizes.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is no choice of sizes"))
    }
}
