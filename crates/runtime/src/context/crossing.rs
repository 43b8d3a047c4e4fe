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
    imports::{self, CrossDeviceImport},
    polling::retain_patiently,
    submission::submit_admitted,
};
use crate::{
    Error, Result,
    error::OperationKind,
    tracker::{Access, AccessKind, DeviceNumber, Import, Imports, Sequence},
};

/// The devices of a crossing, first the one on which it runs.
type Devices<'a> = Vec<&'a Arc<DeviceState>>;

/// An access of a crossing, with the device that owns the memory.
pub(crate) struct OwnedAccess<'a> {
    pub(crate) access: Access<'a>,
    pub(crate) owner: &'a Arc<DeviceState>,
}

/// A description of a crossing besides its command.
pub(crate) struct Crossing<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) accesses: Vec<OwnedAccess<'a>>,
}

impl<'a> Crossing<'a> {
    /// Returns `device` and the owners of the memory, each once.
    fn devices<'d>(&'d self, device: &'d Arc<DeviceState>) -> Devices<'d> {
        let mut devices = vec![device];
        for OwnedAccess { owner, .. } in &self.accesses {
            if !devices.iter().any(|known| Arc::ptr_eq(known, owner)) {
                devices.push(owner);
            }
        }
        devices
    }

    fn accesses(&self) -> impl Iterator<Item = &Access<'a>> {
        self.accesses.iter().map(|owned| &owned.access)
    }
}

/// Submits an operation that uses memory of several devices, like [`submit`](super::submit).
///
/// # Errors
///
/// As [`submit`](super::submit); also if another of the devices is lost.
///
/// # Safety
///
/// As for [`submit`](super::submit). The stream's device can access the memory of the others.
pub(crate) unsafe fn submit_crossing<C: Command>(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    crossing: &Crossing<'_>,
    command: C,
) -> Result<(Sequence, C::Output)> {
    let devices = crossing.devices(device);
    for device in &devices {
        device.check_alive()?;
    }
    let carried = imports::of_operands(crossing.kind, crossing.accesses())?;
    imports::before(&carried, crossing.accesses());
    let mut operation = Operation {
        kind: crossing.kind,
        label: crossing.label,
        location: crossing.location,
        bytes: crossing.bytes,
        accesses: crossing.accesses().cloned().collect(),
        host_waiter: None,
    };
    let mut settling = Settling {
        devices: &devices,
        stream,
        crossing,
        carried,
        sequence: None,
    };
    // SAFETY: by this function's contract.
    let (sequence, output) = unsafe { submit_admitted(device, stream, &mut operation, command) }?;
    settling.sequence = Some(sequence);
    drop(settling);
    // Another device may have been found lost by a wait for it.
    for device in devices {
        device.check_alive()?;
    }
    Ok((sequence, output))
}

/// A crossing that is being submitted. Its drop notes the imports and watches the operation, also
/// after an error or a panic of the driver: the operation may have been enqueued nevertheless.
struct Settling<'a> {
    devices: &'a [&'a Arc<DeviceState>],
    stream: &'a Arc<StreamState>,
    crossing: &'a Crossing<'a>,
    carried: Imports,
    /// Set if the submission succeeded.
    sequence: Option<Sequence>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let (devices, stream, crossing) = (self.devices, self.stream, self.crossing);
        let submitted = || stream.shared.lock().points.submitted();
        let sequence = self.sequence.unwrap_or_else(submitted);
        // The data of a crossing that only writes memory of its own device cannot be told from
        // those of one that reads another's, so any write depends on all devices.
        let writes = |owned: &OwnedAccess<'_>| owned.access.kind == AccessKind::Write;
        let import = crossing.accesses.iter().any(writes).then(|| {
            let operation = (crossing.label, crossing.location);
            CrossDeviceImport::new(operation, stream, sequence, devices, None)
        });
        if let Some(import) = &import {
            self.carried.push(Arc::clone(import) as Arc<dyn Import>);
            let submitted = self.sequence.is_some();
            imports::note(crossing.kind, &self.carried, crossing.accesses(), submitted);
        }
        watch(devices[0], stream, sequence, &devices[1..], import);
    }
}

/// The failure of operations that this library submitted and that end without their results: set
/// before they are ended, so that their results are never taken for valid.
pub(crate) type Failure = Arc<OnceLock<Error>>;

