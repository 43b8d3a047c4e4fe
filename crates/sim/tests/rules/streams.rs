//! Rules 16 to 21: operations are ordered within a stream and unordered across streams, except for
//! the barriers of the default streams.

use crate::rules::prelude::*;

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn r20_a_stream_belongs_to_its_context() {
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
