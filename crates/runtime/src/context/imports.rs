//! Imports: operations whose results depend on several devices, and what their loss means.
//!
//! Whether the results are valid is decided once, by the first that asks: a host wait, a later
//! operation, or the watch of the device ([`crossing`](super::crossing)). The results are valid if
//! the operation is complete and each of its devices answers without an error *after* that. A lost
//! device reports its loss to every later call, so an operation that read from a device after its
//! loss cannot pass. The order matters: the waits for a lost device end, and the operations behind
//! them complete with unknown values.
//!
//! While any import of the process is unsettled, or memory is [lent](super::leases), every device
//! examines the operands of each operation before it is submitted ([`examine`]). Otherwise nothing
//! is examined.

use std::{
    panic::Location,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{
    DeviceState, Operation, StreamState,
    crossing::Failure,
    leases,
    polling::{poll_ticket, query_stream},
    realm,
};
use crate::{
    Error, Result,
    error::OperationKind,
    tracker::{Access, AccessKind, DeviceNumber, GroupNumber, Import, Imports, Sequence, Ticket},
};

const UNKNOWN: u8 = 0;
const VALID: u8 = 1;
const INVALID: u8 = 2;

/// An operation on several devices, or through the host from one device to another.
#[derive(Debug)]
pub(crate) struct CrossDeviceImport {
    label: &'static str,
    location: &'static Location<'static>,
    place: Arc<Place>,
    sequence: Sequence,
    /// Set if the operation may end without its results.
    failure: Option<Failure>,
    verdict: AtomicU8,
}

/// The stream on which an operation of several devices runs, and these devices. Consecutive
/// operations of a stream share it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) stream: Arc<StreamState>,
    numbers: SmallVec<[DeviceNumber; 2]>,
    /// Weak: the watch keeps the devices open until the import is settled.
    devices: SmallVec<[Weak<DeviceState>; 2]>,
}

impl Place {
    /// Creates the place of operations on this stream that use these devices, first the stream's.
    pub(super) fn new(stream: &Arc<StreamState>, devices: &[&Arc<DeviceState>]) -> Arc<Self> {
        Arc::new(Self {
            stream: Arc::clone(stream),
            numbers: devices.iter().map(|device| device.number()).collect(),
            devices: devices
                .iter()
                .map(|device| Arc::downgrade(device))
                .collect(),
        })
    }

    /// Returns whether this is the place of operations on the stream with these devices.
    pub(super) fn is_of(&self, stream: &Arc<StreamState>, devices: &[&Arc<DeviceState>]) -> bool {
        Arc::ptr_eq(&self.stream, stream)
            && self.numbers.len() == devices.len()
            && self
                .numbers
                .iter()
                .zip(devices)
                .all(|(&number, device)| number == device.number())
    }
}

/// The number of unsettled imports of the process, and of leases.
static UNSETTLED: Mutex<u64> = Mutex::new(0);

/// Counts an import, and makes all devices examine their operands if it is the only one.
fn count() {
    let mut unsettled = UNSETTLED.lock();
    *unsettled += 1;
    if *unsettled == 1 {
        examine_operands(true, unsettled);
    }
}

/// Reverses [`count`].
fn uncount() {
    let mut unsettled = UNSETTLED.lock();
    *unsettled -= 1;
    if *unsettled == 0 {
        examine_operands(false, unsettled);
    }
}

/// Makes all devices examine their operands as long as it lives.
#[derive(Debug)]
pub(crate) struct ExaminedOperands(());

impl ExaminedOperands {
    pub(crate) fn begin() -> Self {
        count();
        Self(())
    }
}

impl Drop for ExaminedOperands {
    fn drop(&mut self) {
        uncount();
    }
}

