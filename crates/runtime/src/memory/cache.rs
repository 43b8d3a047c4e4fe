//! The cache of device memory: blocks that nobody holds any more, kept for the next array of their size.
//!
//! Asking the driver's pool for memory and giving it back are two calls. A block that stays here costs none: it waits with
//! the operations that may still use it, and becomes an array on a stream that is ordered after all of them, known from the
//! tracker's clocks alone, so that nobody is made to wait for it. The new array begins with them as its history: a stream that
//! is not ordered after them waits for them, on the device.
//!
//! Blocks are given out whole and for their own size. Splitting and joining them is what the pool below does: what is here
//! for long without being asked for, or is too much, goes back there in stream order.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::{
    device::DeviceState,
    submit::{Freed, release},
    tracker::Ticket,
};

/// How much is kept unless someone says otherwise.
const LIMIT_BYTES_DEFAULT: u64 = 1 << 30;
/// How many of the newest blocks of a size are looked at.
const LOOK_AT_MAX: usize = 8;
/// A block for which this many others were looked for in vain has been here too long.
const MISSES_MAX: u64 = 256;
/// How often such blocks are looked for, in misses.
const MISSES_PER_SWEEP: u64 = 64;

/// Blocks that have to go.
pub(super) type Evicted = SmallVec<[Freed; 2]>;

/// How the cache does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheFigures {
    /// Bytes of the blocks here.
    pub(super) kept_bytes: u64,
    /// The most that they may be.
    pub(super) limit_bytes: u64,
    /// How many arrays were made of a block.
    pub(super) hits: u64,
    /// How many were asked of the driver's pool.
    pub(super) misses: u64,
}

/// A block, its number among all that came, and the number of misses when it did.
#[derive(Debug)]
struct Kept {
    block: Freed,
    number: u64,
    since_misses: u64,
}

/// What is kept of one device's memory: blocks by size, oldest first.
#[derive(Debug)]
pub(super) struct Cache {
    sizes: BTreeMap<u64, Vec<Kept>>,
    /// How many blocks have come.
    count: u64,
    figures: CacheFigures,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            sizes: BTreeMap::new(),
            count: 0,
            figures: CacheFigures {
                kept_bytes: 0,
                limit_bytes: LIMIT_BYTES_DEFAULT,
                hits: 0,
                misses: 0,
            },
        }
    }
}

impl Cache {
    /// Takes out the newest block of this size whose uses are all as wanted, out of a few.
    fn take_wanted(&mut self, bytes: u64, mut wanted: impl FnMut(Ticket) -> bool) -> Option<Freed> {
        let kept = self.sizes.get_mut(&bytes)?;
        let first = kept.len().saturating_sub(LOOK_AT_MAX);
        let fits = |kept: &Kept| kept.block.uses.iter().all(|&ticket| wanted(ticket));
        let at = first + kept[first..].iter().rposition(fits)?;
        let block = kept.remove(at).block;
        self.figures.kept_bytes -= bytes;
        Some(block)
    }

    /// Takes out the block that has been here longest.
    fn take_oldest(&mut self) -> Option<Freed> {
        let first = |(&bytes, kept): (&u64, &Vec<Kept>)| Some((kept.first()?.number, bytes));
        let (_, bytes) = self.sizes.iter().filter_map(first).min()?;
        let kept = self.sizes.get_mut(&bytes)?;
        let block = kept.remove(0).block;
        if kept.is_empty() {
            self.sizes.remove(&bytes);
        }
        self.figures.kept_bytes -= bytes;
        Some(block)
    }

    /// Counts a miss, and takes out what has been here too long.
    fn miss(&mut self) -> Evicted {
        self.figures.misses += 1;
        let mut evicted = Evicted::new();
        if !self.figures.misses.is_multiple_of(MISSES_PER_SWEEP) {
            return evicted;
        }
        let figures = &mut self.figures;
        self.sizes.retain(|&bytes, kept| {
            let stale = kept.partition_point(|kept| kept.since_misses + MISSES_MAX <= figures.misses);
            figures.kept_bytes -= bytes * stale as u64;
            evicted.extend(kept.drain(..stale).map(|kept| kept.block));
            !kept.is_empty()
        });
        evicted
    }

