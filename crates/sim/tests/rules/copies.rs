//! Rules 1 to 15: the work that copies and fills wait for, and when they access host memory.

use crate::rules::prelude::*;

const LEGACY: StreamHandle = StreamHandle::LEGACY;
const SMALL: usize = 64 << 10;
const MIB: usize = 1 << 20;

#[test]
fn r01_a_synchronous_pageable_upload_waits_for_earlier_work() {
    each_schedule_and_reading(|sim| {
        let memory = sim.mem_alloc(SMALL + 1).unwrap();
        let host = Host::filled(SMALL + 1, 5);
        sim.assert_blocks(LEGACY, || sim.upload_now(memory, host).unwrap());
        host.fill(6);
        assert!(
            sim.read(memory, SMALL + 1, LEGACY).iter().all(|&b| b == 5),
            "staged before the return"
        );
        sim.assert_clean();
    });
}

#[test]
fn r02_a_synchronous_pinned_upload_returns_when_complete() {
    each_schedule_and_reading(|sim| {
        let memory = sim.mem_alloc(4).unwrap();
        let host = sim.pinned(4);
        host.fill(5);
        sim.assert_blocks(LEGACY, || sim.upload_now(memory, host).unwrap());
        assert!(!sim.pending(LEGACY));
        sim.assert_clean();
    });
}

#[test]
fn r03_a_synchronous_download_returns_when_complete() {
    each_schedule_and_reading(|sim| {
        let memory = sim.mem_alloc(4).unwrap();
        for host in [Host::pageable(4), sim.pinned(4)] {
            sim.fill(memory, 9, 4, LEGACY);
            sim.assert_blocks(LEGACY, || sim.download_now(host, memory).unwrap());
            assert!(host.is(9));
        }
        sim.assert_clean();
    });
}

#[test]
fn r04_a_synchronous_copy_within_the_device_returns_at_once() {
    each_schedule(|sim| {
        let (from, to) = (sim.mem_alloc(4).unwrap(), sim.mem_alloc(4).unwrap());
        sim.fill(from, 3, 4, LEGACY);
        let hold = sim.assert_returns(LEGACY, || sim.copy_device_to_device(to, from, 4).unwrap());
        assert!(sim.pending(LEGACY));
        hold.release();
        assert_eq!(sim.read(to, 4, LEGACY), [3; 4]);
        sim.assert_clean();
    });
}

#[test]
fn r06_a_small_synchronous_upload_has_read_its_source() {
    each_schedule(|sim| {
        let memory = sim.mem_alloc(SMALL).unwrap();
        let host = Host::filled(SMALL, 1);
        sim.assert_blocks(LEGACY, || sim.upload_now(memory, host).unwrap());
    });
    let strict = Rules {
        small_upload: Reading::Strict,
        ..Rules::observed()
    };
    each_schedule_with(SimConfig::new().rules(strict), |sim| {
        let memory = sim.mem_alloc(SMALL).unwrap();
        let host = Host::filled(SMALL, 1);
        let hold = sim.assert_returns(LEGACY, || sim.upload_now(memory, host).unwrap());
        host.fill(2);
        assert!(sim.pending(LEGACY));
        hold.release();
        assert!(sim.read(memory, SMALL, LEGACY).iter().all(|&b| b == 1));
        sim.assert_clean();
    });
}

#[test]
fn r05_a_synchronous_copy_from_host_to_host_waits_for_earlier_work_and_is_complete() {
    each_schedule_and_reading(|sim| {
        for (from, to) in [
            (Host::filled(8, 4), Host::pageable(8)),
            (Host::filled(8, 5), sim.pinned(8)),
        ] {
            sim.assert_blocks(LEGACY, || {
                sim.copy_unified(to.address(), from.address(), 8).unwrap();
            });
            assert_eq!(to.read(), from.read(), "complete on return");
        }
        sim.assert_clean();
    });
}

