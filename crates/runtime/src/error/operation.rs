//! Descriptions of operations in errors and recordings: kinds and suspects.

use std::{fmt, panic::Location};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A copy from the host to the device.
    HostToDevice,
    /// A kernel launch.
    Kernel,
    /// A copy from the device to the host.
    DeviceToHost,
    /// A copy within the device.
    DeviceToDevice,
    /// A fill.
    Fill,
    /// A stream-ordered allocation. It takes no time on the device.
    Allocation,
    /// A device's part of a collective of several devices or processes.
    Collective,
    /// A replay of a [`Graph`](crate::Graph).
    Graph,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostToDevice => "host → device",
            Self::Kernel => "kernels",
            Self::DeviceToHost => "device → host",
            Self::DeviceToDevice => "device → device",
            Self::Fill => "fills",
            Self::Allocation => "allocations",
            Self::Collective => "collectives",
            Self::Graph => "graphs",
        })
    }
}

/// An operation suspected of having made its device unusable, listed by
/// [`Health`](crate::device::Health).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspect {
    /// The name of the kernel or method.
    pub label: &'static str,
    /// True for a replay of a [`Graph`](crate::Graph), one of whose operations is to blame:
    /// [`Graph::replay_stepwise`](crate::Graph::replay_stepwise) finds out which.
    pub is_graph: bool,
    /// The source line of the call.
    pub location: &'static Location<'static>,
    /// The ordinal of the operation's device, which may be another device on whose work the lost
    /// one depended.
    pub device: i32,
    /// The number of the operation's stream on that device: see [`Stream::id`](crate::Stream::id).
    pub stream: u64,
    /// The operation's sequence number on its stream, from 1.
    pub ticket: u64,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            label,
            location,
            is_graph,
            ..
        } = self;
        let graph = if *is_graph { "graph " } else { "" };
        let (file, line) = (location.file(), location.line());
        write!(f, "{graph}`{label}` at {file}:{line}")
    }
}

/// Formats a single suspect for an error text. Several suspects are left to
/// [`Device::health`](crate::Device::health).
pub(super) fn probably(suspects: &[Suspect]) -> String {
    match suspects {
        [only] if only.is_graph => {
            format!("; probably by {only}: `Graph::replay_stepwise` names the operation")
        }
        [only] => format!("; probably by {only}"),
        _ => String::new(),
    }
}