    /// A block of exactly this size, if there is one whose uses are all `ordered` before what will use it; if not, what has
    /// to go because nobody wants it.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        ordered: impl FnMut(Ticket) -> bool,
    ) -> (Option<Freed>, Evicted) {
        let taken = self.take_wanted(bytes, ordered);
        let evicted = if taken.is_some() {
            self.figures.hits += 1;
            Evicted::new()
        } else {
            self.miss()
        };
        (taken, evicted)
    }

    /// Keeps a block; gives what has to go for it, which may be the block itself.
    pub(super) fn put(&mut self, block: Freed) -> Evicted {
        let Some(room) = self.figures.limit_bytes.checked_sub(block.bytes) else {
            return Evicted::from_iter([block]);
        };
        let evicted = self.shrink(room);
        self.figures.kept_bytes += block.bytes;
        self.count += 1;
        let (number, since_misses) = (self.count, self.figures.misses);
        self.sizes.entry(block.bytes).or_default().push(Kept {
            block,
            number,
            since_misses,
        });
        evicted
    }

    /// Bounds what is kept; gives what has to go.
    pub(super) fn set_limit(&mut self, limit_bytes: u64) -> Evicted {
        self.figures.limit_bytes = limit_bytes;
        self.shrink(limit_bytes)
    }

    /// Takes out the oldest blocks, so that no more than so many bytes are left.
    pub(super) fn shrink(&mut self, bytes: u64) -> Evicted {
        let mut evicted = Evicted::new();
        while self.figures.kept_bytes > bytes {
            let Some(block) = self.take_oldest() else { break };
            evicted.push(block);
        }
        evicted
    }

    /// How the cache does.
    pub(super) fn figures(&self) -> CacheFigures {
        self.figures
    }
}

/// Frees blocks in stream order. Until that is enqueued, they count as allocated again.
pub(super) fn evict(device: &DeviceState, evicted: Evicted) {
    for block in evicted {
        device.account.recharge(block.bytes);
        release(device, block);
    }
}

/// Frees all that is kept.
pub(crate) fn empty(device: &DeviceState) {
    evict(device, device.account.with_cache(|cache| cache.shrink(0)));
}

#[cfg(test)]
mod tests {
    use millstream_driver::DevicePtr;

    use super::*;
    use crate::tracker::StreamId;

    fn block(address: u64, bytes: u64, uses: &[(u64, u64)]) -> Freed {
        let ticket = |&(stream, sequence)| Ticket::new(StreamId::of(stream), sequence);
        Freed {
            pointer: DevicePtr::from_raw(address),
            bytes,
            home: StreamId::of(1),
            uses: uses.iter().map(ticket).collect(),
        }
    }

    fn addresses(blocks: &Evicted) -> Vec<u64> {
        blocks.iter().map(|block| block.pointer.as_raw()).collect()
    }

    fn taken(cache: &mut Cache, bytes: u64, ordered: impl FnMut(Ticket) -> bool) -> Option<u64> {
        cache.take(bytes, ordered).0.map(|block| block.pointer.as_raw())
    }

    #[test]
    fn a_block_is_given_out_for_its_size_once_all_its_uses_are_ordered() {
        let mut cache = Cache::default();
        assert!(cache.put(block(16, 100, &[(1, 5), (2, 3)])).is_empty());
        let first = |ticket: Ticket| ticket.stream == StreamId::of(1);
        assert_eq!(taken(&mut cache, 100, first), None, "stream 2 may still use it");
        assert_eq!(taken(&mut cache, 99, |_| true), None);
        assert_eq!(cache.figures().kept_bytes, 100);
        assert_eq!(taken(&mut cache, 100, |_| true), Some(16));
        let CacheFigures {
            kept_bytes,
            hits,
            misses,
            ..
        } = cache.figures();
        assert_eq!((kept_bytes, hits, misses), (0, 1, 2));
    }

    #[test]
    fn of_several_the_newest_ordered_one_is_taken() {
        let mut cache = Cache::default();
        for (address, sequence) in [(16, 1), (32, 2), (48, 3)] {
            cache.put(block(address, 8, &[(1, sequence)]));
        }
        assert_eq!(taken(&mut cache, 8, |ticket| ticket.sequence <= 2), Some(32));
        assert_eq!(taken(&mut cache, 8, |_| true), Some(48));
        assert_eq!(taken(&mut cache, 8, |_| true), Some(16));
    }

    #[test]
    fn the_oldest_go_where_the_limit_is_reached() {
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
        assert_eq!(cache.figures().kept_bytes, 16);
        assert_eq!(addresses(&cache.set_limit(10)), [32]);
        assert_eq!(addresses(&cache.shrink(0)), [48]);
        assert_eq!(cache.figures().kept_bytes, 0);
    }

    #[test]
    fn what_nobody_asks_for_goes_after_a_while() {
        let mut cache = Cache::default();
        cache.put(block(16, 10, &[]));
        cache.put(block(32, 12, &[]));
        let mut gone = Vec::new();
        for miss in 1..=MISSES_MAX {
            if miss == MISSES_MAX / 2 {
                let block = cache.take(12, |_| true).0.expect("it is there");
                cache.put(block);
            }
            gone.extend(addresses(&cache.take(1, |_| true).1));
        }
        assert_eq!(gone, [16]);
        assert_eq!(cache.figures().kept_bytes, 12);
    }
}
