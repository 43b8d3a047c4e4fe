//! The texts of findings.

use std::{fmt, ops::Range, sync::Arc};

use millstream_driver::ManagedLocation;
use millstream_ptx::Site;

use super::{
    finding::{FindingMemory, Party},
    history::{Actor, OperationInfo},
};
use crate::{
    ids::{device_if_several, name},
    memory::{AccessFlags, AllocationInfo, Direction, Rows, SMALL_UPLOAD_BYTES},
};

impl Party {
    pub(super) fn of(operation: &OperationInfo, does: &'static str) -> Self {
        Self {
            operation: Some(operation.op),
            what: operation.summary.to_string(),
            stream: Some(name(operation.stream)),
            device: device_if_several(operation.stream),
            thread: None,
            does,
            call: operation.call,
            site: operation.site.as_ref().map(ToString::to_string),
        }
    }

    pub(super) fn host(call: &'static str, site: Option<&Site>, does: &'static str) -> Self {
        Self {
            operation: None,
            what: "the host".into(),
            stream: None,
            device: None,
            thread: None,
            does,
            call,
            site: site.map(ToString::to_string),
        }
    }
}

impl FindingMemory {
    pub(super) fn of(info: &AllocationInfo, ranges: Vec<Range<u64>>) -> Self {
        Self {
            allocation: info.number,
            allocation_bytes: info.bytes,
            description: info.describe(),
            ranges,
        }
    }
}

fn number(operation: &OperationInfo) -> String {
    format!("operation {}", operation.op)
}

pub(super) fn missing_edge(actor: &Actor, earlier: &OperationInfo) -> String {
    let (stream, number, last) = (
        name(earlier.stream),
        number(earlier),
        actor.last_of(earlier.slot),
    );
    if let Some(operation) = actor.operation()
        && earlier.launch.is_some()
        && operation.launch == earlier.launch
    {
        return format!(
            "missing: no path of dependencies in the graph leads from {number} to {}",
            self::number(operation)
        );
    }
    match (actor.operation(), last) {
        (Some(operation), 0) => format!(
            "missing: {} never waits for anything recorded on {stream} behind {number}",
            name(operation.stream)
        ),
        (Some(operation), _) => format!(
            "missing: {} never waits for anything recorded on {stream} behind {number}, \
             only behind operation {last}",
            name(operation.stream)
        ),
        (None, 0) => format!("missing: the host never waits for {number}"),
        (None, _) => {
            format!(
                "missing: the host never waits for {number}, on {stream} only for operation {last}"
            )
        }
    }
}

/// Returns the rule that says what a copy from or to pageable host memory orders, if the operation
/// is one.
pub(super) fn pageable_rule(operation: &OperationInfo) -> Option<&'static str> {
    let OperationSummary::Copy(direction, rows) = &operation.summary else {
        return None;
    };
    let is_async = operation.call.ends_with("Async");
    Some(match (direction, is_async) {
        (Direction::PageableToDevice, false) if rows.bytes() <= SMALL_UPLOAD_BYTES => {
            "rule 6: a synchronous copy of at most 64 KiB from pageable memory may return before \
             it has run"
        }
        (Direction::PageableToDevice, false) => {
            "rule 1: a synchronous copy from pageable memory may return once its source is staged"
        }
        (Direction::PageableToDevice, true) => {
            "rule 8: an asynchronous copy from pageable memory may return before it has run, \
             or wait only for its own stream"
        }
        (Direction::DeviceToPageable, false) => {
            "rule 3: a synchronous copy to the host returns when it is complete, but waits for no \
             stream that its own does not wait for"
        }
        (Direction::DeviceToPageable, true) => {
            "rule 9: an asynchronous copy to pageable memory may return before it has run, or \
             wait only for its own stream"
        }
        _ => return None,
    })
}

pub(super) fn verb(flags: AccessFlags) -> &'static str {
    match (
        flags.has(AccessFlags::READ),
        flags.has(AccessFlags::WRITE),
        flags.has(AccessFlags::UPDATE),
    ) {
        (true, true, _) => "reads and writes",
        (false, true, false) => "writes",
        (false, true, true) => "writes and updates",
        (true, false, true) => "reads and updates",
        (false, false, true) => "updates atomically",
        (_, false, false) => "reads",
    }
}

pub(super) fn noun(flags: AccessFlags) -> &'static str {
    if flags.has(AccessFlags::WRITE) {
        "write"
    } else if flags.has(AccessFlags::UPDATE) {
        "atomic"
    } else {
        "read"
    }
}

/// The kind of an operation in texts.
#[derive(Clone, Debug)]
pub(crate) enum OperationSummary {
    Kernel(Arc<str>),
    Copy(Direction, Rows),
    Fill(u64),
    Prefetch(u64, ManagedLocation),
    Plain(&'static str),
    /// A node of a graph.
    Node {
        operation: Box<OperationSummary>,
        number: Arc<str>,
        graph: Arc<str>,
    },
}

impl fmt::Display for OperationSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(name) => write!(f, "kernel `{name}`"),
            Self::Copy(direction, rows) if rows.height > 1 => {
                write!(
                    f,
                    "copy ({direction:?}, {} rows of {} bytes)",
                    rows.height, rows.width
                )
            }
            Self::Copy(direction, rows) => {
                write!(f, "copy ({direction:?}, {} bytes)", rows.bytes())
            }
            Self::Fill(bytes) => write!(f, "fill ({bytes} bytes)"),
            Self::Prefetch(bytes, ManagedLocation::Host) => {
                write!(f, "prefetch ({bytes} bytes to the host)")
            }
            Self::Prefetch(bytes, ManagedLocation::Device(device)) => {
                write!(f, "prefetch ({bytes} bytes to device {})", device.as_raw())
            }
            Self::Plain(summary) => f.write_str(summary),
            Self::Node {
                operation,
                number,
                graph,
            } => write!(f, "{operation} (node {number} of {graph})"),
        }
    }
}
