//! Crossings: operations that use memory of several devices.
//!
//! A crossing runs on a stream of one device. Its ticket enters the access histories of other
//! devices' memory, so all its devices stay open until it is complete. If it writes memory, the
//! result is an import ([`imports`](super::imports)) until it is known that no device was lost
//! meanwhile. Each device watches the crossings on its streams, with one registration at the
//! reactor for all of them.

#![allow(unsafe_code, reason = "hands commands to the driver")]

use std::{
    panic::Location,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    Command, DeviceState, Operation, StreamState,
    imports::{self, CrossDeviceImport, Place},
    leases,
    polling::retain_patiently,
    submission::{refuse_unordered, submit_admitted, submit_ordinary},
};
use crate::{
    Error, Result,
    error::OperationKind,
    tracker::{
        Access, AccessKind, Accesses, DeviceNumber, GroupNumber, Import, Imports, LaterOperation,
        Sequence,
    },
};

/// An operation that uses memory of several devices, besides its command, with its operands as they
/// are found one by one.
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
    /// # Errors
    ///
    /// As [`submit_crossing`].
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

/// Submits an operation that uses memory of several devices, like [`submit`](super::submit).
/// `devices` are the device on which it runs, then the other owners of its memory, each once.
///
/// # Errors
///
/// As [`submit`](super::submit); also if another of the devices is lost.
///
/// # Safety
///
/// As for [`submit`](super::submit). The stream is of the first device, which can access the memory
/// of the others.
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
    leases::end_returned((label, location), accesses.iter())?;
    let carried = imports::of_operands(kind, accesses.iter())?;
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
        unsafe { submit_ordinary(device, stream, operation, command) }?
    } else {
        // SAFETY: as above.
        unsafe { submit_admitted(device, stream, operation, command) }?
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
    /// Makes the import of the only memory that the operation writes stand for the operation, if it
    /// is the same as an earlier one. The watch has the other reference to that import, and goes on
    /// with the later operation.
    #[inline]
    fn repeats(&self) -> bool {
        let Some(sequence) = self.sequence.filter(|_| self.carried.is_empty()) else {
            return false;
        };
        let mut written = self.written();
        let (Some(only), None) = (written.next(), written.next()) else {
            return false;
        };
        let later = LaterOperation {
            ticket: self.stream.ticket(sequence),
            label: self.operation.label,
            location: self.operation.location,
            is_on: &|numbers| imports::are_of(numbers, self.devices),
        };
        only.history.provenance.repeat(&later, 1)
    }

    #[inline(never)]
    fn note(&mut self) {
        let submitted = || self.stream.shared.lock().points.submitted();
        let sequence = self.sequence.unwrap_or_else(submitted);
        if self.written().next().is_none() {
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

    /// Iterates over the accesses that write. The data of a crossing that only writes memory of its
    /// own device cannot be told from those of one that reads another's, so any write depends on
    /// all devices.
    #[inline]
    fn written(&self) -> impl Iterator<Item = &Access<'a>> {
        let accesses = self.operation.accesses.iter();
        accesses.filter(|access| access.kind == AccessKind::Write)
    }
}

/// The failure of a collective that ends without its results: set before it is ended, so that its
/// results are never taken for valid.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    group: GroupNumber,
    cause: Arc<OnceLock<Error>>,
}

impl Failure {
    /// Creates the failure of a collective of this group, which has not failed.
    pub(crate) fn new(group: GroupNumber) -> Self {
        Self {
            group,
            cause: Arc::default(),
        }
    }

    /// Sets the cause, if none is set.
    pub(crate) fn set(&self, cause: &Error) {
        self.cause.get_or_init(|| cause.clone());
    }

    /// Returns the cause, if the collective has failed.
    pub(super) fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    /// Returns the collective's group.
    pub(super) fn group(&self) -> GroupNumber {
        self.group
    }
}

