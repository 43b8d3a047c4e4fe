//! Rules 29 to 36: allocation, freeing, pools, and the budget.

use millstream_driver::{FillPattern, ResultCode};
use millstream_sim::{POISON, Reading, ReportKind, Rules, Schedule, SimConfig};

use crate::rig::{Host, Rig, assert_code, each_schedule, each_schedule_with};

const MIB: usize = 1 << 20;

#[test]
fn r29_read_strictly_allocations_fills_and_device_copies_are_barriers() {
    let strict = Rules {
        implicit_synchronisation: Reading::Strict,
        ..Rules::observed()
    };
    each_schedule_with(SimConfig::new().rules(strict), |rig| {
        let barriers: [&dyn Fn(); 4] = [
            &|| {
                rig.mem_alloc(4).unwrap();
            },
            &|| {
                rig.pinned(4);
            },
            &|| {
                let (memory, stream) = (rig.mem_alloc(4).unwrap(), rig.stream());
                rig.memset_async(memory, FillPattern::U8(0), 4, stream)
                    .unwrap();
            },
            &|| {
                let (memory, stream) = (rig.mem_alloc(8).unwrap(), rig.stream());
                rig.copy_device_to_device_async(memory, memory.offset(4), 4, stream)
                    .unwrap();
            },
        ];
        for barrier in barriers {
            let (before, after) = (rig.stream(), rig.stream());
            let hold = rig.hold(before);
            barrier();
            rig.event_record(rig.event(), after).unwrap();
            for _ in 0..10 {
                assert!(
                    rig.pending(after),
                    "work after the barrier waits for work before it"
                );
            }
            hold.release();
            rig.stream_synchronize(after).unwrap();
        }
        rig.assert_clean();
    });
    each_schedule(|rig| {
        let (before, after) = (rig.stream(), rig.stream());
        let _hold = rig.hold(before);
        rig.mem_alloc(4).unwrap();
        rig.pinned(4);
        rig.event_record(rig.event(), after).unwrap();
        rig.stream_synchronize(after).unwrap();
    });
}

#[test]
fn r30_freeing_blocks_until_the_device_is_idle() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let memory = rig.mem_alloc(4).unwrap();
        rig.assert_blocks(stream, || rig.mem_free(memory).unwrap());
        let pinned = rig.pinned(4);
        rig.assert_blocks(stream, || rig.host_free(pinned).unwrap());
        let registered = Host::pageable(4);
        rig.host_register(registered).unwrap();
        rig.assert_blocks(stream, || rig.host_unregister(registered).unwrap());
        rig.assert_clean();
        let ledger = rig.gpu.ledger();
        assert_eq!((ledger.device_bytes, ledger.pinned_bytes), (0, 0));
    });
}

#[test]
fn r31_memory_is_the_streams_device_s() {
    each_schedule_with(SimConfig::new().devices(2), |rig| {
        let other = rig.on_device(1);
        let stream = other.stream();
        let memory = other.mem_alloc_async(MIB, stream).unwrap();
        other.stream_synchronize(stream).unwrap();
        assert_eq!(rig.pool_usage().used_bytes, 0);
        assert_eq!(rig.mem_info().unwrap().0, rig.mem_info().unwrap().1);
        assert!(other.mem_info().unwrap().0 < other.mem_info().unwrap().1);
        other.mem_free_async(memory, stream).unwrap();
        rig.assert_clean();
    });
}

#[test]
fn r32_a_use_before_the_allocation_s_point_is_found() {
    each_schedule(|rig| {
        let (owner, other) = (rig.stream(), rig.stream());
        let hold = rig.hold(owner);
        let memory = rig.mem_alloc_async(4, owner).unwrap();
        rig.memset_async(memory, FillPattern::U8(0), 4, other)
            .unwrap();
        assert_code(rig.stream_synchronize(other), ResultCode::ILLEGAL_ADDRESS);
        rig.assert_reported(
            ReportKind::CopyFault,
            &[
                "fill",
                "before the beginning",
                "cuMemAllocAsync by operation 2 on stream 1",
            ],
        );
        drop(hold);
    });
}