/// Sets for all devices whether they examine their operands. `unsettled` is locked meanwhile.
fn examine_operands(examine: bool, unsettled: MutexGuard<'_, u64>) {
    let devices = realm::all();
    for device in &devices {
        device.admission.examine_operands(examine);
    }
    // In this order: the last reference to a device closes it, which may end imports.
    drop(unsettled);
    drop(devices);
}

/// Adds a device to the realm. It examines its operands if there are unsettled imports.
pub(crate) fn enter_realm(device: &Arc<DeviceState>) {
    let unsettled = UNSETTLED.lock();
    device.admission.examine_operands(*unsettled > 0);
    realm::enter(device);
}

impl CrossDeviceImport {
    /// Creates the import of the submitted ticket `sequence` of the place's stream.
    pub(super) fn new(
        (label, location): (&'static str, &'static Location<'static>),
        place: &Arc<Place>,
        sequence: Sequence,
        failure: Option<&Failure>,
    ) -> Arc<Self> {
        count();
        Arc::new(Self {
            label,
            location,
            place: Arc::clone(place),
            sequence,
            failure: failure.cloned(),
            verdict: AtomicU8::new(UNKNOWN),
        })
    }

    /// Decides, if possible, whether the results are valid.
    pub(super) fn decide(&self) -> u8 {
        let known = self.verdict.load(Ordering::Acquire);
        if known != UNKNOWN {
            return known;
        }
        let devices: SmallVec<[Arc<DeviceState>; 2]> = self
            .place
            .devices
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let is_lost = || devices.iter().any(|device| device.lost().is_some());
        if devices.len() < self.place.devices.len() || is_lost() || self.failed().is_some() {
            return self.settle(INVALID);
        }
        match poll_ticket(&devices[0], &self.place.stream, self.sequence) {
            Ok(true) => {}
            Err(_) if is_lost() => return self.settle(INVALID),
            // Another error than the loss says nothing about the device.
            Ok(false) | Err(_) => return UNKNOWN,
        }
        if !devices.iter().all(|device| answers(device)) {
            return if is_lost() {
                self.settle(INVALID)
            } else {
                UNKNOWN
            };
        }
        self.settle_completed()
    }

    /// Returns whether it is known whether the results are valid.
    pub(super) fn is_decided(&self) -> bool {
        self.verdict.load(Ordering::Acquire) != UNKNOWN
    }

    /// Decides whether the results of the completed operation are valid, with the devices that have
    /// answered since without an error.
    pub(super) fn decide_after(&self, answered: &[DeviceNumber]) {
        if !self.is_decided()
            && self
                .place
                .numbers
                .iter()
                .all(|number| answered.contains(number))
        {
            self.settle_completed();
        } else {
            self.decide();
        }
    }

    /// Sets the verdict of an operation that is complete on devices that outlived it.
    fn settle_completed(&self) -> u8 {
        // Looked at after the operation was seen complete, because it is set before the operation
        // is ended.
        let verdict = match self.failed() {
            Some(_) => INVALID,
            None => VALID,
        };
        self.settle(verdict)
    }

    /// Returns the failure of the operation, if it has failed.
    fn failed(&self) -> Option<&Error> {
        self.failure.as_ref()?.cause()
    }

    /// Sets the verdict, unless another thread did, and returns it.
    fn settle(&self, verdict: u8) -> u8 {
        let settled =
            self.verdict
                .compare_exchange(UNKNOWN, verdict, Ordering::AcqRel, Ordering::Acquire);
        match settled {
            Ok(_) => {
                if verdict == VALID {
                    uncount();
                }
                verdict
            }
            Err(known) => known,
        }
    }

    /// Returns the error of every use of the results.
    fn error(&self) -> Error {
        if let Some(failure) = self.failed() {
            return failure.clone();
        }
        let devices = self.place.devices.iter().filter_map(Weak::upgrade);
        let lost = devices.into_iter().find_map(|device| {
            let loss = device.loss()?;
            Some((device.to_string(), loss.cause.to_string()))
        });
        let (device, cause) = lost.unwrap_or_else(|| {
            let closed = "a device that is closed by now";
            (closed.to_owned(), "it was lost".to_owned())
        });
        Error::Poisoned {
            operation: self.label,
            location: self.location,
            device,
            cause,
        }
    }
}

impl Drop for CrossDeviceImport {
    fn drop(&mut self) {
        if *self.verdict.get_mut() != VALID {
            uncount();
        }
    }
}

impl Import for CrossDeviceImport {
    fn ticket(&self) -> Ticket {
        self.place.stream.ticket(self.sequence)
    }

