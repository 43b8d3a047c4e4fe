//! Rules 22 to 26: the work that an event captures, and the work that a wait for it delays.

use millstream_driver::{Completion, EventKind};

use crate::rules::prelude::*;

#[test]
fn r22_a_record_captures_the_work_so_far_and_an_unrecorded_event_is_complete() {
    each_schedule_and_stream(|sim, stream| {
        let event = sim.event();
        assert_eq!(sim.event_query(event).unwrap(), Completion::Complete);
        sim.event_synchronize(event).unwrap();
        sim.stream_wait_event(stream, event).unwrap();
        sim.stream_synchronize(stream).unwrap();
        sim.event_record(event, stream).unwrap();
        let _later = sim.hold(stream);
        sim.event_synchronize(event).unwrap();
        assert_eq!(sim.event_query(event).unwrap(), Completion::Complete);
        assert!(
            sim.pending(stream),
            "the event does not wait for later work"
        );
        sim.assert_clean();
    });
}

#[test]
fn r23_a_wait_keeps_the_capture_that_it_was_issued_with() {
    each_schedule(|sim| {
        let (first, second, waiting) = (sim.stream(), sim.stream(), sim.stream());
        let event = sim.recorded(first);
        sim.stream_wait_event(waiting, event).unwrap();
        let hold = sim.hold(second);
        sim.event_record(event, second).unwrap();
        sim.stream_synchronize(waiting).unwrap();
        assert_eq!(sim.event_query(event).unwrap(), Completion::Pending);
        sim.stream_wait_event(waiting, event).unwrap();
        assert!(sim.pending(waiting));
        hold.release();
        sim.stream_synchronize(waiting).unwrap();
        sim.assert_clean();
    });
}

#[test]
fn r23_a_record_of_an_interprocess_event_waits_for_its_earlier_record() {
    each_schedule(|sim| {
        let (first, second) = (sim.stream(), sim.stream());
        let event = sim.event_create(EventKind::Interprocess).unwrap();
        let hold = sim.hold(first);
        sim.event_record(event, first).unwrap();
        sim.event_record(event, second).unwrap();
        assert_eq!(sim.event_query(event).unwrap(), Completion::Pending);
        assert!(sim.pending(second), "the later record waits");
        hold.release();
        sim.event_synchronize(event).unwrap();
        sim.stream_synchronize(second).unwrap();
        sim.assert_clean();
    });
}

#[test]
fn r24_a_wait_holds_back_later_work_of_its_stream_on_the_device() {
    each_schedule(|sim| {
        let (writer, reader) = (sim.stream(), sim.stream());
        let memory = sim.mem_alloc(4).unwrap();
        let pinned = sim.pinned(4);
        pinned.fill(0);
        sim.fill(memory, 1, 4, reader);
        let before = sim.recorded(reader);
        sim.stream_wait_event(writer, before).unwrap();
        let hold = sim.hold(writer);
        sim.fill(memory, 2, 4, writer);
        let written = sim.recorded(writer);
        // Returns although the writer is held, because the host does not wait.
        sim.stream_wait_event(reader, written).unwrap();
        sim.download(pinned, memory, reader).unwrap();
        sim.event_synchronize(before).unwrap();
        for _ in 0..20 {
            assert!(sim.pending(reader));
        }
        assert!(pinned.is(0));
        hold.release();
        sim.stream_synchronize(reader).unwrap();
        assert!(pinned.is(2));
        sim.assert_clean();
    });
}

#[test]
fn r25_a_pending_event_may_be_destroyed() {
    each_schedule(|sim| {
        let (first, second) = (sim.stream(), sim.stream());
        let hold = sim.hold(first);
        let event = sim.recorded(first);
        sim.stream_wait_event(second, event).unwrap();
        sim.event_destroy(event).unwrap();
        assert!(sim.pending(second), "destroying the event cancels no wait");
        hold.release();
        sim.stream_synchronize(second).unwrap();
        sim.assert_clean();
        assert_eq!(sim.gpu.live_object_counts().events, 0);
        sim.event_query(event).fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(ReportKind::DeadHandle, &["event 1"]);
    });
}

#[test]
fn r26_recording_is_within_a_context_waiting_is_not() {
    each_schedule_with(SimConfig::new().devices(2), |sim| {
        let other = sim.on_device(1);
        let (here, there) = (sim.stream(), other.stream());
        let event = sim.event();
        other
            .event_record(event, there)
            .fails(ResultCode::INVALID_HANDLE);
        sim.assert_reported(ReportKind::WrongContext, &["rule 26"]);
        let hold = sim.hold(here);
        sim.event_record(event, here).unwrap();
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
    each_schedule_and_stream(|sim, stream| {
        let timing = || sim.event_create(EventKind::Timing).unwrap();
        let (start, end, ordering) = (timing(), timing(), sim.event());
        let memory = sim.mem_alloc(1 << 20).unwrap();
        sim.event_elapsed_ms(start, end)
            .fails(ResultCode::INVALID_HANDLE);
        sim.event_record(start, stream).unwrap();
        sim.fill(memory, 0, 1 << 20, stream);
        let hold = sim.hold(stream);
        sim.event_record(end, stream).unwrap();
        sim.event_elapsed_ms(start, end)
            .fails(ResultCode::NOT_READY);
        hold.release();
        sim.event_synchronize(end).unwrap();
        let elapsed_ms = sim.event_elapsed_ms(start, end).unwrap();
        assert!(elapsed_ms > 0.001, "{elapsed_ms} ms for 1 MiB");
        assert!((sim.event_elapsed_ms(end, start).unwrap() + elapsed_ms).abs() < 1e-9);
        sim.event_elapsed_ms(start, ordering)
            .fails(ResultCode::INVALID_HANDLE);
    });
}
