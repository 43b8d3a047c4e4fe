//! The order between the operations on an adopted stream and the work of its owner.
//!
//! An owner can begin a capture of its stream at any time, from safe code and from any thread:
//! cudarc's `CudaStream::begin_capture` and `torch.cuda.graph` do. Whatever is enqueued on the
//! stream from then on becomes a node of the owner's graph instead of running, and a stream that
//! waits for an event recorded there is captured, too (rule 41: waiting for a captured event joins
//! the capture). To ask whether the stream captures does not help, before the call or behind it: a
//! capture may begin after the question and end before the next.
//!
//! The key is that nothing of ours is enqueued on the owner's stream. Its operations run on a
//! companion stream, whose handle is not given to other libraries. Two calls order one stream with
//! the other, and the driver decides each of them at one instant:
//!
//! - [`wait_for_owner`], before an operation, records an event on the owner's stream. The event
//!   remembers whether it was recorded in a capture, until it is recorded again, also when the
//!   capture has ended: a query then fails (rule 42). No other code has the event. The companion
//!   waits for it only after a query that succeeds, so that a captured event is never waited for.
//! - [`make_owner_wait`], behind an operation, makes the owner's stream wait for an event of the
//!   companion. In a capture the driver refuses that (rule 41: an event recorded outside), and makes
//!   the capture invalid (rule 43: a violation does), so that its end tells the owner, too.
//!
//! All uses of an owner's stream are among these two:
//!
//! | use | before | behind | if the stream captures |
//! |---|---|---|---|
//! | an operation, a replay, a foreign call | waits for the owner | the owner waits | an error; the companion runs what is enqueued already |
//! | an event recorded, `After::Stream` | waits for the owner | | an error; no event is recorded |
//! | a wait for an event | | the owner waits | an error |
//! | a lease begins | | the owner waits | an error; there is no lease |
//! | a lease ends | waits for the owner | | the array stays lent, and its uses are errors until the capture has ended |
//! | an array returns to its owner | | the owner waits | an error with the array |
//! | memory is released behind the stream | | the owner waits | its keeper is kept until all uses are complete |
//! | an allocation, a free, a poll, a wait of the host | | | nothing, because the owner's stream takes no part |
//!
//! If the owner does not wait for an operation because the second call failed, the next call that
//! succeeds includes the operation: it waits for the tail of the companion. No array is lent and
//! none returns before.
//!
//! Other acts of an owner between these calls:
//!
//! - Ending a capture, on any thread: the event stays captured, as above. Beginning one between the
//!   two calls: the second fails.
//! - Destroying its stream, or the context by `cuDevicePrimaryCtxReset`: the contract of
//!   `adopt_stream` excludes both, and no safe function of cudarc does either. If the driver answers
//!   that the context is destroyed, the device is lost.
//! - Making another context or device current: each call of the driver names its context.
//! - A capture in global mode on another thread forbids the query (rule 44): the operation is an
//!   error, as for a capture of this stream.
//! - Launching a graph that has captured an array while it was lent: a graph holds addresses (rule
//!   48), which is the responsibility of the code that launches it, as it is without this library.

#![allow(unsafe_code, reason = "orders streams of other libraries")]

use std::panic::Location;

use millstream_driver::DriverError;

use super::sync_points::{PooledEventGuard, enqueue_wait_for, record_at_tail, sync_point_after};
use crate::{
    Error, Result, UsageError, UsageErrorKind,
    context::{DeviceState, PooledEvent, StreamState},
    tracker::Sequence,
};