/// An operation by which memory gets its contents from several devices.
pub(crate) struct Arrival<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    /// The devices on which the contents depend, first the one on which the operation runs.
    pub(crate) devices: &'a [&'a Arc<DeviceState>],
    pub(crate) stream: &'a Arc<StreamState>,
    /// The operation's submitted ticket.
    pub(crate) sequence: Sequence,
    /// Set if the operation may end without its results.
    pub(crate) failure: Option<&'a Failure>,
    /// True if all of the operation was submitted without an error.
    pub(crate) submitted: bool,
}

impl Arrival<'_> {
    /// Notes that what the operation writes depends on its devices and on the imports `carried` of
    /// what it reads. The devices stay open until the operation is complete.
    pub(crate) fn note<'a, 'b: 'a>(
        &self,
        mut carried: Imports,
        accesses: impl IntoIterator<Item = &'a Access<'b>>,
    ) {
        let (place, import) = self.import();
        carried.push(Arc::clone(&import) as Arc<dyn Import>);
        imports::note(self.kind, &carried, accesses, self.submitted);
        watch(self.devices, place, self.sequence, Some(import));
    }

    /// Creates the import of the operation.
    fn import(&self) -> (Arc<Place>, Arc<CrossDeviceImport>) {
        let place = place(self.devices, self.stream);
        let operation = (self.label, self.location);
        let import = CrossDeviceImport::new(operation, &place, self.sequence, self.failure);
        (place, import)
    }
}

/// Notes that what each operation of a group writes depends on all of them, and on the imports
/// `carried` of what they read. The devices stay open until the operations are complete.
pub(super) fn note_group(operations: &[(Arrival<'_>, &Accesses<'_>)], mut carried: Imports) {
    let imports: SmallVec<[_; 4]> = operations
        .iter()
        .map(|(arrival, _)| arrival.import())
        .collect();
    let own = imports.iter().map(|(_, import)| Arc::clone(import));
    carried.extend(own.map(|import| import as Arc<dyn Import>));
    for (arrival, accesses) in operations {
        imports::note(arrival.kind, &carried, accesses.iter(), arrival.submitted);
    }
    // Only now, because a watch ends earlier that nothing else refers to.
    drop(carried);
    for ((arrival, _), (place, import)) in operations.iter().zip(imports) {
        watch(arrival.devices, place, arrival.sequence, Some(import));
    }
}

/// A crossing that may not be complete yet.
struct Watched {
    place: Arc<Place>,
    /// The operation's ticket, if it has no import that knows it.
    sequence: Sequence,
    import: Option<Arc<CrossDeviceImport>>,
    /// The other devices, which stay open.
    others: SmallVec<[Arc<DeviceState>; 2]>,
}

impl Watched {
    /// Returns the ticket of the last operation for which this stands.
    fn sequence(&self) -> Sequence {
        let import = self.import.as_ref();
        import.map_or(self.sequence, |import| import.sequence())
    }

    /// Ends the watch of the operation `sequence`. Returns `false` if this stands for a later one
    /// by now.
    fn end(&self, sequence: Sequence) -> bool {
        let import = self.import.as_ref();
        import.is_none_or(|import| import.end_watch(sequence))
    }

    /// Returns whether the crossing `sequence` at this place makes it unnecessary to watch this
    /// one: it is later, and nothing else asks for this one's verdict. Threads may note crossings
    /// of a stream in another order than that of their submission.
    fn is_replaced_at(&self, place: &Arc<Place>, sequence: Sequence) -> bool {
        let import = self.import.as_ref();
        Arc::ptr_eq(&self.place, place)
            && self.sequence() <= sequence
            && import.is_none_or(|import| Arc::strong_count(import) == 1)
    }
}

/// The crossings on the streams of one device that may not be complete.
#[derive(Default)]
pub(crate) struct Crossings(Mutex<WatchState>);

#[derive(Default)]
struct WatchState {
    watched: Vec<Watched>,
    /// True while the reactor polls for one of them.
    registered: bool,
}

