//! Rules 22 to 26: the work that an event captures, and the work that a wait for it delays.

use millstream_driver::{Completion, EventKind};

use crate::rules::prelude::*;

#[run_by(each_schedule, |sim|)]
fn r23_a_record_of_an_interprocess_event_waits_for_its_earlier_record() {
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
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn r26_recording_in_another_context_is_reported() {
    let other = sim.on_device(1);
    let event = sim.event();
    other
        .event_record(event, other.stream())
        .fails(ResultCode::INVALID_HANDLE);
    sim.assert_reported(ReportKind::WrongContext, &["rule 26"]);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn elapsed_time_needs_two_complete_timing_events() {
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
}