/// The name and the source line of the operation that needs the order.
pub(crate) type Caller = (&'static str, Option<&'static Location<'static>>);

/// Makes later operations on an adopted stream wait for the work that is enqueued on the owner's
/// stream. Does nothing for another stream.
///
/// # Errors
///
/// As [`wait_for_foreign_work`].
#[inline]
pub(crate) fn wait_for_owner(
    device: &DeviceState,
    stream: &StreamState,
    caller: Caller,
) -> Result<()> {
    match stream.is_own() {
        true => Ok(()),
        false => wait_for_foreign_work(device, stream, caller),
    }
}

/// Makes later operations on a stream wait for the work that other libraries have enqueued: on the
/// owner's stream if it is adopted, or else on the stream itself, whose handle was given away.
///
/// # Errors
///
/// If the stream with that work is captured: nothing waits for it then.
#[cold]
#[inline(never)]
pub(crate) fn wait_for_foreign_work(
    device: &DeviceState,
    stream: &StreamState,
    caller: Caller,
) -> Result<()> {
    let lent = PooledEventGuard::take(device, stream)?;
    let event = lent.event();
    let record_and_query = |raw| {
        // SAFETY: the device owns the event; the stream is its own or kept.
        unsafe { device.driver.event_record(device.context, event, raw) }?;
        // SAFETY: as above.
        unsafe { device.driver.event_query(device.context, event) }
    };
    let answer = match stream.is_own() {
        true => Some(record_and_query(stream.handle)),
        false => stream.while_kept(record_and_query),
    };
    match answer {
        // A stream that is let go has no work for which an operation must wait.
        None => Ok(()),
        Some(Ok(answer)) if answer.is_complete() || stream.is_own() => Ok(()),
        // An enqueued wait keeps waiting for the record that it saw (rule 23), so that the event
        // may be recorded again afterwards.
        Some(Ok(_)) => enqueue_wait_for(device, stream, device, event),
        Some(Err(error)) => Err(refused(device, stream, caller, error)),
    }
}

/// Makes later work of the owner of an adopted stream wait for the operations up to `sequence`, and
/// records a sync point behind them. Does nothing for another stream.
///
/// # Errors
///
/// If the owner's stream is captured: it does not wait then.
#[inline]
pub(crate) fn make_owner_wait(
    device: &DeviceState,
    stream: &StreamState,
    sequence: Sequence,
    caller: Caller,
) -> Result<()> {
    if stream.is_own() {
        return Ok(());
    }
    let point = sync_point_after(device, stream, sequence)?;
    make_owner_wait_for(device, stream, &point, caller)
}

/// Makes later work of the owner of an adopted stream wait for everything that is enqueued on its
/// companion, waits included. Does nothing for another stream.
///
/// # Errors
///
/// As [`make_owner_wait`].
pub(crate) fn make_owner_follow(
    device: &DeviceState,
    stream: &StreamState,
    caller: Caller,
) -> Result<()> {
    if stream.is_own() {
        return Ok(());
    }
    let point = record_at_tail(device, stream)?;
    let result = make_owner_wait_for(device, stream, &point, caller);
    device.events.give(point);
    result
}

fn make_owner_wait_for(
    device: &DeviceState,
    stream: &StreamState,
    point: &PooledEvent,
    caller: Caller,
) -> Result<()> {
    let wait = |raw| {
        // SAFETY: the device owns the event, which is not recorded again as long as `point` is
        // referenced; the owner's stream is kept.
        unsafe {
            device
                .driver
                .stream_wait_event(device.context, raw, point.event)
        }
    };
    // A stream that is let go has no later work.
    let waits = stream.while_kept(wait).unwrap_or(Ok(()));
    waits.map_err(|error| refused(device, stream, caller, error))
}

/// Converts the error of a call on the owner's stream.
#[cold]
fn refused(
    device: &DeviceState,
    stream: &StreamState,
    (label, location): Caller,
    error: DriverError,
) -> Error {
    if !error.code().is_of_capture() {
        return device.record_failure(error);
    }
    let problem = UsageErrorKind::Captured {
        stream: stream.number,
        cause: error,
    };
    let usage_error = UsageError::new(label, problem);
    match location {
        Some(location) => usage_error.at(location).into(),
        None => usage_error.into(),
    }
}
