//! Invalid handles, addresses and sizes: each gives an error code and a report, never a panic, and
//! other operations continue.

use millstream_driver::ModuleHandle;

use crate::rules::prelude::*;

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn handles_that_were_never_given() {
    for raw in [
        3,
        7,
        usize::MAX,
        stream.as_raw() + 1,
        stream.as_raw() ^ (1 << 40),
    ] {
        let handle = StreamHandle::from_raw(raw);
        sim.stream_query(handle).fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(ReportKind::UnknownHandle, &["is not a stream"]);
        sim.stream_destroy(handle).fails(ResultCode::INVALID_HANDLE);
        sim.event_query(EventHandle::from_raw(raw))
            .fails(ResultCode::INVALID_HANDLE);
        let module = ModuleHandle::from_raw(raw);
        sim.module_function(module, "k")
            .fails(ResultCode::INVALID_HANDLE);
        sim.module_unload(module).fails(ResultCode::INVALID_HANDLE);
        let function = FunctionHandle::from_raw(raw);
        sim.function_load(function)
            .fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(ReportKind::UnknownHandle, &["is not a function"]);
        sim.launch(function, (1, 1), stream, &[])
            .fails(ResultCode::INVALID_HANDLE);
    }
    sim.stream_wait_event(stream, EventHandle::from_raw(0))
        .fails(ResultCode::INVALID_HANDLE);
    sim.stream_synchronize(stream).unwrap();
}

#[run_by(each_schedule, |sim|)]
fn handles_used_after_they_were_given_up() {
    let (stream, event) = (sim.stream(), sim.event());
    sim.stream_destroy(stream).unwrap();
    sim.stream_destroy(stream).fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::DeadHandle, &["stream 1"]);
    sim.event_destroy(event).unwrap();
    sim.event_destroy(event).fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::DeadHandle, &["event 1"]);
}

#[run_by(by_default, |sim|)]
fn default_streams_cannot_be_destroyed() {
    for stream in [StreamHandle::LEGACY, StreamHandle::PER_THREAD] {
        sim.stream_destroy(stream).fails(ResultCode::INVALID_HANDLE);
        sim.stream_synchronize(stream).unwrap();
    }
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn device_ranges_must_lie_in_one_live_allocation() {
    let memory = sim.mem_alloc(100).unwrap();
    let neighbour = sim.mem_alloc(100).unwrap();
    let wrong = [
        (
            memory.offset(1),
            100,
            "reach 1 byte beyond the end of allocation 1",
        ),
        (
            memory,
            1 << 40,
            "reach 1099511627676 bytes beyond the end of allocation 1",
        ),
        (
            memory.offset(100),
            1,
            "lie right behind the end of allocation 1",
        ),
        (
            memory.offset(107),
            2,
            "lie 7 bytes behind the end of allocation 1",
        ),
        (
            DevicePtr::from_raw(neighbour.as_raw() - 4),
            4,
            "lie 4 bytes in front of allocation 2",
        ),
        (DevicePtr::from_raw(8), 1, "lie next to the null pointer"),
        (
            DevicePtr::from_raw(u64::MAX),
            1,
            "lie in no memory that the device reaches",
        ),
    ];
    for (target, bytes, why) in wrong {
        let fill = sim.memset_async(target, FillPattern::U8(0), bytes, stream);
        fill.fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(ReportKind::OutOfBounds, &[why]);
    }
    let host = Host::pageable(101);
    sim.upload(memory, host, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.download(host, memory, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.copy_device_to_device(memory, memory.offset(50), 51)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_nothing_enqueued();
    let overflowing = sim.memset_async(memory, FillPattern::U32(0), usize::MAX, stream);
    overflowing.fails(ResultCode::INVALID_VALUE);
}

#[run_by(with_stream, |sim, stream|)]
fn misaligned_fills_and_overlapping_copies_are_reported() {
    let memory = sim.mem_alloc(100).unwrap();
    let fill = sim.memset_async(memory.offset(2), FillPattern::U32(0), 1, stream);
    fill.fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::Misaligned, &["4-byte"]);
    sim.copy_device_to_device_async(memory, memory.offset(10), 11, stream)
        .unwrap();
    sim.assert_reported(ReportKind::Overlap, &["11 bytes"]);
    sim.copy_device_to_device_async(memory, memory.offset(10), 10, stream)
        .unwrap();
    assert_eq!(sim.gpu.reports().len(), 2);
}

#[run_by(with_stream, |sim, stream|)]
fn null_host_pointers_are_refused() {
    let memory = sim.mem_alloc(4).unwrap();
    let copy = sim.copy_unified_async(memory, DevicePtr::from_raw(0), 4, stream);
    copy.fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadArgument, &["not host memory"]);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn frees_of_what_is_not_an_allocation() {
    let memory = sim.mem_alloc_async(100, stream).unwrap();
    for wrong in [
        memory.offset(1),
        DevicePtr::from_raw(0),
        sim.pinned(4).address(),
    ] {
        sim.mem_free_async(wrong, stream)
            .fails(ResultCode::INVALID_VALUE);
        sim.mem_free(wrong).fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(ReportKind::WrongFree, &[]);
    }
    sim.mem_free(memory).unwrap();
    sim.mem_free(memory).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::DoubleFree, &["cuMemAllocAsync"]);
}

#[run_by(each_schedule, |sim|)]
fn contexts_are_counted_and_gone_with_all_they_hold() {
    let again = sim.gpu.primary_context_retain(DEVICE).unwrap();
    assert_eq!(again, sim.context);
    sim.release_context().unwrap();
    let stream = sim.stream();
    let memory = sim.mem_alloc(64).unwrap();
    let pooled = sim.mem_alloc_async(64, stream).unwrap();
    sim.pinned(64);
    sim.event();
    sim.fill(pooled, 0, 64, stream);
    sim.release_context().unwrap();
    assert_eq!(
        sim.gpu.live_object_counts(),
        millstream_sim::LiveObjectCounts::default()
    );
    sim.context_synchronize().fails(ResultCode::INVALID_CONTEXT);
    sim.assert_reported(ReportKind::DeadHandle, &["the context of device 0"]);
    sim.mem_free(memory).fails(ResultCode::INVALID_CONTEXT);
    sim.release_context().fails(ResultCode::INVALID_CONTEXT);
    let fresh = sim.gpu.primary_context_retain(DEVICE).unwrap();
    assert_ne!(fresh, sim.context, "handles are never given twice");
}

#[test]
fn devices_that_are_not_there() {
    let sim = SimHarness::new(SimConfig::new().devices(2));
    assert_eq!(sim.gpu.device_count().unwrap(), 2);
    for ordinal in [-1, 2, i32::MAX] {
        let device = DeviceOrdinal::from_raw(ordinal);
        sim.gpu
            .device_name(device)
            .fails(ResultCode::INVALID_DEVICE);
        sim.gpu
            .primary_context_retain(device)
            .fails(ResultCode::INVALID_DEVICE);
        sim.gpu
            .default_pool(device)
            .fails(ResultCode::INVALID_DEVICE);
    }
}
