//! Rules 16 to 21: order within a stream, none across, and the default streams' barriers.

use std::thread;

use millstream_driver::{FillPattern, ResultCode, StreamHandle};
use millstream_sim::{ReportKind, SimConfig};

use crate::rig::{Rig, assert_code, each_schedule, each_schedule_with};

#[test]
fn r16_a_stream_is_first_in_first_out() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let memory = rig.mem_alloc_async(64, stream).unwrap();
        for value in 0..20 {
            rig.memset_async(
                memory,
                FillPattern::U8(value),
                64 - usize::from(value),
                stream,
            )
            .unwrap();
        }
        let bytes = rig.read(memory, 64, stream);
        let expected: Vec<u8> = (0..64)
            .map(|at: u8| if at < 45 { 19 } else { 63 - at })
            .collect();
        assert_eq!(bytes, expected);
        rig.assert_clean();
    });
}

#[test]
fn r16_streams_do_not_wait_for_each_other() {
    each_schedule(|rig| {
        let (held, free) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        let _hold = rig.hold(held);
        rig.memset_async(memory, FillPattern::U8(1), 4, free)
            .unwrap();
        rig.stream_synchronize(free).unwrap();
        assert!(rig.pending(held));
    });
}

#[test]
fn r17_the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    each_schedule(|rig| {
        let (first, second) = (rig.blocking_stream(), rig.blocking_stream());
        let memory = rig.mem_alloc(4).unwrap();
        let hold = rig.hold(first);
        rig.memset_async(memory, FillPattern::U8(1), 4, StreamHandle::LEGACY)
            .unwrap();
        rig.memset_async(memory, FillPattern::U8(2), 4, second)
            .unwrap();
        for _ in 0..20 {
            assert!(
                rig.pending(StreamHandle::LEGACY),
                "waits for the first stream"
            );
            assert!(rig.pending(second), "waits for the legacy stream");
        }
        hold.release();
        assert_eq!(rig.read(memory, 4, second), [2; 4]);
        rig.assert_clean();
    });
}

#[test]
fn r18_a_non_blocking_stream_is_exempt() {
    each_schedule(|rig| {
        let (held, free) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        let _hold = rig.hold(held);
        rig.memset_async(memory, FillPattern::U8(1), 4, StreamHandle::LEGACY)
            .unwrap();
        rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
        let _legacy_hold = rig.hold(StreamHandle::LEGACY);
        rig.memset_async(memory, FillPattern::U8(2), 4, free)
            .unwrap();
        rig.stream_synchronize(free).unwrap();
        assert!(rig.pending(StreamHandle::LEGACY));
    });
}

#[test]
fn r19_each_thread_has_a_default_stream_which_the_legacy_one_waits_for() {
    each_schedule(|rig| {
        let mine = StreamHandle::PER_THREAD;
        let memory = rig.mem_alloc(4).unwrap();
        let hold = rig.hold(mine);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                rig.memset_async(memory, FillPattern::U8(1), 4, mine)
                    .unwrap();
                rig.stream_synchronize(mine).unwrap();
            });
            other
                .join()
                .expect("another thread's stream is another stream");
        });
        assert!(rig.pending(mine));
        rig.memset_async(memory, FillPattern::U8(2), 4, StreamHandle::LEGACY)
            .unwrap();
        assert!(rig.pending(StreamHandle::LEGACY));
        hold.release();
        assert_eq!(rig.read(memory, 4, StreamHandle::LEGACY), [2; 4]);
    });
}

#[test]
fn r20_a_stream_belongs_to_its_context() {
    each_schedule_with(SimConfig::new().devices(2), |rig| {
        let other = rig.on_device(1);
        let foreign = other.stream();
        let memory = rig.mem_alloc(4).unwrap();
        let fill = rig.memset_async(memory, FillPattern::U8(1), 4, foreign);
        assert_code(fill, ResultCode::INVALID_HANDLE);
        rig.assert_reported(
            ReportKind::WrongContext,
            &[
                "stream 1 of device 1",
                "the context of device 1",
                "the context of device 0",
                "rule 20",
            ],
        );
        assert_code(rig.stream_synchronize(foreign), ResultCode::INVALID_HANDLE);
    });
}

#[test]
fn r21_destroying_a_stream_returns_at_once_and_its_work_completes() {
    each_schedule(|rig| {
        let (dying, other) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        let hold = rig.assert_returns(dying, || {
            rig.memset_async(memory, FillPattern::U8(5), 4, dying)
                .unwrap();
        });
        let event = rig.recorded(dying);
        rig.stream_destroy(dying).unwrap();
        assert_eq!(rig.gpu.ledger().streams, 1);
        assert_code(rig.stream_query(dying), ResultCode::INVALID_HANDLE);
        rig.assert_reported(
            ReportKind::DeadHandle,
            &["stream 1 (0x20000000001)", "after it was given up"],
        );
        rig.stream_wait_event(other, event).unwrap();
        assert!(rig.pending(other));
        hold.release();
        assert_eq!(rig.read(memory, 4, other), [5; 4]);
    });
}

