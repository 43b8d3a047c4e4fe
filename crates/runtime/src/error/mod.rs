//! Error types: usage errors of the caller, and failures of the device.

mod compile;
mod diagnostic;
mod operation;
mod phrases;
mod usage;
mod usage_kind;

use std::{fmt, panic::Location, sync::Arc};

use millstream_driver::DriverError;

pub use compile::CompileError;
pub(crate) use diagnostic::parse as parse_diagnostics;
pub use diagnostic::{Diagnostic, Severity};
use operation::probably;
pub use operation::{OperationKind, Suspect};
pub use usage::UsageError;
pub use usage_kind::UsageErrorKind;

/// The result type of fallible functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of this crate.
///
/// ```
/// use millstream::{Device, Error};
///
/// let stream = Device::simulated()?.stream()?;
/// let four = stream.upload(&[1, 2, 3, 4])?;
/// let mut three = stream.zeros::<i32>(3)?;
/// let error = stream.copy(&four, &mut three).unwrap_err();
/// assert!(matches!(error, Error::Usage(_)));
/// let text = "copy: the source has 4 elements and the target 3; they must be equal";
/// assert!(error.to_string().starts_with(text)); // and ends with file and line
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was invalid. Nothing was enqueued, and everything remains usable.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A driver call failed although the call of the library was valid.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The device has too little memory, even after all freed memory was reclaimed.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The device is lost: an earlier failure has made it unusable for the rest of the process.
    #[error("the device is lost: {cause}{}", probably(suspects))]
    #[non_exhaustive]
    DeviceLost {
        /// The first failure that was observed.
        cause: DriverError,
        /// The operations that may have caused the failure: see [`Health`](crate::device::Health).
        suspects: Arc<[Suspect]>,
    },
    /// The contents of an operand come from a device that was lost before they arrived. The operand
    /// is usable again once it is overwritten as a whole by a copy, a fill or an upload.
    #[error(
        "the contents are invalid: {device} was lost ({cause}) before `{operation}` at {location} \
         was known to be complete; overwrite the whole array"
    )]
    #[non_exhaustive]
    Poisoned {
        /// The name of the operation that brought data from the lost device.
        operation: &'static str,
        /// The source line of that operation.
        location: &'static Location<'static>,
        /// The lost device.
        device: String,
        /// The failure of the lost device.
        cause: String,
    },
    /// A loop of a graph ended at its limit with its flag set. The values that the graph has
    /// written are those after so many iterations; the next read returns them.
    #[error(
        "the loop at {location} in replay {replay} of graph `{graph}` ended at its limit of \
         {iterations_max} iterations, with its flag set"
    )]
    #[non_exhaustive]
    LoopLimit {
        /// The name of the graph.
        graph: &'static str,
        /// The number of the replay, from 1: the first after the recording, or after an
        /// [update](crate::Graph::update). Replays that are enqueued as one operation have one
        /// number, and so do the last of more than 1,023 that are in flight.
        replay: u64,
        /// The source line of the loop.
        location: &'static Location<'static>,
        /// The limit.
        iterations_max: u32,
    },
    /// A collective cannot be completed: another rank is gone, or made other calls. The arrays that
    /// it was to write are unusable until they are overwritten as a whole, and so is the group.
    #[error("`{operation}` at {location} is lost on rank {rank}: {reason}")]
    #[non_exhaustive]
    CollectiveLost {
        /// The name of the collective.
        operation: &'static str,
        /// The source line of the call.
        location: &'static Location<'static>,
        /// The first rank of this process.
        rank: usize,
        /// The event that was noticed, and the first difference between the calls of the ranks.
        reason: Arc<str>,
    },
    /// The closure of a [foreign call](crate::Stream::foreign) returned an error.
    #[error("the foreign call `{operation}` at {location} failed: {cause}")]
    #[non_exhaustive]
    ForeignCall {
        /// The name of the call.
        operation: &'static str,
        /// The source line of the call.
        location: &'static Location<'static>,
        /// The error of the closure.
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// There is no such device, or no driver for it.
    #[error("{reason}")]
    Unavailable {
        /// A text that says what was tried and why it failed.
        reason: Arc<str>,
    },
    /// A simulated device was requested, or is needed because there is no GPU, in a build without
    /// the feature `sim`.
    #[error(
        "{asked}; the simulated device is not part of this build: \
         enable the feature `sim` of the crate `millstream`"
    )]
    #[non_exhaustive]
    NoSimulator {
        /// The reason for the request: an environment variable, or the lack of a GPU and its cause.
        asked: Arc<str>,
    },
    /// CUDA C++ could not be compiled.
    #[error(transparent)]
    Compile(#[from] Arc<CompileError>),
    /// The processes of a world cannot meet or are started wrongly: the `WorldError` of the crate
    /// `millstream-collective`.
    #[error(transparent)]
    World(Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    #[doc(hidden)]
    #[must_use]
    pub fn unavailable(reason: impl fmt::Display) -> Self {
        Self::Unavailable {
            reason: reason.to_string().into(),
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn collective_lost(
        operation: &'static str,
        location: &'static Location<'static>,
        rank: usize,
        reason: Arc<str>,
    ) -> Self {
        Self::CollectiveLost {
            operation,
            location,
            rank,
            reason,
        }
    }

    /// Creates the error for a kernel whose `requires` clause does not hold. Called by code that
    /// `kernels!` generates.
    #[doc(hidden)]
    #[must_use]
    #[cold]
    #[track_caller]
    pub fn requires(kernel: &'static str, clause: &'static str, values: String) -> Self {
        let usage_error = UsageError::new(kernel, UsageErrorKind::Requires { clause, values });
        usage_error.at(Location::caller()).into()
    }
}

/// The error of an allocation that exceeds the available device memory or the memory limit.
///
/// ```
/// use millstream::{Device, Error};
/// let stream = Device::simulated()?.stream()?;
/// let Err(Error::OutOfMemory(full)) = stream.zeros::<u8>(1 << 50) else {
///     unreachable!("no device has a pebibyte")
/// };
/// assert_eq!(full.requested_bytes, 1 << 50);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of device memory: {requested_bytes} bytes requested, {allocated_bytes} in arrays{}; the \
     pool has {used_bytes} in use and {reserved_bytes} reserved, {free_bytes} of \
     {total_bytes} are free",
    limit_bytes.map_or_else(String::new, |limit_bytes| format!(" of at most {limit_bytes}"))
)]
pub struct OutOfMemory {
    /// The requested size in bytes.
    pub requested_bytes: u64,
    /// The size of the device's arrays in bytes.
    pub allocated_bytes: u64,
    /// The limit for the device's arrays in bytes: see
    /// [`Device::set_memory_limit`](crate::Device::set_memory_limit).
    pub limit_bytes: Option<u64>,
    /// The bytes that are allocated from the device's pool.
    pub used_bytes: u64,
    /// The bytes that the device's pool has reserved.
    pub reserved_bytes: u64,
    /// The free bytes of the device, with the usage of other programs subtracted.
    pub free_bytes: u64,
    /// The total memory of the device in bytes.
    pub total_bytes: u64,
}
