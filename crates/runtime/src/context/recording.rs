//! Recording streams: streams whose operations become nodes of a graph instead of being enqueued.
//!
//! A recording stream is an ordinary stream with a [`NodeRecorder`] in its state. While a device
//! has one, every submission to the device takes the examined path
//! ([`admission`](super::admission)), which finds the recorder; at other times a submission does
//! nothing for recordings. Whatever does not reach the recorder is refused by
//! [`DeviceState::refuse_recording`].

use std::{any::Any, fmt, panic::Location, sync::Arc};

use millstream_driver::{DevicePtr, DriverError, GraphKernel, GraphNode};
use parking_lot::Mutex;

use super::{DeviceState, GraphLayer, Operation, Stream, StreamSlot, StreamState};
use crate::{Error, Result, UsageError, UsageErrorKind};

pub(super) const DOWNLOAD: &str =
    "there is no value yet: download on an ordinary stream, behind the replay";
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

pub(crate) trait NodeSink {
    /// Adds a node. The recording becomes the owner of a child graph.
    fn add(&mut self, node: &GraphNode<'_>);

    /// Adds the kernels of one call, which run one after the other. Returns `false`, and adds
    /// nothing, if an address lies in none of the operation's operands.
    fn add_kernels(&mut self, kernels: &[RelocatableKernel]) -> bool;
}

#[derive(Debug)]
pub(crate) struct RelocatableKernel {
    pub(crate) kernel: GraphKernel,
    pub(crate) addresses: Vec<AddressPlace>,
}

/// An address among the arguments of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AddressPlace {
    pub(crate) param: usize,
    /// The number of the word of eight bytes in the parameter.
    pub(crate) word: usize,
    pub(crate) address: DevicePtr,
    /// The number of the operand to which it belongs.
    pub(crate) operand: u16,
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
            Some(_) => Err(recording_error(operation, why)),
            None => Ok(()),
        }
    }
}

impl StreamSlot for GraphLayer {
    type Value = RecorderOfStream;
}

/// Makes a stream a recording one until it is dropped.
#[derive(Debug)]
pub(crate) struct RecordingStream {
    device: Arc<DeviceState>,
    stream: Arc<StreamState>,
}

impl RecordingStream {
    pub(crate) fn begin(
        device: &Arc<DeviceState>,
        stream: &Arc<StreamState>,
        recorder: Arc<dyn NodeRecorder>,
    ) -> Self {
        device.admission.begin_recording();
        *stream.graph_slot.0.lock() = Some(recorder);
        Self {
            device: Arc::clone(device),
            stream: Arc::clone(stream),
        }
    }
}

impl Drop for RecordingStream {
    fn drop(&mut self) {
        // Dropped without the lock, because a recorder holds arrays.
        let recorder = self.stream.graph_slot.0.lock().take();
        self.device.admission.end_recording();
        drop(recorder);
    }
}

impl DeviceState {
    /// Returns the recorder of a stream of this device, if it is recording.
    #[inline]
    pub(crate) fn recorder_of(&self, stream: &StreamState) -> Option<Arc<dyn NodeRecorder>> {
        if self.admission.has_recordings() {
            stream.graph_slot.get()
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
            stream.graph_slot.refuse(operation, why)
        } else {
            Ok(())
        }
    }
}

/// Creates the error for a call that a graph cannot contain.
#[cold]
pub(super) fn recording_error(operation: &'static str, why: &'static str) -> Error {
    UsageError::new(operation, UsageErrorKind::Recording { why }).into()
}
