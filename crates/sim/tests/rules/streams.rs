//! Rules 16 to 21: operations are ordered within a stream and unordered across streams, except for
//! the barriers of the default streams.

use crate::rules::prelude::*;

#[test]
fn r16_a_stream_is_first_in_first_out() {
    each_schedule_and_stream(|sim, stream| {
        let memory = sim.mem_alloc_async(64, stream).unwrap();
        for value in 0..20 {
            sim.fill(memory, value, 64 - usize::from(value), stream);
        }
        let bytes = sim.read(memory, 64, stream);
        let expected: Vec<u8> = (0..64)
            .map(|at: u8| if at < 45 { 19 } else { 63 - at })
            .collect();
        assert_eq!(bytes, expected);
        sim.assert_clean();
    });
}

#[test]
fn r16_streams_do_not_wait_for_each_other() {
    each_schedule(|sim| {
        let (held, free) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc(4).unwrap();
        let _hold = sim.hold(held);
        sim.fill(memory, 1, 4, free);
        sim.stream_synchronize(free).unwrap();
        assert!(sim.pending(held));
    });
}

#[test]
fn r17_the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    each_schedule(|sim| {
        let (first, second) = (sim.blocking_stream(), sim.blocking_stream());
        let memory = sim.mem_alloc(4).unwrap();
        let hold = sim.hold(first);
        sim.fill(memory, 1, 4, StreamHandle::LEGACY);
        sim.fill(memory, 2, 4, second);
        for _ in 0..20 {
            assert!(
                sim.pending(StreamHandle::LEGACY),
                "waits for the first stream"
            );
            assert!(
                sim.pending(second),
                "the second stream waits for the legacy stream"
            );
        }
        hold.release();
        assert_eq!(sim.read(memory, 4, second), [2; 4]);
        sim.assert_clean();
    });
}

#[test]
fn r18_a_non_blocking_stream_is_exempt() {
    each_schedule(|sim| {
        let (held, free) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc(4).unwrap();
        let _hold = sim.hold(held);
        sim.fill(memory, 1, 4, StreamHandle::LEGACY);
        sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
        let _legacy_hold = sim.hold(StreamHandle::LEGACY);
        sim.fill(memory, 2, 4, free);
        sim.stream_synchronize(free).unwrap();
        assert!(sim.pending(StreamHandle::LEGACY));
    });
}

#[test]
fn r19_each_thread_has_a_default_stream_which_the_legacy_one_waits_for() {
    each_schedule(|sim| {
        let mine = StreamHandle::PER_THREAD;
        let memory = sim.mem_alloc(4).unwrap();
        let hold = sim.hold(mine);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                sim.fill(memory, 1, 4, mine);
                sim.stream_synchronize(mine).unwrap();
            });
            other
                .join()
                .expect("another thread's stream is another stream");
        });
        assert!(sim.pending(mine));
        sim.fill(memory, 2, 4, StreamHandle::LEGACY);
        assert!(sim.pending(StreamHandle::LEGACY));
        hold.release();
        assert_eq!(sim.read(memory, 4, StreamHandle::LEGACY), [2; 4]);
    });
}

#[test]
fn r20_a_stream_belongs_to_its_context() {
    each_schedule_with(SimConfig::new().devices(2), |sim| {
        let other = sim.on_device(1);
        let foreign = other.stream();
        let memory = sim.mem_alloc(4).unwrap();
        let fill = sim.memset_async(memory, FillPattern::U8(1), 4, foreign);
        fill.fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(
            ReportKind::WrongContext,
            &[
                "stream 1 of device 1",
                "the context of device 1",
                "the context of device 0",
                "rule 20",
            ],
        );
        sim.stream_synchronize(foreign)
            .fails(ResultCode::INVALID_HANDLE);
    });
}

#[test]
fn r21_destroying_a_stream_returns_at_once_and_its_work_completes() {
    each_schedule(|sim| {
        let (dying, other) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc(4).unwrap();
        let hold = sim.assert_returns(dying, || {
            sim.fill(memory, 5, 4, dying);
        });
        let event = sim.recorded(dying);
        sim.stream_destroy(dying).unwrap();
        assert_eq!(sim.gpu.live_object_counts().streams, 1);
        sim.stream_query(dying).fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(
            ReportKind::DeadHandle,
            &["stream 1 (0x20000000001)", "after it was destroyed"],
        );
        sim.stream_wait_event(other, event).unwrap();
        assert!(sim.pending(other));
        hold.release();
        assert_eq!(sim.read(memory, 4, other), [5; 4]);
    });
}

