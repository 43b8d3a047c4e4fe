//! Rules 49 to 51, 12 and 30: managed memory, which the host and every device access at the same
//! address.

use millstream_driver::{ManagedAdvice, ManagedLocation};

use crate::rules::prelude::*;

const HERE: ManagedLocation = ManagedLocation::Device(DEVICE);

#[run_by(each_schedule, |sim|)]
fn managed_memory_is_counted_apart_and_takes_nothing_of_the_device_s() {
    let managed = sim.managed(100);
    let live_object_counts = sim.gpu.live_object_counts();
    let counted = (
        live_object_counts.managed_bytes,
        live_object_counts.pinned_bytes,
        live_object_counts.device_bytes,
    );
    assert_eq!(counted, (100, 0, 0));
    assert_eq!(sim.mem_info().unwrap().0, sim.mem_info().unwrap().1);
    sim.mem_free(managed.address()).unwrap();
    assert_eq!(sim.gpu.live_object_counts().managed_bytes, 0);
    sim.managed(4);
    sim.release_context().unwrap();
    assert_eq!(
        sim.gpu.live_object_counts().managed_bytes,
        0,
        "gone with its context"
    );
}

#[run_by(by_default, |sim|)]
fn r50_the_device_says_that_the_host_may_touch_it_at_any_time() {
    for (attribute, value) in [
        (DeviceAttribute::MANAGED_MEMORY, 1),
        (DeviceAttribute::CONCURRENT_MANAGED_ACCESS, 1),
        (DeviceAttribute::PAGEABLE_MEMORY_ACCESS, 0),
    ] {
        assert_eq!(sim.gpu.device_attribute(DEVICE, attribute).unwrap(), value);
    }
}

#[test]
fn r51_a_prefetch_takes_the_time_of_a_copy_in_its_direction() {
    const BYTES: usize = 1 << 20;
    let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Timed).timeline(true));
    let stream = sim.stream();
    let managed = sim.managed(BYTES);
    sim.mem_prefetch_async(managed.address(), BYTES, HERE, stream)
        .unwrap();
    sim.mem_prefetch_async(managed.address(), BYTES, ManagedLocation::Host, stream)
        .unwrap();
    sim.stream_synchronize(stream).unwrap();
    let spans = sim.gpu.timeline();
    assert_eq!(spans[0].what, "prefetch (1048576 bytes to device 0)");
    assert_eq!(spans[1].what, "prefetch (1048576 bytes to the host)");
    // 1 MiB at 55.4 and 55.3 GB/s, plus the fixed latency of a copy.
    let durations = [18_928 + 1_000, 18_962 + 1_000];
    for (span, duration_ns) in spans.iter().zip(durations) {
        assert_eq!(span.finish_ns - span.start_ns, duration_ns, "{}", span.what);
    }
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r51_hints_are_refused_for_other_memory_other_devices_and_no_bytes() {
    let (plain, pinned) = (sim.mem_alloc(16).unwrap(), sim.pinned(16));
    let managed = sim.managed(16);
    let invalid = ResultCode::INVALID_VALUE;
    for other in [plain, pinned.address()] {
        sim.mem_prefetch_async(other, 16, HERE, stream)
            .fails(invalid);
        sim.assert_reported(ReportKind::BadArgument, &["not managed"]);
    }
    let advice = ManagedAdvice::SetReadMostly;
    sim.mem_advise(plain, 16, advice, HERE).fails(invalid);
    sim.assert_reported(ReportKind::BadArgument, &["not managed", "cuMemAlloc"]);
    sim.mem_advise(managed.address().offset(1), 16, advice, HERE)
        .fails(invalid);
    sim.assert_reported(
        ReportKind::OutOfBounds,
        &["reach 1 byte beyond", "cuMemAllocManaged"],
    );
    sim.mem_prefetch_async(managed.address(), 17, HERE, stream)
        .fails(invalid);
    sim.assert_reported(
        ReportKind::OutOfBounds,
        &["reach 1 byte beyond", "cuMemAllocManaged"],
    );
    sim.mem_prefetch_async(managed.address(), 0, HERE, stream)
        .fails(invalid);
    let absent = ManagedLocation::Device(DeviceOrdinal::from_raw(1));
    sim.mem_prefetch_async(managed.address(), 16, absent, stream)
        .fails(ResultCode::INVALID_DEVICE);
    sim.mem_advise(managed.address(), 16, ManagedAdvice::SetAccessedBy, absent)
        .fails(ResultCode::INVALID_DEVICE);
    sim.mem_advise(managed.address(), 16, advice, absent)
        .expect("this advice ignores its location");
    sim.assert_nothing_enqueued();
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r30_freeing_managed_memory_blocks_and_only_the_right_function_frees_it() {
    let managed = sim.managed(8);
    sim.mem_free_async(managed.address(), stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::WrongFree, &["cuMemAllocManaged"]);
    sim.host_free(managed).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::WrongFree, &["cuMemAllocManaged"]);
    sim.host_register(managed).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadArgument, &["are managed"]);
    sim.assert_blocks(stream, || sim.mem_free(managed.address()).unwrap());
    sim.mem_free(managed.address())
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::DoubleFree, &["cuMemAllocManaged"]);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn managed_memory_used_after_its_end_or_beyond_it_is_found() {
    let (managed, kept) = (sim.managed(8), sim.managed(8));
    sim.mem_free(managed.address()).unwrap();
    for late in [
        sim.upload(managed.address(), Host::pageable(4), stream),
        sim.copy_unified_async(managed.address(), kept.address(), 8, stream),
        sim.mem_prefetch_async(managed.address(), 8, HERE, stream),
    ] {
        late.fails(ResultCode::INVALID_VALUE);
        sim.assert_reported(
            ReportKind::UseAfterFree,
            &["after the end of", "cuMemAllocManaged"],
        );
    }
    // The driver also recognises the address as a host pointer.
    let memory = sim.mem_alloc(16).unwrap();
    let beyond = Host { bytes: 9, ..kept };
    sim.upload(memory, beyond, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(
        ReportKind::OutOfBounds,
        &["reach beyond", "cuMemAllocManaged"],
    );
    let set = sim.kernel(SET, "set");
    let args = [Arg::Pointer(kept.address()), Arg::U32(1)];
    sim.launch(set, (1, 3), stream, &args).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(ReportKind::KernelFault, &["8 bytes, cuMemAllocManaged"]);
}

#[run_by(by_default, |sim|)]
fn an_empty_managed_allocation_is_refused() {
    sim.mem_alloc_managed(0).fails(ResultCode::INVALID_VALUE);
    sim.mem_alloc_managed(isize::MAX as usize - 8192)
        .fails(ResultCode::OUT_OF_MEMORY);
    assert_eq!(sim.gpu.live_object_counts().managed_bytes, 0);
}

#[run_by(each_schedule_with(SimConfig::new().rules(Rules::strict())), |sim|)]
fn r29_read_strictly_a_managed_allocation_is_a_barrier() {
    let (before, after) = (sim.stream(), sim.stream());
    let hold = sim.assert_returns(before, || {
        sim.mem_alloc_managed(4).unwrap();
    });
    let event = sim.recorded(after);
    assert_eq!(
        sim.event_query(event).unwrap(),
        millstream_driver::Completion::Pending
    );
    hold.release();
    sim.event_synchronize(event).unwrap();
}
