//! Rules 40 to 45: the capture of streams into graphs.

use std::thread;

use libtest_mimic::Failed;
use millstream_driver::{
    CaptureMode, CaptureStatus, DriverError, EventKind, FillPattern, GraphHandle, ResultCode,
    StreamHandle,
};

use crate::conformance::device_harness::{DeviceHarness, Observation, check};

const LOCAL: CaptureMode = CaptureMode::ThreadLocal;

/// Checks that a call fails with the documented code.
fn refused<T>(
    dev: &DeviceHarness,
    answer: Result<T, DriverError>,
    code: ResultCode,
    what: &str,
) -> Result<(), Failed> {
    let seen = dev.refusal(answer)?;
    check(seen == code, &format!("{what}: {seen}, not {code}"))
}

fn ends_invalid(dev: &DeviceHarness, stream: StreamHandle, what: &str) -> Result<(), Failed> {
    let status = dev.stream_capture_info(stream)?.status;
    check(
        status == CaptureStatus::Invalidated,
        &format!("{what} makes the capture invalid: {status:?}"),
    )?;
    let code = ResultCode::STREAM_CAPTURE_INVALIDATED;
    refused(dev, dev.stream_end_capture(stream), code, what)?;
    Ok(dev.stream_synchronize(stream)?)
}

pub(crate) fn launch_once(
    dev: &DeviceHarness,
    graph: GraphHandle,
    stream: StreamHandle,
) -> Result<(), Failed> {
    let exec = dev.graph_instantiate(graph)?;
    dev.graph_launch(exec, stream)?;
    dev.stream_synchronize(stream)?;
    dev.graph_exec_destroy(exec)?;
    Ok(dev.graph_destroy(graph)?)
}

pub(crate) fn r40(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(4)?);
    let legacy = dev.refusal(dev.stream_begin_capture(StreamHandle::LEGACY, LOCAL))?;
    let idle = dev.refusal(dev.stream_end_capture(stream))?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let again = dev.refusal(dev.stream_begin_capture(stream, LOCAL))?;
    dev.store(memory, 7, stream)?;
    let elsewhere = thread::scope(|scope| {
        let ended = scope.spawn(|| dev.stream_end_capture(stream)).join();
        dev.refusal(ended.expect("the thread does not panic"))
    })?;
    check(
        elsewhere == ResultCode::STREAM_CAPTURE_WRONG_THREAD,
        &format!("another thread: {elsewhere}"),
    )?;
    let after = dev.refusal(dev.stream_end_capture(stream))?;
    check(
        after == ResultCode::ILLEGAL_STATE,
        &format!("the attempt of another thread ends the capture: {after}"),
    )?;
    dev.stream_begin_capture(stream, LOCAL)?;
    dev.store(memory, 7, stream)?;
    let graph = dev.stream_end_capture(stream)?;
    check(
        dev.holds(memory, 0, 4, stream)?,
        "nothing runs while it is captured",
    )?;
    launch_once(dev, graph, stream)?;
    check(
        dev.read(memory, 4, stream)? == 7_u32.to_le_bytes(),
        "the graph holds the kernel",
    )?;
    dev.stream_begin_capture(stream, CaptureMode::Relaxed)?;
    let ended = thread::scope(|scope| scope.spawn(|| dev.stream_end_capture(stream)).join());
    dev.graph_destroy(ended.expect("the thread does not panic")?)?;
    Ok(format!(
        "legacy stream: {legacy}; a second begin: {again}; an end without a capture: {idle}; on \
         another thread: {elsewhere}, but not in relaxed mode"
    ))
}