#[test]
fn r32_a_use_ordered_after_the_allocation_is_right() {
    each_schedule(|rig| {
        let (owner, other) = (rig.stream(), rig.stream());
        let hold = rig.hold(owner);
        let memory = rig.mem_alloc_async(4, owner).unwrap();
        let allocated = rig.recorded(owner);
        rig.stream_wait_event(other, allocated).unwrap();
        rig.memset_async(memory, FillPattern::U8(3), 4, other)
            .unwrap();
        let used = rig.recorded(other);
        rig.stream_wait_event(owner, used).unwrap();
        rig.mem_free_async(memory, owner).unwrap();
        hold.release();
        rig.stream_synchronize(owner).unwrap();
        rig.assert_clean();
        assert_eq!(rig.gpu.ledger().device_bytes, 0);
    });
}

#[test]
fn r32_a_use_after_the_free_s_point_is_found() {
    each_schedule(|rig| {
        let (owner, other) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc_async(4, owner).unwrap();
        rig.stream_synchronize(owner).unwrap();
        let hold = rig.hold(other);
        // Enqueued before the free, but not ordered before it.
        rig.memset_async(memory, FillPattern::U8(0), 4, other)
            .unwrap();
        rig.mem_free_async(memory, owner).unwrap();
        rig.stream_synchronize(owner).unwrap();
        hold.release();
        assert_code(rig.stream_synchronize(other), ResultCode::ILLEGAL_ADDRESS);
        rig.assert_reported(
            ReportKind::CopyFault,
            &[
                "fill",
                "stream 2",
                "after the end",
                "freed by operation 4 on stream 1",
            ],
        );
    });
}

#[test]
fn r32_the_pointer_is_dead_to_new_work_once_the_free_is_called() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let memory = rig.mem_alloc_async(4, stream).unwrap();
        let _hold = rig.hold(stream);
        rig.mem_free_async(memory, stream).unwrap();
        let fill = rig.memset_async(memory, FillPattern::U8(0), 4, stream);
        assert_code(fill, ResultCode::INVALID_VALUE);
        rig.assert_reported(
            ReportKind::UseAfterFree,
            &["enqueued after the free", "still pending"],
        );
        assert_code(
            rig.mem_free_async(memory, stream),
            ResultCode::INVALID_VALUE,
        );
        rig.assert_reported(ReportKind::DoubleFree, &["second free"]);
    });
}

#[test]
fn r33_either_allocator_s_memory_may_be_freed_by_either_free() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let plain = rig.mem_alloc(MIB).unwrap();
        let pooled = rig.mem_alloc_async(MIB, stream).unwrap();
        rig.memset_async(pooled, FillPattern::U8(0), 4, stream)
            .unwrap();
        rig.mem_free_async(plain, stream).unwrap();
        rig.mem_free(pooled).unwrap();
        rig.stream_synchronize(stream).unwrap();
        rig.assert_clean();
        assert_eq!(rig.gpu.ledger().device_bytes, 0);
        assert_eq!(
            rig.mem_info().unwrap().0,
            rig.mem_info().unwrap().1,
            "nothing stays reserved"
        );
    });
}

#[test]
fn r34_the_freeing_stream_reuses_at_once() {
    each_schedule_with(SimConfig::new().memory_bytes(10 * MIB as u64), |rig| {
        let stream = rig.stream();
        let hold = rig.hold(stream);
        for _ in 0..10 {
            let memory = rig.mem_alloc_async(8 * MIB, stream).unwrap();
            rig.memset_async(memory, FillPattern::U8(0), 8 * MIB, stream)
                .unwrap();
            rig.mem_free_async(memory, stream).unwrap();
        }
        assert_eq!(
            rig.pool_usage().used_bytes,
            8 * MIB as u64,
            "until the free has run"
        );
        hold.release();
        rig.stream_synchronize(stream).unwrap();
        assert_eq!(rig.pool_usage().used_bytes, 0);
        rig.assert_clean();
    });
}

