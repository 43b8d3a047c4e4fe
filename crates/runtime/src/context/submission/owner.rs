//! The order between the operations on an adopted stream and the work of its owner.
//!
//! An owner can begin a capture of its stream at any time, from safe code and from any thread:
//! cudarc's `CudaStream::begin_capture` and `torch.cuda.graph` do. Whatever is enqueued on the
//! stream from then on becomes a node of the owner's graph instead of running, and a stream that
//! waits for an event recorded there is captured, too (rule 41: waiting for a captured event joins
//! the capture). To ask whether the stream captures does not help, before the call or behind it: a
//! capture may begin after the question and end before the next.
//!
//! The key is that no operation of ours is enqueued on the owner's stream. Operations run on a
//! companion, an ordinary stream whose handle is not given to other libraries. The owner's stream
//! has a state with tickets of its own, of operations without work. All that is ever called on it
//! are records of events and waits for events, of which the driver decides each at one instant:
//!
//! - A record is of an [interprocess event](millstream_driver::EventKind::Interprocess), which the
//!   driver refuses to record in a capture. The capture stays valid, and the event as it was.
//! - A wait for an event of another stream fails in a capture (rule 41: the event was recorded
//!   outside), and makes it invalid (rule 43: a violation does), so that its end tells the owner,
//!   too. The vector clock of the owner's stream then does not include the event.
//!
//! So each of the two streams follows the other like any stream that waits for another one's event,
//! and the tracker knows of no order that the driver did not accept.
//!
//! All uses of an owner's stream:
//!
//! - An operation, a replay, a foreign call: a record before it, a wait behind it. In a capture an
//!   error before anything is enqueued. If the capture begins between the two, the operation
//!   succeeds, and the owner's later work does not wait for it until the next wait that succeeds,
//!   which includes it.
//! - An event of the user is recorded: a record before it. In a capture an error without an event.
//! - A wait for an event: a wait behind it. In a capture an error.
//! - A lease begins: a wait for each use. In a capture an error without a lease.
//! - An array returns to its owner: a wait for a marker of the companion. In a capture an error,
//!   and the array stays; no ticket of the owner's stream is among its uses.
//! - A lease ends, `After::Stream`: a record. In a capture uses of the array are errors until the
//!   capture has ended; then they wait for all work of the owner.
//! - Memory is released behind the stream: a wait for each use. In a capture its keeper is kept
//!   until all uses are complete.
//! - A wait of the host for the end of a lease whose record failed: a query, in a capture an error.
//! - An allocation, a free, a wait of the host for an operation: nothing.
//!
//! [`refuse_captured`] asks in addition where a call would otherwise succeed during a capture,
//! because it needs no wait. It decides nothing: a capture may begin behind it.
//!
//! Other acts of an owner between these calls:
//!
//! - Beginning or ending a capture on one thread during a call on another: NVIDIA's driver (580)
//!   crashes then, by plain calls of one library too (`docs/measurements/threads_and_captures.c`).
//!   Nothing in this library can exclude it.
//! - Destroying its stream, or the context by `cuDevicePrimaryCtxReset`: excluded by the contract
//!   of `adopt_stream`, and no safe function of cudarc does either. If the driver answers that the
//!   context is destroyed, the device is lost.
//! - Making another context or device current: each call of the driver names its context.
//! - Launching a graph that has captured an array while it was lent: a graph holds addresses (rule
//!   48), which is the responsibility of the code that launches it, as it is without this library.

#![allow(unsafe_code, reason = "orders streams of other libraries")]

use std::panic::Location;

use millstream_driver::{CaptureStatus, DriverError, EventHandle};

use super::sync_points::{follow, order_after};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    context::{DeviceState, StreamState},
    tracker::{Dependencies, Sequence},
};

/// The operation in the error of a call on an owner's stream until [`AtCaller`] names another.
const ORDER: &str = "order with the owner of a stream";

