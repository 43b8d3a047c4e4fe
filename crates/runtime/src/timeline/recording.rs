//! `Recording`: a finished timeline.

use std::{ops::Range, panic::Location};

use crate::OperationKind;

/// One operation of a timeline.
///
/// ```
/// use millstream::{Device, OperationKind};
/// let device = Device::simulated()?;
/// let timeline = device.timeline()?;
/// let _buffer = device.stream()?.upload(&[1_u8; 4096])?;
/// let recording = timeline.finish()?;
/// let upload = recording.operations.iter().find(|operation| operation.kind == OperationKind::HostToDevice);
/// assert_eq!(upload.map(|operation| operation.bytes), Some(4096));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TimedOperation {
    /// What it is called: a kernel's name, or the verb.
    pub label: &'static str,
    /// What it is.
    pub kind: OperationKind,
    /// The stream's number, as [`Stream::id`](crate::Stream::id) gives it.
    pub stream: u64,
    /// Its place in the stream, from 1.
    pub sequence: u64,
    /// From when to when it was at the head of its stream, in nanoseconds since the timeline began.
    pub time_ns: Range<u64>,
    /// Bytes copied or filled, or bytes of a kernel's array operands.
    pub bytes: u64,
    /// The operations of other streams that the library made it wait for on the device: stream and
    /// place.
    pub waits: Vec<(u64, u64)>,
    /// Where in the program it was called for.
    pub location: &'static Location<'static>,
}

/// Everything that a device did while a [`Timeline`](crate::Timeline) was running.
///
/// ```
/// let device = millstream::Device::simulated()?;
/// let timeline = device.timeline()?;
/// let _buffer = device.stream()?.zeros::<u8>(4096)?;
/// let recording = timeline.finish()?;
/// assert!(recording.device.contains("Simulated"));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The device's name.
    pub device: String,
    /// The operations in the order in which they were submitted.
    pub operations: Vec<TimedOperation>,
}
