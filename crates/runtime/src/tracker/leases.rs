//! Leases: parts of an allocation that another library uses at the moment, with no operation of
//! this library for the use.

use std::{fmt, panic::Location, sync::Arc};

use super::{Access, AccessHistory, AccessKind, Extent, access_history::HistoryState};
use crate::Result;

/// A part of an allocation that is lent.
pub(crate) trait Lease: fmt::Debug + Send + Sync {
    /// Returns the lent bytes.
    fn extent(&self) -> &Extent;

    /// Returns whether the borrower may write the bytes.
    fn kind(&self) -> AccessKind;

    /// Returns the source line of the call that lent them.
    fn location(&self) -> &'static Location<'static>;

    /// Returns whether the borrower has returned the bytes.
    fn is_returned(&self) -> bool;

    /// Ends the lease if it was returned and its end was put off. Returns whether it has ended. May
    /// wait for a submission of another thread if `patient`.
    ///
    /// # Errors
    ///
    /// If the end cannot be submitted. The bytes then stay lent, and a later call tries again.
    fn end_if_returned(&self, history: &AccessHistory, patient: bool) -> Result<bool>;
}

/// The leases of one allocation. They are part of its history's state, so that each submission that
/// conflicts with one finds it while it is planned.
#[derive(Default)]
pub(super) struct Leases(Vec<Arc<dyn Lease>>);

impl Leases {
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the source line of the call that lent bytes of this access, unless they were
    /// returned.
    #[cold]
    pub(super) fn refusal(&self, access: &Access<'_>) -> Option<&'static Location<'static>> {
        let mut lent = self.0.iter().filter(|lease| !lease.is_returned());
        let lease = lent.find(|lease| conflict(&***lease, &access.extent, access.kind))?;
        Some(lease.location())
    }
}

/// Returns whether a use of these bytes conflicts with a lease.
fn conflict(lease: &dyn Lease, extent: &Extent, kind: AccessKind) -> bool {
    let writes = lease.kind() == AccessKind::Write || kind == AccessKind::Write;
    writes && extent.overlaps(lease.extent())
}

impl HistoryState {
    /// Enters a lease that permits this access. The caller notes the access, so that there is no
    /// sole stream any more.
    ///
    /// # Errors
    ///
    /// Returns a lease with which this one conflicts.
    pub(super) fn lend(
        &mut self,
        access: &Access<'_>,
        lease: Arc<dyn Lease>,
    ) -> Result<(), Arc<dyn Lease>> {
        let mut others = self.leases.0.iter();
        let conflicts = |other: &&Arc<dyn Lease>| conflict(&***other, &access.extent, access.kind);
        if let Some(other) = others.find(conflicts) {
            return Err(Arc::clone(other));
        }
        self.leases.0.push(lease);
        Ok(())
    }
}

impl AccessHistory {
    /// Removes a lease that has ended or has not begun.
    pub(crate) fn end_lease(&self, lease: &dyn Lease) {
        let mut state = self.lock();
        let leases = &mut state.leases.0;
        let at = leases.iter().position(|known| is_same(known, lease));
        let ended = at.map(|at| leases.swap_remove(at));
        // In this order, because the last reference to a lease takes other locks.
        drop(state);
        drop(ended);
    }

    /// Returns a lease with which this access conflicts.
    pub(crate) fn conflicting_lease(&self, access: &Access<'_>) -> Option<Arc<dyn Lease>> {
        let state = self.lock();
        let mut leases = state.leases.0.iter();
        leases
            .find(|lease| conflict(&***lease, &access.extent, access.kind))
            .map(Arc::clone)
    }

    /// Returns whether a part is lent. Ends the leases whose end was put off, and does not wait.
    pub(crate) fn is_lent(&mut self) -> bool {
        let leases = self.state.get_mut().leases.0.clone();
        let ended = |lease: &Arc<dyn Lease>| lease.end_if_returned(self, false).unwrap_or(false);
        !leases.iter().all(ended)
    }
}

fn is_same(known: &Arc<dyn Lease>, lease: &dyn Lease) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(known), lease)
}
