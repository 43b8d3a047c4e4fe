//! The check before every operation: the device is not lost, and the thread is not inside a foreign
//! call.
//!
//! The closure of a foreign call (`kernel::enqueue`) runs with its stream's lock held. If it called
//! this library for the same stream, it would wait for that lock for ever; an operation on another
//! stream may wait for this one's submission. Both are rejected with a typed error. One word
//! covers these conditions and all others that an operation meets rarely, so that the check of an
//! ordinary operation is one load.

use std::cell::Cell;

use parking_lot::Mutex;

use crate::{
    spans::HostSpan,
    sync::{AtomicU64, Ordering},
};

/// The bit that is set once the device is lost.
const LOST: u64 = 1 << 31;
/// The bit that is set while operands may hold data that the loss of a device has spoiled.
const EXAMINE: u64 = 1 << 30;
/// The bit that is set if submissions and waits have [spans](crate::spans).
const SPANS: u64 = 1 << 29;
/// The bit that is set once a stream was adopted.
const ADOPTED: u64 = 1 << 28;
/// The bit that is set while a stream of the device is [recording](super::recording).
const RECORDS: u64 = 1 << 27;
/// The bit that is set while a layer above may have deferred work.
const DEFERRED: u64 = 1 << 26;
/// The bit that is set while a [tracer](super::trace) is told of operations.
const TRACES: u64 = 1 << 25;
/// One lease of the device's memory.
const LEASE: u64 = 1 << 32;
const LEASES: u64 = !(LEASE - 1);

thread_local! {
    /// The number of foreign calls that this thread is inside. They nest if their devices differ.
    static FOREIGN_CALLS: Cell<u32> = const { Cell::new(0) };
}

/// The reasons to reject an operation on a device.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// The number of foreign calls in progress on the device, the bits [`LOST`], [`EXAMINE`],
    /// [`SPANS`], [`ADOPTED`], [`RECORDS`], [`DEFERRED`] and [`TRACES`], and in the upper half the
    /// number of leases.
    reasons: AtomicU64,
    examinations: Mutex<Examinations>,
    /// The number of recording streams.
    recordings: Mutex<usize>,
}

/// The reasons to examine operands.
#[derive(Debug, Default)]
struct Examinations {
    /// True while all devices examine theirs.
    everywhere: bool,
    /// The number of reasons that concern this device alone.
    own: usize,
}

impl Admission {
    /// Notes that the device is lost. The caller has stored the [`Loss`](super::loss::Loss) before.
    pub(crate) fn note_lost(&self) {
        self.reasons.fetch_or(LOST, Ordering::Release);
    }

    /// Sets whether all devices examine the operands of each operation before it is submitted.
    pub(super) fn examine_operands(&self, examine: bool) {
        self.change_examinations(|examinations| examinations.everywhere = examine);
    }

    /// Returns whether there is a reason that concerns this device alone.
    #[cfg(test)]
    pub(crate) fn examines_on_its_own(&self) -> bool {
        self.examinations.lock().own > 0
    }

    /// Counts a reason for this device to examine its operands.
    pub(super) fn begin_examination(&self) {
        self.change_examinations(|examinations| examinations.own += 1);
    }

    /// Reverses [`begin_examination`](Self::begin_examination).
    pub(super) fn end_examination(&self) {
        self.change_examinations(|examinations| examinations.own -= 1);
    }

    fn change_examinations(&self, change: impl FnOnce(&mut Examinations)) {
        let mut examinations = self.examinations.lock();
        change(&mut examinations);
        if examinations.everywhere || examinations.own > 0 {
            self.reasons.fetch_or(EXAMINE, Ordering::AcqRel);
        } else {
            self.reasons.fetch_and(!EXAMINE, Ordering::AcqRel);
        }
    }

    /// Turns spans on. Called before the device has any other user.
    pub(super) fn use_spans(&self) {
        self.reasons.fetch_or(SPANS, Ordering::Relaxed);
    }

    /// Notes that the device has an adopted stream, so that each operation's stream is looked at.
    pub(super) fn note_adopted(&self) {
        self.reasons.fetch_or(ADOPTED, Ordering::Relaxed);
    }

    /// Returns whether the device has had an adopted stream.
    #[inline]
    pub(super) fn has_adopted(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & ADOPTED != 0
    }

    #[inline]
    pub(super) fn begin_lease(&self) {
        self.reasons.fetch_add(LEASE, Ordering::Relaxed);
    }

