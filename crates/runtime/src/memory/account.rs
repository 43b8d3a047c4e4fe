//! The account of one device's memory: what arrays take, counted by the runtime, how much they may, and what is kept of those
//! that were dropped.

use parking_lot::Mutex;

use super::cache::{Cache, Evicted};
use crate::{
    submit::Freed,
    sync::{AtomicU64, Ordering},
    tracker::Ticket,
};

/// What the arrays of one device take, and what is kept of dropped ones.
#[derive(Debug, Default)]
pub(crate) struct Account {
    books: Mutex<Books>,
}

/// Under one lock, for an array that is dropped moves from the one to the other.
#[derive(Debug, Default)]
struct Books {
    figures: Figures,
    cache: Cache,
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

/// What came of an attempt to enter an array.
pub(super) enum Entered<'a> {
    /// There is kept memory for it.
    Kept(Freed),
    /// It is entered; memory is wanted. The blocks have to go.
    Wanting(Charge<'a>, Evicted),
    /// That would be more than the limit.
    TooMuch,
}

impl Figures {
    /// Enters an array of so many bytes, unless that would be more than the limit.
    fn enter(&mut self, bytes: u64) -> Option<()> {
        let allocated_bytes = self.allocated_bytes.checked_add(bytes)?;
        if self.limit_bytes.is_some_and(|limit| allocated_bytes > limit) {
            return None;
        }
        self.allocated_bytes = allocated_bytes;
        self.allocated_peak_bytes = self.allocated_peak_bytes.max(allocated_bytes);
        self.allocations += 1;
        Some(())
    }

    fn cross_out(&mut self, bytes: u64) {
        self.allocated_bytes -= bytes;
        self.allocations -= 1;
    }
}

impl Account {
    /// Enters an array of so many bytes, whose memory is kept memory of that size if the uses of some are all `ordered`
    /// before what will use it.
    pub(super) fn enter(&self, bytes: u64, ordered: impl FnMut(Ticket) -> bool) -> Entered<'_> {
        let mut books = self.books.lock();
        if books.figures.enter(bytes).is_none() {
            return Entered::TooMuch;
        }
        match books.cache.take(bytes, ordered) {
            (Some(block), _) => Entered::Kept(block),
            (None, mut evicted) => {
                // What is kept takes room that a limit gives to arrays.
                if let Some(limit) = books.figures.limit_bytes {
                    let left_bytes = limit.saturating_sub(books.figures.allocated_bytes);
                    evicted.extend(books.cache.shrink(left_bytes));
                }
                Entered::Wanting(Charge { account: self, bytes }, evicted)
            }
        }
    }

    /// Crosses out an array of so many bytes.
    pub(crate) fn refund(&self, bytes: u64) {
        self.books.lock().figures.cross_out(bytes);
    }

    /// Crosses out an array and keeps its memory; gives what has to go for it, which may be that memory.
    pub(super) fn keep(&self, block: Freed) -> Evicted {
        let mut books = self.books.lock();
        books.figures.cross_out(block.bytes);
        books.cache.put(block)
    }

    /// Enters an array again, which was crossed out, until its free is enqueued.
    pub(super) fn recharge(&self, bytes: u64) {
        let figures = &mut self.books.lock().figures;
        figures.allocated_bytes += bytes;
        figures.allocations += 1;
    }

    /// Sets how much may be allocated. What already is stays, even if it is more.
    pub(super) fn set_limit(&self, limit_bytes: Option<u64>) {
        self.books.lock().figures.limit_bytes = limit_bytes;
    }

    /// Does something with what is kept.
    pub(super) fn with_cache<T>(&self, body: impl FnOnce(&mut Cache) -> T) -> T {
        body(&mut self.books.lock().cache)
    }

    /// The figures as they are now.
    pub(super) fn figures(&self) -> Figures {
        self.books.lock().figures
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
        let charge = |bytes| match account.enter(bytes, |_| true) {
            Entered::Wanting(charge, _) => Some(charge),
            Entered::TooMuch => None,
            Entered::Kept(_) => unreachable!("nothing is kept"),
        };
        charge(60).expect("there is no limit").keep();
        account.set_limit(Some(100));
        assert!(charge(41).is_none());
        drop(charge(40).expect("it is the limit exactly"));
        assert!(charge(u64::MAX).is_none());
        account.set_limit(Some(10));
        assert!(charge(1).is_none(), "there is more already");
        account.refund(60);
        charge(10).expect("there is nothing any more").keep();
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
