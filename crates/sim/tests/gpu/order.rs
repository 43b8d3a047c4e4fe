//! Events, host functions, and the calls that need no current context.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use millstream_driver::{Completion, Driver, EventKind, FillPattern, StreamHandle};

use crate::gpu::harness::{Gpu, Outcome, check};

pub(crate) fn events_order_streams_and_measure_time(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    const BYTES: usize = 64 << 20;
    let data = gpu.alloc(BYTES)?;
    // SAFETY: the context is retained.
    let start = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    // SAFETY: the context is retained.
    let end = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    // SAFETY: the context is retained.
    let order = unsafe { cuda.event_create(*context, EventKind::Ordering) }?;
    // SAFETY: the event is alive.
    let never_recorded = unsafe { cuda.event_query(*context, order) }?;
    check(
        never_recorded == Completion::Complete,
        "a never-recorded event counts as complete",
    )?;

    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, start, *stream) }?;
    for _ in 0..8 {
        // SAFETY: the allocation has this size.
        unsafe { cuda.memset_async(*context, data, FillPattern::U8(1), BYTES, *stream) }?;
    }
    // SAFETY: the allocation has this size.
    unsafe { cuda.memset_async(*context, data, FillPattern::U8(2), BYTES, *stream) }?;
    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, end, *stream) }?;
    // SAFETY: event and stream are of this context.
    unsafe { cuda.event_record(*context, order, *stream) }?;

    let second = Gpu::open(gpu.device)?;
    // SAFETY: event and stream are alive.
    unsafe { cuda.stream_wait_event(*context, second.stream, order) }?;
    let last: Vec<u8> = second.read(data.offset(BYTES as u64 - 16), 16)?;
    check(last == [2; 16], "the other stream waited for the fill")?;
    // SAFETY: the event is alive.
    unsafe { cuda.event_synchronize(*context, end) }?;
    // SAFETY: the stream is alive.
    let state = unsafe { cuda.stream_query(*context, *stream) }?;
    check(state.is_complete(), "everything before the event is done")?;
    // SAFETY: both events are alive.
    let milliseconds = unsafe { cuda.event_elapsed_ms(*context, start, end) }?;
    check(milliseconds > 0.0, "time has passed between the events")?;
    for event in [start, end, order] {
        // SAFETY: destroyed once and not used again.
        unsafe { cuda.event_destroy(*context, event) }?;
    }
    gpu.free(data)
}

pub(crate) fn explicit_handles_need_no_current_context(gpu: &Gpu) -> Outcome {
    let Gpu {
        cuda,
        context,
        stream,
        ..
    } = gpu;
    // SAFETY: the context is retained.
    let event = unsafe { cuda.event_create(*context, EventKind::Timing) }?;
    let on_a_fresh_thread = || -> Outcome {
        // SAFETY: event and stream are alive and of one context.
        unsafe { cuda.event_record(*context, event, *stream) }?;
        // SAFETY: as above.
        unsafe { cuda.stream_wait_event(*context, *stream, event) }?;
        let pointer = gpu.alloc(1 << 20)?;
        gpu.free(pointer)?;
        // SAFETY: the stream is alive, and the function calls no driver.
        unsafe { cuda.launch_host_function(*context, *stream, Box::new(|| {})) }?;
        // SAFETY: as above.
        unsafe { cuda.event_query(*context, event) }?;
        // SAFETY: as above.
        unsafe { cuda.stream_query(*context, *stream) }?;
        gpu.synchronize()?;
        // SAFETY: as above.
        unsafe { cuda.event_synchronize(*context, event) }?;
        // SAFETY: as above.
        let milliseconds = unsafe { cuda.event_elapsed_ms(*context, event, event) }?;
        check(milliseconds == 0.0, "no time from an event to itself")?;
        // SAFETY: destroyed once and not used again.
        Ok(unsafe { cuda.event_destroy(*context, event) }?)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(on_a_fresh_thread);
        thread
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".into()))
    })?;

    // A default stream's handle is shared by all contexts, so the driver makes its context current.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Outcome {
            // SAFETY: the context is retained.
            unsafe { cuda.stream_synchronize(*context, StreamHandle::PER_THREAD) }?;
            // SAFETY: the context is retained.
            Ok(unsafe { cuda.stream_synchronize(*context, StreamHandle::LEGACY) }?)
        });
        thread
            .join()
            .unwrap_or_else(|_| Err("the thread panicked".into()))
    })
}
