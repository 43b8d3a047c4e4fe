//! The leases of memory to other libraries: an order before the borrower's work and one behind it.
//!
//! A lease begins with a marker, an operation without work, on the borrower's stream: it waits for
//! everything that conflicts with the borrower's use. The lease ends with a second marker, for
//! which later operations wait. In between, a conflicting operation is an error, because nothing
//! could order it: a wait for the end may last for ever. While there is a lease in the process, and
//! for a few operations after it, operands are examined before each submission.
//!
//! A lease is entered in the access history from its begin until its end is submitted. If the end
//! cannot be submitted, because a driver call fails or because the thread is inside a foreign call,
//! the memory stays lent, and the next operation that conflicts tries again.

#![allow(unsafe_code, reason = "submits operations without work")]

use std::{
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Operation, Stream, SubmitQueue,
    examinations::ExaminedOperands,
    submission::{EndOfForeignWork, Marker, submit, submit_locked_end},
};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    disposal::log,
    error::OperationKind,
    tracker::{Access, AccessHistory, AccessKind, Extent, Lease, Sequence},
};

/// Memory that is lent to the work of another library on a stream.
#[derive(Debug)]
pub(crate) struct GrantedLease {
    /// Kept, because the end of the lease is submitted to it.
    stream: Stream,
    extent: Extent,
    kind: AccessKind,
    location: &'static Location<'static>,
    /// True once the borrower has returned the memory.
    returned: AtomicBool,
    /// `None` if the array was moved to the borrower, so that no operation can conflict.
    _examined: Option<ExaminedOperands>,
}

/// Enqueues a marker: an operation without work that is ordered by its access like any other.
/// Returns its sequence number.
///
/// # Errors
///
/// If the device is lost, or the access conflicts with a lease.
pub(crate) fn submit_marker(
    stream: &Stream,
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'_>,
) -> Result<Sequence> {
    let operation = marker(label, location, access);
    // SAFETY: the command enqueues nothing.
    let submitted = unsafe { submit(stream.device_state(), stream.state(), operation, Marker) };
    submitted.map(|(sequence, ())| sequence)
}

/// Orders the later work on an allocation behind everything that is enqueued on the stream, the
/// owner's work included.
///
/// # Errors
///
/// As [`submit_marker`].
pub(crate) fn submit_end_of_foreign_work(
    stream: &Stream,
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'_>,
) -> Result<()> {
    let operation = marker(label, location, access);
    let (device, stream) = (stream.device_state(), stream.state());
    // SAFETY: the command enqueues nothing.
    unsafe { submit(device, stream, operation, EndOfForeignWork) }.map(drop)
}

fn marker<'a>(
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'a>,
) -> Operation<'a> {
    Operation {
        kind: OperationKind::Kernel,
        label,
        location,
        bytes: 0,
        accesses: [access].into(),
        host_waiter: None,
    }
}

impl GrantedLease {
    /// Lends a part of an allocation to the work of another library on the stream. Operations are
    /// not examined if it `is_moved`, so that there can be none.
    ///
    /// # Errors
    ///
    /// As [`submit_marker`].
    pub(crate) fn grant(
        stream: &Stream,
        history: &AccessHistory,
        (extent, kind): (Extent, AccessKind),
        is_moved: bool,
        location: &'static Location<'static>,
    ) -> Result<Arc<Self>> {
        // Before the marker: an operation that is submitted behind it is then examined. Others wait
        // for the marker at the end, so that no sync point is recorded behind this one.
        let examined = (!is_moved).then(ExaminedOperands::everywhere);
        submit_marker(
            stream,
            "lend",
            location,
            Access::new(history, extent.clone(), kind),
        )?;
        let lease = Arc::new(Self {
            stream: stream.clone(),
            extent,
            kind,
            location,
            returned: AtomicBool::new(false),
            _examined: examined,
        });
        history.leases.add(Arc::clone(&lease) as Arc<dyn Lease>);
        Ok(lease)
    }

    /// Returns the memory, and returns whether the lease has ended. Else, because another thread is
    /// just submitting to the stream or because the end cannot be submitted, the next operation
    /// that uses the memory ends it, so that this neither waits nor fails. It waits for the other
    /// thread if `patient`.
    pub(crate) fn give_back(&self, history: &AccessHistory, patient: bool) -> bool {
        self.returned.store(true, Ordering::Release);
        self.end_if_returned(history, patient)
            .unwrap_or_else(|error| {
                log!(warn, %error, "the end of a lease is put off");
                false
            })
    }

    /// Ends the lease, unless another thread has.
    ///
    /// # Errors
    ///
    /// If the end cannot be submitted although the device works: the memory is then still lent.
    fn end(&self, history: &AccessHistory, submit_queue: &mut SubmitQueue) -> Result<()> {
        // The submit queue is locked, so that no other thread ends the lease between these steps.
        if !history.leases.contain(self) {
            return Ok(());
        }
        let access = Access::new(history, self.extent.clone(), self.kind);
        let mut operation = marker("end of a lease", self.location, access);
        let (device, stream) = (self.stream.device_state(), self.stream.state());
        let submitted = submit_locked_end(device, stream, submit_queue, &mut operation);
        // Nothing waits for the work of a lost device.
        if device.lost().is_none() {
            submitted?;
        }
        history.leases.remove(self);
        Ok(())
    }
}

impl Lease for GrantedLease {
    fn extent(&self) -> &Extent {
        &self.extent
    }

    fn kind(&self) -> AccessKind {
        self.kind
    }

    fn location(&self) -> &'static Location<'static> {
        self.location
    }

    fn end_if_returned(&self, history: &AccessHistory, patient: bool) -> Result<bool> {
        if !self.returned.load(Ordering::Acquire) {
            return Ok(false);
        }
        let submit_queue = &self.stream.state().submit_queue;
        let locked = if patient {
            Some(submit_queue.lock())
        } else {
            submit_queue.try_lock()
        };
        let Some(mut submit_queue) = locked else {
            return Ok(false);
        };
        self.end(history, &mut submit_queue).map(|()| true)
    }
}

/// Checks that an operation conflicts with no lease.
///
/// # Errors
///
/// If it does, or if the end of a returned lease cannot be submitted.
#[inline]
pub(super) fn check<'a, 'b: 'a>(
    label: &'static str,
    location: &'static Location<'static>,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<()> {
    for access in accesses {
        while let Some(lease) = access.history.leases.conflict(access) {
            if !lease.end_if_returned(access.history, true)? {
                return Err(is_lent(label, location, lease.location()));
            }
        }
    }
    Ok(())
}

#[cold]
fn is_lent(
    label: &'static str,
    location: &'static Location<'static>,
    since: &'static Location<'static>,
) -> Error {
    let lent = UsageError::new(label, UsageErrorKind::Lent { since });
    lent.at(location).into()
}
