//! The recorder of a device: notes down operations as they are submitted.
//!
//! Submission only knows the trait; a timeline is the recorder that there is.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use millstream_driver::EventHandle;
use parking_lot::Mutex;

use super::{DeviceState, StreamState};
use crate::{error::OperationKind, tracker::Ticket};

/// An operation as a recorder notes it down.
#[derive(Clone, Debug)]
pub(crate) struct OperationRecord {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) ticket: Ticket,
    pub(crate) waits: Vec<Ticket>,
}

/// Notes down operations. Called with the stream's submit queue held.
pub(crate) trait Recorder: fmt::Debug + Send + Sync {
    /// Records an event on the stream, in front of an operation. `None` if that fails: the
    /// operation is not noted then.
    fn start(&self, device: &DeviceState, stream: &StreamState) -> Option<EventHandle>;

    /// Records the end of the operation that has that start, and notes it down.
    fn end(
        &self,
        device: &DeviceState,
        stream: &StreamState,
        start: EventHandle,
        record: OperationRecord,
    );
}

/// A device's recorder, if there is one.
#[derive(Debug, Default)]
pub(crate) struct RecorderSlot {
    /// Whether there is one; read on every submission.
    running: AtomicBool,
    recorder: Mutex<Option<Arc<dyn Recorder>>>,
}

/// An operation whose start is recorded.
pub(crate) struct Trace {
    recorder: Arc<dyn Recorder>,
    start: EventHandle,
}

impl RecorderSlot {
    /// Records the start of an operation, if there is a recorder. A failure costs the operation its
    /// place in the recording.
    #[inline]
    pub(crate) fn begin(&self, device: &DeviceState, stream: &StreamState) -> Option<Trace> {
        if self.running.load(Ordering::Acquire) {
            self.begin_trace(device, stream)
        } else {
            None
        }
    }

    #[cold]
    fn begin_trace(&self, device: &DeviceState, stream: &StreamState) -> Option<Trace> {
        let recorder = self.recorder.lock().clone()?;
        let start = recorder.start(device, stream)?;
        Some(Trace { recorder, start })
    }

    /// Sets the recorder, in place of the one before.
    pub(crate) fn set(&self, recorder: Arc<dyn Recorder>) {
        *self.recorder.lock() = Some(recorder);
        self.running.store(true, Ordering::Release);
    }

    /// Removes this recorder, unless another has taken its place.
    pub(crate) fn remove(&self, recorder: &Arc<dyn Recorder>) {
        let mut running = self.recorder.lock();
        if running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, recorder))
        {
            *running = None;
            self.running.store(false, Ordering::Release);
        }
    }
}

impl Trace {
    /// Records the end of the operation and notes it down.
    pub(crate) fn end(self, device: &DeviceState, stream: &StreamState, record: OperationRecord) {
        self.recorder.end(device, stream, self.start, record);
    }
}
