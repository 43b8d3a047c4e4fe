//! Faults on the device: the context is lost, everyone who waits is told, and all else goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use millstream_driver::{
    Copy2d, EventHandle, FillPattern, FunctionHandle, ManagedAdvice, ManagedLocation, ResultCode,
    Side2d, StreamHandle,
};
use millstream_sim::{ReportKind, SimConfig};

use crate::{
    kernels::SET,
    rig::{self, Arg, DEVICE, Host, Rig, assert_code, each_schedule, each_schedule_with},
};

/// Loses the rig's context by a kernel that traps.
fn lose(rig: &Rig, stream: StreamHandle) {
    let fails = rig.kernel(SET, "fails");
    rig.launch(fails, (1, 1), stream, &[]).unwrap();
    assert_code(rig.stream_synchronize(stream), ResultCode::LAUNCH_FAILED);
}

#[test]
fn a_trap_is_sticky_and_every_later_call_answers_it() {
    each_schedule(|rig| {
        let (stream, other) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        let pinned = rig.pinned(4);
        let (event, timing) = (rig.recorded(other), rig.event());
        lose(rig, stream);
        rig.assert_reported(
            ReportKind::KernelFault,
            &["kernel `fails`", "operation", "trap"],
        );
        let lost = ResultCode::LAUNCH_FAILED;
        assert_code(rig.context_synchronize(), lost);
        assert_code(rig.stream_query(other), lost);
        assert_code(rig.stream_create(true, 0), lost);
        assert_code(
            rig.event_create(millstream_driver::EventKind::Ordering),
            lost,
        );
        assert_code(rig.event_query(event), lost);
        assert_code(rig.event_synchronize(timing), lost);
        assert_code(rig.mem_alloc(4), lost);
        assert_code(rig.mem_alloc_async(4, stream), lost);
        assert_code(rig.memset_async(memory, FillPattern::U8(0), 4, other), lost);
        assert_code(rig.upload(memory, Host::pageable(4), other), lost);
        assert_code(rig.download_now(Host::pageable(4), memory), lost);
        assert_code(rig.module_load(SET.as_bytes()), lost);
        assert_code(rig.host_alloc(4), lost);
        let error = rig.mem_info().unwrap_err();
        assert!(error.detail().unwrap().contains("trap"), "{error}");
        // Giving up what there is does happen, though it answers the error.
        assert_code(rig.mem_free_async(memory, other), lost);
        assert_code(rig.host_free(pinned), lost);
        assert_code(rig.event_destroy(event), lost);
        assert_code(rig.event_destroy(timing), lost);
        assert_code(rig.stream_destroy(stream), lost);
        assert_code(rig.stream_destroy(other), lost);
        let ledger = rig.gpu.ledger();
        assert_eq!(
            (ledger.streams, ledger.events, ledger.pinned_bytes),
            (0, 0, 0)
        );
        assert_eq!(rig.gpu.reports().len(), 1, "the fault alone");
    });
}

#[test]
fn r28_the_queues_drain_without_effect_and_host_functions_are_not_called() {
    each_schedule(|rig| {
        let (stream, other) = (rig.stream(), rig.stream());
        let pinned = rig.pinned(4);
        pinned.fill(1);
        let called = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&called);
        let fails = rig.kernel(SET, "fails");
        let hold = rig.hold(stream);
        rig.launch(fails, (1, 1), stream, &[]).unwrap();
        let event = rig.recorded(stream);
        rig.host_function(stream, move || {
            count.fetch_add(1, SeqCst);
        });
        rig.memset_async(pinned.address(), FillPattern::U8(2), 0, stream)
            .unwrap();
        rig.stream_wait_event(other, event).unwrap();
        let memory = rig.mem_alloc(4).unwrap();
        rig.download(pinned, memory, other).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| rig.stream_synchronize(other));
            thread::sleep(Duration::from_millis(2));
            hold.release();
            assert_code(waits.join().unwrap(), ResultCode::LAUNCH_FAILED);
        });
        thread::sleep(Duration::from_millis(5));
        assert_eq!(called.load(SeqCst), 0);
        assert!(pinned.is(1));
        assert_eq!(rig.gpu.ledger().pending_operations, 0);
        assert_eq!(Arc::strong_count(&called), 2, "the function is leaked");
    });
}

