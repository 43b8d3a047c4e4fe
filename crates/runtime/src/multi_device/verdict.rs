//! Verdicts: whether the results of an operation on several devices are valid.
//!
//! That is decided once, by the first that asks: a host wait, a later operation, or the
//! [watch](super::watch) of the device. The results are valid if the operation is complete and each
//! of its devices answers without an error *after* that. A lost device reports its loss to every
//! later call, so an operation that read from a device after its loss cannot pass. The order
//! matters: the waits for a lost device end, and the operations behind them complete with unknown
//! values.

use std::{
    panic::Location,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use smallvec::SmallVec;

use crate::{
    Error, Result,
    context::{
        DeviceState, StreamState, begin_examining, end_examining, poll_ticket, query_stream,
    },
    tracker::{DeviceNumber, GroupNumber, Import, LaterOperation, Sequence, Ticket},
};

/// Whether the results of an operation are valid, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unknown,
    Valid,
    Invalid,
}

/// The state of an import in one word: the operation's sequence number, the verdict, and whether
/// the device still watches it. An import that is decided or not watched no longer changes its
/// operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

impl State {
    const VALID: u64 = 1;
    const INVALID: u64 = 2;
    const WATCHED: u64 = 4;
    const FLAG_BITS: u32 = 3;

    /// Returns the state of a watched import that is not decided.
    fn new(sequence: Sequence) -> Self {
        Self(sequence.get() << Self::FLAG_BITS | Self::WATCHED)
    }

    fn sequence(self) -> Sequence {
        Sequence::of(self.0 >> Self::FLAG_BITS)
    }

    fn verdict(self) -> Verdict {
        match self.0 & (Self::VALID | Self::INVALID) {
            0 => Verdict::Unknown,
            Self::VALID => Verdict::Valid,
            _ => Verdict::Invalid,
        }
    }

    /// Returns whether the operation may be replaced by a later one.
    fn may_change(self) -> bool {
        self.verdict() == Verdict::Unknown && self.0 & Self::WATCHED != 0
    }

    /// Returns the state with this verdict, which is not `Unknown`.
    fn decided(self, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Valid => Self(self.0 | Self::VALID),
            Verdict::Unknown | Verdict::Invalid => Self(self.0 | Self::INVALID),
        }
    }

    fn unwatched(self) -> Self {
        Self(self.0 & !Self::WATCHED)
    }
}

/// An operation on several devices, or through the host from one device to another.
#[derive(Debug)]
pub(crate) struct CrossDeviceImport {
    label: &'static str,
    location: &'static Location<'static>,
    place: Arc<Place>,
    /// Set if the operation may end without its results.
    failure: Option<Failure>,
    state: AtomicU64,
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
        Arc::ptr_eq(&self.stream, stream) && are_of(&self.numbers, devices)
    }
}

pub(super) fn are_of(numbers: &[DeviceNumber], devices: &[&Arc<DeviceState>]) -> bool {
    let each = devices.iter().map(|device| device.number());
    numbers.len() == devices.len() && numbers.iter().copied().eq(each)
}