/// Returns the place of crossings on the stream with these devices, first the one on which they
/// run: that of the last crossing, if it is the same.
fn place(devices: &[&Arc<DeviceState>], stream: &Arc<StreamState>) -> Arc<Place> {
    let state = devices[0].crossings.0.lock();
    match state.watched.last() {
        Some(last) if last.place.is_of(stream, devices) => Arc::clone(&last.place),
        _ => Place::new(stream, devices),
    }
}

/// Keeps all devices of a crossing open until it is complete, and then settles its import. The
/// first of `devices` is the one on which it runs.
fn watch(
    devices: &[&Arc<DeviceState>],
    place: Arc<Place>,
    sequence: Sequence,
    import: Option<Arc<CrossDeviceImport>>,
) {
    let device = devices[0];
    let mut state = device.crossings.0.lock();
    // Nothing depends on the last crossing of the stream any more, and it is complete once this one
    // is: the usual case of a stream that overwrites the same array again and again.
    let replaced = match state.watched.last_mut() {
        Some(last) if last.is_replaced_at(&place, sequence) => {
            last.sequence = sequence;
            std::mem::replace(&mut last.import, import)
        }
        _ => {
            state.watched.push(Watched {
                place: Arc::clone(&place),
                sequence,
                import,
                others: devices[1..].iter().copied().cloned().collect(),
            });
            None
        }
    };
    let registered = std::mem::replace(&mut state.registered, true);
    drop(state);
    // Only now, because the last reference to an import takes other locks.
    drop(replaced);
    if !registered {
        register(device, &place.stream, sequence);
    }
}

/// Settles crossings once the stream's ticket `sequence` is complete.
fn register(device: &Arc<DeviceState>, stream: &Arc<StreamState>, sequence: Sequence) {
    let settle = SettleOnDrop(Arc::downgrade(device));
    retain_patiently(device, stream, sequence, settle);
}

/// Settles the completed crossings of a device when it is dropped.
struct SettleOnDrop(Weak<DeviceState>);

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        if let Some(device) = self.0.upgrade() {
            settle_completed(&device);
        }
    }
}

/// Settles the completed crossings, and registers the next one. Those of a lost device never
/// complete and are settled too.
fn settle_completed(device: &Arc<DeviceState>) {
    let watched = std::mem::take(&mut device.crossings.0.lock().watched);
    let is_lost = device.lost().is_some();
    let (mut over, mut pending) = (Vec::new(), Vec::new());
    for watched in watched {
        let sequence = watched.sequence();
        if is_lost || watched.place.stream.is_done(sequence) {
            over.push((watched, sequence));
        } else {
            pending.push(watched);
        }
    }
    settle(device, &over);
    let (over, later): (Vec<_>, Vec<_>) = over
        .into_iter()
        .partition(|(watched, sequence)| watched.end(*sequence));
    pending.extend(later.into_iter().map(|(watched, _)| watched));
    let mut state = device.crossings.0.lock();
    state.watched.extend(pending);
    let next = state
        .watched
        .first()
        .map(|next| (Arc::clone(&next.place), next.sequence()));
    state.registered = next.is_some();
    drop(state);
    if let Some((place, sequence)) = next {
        register(device, &place.stream, sequence);
    }
    // Only now, because the last reference to a device closes it.
    drop(over);
}

/// Settles the imports of completed crossings, with one query of each device for all of them.
fn settle(device: &Arc<DeviceState>, over: &[(Watched, Sequence)]) {
    let undecided = |(watched, _): &&(Watched, Sequence)| {
        let import = watched.import.as_ref();
        import.is_some_and(|import| !import.is_decided())
    };
    let undecided: Vec<&(Watched, Sequence)> = over.iter().filter(undecided).collect();
    let mut outlived: Vec<DeviceNumber> = Vec::new();
    for (watched, _) in &undecided {
        for other in std::iter::once(device).chain(&watched.others) {
            if !outlived.contains(&other.number()) && imports::answers(other) {
                outlived.push(other.number());
            }
        }
    }
    for (watched, sequence) in undecided {
        if let Some(import) = &watched.import {
            import.decide_after(*sequence, &outlived);
        }
    }
}