#[test]
fn a_fault_wakes_threads_that_wait_elsewhere_in_the_context() {
    each_schedule(|rig| {
        let (stream, held) = (rig.stream(), rig.stream());
        let hold = rig.hold(held);
        thread::scope(|scope| {
            let waits = scope.spawn(|| rig.stream_synchronize(held));
            thread::sleep(Duration::from_millis(2));
            lose(rig, stream);
            assert_code(waits.join().unwrap(), ResultCode::LAUNCH_FAILED);
        });
        hold.release();
    });
}

#[test]
fn another_device_goes_on() {
    each_schedule_with(SimConfig::new().devices(2), |rig| {
        let other = rig.on_device(1);
        let (stream, there) = (rig.stream(), other.stream());
        let memory = other.mem_alloc(4).unwrap();
        let event = rig.recorded(stream);
        lose(rig, stream);
        other.stream_wait_event(there, event).unwrap();
        other
            .memset_async(memory, FillPattern::U8(4), 4, there)
            .unwrap();
        assert_eq!(other.read(memory, 4, there), [4; 4]);
        rig.release_context().unwrap();
        let again = Rig::over(rig.gpu.clone());
        again.context_synchronize().expect("a new context is whole");
    });
}

/// What every kind of call answers in a lost context: the error's text.
fn answers(rig: &Rig, stream: StreamHandle, memory: millstream_driver::DevicePtr) -> Vec<String> {
    let here = ManagedLocation::Device(DEVICE);
    let (event, host) = (EventHandle::from_raw(7), Host::pageable(4));
    let copy = Copy2d {
        source: Side2d::device(memory, 1),
        target: Side2d::host(host.pointer.as_ptr(), 1),
        width_bytes: 1,
        height: 1,
    };
    let answers: [rig::Result<()>; 17] = [
        rig.context_synchronize(),
        rig.stream_synchronize(stream),
        rig.stream_query(stream).map(drop),
        rig.stream_create(true, 0).map(drop),
        rig.stream_wait_event(stream, event),
        rig.event_query(event).map(drop),
        rig.event_synchronize(event),
        rig.mem_alloc(4).map(drop),
        rig.mem_alloc_async(4, stream).map(drop),
        rig.mem_alloc_managed(4).map(drop),
        rig.mem_prefetch_async(memory, 4, here, stream),
        rig.mem_advise(memory, 4, ManagedAdvice::SetReadMostly, here),
        rig.host_alloc(4).map(drop),
        rig.upload(memory, host, stream),
        rig.copy_2d_async(&copy, stream),
        rig.memset_async(memory, FillPattern::U8(0), 4, stream),
        rig.mem_free(memory),
    ];
    let text = |answer: rig::Result<()>| answer.expect_err("the context is lost").to_string();
    answers.into_iter().map(text).collect()
}

#[test]
fn every_later_error_tells_which_kernel_faulted_where() {
    each_schedule(|rig| {
        let (stream, other) = (rig.stream(), rig.stream());
        let set = rig.kernel(SET, "set");
        let memory = rig.mem_alloc(8).unwrap();
        rig.memset_async(memory, FillPattern::U8(0), 8, other)
            .unwrap();
        set_at(rig, stream, set, memory.as_raw());
        assert_code(rig.stream_synchronize(stream), ResultCode::ILLEGAL_ADDRESS);
        let end = memory.as_raw() + 8;
        let cause = format!(
            "failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): the context was lost by kernel `set`, operation 2 on stream 1: \
             line 17 of the PTX of module 1 in block (0, 0, 0), thread (2, 0, 0): write of 4 bytes at {end:#x}, which lie \
             right behind the end of allocation 3 at {:#x}..{end:#x} (8 bytes, cuMemAlloc)",
            memory.as_raw()
        );
        for text in answers(rig, other, memory) {
            assert!(text.contains(&cause), "{text}\nis to contain\n{cause}");
        }
    });
}

#[test]
fn every_later_error_tells_which_copy_faulted_where() {
    each_schedule(|rig| {
        let (owner, other) = (rig.stream(), rig.stream());
        let (memory, kept) = (
            rig.mem_alloc_async(64, owner).unwrap(),
            rig.mem_alloc(64).unwrap(),
        );
        rig.stream_synchronize(owner).unwrap();
        let hold = rig.hold(other);
        rig.copy_device_to_device_async(kept, memory, 64, other)
            .unwrap();
        rig.mem_free_async(memory, owner).unwrap();
        rig.stream_synchronize(owner).unwrap();
        hold.release();
        assert_code(rig.stream_synchronize(other), ResultCode::ILLEGAL_ADDRESS);
        let cause = format!(
            "the context was lost by copy (WithinDevice, 64 bytes), operation 3 on stream 2: \
             a read failed: 64 bytes at {:#x} are used after the end of allocation 1",
            memory.as_raw()
        );
        for text in answers(rig, owner, kept) {
            assert!(text.contains(&cause), "{text}\nis to contain\n{cause}");
        }
    });
}

