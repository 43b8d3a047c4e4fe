//! In what sizes a device copies pageable memory, and how much memory it keeps: as it does by
//! itself, or so little that every edge is met. `MILLSTREAM_SIZES=tiny` makes all tests that draw a
//! choice choose the least.

use std::{env, fmt, str::FromStr};

use millstream::{Device, StagingOptions};

/// The environment variable that says in which sizes everything runs.
const VARIABLE: &str = "MILLSTREAM_SIZES";
/// How much of dropped arrays the tiny choice keeps.
const TINY_CACHE_BYTES: u64 = 64 << 10;
/// The chunks of the tiny choice.
const TINY_CHUNK_BYTES: usize = 1024;
/// Blocks for two of them.
const TINY_STAGING_BYTES: u64 = 2 * TINY_CHUNK_BYTES as u64;

/// A choice of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// What a device does by itself.
    Own,
    /// Pieces of nearly 4 KiB whose ends lie anywhere, in parts that four threads take.
    Odd,
    /// Pieces of 1 KiB, two of them on their way, copied by so many threads, and a cache of 64 KiB.
    Tiny { threads: usize },
}

impl Sizes {
    /// What the environment asks for, if it does, for the case of this number.
    pub(crate) fn asked(number: usize) -> Option<Self> {
        match env::var(VARIABLE).ok()?.as_str() {
            "tiny" => Some(Self::tiny(number)),
            other => panic!("{VARIABLE}: `{other}` is no choice, `tiny` is"),
        }
    }

    /// The tiny choice, every second time with one thread and else with four.
    pub(crate) fn tiny(number: usize) -> Self {
        let threads = if number.is_multiple_of(2) { 4 } else { 1 };
        Self::Tiny { threads }
    }

    /// Sets a device up that has copied nothing yet; says whether that was so.
    ///
    /// `is_bounded` says whether page-locked memory is, too: copies then block for those before
    /// them, and nobody may wait for the host meanwhile.
    pub(crate) fn set(self, device: &Device, is_bounded: bool) -> bool {
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
