//! The budget of one device's memory: what arrays take, counted by the runtime, how much they may,
//! and what is kept of those that were dropped.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    cache::{Cache, Evicted},
    free::DroppedBlock,
};
use crate::{
    sync::{AtomicU64, Ordering},
    tracker::Ticket,
};

/// What the arrays of one device take, and what is kept of dropped ones.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    state: Mutex<BudgetState>,
}

/// Under one lock, for an array that is dropped moves from the one to the other.
#[derive(Debug, Default)]
struct BudgetState {
    stats: BudgetStats,
    cache: Cache,
}

/// The statistics of a budget, all of the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BudgetStats {
    /// Bytes of the arrays that live, and of those that are gone but whose frees are not enqueued
    /// yet.
    pub(crate) allocated_bytes: u64,
    /// The most that this has been.
    pub(crate) allocated_peak_bytes: u64,
    /// How many arrays these are.
    pub(crate) allocations: u64,
    /// How much they may take.
    pub(crate) limit_bytes: Option<u64>,
}

/// Bytes of one array that count as allocated until this is dropped.
#[derive(Debug)]
#[must_use = "what is reserved counts as long as this lives"]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    /// 0 if they count for good.
    bytes: u64,
}

impl Reservation {
    /// Lets the bytes count on: an array has them, or the driver did not take the memory back.
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

/// What came of an attempt to enter an array.
pub(super) enum ReserveOutcome {
    /// There is kept memory for it.
    Cached(DroppedBlock),
    /// It is entered; memory is wanted. The blocks have to go.
    Reserved(Reservation, Evicted),
    /// That would be more than the limit.
    OverLimit,
}

impl BudgetStats {
    /// Enters an array of so many bytes, unless that would be more than the limit.
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
    /// Enters an array of so many bytes, whose memory is kept memory of that size if the uses of
    /// some are all `ordered` before what will use it.
    pub(super) fn reserve(
        self: &Arc<Self>,
        bytes: u64,
        ordered: impl FnMut(Ticket) -> bool,
    ) -> ReserveOutcome {
        let mut state = self.state.lock();
        if state.stats.reserve(bytes).is_none() {
            return ReserveOutcome::OverLimit;
        }
        match state.cache.take(bytes, ordered) {
            (Some(block), _) => ReserveOutcome::Cached(block),
            (None, mut evicted) => {
                // What is kept takes room that a limit gives to arrays.
                if let Some(limit) = state.stats.limit_bytes {
                    let left_bytes = limit.saturating_sub(state.stats.allocated_bytes);
                    evicted.extend(state.cache.shrink(left_bytes));
                }
                ReserveOutcome::Reserved(self.reservation(bytes), evicted)
            }
        }
    }

    /// For bytes that are entered.
    fn reservation(self: &Arc<Self>, bytes: u64) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// Crosses out an array of so many bytes.
    fn refund(&self, bytes: u64) {
        self.state.lock().stats.release(bytes);
    }

    /// Crosses out an array and keeps its memory; gives what has to go for it, which may be that
    /// memory.
    pub(super) fn cache_block(&self, block: DroppedBlock) -> Evicted {
        let mut state = self.state.lock();
        state.stats.release(block.bytes);
        state.cache.put(block)
    }

    /// Enters an array again, which was crossed out, until its free is enqueued.
    pub(super) fn reserve_again(self: &Arc<Self>, bytes: u64) -> Reservation {
        let stats = &mut self.state.lock().stats;
        stats.allocated_bytes += bytes;
        stats.allocations += 1;
        self.reservation(bytes)
    }

    /// Sets how much may be allocated. What already is stays, even if it is more.
    pub(super) fn set_limit(&self, limit_bytes: Option<u64>) {
        self.state.lock().stats.limit_bytes = limit_bytes;
    }

    /// Does something with what is kept.
    pub(super) fn with_cache<T>(&self, body: impl FnOnce(&mut Cache) -> T) -> T {
        body(&mut self.state.lock().cache)
    }

    /// The statistics as they are now.
    pub(super) fn stats(&self) -> BudgetStats {
        self.state.lock().stats
    }
}

/// The frees of one stream: how many bytes were enqueued to be freed there, and how many of them
/// the host has seen freed.
#[derive(Debug, Default)]
pub(crate) struct Frees {
    enqueued_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

impl Frees {
    /// A free was enqueued.
    pub(crate) fn enqueue(&self, bytes: u64) {
        self.enqueued_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Bytes ever enqueued to be freed: a mark for [`mark_freed`](Self::mark_freed).
    pub(super) fn watermark(&self) -> u64 {
        self.enqueued_bytes.load(Ordering::Acquire)
    }

    /// The host has seen what was enqueued up to the mark freed.
    pub(super) fn mark_freed(&self, watermark: u64) {
        self.freed_bytes.fetch_max(watermark, Ordering::AcqRel);
    }

    /// Bytes that are perhaps not freed yet.
    pub(super) fn pending_bytes(&self) -> u64 {
        // In this order: the other way, a mark could be seen that is not counted yet.
        let freed_bytes = self.freed_bytes.load(Ordering::Acquire);
        self.watermark() - freed_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_counts_until_it_is_refunded_and_never_exceeds_the_limit() {
        let budget = Arc::new(Budget::default());
        let reserve = |bytes| match budget.reserve(bytes, |_| true) {
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