impl CrossDeviceImport {
    /// Creates the import of the submitted ticket `sequence` of the place's stream. The caller
    /// watches it.
    pub(super) fn new(
        (label, location): (&'static str, &'static Location<'static>),
        place: &Arc<Place>,
        sequence: Sequence,
        failure: Option<&Failure>,
    ) -> Arc<Self> {
        begin_examining();
        Arc::new(Self {
            label,
            location,
            place: Arc::clone(place),
            failure: failure.cloned(),
            state: AtomicU64::new(State::new(sequence).0),
        })
    }

    fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    pub(super) fn sequence(&self) -> Sequence {
        self.state().sequence()
    }

    /// Decides, if possible, whether the results are valid.
    fn decide(&self) -> Verdict {
        let state = self.state();
        if state.verdict() != Verdict::Unknown {
            return state.verdict();
        }
        let devices: SmallVec<[Arc<DeviceState>; 2]> = self
            .place
            .devices
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let is_lost = || devices.iter().any(|device| device.lost().is_some());
        if devices.len() < self.place.devices.len() || is_lost() || self.failed().is_some() {
            return self.invalidate();
        }
        match poll_ticket(&devices[0], &self.place.stream, state.sequence()) {
            Ok(true) => {}
            Err(_) if is_lost() => return self.invalidate(),
            // Another error than the loss says nothing about the device.
            Ok(false) | Err(_) => return Verdict::Unknown,
        }
        if !devices.iter().all(|device| answers(device)) {
            return if is_lost() {
                self.invalidate()
            } else {
                Verdict::Unknown
            };
        }
        self.settle_completed(state.sequence())
    }

    /// Returns whether it is known whether the results are valid.
    pub(super) fn is_decided(&self) -> bool {
        self.state().verdict() != Verdict::Unknown
    }

    /// Decides whether the results of the completed operation `sequence` are valid. The devices
    /// `answered` have since answered without an error.
    pub(super) fn decide_after(&self, sequence: Sequence, answered: &[DeviceNumber]) {
        let numbers = &self.place.numbers;
        if numbers.iter().all(|number| answered.contains(number)) {
            self.settle_completed(sequence);
        } else {
            self.decide();
        }
    }

    /// Ends the watch of the operation `sequence`. Returns `false` if the import stands for a later
    /// operation by now, which must still be watched.
    pub(super) fn end_watch(&self, sequence: Sequence) -> bool {
        let ended = self.change(|state| {
            let is_over = state.verdict() != Verdict::Unknown || state.sequence() == sequence;
            is_over.then(|| state.unwatched())
        });
        ended.is_ok()
    }

    /// Sets the verdict of the operation `sequence`, which is complete and whose devices outlived
    /// it, unless the import stands for a later operation by now.
    fn settle_completed(&self, sequence: Sequence) -> Verdict {
        // Looked at after the operation was seen complete, because it is set before the operation
        // is ended.
        if self.failed().is_some() {
            return self.invalidate();
        }
        let settled = self.change(|state| {
            let is_due = state.verdict() == Verdict::Unknown && state.sequence() == sequence;
            is_due.then(|| state.decided(Verdict::Valid))
        });
        match settled {
            Ok(_) => {
                end_examining();
                Verdict::Valid
            }
            Err(other) => other.verdict(),
        }
    }

    /// Sets the verdict that the results are invalid, unless there is one, and returns the verdict.
    fn invalidate(&self) -> Verdict {
        let settled = self.change(|state| {
            let is_due = state.verdict() == Verdict::Unknown;
            is_due.then(|| state.decided(Verdict::Invalid))
        });
        settled.map_or_else(State::verdict, |_| Verdict::Invalid)
    }

    /// Changes the state as long as `change` returns another. Returns the earlier state, as an
    /// error if it was not changed.
    fn change(&self, change: impl Fn(State) -> Option<State>) -> Result<State, State> {
        let changed = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                change(State(state)).map(|state| state.0)
            });
        changed.map(State).map_err(State)
    }

    fn failed(&self) -> Option<&Error> {
        self.failure.as_ref()?.cause()
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
        if State(*self.state.get_mut()).verdict() != Verdict::Valid {
            end_examining();
        }
    }
}

impl Import for CrossDeviceImport {
    fn ticket(&self) -> Ticket {
        self.place.stream.ticket(self.sequence())
    }

    fn devices(&self) -> &[DeviceNumber] {
        &self.place.numbers
    }

    fn group(&self) -> Option<GroupNumber> {
        self.failure.as_ref().map(Failure::group)
    }

    fn repeat(&self, later: &LaterOperation<'_>) -> bool {
        let ticket = later.ticket;
        let is_same = self.place.stream.id == ticket.stream
            && self.failure.is_none()
            && std::ptr::eq(self.location, later.location)
            && std::ptr::eq(self.label, later.label)
            && (later.is_on)(&self.place.numbers);
        is_same
            && self
                .change(|state| {
                    let repeats = state.may_change() && state.sequence() < ticket.sequence;
                    repeats.then(|| State::new(ticket.sequence))
                })
                .is_ok()
    }

    fn is_valid(&self) -> bool {
        self.state().verdict() == Verdict::Valid
    }

    fn is_undecided(&self) -> bool {
        self.state().verdict() == Verdict::Unknown && self.failed().is_none()
    }

    fn check(&self) -> Result<bool> {
        match self.decide() {
            Verdict::Invalid => Err(self.error()),
            verdict => Ok(verdict == Verdict::Valid),
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

    pub(super) fn cause(&self) -> Option<&Error> {
        self.cause.get()
    }

    pub(super) fn group(&self) -> GroupNumber {
        self.group
    }
}
