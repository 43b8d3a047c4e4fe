//! Device faults: the context is lost, every waiting call gets the error, and other devices
//! continue.

use millstream_driver::{ManagedAdvice, ManagedLocation};

use crate::rules::{prelude::*, sim_harness};

/// Loses the harness's context with a kernel that traps.
fn lose(sim: &SimHarness, stream: StreamHandle) {
    let fails = sim.kernel(SET, "fails");
    sim.launch(fails, (1, 1), stream, &[]).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::LAUNCH_FAILED);
}

#[run_by(each_schedule, |sim|)]
fn a_trap_is_sticky_and_every_later_call_answers_it() {
    let (stream, other) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc(4).unwrap();
    let pinned = sim.pinned(4);
    let (event, timing) = (sim.recorded(other), sim.event());
    lose(sim, stream);
    sim.assert_reported(
        ReportKind::KernelFault,
        &["kernel `fails`", "operation", "trap"],
    );
    let lost = ResultCode::LAUNCH_FAILED;
    sim.context_synchronize().fails(lost);
    sim.stream_query(other).fails(lost);
    sim.stream_create(true, 0).fails(lost);
    sim.event_create(millstream_driver::EventKind::Ordering)
        .fails(lost);
    sim.event_query(event).fails(lost);
    sim.event_synchronize(timing).fails(lost);
    sim.mem_alloc(4).fails(lost);
    sim.mem_alloc_async(4, stream).fails(lost);
    sim.memset_async(memory, FillPattern::U8(0), 4, other)
        .fails(lost);
    sim.upload(memory, Host::pageable(4), other).fails(lost);
    sim.download_now(Host::pageable(4), memory).fails(lost);
    sim.module_load(SET.as_bytes()).fails(lost);
    sim.host_alloc(4).fails(lost);
    let error = sim.mem_info().unwrap_err();
    assert!(error.detail().unwrap().contains("trap"), "{error}");
    // The memory is freed although the call returns the error.
    sim.mem_free_async(memory, other).fails(lost);
    sim.host_free(pinned).fails(lost);
    sim.event_destroy(event).fails(lost);
    sim.event_destroy(timing).fails(lost);
    sim.stream_destroy(stream).fails(lost);
    sim.stream_destroy(other).fails(lost);
    let live_object_counts = sim.gpu.live_object_counts();
    assert_eq!(
        (
            live_object_counts.streams,
            live_object_counts.events,
            live_object_counts.pinned_bytes
        ),
        (0, 0, 0)
    );
    assert_eq!(sim.gpu.reports().len(), 1, "the fault alone");
}

#[run_by(each_schedule, |sim|)]
fn r28_the_queues_drain_without_effect_and_host_functions_are_not_called() {
    let (stream, other) = (sim.stream(), sim.stream());
    let pinned = sim.pinned(4);
    pinned.fill(1);
    let called = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&called);
    let fails = sim.kernel(SET, "fails");
    let hold = sim.hold(stream);
    sim.launch(fails, (1, 1), stream, &[]).unwrap();
    let event = sim.recorded(stream);
    sim.host_function(stream, move || {
        count.fetch_add(1, SeqCst);
    });
    sim.fill(pinned.address(), 2, 0, stream);
    sim.stream_wait_event(other, event).unwrap();
    let memory = sim.mem_alloc(4).unwrap();
    sim.download(pinned, memory, other).unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| sim.stream_synchronize(other));
        thread::sleep(Duration::from_millis(2));
        hold.release();
        waits.join().unwrap().fails(ResultCode::LAUNCH_FAILED);
    });
    thread::sleep(Duration::from_millis(5));
    assert_eq!(called.load(SeqCst), 0);
    assert!(pinned.is(1));
    assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    assert_eq!(Arc::strong_count(&called), 2, "the function is leaked");
}

