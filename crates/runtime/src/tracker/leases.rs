//! Leases: parts of an allocation that another library uses at the moment, with no operation of
//! this library for the use.

use std::{fmt, panic::Location, sync::Arc};

use super::{Access, AccessHistory, AccessKind, Extent, access_history::HistoryState};
use crate::Result;

/// The number of a lease, unique among those of its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseNumber(u64);

/// The end of a lease whose bytes were returned, but which has not ended yet.
pub(crate) trait PutOffEnd: fmt::Debug + Send + Sync {
    /// Ends the lease. Returns whether it has ended. May wait for a submission of another thread if
    /// `patient`.
    ///
    /// # Errors
    ///
    /// If the end cannot be submitted. The bytes then stay lent, and a later call tries again.
    fn end(&self, history: &AccessHistory, patient: bool) -> Result<bool>;
}

#[derive(Debug)]
pub(crate) enum ConflictingLease {
    /// The bytes were lent at this source line, and were not returned.
    Lent(&'static Location<'static>),
    Returned(Arc<dyn PutOffEnd>),
}

/// A part of an allocation that is lent.
struct Lease {
    number: LeaseNumber,
    extent: Extent,
    /// The use that the borrower may make of the bytes.
    kind: AccessKind,
    /// The source line of the call that lent them.
    location: &'static Location<'static>,
    /// Set once the borrower has returned the bytes, if the end of the lease was put off.
    put_off: Option<Arc<dyn PutOffEnd>>,
}

impl Lease {
    /// Returns whether a use of bytes conflicts with the lease.
    fn conflicts(&self, access: &Access<'_>) -> bool {
        let writes = self.kind == AccessKind::Write || access.kind == AccessKind::Write;
        writes && access.extent.overlaps(&self.extent)
    }

    #[cold]
    fn as_conflict(&self) -> ConflictingLease {
        match &self.put_off {
            Some(end) => ConflictingLease::Returned(Arc::clone(end)),
            None => ConflictingLease::Lent(self.location),
        }
    }
}

/// The leases of one allocation. They are part of its history's state, so that each submission that
/// conflicts with one finds it while it is planned.
#[derive(Default)]
pub(super) struct Leases {
    list: Vec<Lease>,
    count: u64,
}

impl Leases {
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the source line of the call that lent bytes of this access.
    #[cold]
    pub(super) fn refusal(&self, access: &Access<'_>) -> Option<&'static Location<'static>> {
        self.conflict(access).map(|lease| lease.location)
    }

    #[inline]
    fn conflict(&self, access: &Access<'_>) -> Option<&Lease> {
        self.list.iter().find(|lease| lease.conflicts(access))
    }

    fn find(&mut self, number: LeaseNumber) -> Option<&mut Lease> {
        self.list.iter_mut().find(|lease| lease.number == number)
    }

    #[inline]
    pub(super) fn end(&mut self, number: LeaseNumber) {
        let at = self.list.iter().position(|lease| lease.number == number);
        if let Some(at) = at {
            self.list.swap_remove(at);
        }
    }
}

impl HistoryState {
    /// Enters a lease that permits this access. The caller notes the access, so that there is no
    /// sole stream any more.
    ///
    /// # Errors
    ///
    /// Returns a lease with which this one conflicts.
    #[inline]
    pub(super) fn lend(
        &mut self,
        access: &Access<'_>,
        location: &'static Location<'static>,
    ) -> Result<LeaseNumber, ConflictingLease> {
        let leases = &mut self.leases;
        if let Some(other) = leases.conflict(access) {
            return Err(other.as_conflict());
        }
        leases.count += 1;
        let number = LeaseNumber(leases.count);
        leases.list.push(Lease {
            number,
            extent: access.extent.clone(),
            kind: access.kind,
            location,
            put_off: None,
        });
        Ok(number)
    }
}

impl AccessHistory {
    /// Removes a lease whose borrower has enqueued nothing, or nothing that matters. The caller
    /// holds the end that was put off, if it was.
    #[cold]
    pub(crate) fn end_lease(&self, number: LeaseNumber) {
        self.lock().leases.end(number);
    }

    /// Notes that the bytes of a lease were returned but that its end is put off.
    #[cold]
    pub(crate) fn put_off(&self, number: LeaseNumber, end: Arc<dyn PutOffEnd>) {
        if let Some(lease) = self.lock().leases.find(number) {
            lease.put_off = Some(end);
        }
    }

    #[cold]
    pub(crate) fn has_lease(&self, number: LeaseNumber) -> bool {
        self.lock().leases.find(number).is_some()
    }

    #[cold]
    pub(crate) fn conflicting_lease(&self, access: &Access<'_>) -> Option<ConflictingLease> {
        let state = self.lock();
        state.leases.conflict(access).map(Lease::as_conflict)
    }

    /// Returns whether a part is lent. Ends the leases whose end was put off, and does not wait.
    pub(crate) fn is_lent(&mut self) -> bool {
        let leases = &self.state.get_mut().leases.list;
        let ends: Vec<_> = leases.iter().map(|lease| lease.put_off.clone()).collect();
        let is_over = |end: &Option<Arc<dyn PutOffEnd>>| {
            end.as_ref()
                .is_some_and(|end| end.end(self, false).unwrap_or(false))
        };
        !ends.iter().all(is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{StreamId, VectorClock, plan_lease},
        AccessKind::{Read, Write},
        *,
    };
    use crate::Error;

    /// An end that fails if it is `None`.
    impl PutOffEnd for Option<bool> {
        fn end(&self, _: &AccessHistory, _: bool) -> Result<bool> {
            self.ok_or_else(|| Error::unavailable("not now"))
        }
    }

    #[test]
    fn bytes_are_lent_until_the_lease_has_ended() {
        let mut history = AccessHistory::new(8);
        let [first, second] = [(0..4, Read), (4..8, Write)].map(|(range, kind)| {
            let (access, clock) = (Access::new(&history, range, kind), VectorClock::default());
            let lease = plan_lease(StreamId::of(1), &clock, &access, Location::caller());
            lease.expect("no other lease").0
        });
        let conflict = |history: &AccessHistory, kind| {
            let found = history.conflicting_lease(&Access::new(history, 0..4, kind));
            found.map(|lease| matches!(lease, ConflictingLease::Lent(_)))
        };
        assert_eq!(
            [Read, Write].map(|kind| conflict(&history, kind)),
            [None, Some(true)]
        );
        history.put_off(first, Arc::new(Some(true)));
        assert_eq!(
            [Read, Write].map(|kind| conflict(&history, kind)),
            [None, Some(false)]
        );
        assert!(history.is_lent(), "the second was not returned");
        for end in [None, Some(false), Some(true)] {
            history.put_off(second, Arc::new(end));
            assert_eq!(history.is_lent(), end != Some(true));
        }
        history.end_lease(first);
        assert!(!history.has_lease(first) && history.has_lease(second));
    }
}