#[test]
fn r07_pinned_copies_touch_the_host_when_they_run() {
    each_schedule_and_reading(|sim| {
        let stream = sim.stream();
        let memory = sim.mem_alloc_async(4, stream).unwrap();
        let (source, target) = (sim.pinned(4), sim.pinned(4));
        source.fill(1);
        target.fill(0);
        let hold = sim.assert_returns(stream, || {
            sim.upload(memory, source, stream).unwrap();
            sim.download(target, memory, stream).unwrap();
        });
        source.fill(2);
        assert!(target.is(0), "still stale");
        hold.release();
        sim.stream_synchronize(stream).unwrap();
        assert!(
            target.is(2),
            "the copy read the bytes written after the call"
        );
        sim.assert_clean();
    });
}

#[test]
fn r08_an_async_pageable_upload_is_staged_and_a_large_one_blocks() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(MIB + 1).unwrap();
        let host = Host::filled(MIB, 1);
        let hold = sim.assert_returns(stream, || sim.upload(memory, host, stream).unwrap());
        host.fill(2);
        hold.release();
        assert!(sim.read(memory, MIB, stream).iter().all(|&b| b == 1));
        let large = Host::filled(MIB + 1, 3);
        sim.assert_blocks(stream, || sim.upload(memory, large, stream).unwrap());
        sim.assert_clean();
    });
    each_schedule_with(SimConfig::new().rules(Rules::strict()), |sim| {
        let stream = sim.stream();
        let memory = sim.mem_alloc(4).unwrap();
        let host = Host::filled(4, 1);
        sim.assert_blocks(stream, || sim.upload(memory, host, stream).unwrap());
        host.fill(2);
        assert_eq!(sim.read(memory, 4, stream), [1; 4]);
    });
}

#[test]
fn r09_an_async_pageable_download_may_or_may_not_block() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(4).unwrap();
        sim.fill(memory, 7, 4, stream);
        let host = Host::pageable(4);
        sim.assert_blocks(stream, || sim.download(host, memory, stream).unwrap());
        assert!(host.is(7));
    });
    each_schedule_with(SimConfig::new().rules(Rules::strict()), |sim| {
        let stream = sim.stream();
        let memory = sim.mem_alloc(4).unwrap();
        sim.fill(memory, 7, 4, stream);
        let host = Host::pageable(4);
        let hold = sim.assert_returns(stream, || sim.download(host, memory, stream).unwrap());
        assert!(host.is(0), "nothing has arrived");
        hold.release();
        sim.stream_synchronize(stream).unwrap();
        assert!(host.is(7));
    });
}

#[test]
fn r10_a_pageable_source_is_read_before_an_earlier_host_function_runs() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(4).unwrap();
        let host = Host::filled(4, 1);
        let hold = sim.hold(stream);
        sim.host_function(stream, move || host.fill(2));
        sim.upload(memory, host, stream).unwrap();
        hold.release();
        assert_eq!(sim.read(memory, 4, stream), [1; 4]);
        assert!(host.is(2));
        sim.assert_clean();
    });
}

#[test]
fn r11_a_copy_from_host_to_host_is_synchronous() {
    each_schedule_and_reading(|sim| {
        let stream = sim.stream();
        for (from, to) in [
            (Host::filled(8, 4), Host::pageable(8)),
            (Host::filled(8, 4), sim.pinned(8)),
        ] {
            sim.assert_blocks(stream, || {
                sim.copy_unified_async(to.address(), from.address(), 8, stream)
                    .unwrap();
            });
            assert!(to.is(4));
        }
        sim.assert_clean();
    });
}

#[test]
fn r14_a_captured_copy_has_read_its_source_when_the_call_returns() {
    each_schedule_and_reading(|sim| {
        let stream = sim.stream();
        let memory = sim.mem_alloc(4).unwrap();
        for source in [sim.pinned(4), Host::pageable(4)] {
            source.fill(1);
            let hold = sim.assert_returns(stream, || {
                sim.upload_captured(memory, source, stream).unwrap()
            });
            source.fill(2);
            hold.release();
            assert_eq!(sim.read(memory, 4, stream), [1; 4]);
        }
        sim.assert_clean();
    });
}

