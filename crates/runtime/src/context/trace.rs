//! The tracer interface: notifies a timeline of operations as they are submitted.
//!
//! Submission depends only on the trait [`Tracer`], which the timeline implements.

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::EventHandle;
use parking_lot::Mutex;

use super::{DeviceSlot, DeviceState, StreamState, TraceLayer, admission::Admission};
use crate::{error::OperationKind, tracker::Ticket};

#[derive(Clone, Debug)]
pub(crate) struct TracedOperation {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) ticket: Ticket,
    pub(crate) waits: Vec<Ticket>,
}

/// A tracer of operations. Its methods are called with the stream's submit queue locked.
pub(crate) trait Tracer: fmt::Debug + Send + Sync {
    /// Records an event on the stream before an operation. Returns `None` on failure; the operation
    /// is then missing from the trace.
    fn start(&self, device: &DeviceState, stream: &StreamState) -> Option<EventHandle>;

    /// Records an event behind the operation that began with `start`, and adds the operation to the
    /// trace.
    fn end(
        &self,
        device: &DeviceState,
        stream: &StreamState,
        start: EventHandle,
        operation: TracedOperation,
    );
}

/// The slot for a device's tracer. The device's [`Admission`], which every submission looks at,
/// says whether there is one.
#[derive(Debug, Default)]
pub(crate) struct TracerSlot(Mutex<Option<Arc<dyn Tracer>>>);

/// An operation in progress whose start event is recorded.
pub(crate) struct StartedOperation {
    tracer: Arc<dyn Tracer>,
    start: EventHandle,
}

impl TracerSlot {
    /// Records the start of an operation if a tracer is set. After a failure the operation is
    /// missing from the trace.
    #[inline]
    pub(crate) fn begin(
        &self,
        device: &DeviceState,
        stream: &StreamState,
    ) -> Option<StartedOperation> {
        // An event with a time stamp on a stream of another library could be captured.
        if device.admission.traces() && stream.is_own() {
            self.begin_traced(device, stream)
        } else {
            None
        }
    }

    #[cold]
    fn begin_traced(&self, device: &DeviceState, stream: &StreamState) -> Option<StartedOperation> {
        let tracer = self.0.lock().clone()?;
        let start = tracer.start(device, stream)?;
        Some(StartedOperation { tracer, start })
    }

    /// Sets the tracer of the device with this admission, replacing the previous one.
    pub(crate) fn set(&self, admission: &Admission, tracer: Arc<dyn Tracer>) {
        let mut running = self.0.lock();
        *running = Some(tracer);
        admission.trace(true);
    }

    /// Removes this tracer, unless it was replaced.
    pub(crate) fn remove(&self, admission: &Admission, tracer: &Arc<dyn Tracer>) {
        let mut running = self.0.lock();
        if running
            .as_ref()
            .is_some_and(|running| Arc::ptr_eq(running, tracer))
        {
            *running = None;
            admission.trace(false);
        }
    }
}

impl StartedOperation {
    /// Records the end of the operation and adds it to the trace.
    pub(crate) fn end(
        self,
        device: &DeviceState,
        stream: &StreamState,
        operation: TracedOperation,
    ) {
        self.tracer.end(device, stream, self.start, operation);
    }
}

impl DeviceSlot for TraceLayer {
    type Value = TracerSlot;
}

impl DeviceState {
    #[inline]
    pub(crate) fn tracer(&self) -> &TracerSlot {
        &self.trace_slot
    }
}
