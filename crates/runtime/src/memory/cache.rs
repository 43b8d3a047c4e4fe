//! The cache of device memory: dropped blocks, kept for the next array of their size.
//!
//! Allocating from the driver's pool and freeing are two calls; reusing a cached block costs none.
//! A block is cached with the tickets that may still use it. It becomes an array on a stream that
//! is ordered after all of them, which `allocation.rs` finds out from the tracker's clocks without
//! a driver call, so reuse makes no stream wait. The tickets become the history of the new array: a
//! stream that is not ordered after them waits for them on the device.
//!
//! A block of zeros is known as such (`Contents`). It serves an array of zeros before others do, so
//! that such an array needs no fill, and any other array if no other block does.
//!
//! Blocks are reused whole and for their exact size. The driver's pool splits and joins memory:
//! blocks that stay unused for long, or exceed the limit, return to it in stream order.

use std::collections::{BTreeMap, VecDeque};

use super::free::{Contents, DroppedBlock, FreeingBlock, release};
use crate::{context::DeviceState, tracker::Ticket};

const LIMIT_BYTES_DEFAULT: u64 = 1 << 30;
/// The number of blocks of a size that a lookup examines, newest first.
const SCAN_MAX: usize = 32;
/// The number of misses after which an unused block is evicted.
const MISSES_MAX: u64 = 256;
/// The number of entries for removed blocks that `ages` may always hold.
const AGES_MIN: usize = 64;

/// Blocks to be freed, usually none, which is cheap to move.
pub(super) type Evicted = Vec<DroppedBlock>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheStats {
    /// Bytes of the cached blocks.
    pub(super) cached_bytes: u64,
    pub(super) limit_bytes: u64,
    /// The number of arrays that reused a cached block.
    pub(super) hits: u64,
    /// The number of arrays that were allocated from the driver's pool.
    pub(super) misses: u64,
}

/// A cached block with its sequence number.
#[derive(Debug)]
struct CachedBlock {
    block: DroppedBlock,
    number: u64,
}

/// The age of a block, which may have been removed since.
#[derive(Debug)]
struct Age {
    number: u64,
    bytes: u64,
    /// The number of misses when the block was cached.
    since_misses: u64,
}

/// The cache of one device's memory.
#[derive(Debug)]
pub(super) struct Cache {
    /// Blocks by size, oldest first.
    sizes: BTreeMap<u64, VecDeque<CachedBlock>>,
    /// The ages of the cached blocks and of some removed ones, oldest first.
    ages: VecDeque<Age>,
    blocks: usize,
    /// The number of blocks ever cached.
    count: u64,
    stats: CacheStats,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            sizes: BTreeMap::new(),
            ages: VecDeque::new(),
            blocks: 0,
            count: 0,
            stats: CacheStats {
                cached_bytes: 0,
                limit_bytes: LIMIT_BYTES_DEFAULT,
                hits: 0,
                misses: 0,
            },
        }
    }
}

impl Cache {
    /// Removes the newest block of this size whose uses all satisfy `wanted`, among the newest
    /// [`SCAN_MAX`]. Blocks with these contents come first.
    fn take_wanted(
        &mut self,
        bytes: u64,
        contents: Contents,
        mut wanted: impl FnMut(Ticket) -> bool,
    ) -> Option<DroppedBlock> {
        let blocks = self.sizes.get_mut(&bytes)?;
        let mut back = None;
        for (at, cached) in blocks.iter().rev().take(SCAN_MAX).enumerate() {
            let is_better = cached.block.contents == contents || back.is_none();
            if is_better && cached.block.uses.iter().all(|&ticket| wanted(ticket)) {
                back = Some(at);
                if cached.block.contents == contents {
                    break;
                }
            }
        }
        let back = back?;
        let block = blocks.remove(blocks.len() - 1 - back)?.block;
        self.blocks -= 1;
        self.stats.cached_bytes -= bytes;
        Some(block)
    }

    /// Removes the oldest block, if it was cached before the given number of misses.
    fn take_oldest(&mut self, before_misses: u64) -> Option<DroppedBlock> {
        while let Some(oldest) = self.ages.front() {
            let &Age {
                number,
                bytes,
                since_misses,
            } = oldest;
            let blocks = self.sizes.get_mut(&bytes);
            let is_first = |first: &CachedBlock| first.number == number;
            let first = blocks.filter(|blocks| blocks.front().is_some_and(is_first));
            if first.is_some() && since_misses > before_misses {
                return None;
            }
            self.ages.pop_front();
            if let Some(blocks) = first {
                let block = blocks.pop_front()?.block;
                if blocks.is_empty() {
                    self.sizes.remove(&bytes);
                }
                self.blocks -= 1;
                self.stats.cached_bytes -= bytes;
                return Some(block);
            }
        }
        None
    }

