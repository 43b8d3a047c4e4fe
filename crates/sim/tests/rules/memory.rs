//! Rules 29 to 36: allocation, freeing, pools, and the memory budget.

use millstream_driver::{FillPattern, ResultCode};
use millstream_sim::{POISON, ReportKind, Rules, Schedule, SimConfig};

use crate::rules::sim_harness::{
    Fails, Host, SimHarness, by_default, each_schedule, each_schedule_and_stream,
    each_schedule_with, with_stream,
};

const MIB: usize = 1 << 20;

#[run_by(each_schedule, |sim|)]
fn r32_a_use_before_the_allocation_s_point_is_found() {
    let (owner, other) = (sim.stream(), sim.stream());
    let hold = sim.hold(owner);
    let memory = sim.mem_alloc_async(4, owner).unwrap();
    sim.fill(memory, 0, 4, other);
    sim.stream_synchronize(other)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::CopyFault,
        &[
            "fill",
            "before the beginning",
            "cuMemAllocAsync by operation 2 on stream 1",
        ],
    );
    drop(hold);
}

#[run_by(each_schedule, |sim|)]
fn r32_a_use_after_the_free_s_point_is_found() {
    let (owner, other) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc_async(4, owner).unwrap();
    sim.stream_synchronize(owner).unwrap();
    let hold = sim.hold(other);
    // Enqueued before the free, but not ordered before it.
    sim.fill(memory, 0, 4, other);
    sim.mem_free_async(memory, owner).unwrap();
    sim.stream_synchronize(owner).unwrap();
    hold.release();
    sim.stream_synchronize(other)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(
        ReportKind::CopyFault,
        &[
            "fill",
            "stream 2",
            "after the end",
            "freed by operation 4 on stream 1",
        ],
    );
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r32_the_pointer_is_dead_to_new_work_once_the_free_is_called() {
    let memory = sim.mem_alloc_async(4, stream).unwrap();
    let _hold = sim.hold(stream);
    sim.mem_free_async(memory, stream).unwrap();
    let fill = sim.memset_async(memory, FillPattern::U8(0), 4, stream);
    fill.fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(
        ReportKind::UseAfterFree,
        &["enqueued after the free", "still pending"],
    );
    sim.mem_free_async(memory, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::DoubleFree, &["second free"]);
}

#[test]
fn r35_another_stream_waits_on_the_device_for_memory_or_is_refused() {
    let tight = || SimConfig::new().memory_bytes(10 * MIB as u64);
    each_schedule_with(tight(), |sim| {
        let (first, second) = (sim.stream(), sim.stream());
        let hold = sim.hold(first);
        let memory = sim.mem_alloc_async(8 * MIB, first).unwrap();
        sim.mem_free_async(memory, first).unwrap();
        let reused = sim.mem_alloc_async(8 * MIB, second).unwrap();
        sim.fill(reused, 0, 4, second);
        assert!(sim.pending(second), "the driver inserted a wait");
        hold.release();
        sim.stream_synchronize(second).unwrap();
        sim.assert_clean();
    });
    each_schedule_with(tight().rules(Rules::strict()), |sim| {
        let (first, second) = (sim.stream(), sim.stream());
        sim.keep_pool_bytes(u64::MAX);
        let memory = sim.mem_alloc_async(8 * MIB, first).unwrap();
        sim.mem_free_async(memory, first).unwrap();
        sim.mem_alloc_async(8 * MIB, second)
            .fails(ResultCode::OUT_OF_MEMORY);
        sim.stream_synchronize(first).unwrap();
        sim.mem_alloc_async(8 * MIB, second).unwrap();
        sim.assert_clean();
    });
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn r36_the_pool_gives_back_at_a_synchronisation_and_when_trimmed() {
    let cycle = || {
        let memory = sim.mem_alloc_async(8 * MIB, stream).unwrap();
        sim.mem_free_async(memory, stream).unwrap();
        sim.stream_synchronize(stream).unwrap();
        sim.pool_usage().reserved_bytes
    };
    assert_eq!(cycle(), 0, "the threshold is 0 by default");
    sim.keep_pool_bytes(4 * MIB as u64);
    assert_eq!(cycle(), 4 * MIB as u64);
    sim.keep_pool_bytes(u64::MAX);
    assert_eq!(cycle(), 8 * MIB as u64);
    let memory = sim.mem_alloc_async(8 * MIB, stream).unwrap();
    sim.mem_free_async(memory, stream).unwrap();
    sim.trim(0);
    assert_eq!(
        sim.pool_usage().reserved_bytes,
        8 * MIB as u64,
        "a free not yet observed"
    );
    sim.stream_synchronize(stream).unwrap();
    sim.trim(MIB);
    assert_eq!(sim.pool_usage().reserved_bytes, MIB as u64);
    assert_eq!(sim.pool_usage().used_peak_bytes, 8 * MIB as u64);
    sim.assert_clean();
}

#[run_by(each_schedule_with(SimConfig::new().memory_bytes(4096)), |sim|)]
fn the_budget_is_kept_to_the_byte() {
    let stream = sim.stream();
    let first = sim.mem_alloc(2048).unwrap();
    let second = sim.mem_alloc_async(2048, stream).unwrap();
    let refused = sim.mem_alloc(1).unwrap_err();
    assert_eq!(refused.code(), ResultCode::OUT_OF_MEMORY);
    assert!(
        refused
            .detail()
            .unwrap()
            .contains("0 of 4096 bytes are free"),
        "{refused}"
    );
    sim.mem_alloc_async(1, stream)
        .fails(ResultCode::OUT_OF_MEMORY);
    sim.mem_free(first).unwrap();
    sim.mem_alloc(2048).unwrap();
    sim.mem_free_async(second, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    sim.mem_alloc(2048).unwrap();
    sim.assert_clean();
}

#[test]
fn more_than_the_host_has_is_out_of_memory_too() {
    let sim = SimHarness::new(SimConfig::new().memory_bytes(u64::MAX));
    sim.mem_alloc(isize::MAX as usize - 8192)
        .fails(ResultCode::OUT_OF_MEMORY);
    sim.host_alloc(isize::MAX as usize - 8192)
        .fails(ResultCode::OUT_OF_MEMORY);
    assert_eq!(sim.gpu.live_object_counts().device_bytes, 0);
}

#[test]
fn fresh_memory_is_poisoned_and_large_memory_costs_nothing_until_touched() {
    let sim = SimHarness::new(SimConfig::new().poison_max_bytes(MIB));
    let stream = sim.stream();
    let small = sim.mem_alloc_async(10, stream).unwrap();
    let [a, b, c, d] = POISON;
    assert_eq!(sim.read(small, 10, stream), [a, b, c, d, a, b, c, d, a, b]);
    let pinned = sim.pinned(4);
    assert_eq!(pinned.read(), POISON);
    assert_eq!(sim.managed(4).read(), POISON);
    let large = sim.mem_alloc_async(8 << 30, stream).unwrap();
    assert_eq!(sim.read(large.offset((8 << 30) - 1), 1, stream), [0]);
}

#[test]
fn memory_that_the_host_can_read_may_hold_zeros_at_first_also_after_it_was_freed() {
    let sim = SimHarness::new(SimConfig::new().poison_host_memory(false));
    for _ in 0..3 {
        let (pinned, managed) = (sim.pinned(64), sim.managed(64));
        assert!(pinned.is(0) && managed.is(0));
        pinned.fill(9);
        managed.fill(9);
        sim.host_free(pinned).unwrap();
        sim.mem_free(managed.address()).unwrap();
    }
    let device = sim.mem_alloc(4).unwrap();
    assert_eq!(sim.read(device, 4, sim.stream()), POISON);
}

#[test]
fn addresses_are_aligned_apart_and_never_given_twice() {
    let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Eager));
    let stream = sim.stream();
    let mut last_end = 1 << 48;
    for bytes in [1, 511, 512, 513, 100_000] {
        for _ in 0..3 {
            let memory = sim.mem_alloc_async(bytes, stream).unwrap();
            assert_eq!(memory.as_raw() % 512, 0);
            assert!(memory.as_raw() >= last_end);
            last_end = memory.as_raw() + bytes as u64 + 1;
            sim.mem_free_async(memory, stream).unwrap();
        }
    }
}

#[run_by(with_stream, |sim, stream|)]
fn empty_allocations_are_refused() {
    sim.mem_alloc(0).fails(ResultCode::INVALID_VALUE);
    sim.mem_alloc_async(0, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.host_alloc(0).fails(ResultCode::INVALID_VALUE);
    sim.host_register(Host::pageable(0))
        .fails(ResultCode::INVALID_VALUE);
    assert_eq!(sim.gpu.reports().len(), 4);
}

#[run_by(by_default, |sim|)]
fn registering_twice_and_unregistering_what_is_not_are_refused() {
    let host = Host::pageable(100);
    let twice = ResultCode::HOST_MEMORY_ALREADY_REGISTERED;
    sim.host_register(host.part(0, 50)).unwrap();
    sim.host_register(host.part(0, 50)).fails(twice);
    sim.host_register(host.part(10, 5)).fails(twice);
    sim.host_register(host.part(40, 20)).fails(twice);
    let not = ResultCode::HOST_MEMORY_NOT_REGISTERED;
    sim.host_unregister(host.part(10, 5)).fails(not);
    sim.host_unregister(sim.pinned(4)).fails(not);
    sim.host_unregister(host.part(0, 50)).unwrap();
    sim.host_unregister(host.part(0, 50)).fails(not);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn freed_pinned_memory_is_known_for_a_while() {
    let memory = sim.mem_alloc(4).unwrap();
    let pinned = sim.pinned(4);
    sim.host_free(pinned).unwrap();
    sim.upload(memory, pinned, stream)
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::UseAfterFree, &["host memory", "cuMemHostAlloc"]);
    sim.host_free(pinned).fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::DoubleFree, &["cuMemHostAlloc"]);
}

/// As an H200 aligns the first allocations of a process. Later ones share blocks with small ones.
#[run_by(by_default, |sim|)]
fn r56_large_allocations_are_aligned_to_the_next_power_of_two_up_to_two_mebibytes() {
    const MIB: usize = 1 << 20;
    for (bytes, alignment) in [(65_536, 65_536), (MIB, MIB), (MIB + 512, 2 * MIB)] {
        let pointers = [(); 3].map(|()| [sim.mem_alloc(1), sim.mem_alloc(bytes)]);
        for pointer in pointers.map(|[_, pointer]| pointer.unwrap().as_raw()) {
            assert!(pointer.is_multiple_of(alignment as u64), "{bytes} bytes");
        }
    }
    let pooled = sim.mem_alloc_async(3 * MIB, sim.stream()).unwrap();
    assert!(pooled.as_raw().is_multiple_of(MIB as u64));
}
