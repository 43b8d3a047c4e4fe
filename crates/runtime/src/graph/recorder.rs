//! The recorder: gives out streams whose operations are recorded.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::{
    options::GraphOptions,
    recording::{RecordedGraph, Recording},
};
use crate::{
    Device, Result, Stream,
    context::{DeviceState, NodeRecorder, RecordingStream},
};

/// Gives out the streams of a recording: see [`Device::record`].
pub struct GraphRecorder {
    pub(super) device: Arc<DeviceState>,
    pub(super) recording: Arc<Recording>,
    /// The streams given out. They stop recording before their handles here are dropped, so that
    /// no other user gets a stream that records.
    streams: Mutex<Vec<(RecordingStream, Stream)>>,
}

impl GraphRecorder {
    pub(super) fn of(device: &Arc<DeviceState>, recording: Arc<Recording>) -> Self {
        Self {
            device: Arc::clone(device),
            recording,
            streams: Mutex::default(),
        }
    }

    /// Returns a new stream whose operations become nodes of the graph. After the recording it is
    /// an ordinary stream.
    ///
    /// # Errors
    ///
    /// If the driver cannot create a stream, or the device is lost.
    pub fn stream(&self) -> Result<Stream> {
        let stream = Stream::new(&self.device, 0)?;
        self.recording.add_stream(stream.state())?;
        let recorder = Arc::clone(&self.recording) as Arc<dyn NodeRecorder>;
        let recording = RecordingStream::begin(&self.device, stream.state(), recorder);
        self.streams.lock().push((recording, stream.clone()));
        Ok(stream)
    }

    /// Returns the device of the graph.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::from_state(Arc::clone(&self.device))
    }
}

impl fmt::Debug for GraphRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GraphRecorder({} streams of {})",
            self.streams.lock().len(),
            self.device
        )
    }
}

pub(super) fn record(
    device: &Arc<DeviceState>,
    options: GraphOptions,
    body: impl FnOnce(&GraphRecorder) -> Result<()>,
) -> Result<RecordedGraph> {
    device.check_alive()?;
    let recorder = GraphRecorder::of(device, Arc::new(Recording::new(device, options)?));
    body(&recorder)?;
    // The streams stop recording here, or when an error or a panic drops the recorder.
    drop(recorder.streams);
    Ok(recorder.recording.finish())
}