#[test]
fn r35_another_stream_waits_on_the_device_for_memory_or_is_refused() {
    let tight = || SimConfig::new().memory_bytes(10 * MIB as u64);
    each_schedule_with(tight(), |rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let hold = rig.hold(first);
        let memory = rig.mem_alloc_async(8 * MIB, first).unwrap();
        rig.mem_free_async(memory, first).unwrap();
        let reused = rig.mem_alloc_async(8 * MIB, second).unwrap();
        rig.memset_async(reused, FillPattern::U8(0), 4, second)
            .unwrap();
        assert!(rig.pending(second), "the driver inserted a wait");
        hold.release();
        rig.stream_synchronize(second).unwrap();
        rig.assert_clean();
    });
    each_schedule_with(tight().rules(Rules::strict()), |rig| {
        let (first, second) = (rig.stream(), rig.stream());
        rig.keep_pool_bytes(u64::MAX);
        let memory = rig.mem_alloc_async(8 * MIB, first).unwrap();
        rig.mem_free_async(memory, first).unwrap();
        assert_code(
            rig.mem_alloc_async(8 * MIB, second),
            ResultCode::OUT_OF_MEMORY,
        );
        rig.stream_synchronize(first).unwrap();
        rig.mem_alloc_async(8 * MIB, second).unwrap();
        rig.assert_clean();
    });
}

#[test]
fn r36_the_pool_gives_back_at_a_synchronisation_and_when_trimmed() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let cycle = || {
            let memory = rig.mem_alloc_async(8 * MIB, stream).unwrap();
            rig.mem_free_async(memory, stream).unwrap();
            rig.stream_synchronize(stream).unwrap();
            rig.pool_usage().reserved_bytes
        };
        assert_eq!(cycle(), 0, "the threshold is 0 by default");
        rig.keep_pool_bytes(4 * MIB as u64);
        assert_eq!(cycle(), 4 * MIB as u64);
        rig.keep_pool_bytes(u64::MAX);
        assert_eq!(cycle(), 8 * MIB as u64);
        let memory = rig.mem_alloc_async(8 * MIB, stream).unwrap();
        rig.mem_free_async(memory, stream).unwrap();
        rig.trim(0);
        assert_eq!(
            rig.pool_usage().reserved_bytes,
            8 * MIB as u64,
            "a free not yet observed"
        );
        rig.stream_synchronize(stream).unwrap();
        rig.trim(MIB);
        assert_eq!(rig.pool_usage().reserved_bytes, MIB as u64);
        assert_eq!(rig.pool_usage().used_peak_bytes, 8 * MIB as u64);
        rig.assert_clean();
    });
}

#[test]
fn the_budget_is_kept_to_the_byte() {
    each_schedule_with(SimConfig::new().memory_bytes(4096), |rig| {
        let stream = rig.stream();
        let first = rig.mem_alloc(2048).unwrap();
        let second = rig.mem_alloc_async(2048, stream).unwrap();
        let refused = rig.mem_alloc(1).unwrap_err();
        assert_eq!(refused.code(), ResultCode::OUT_OF_MEMORY);
        assert!(
            refused.detail().unwrap().contains("0 of 4096 free"),
            "{refused}"
        );
        assert_code(rig.mem_alloc_async(1, stream), ResultCode::OUT_OF_MEMORY);
        rig.mem_free(first).unwrap();
        rig.mem_alloc(2048).unwrap();
        rig.mem_free_async(second, stream).unwrap();
        rig.stream_synchronize(stream).unwrap();
        rig.mem_alloc(2048).unwrap();
        rig.assert_clean();
    });
}

