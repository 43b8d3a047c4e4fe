//! Rules 22 to 26: what events capture, and what waits for them hold back.

use millstream_driver::{Completion, EventKind, FillPattern, ResultCode};
use millstream_sim::{ReportKind, SimConfig};

use crate::rig::{assert_code, each_schedule, each_schedule_with};

#[test]
fn r22_a_record_captures_the_work_so_far_and_an_unrecorded_event_is_complete() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let event = rig.event();
        assert_eq!(rig.event_query(event).unwrap(), Completion::Complete);
        rig.event_synchronize(event).unwrap();
        rig.stream_wait_event(stream, event).unwrap();
        rig.stream_synchronize(stream).unwrap();
        rig.event_record(event, stream).unwrap();
        let _later = rig.hold(stream);
        rig.event_synchronize(event).unwrap();
        assert_eq!(rig.event_query(event).unwrap(), Completion::Complete);
        assert!(rig.pending(stream), "later work is not waited for");
        rig.assert_clean();
    });
}

#[test]
fn r23_a_wait_keeps_the_capture_that_it_was_issued_with() {
    each_schedule(|rig| {
        let (first, second, waiting) = (rig.stream(), rig.stream(), rig.stream());
        let event = rig.recorded(first);
        rig.stream_wait_event(waiting, event).unwrap();
        let hold = rig.hold(second);
        rig.event_record(event, second).unwrap();
        rig.stream_synchronize(waiting).unwrap();
        assert_eq!(rig.event_query(event).unwrap(), Completion::Pending);
        rig.stream_wait_event(waiting, event).unwrap();
        assert!(rig.pending(waiting));
        hold.release();
        rig.stream_synchronize(waiting).unwrap();
        rig.assert_clean();
    });
}

#[test]
fn r24_a_wait_holds_back_later_work_of_its_stream_on_the_device() {
    each_schedule(|rig| {
        let (writer, reader) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        let pinned = rig.pinned(4);
        pinned.fill(0);
        rig.memset_async(memory, FillPattern::U8(1), 4, reader)
            .unwrap();
        let before = rig.recorded(reader);
        rig.stream_wait_event(writer, before).unwrap();
        let hold = rig.hold(writer);
        rig.memset_async(memory, FillPattern::U8(2), 4, writer)
            .unwrap();
        let written = rig.recorded(writer);
        // Returns although the writer is held: the host does not wait.
        rig.stream_wait_event(reader, written).unwrap();
        rig.download(pinned, memory, reader).unwrap();
        rig.event_synchronize(before).unwrap();
        for _ in 0..20 {
            assert!(rig.pending(reader));
        }
        assert!(pinned.is(0));
        hold.release();
        rig.stream_synchronize(reader).unwrap();
        assert!(pinned.is(2));
        rig.assert_clean();
    });
}

#[test]
fn r25_a_pending_event_may_be_destroyed() {
    each_schedule(|rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let hold = rig.hold(first);
        let event = rig.recorded(first);
        rig.stream_wait_event(second, event).unwrap();
        rig.event_destroy(event).unwrap();
        assert!(rig.pending(second), "the wait stays");
        hold.release();
        rig.stream_synchronize(second).unwrap();
        rig.assert_clean();
        assert_eq!(rig.gpu.ledger().events, 0);
        assert_code(rig.event_query(event), ResultCode::INVALID_HANDLE);
        rig.assert_reported(ReportKind::DeadHandle, &["event 1"]);
    });
}

#[test]
fn r26_recording_is_within_a_context_waiting_is_not() {
    each_schedule_with(SimConfig::new().devices(2), |rig| {
        let other = rig.on_device(1);
        let (here, there) = (rig.stream(), other.stream());
        let event = rig.event();
        assert_code(other.event_record(event, there), ResultCode::INVALID_HANDLE);
        rig.assert_reported(ReportKind::WrongContext, &["rule 26"]);
        let hold = rig.hold(here);
        rig.event_record(event, here).unwrap();
        other.stream_wait_event(there, event).unwrap();
        assert!(other.pending(there));
        assert_eq!(other.event_query(event).unwrap(), Completion::Pending);
        hold.release();
        other.event_synchronize(event).unwrap();
        other.stream_synchronize(there).unwrap();
    });
}

#[test]
fn elapsed_time_needs_two_complete_timing_events() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let timing = || rig.event_create(EventKind::Timing).unwrap();
        let (start, end, ordering) = (timing(), timing(), rig.event());
        let memory = rig.mem_alloc(1 << 20).unwrap();
        assert_code(rig.event_elapsed_ms(start, end), ResultCode::INVALID_HANDLE);
        rig.event_record(start, stream).unwrap();
        rig.memset_async(memory, FillPattern::U8(0), 1 << 20, stream)
            .unwrap();
        let hold = rig.hold(stream);
        rig.event_record(end, stream).unwrap();
        assert_code(rig.event_elapsed_ms(start, end), ResultCode::NOT_READY);
        hold.release();
        rig.event_synchronize(end).unwrap();
        let elapsed_ms = rig.event_elapsed_ms(start, end).unwrap();
        assert!(elapsed_ms > 0.001, "{elapsed_ms} ms for 1 MiB");
        assert!((rig.event_elapsed_ms(end, start).unwrap() + elapsed_ms).abs() < 1e-9);
        assert_code(
            rig.event_elapsed_ms(start, ordering),
            ResultCode::INVALID_HANDLE,
        );
    });
}