#[test]
fn r12_a_fill_blocks_only_if_its_target_is_pinned() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(8).unwrap();
        let fill = FillPattern::U16(0x0102);
        let hold = sim.assert_returns(stream, || {
            sim.memset_async(memory, fill, 4, stream).unwrap()
        });
        hold.release();
        assert_eq!(sim.read(memory, 8, stream), [2, 1, 2, 1, 2, 1, 2, 1]);
        let pinned = sim.pinned(8);
        sim.assert_blocks(stream, || {
            sim.fill_words(pinned.address(), 0x0403_0201, 2, stream);
        });
        assert_eq!(pinned.read(), [1, 2, 3, 4, 1, 2, 3, 4]);
        sim.assert_clean();
    });
}

#[test]
fn r15_a_partly_registered_range_is_an_invalid_value() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc(100).unwrap();
        let host = Host::filled(100, 1);
        sim.host_register(host.part(20, 40)).unwrap();
        for (at, bytes) in [(0, 21), (0, 100), (30, 31), (59, 2)] {
            sim.upload(memory, host.part(at, bytes), stream)
                .fails(ResultCode::INVALID_VALUE);
            sim.assert_reported(
                ReportKind::PartlyRegistered,
                &["only partly page-locked", "cuMemHostRegister"],
            );
        }
        sim.assert_nothing_enqueued();
        for (at, bytes) in [(0, 20), (20, 40), (25, 1), (60, 40)] {
            sim.upload(memory, host.part(at, bytes), stream).unwrap();
        }
        sim.stream_synchronize(stream).unwrap();
        sim.host_unregister(host.part(20, 40)).unwrap();
        sim.upload(memory, host, stream).unwrap();
    });
}

#[test]
fn unified_copies_find_out_which_side_is_which() {
    each_schedule_and_stream(|sim, stream| {
        let (a, b) = (sim.mem_alloc(4).unwrap(), sim.mem_alloc(4).unwrap());
        let (pageable, pinned) = (Host::filled(4, 8), sim.pinned(4));
        sim.copy_unified_async(a, pageable.address(), 4, stream)
            .unwrap();
        sim.copy_unified_async(b, a, 4, stream).unwrap();
        sim.copy_unified_async(pinned.address(), b, 4, stream)
            .unwrap();
        sim.stream_synchronize(stream).unwrap();
        assert!(pinned.is(8));
        sim.assert_clean();
    });
}

#[test]
fn copies_between_devices_arrive() {
    each_schedule_with(SimConfig::new().devices(2), |sim| {
        let other = sim.on_device(1);
        let stream = sim.stream();
        let (here, there) = (sim.mem_alloc(4).unwrap(), other.mem_alloc(4).unwrap());
        sim.fill(here, 6, 4, stream);
        sim.copy_unified_async(there, here, 4, stream).unwrap();
        assert_eq!(sim.read(there, 4, stream), [6; 4]);
        sim.assert_clean();
    });
}

#[test]
fn odd_offsets_and_lengths_copy_exactly_what_they_say() {
    let (sim, stream) = SimHarness::with_stream();
    let memory = sim.mem_alloc(64).unwrap();
    sim.fill(memory, 0, 64, stream);
    let host = Host::of(&[1, 2, 3, 4, 5]);
    sim.upload(memory.offset(7), host, stream).unwrap();
    sim.copy_device_to_device_async(memory.offset(21), memory.offset(8), 3, stream)
        .unwrap();
    sim.upload(memory, host.part(0, 0), stream).unwrap();
    let mut expected = [0; 64];
    expected[7..12].copy_from_slice(&[1, 2, 3, 4, 5]);
    expected[21..24].copy_from_slice(&[2, 3, 4]);
    assert_eq!(sim.read(memory, 64, stream), expected);
    sim.assert_clean();
}