#[test]
fn r54_a_full_queue_blocks_until_its_oldest_has_run() {
    each_schedule_with(SimConfig::new().queue_operations_max(3), |rig| {
        let (stream, memory) = (rig.stream(), rig.mem_alloc(4).unwrap());
        let fill = |value| {
            rig.memset_async(memory, FillPattern::U8(value), 4, stream)
                .unwrap();
        };
        (0..20).for_each(fill);
        rig.stream_synchronize(stream).unwrap();
        // Of these only the fills count.
        let hold = rig.assert_returns(stream, || {
            (0..3).for_each(fill);
            for _ in 0..20 {
                rig.recorded(stream);
            }
        });
        hold.release();
        rig.stream_synchronize(stream).unwrap();
        rig.assert_blocks(stream, || (0..4).for_each(fill));
        assert_eq!(rig.read(memory, 4, stream), [3; 4]);
        rig.assert_clean();
    });
}

#[test]
fn r54_a_queue_that_only_its_own_thread_could_empty_is_reported() {
    let rig = Rig::new(SimConfig::new().queue_operations_max(2));
    let (stream, memory) = (rig.stream(), rig.mem_alloc(4).unwrap());
    let hold = rig.hold(stream);
    for value in 0..5 {
        rig.memset_async(memory, FillPattern::U8(value), 4, stream)
            .unwrap();
    }
    rig.assert_reported(
        ReportKind::QueueFull,
        &["stream", "2 kernels, copies and fills", "rule 54"],
    );
    assert_eq!(
        rig.gpu.reports().len(),
        1,
        "queues have no bound from then on"
    );
    hold.release();
    assert_eq!(rig.read(memory, 4, stream), [4; 4]);
}

#[test]
fn r55_synchronising_the_legacy_stream_waits_for_blocking_streams() {
    each_schedule(|rig| {
        let (busy, free) = (rig.blocking_stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        for (handle, stream) in [
            (StreamHandle::LEGACY, busy),
            (StreamHandle::from_raw(0), busy),
            (StreamHandle::LEGACY, StreamHandle::PER_THREAD),
        ] {
            let hold = rig.hold(stream);
            rig.memset_async(memory, FillPattern::U8(1), 4, stream)
                .unwrap();
            for _ in 0..20 {
                assert!(rig.pending(handle), "it answers for the blocking stream");
            }
            hold.release();
            while rig.pending(handle) {}
            assert!(!rig.pending(stream), "and is done with it");
            rig.assert_blocks(stream, || rig.stream_synchronize(handle).unwrap());
        }
        let _hold = rig.hold(free);
        rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
        assert!(!rig.pending(StreamHandle::LEGACY));
        rig.assert_clean();
    });
}

#[test]
fn r55_a_blocking_stream_answers_for_itself_alone() {
    each_schedule(|rig| {
        let (busy, idle) = (rig.blocking_stream(), rig.blocking_stream());
        let _hold = rig.hold(busy);
        rig.stream_synchronize(idle).unwrap();
        assert!(!rig.pending(idle) && rig.pending(busy));
    });
}

#[test]
fn r55_a_destroyed_blocking_stream_is_waited_for() {
    each_schedule(|rig| {
        let (dying, memory) = (rig.blocking_stream(), rig.mem_alloc(1 << 20).unwrap());
        let hold = rig.hold(dying);
        rig.memset_async(memory, FillPattern::U8(1), 1 << 20, dying)
            .unwrap();
        rig.stream_destroy(dying).unwrap();
        assert!(rig.pending(StreamHandle::LEGACY));
        hold.release();
        rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
        assert_eq!(rig.gpu.ledger().pending_operations, 0);
    });
}

/// The work of a destroyed stream may have run ahead of the clock, and the stream be gone.
#[test]
fn r55_the_legacy_stream_is_complete_when_a_destroyed_stream_s_work_is() {
    let rig = Rig::new(SimConfig::new().timeline(true));
    let (dying, memory) = (rig.blocking_stream(), rig.mem_alloc(64 << 20).unwrap());
    rig.memset_async(memory, FillPattern::U8(1), 64 << 20, dying)
        .unwrap();
    rig.stream_destroy(dying).unwrap();
    let event = rig.recorded(StreamHandle::LEGACY);
    assert!(rig.pending(StreamHandle::LEGACY));
    assert!(!rig.event_query(event).unwrap().is_complete());
    rig.stream_synchronize(StreamHandle::LEGACY).unwrap();
    let fill = &rig.gpu.timeline()[0];
    assert!(rig.gpu.virtual_time_ns() >= fill.finish_ns);
}

#[test]
fn a_context_synchronisation_waits_for_every_stream() {
    each_schedule(|rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let (a, b) = (rig.mem_alloc(4).unwrap(), rig.mem_alloc(4).unwrap());
        rig.memset_async(a, FillPattern::U8(1), 4, first).unwrap();
        rig.memset_async(b, FillPattern::U8(1), 4, second).unwrap();
        rig.stream_destroy(second).unwrap();
        rig.assert_blocks(first, || rig.context_synchronize().unwrap());
        assert_eq!(rig.gpu.ledger().pending_operations, 0);
    });
}