/// Notes an operation of a group: its devices, first the one on which it runs, stay open until it
/// is complete, and what it writes depends on all of them.
pub(super) fn note_member(
    devices: &[&Arc<DeviceState>],
    stream: &Arc<StreamState>,
    sequence: Sequence,
    operation: &Operation<'_>,
    carried: &Imports,
    failure: Option<&Failure>,
    submitted: bool,
) {
    let Operation {
        kind,
        label,
        location,
        ref accesses,
        ..
    } = *operation;
    let import = CrossDeviceImport::new((label, location), stream, sequence, devices, failure);
    let mut carried = carried.clone();
    carried.push(Arc::clone(&import) as Arc<dyn Import>);
    imports::note(kind, &carried, accesses.iter(), submitted);
    watch(devices[0], stream, sequence, &devices[1..], Some(import));
}

/// Notes that `target` memory, of the device `devices[0]`, gets its contents by the stream's ticket
/// `sequence` from the other devices, through the host. The imports `carried` are those of the
/// source.
pub(crate) fn import_through_host(
    devices: [&Arc<DeviceState>; 2],
    stream: &Arc<StreamState>,
    sequence: Sequence,
    target: &Access<'_>,
    mut carried: Imports,
    operation: (&'static str, &'static Location<'static>),
) {
    let import = CrossDeviceImport::new(operation, stream, sequence, &devices, None);
    carried.push(Arc::clone(&import) as Arc<dyn Import>);
    if target.extent.is_whole(target.history.bytes()) {
        target.history.provenance.replace(&carried);
    } else {
        target.history.provenance.add(&carried);
    }
    watch(devices[0], stream, sequence, &devices[1..], Some(import));
}

/// A crossing that may not be complete yet.
struct Watched {
    stream: Arc<StreamState>,
    sequence: Sequence,
    import: Option<Arc<CrossDeviceImport>>,
    /// The other devices, which stay open.
    others: SmallVec<[Arc<DeviceState>; 2]>,
}

impl Watched {
    /// Returns whether a later crossing makes it unnecessary to watch this one: it is on the same
    /// stream with the same devices, and nothing else asks for this one's verdict.
    fn is_replaced_by(&self, later: &Self) -> bool {
        let same_devices = self.others.len() == later.others.len()
            && self
                .others
                .iter()
                .zip(&later.others)
                .all(|(one, other)| Arc::ptr_eq(one, other));
        let import = self.import.as_ref();
        same_devices
            && Arc::ptr_eq(&self.stream, &later.stream)
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

/// Keeps all devices of a crossing open until it is complete, and then settles its import.
fn watch(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: Sequence,
    others: &[&Arc<DeviceState>],
    import: Option<Arc<CrossDeviceImport>>,
) {
    let watched = Watched {
        stream: Arc::clone(stream),
        sequence,
        import,
        others: others.iter().map(|device| Arc::clone(device)).collect(),
    };
    let mut state = device.crossings.0.lock();
    // Nothing depends on the last crossing of the stream any more, and it is complete once this one
    // is: the usual case of a stream that overwrites the same array again and again.
    let replaced = match state.watched.last_mut() {
        Some(last) if last.is_replaced_by(&watched) => Some(std::mem::replace(last, watched)),
        _ => {
            state.watched.push(watched);
            None
        }
    };
    let registered = std::mem::replace(&mut state.registered, true);
    drop(state);
    // Only now, because the last reference to an import takes other locks.
    drop(replaced);
    if !registered {
        register(device, stream, sequence);
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
    let is_over = |watched: &Watched| is_lost || watched.stream.is_done(watched.sequence);
    let (over, pending): (Vec<_>, Vec<_>) = watched.into_iter().partition(is_over);
    settle(device, &over);
    let mut state = device.crossings.0.lock();
    state.watched.extend(pending);
    let next = state
        .watched
        .first()
        .map(|next| (Arc::clone(&next.stream), next.sequence));
    state.registered = next.is_some();
    drop(state);
    if let Some((stream, sequence)) = next {
        register(device, &stream, sequence);
    }
    // Only now, because the last reference to a device closes it.
    drop(over);
}

/// Settles the imports of completed crossings, with one query of each device for all of them.
fn settle(device: &Arc<DeviceState>, over: &[Watched]) {
    let undecided = |watched: &&Watched| {
        let import = watched.import.as_ref();
        import.is_some_and(|import| !import.is_decided())
    };
    let undecided: Vec<&Watched> = over.iter().filter(undecided).collect();
    let mut outlived: Vec<DeviceNumber> = Vec::new();
    for watched in &undecided {
        for other in std::iter::once(device).chain(&watched.others) {
            if !outlived.contains(&other.number()) && imports::answers(other) {
                outlived.push(other.number());
            }
        }
    }
    for import in undecided
        .iter()
        .filter_map(|watched| watched.import.as_ref())
    {
        import.decide_after(&outlived);
    }
}
