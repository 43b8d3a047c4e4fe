//! The leases of memory to other libraries: an order before the borrower's work and one behind it.
//!
//! A lease begins with the borrower's stream waiting for everything that conflicts with the
//! borrower's use. It ends with a marker there, an operation without work, for which later
//! operations wait. In between, a conflicting operation is an error, because nothing could order
//! it: a wait for the end may last for ever.
//!
//! A lease is a part of the access history from before its begin until its end is published in its
//! place, so that planning a conflicting operation finds one of the two. If the end cannot be
//! submitted, because another thread is submitting to the stream or because this one is inside a
//! foreign call, the memory stays lent, and operands are examined before each submission of the
//! process, so that the next operation that conflicts ends the lease before it takes a lock.

#![allow(unsafe_code, reason = "submits operations without work")]

use std::{panic::Location, sync::Arc};

use super::{
    Operation, Stream, SubmitQueue,
    examinations::ExaminedOperands,
    imports,
    lease_conflicts::{PutOffCount, end_or_refuse},
    submission::{
        AtCaller, EndOfForeignWork, Marker, begin_lease, make_owner_wait, refuse_captured, submit,
        submit_locked_end,
    },
};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    disposal::log,
    error::OperationKind,
    tracker::{
        Access, AccessHistory, AccessKind, ConflictingLease, Extent, LeaseNumber, PutOffEnd,
        Sequence,
    },
};

/// The label of leases in errors.
const LEND: &str = "lend";

/// Memory that is lent to the work of another library on a stream.
#[derive(Clone, Debug)]
pub(crate) struct GrantedLease {
    /// Kept, because the end of the lease is submitted to it.
    stream: Stream,
    number: LeaseNumber,
    extent: Extent,
    kind: AccessKind,
    location: &'static Location<'static>,
}

/// A lease whose end was put off. All devices look for it.
#[derive(Debug)]
struct PutOff {
    _counted: PutOffCount,
    lease: GrantedLease,
    _examined: ExaminedOperands,
}

impl PutOff {
    fn new(lease: GrantedLease) -> Self {
        Self {
            _counted: PutOffCount::new(),
            lease,
            _examined: ExaminedOperands::everywhere(),
        }
    }
}

/// Enqueues a marker: an operation without work that is ordered by its access like any other, and
/// for which the owner's stream waits if the stream is adopted. Returns its sequence number.
///
/// # Errors
///
/// If the device is lost, the access conflicts with a lease, or the owner's stream is captured.
pub(crate) fn submit_marker(
    stream: &Stream,
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'_>,
) -> Result<Sequence> {
    let mut operation = marker(label, location, access);
    let (device, stream) = (stream.device_state(), stream.state());
    // SAFETY: the command enqueues nothing.
    let (sequence, ()) = unsafe { submit(device, stream, &mut operation, Marker) }?;
    make_owner_wait(device, stream, sequence).at_caller(label, location)?;
    Ok(sequence)
}

/// Orders later work on an allocation behind everything enqueued on the stream, including the
/// owner's work.
pub(crate) fn submit_end_of_foreign_work(
    stream: &Stream,
    label: &'static str,
    location: &'static Location<'static>,
    access: Access<'_>,
) -> Result<()> {
    let mut operation = marker(label, location, access);
    let (device, stream) = (stream.device_state(), stream.owner_state());
    refuse_captured(device, stream).at_caller(label, location)?;
    // SAFETY: the command enqueues nothing.
    unsafe { submit(device, stream, &mut operation, EndOfForeignWork) }.map(drop)
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
    pub(crate) fn grant(
        stream: &Stream,
        access: Access<'_>,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let device = stream.device_state();
        device.check_alive()?;
        if device.recorder_of(stream.state()).is_some() {
            let why = "a graph has no leases: lend on another stream, before or behind the replay";
            let problem = UsageErrorKind::Recording { why };
            return Err(UsageError::new(LEND, problem).at(location).into());
        }
        imports::check(access.history)?;
        refuse_captured(device, stream.owner_state()).at_caller(LEND, location)?;
        loop {
            let begun = begin_lease(device, stream.owner_state(), &access, location);
            match begun.at_caller(LEND, location)? {
                Err(conflict) => end_or_refuse(conflict, access.history, LEND, location)?,
                Ok(number) => {
                    device.admission.begin_lease();
                    return Ok(Self {
                        stream: stream.clone(),
                        number,
                        extent: access.extent,
                        kind: access.kind,
                        location,
                    });
                }
            }
        }
    }

    /// Returns the memory, once. Returns whether the lease has ended.
    ///
    /// It has not if another thread is submitting to the stream, or if this thread is inside a
    /// foreign call. The next operation that uses the memory then ends it, so that this call
    /// neither waits nor fails.
    pub(crate) fn give_back(&self, history: &AccessHistory) -> bool {
        let submit_queue = self.stream.owner_state().submit_queue.try_lock();
        let ended = submit_queue.map(|mut submit_queue| self.end(history, &mut submit_queue));
        match ended {
            Some(Ok(())) => true,
            put_off => {
                self.put_off(history, put_off.and_then(Result::err));
                false
            }
        }
    }

    /// Makes the next operation that uses the memory end the lease.
    #[cold]
    fn put_off(&self, history: &AccessHistory, error: Option<Error>) {
        if let Some(error) = error {
            log!(warn, %error, "the end of a lease is put off");
        }
        // Before this returns: an operation that conflicts happens later, and is examined.
        history.put_off(self.number, Arc::new(PutOff::new(self.clone())));
    }

    /// Ends a lease whose memory was returned, unless it has ended. May wait for a submission of
    /// another thread.
    ///
    /// # Errors
    ///
    /// If this thread is inside a foreign call.
    pub(crate) fn end_patiently(&self, history: &AccessHistory) -> Result<()> {
        let access = self.access(history);
        match history.conflicting_lease(&access) {
            Some(ConflictingLease::Returned(end)) => end.end(history, true).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the access that the end of the lease stands for.
    fn access<'a>(&self, history: &'a AccessHistory) -> Access<'a> {
        Access::new(history, self.extent.clone(), self.kind)
    }

    /// Ends the lease.
    ///
    /// # Errors
    ///
    /// If this thread is inside a foreign call: the memory is then still lent.
    #[inline(always)]
    fn end(&self, history: &AccessHistory, submit_queue: &mut SubmitQueue) -> Result<()> {
        let (device, stream) = (self.stream.device_state(), self.stream.owner_state());
        if let Err(error) = device.check_alive() {
            if device.lost().is_none() {
                return Err(error);
            }
            // Nothing waits for the work of a lost device.
            history.end_lease(self.number);
        } else {
            let ended = (self.number, &self.access(history));
            let name = ("end of a lease", self.location);
            submit_locked_end(device, stream, submit_queue, ended, name);
        }
        device.admission.end_lease();
        Ok(())
    }
}

impl PutOffEnd for PutOff {
    fn end(&self, history: &AccessHistory, patient: bool) -> Result<bool> {
        let lease = &self.lease;
        let submit_queue = &lease.stream.owner_state().submit_queue;
        let locked = if patient {
            Some(submit_queue.lock())
        } else {
            submit_queue.try_lock()
        };
        let Some(mut submit_queue) = locked else {
            return Ok(false);
        };
        // With the submit queue locked: another thread may have ended it meanwhile.
        if history.has_lease(lease.number) {
            lease.end(history, &mut submit_queue)?;
        }
        Ok(true)
    }
}
