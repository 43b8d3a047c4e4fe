//! Recording streams: streams whose operations become nodes of a graph instead of being enqueued.
//!
//! A recording stream is an ordinary stream with a [`NodeRecorder`] in its state. While a device
//! has one, every submission to the device takes the examined path
//! ([`admission`](super::admission)), which finds the recorder; at other times a submission does
//! nothing for recordings. Whatever does not reach the recorder is refused by
//! [`DeviceState::refuse_recording`].

use std::{any::Any, fmt, panic::Location, sync::Arc};

use millstream_driver::{DriverError, GraphNode};
use parking_lot::Mutex;

use super::{Command, DeviceState, Operation, RelocatableKernel, Stream, StreamState};
use crate::{Error, Result, UsageError, UsageErrorKind, tracker::Sequence};

/// The advice for downloads in a recording.
pub(super) const DOWNLOAD: &str =
    "there is no value yet: download on an ordinary stream, behind the replay";
/// The advice for page-locked and managed memory in a recording.
pub(crate) const HOST_MEMORY: &str = "the host can use page-locked and managed memory at any time, \
                                      which a replay cannot respect: copy it to or from a \
                                      `Buffer` on an ordinary stream, around the replay";

/// Takes the operations of recording streams.
pub(crate) trait NodeRecorder: Any + fmt::Debug + Send + Sync {
    /// Returns a stream for what a recording does at once.
    fn eager(&self) -> &Stream;

    /// Returns memory for an array that is made on the stream: an allocation of the `memory` layer.
    fn allocate(
        &self,
        stream: &StreamState,
        bytes: usize,
        location: &'static Location<'static>,
    ) -> Result<Memory>;

    /// Keeps memory for replays, which only read it.
    fn keep_constant(&self, memory: Memory);

    /// Adds an operation of the stream. `nodes` passes the operation's nodes to the sink, each
    /// behind the one before; if it fails, nothing is added.
    fn record(
        &self,
        stream: &StreamState,
        operation: &Operation<'_>,
        nodes: &mut dyn FnMut(&mut dyn NodeSink) -> Result<()>,
    ) -> Result<()>;
}

/// An allocation of the `memory` layer, shared with a recording.
pub(crate) type Memory = Arc<dyn Any + Send + Sync>;

/// Takes the nodes of one operation.
pub(crate) trait NodeSink {
    /// Adds a node. The recording becomes the owner of a child graph.
    fn add(&mut self, node: &GraphNode<'_>);

    /// Adds the kernels of one call, which run one after the other. Returns `false`, and adds
    /// nothing, if an address lies in none of the operation's operands.
    fn add_kernels(&mut self, kernels: &[RelocatableKernel]) -> bool;
}

/// The reason why a command has no nodes.
#[derive(Debug)]
pub(crate) enum NotRecorded {
    /// A graph cannot contain such an operation. The text says what to do instead.
    Refused(&'static str),
    Failed(DriverError),
}

impl From<DriverError> for NotRecorded {
    fn from(error: DriverError) -> Self {
        Self::Failed(error)
    }
}

/// The recorder of a stream, if the stream is recording.
#[derive(Debug, Default)]
pub(crate) struct RecorderOfStream(Mutex<Option<Arc<dyn NodeRecorder>>>);

impl RecorderOfStream {
    #[cold]
    fn get(&self) -> Option<Arc<dyn NodeRecorder>> {
        self.0.lock().clone()
    }

    #[cold]
    fn refuse(&self, operation: &'static str, why: &'static str) -> Result<()> {
        match &*self.0.lock() {
            Some(_) => Err(refusal(operation, why)),
            None => Ok(()),
        }
    }
}

/// Makes a stream a recording one until it is dropped.
#[derive(Debug)]
pub(crate) struct RecordingStream {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
}

impl RecordingStream {
    /// Makes an idle stream record.
    pub(crate) fn begin(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        recorder: Arc<dyn NodeRecorder>,
    ) -> Self {
        device.admission.begin_recording();
        *stream.recorder.0.lock() = Some(recorder);
        Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
        }
    }
}

impl Drop for RecordingStream {
    fn drop(&mut self) {
        // Dropped without the lock, because a recorder holds arrays.
        let recorder = self.stream.recorder.0.lock().take();
        self.device.admission.end_recording();
        drop(recorder);
    }
}

impl DeviceState {
    /// Returns the recorder of a stream of this device, if it is recording.
    #[inline]
    pub(crate) fn recorder_of(&self, stream: &StreamState) -> Option<Arc<dyn NodeRecorder>> {
        if self.admission.has_recordings() {
            stream.recorder.get()
        } else {
            None
        }
    }

    /// Returns an error if the stream is recording, for calls that a graph cannot contain.
    #[inline]
    pub(crate) fn refuse_recording(
        &self,
        stream: &StreamState,
        operation: &'static str,
        why: &'static str,
    ) -> Result<()> {
        if self.admission.has_recordings() {
            stream.recorder.refuse(operation, why)
        } else {
            Ok(())
        }
    }
}

/// Creates the error for a call that a graph cannot contain.
#[cold]
fn refusal(operation: &'static str, why: &'static str) -> Error {
    UsageError::new(operation, UsageErrorKind::Recording { why }).into()
}

/// Passes an operation to the recorder of its stream. Returns a sequence number for no ticket.
pub(super) fn record<C: Command>(
    device: &DeviceState,
    stream: &StreamState,
    recorder: &dyn NodeRecorder,
    operation: &Operation<'_>,
    command: C,
) -> Result<(Sequence, C::Output)> {
    let (label, location): (_, &'static Location<'static>) = (operation.label, operation.location);
    let mut command = Some(command);
    let mut output = None;
    recorder.record(stream, operation, &mut |sink| {
        let Some(command) = command.take() else {
            return Ok(());
        };
        let recorded = command.record(device.driver_stream(stream), sink);
        output = Some(recorded.map_err(|problem| match problem {
            NotRecorded::Refused(why) => {
                let problem = UsageErrorKind::Recording { why };
                UsageError::new(label, problem).at(location).into()
            }
            NotRecorded::Failed(error) => device.record_failure(error),
        })?);
        Ok(())
    })?;
    match output {
        Some(output) => Ok((Sequence::START, output)),
        None => Err(refusal(label, "the recording is over")),
    }
}
