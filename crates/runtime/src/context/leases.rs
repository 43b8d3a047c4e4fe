//! The leases of memory to other libraries: an order before the borrower's work and one behind it.
//!
//! A lease begins with the borrower's stream waiting for everything that conflicts with the
//! borrower's use. It ends with a marker there, an operation without work, for which later
//! operations wait. In between, a conflicting operation is an error, because nothing could order
//! it: a wait for the end may last for ever.
//!
//! A lease is a part of the access history from before its begin until its end is submitted, so
//! that planning a conflicting operation finds it. If the end cannot be submitted, because a driver
//! call fails or because the thread is inside a foreign call, the memory stays lent, and operands
//! are examined before each submission of the process, so that the next operation that conflicts
//! ends the lease before it takes a lock.

#![allow(unsafe_code, reason = "submits operations without work")]

use std::{
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::{
    Operation, Stream, SubmitQueue,
    examinations::ExaminedOperands,
    imports,
    submission::{EndOfForeignWork, Marker, begin_lease, submit, submit_locked_end},
};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    disposal::log,
    error::OperationKind,
    tracker::{Access, AccessHistory, AccessKind, Extent, Lease, Sequence},
};

/// The label of leases in errors.
const LEND: &str = "lend";

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
    /// True once the end is submitted. Changed with the stream's submit queue locked.
    ended: AtomicBool,
    /// Set if the memory was returned but the end of the lease was put off.
    put_off: OnceLock<PutOff>,
}

/// The number of leases whose end was put off.
static PUT_OFF: AtomicUsize = AtomicUsize::new(0);

/// Makes all devices look for a lease whose end was put off.
#[derive(Debug)]
struct PutOff {
    _examined: ExaminedOperands,
}

impl PutOff {
    fn new() -> Self {
        PUT_OFF.fetch_add(1, Ordering::Release);
        Self {
            _examined: ExaminedOperands::everywhere(),
        }
    }
}

impl Drop for PutOff {
    fn drop(&mut self) {
        PUT_OFF.fetch_sub(1, Ordering::Release);
    }
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
    /// Lends a part of an allocation to the work of another library on the stream.
    ///
    /// # Errors
    ///
    /// As [`submit_marker`].
    pub(crate) fn grant(
        stream: &Stream,
        history: &AccessHistory,
        (extent, kind): (Extent, AccessKind),
        location: &'static Location<'static>,
    ) -> Result<Arc<Self>> {
        let device = stream.device_state();
        device.check_alive()?;
        if device.recorder_of(stream.state()).is_some() {
            let why = "a graph has no leases: lend on another stream, before or behind the replay";
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(LEND, problem).at(location).into());
        }
        let access = Access::new(history, extent.clone(), kind);
        imports::of_operands(OperationKind::Kernel, [&access])?;
        let lease = Arc::new(Self {
            stream: stream.clone(),
            extent,
            kind,
            location,
            returned: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            put_off: OnceLock::new(),
        });
        loop {
            let listed = Arc::clone(&lease) as Arc<dyn Lease>;
            let begun = begin_lease(device, stream.state(), &access, listed);
            match begun.inspect_err(|_| history.end_lease(&*lease))? {
                Some(conflict) => end_or_refuse(&*conflict, history, LEND, location)?,
                None => return Ok(lease),
            }
        }
    }

    /// Returns the memory, and returns whether the lease has ended. Else, because another thread is
    /// just submitting to the stream or because the end cannot be submitted, the next operation
    /// that uses the memory ends it, so that this neither waits nor fails. It waits for the other
    /// thread if `patient`.
    pub(crate) fn give_back(&self, history: &AccessHistory, patient: bool) -> bool {
        self.returned.store(true, Ordering::Release);
        let ended = self.end_if_returned(history, patient);
        let ended = ended.unwrap_or_else(|error| {
            log!(warn, %error, "the end of a lease is put off");
            false
        });
        if !ended {
            // Before this returns: an operation that conflicts happens later, and is examined.
            self.put_off.get_or_init(PutOff::new);
        }
        ended
    }

    /// Ends the lease, unless another thread has.
    ///
    /// # Errors
    ///
    /// If the end cannot be submitted although the device works: the memory is then still lent.
    fn end(&self, history: &AccessHistory, submit_queue: &mut SubmitQueue) -> Result<()> {
        if self.ended.load(Ordering::Relaxed) {
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
        self.ended.store(true, Ordering::Relaxed);
        history.end_lease(self);
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

    fn is_returned(&self) -> bool {
        self.returned.load(Ordering::Acquire)
    }

    fn end_if_returned(&self, history: &AccessHistory, patient: bool) -> Result<bool> {
        if !self.is_returned() {
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

/// Ends the leases with which an operation conflicts and whose end was put off. Planning refuses
/// conflicts with other leases.
///
/// # Errors
///
/// If the end of a lease cannot be submitted, or the operation conflicts with another lease.
#[inline]
pub(super) fn end_returned<'a, 'b: 'a>(
    (label, location): (&'static str, &'static Location<'static>),
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<()> {
    if PUT_OFF.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    for access in accesses {
        while let Some(lease) = access.history.conflicting_lease(access) {
            end_or_refuse(&*lease, access.history, label, location)?;
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
fn end_or_refuse(
    lease: &dyn Lease,
    history: &AccessHistory,
    label: &'static str,
    location: &'static Location<'static>,
) -> Result<()> {
    match lease.end_if_returned(history, true)? {
        true => Ok(()),
        false => Err(is_lent(label, location, lease.location())),
    }
}

/// Creates the error of an operation on memory that was lent at `since`.
#[cold]
pub(super) fn is_lent(
    label: &'static str,
    location: &'static Location<'static>,
    since: &'static Location<'static>,
) -> Error {
    let lent = UsageError::new(label, UsageErrorKind::Lent { since });
    lent.at(location).into()
}