    /// Counts a miss, and evicts blocks that have been unused for too long.
    fn miss(&mut self) -> Evicted {
        self.stats.misses += 1;
        let mut evicted = Evicted::new();
        let Some(before_misses) = self.stats.misses.checked_sub(MISSES_MAX) else {
            return evicted;
        };
        evicted.extend(std::iter::from_fn(|| self.take_oldest(before_misses)));
        evicted
    }

    /// Records the age of a new block, and removes the entries of removed blocks once there are
    /// many.
    fn note_age(&mut self, bytes: u64) -> u64 {
        self.count += 1;
        self.ages.push_back(Age {
            number: self.count,
            bytes,
            since_misses: self.stats.misses,
        });
        if self.ages.len() > 2 * self.blocks + AGES_MIN {
            self.sizes.retain(|_, blocks| !blocks.is_empty());
            let sizes = &self.sizes;
            let newest = self.count;
            self.ages.retain(|age| {
                let blocks = sizes.get(&age.bytes);
                let is_here = |blocks: &VecDeque<CachedBlock>| {
                    blocks
                        .binary_search_by_key(&age.number, |cached| cached.number)
                        .is_ok()
                };
                age.number == newest || blocks.is_some_and(is_here)
            });
        }
        self.count
    }

    /// Removes a block of exactly this size whose uses are all `ordered` before the next use,
    /// preferably with these contents. If there is none, returns the blocks that are evicted
    /// because they have been unused for too long.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        contents: Contents,
        ordered: impl FnMut(Ticket) -> bool,
    ) -> (Option<DroppedBlock>, Evicted) {
        let block = self.take_wanted(bytes, contents, ordered);
        let evicted = if block.is_some() {
            self.stats.hits += 1;
            Evicted::new()
        } else {
            self.miss()
        };
        (block, evicted)
    }

    /// Caches a block. Returns the evicted blocks, which may include the block itself.
    pub(super) fn put(&mut self, block: DroppedBlock) -> Evicted {
        let Some(room) = self.stats.limit_bytes.checked_sub(block.bytes) else {
            return vec![block];
        };
        let evicted = self.shrink(room);
        let number = self.note_age(block.bytes);
        self.blocks += 1;
        self.stats.cached_bytes += block.bytes;
        let blocks = self.sizes.entry(block.bytes).or_default();
        blocks.push_back(CachedBlock { block, number });
        evicted
    }

    pub(super) fn set_limit(&mut self, limit_bytes: u64) -> Evicted {
        self.stats.limit_bytes = limit_bytes;
        self.shrink(limit_bytes)
    }

    /// Evicts the oldest blocks until at most `bytes` bytes are cached.
    pub(super) fn shrink(&mut self, bytes: u64) -> Evicted {
        let mut evicted = Evicted::new();
        while self.stats.cached_bytes > bytes {
            let Some(block) = self.take_oldest(u64::MAX) else {
                break;
            };
            evicted.push(block);
        }
        evicted
    }

    pub(super) fn stats(&self) -> CacheStats {
        self.stats
    }
}

/// Frees blocks in stream order. Until their frees are enqueued they count as allocated.
pub(super) fn evict(device: &DeviceState, evicted: Evicted) {
    for block in evicted {
        let reservation = device.memory().budget.reserve_again(block.bytes);
        release(device, FreeingBlock { block, reservation });
    }
}

pub(crate) fn empty(device: &DeviceState) {
    evict(
        device,
        device.memory().budget.with_cache(|cache| cache.shrink(0)),
    );
}

#[cfg(test)]
mod tests {
    use millstream_driver::DevicePtr;

    use super::*;
    use crate::tracker::StreamId;

    fn block(address: u64, bytes: u64, uses: &[(u64, u64)]) -> DroppedBlock {
        let ticket = |&(stream, sequence)| Ticket::of(stream, sequence);
        DroppedBlock {
            pointer: DevicePtr::from_raw(address),
            bytes,
            origin: StreamId::of(1),
            uses: uses.iter().map(ticket).collect(),
            contents: Contents::Undefined,
        }
    }

    fn zeros(address: u64, bytes: u64, uses: &[(u64, u64)]) -> DroppedBlock {
        DroppedBlock {
            contents: Contents::Zeros,
            ..block(address, bytes, uses)
        }
    }

    fn addresses(blocks: &Evicted) -> Vec<u64> {
        blocks.iter().map(|block| block.pointer.as_raw()).collect()
    }

    fn taken(cache: &mut Cache, bytes: u64, ordered: impl FnMut(Ticket) -> bool) -> Option<u64> {
        cache
            .take(bytes, Contents::Undefined, ordered)
            .0
            .map(|block| block.pointer.as_raw())
    }