#[test]
fn r54_a_full_queue_blocks_until_its_oldest_has_run() {
    each_schedule_with(SimConfig::new().queue_operations_max(3), |sim| {
        let (stream, memory) = (sim.stream(), sim.mem_alloc(4).unwrap());
        let fill = |value| {
            sim.fill(memory, value, 4, stream);
        };
        (0..20).for_each(fill);
        sim.stream_synchronize(stream).unwrap();
        // Only the fills count towards the limit of the queue.
        let hold = sim.assert_returns(stream, || {
            (0..3).for_each(fill);
            for _ in 0..20 {
                sim.recorded(stream);
            }
        });
        hold.release();
        sim.stream_synchronize(stream).unwrap();
        sim.assert_blocks(stream, || (0..4).for_each(fill));
        assert_eq!(sim.read(memory, 4, stream), [3; 4]);
        sim.assert_clean();
    });
}

#[test]
fn r54_a_queue_that_only_its_own_thread_could_empty_is_reported() {
    let sim = SimHarness::new(SimConfig::new().queue_operations_max(2));
    let (stream, memory) = (sim.stream(), sim.mem_alloc(4).unwrap());
    let hold = sim.hold(stream);
    for value in 0..5 {
        sim.fill(memory, value, 4, stream);
    }
    sim.assert_reported(
        ReportKind::QueueFull,
        &["stream", "2 kernels, copies and fills", "rule 54"],
    );
    assert_eq!(
        sim.gpu.reports().len(),
        1,
        "queues have no bound from then on"
    );
    hold.release();
    assert_eq!(sim.read(memory, 4, stream), [4; 4]);
}

#[test]
fn r55_synchronising_the_legacy_stream_waits_for_blocking_streams() {
    each_schedule(|sim| {
        let (busy, free) = (sim.blocking_stream(), sim.stream());
        let memory = sim.mem_alloc(4).unwrap();
        for (handle, stream) in [
            (StreamHandle::LEGACY, busy),
            (StreamHandle::from_raw(0), busy),
            (StreamHandle::LEGACY, StreamHandle::PER_THREAD),
        ] {
            let hold = sim.hold(stream);
            sim.fill(memory, 1, 4, stream);
            for _ in 0..20 {
                assert!(
                    sim.pending(handle),
                    "its query includes the blocking stream"
                );
            }
            hold.release();
            while sim.pending(handle) {}
            assert!(
                !sim.pending(stream),
                "the blocking stream is complete when the query is"
            );
            sim.assert_blocks(stream, || sim.stream_synchronize(handle).unwrap());
        }
        let _hold = sim.hold(free);
        sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
        assert!(!sim.pending(StreamHandle::LEGACY));
        sim.assert_clean();
    });
}

#[test]
fn r55_a_blocking_stream_answers_for_itself_alone() {
    each_schedule(|sim| {
        let (busy, idle) = (sim.blocking_stream(), sim.blocking_stream());
        let _hold = sim.hold(busy);
        sim.stream_synchronize(idle).unwrap();
        assert!(!sim.pending(idle) && sim.pending(busy));
    });
}

#[test]
fn r55_a_destroyed_blocking_stream_is_waited_for() {
    each_schedule(|sim| {
        let (dying, memory) = (sim.blocking_stream(), sim.mem_alloc(1 << 20).unwrap());
        let hold = sim.hold(dying);
        sim.fill(memory, 1, 1 << 20, dying);
        sim.stream_destroy(dying).unwrap();
        assert!(sim.pending(StreamHandle::LEGACY));
        hold.release();
        sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
        assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    });
}

/// The virtual time of a destroyed stream's work may be ahead of the clock after the stream is
/// gone.
#[test]
fn r55_the_legacy_stream_is_complete_when_a_destroyed_stream_s_work_is() {
    let sim = SimHarness::new(SimConfig::new().timeline(true));
    let (dying, memory) = (sim.blocking_stream(), sim.mem_alloc(64 << 20).unwrap());
    sim.fill(memory, 1, 64 << 20, dying);
    sim.stream_destroy(dying).unwrap();
    let event = sim.recorded(StreamHandle::LEGACY);
    assert!(sim.pending(StreamHandle::LEGACY));
    assert!(!sim.event_query(event).unwrap().is_complete());
    sim.stream_synchronize(StreamHandle::LEGACY).unwrap();
    let fill = &sim.gpu.timeline()[0];
    assert!(sim.gpu.virtual_time_ns() >= fill.finish_ns);
}

#[test]
fn a_context_synchronisation_waits_for_every_stream() {
    each_schedule(|sim| {
        let (first, second) = (sim.stream(), sim.stream());
        let (a, b) = (sim.mem_alloc(4).unwrap(), sim.mem_alloc(4).unwrap());
        sim.fill(a, 1, 4, first);
        sim.fill(b, 1, 4, second);
        sim.stream_destroy(second).unwrap();
        sim.assert_blocks(first, || sim.context_synchronize().unwrap());
        assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    });
}
