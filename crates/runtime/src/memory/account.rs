//! The account of one device's memory: what arrays take, counted by the runtime, and how much they may.

use parking_lot::Mutex;

use crate::sync::{AtomicU64, Ordering};

/// What the arrays of one device take.
#[derive(Debug, Default)]
pub(crate) struct Account {
    figures: Mutex<Figures>,
}

/// The figures of an account, all of the same moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Bytes of the arrays that live, and of those that are gone but whose frees are not enqueued yet.
    pub(crate) allocated_bytes: u64,
    /// The most that this has been.
    pub(crate) allocated_peak_bytes: u64,
    /// How many arrays these are.
    pub(crate) allocations: u64,
    /// How much they may take.
    pub(crate) limit_bytes: Option<u64>,
}

/// An array's entry in the account. Dropped before it is kept, it is crossed out: the driver had no such memory.
#[must_use = "an entry that is not kept is crossed out"]
pub(super) struct Charge<'a> {
    account: &'a Account,
    bytes: u64,
}

impl Charge<'_> {
    /// The memory was allocated.
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.account.refund(self.bytes);
    }
}

impl Account {
    /// Enters an array of so many bytes, unless that would be more than the limit.
    pub(super) fn charge(&self, bytes: u64) -> Option<Charge<'_>> {
        let mut figures = self.figures.lock();
        let allocated_bytes = figures.allocated_bytes.checked_add(bytes)?;
        if figures.limit_bytes.is_some_and(|limit| allocated_bytes > limit) {
            return None;
        }
        figures.allocated_bytes = allocated_bytes;
        figures.allocated_peak_bytes = figures.allocated_peak_bytes.max(allocated_bytes);
        figures.allocations += 1;
        Some(Charge { account: self, bytes })
    }

    /// Crosses out an array of so many bytes.
    pub(crate) fn refund(&self, bytes: u64) {
        let mut figures = self.figures.lock();
        figures.allocated_bytes -= bytes;
        figures.allocations -= 1;
    }

    /// Enters an array again, which was crossed out, until its free is enqueued.
    pub(super) fn recharge(&self, bytes: u64) {
        let mut figures = self.figures.lock();
        figures.allocated_bytes += bytes;
        figures.allocations += 1;
    }

    /// How much more may be allocated, if there is a limit.
    pub(super) fn left_bytes(&self) -> Option<u64> {
        let figures = self.figures.lock();
        Some(figures.limit_bytes?.saturating_sub(figures.allocated_bytes))
    }

    /// Sets how much may be allocated. What already is stays, even if it is more.
    pub(super) fn set_limit(&self, limit_bytes: Option<u64>) {
        self.figures.lock().limit_bytes = limit_bytes;
    }

    /// The figures as they are now.
    pub(super) fn figures(&self) -> Figures {
        *self.figures.lock()
    }
}

/// The frees of one stream: how many bytes were enqueued to be freed there, and how many of them the host has seen freed.
#[derive(Debug, Default)]
pub(crate) struct Frees {
    enqueued_bytes: AtomicU64,
    seen_bytes: AtomicU64,
}

impl Frees {
    /// A free was enqueued.
    pub(crate) fn enqueue(&self, bytes: u64) {
        self.enqueued_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Bytes ever enqueued to be freed: a mark for [`see`](Self::see).
    pub(super) fn mark(&self) -> u64 {
        self.enqueued_bytes.load(Ordering::Acquire)
    }

    /// The host has seen what was enqueued up to the mark freed.
    pub(super) fn see(&self, mark: u64) {
        self.seen_bytes.fetch_max(mark, Ordering::AcqRel);
    }

    /// Bytes that are perhaps not freed yet.
    pub(super) fn pending_bytes(&self) -> u64 {
        // In this order: the other way, a mark could be seen that is not counted yet.
        let seen_bytes = self.seen_bytes.load(Ordering::Acquire);
        self.mark() - seen_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_counts_until_it_is_refunded_and_never_exceeds_the_limit() {
        let account = Account::default();
        account.charge(60).expect("there is no limit").keep();
        account.set_limit(Some(100));
        assert!(account.charge(41).is_none());
        drop(account.charge(40).expect("it is the limit exactly"));
        assert!(account.charge(u64::MAX).is_none());
        account.set_limit(Some(10));
        assert!(account.charge(1).is_none(), "there is more already");
        account.refund(60);
        account.charge(10).expect("there is nothing any more").keep();
        let figures = account.figures();
        assert_eq!(figures.allocated_bytes, 10);
        assert_eq!(figures.allocated_peak_bytes, 100);
        assert_eq!(figures.allocations, 1);
    }

    #[test]
    fn frees_are_pending_until_a_later_mark_is_seen() {
        let frees = Frees::default();
        frees.enqueue(10);
        let mark = frees.mark();
        frees.enqueue(5);
        frees.see(mark);
        assert_eq!(frees.pending_bytes(), 5);
        frees.see(0);
        assert_eq!(frees.pending_bytes(), 5, "what was seen stays seen");
    }
}