pub(crate) fn r41(dev: &DeviceHarness) -> Observation {
    let (stream, other, memory) = (dev.stream()?, dev.stream()?, dev.memory(12)?);
    let outside = dev.recorded(other)?;
    let (fork, join) = (dev.event()?, dev.event()?);
    let branch = |other: StreamHandle, joined: bool| -> Result<(), DriverError> {
        dev.stream_begin_capture(stream, LOCAL)?;
        dev.store(memory, 1, stream)?;
        dev.event_record(fork, stream)?;
        dev.stream_wait_event(other, fork)?;
        dev.store(memory.offset(4), 2, other)?;
        if joined {
            dev.event_record(join, other)?;
            dev.stream_wait_event(stream, join)?;
            dev.copy_device_to_device_async(memory.offset(8), memory.offset(4), 4, stream)?;
        }
        Ok(())
    };
    let joined = dev.stream_create(true, 0)?;
    branch(joined, true)?;
    check(
        dev.stream_capture_info(joined)?.status == CaptureStatus::Active,
        "the wait joins the capture",
    )?;
    // What it captured stays in the capture.
    dev.stream_destroy(joined)?;
    let graph = dev.stream_end_capture(stream)?;
    launch_once(dev, graph, stream)?;
    let expected = [1_u32, 2, 2].map(u32::to_le_bytes).concat();
    check(
        dev.read(memory, 12, stream)? == expected,
        "both branches run, and what joins them after them",
    )?;
    branch(other, false)?;
    let code = ResultCode::STREAM_CAPTURE_UNJOINED;
    refused(dev, dev.stream_end_capture(stream), code, "an open branch")?;
    dev.stream_synchronize(other)?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let code = ResultCode::STREAM_CAPTURE_ISOLATION;
    let waits = dev.stream_wait_event(stream, outside);
    refused(dev, waits, code, "a wait for work outside")?;
    ends_invalid(dev, stream, "a wait for work outside")?;
    for event in [outside, fork, join] {
        dev.event_destroy(event)?;
    }
    Ok("joins; an open branch: 904; work outside: 905".into())
}

pub(crate) fn r42(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(4)?);
    let host = dev.pageable(4, 1);
    let unsupported = ResultCode::STREAM_CAPTURE_UNSUPPORTED;
    dev.stream_begin_capture(stream, LOCAL)?;
    refused(dev, dev.stream_query(stream), unsupported, "a query")?;
    ends_invalid(dev, stream, "a query")?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let waits = dev.stream_synchronize(stream);
    refused(dev, waits, unsupported, "a synchronisation")?;
    ends_invalid(dev, stream, "a synchronisation")?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let waits = dev.context_synchronize();
    refused(dev, waits, unsupported, "one of the context")?;
    ends_invalid(dev, stream, "a synchronisation of the context")?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let event = dev.recorded(stream)?;
    let code = ResultCode::CAPTURED_EVENT;
    refused(dev, dev.event_query(event), code, "an event's query")?;
    ends_invalid(dev, stream, "a query of a captured event")?;
    // A record stays one of the capture behind its end, also if the event was recorded before.
    for spoils in [false, true] {
        let event = dev.recorded(stream)?;
        dev.stream_begin_capture(stream, CaptureMode::Relaxed)?;
        dev.event_record(event, stream)?;
        if spoils {
            refused(dev, dev.stream_query(stream), unsupported, "a query")?;
            ends_invalid(dev, stream, "a query")?;
        } else {
            dev.graph_destroy(dev.stream_end_capture(stream)?)?;
        }
        let code = ResultCode::INVALID_VALUE;
        refused(dev, dev.event_query(event), code, "a query behind the end")?;
        let waits = dev.stream_wait_event(stream, event);
        refused(dev, waits, code, "a wait behind the end")?;
        dev.event_record(event, stream)?;
        dev.stream_synchronize(stream)?;
        let again = dev.event_query(event)?;
        check(again.is_complete(), "a record outside replaces it")?;
        dev.event_destroy(event)?;
    }
    // The order with adopted streams relies on this: such an event is recorded outside or not.
    let event = dev.event_create(EventKind::Interprocess)?;
    dev.event_record(event, stream)?;
    dev.stream_begin_capture(stream, LOCAL)?;
    let records = dev.event_record(event, stream);
    refused(
        dev,
        records,
        unsupported,
        "a record of an interprocess event",
    )?;
    let status = dev.stream_capture_info(stream)?.status;
    check(
        status == CaptureStatus::Active,
        &format!("it stays valid: {status:?}"),
    )?;
    dev.graph_destroy(dev.stream_end_capture(stream)?)?;
    dev.stream_synchronize(stream)?;
    let before = dev.event_query(event)?;
    check(before.is_complete(), "the record before stays")?;
    dev.event_destroy(event)?;

    let blocking = dev.blocking_stream()?;
    let implicit = ResultCode::STREAM_CAPTURE_IMPLICIT;
    dev.stream_begin_capture(blocking, LOCAL)?;
    let fills = dev.memset_async(memory, FillPattern::U8(1), 4, StreamHandle::LEGACY);
    refused(dev, fills, implicit, "the legacy stream")?;
    ends_invalid(dev, blocking, "the legacy stream")?;
    dev.stream_begin_capture(blocking, LOCAL)?;
    let copies = dev.upload_now(memory, host);
    refused(dev, copies, implicit, "a synchronous copy")?;
    ends_invalid(dev, blocking, "a synchronous copy")?;
    dev.stream_begin_capture(stream, LOCAL)?;
    dev.memset_async(memory, FillPattern::U8(1), 4, StreamHandle::LEGACY)?;
    dev.graph_destroy(dev.stream_end_capture(stream)?)?;
    Ok(
        "900, of events 907, and 1 behind the end of the capture; of the legacy stream 906, and \
         only while a blocking stream captures; a record of an interprocess event is refused with \
         900, and the capture stays valid"
            .into(),
    )
}