    fn devices(&self) -> &[DeviceNumber] {
        &self.place.numbers
    }

    fn group(&self) -> Option<GroupNumber> {
        self.failure.as_ref().map(Failure::group)
    }

    fn is_valid(&self) -> bool {
        self.verdict.load(Ordering::Acquire) == VALID
    }

    fn check(&self) -> Result<bool> {
        match self.decide() {
            INVALID => Err(self.error()),
            verdict => Ok(verdict == VALID),
        }
    }
}

/// Returns whether the device answers a query without an error. A lost device reports its loss to
/// every call.
pub(super) fn answers(device: &DeviceState) -> bool {
    match device.streams.iter().next() {
        Some(stream) => query_stream(device, stream).is_ok(),
        None => device.lost().is_none(),
    }
}

/// Collects the unsettled imports of everything that these accesses may read.
///
/// # Errors
///
/// If an operand is invalid.
pub(crate) fn of_operands<'a, 'b: 'a>(
    kind: OperationKind,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<Imports> {
    let mut found = Imports::new();
    for access in accesses {
        if reads(kind, access) {
            let unsettled = access.history.provenance.unsettled()?;
            for import in unsettled {
                if !found.iter().any(|known| Arc::ptr_eq(known, &import)) {
                    found.push(import);
                }
            }
        }
    }
    Ok(found)
}

/// Returns whether an operation of this kind may read what it accesses. A kernel and a collective
/// may read what they write.
fn reads(kind: OperationKind, access: &Access<'_>) -> bool {
    access.kind == AccessKind::Read
        || matches!(
            kind,
            OperationKind::Kernel | OperationKind::Collective | OperationKind::Graph
        )
}

/// Returns whether an operation of this kind replaces all contents of the allocation.
fn overwrites(kind: OperationKind, access: &Access<'_>) -> bool {
    !reads(kind, access) && access.extent.is_whole(access.history.bytes())
}

/// Notes that the results of an operation come from these imports: before its submission, because
/// it may have run although the submission failed, and again if it was `submitted` without an
/// error, because whatever it overwrites as a whole then has no earlier ones.
pub(super) fn note<'a, 'b: 'a>(
    kind: OperationKind,
    imports: &Imports,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
    submitted: bool,
) {
    for access in accesses {
        if submitted && overwrites(kind, access) {
            access.history.provenance.replace(imports);
        } else if access.kind == AccessKind::Write {
            access.history.provenance.add(imports);
        }
    }
}

/// Notes that the submitted parts of an operation together replace the contents of an allocation,
/// if the access is to all of it.
pub(crate) fn note_overwritten(device: &DeviceState, access: &Access<'_>) {
    if device.admission.examines_operands() && access.extent.is_whole(access.history.bytes()) {
        access.history.provenance.replace(&[]);
    }
}

/// Examines the operands of an operation on one device. Returns the imports that its results depend
/// on.
///
/// # Errors
///
/// If an operand is invalid or lent to another library.
pub(super) fn examine(operation: &mut Operation<'_>) -> Result<Imports> {
    leases::check(
        operation.label,
        operation.location,
        operation.accesses.iter(),
    )?;
    let imports = of_operands(operation.kind, operation.accesses.iter())?;
    note(operation.kind, &imports, operation.accesses.iter(), false);
    Ok(imports)
}
