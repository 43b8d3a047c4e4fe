//! What each schedule lets the host see, and that polling always gets somewhere.

use std::time::Duration;

use millstream_driver::{Completion, Driver, FillPattern};
use millstream_sim::{Schedule, SimConfig};

use crate::rig::{Rig, each_schedule};

#[test]
fn eager_work_is_done_when_its_call_returns() {
    let rig = Rig::new(SimConfig::new().schedule(Schedule::Eager));
    let stream = rig.stream();
    let memory = rig.mem_alloc(1 << 20).unwrap();
    rig.memset_async(memory, FillPattern::U8(1), 1 << 20, stream)
        .unwrap();
    assert_eq!(rig.gpu.ledger().pending_operations, 0);
    assert!(!rig.pending(stream));
}

#[test]
fn lazy_work_waits_until_it_is_forced_and_forces_nothing_else() {
    let rig = Rig::new(SimConfig::new().schedule(Schedule::Lazy));
    let (wanted, needed, other) = (rig.stream(), rig.stream(), rig.stream());
    let memory = rig.mem_alloc(4).unwrap();
    rig.memset_async(memory, FillPattern::U8(1), 4, needed)
        .unwrap();
    let event = rig.recorded(needed);
    rig.memset_async(memory, FillPattern::U8(2), 1, needed)
        .unwrap();
    rig.memset_async(memory, FillPattern::U8(3), 4, other)
        .unwrap();
    rig.stream_wait_event(wanted, event).unwrap();
    assert_eq!(rig.gpu.ledger().pending_operations, 5);
    rig.stream_synchronize(wanted).unwrap();
    assert_eq!(
        rig.gpu.ledger().pending_operations,
        2,
        "what came after the event, and the other stream"
    );
    assert!(rig.pending(other) && rig.pending(needed));
}

#[test]
fn timed_work_is_done_when_the_clock_says_so() {
    let rig = Rig::new(SimConfig::new());
    let stream = rig.stream();
    let bytes = 256 << 20;
    let memory = rig.mem_alloc_async(bytes, stream).unwrap();
    rig.memset_async(memory, FillPattern::U8(1), bytes, stream)
        .unwrap();
    let enqueued_ns = rig.gpu.virtual_time_ns();
    // 256 MiB at 4,197 GB/s, and a microsecond.
    let takes_ns = 64_959;
    assert!(rig.pending(stream));
    rig.gpu.pause(Duration::from_nanos(takes_ns - 1_000));
    assert!(rig.pending(stream));
    rig.gpu.pause(Duration::from_nanos(1_000));
    assert!(!rig.pending(stream));
    let before_ns = rig.gpu.virtual_time_ns();
    rig.stream_synchronize(stream).unwrap();
    assert!(
        before_ns >= enqueued_ns + takes_ns,
        "{before_ns} {enqueued_ns}"
    );
}

#[test]
fn polling_a_stream_or_an_event_ends() {
    each_schedule(|rig| {
        let (first, second) = (rig.stream(), rig.stream());
        let memory = rig.mem_alloc(4).unwrap();
        for _ in 0..5 {
            rig.memset_async(memory, FillPattern::U8(1), 4, first)
                .unwrap();
        }
        let event = rig.recorded(first);
        rig.stream_wait_event(second, event).unwrap();
        let mut polls = 0;
        while rig.event_query(event).unwrap() == Completion::Pending {
            polls += 1;
            assert!(polls < 100_000);
        }
        while rig.pending(second) {
            polls += 1;
            assert!(polls < 100_000);
        }
    });
}

#[test]
fn pausing_ends_too() {
    each_schedule(|rig| {
        let stream = rig.stream();
        let memory = rig.mem_alloc(4).unwrap();
        for _ in 0..5 {
            rig.memset_async(memory, FillPattern::U8(1), 4, stream)
                .unwrap();
        }
        let mut pauses = 0;
        while rig.gpu.ledger().pending_operations > 0 {
            rig.gpu.pause(Duration::from_micros(100));
            pauses += 1;
            assert!(pauses < 1000);
        }
    });
}

#[test]
fn a_host_that_waits_for_a_time_gets_there() {
    each_schedule(|rig| {
        let until_ns = rig.gpu.now_ns() + 10_000;
        while rig.gpu.now_ns() < until_ns {}
    });
}

/// A program with choices: several streams, events between them, queries that steer it.
pub(crate) fn program(rig: &Rig) -> (Vec<u64>, Vec<bool>) {
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    let memory = rig.mem_alloc(3 << 20).unwrap();
    let mut seen = Vec::new();
    for round in 0..20u8 {
        for (index, stream) in streams.into_iter().enumerate() {
            let part = memory.offset((index as u64) << 20);
            rig.memset_async(part, FillPattern::U8(round), 1 << (index * 5 + 8), stream)
                .unwrap();
            let event = rig.recorded(stream);
            if round % 3 == 0 {
                rig.stream_wait_event(streams[(index + 1) % 3], event)
                    .unwrap();
            }
            seen.push(rig.event_query(event).unwrap().is_complete());
            rig.event_destroy(event).unwrap();
        }
    }
    rig.context_synchronize().unwrap();
    rig.assert_clean();
    let mut trace = vec![rig.gpu.virtual_time_ns()];
    for span in rig.gpu.timeline() {
        trace.extend([span.operation, span.start_ns, span.finish_ns]);
    }
    (trace, seen)
}

#[test]
fn a_program_runs_the_same_every_time() {
    for schedule in crate::rig::SCHEDULES {
        let run = || {
            program(&Rig::new(
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
        program(&Rig::new(config)).1
    };
    assert!((1..10).any(|seed| run(seed) != run(0)));
}
