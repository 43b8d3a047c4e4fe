//! Events.

use millstream_driver::{Completion, EventHandle, EventKind, ResultCode};

use crate::{
    abi::{Handle, Out},
    export::exports,
    objects::EventEntry,
};

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`
const INTERPROCESS: u32 = 4;
/// All flags of an event: blocking wait, and those above.
const FLAGS_KNOWN: u32 = 7;

exports! {
    /// An event for several processes serves this one only.
    [cuEventCreate]
    fn create(call, event: Out<Handle>, flags: u32) {
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

    [cuEventDestroy, cuEventDestroy_v2]
    fn destroy(call, event: Handle) {
        let handle = EventHandle::from_raw(event);
        let process = call.process()?;
        let removed = process.objects.lock().events.remove(&handle);
        let entry = removed.ok_or_else(|| call.wrong_handle("event", event))?;
        process.event_destroy(entry.context, handle)
    }

    [cuEventRecord, cuEventRecord_ptsz per_thread]
    fn record(call, event: Handle, stream: Handle) {
        let (_, event) = call.event(event)?;
        let (context, stream) = call.stream(stream)?;
        call.process()?.event_record(context, event, stream)
    }

    /// The flag for external events of graphs is not supported.
    [cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz per_thread]
    fn record_with_flags(call, event: Handle, stream: Handle, flags: u32) {
        match flags {
            0 => record(call, event, stream),
            1 => Err(ResultCode::NOT_SUPPORTED),
            _ => Err(ResultCode::INVALID_VALUE),
        }
    }

    [cuEventQuery]
    fn query(call, event: Handle) {
        let (context, event) = call.event(event)?;
        match call.process()?.event_query(context, event)? {
            Completion::Complete => Ok(()),
            Completion::Pending => Err(ResultCode::NOT_READY),
        }
    }

    [cuEventSynchronize]
    fn synchronize(call, event: Handle) {
        let (context, event) = call.event(event)?;
        call.process()?.event_synchronize(context, event)
    }

    /// In virtual time.
    [cuEventElapsedTime, cuEventElapsedTime_v2]
    fn elapsed_time(call, milliseconds: Out<f32>, start: Handle, end: Handle) {
        milliseconds.check()?;
        let (context, start) = call.event(start)?;
        let (_, end) = call.event(end)?;
        milliseconds.set(call.process()?.event_elapsed_ms(context, start, end)?)
    }
}
