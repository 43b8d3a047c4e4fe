//! Leases: parts of an allocation that another library uses at the moment, with no operation of
//! this library for the use.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Access, AccessHistory, AccessKind, Extent};
use crate::Result;

/// A part of an allocation that is lent.
pub(crate) trait Lease: fmt::Debug + Send + Sync {
    /// Returns the lent bytes.
    fn extent(&self) -> &Extent;

    /// Returns whether the borrower may write the bytes.
    fn kind(&self) -> AccessKind;

    /// Returns the source line of the call that lent them.
    fn location(&self) -> &'static Location<'static>;

    /// Ends the lease if it was returned and its end was put off. Returns whether it has ended. May
    /// wait for a submission of another thread if `patient`.
    ///
    /// # Errors
    ///
    /// If the end cannot be submitted. The bytes then stay lent, and a later call tries again.
    fn end_if_returned(&self, history: &AccessHistory, patient: bool) -> Result<bool>;
}

/// The leases of one allocation.
#[derive(Default)]
pub(crate) struct Leases {
    list: Mutex<SmallVec<[Arc<dyn Lease>; 1]>>,
    /// True if the list may have an entry: spares most accesses the lock. It is set for good by the
    /// first lease. The caller that lends a part has borrowed it, so accesses that conflict with
    /// the lease happen later.
    is_used: AtomicBool,
}

impl Leases {
    /// Adds a lease.
    pub(crate) fn add(&self, lease: Arc<dyn Lease>) {
        self.list.lock().push(lease);
        self.is_used.store(true, Ordering::Release);
    }

    /// Returns whether a lease has not ended.
    pub(crate) fn contain(&self, lease: &dyn Lease) -> bool {
        self.list.lock().iter().any(|known| is_same(known, lease))
    }

    /// Removes a lease that has ended.
    pub(crate) fn remove(&self, lease: &dyn Lease) {
        let mut leases = self.list.lock();
        let at = leases.iter().position(|known| is_same(known, lease));
        let ended = at.map(|at| leases.remove(at));
        // In this order, because the last reference to a lease takes other locks.
        drop(leases);
        drop(ended);
    }

    /// Returns all leases, without locking.
    pub(super) fn all(&mut self) -> SmallVec<[Arc<dyn Lease>; 1]> {
        self.list.get_mut().clone()
    }

    /// Returns a lease with which this access conflicts.
    #[inline]
    pub(crate) fn conflict(&self, access: &Access<'_>) -> Option<Arc<dyn Lease>> {
        if self.is_used.load(Ordering::Acquire) {
            self.find_conflict(access)
        } else {
            None
        }
    }

    #[cold]
    fn find_conflict(&self, access: &Access<'_>) -> Option<Arc<dyn Lease>> {
        let conflicts = |lease: &&Arc<dyn Lease>| {
            let writes = lease.kind() == AccessKind::Write || access.kind == AccessKind::Write;
            writes && access.extent.overlaps(lease.extent())
        };
        self.list.lock().iter().find(conflicts).map(Arc::clone)
    }
}

impl AccessHistory {
    /// Returns whether a part is lent. Ends the leases whose end was put off, and does not wait.
    pub(crate) fn is_lent(&mut self) -> bool {
        let leases = self.leases.all();
        let ended = |lease: &Arc<dyn Lease>| lease.end_if_returned(self, false).unwrap_or(false);
        !leases.iter().all(ended)
    }
}

fn is_same(known: &Arc<dyn Lease>, lease: &dyn Lease) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(known), lease)
}