#[test]
fn a_kernel_in_another_device_s_memory_is_told_whose_it_is() {
    each_schedule_with(SimConfig::new().devices(2), |rig| {
        let stream = rig.stream();
        let set = rig.kernel(SET, "set");
        let there = rig.on_device(1).mem_alloc(32).unwrap();
        set_at(rig, stream, set, there.as_raw());
        assert_code(rig.stream_synchronize(stream), ResultCode::ILLEGAL_ADDRESS);
        rig.assert_reported(
            ReportKind::KernelFault,
            &[
                "which are memory of device 1",
                "32 bytes, cuMemAlloc on device 1",
                "stream 1 of device 0",
            ],
        );
    });
}

fn set_at(rig: &Rig, stream: StreamHandle, set: FunctionHandle, pointer: u64) {
    let target = millstream_driver::DevicePtr::from_raw(pointer);
    rig.launch(set, (1, 4), stream, &[Arg::Pointer(target), Arg::U32(1)])
        .unwrap();
}

#[test]
fn a_kernel_that_leaves_its_allocation_faults_with_the_address_and_its_neighbour() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let set = rig.kernel(SET, "set");
        let memory = rig.mem_alloc(12).unwrap();
        set_at(rig, stream, set, memory.as_raw());
        assert_code(rig.stream_synchronize(stream), ResultCode::ILLEGAL_ADDRESS);
        let address = format!("{:#x}", memory.as_raw() + 12);
        rig.assert_reported(
            ReportKind::KernelFault,
            &["kernel `set`", &address, "12 bytes, cuMemAlloc"],
        );
    });
}

#[test]
fn a_kernel_that_uses_freed_memory_is_told_who_freed_it() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let set = rig.kernel(SET, "set");
        let memory = rig.mem_alloc_async(16, stream).unwrap();
        rig.mem_free_async(memory, stream).unwrap();
        set_at(rig, stream, set, memory.as_raw());
        assert_code(rig.stream_synchronize(stream), ResultCode::ILLEGAL_ADDRESS);
        rig.assert_reported(
            ReportKind::KernelFault,
            &[
                "kernel `set`",
                "operation 3",
                "freed by operation 2 on stream 1",
            ],
        );
    });
}

#[test]
fn misaligned_pageable_foreign_and_constant_addresses_fault() {
    type Address<'a> = &'a dyn Fn(&Rig) -> u64;
    let cases: [(Address<'_>, ResultCode); 4] = [
        (
            &|rig| rig.mem_alloc(32).unwrap().as_raw() + 2,
            ResultCode::MISALIGNED_ADDRESS,
        ),
        (
            &|_| Host::pageable(64).address().as_raw().next_multiple_of(4),
            ResultCode::ILLEGAL_ADDRESS,
        ),
        (
            &|rig| rig.on_device(1).mem_alloc(32).unwrap().as_raw(),
            ResultCode::ILLEGAL_ADDRESS,
        ),
        (
            &|rig| {
                let module = rig.module_load(SET.as_bytes()).unwrap();
                rig.module_global(module, "limit").unwrap().0.as_raw()
            },
            ResultCode::ILLEGAL_ADDRESS,
        ),
    ];
    for (address, code) in cases {
        each_schedule_with(SimConfig::new().devices(2), |rig| {
            let stream = rig.stream();
            let set = rig.kernel(SET, "set");
            set_at(rig, stream, set, address(rig));
            assert_code(rig.stream_synchronize(stream), code);
        });
    }
}

#[test]
fn a_kernel_that_hangs_times_out() {
    let rig = Rig::new(SimConfig::new().kernel_steps_max(10_000));
    let stream = rig.stream();
    let forever = rig.kernel(SET, "forever");
    rig.launch(forever, (1, 1), stream, &[]).unwrap();
    assert_code(rig.stream_synchronize(stream), ResultCode::LAUNCH_TIMEOUT);
    rig.assert_reported(ReportKind::KernelFault, &["kernel `forever`"]);
}
