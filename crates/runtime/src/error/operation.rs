//! Operations as errors and recordings name them: their kinds, and the suspects of a loss.

use std::{fmt, panic::Location};

/// What an operation is.
///
/// ```
/// assert_eq!(millstream::OperationKind::HostToDevice.to_string(), "host → device");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A copy from the host to the device.
    HostToDevice,
    /// A kernel.
    Kernel,
    /// A copy from the device to the host.
    DeviceToHost,
    /// A copy within the device.
    DeviceToDevice,
    /// A fill.
    Fill,
    /// An allocation in stream order. It takes no time on the device.
    Allocation,
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
        })
    }
}

/// An operation that may have made its device unusable: see [`Health`](crate::Health).
///
/// ```
/// fn report(suspect: &millstream::Suspect) -> String {
///     let (device, stream) = (suspect.device, suspect.stream);
///     format!("no. {} of stream {stream} of device {device}, {suspect}", suspect.ticket)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspect {
    /// What it is: a kernel's name, or a method's.
    pub label: &'static str,
    /// Where in the source it was called for.
    pub location: &'static Location<'static>,
    /// The ordinal of its device: that of another device if the lost one waited for its work.
    pub device: i32,
    /// The number of its stream on that device: see [`Stream::id`](crate::Stream::id).
    pub stream: u64,
    /// Its place among the operations of its stream, counted from 1.
    pub ticket: u64,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            label, location, ..
        } = self;
        write!(f, "`{label}` at {}:{}", location.file(), location.line())
    }
}

/// What an error adds about suspects: one is worth a word, several need
/// [`Device::health`](crate::Device::health).
pub(super) fn probably(suspects: &[Suspect]) -> String {
    match suspects {
        [only] => format!("; probably by {only}"),
        _ => String::new(),
    }
}