/// Makes later operations of a companion wait for the work that is enqueued on the owner's stream.
/// Does nothing for another stream.
///
/// # Errors
///
/// If the owner's stream is captured: nothing waits for it then.
pub(crate) fn follow_owner(device: &DeviceState, stream: &StreamState) -> Result<()> {
    match device.owner_of(stream) {
        Some(owner) => follow((device, stream), (device, &owner)),
        None => Ok(()),
    }
}

/// Makes later work of the owner of a companion wait for everything that is enqueued on the
/// companion. Does nothing for another stream.
///
/// # Errors
///
/// If the owner's stream is captured: it does not wait then.
pub(crate) fn make_owner_follow(device: &DeviceState, stream: &StreamState) -> Result<()> {
    match device.owner_of(stream) {
        Some(owner) => follow((device, &owner), (device, stream)),
        None => Ok(()),
    }
}

/// Makes later work of the owner of a companion wait for an operation of the companion, with a sync
/// point behind it. Does nothing for another stream.
pub(in crate::context) fn make_owner_wait(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
) -> Result<()> {
    let Some(owner) = device.owner_of(stream) else {
        return Ok(());
    };
    let mut submit_queue = owner.submit_queue.lock();
    let operation = Dependencies::from_slice(&[stream.ticket(sequence)]);
    order_after(device, &owner, &mut submit_queue, operation)
}

/// Records an interprocess event of the device on an owner's stream.
///
/// # Errors
///
/// If the stream is captured: nothing is recorded.
#[cold]
#[inline(never)]
pub(super) fn record_on_owners_stream(
    device: &DeviceState,
    stream: &StreamState,
    event: EventHandle,
) -> Result<(), DriverError> {
    let (driver, context) = (&device.driver, device.context);
    let record = || {
        // SAFETY: the device owns the event, and the stream is kept.
        unsafe { driver.event_record(context, event, stream.handle) }
    };
    // The work of a stream that was let go is complete. An event without a record counts as
    // complete too (rule 22).
    stream.while_kept(record).unwrap_or(Ok(()))
}

/// Returns an error if a stream on which other libraries enqueue is captured now.
pub(in crate::context) fn refuse_captured(
    device: &DeviceState,
    stream: &StreamState,
) -> Result<()> {
    // SAFETY: the stream is the device's own or kept.
    let info = unsafe {
        device
            .driver
            .stream_capture_info(device.context, stream.handle)
    };
    match device.checked(info)?.status {
        CaptureStatus::None => Ok(()),
        _ => Err(captured(Some(stream.number), None)),
    }
}

/// Converts the error of a record on the stream or of a wait of it.
#[cold]
pub(super) fn refused(device: &DeviceState, stream: &StreamState, error: DriverError) -> Error {
    if stream.is_own() || !error.code().is_of_capture() {
        return device.record_failure(error);
    }
    captured(Some(stream.number), Some(error))
}

/// Creates the error of a call that needs the order with a stream while its owner captures it.
pub(crate) fn captured(stream: Option<u64>, cause: Option<DriverError>) -> Error {
    UsageError::new(ORDER, UsageErrorKind::Captured { stream, cause }).into()
}

/// Names the caller in usage errors.
pub(crate) trait AtCaller {
    /// Adds the source line of the call to a usage error without one. That of a capture also gets
    /// the name of the operation.
    fn at_caller(self, label: &'static str, location: &'static Location<'static>) -> Self;
}

impl<T> AtCaller for Result<T> {
    #[inline]
    fn at_caller(self, label: &'static str, location: &'static Location<'static>) -> Self {
        self.map_err(|error| match error {
            Error::Usage(usage_error) if usage_error.operation() == ORDER => {
                let problem = usage_error.problem().clone();
                UsageError::new(label, problem).at(location).into()
            }
            Error::Usage(usage_error) if usage_error.location().is_none() => {
                usage_error.at(location).into()
            }
            other => other,
        })
    }
}
