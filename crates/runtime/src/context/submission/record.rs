//! Passes operations to the graph that a stream records.

use std::panic::Location;

use super::commands::Command;
use crate::{
    Result, UsageError, UsageErrorKind,
    context::{
        DeviceState, NodeRecorder, Operation, StreamState,
        recording::{NotRecorded, recording_error},
    },
    tracker::Sequence,
};

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
        None => Err(recording_error(label, "the recording is over")),
    }
}
