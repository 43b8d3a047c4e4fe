//! Events.

use millstream_driver::{Completion, EventHandle, EventKind, ResultCode};

use crate::{
    abi::{Handle, Out},
    call::Call,
    codes::Answer,
    objects::EventEntry,
};

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`
const INTERPROCESS: u32 = 4;
/// All flags of an event: blocking wait, and those above.
const FLAGS_KNOWN: u32 = 7;

/// `cuEventCreate`. An event for several processes serves this one only.
pub(crate) fn create(call: &Call, event: Out<Handle>, flags: u32) -> Answer {
    event.check()?;
    let timing = flags & DISABLE_TIMING == 0;
    if flags & !FLAGS_KNOWN != 0 || flags & INTERPROCESS != 0 && timing {
        return Err(ResultCode::INVALID_VALUE);
    }
    let kind = match (timing, flags & INTERPROCESS != 0) {
        (true, _) => EventKind::Timing,
        (false, false) => EventKind::Ordering,
        (false, true) => EventKind::Interprocess,
    };
    let context = call.context()?;
    let process = call.process()?;
    let created = process.event_create(context, kind)?;
    let entry = EventEntry { context };
    process.objects.lock().events.insert(created, entry);
    event.set(created.as_raw())
}

/// `cuEventDestroy`
pub(crate) fn destroy(call: &Call, event: Handle) -> Answer {
    let handle = EventHandle::from_raw(event);
    let process = call.process()?;
    let removed = process.objects.lock().events.remove(&handle);
    match removed {
        Some(entry) => process.event_destroy(entry.context, handle),
        None => Err(call.wrong_handle("event", event)),
    }
}

/// `cuEventRecord`
pub(crate) fn record(call: &Call, event: Handle, stream: Handle) -> Answer {
    let (_, event) = call.event(event)?;
    let (context, stream) = call.stream(stream)?;
    call.process()?.event_record(context, event, stream)
}

/// `cuEventRecordWithFlags`. The flag for external events of graphs is not supported.
pub(crate) fn record_with_flags(call: &Call, event: Handle, stream: Handle, flags: u32) -> Answer {
    match flags {
        0 => record(call, event, stream),
        1 => Err(ResultCode::NOT_SUPPORTED),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

/// `cuEventQuery`
pub(crate) fn query(call: &Call, event: Handle) -> Answer {
    let (context, event) = call.event(event)?;
    match call.process()?.event_query(context, event)? {
        Completion::Complete => Ok(()),
        Completion::Pending => Err(ResultCode::NOT_READY),
    }
}

/// `cuEventSynchronize`
pub(crate) fn synchronize(call: &Call, event: Handle) -> Answer {
    let (context, event) = call.event(event)?;
    call.process()?.event_synchronize(context, event)
}

/// `cuEventElapsedTime`, in virtual time.
pub(crate) fn elapsed_time(
    call: &Call,
    milliseconds: Out<f32>,
    start: Handle,
    end: Handle,
) -> Answer {
    milliseconds.check()?;
    let (context, start) = call.event(start)?;
    let (_, end) = call.event(end)?;
    milliseconds.set(call.process()?.event_elapsed_ms(context, start, end)?)
}
