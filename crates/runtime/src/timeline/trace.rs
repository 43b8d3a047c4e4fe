//! `Trace`: the operations of a finished timeline.

use std::{ops::Range, panic::Location};

use crate::OperationKind;

/// An operation of a trace, with its time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TimedOperation {
    /// The name of the kernel, or of the method.
    pub label: &'static str,
    /// The kind of the operation.
    pub kind: OperationKind,
    /// The stream's number, as returned by [`Stream::id`](crate::Stream::id).
    pub stream: u64,
    /// The operation's sequence number on its stream, from 1.
    pub sequence: u64,
    /// The time for which the operation was at the head of its stream, in nanoseconds since the
    /// start of the timeline.
    pub time_ns: Range<u64>,
    /// The number of bytes copied or filled, or the total size of a kernel's array operands in
    /// bytes.
    pub bytes: u64,
    /// The operations of other streams, of this device and others, for which the library made this
    /// one wait on the device: stream and sequence number of each.
    pub waits: Vec<(u64, u64)>,
    /// The source line of the call.
    pub location: &'static Location<'static>,
}

impl TimedOperation {
    /// Creates an operation of a trace that is made by hand: the first of its stream, without bytes
    /// and waits, and called from the caller's line.
    #[must_use]
    #[track_caller]
    pub fn new(label: &'static str, kind: OperationKind, stream: u64, time_ns: Range<u64>) -> Self {
        Self {
            label,
            kind,
            stream,
            sequence: 1,
            time_ns,
            bytes: 0,
            waits: Vec::new(),
            location: Location::caller(),
        }
    }
}

/// The operations of a device during a [`Timeline`](crate::Timeline).
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The device's name.
    pub device: String,
    /// The operations in the order in which they were submitted.
    pub operations: Vec<TimedOperation>,
}
