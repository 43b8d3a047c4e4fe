//! The recorder interface: notifies a timeline of operations as they are submitted.
//!
//! Submission depends only on the trait [`Recorder`], which the timeline implements.

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::EventHandle;
use parking_lot::Mutex;

use super::{DeviceState, StreamState, admission::Admission};
use crate::{error::OperationKind, tracker::Ticket};

/// The description of an operation for a recorder.
#[derive(Clone, Debug)]
pub(crate) struct OperationRecord {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) ticket: Ticket,
    pub(crate) waits: Vec<Ticket>,
}

/// A recorder of operations. Its methods are called with the stream's submit queue locked.
pub(crate) trait Recorder: fmt::Debug + Send + Sync {
    /// Records an event on the stream before an operation. Returns `None` on failure; the operation
    /// is then not recorded.
    fn start(&self, device: &DeviceState, stream: &StreamState) -> Option<EventHandle>;

    /// Records an event behind the operation that began with `start`, and adds the operation to the
    /// recording.
    fn end(
        &self,
        device: &DeviceState,
        stream: &StreamState,
        start: EventHandle,
        record: OperationRecord,
    );
}

/// The slot for a device's recorder. While there is one, the device's [`Admission`] says so, which
/// each submission looks at anyway.
#[derive(Debug, Default)]
pub(crate) struct RecorderSlot(Mutex<Option<Arc<dyn Recorder>>>);

/// An operation in progress whose start event is recorded.
pub(crate) struct Trace {
    recorder: Arc<dyn Recorder>,
    start: EventHandle,
}

impl RecorderSlot {
    /// Records the start of an operation if a recorder is set. After a failure the operation is
    /// missing from the recording.
    #[inline]
    pub(crate) fn begin(&self, device: &DeviceState, stream: &StreamState) -> Option<Trace> {
        // An event with a time stamp on a stream of another library could be captured.
        if device.admission.traces() && stream.is_own() {
            self.begin_trace(device, stream)
        } else {
            None
        }
    }

    #[cold]
    fn begin_trace(&self, device: &DeviceState, stream: &StreamState) -> Option<Trace> {
        let recorder = self.0.lock().clone()?;
        let start = recorder.start(device, stream)?;
        Some(Trace { recorder, start })
    }

    /// Sets the recorder of the device with this admission, replacing the previous one.
    pub(crate) fn set(&self, admission: &Admission, recorder: Arc<dyn Recorder>) {
        let mut running = self.0.lock();
        *running = Some(recorder);
        admission.trace(true);
    }

    /// Removes this recorder, unless it was replaced.
    pub(crate) fn remove(&self, admission: &Admission, recorder: &Arc<dyn Recorder>) {
        let mut running = self.0.lock();
        if running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, recorder))
        {
            *running = None;
            admission.trace(false);
        }
    }
}

impl Trace {
    /// Records the end of the operation and adds it to the recording.
    pub(crate) fn end(self, device: &DeviceState, stream: &StreamState, record: OperationRecord) {
        self.recorder.end(device, stream, self.start, record);
    }
}
