//! Conflicts of operations with leases: a lease that the borrower has returned is ended, and an
//! operation on memory that is still lent is refused.

use std::{
    panic::Location,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    Error, Result, UsageError, UsageErrorKind,
    tracker::{Access, AccessHistory, ConflictingLease},
};

/// The number of leases whose end was put off.
static PUT_OFF: AtomicUsize = AtomicUsize::new(0);

/// A lease whose end was put off, counted until this is dropped.
#[derive(Debug)]
pub(super) struct PutOffCount(());

impl PutOffCount {
    pub(super) fn new() -> Self {
        PUT_OFF.fetch_add(1, Ordering::Release);
        Self(())
    }
}

impl Drop for PutOffCount {
    fn drop(&mut self) {
        PUT_OFF.fetch_sub(1, Ordering::Release);
    }
}

/// Ends the leases that conflict with an operation and whose end was put off. Other conflicts are
/// refused when the operation is planned.
///
/// # Errors
///
/// If the end of a lease cannot be submitted, or the operation conflicts with another lease.
#[inline]
pub(crate) fn end_returned_leases<'a, 'b: 'a>(
    (label, location): (&'static str, &'static Location<'static>),
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<()> {
    if PUT_OFF.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    for access in accesses {
        while let Some(conflict) = access.history.conflicting_lease(access) {
            end_or_refuse(conflict, access.history, label, location)?;
        }
    }
    Ok(())
}

/// Ends a lease with which an operation conflicts if the borrower has returned the memory.
///
/// # Errors
///
/// If it has not, or if the end cannot be submitted.
#[cold]
pub(super) fn end_or_refuse(
    conflict: ConflictingLease,
    history: &AccessHistory,
    label: &'static str,
    location: &'static Location<'static>,
) -> Result<()> {
    match conflict {
        ConflictingLease::Returned(end) => end.end(history, true).map(drop),
        ConflictingLease::Lent(since) => Err(lent_error(label, location, since)),
    }
}

/// Creates the error of an operation on memory that was lent at `since`.
#[cold]
pub(super) fn lent_error(
    label: &'static str,
    location: &'static Location<'static>,
    since: &'static Location<'static>,
) -> Error {
    let lent = UsageError::new(label, UsageErrorKind::Lent { since });
    lent.at(location).into()
}