    /// Reverses [`begin_lease`](Self::begin_lease).
    #[inline]
    pub(super) fn end_lease(&self) {
        self.reasons.fetch_sub(LEASE, Ordering::Relaxed);
    }

    /// Returns whether other libraries may use the device's memory or streams. An operation may
    /// then have to be refused.
    #[inline]
    pub(crate) fn has_borrowers(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & (LEASES | ADOPTED) != 0
    }

    /// Sets whether a tracer is told of operations. The caller holds the tracer's lock.
    pub(super) fn trace(&self, traces: bool) {
        match traces {
            true => self.reasons.fetch_or(TRACES, Ordering::AcqRel),
            false => self.reasons.fetch_and(!TRACES, Ordering::AcqRel),
        };
    }

    /// Returns whether a tracer is told of operations.
    #[inline]
    pub(super) fn traces(&self) -> bool {
        self.reasons.load(Ordering::Acquire) & TRACES != 0
    }

    pub(super) fn begin_recording(&self) {
        let mut recordings = self.recordings.lock();
        *recordings += 1;
        self.reasons.fetch_or(RECORDS, Ordering::AcqRel);
    }

    /// Reverses [`begin_recording`](Self::begin_recording).
    pub(super) fn end_recording(&self) {
        let mut recordings = self.recordings.lock();
        *recordings -= 1;
        if *recordings == 0 {
            self.reasons.fetch_and(!RECORDS, Ordering::AcqRel);
        }
    }

    /// Returns whether a stream of the device is recording.
    #[inline]
    pub(crate) fn has_recordings(&self) -> bool {
        self.reasons.load(Ordering::Acquire) & RECORDS != 0
    }

    /// Sets whether a layer above has deferred work, which the next submission or host wait starts.
    pub(super) fn defer(&self, any: bool) {
        match any {
            true => self.reasons.fetch_or(DEFERRED, Ordering::AcqRel),
            false => self.reasons.fetch_and(!DEFERRED, Ordering::AcqRel),
        };
    }

    /// Returns whether a layer above may have deferred work.
    #[inline]
    pub(super) fn has_deferred(&self) -> bool {
        self.reasons.load(Ordering::Acquire) & DEFERRED != 0
    }

    pub(crate) fn span(&self, begin: impl FnOnce() -> HostSpan) -> Option<HostSpan> {
        (self.reasons.load(Ordering::Relaxed) & SPANS != 0).then(begin)
    }

    pub(crate) fn examines_operands(&self) -> bool {
        self.reasons.load(Ordering::Acquire) & EXAMINE != 0
    }

    /// Returns whether examining operands is the only reason, if there is one.
    #[inline]
    pub(crate) fn only_examines(&self) -> bool {
        // Acquire: as in `is_none`.
        self.reasons.load(Ordering::Acquire) & !EXAMINE == 0
    }

    /// Returns whether the device is not lost and no thread is inside a foreign call on it.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        // Acquire: as in `is_none`.
        const HARMLESS: u64 = EXAMINE | SPANS | ADOPTED | RECORDS | DEFERRED | TRACES | LEASES;
        self.reasons.load(Ordering::Acquire) & !HARMLESS == 0
    }

    /// Returns whether an operation may take the short path: the device rejects, records, traces
    /// and examines nothing, has no deferred work, and records no events behind operations.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        // Acquire: a thread that sees the bit also sees the stored loss.
        self.reasons.load(Ordering::Acquire) == 0
    }
}

/// A foreign call of this thread. Until the guard is dropped, the thread's operations on the device
/// are rejected.
pub(crate) struct ForeignCallGuard<'a>(&'a Admission);

impl<'a> ForeignCallGuard<'a> {
    pub(crate) fn enter(admission: &'a Admission) -> Self {
        FOREIGN_CALLS.set(FOREIGN_CALLS.get() + 1);
        admission.reasons.fetch_add(1, Ordering::Relaxed);
        Self(admission)
    }
}

impl Drop for ForeignCallGuard<'_> {
    fn drop(&mut self) {
        self.0.reasons.fetch_sub(1, Ordering::Relaxed);
        FOREIGN_CALLS.set(FOREIGN_CALLS.get() - 1);
    }
}

/// Returns whether this thread is inside a foreign call.
pub(crate) fn in_foreign_call() -> bool {
    FOREIGN_CALLS.get() > 0
}
