//! The memory budget of a device: the bytes allocated by arrays as the runtime counts them, their
//! limit, and the cache of dropped blocks.

use std::sync::Arc;

use super::{
    cache::{Cache, Evicted},
    free::{Contents, DroppedBlock},
};
use crate::{
    sync::ranked::{BUDGET, Ranked},
    sync::{AtomicU64, Ordering},
    tracker::Ticket,
};

/// The memory accounting of a device, with the cache of dropped blocks.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    state: Ranked<BUDGET, BudgetState>,
}

/// The statistics and the cache, under one lock because a dropped array moves from one to the
/// other.
#[derive(Debug, Default)]
struct BudgetState {
    stats: BudgetStats,
    cache: Cache,
}

/// A consistent snapshot of a budget's statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BudgetStats {
    /// Bytes of live arrays, and of dropped arrays whose frees are not enqueued yet.
    pub(crate) allocated_bytes: u64,
    /// The maximum of `allocated_bytes` so far.
    pub(crate) allocated_peak_bytes: u64,
    /// The number of arrays counted in `allocated_bytes`.
    pub(crate) allocations: u64,
    /// The limit of `allocated_bytes`.
    pub(crate) limit_bytes: Option<u64>,
}

/// The bytes of one array, counted as allocated until this is dropped.
#[derive(Debug)]
#[must_use = "the bytes count as allocated until the reservation is dropped"]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    /// 0 once the reservation is committed.
    bytes: u64,
}

impl Reservation {
    /// Keeps the bytes counted: an array owns them, or the driver failed to free the memory.
    pub(super) fn commit(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.refund(self.bytes);
        }
    }
}

pub(super) enum ReserveOutcome {
    /// A cached block serves the array.
    Cached(DroppedBlock),
    /// The bytes are reserved; the caller allocates the memory, and frees the evicted blocks.
    Reserved(Reservation, Evicted),
    /// The reservation would exceed the limit.
    OverLimit,
}

impl BudgetStats {
    /// Counts an array of `bytes` bytes, unless it would exceed the limit.
    fn reserve(&mut self, bytes: u64) -> Option<()> {
        let allocated_bytes = self.allocated_bytes.checked_add(bytes)?;
        if self
            .limit_bytes
            .is_some_and(|limit| allocated_bytes > limit)
        {
            return None;
        }
        self.allocated_bytes = allocated_bytes;
        self.allocated_peak_bytes = self.allocated_peak_bytes.max(allocated_bytes);
        self.allocations += 1;
        Some(())
    }

    fn release(&mut self, bytes: u64) {
        self.allocated_bytes -= bytes;
        self.allocations -= 1;
    }
}

impl Budget {
    /// Reserves `bytes` bytes for an array. A cached block of that size serves it if all uses of
    /// the block are `ordered` before the array's first use, one with these contents if there is
    /// one.
    pub(super) fn reserve(
        self: &Arc<Self>,
        bytes: u64,
        contents: Contents,
        ordered: impl FnMut(Ticket) -> bool,
    ) -> ReserveOutcome {
        let mut state = self.state.lock();
        if state.stats.reserve(bytes).is_none() {
            return ReserveOutcome::OverLimit;
        }
        match state.cache.take(bytes, contents, ordered) {
            (Some(block), _) => ReserveOutcome::Cached(block),
            (None, mut evicted) => {
                // Under a limit, arrays have precedence over cached blocks.
                if let Some(limit) = state.stats.limit_bytes {
                    let left_bytes = limit.saturating_sub(state.stats.allocated_bytes);
                    evicted.extend(state.cache.shrink(left_bytes));
                }
                ReserveOutcome::Reserved(self.reservation(bytes), evicted)
            }
        }
    }

    fn reservation(self: &Arc<Self>, bytes: u64) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// Uncounts an array of `bytes` bytes.
    fn refund(&self, bytes: u64) {
        self.state.lock().stats.release(bytes);
    }

    /// Uncounts a dropped array and caches its memory. Returns the evicted blocks, which may
    /// include that memory.
    pub(super) fn cache_block(&self, block: DroppedBlock) -> Evicted {
        let mut state = self.state.lock();
        state.stats.release(block.bytes);
        state.cache.put(block)
    }

    /// Counts a dropped array again until its free is enqueued.
    pub(super) fn reserve_again(self: &Arc<Self>, bytes: u64) -> Reservation {
        let stats = &mut self.state.lock().stats;
        stats.allocated_bytes += bytes;
        stats.allocations += 1;
        self.reservation(bytes)
    }

    /// Sets the limit. Existing allocations stay, even beyond the limit.
    pub(super) fn set_limit(&self, limit_bytes: Option<u64>) {
        self.state.lock().stats.limit_bytes = limit_bytes;
    }

    /// Calls `body` with the cache, under the lock.
    pub(super) fn with_cache<T>(&self, body: impl FnOnce(&mut Cache) -> T) -> T {
        body(&mut self.state.lock().cache)
    }

    pub(super) fn stats(&self) -> BudgetStats {
        self.state.lock().stats
    }
}

/// The frees of one stream: the bytes whose frees were enqueued there, and the bytes that the host
/// has seen freed.
#[derive(Debug, Default)]
pub(crate) struct Frees {
    enqueued_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

impl Frees {
    pub(crate) fn enqueue(&self, bytes: u64) {
        self.enqueued_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Returns the bytes of all frees enqueued so far, for [`mark_freed`](Self::mark_freed).
    pub(super) fn watermark(&self) -> u64 {
        self.enqueued_bytes.load(Ordering::Acquire)
    }

    /// Notes that all frees enqueued up to `watermark` are complete.
    pub(super) fn mark_freed(&self, watermark: u64) {
        self.freed_bytes.fetch_max(watermark, Ordering::AcqRel);
    }

    /// Returns the bytes whose frees may still be pending.
    pub(super) fn pending_bytes(&self) -> u64 {
        // Loaded first: otherwise a watermark could be read that is newer than the enqueued bytes.
        let freed_bytes = self.freed_bytes.load(Ordering::Acquire);
        self.watermark() - freed_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bytes_count_until_refunded_and_never_exceed_the_limit() {
        let budget = Arc::new(Budget::default());
        let reserve = |bytes| match budget.reserve(bytes, Contents::Undefined, |_| true) {
            ReserveOutcome::Reserved(reservation, _) => Some(reservation),
            ReserveOutcome::OverLimit => None,
            ReserveOutcome::Cached(_) => unreachable!("nothing is kept"),
        };
        reserve(60).expect("there is no limit").commit();
        budget.set_limit(Some(100));
        assert!(reserve(41).is_none());
        drop(reserve(40).expect("it is the limit exactly"));
        assert!(reserve(u64::MAX).is_none());
        budget.set_limit(Some(10));
        assert!(reserve(1).is_none(), "there is more already");
        budget.refund(60);
        reserve(10).expect("there is nothing any more").commit();
        let stats = budget.stats();
        assert_eq!(stats.allocated_bytes, 10);
        assert_eq!(stats.allocated_peak_bytes, 100);
        assert_eq!(stats.allocations, 1);
    }

    #[test]
    fn frees_are_pending_until_a_later_mark_is_seen() {
        let frees = Frees::default();
        frees.enqueue(10);
        let watermark = frees.watermark();
        frees.enqueue(5);
        frees.mark_freed(watermark);
        assert_eq!(frees.pending_bytes(), 5);
        frees.mark_freed(0);
        assert_eq!(frees.pending_bytes(), 5, "what was seen stays seen");
    }
}
