//! The time between events, and the calls that need no current context.

use millstream_driver::EventKind;

use crate::{conformance::prelude::*, gpu::Outcome};

pub(crate) fn events_order_streams_and_measure_time(dev: &DeviceHarness) -> Outcome {
    const BYTES: usize = 64 << 20;
    let (stream, other, data) = (dev.stream()?, dev.stream()?, dev.memory(BYTES)?);
    let start = dev.event_create(EventKind::Timing)?;
    let end = dev.event_create(EventKind::Timing)?;
    dev.event_record(start, stream)?;
    for value in 1..10 {
        dev.memset_async(data, FillPattern::U8(value), BYTES, stream)?;
    }
    dev.event_record(end, stream)?;
    let order = dev.recorded(stream)?;
    dev.stream_wait_event(other, order)?;
    check(
        dev.holds(data.offset(BYTES as u64 - 16), 9, 16, other)?,
        "the other stream waited for the fill",
    )?;
    dev.event_synchronize(end)?;
    check(!dev.pending(stream)?, "everything before the event is done")?;
    check(
        dev.event_elapsed_ms(start, end)? > 0.0,
        "time has passed between the events",
    )?;
    for event in [start, end, order] {
        dev.event_destroy(event)?;
    }
    Ok(())
}

pub(crate) fn explicit_handles_need_no_current_context(dev: &DeviceHarness) -> Outcome {
    let (stream, event) = (dev.stream()?, dev.event_create(EventKind::Timing)?);
    let explicit = || -> Outcome {
        dev.event_record(event, stream)?;
        dev.stream_wait_event(stream, event)?;
        let pointer = dev.mem_alloc_async(1 << 20, stream)?;
        dev.mem_free_async(pointer, stream)?;
        dev.host_function(stream, || {})?;
        dev.event_query(event)?;
        dev.stream_query(stream)?;
        dev.stream_synchronize(stream)?;
        dev.event_synchronize(event)?;
        check(
            dev.event_elapsed_ms(event, event)? == 0.0,
            "no time from an event to itself",
        )?;
        Ok(dev.event_destroy(event)?)
    };
    // A default stream's handle is shared by all contexts, so the driver makes its context current.
    let default_streams = || -> Outcome {
        dev.stream_synchronize(StreamHandle::PER_THREAD)?;
        Ok(dev.stream_synchronize(StreamHandle::LEGACY)?)
    };
    let calls: [&(dyn Fn() -> Outcome + Sync); 2] = [&explicit, &default_streams];
    for calls in calls {
        let on_a_fresh_thread = thread::scope(|scope| scope.spawn(calls).join());
        on_a_fresh_thread.map_err(|_| "the thread panicked")??;
    }
    Ok(())
}
