//! Crossings: operations that use memory of several devices.
//!
//! A crossing runs on a stream of one device. Its ticket enters the access histories of other
//! devices' memory, so all its devices stay open until it is complete. If it writes memory, the
//! result is an import ([`verdict`](super::verdict)) until it is known that no device was lost
//! meanwhile.

#![allow(unsafe_code, reason = "hands commands to the driver")]

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    arrival::Arrival,
    verdict::are_of,
    watch::{place, watch},
};
use crate::{
    Result,
    context::{
        Command, DeviceState, Operation, StreamState, end_returned_leases, enqueue, imports,
        refuse_unordered,
    },
    tracker::{Access, AccessKind, Imports, LaterOperation, Sequence},
};

/// An operation that uses memory of several devices, without its command. Operands are added one by
/// one.
pub(crate) struct Crossing<'a> {
    operation: Operation<'a>,
    /// The device on which the operation runs, then the other owners of its memory, each once.
    devices: SmallVec<[&'a Arc<DeviceState>; 4]>,
}

impl<'a> Crossing<'a> {
    /// Creates a crossing that runs on `device`. The accesses of `operation`, if it has any, are to
    /// memory of this device.
    pub(crate) fn new(device: &'a Arc<DeviceState>, operation: Operation<'a>) -> Self {
        Self {
            operation,
            devices: SmallVec::from_slice(&[device]),
        }
    }

    /// Adds an access to memory of the device `owner`.
    pub(crate) fn push(&mut self, access: Access<'a>, owner: &'a Arc<DeviceState>) {
        if !self.devices.iter().any(|known| Arc::ptr_eq(known, owner)) {
            self.devices.push(owner);
        }
        self.operation.accesses.push(access);
    }

    /// Submits the crossing, as [`submit_crossing`] does.
    ///
    /// # Safety
    ///
    /// As for [`submit_crossing`].
    pub(crate) unsafe fn submit<C: Command>(
        &mut self,
        stream: &Arc<StreamState>,
        command: C,
    ) -> Result<(Sequence, C::Output)> {
        // SAFETY: by this function's contract.
        unsafe { submit_crossing(stream, &mut self.operation, &self.devices, command) }
    }
}

/// Submits an operation that uses memory of several devices, like [`submit`]. `devices` are the
/// device on which it runs, then the other owners of its memory, each once.
///
/// # Errors
///
/// As [`submit`]; also if another of the devices is lost.
///
/// # Safety
///
/// As for [`submit`]. The stream is of the first device, which can access the memory of the others.
///
/// [`submit`]: crate::context::submit
#[inline]
pub(crate) unsafe fn submit_crossing<C: Command>(
    stream: &Arc<StreamState>,
    operation: &mut Operation<'_>,
    devices: &[&Arc<DeviceState>],
    command: C,
) -> Result<(Sequence, C::Output)> {
    check_all_alive(devices)?;
    let device = devices[0];
    let is_ordinary = device.admission.only_examines();
    if !is_ordinary {
        let refused = "it uses memory of another device: enqueue it on an ordinary stream";
        device.refuse_recording(stream, operation.label, refused)?;
        device.run_deferred();
    }
    let Operation {
        kind,
        label,
        location,
        ref accesses,
        ..
    } = *operation;
    end_returned_leases((label, location), accesses.iter())?;
    let carried = imports::unsettled_imports(kind, accesses.iter())?;
    if (devices.iter()).any(|device| device.admission.has_borrowers()) {
        refuse_unordered(device, stream, operation)?;
    }
    let accesses = &operation.accesses;
    if !carried.is_empty() {
        imports::reach(&carried, devices.iter().map(|device| device.number()));
        imports::note(kind, &carried, accesses.iter(), false);
    }
    let mut settling = Settling {
        operation,
        devices,
        stream,
        carried,
        sequence: None,
    };
    let operation = &mut *settling.operation;
    let (sequence, output) = if is_ordinary {
        // SAFETY: by this function's contract.
        unsafe { enqueue::<C, false>(device, stream, operation, command) }?
    } else {
        // SAFETY: by this function's contract.
        unsafe { enqueue::<C, true>(device, stream, operation, command) }?
    };
    settling.sequence = Some(sequence);
    drop(settling);
    // Another device may have been found lost by a wait for it.
    check_all_alive(devices)?;
    Ok((sequence, output))
}

/// Returns an error if one of the devices is lost, or if this thread is inside a foreign call.
#[inline]
fn check_all_alive(devices: &[&Arc<DeviceState>]) -> Result<()> {
    devices.iter().try_for_each(|device| device.check_alive())
}

/// A crossing that is being submitted. Its drop notes the imports and watches the operation, also
/// after an error or a panic of the driver: the operation may have been enqueued nevertheless.
struct Settling<'s, 'a> {
    operation: &'s mut Operation<'a>,
    /// The device on which the operation runs, then the others.
    devices: &'s [&'s Arc<DeviceState>],
    stream: &'s Arc<StreamState>,
    carried: Imports,
    /// Set if the submission succeeded.
    sequence: Option<Sequence>,
}

impl Drop for Settling<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        if !self.repeats() {
            self.note();
        }
    }
}

impl<'a> Settling<'_, 'a> {
    /// Lets an existing import stand for this operation too, if the operation repeats an earlier
    /// one and writes one array only. The watch has the other reference to the import, and goes on
    /// with the later operation.
    #[inline]
    fn repeats(&self) -> bool {
        let Some(sequence) = self.sequence.filter(|_| self.carried.is_empty()) else {
            return false;
        };
        let mut written = self.writes();
        let (Some(only), None) = (written.next(), written.next()) else {
            return false;
        };
        let later = LaterOperation {
            ticket: self.stream.ticket(sequence),
            label: self.operation.label,
            location: self.operation.location,
            is_on: &|numbers| are_of(numbers, self.devices),
        };
        only.history.provenance.repeat(&later, 1)
    }

    #[inline(never)]
    fn note(&mut self) {
        let submitted = || self.stream.shared.lock().points.submitted();
        let sequence = self.sequence.unwrap_or_else(submitted);
        if self.writes().next().is_none() {
            let place = place(self.devices, self.stream);
            return watch(self.devices, place, sequence, None);
        }
        Arrival {
            kind: self.operation.kind,
            label: self.operation.label,
            location: self.operation.location,
            devices: self.devices,
            stream: self.stream,
            sequence,
            failure: None,
            submitted: self.sequence.is_some(),
        }
        .note(
            std::mem::take(&mut self.carried),
            self.operation.accesses.iter(),
        );
    }

    /// Iterates over the writes. Each depends on all devices: the bytes written to one device may
    /// come from another.
    #[inline]
    fn writes(&self) -> impl Iterator<Item = &Access<'a>> {
        let accesses = self.operation.accesses.iter();
        accesses.filter(|access| access.kind == AccessKind::Write)
    }
}
