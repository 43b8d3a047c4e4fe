//! The results that the host can observe under each schedule, and progress while it polls.

use crate::rules::prelude::*;

#[test]
fn eager_work_is_done_when_its_call_returns() {
    let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Eager));
    let stream = sim.stream();
    let memory = sim.mem_alloc(1 << 20).unwrap();
    sim.fill(memory, 1, 1 << 20, stream);
    assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    assert!(!sim.pending(stream));
}

#[test]
fn lazy_work_waits_until_it_is_forced_and_forces_nothing_else() {
    let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Lazy));
    let (wanted, needed, other) = (sim.stream(), sim.stream(), sim.stream());
    let memory = sim.mem_alloc(4).unwrap();
    sim.fill(memory, 1, 4, needed);
    let event = sim.recorded(needed);
    sim.fill(memory, 2, 1, needed);
    sim.fill(memory, 3, 4, other);
    sim.stream_wait_event(wanted, event).unwrap();
    assert_eq!(sim.gpu.live_object_counts().pending_operations, 5);
    sim.stream_synchronize(wanted).unwrap();
    assert_eq!(
        sim.gpu.live_object_counts().pending_operations,
        2,
        "what came after the event, and the other stream"
    );
    assert!(sim.pending(other) && sim.pending(needed));
}

#[run_by(with_stream, |sim, stream|)]
fn timed_work_is_done_when_the_clock_says_so() {
    let bytes = 256 << 20;
    let memory = sim.mem_alloc_async(bytes, stream).unwrap();
    sim.fill(memory, 1, bytes, stream);
    let enqueued_ns = sim.gpu.virtual_time_ns();
    // 256 MiB at 4,197 GB/s, plus 1 µs of latency.
    let takes_ns = 64_959;
    assert!(sim.pending(stream));
    sim.gpu.pause(Duration::from_nanos(takes_ns - 1_000));
    assert!(sim.pending(stream));
    sim.gpu.pause(Duration::from_nanos(1_000));
    assert!(!sim.pending(stream));
    let before_ns = sim.gpu.virtual_time_ns();
    sim.stream_synchronize(stream).unwrap();
    assert!(
        before_ns >= enqueued_ns + takes_ns,
        "{before_ns} {enqueued_ns}"
    );
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn pausing_ends_too() {
    let memory = sim.mem_alloc(4).unwrap();
    for _ in 0..5 {
        sim.fill(memory, 1, 4, stream);
    }
    let mut pauses = 0;
    while sim.gpu.live_object_counts().pending_operations > 0 {
        sim.gpu.pause(Duration::from_micros(100));
        pauses += 1;
        assert!(pauses < 1000);
    }
}

#[run_by(each_schedule, |sim|)]
fn a_host_that_waits_for_a_time_gets_there() {
    let until_ns = sim.gpu.now_ns() + 10_000;
    while sim.gpu.now_ns() < until_ns {}
}

/// A program with scheduling choices: several streams, events between them, and queries whose
/// results select later calls.
pub(crate) fn program(sim: &SimHarness) -> (Vec<u64>, Vec<bool>) {
    let streams = [sim.stream(), sim.stream(), sim.stream()];
    let memory = sim.mem_alloc(3 << 20).unwrap();
    let mut seen = Vec::new();
    for round in 0..20u8 {
        for (index, stream) in streams.into_iter().enumerate() {
            let part = memory.offset((index as u64) << 20);
            sim.fill(part, round, 1 << (index * 5 + 8), stream);
            let event = sim.recorded(stream);
            if round % 3 == 0 {
                sim.stream_wait_event(streams[(index + 1) % 3], event)
                    .unwrap();
            }
            seen.push(sim.event_query(event).unwrap().is_complete());
            sim.event_destroy(event).unwrap();
        }
    }
    sim.context_synchronize().unwrap();
    sim.assert_clean();
    let mut trace = vec![sim.gpu.virtual_time_ns()];
    for span in sim.gpu.timeline() {
        trace.extend([span.operation, span.start_ns, span.finish_ns]);
    }
    (trace, seen)
}

#[test]
fn a_program_runs_the_same_every_time() {
    for schedule in crate::rules::sim_harness::SCHEDULES {
        let run = || {
            program(&SimHarness::new(
                SimConfig::new().timeline(true).schedule(schedule),
            ))
        };
        assert_eq!(run(), run(), "{schedule:?}");
    }
}

#[test]
fn seeds_differ() {
    let run = |seed| {
        let config = SimConfig::new()
            .timeline(true)
            .schedule(Schedule::Random(seed));
        program(&SimHarness::new(config)).1
    };
    assert!((1..10).any(|seed| run(seed) != run(0)));
}