#[run_by(each_schedule, |sim|)]
fn a_fault_wakes_threads_that_wait_elsewhere_in_the_context() {
    let (stream, held) = (sim.stream(), sim.stream());
    let hold = sim.hold(held);
    thread::scope(|scope| {
        let waits = scope.spawn(|| sim.stream_synchronize(held));
        thread::sleep(Duration::from_millis(2));
        lose(sim, stream);
        waits.join().unwrap().fails(ResultCode::LAUNCH_FAILED);
    });
    hold.release();
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn another_device_goes_on() {
    let other = sim.on_device(1);
    let (stream, there) = (sim.stream(), other.stream());
    let memory = other.mem_alloc(4).unwrap();
    let event = sim.recorded(stream);
    lose(sim, stream);
    other.stream_wait_event(there, event).unwrap();
    other.fill(memory, 4, 4, there);
    assert_eq!(other.read(memory, 4, there), [4; 4]);
    sim.release_context().unwrap();
    let again = SimHarness::over(sim.gpu.clone());
    again
        .context_synchronize()
        .expect("a new context has no error");
}

/// Returns the error text of every kind of call in a lost context.
fn answers(
    sim: &SimHarness,
    stream: StreamHandle,
    memory: millstream_driver::DevicePtr,
) -> Vec<String> {
    let here = ManagedLocation::Device(DEVICE);
    let (event, host) = (EventHandle::from_raw(7), Host::pageable(4));
    let copy = Copy2d {
        source: Side2d::device(memory, 1),
        target: Side2d::host(host.pointer.as_ptr(), 1),
        width_bytes: 1,
        height: 1,
    };
    let answers: [sim_harness::Result<()>; 17] = [
        sim.context_synchronize(),
        sim.stream_synchronize(stream),
        sim.stream_query(stream).map(drop),
        sim.stream_create(true, 0).map(drop),
        sim.stream_wait_event(stream, event),
        sim.event_query(event).map(drop),
        sim.event_synchronize(event),
        sim.mem_alloc(4).map(drop),
        sim.mem_alloc_async(4, stream).map(drop),
        sim.mem_alloc_managed(4).map(drop),
        sim.mem_prefetch_async(memory, 4, here, stream),
        sim.mem_advise(memory, 4, ManagedAdvice::SetReadMostly, here),
        sim.host_alloc(4).map(drop),
        sim.upload(memory, host, stream),
        sim.copy_2d_async(&copy, stream),
        sim.memset_async(memory, FillPattern::U8(0), 4, stream),
        sim.mem_free(memory),
    ];
    let text =
        |answer: sim_harness::Result<()>| answer.expect_err("the context is lost").to_string();
    answers.into_iter().map(text).collect()
}

#[run_by(each_schedule, |sim|)]
fn every_later_error_tells_which_kernel_faulted_where() {
    let (stream, other) = (sim.stream(), sim.stream());
    let set = sim.kernel(SET, "set");
    let memory = sim.mem_alloc(8).unwrap();
    sim.fill(memory, 0, 8, other);
    set_at(sim, stream, set, memory.as_raw());
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    let end = memory.as_raw() + 8;
    let cause = format!(
        "failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): the context was lost by kernel `set`, \
         operation 2 on stream 1: \
         line 17 of the PTX of module 1 in block (0, 0, 0), thread (2, 0, 0): write of 4 bytes \
         at {end:#x}, which lie \
         right behind the end of allocation 3 at {:#x}..{end:#x} (8 bytes, cuMemAlloc)",
        memory.as_raw()
    );
    for text in answers(sim, other, memory) {
        assert!(text.contains(&cause), "{text}\ndoes not contain\n{cause}");
    }
}

#[run_by(each_schedule, |sim|)]
fn every_later_error_tells_which_copy_faulted_where() {
    let (owner, other) = (sim.stream(), sim.stream());
    let (memory, kept) = (
        sim.mem_alloc_async(64, owner).unwrap(),
        sim.mem_alloc(64).unwrap(),
    );
    sim.stream_synchronize(owner).unwrap();
    let hold = sim.hold(other);
    sim.copy_device_to_device_async(kept, memory, 64, other)
        .unwrap();
    sim.mem_free_async(memory, owner).unwrap();
    sim.stream_synchronize(owner).unwrap();
    hold.release();
    sim.stream_synchronize(other)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    let cause = format!(
        "the context was lost by copy (WithinDevice, 64 bytes), operation 3 on stream 2: \
         a read failed: 64 bytes at {:#x} are used after the end of allocation 1",
        memory.as_raw()
    );
    for text in answers(sim, owner, kept) {
        assert!(text.contains(&cause), "{text}\ndoes not contain\n{cause}");
    }
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn a_kernel_in_another_device_s_memory_is_told_whose_it_is() {
    let stream = sim.stream();
    let set = sim.kernel(SET, "set");
    let there = sim.on_device(1).mem_alloc(32).unwrap();
    set_at(sim, stream, set, there.as_raw());
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::KernelFault,
        &[
            "which are memory of device 1",
            "32 bytes, cuMemAlloc on device 1",
            "stream 1 of device 0",
        ],
    );
}

fn set_at(sim: &SimHarness, stream: StreamHandle, set: FunctionHandle, pointer: u64) {
    let target = millstream_driver::DevicePtr::from_raw(pointer);
    sim.launch(set, (1, 4), stream, &[Arg::Pointer(target), Arg::U32(1)])
        .unwrap();
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn a_kernel_that_uses_freed_memory_is_told_who_freed_it() {
    let set = sim.kernel(SET, "set");
    let memory = sim.mem_alloc_async(16, stream).unwrap();
    sim.mem_free_async(memory, stream).unwrap();
    set_at(sim, stream, set, memory.as_raw());
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::KernelFault,
        &[
            "kernel `set`",
            "operation 3",
            "freed by operation 2 on stream 1",
        ],
    );
}

#[test]
fn misaligned_pageable_foreign_and_constant_addresses_fault() {
    type Address<'a> = &'a dyn Fn(&SimHarness) -> u64;
    let cases: [(Address<'_>, ResultCode); 4] = [
        (
            &|sim| sim.mem_alloc(32).unwrap().as_raw() + 2,
            ResultCode::MISALIGNED_ADDRESS,
        ),
        (
            &|_| Host::pageable(64).address().as_raw().next_multiple_of(4),
            ResultCode::ILLEGAL_ADDRESS,
        ),
        (
            &|sim| sim.on_device(1).mem_alloc(32).unwrap().as_raw(),
            ResultCode::ILLEGAL_ADDRESS,
        ),
        (
            &|sim| {
                let module = sim.module_load(SET.as_bytes()).unwrap();
                sim.module_global(module, "limit").unwrap().0.as_raw()
            },
            ResultCode::ILLEGAL_ADDRESS,
        ),
    ];
    for (address, code) in cases {
        each_schedule_with(SimConfig::new().devices(2), |sim| {
            let stream = sim.stream();
            let set = sim.kernel(SET, "set");
            set_at(sim, stream, set, address(sim));
            sim.stream_synchronize(stream).fails(code);
        });
    }
}

#[test]
fn a_kernel_that_hangs_times_out() {
    let sim = SimHarness::new(SimConfig::new().kernel_steps_max(10_000));
    let stream = sim.stream();
    let forever = sim.kernel(SET, "forever");
    sim.launch(forever, (1, 1), stream, &[]).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::LAUNCH_TIMEOUT);
    sim.assert_reported(ReportKind::KernelFault, &["kernel `forever`"]);
}
