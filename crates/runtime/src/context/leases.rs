//! The leases of memory to other libraries: an order before the borrower's work and one behind it.
//!
//! A lease begins with a marker, an operation without work, on the borrower's stream: it waits for
//! everything that conflicts with the borrower's use. The lease ends with a second marker, for
//! which later operations wait. In between, a conflicting operation is an error, because nothing
//! could order it: a wait for the end may last for ever. While there is a lease in the process,
//! operands are examined before each submission.

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
    imports::ExaminedOperands,
    submission::{Marker, submit, submit_locked_marker},
};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    error::OperationKind,
    tracker::{Access, AccessHistory, AccessKind, Extent, Lease},
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
    _examined: ExaminedOperands,
}

/// Enqueues a marker: an operation without work that is ordered by its access like any other.
///
/// # Errors
///
/// If the device is lost, or the access conflicts with a lease.
pub(crate) fn submit_marker(
    stream: &Stream,
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'_>,
) -> Result<()> {
    let operation = marker(label, location, access);
    // SAFETY: the command enqueues nothing.
    unsafe { submit(stream.device_state(), stream.state(), operation, Marker) }.map(drop)
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
    /// Lends a part of an allocation to the work of another library on the stream.
    ///
    /// # Errors
    ///
    /// As [`submit_marker`].
    pub(crate) fn grant(
        stream: &Stream,
        history: &AccessHistory,
        extent: Extent,
        kind: AccessKind,
        location: &'static Location<'static>,
    ) -> Result<Arc<Self>> {
        // Before the marker: an operation that is submitted behind it is then examined.
        let examined = ExaminedOperands::begin();
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

    /// Returns the memory. If another thread is just submitting to the stream, the next operation
    /// that uses the memory ends the lease, so that this does not wait.
    pub(crate) fn give_back(&self, history: &AccessHistory) {
        self.returned.store(true, Ordering::Release);
        self.end_if_returned(history, false);
    }

    /// Ends the lease, unless another thread has.
    fn end(&self, history: &AccessHistory, submit_queue: &mut SubmitQueue) {
        if !history.leases.remove(self) {
            return;
        }
        let access = Access::new(history, self.extent.clone(), self.kind);
        let mut operation = marker("end of a lease", self.location, access);
        let (device, stream) = (self.stream.device_state(), self.stream.state());
        // After an error the device is lost, and nothing waits for its work any more.
        let _ = submit_locked_marker(device, stream, submit_queue, &mut operation);
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

    fn end_if_returned(&self, history: &AccessHistory, patient: bool) -> bool {
        if !self.returned.load(Ordering::Acquire) {
            return false;
        }
        let submit_queue = &self.stream.state().submit_queue;
        let locked = if patient {
            Some(submit_queue.lock())
        } else {
            submit_queue.try_lock()
        };
        let Some(mut submit_queue) = locked else {
            return false;
        };
        self.end(history, &mut submit_queue);
        true
    }
}

/// Checks that an operation conflicts with no lease.
///
/// # Errors
///
/// If it does.
#[inline]
pub(super) fn check<'a, 'b: 'a>(
    label: &'static str,
    location: &'static Location<'static>,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<()> {
    for access in accesses {
        while let Some(lease) = access.history.leases.conflict(access) {
            if !lease.end_if_returned(access.history, true) {
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