#[test]
fn more_than_the_host_has_is_out_of_memory_too() {
    let rig = Rig::new(SimConfig::new().memory_bytes(u64::MAX));
    assert_code(
        rig.mem_alloc(isize::MAX as usize - 8192),
        ResultCode::OUT_OF_MEMORY,
    );
    assert_code(
        rig.host_alloc(isize::MAX as usize - 8192),
        ResultCode::OUT_OF_MEMORY,
    );
    assert_eq!(rig.gpu.ledger().device_bytes, 0);
}

#[test]
fn fresh_memory_is_poisoned_and_large_memory_costs_nothing_until_touched() {
    let rig = Rig::new(SimConfig::new().poison_max_bytes(MIB));
    let stream = rig.stream();
    let small = rig.mem_alloc_async(10, stream).unwrap();
    let [a, b, c, d] = POISON;
    assert_eq!(rig.read(small, 10, stream), [a, b, c, d, a, b, c, d, a, b]);
    let pinned = rig.pinned(4);
    assert_eq!(pinned.read(), POISON);
    let large = rig.mem_alloc_async(8 << 30, stream).unwrap();
    assert_eq!(rig.read(large.offset((8 << 30) - 1), 1, stream), [0]);
}

#[test]
fn addresses_are_aligned_apart_and_never_given_twice() {
    let rig = Rig::new(SimConfig::new().schedule(Schedule::Eager));
    let stream = rig.stream();
    let mut last_end = 1 << 48;
    for bytes in [1, 511, 512, 513, 100_000] {
        for _ in 0..3 {
            let memory = rig.mem_alloc_async(bytes, stream).unwrap();
            assert_eq!(memory.as_raw() % 512, 0);
            assert!(memory.as_raw() >= last_end);
            last_end = memory.as_raw() + bytes as u64 + 1;
            rig.mem_free_async(memory, stream).unwrap();
        }
    }
}

#[test]
fn empty_allocations_are_refused() {
    let rig = Rig::new(SimConfig::new());
    let stream = rig.stream();
    assert_code(rig.mem_alloc(0), ResultCode::INVALID_VALUE);
    assert_code(rig.mem_alloc_async(0, stream), ResultCode::INVALID_VALUE);
    assert_code(rig.host_alloc(0), ResultCode::INVALID_VALUE);
    assert_code(
        rig.host_register(Host::pageable(0)),
        ResultCode::INVALID_VALUE,
    );
    assert_eq!(rig.gpu.reports().len(), 4);
}

#[test]
fn registering_twice_and_unregistering_what_is_not_are_refused() {
    let rig = Rig::new(SimConfig::new());
    let host = Host::pageable(100);
    let twice = ResultCode::HOST_MEMORY_ALREADY_REGISTERED;
    rig.host_register(host.part(0, 50)).unwrap();
    assert_code(rig.host_register(host.part(0, 50)), twice);
    assert_code(rig.host_register(host.part(10, 5)), twice);
    assert_code(rig.host_register(host.part(40, 20)), twice);
    let not = ResultCode::HOST_MEMORY_NOT_REGISTERED;
    assert_code(rig.host_unregister(host.part(10, 5)), not);
    assert_code(rig.host_unregister(rig.pinned(4)), not);
    rig.host_unregister(host.part(0, 50)).unwrap();
    assert_code(rig.host_unregister(host.part(0, 50)), not);
}

#[test]
fn freed_pinned_memory_is_known_for_a_while() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let memory = rig.mem_alloc(4).unwrap();
        let pinned = rig.pinned(4);
        rig.host_free(pinned).unwrap();
        assert_code(
            rig.upload(memory, pinned, stream),
            ResultCode::INVALID_VALUE,
        );
        rig.assert_reported(ReportKind::UseAfterFree, &["host memory", "cuMemHostAlloc"]);
        assert_code(rig.host_free(pinned), ResultCode::INVALID_VALUE);
        rig.assert_reported(ReportKind::DoubleFree, &["cuMemHostAlloc"]);
    });
}