    #[test]
    fn a_block_is_given_out_for_its_size_once_all_its_uses_are_ordered() {
        let mut cache = Cache::default();
        assert!(cache.put(block(16, 100, &[(1, 5), (2, 3)])).is_empty());
        let first = |ticket: Ticket| ticket.stream == StreamId::of(1);
        assert_eq!(
            taken(&mut cache, 100, first),
            None,
            "stream 2 may still use it"
        );
        assert_eq!(taken(&mut cache, 99, |_| true), None);
        assert_eq!(cache.stats().cached_bytes, 100);
        assert_eq!(taken(&mut cache, 100, |_| true), Some(16));
        let CacheStats {
            cached_bytes,
            hits,
            misses,
            ..
        } = cache.stats();
        assert_eq!((cached_bytes, hits, misses), (0, 1, 2));
    }

    #[test]
    fn of_several_the_newest_ordered_one_is_taken() {
        let mut cache = Cache::default();
        for (address, sequence) in [(16, 1), (32, 2), (48, 3)] {
            cache.put(block(address, 8, &[(1, sequence)]));
        }
        assert_eq!(
            taken(&mut cache, 8, |ticket| ticket.sequence.get() <= 2),
            Some(32)
        );
        assert_eq!(taken(&mut cache, 8, |_| true), Some(48));
        assert_eq!(taken(&mut cache, 8, |_| true), Some(16));
    }

    #[test]
    fn zeros_serve_zeros_first_and_other_arrays_last() {
        let mut cache = Cache::default();
        let mut taken = |blocks: &[fn() -> DroppedBlock], contents| {
            for block in blocks {
                cache.put(block());
            }
            let block = cache
                .take(8, contents, |ticket| ticket.sequence.get() <= 2)
                .0;
            cache.shrink(0);
            block.map(|block| block.pointer.as_raw())
        };
        let (old, new) = (|| block(16, 8, &[(1, 1)]), || block(32, 8, &[(1, 2)]));
        let (kept, busy) = (|| zeros(48, 8, &[(1, 1)]), || zeros(64, 8, &[(1, 3)]));
        assert_eq!(taken(&[kept, old, new], Contents::Zeros), Some(48));
        assert_eq!(taken(&[old, new, kept], Contents::Undefined), Some(32));
        assert_eq!(taken(&[kept], Contents::Undefined), Some(48));
        assert_eq!(taken(&[old, busy], Contents::Zeros), Some(16));
        assert_eq!(taken(&[busy], Contents::Zeros), None);
    }

    #[test]
    fn the_oldest_blocks_are_evicted_at_the_limit() {
        let mut cache = Cache::default();
        cache.set_limit(20);
        cache.put(block(16, 10, &[]));
        assert_eq!(
            taken(&mut cache, 1, |_| true),
            None,
            "so that the next one is younger"
        );
        cache.put(block(32, 6, &[]));
        assert_eq!(addresses(&cache.put(block(48, 10, &[]))), [16]);
        assert_eq!(
            addresses(&cache.put(block(64, 21, &[]))),
            [64],
            "it is too large by itself"
        );
        assert_eq!(cache.stats().cached_bytes, 16);
        assert_eq!(addresses(&cache.set_limit(10)), [32]);
        assert_eq!(addresses(&cache.shrink(0)), [48]);
        assert_eq!(cache.stats().cached_bytes, 0);
    }

    #[test]
    fn ages_of_removed_blocks_are_dropped() {
        let mut cache = Cache::default();
        cache.put(block(16, 10, &[]));
        for _ in 0..10_000 {
            cache.put(block(32, 12, &[]));
            assert_eq!(taken(&mut cache, 12, |_| true), Some(32));
        }
        assert!(cache.ages.len() <= AGES_MIN + 2, "{}", cache.ages.len());
        cache.put(block(48, 12, &[]));
        assert_eq!(addresses(&cache.shrink(0)), [16, 48]);
        assert_eq!((cache.blocks, cache.sizes.len()), (0, 0));
    }

    #[test]
    fn an_unused_block_is_evicted_after_many_misses() {
        let mut cache = Cache::default();
        cache.put(block(16, 10, &[]));
        cache.put(block(32, 12, &[]));
        let mut gone = Vec::new();
        for miss in 1..=MISSES_MAX {
            if miss == MISSES_MAX / 2 {
                let block = cache
                    .take(12, Contents::Undefined, |_| true)
                    .0
                    .expect("it is there");
                cache.put(block);
            }
            gone.extend(addresses(&cache.take(1, Contents::Undefined, |_| true).1));
        }
        assert_eq!(gone, [16]);
        assert_eq!(cache.stats().cached_bytes, 12);
    }
}
