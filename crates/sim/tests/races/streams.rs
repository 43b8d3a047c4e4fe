//! Races between streams, and the events and synchronisations that prevent them.

use millstream_driver::{DevicePtr, FillPattern, StreamHandle};
use millstream_sim::{Schedule, SimConfig};

use crate::{
    expect::{clean, expect},
    kernels::{BYTES, launch, zeros},
    rig::Rig,
};

fn fill(rig: &Rig, memory: DevicePtr, stream: StreamHandle) {
    rig.memset_async(memory, FillPattern::U8(1), BYTES, stream)
        .unwrap();
}

/// Two uses of one array on two streams, with an edge between them or without.
fn two(rig: &Rig, first: &str, second: &str, edge: bool) {
    let (one, other) = (rig.stream(), rig.stream());
    let (memory, copy) = (zeros(rig, BYTES), zeros(rig, BYTES));
    let run = |what: &str, stream| match what {
        "read" => launch(rig, "read", stream, &[memory, copy]),
        _ => launch(rig, "write", stream, &[memory]),
    };
    run(first, one);
    if edge {
        rig.stream_wait_event(other, rig.recorded(one)).unwrap();
    }
    run(second, other);
}

#[test]
fn a_missing_wait_is_found_whatever_the_two_do() {
    for (first, second) in [("write", "write"), ("write", "read"), ("read", "write")] {
        expect(&format!("{first}_{second}"), |rig| {
            two(rig, first, second, false)
        });
        clean(|rig| two(rig, first, second, true));
    }
}

#[test]
fn readers_run_together() {
    clean(|rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let (memory, a, b) = (zeros(rig, BYTES), zeros(rig, BYTES), zeros(rig, BYTES));
        launch(rig, "read", one, &[memory, a]);
        launch(rig, "read", other, &[memory, b]);
    });
}

#[test]
fn both_of_two_readers_are_found() {
    expect("two_readers", |rig| {
        let [one, other, writer] = [(); 3].map(|()| rig.stream());
        let (memory, a, b) = (zeros(rig, BYTES), zeros(rig, BYTES), zeros(rig, BYTES));
        launch(rig, "read", one, &[memory, a]);
        launch(rig, "read", other, &[memory, b]);
        rig.stream_wait_event(writer, rig.recorded(other)).unwrap();
        // Waits for the second reader only.
        fill(rig, memory, writer);
        // Is behind neither.
        fill(rig, memory, rig.stream());
    });
}

#[test]
fn a_wait_covers_what_was_recorded_and_nothing_later() {
    expect("recorded_too_early", |rig| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, 2 * BYTES);
        fill(rig, memory, one);
        let event = rig.recorded(one);
        fill(rig, memory.offset(BYTES as u64), one);
        rig.stream_wait_event(other, event).unwrap();
        fill(rig, memory, other);
        fill(rig, memory.offset(BYTES as u64), other);
    });
}

#[test]
fn a_wait_keeps_what_the_event_captured_when_it_is_recorded_anew() {
    // Rule 23: the wait is for the first capture; the second is of a stream that has nothing to do
    // with it.
    clean(|rig| {
        let [one, other, third] = [(); 3].map(|()| rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        let event = rig.recorded(one);
        rig.stream_wait_event(other, event).unwrap();
        rig.event_record(event, third).unwrap();
        fill(rig, memory, other);
    });
    expect("recorded_anew", |rig| {
        let [one, other, third] = [(); 3].map(|()| rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, one);
        let event = rig.recorded(one);
        rig.event_record(event, third).unwrap();
        rig.stream_wait_event(other, event).unwrap();
        fill(rig, memory, other);
    });
}

#[test]
fn order_passes_on_from_stream_to_stream() {
    clean(|rig| {
        let streams = [(); 4].map(|()| rig.stream());
        let memory = zeros(rig, BYTES);
        fill(rig, memory, streams[0]);
        for pair in streams.windows(2) {
            rig.stream_wait_event(pair[1], rig.recorded(pair[0]))
                .unwrap();
        }
        fill(rig, memory, streams[3]);
    });
}

#[test]
fn ranges_are_told_apart_to_the_byte() {
    let parts = |rig: &Rig, bytes| {
        let (one, other) = (rig.stream(), rig.stream());
        let memory = zeros(rig, BYTES);
        rig.memset_async(memory, FillPattern::U8(1), bytes, one)
            .unwrap();
        rig.memset_async(memory.offset(101), FillPattern::U8(1), 50, other)
            .unwrap();
    };
    clean(|rig| parts(rig, 101));
    expect("one_byte", |rig| parts(rig, 102));
}

#[test]
fn a_copy_races_at_both_ends() {
    expect("copies", |rig| {
        let [one, other, third] = [(); 3].map(|()| rig.stream());
        let (from, to) = (zeros(rig, BYTES), zeros(rig, BYTES));
        rig.copy_device_to_device_async(to, from, BYTES, one)
            .unwrap();
        fill(rig, from, other);
        fill(rig, to, third);
    });
}

/// An operation that does not run for long keeps back what is judged after it, but not without
/// bound.
#[test]
fn much_work_is_judged_ahead_of_an_operation_that_is_held() {
    let rig = Rig::new(SimConfig::new().schedule(Schedule::Eager));
    let [held, one, other] = [(); 3].map(|()| rig.stream());
    let [memory, apart, elsewhere] = [(); 3].map(|()| zeros(&rig, BYTES));
    let hold = rig.hold(held);
    fill(&rig, apart, held);
    fill(&rig, memory, one);
    fill(&rig, memory, other);
    assert!(
        rig.gpu.findings().is_empty(),
        "an operation before them has not run"
    );
    for _ in 0..20_000 {
        fill(&rig, elsewhere, other);
    }
    let [race] = &rig.gpu.findings()[..] else {
        panic!("one race: {:?}", rig.gpu.findings().len());
    };
    assert_eq!(race.earlier.as_ref().unwrap().operation, Some(6));
    hold.release();
    rig.context_synchronize().unwrap();
}