pub(crate) fn r43(dev: &DeviceHarness) -> Observation {
    let (stream, memory) = (dev.stream()?, dev.memory(4)?);
    dev.stream_begin_capture(stream, LOCAL)?;
    let code = ResultCode::STREAM_CAPTURE_UNSUPPORTED;
    refused(dev, dev.stream_query(stream), code, "a query")?;
    let next = dev.refusal(dev.memset_async(memory, FillPattern::U8(1), 4, stream))?;
    ends_invalid(dev, stream, "a query")?;
    dev.memset_async(memory, FillPattern::U8(2), 4, stream)?;
    check(
        dev.holds(memory, 2, 4, stream)?,
        "the stream works when the capture has ended",
    )?;
    Ok(format!(
        "a later call: {next}; no graph; the stream works afterwards"
    ))
}

pub(crate) fn r44(dev: &DeviceHarness) -> Observation {
    let stream = dev.stream()?;
    let mut seen = Vec::new();
    for (mode, here, elsewhere) in [
        (CaptureMode::Global, false, false),
        (CaptureMode::ThreadLocal, false, true),
        (CaptureMode::Relaxed, true, true),
    ] {
        for (allowed, on_this_thread) in [(here, true), (elsewhere, false)] {
            dev.stream_begin_capture(stream, mode)?;
            let allocate = || dev.mem_alloc(64);
            let answer = if on_this_thread {
                allocate()
            } else {
                let answer = thread::scope(|scope| scope.spawn(allocate).join());
                answer.expect("the thread does not panic")
            };
            let place = if on_this_thread { "here" } else { "elsewhere" };
            if allowed {
                let memory = answer?;
                dev.graph_destroy(dev.stream_end_capture(stream)?)?;
                dev.mem_free(memory)?;
            } else {
                let code = ResultCode::STREAM_CAPTURE_UNSUPPORTED;
                refused(dev, answer, code, &format!("{mode:?}, {place}"))?;
                ends_invalid(dev, stream, "an allocation")?;
                seen.push(format!("{mode:?} {place}"));
            }
        }
    }
    Ok(format!("an allocation is refused: {}", seen.join(", ")))
}

pub(crate) fn r45(dev: &DeviceHarness) -> Observation {
    let (stream, result) = (dev.stream()?, dev.memory(4)?);
    dev.stream_begin_capture(stream, LOCAL)?;
    let memory = dev.mem_alloc_async(64, stream)?;
    dev.memset_async(memory, FillPattern::U8(7), 64, stream)?;
    dev.copy_device_to_device_async(result, memory, 4, stream)?;
    dev.mem_free_async(memory, stream)?;
    let graph = dev.stream_end_capture(stream)?;
    let exec = dev.graph_instantiate(graph)?;
    for _ in 0..2 {
        dev.memset_async(result, FillPattern::U8(0), 4, stream)?;
        dev.graph_launch(exec, stream)?;
        check(
            dev.holds(result, 7, 4, stream)?,
            "each launch uses the same address",
        )?;
    }
    let clone = dev.refusal(dev.graph_clone(graph))?;
    dev.graph_exec_destroy(exec)?;
    dev.graph_destroy(graph)?;
    Ok(format!("one address in every launch; a clone: {clone}"))
}
