//! Races between streams, and the events and synchronisations that prevent them.

use crate::races::prelude::*;

fn fill(sim: &SimHarness, memory: DevicePtr, stream: StreamHandle) {
    sim.fill(memory, 1, BYTES, stream);
}

/// Enqueues two accesses of one array on two streams, with or without an edge between them.
fn two(sim: &SimHarness, first: &str, second: &str, edge: bool) {
    let (one, other) = (sim.stream(), sim.stream());
    let (memory, copy) = (zeros(sim, BYTES), zeros(sim, BYTES));
    let run = |what: &str, stream| match what {
        "read" => launch(sim, "read", stream, &[memory, copy]),
        _ => launch(sim, "write", stream, &[memory]),
    };
    run(first, one);
    if edge {
        sim.stream_wait_event(other, sim.recorded(one)).unwrap();
    }
    run(second, other);
}

#[test]
fn a_missing_wait_is_found_whatever_the_two_do() {
    for (first, second) in [("write", "write"), ("write", "read"), ("read", "write")] {
        expect(&format!("{first}_{second}"), |sim| {
            two(sim, first, second, false)
        });
        clean(|sim| two(sim, first, second, true));
    }
}

#[test]
fn a_race_at_new_places_is_listed_behind_a_thousand_at_the_same_places() {
    let sim = SimHarness::new(SimConfig::new());
    let (one, other) = (sim.stream(), sim.stream());
    let memory = zeros(&sim, BYTES);
    for _ in 0..600 {
        fill(&sim, memory, one);
        fill(&sim, memory, other);
    }
    launch(&sim, "write", one, &[memory]);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    assert_eq!(findings.len(), 1025);
    assert!(
        findings[1024].later.what.contains("write"),
        "{}",
        findings[1024]
    );
    let unlisted = sim.gpu.unlisted_findings();
    assert_eq!(unlisted.elsewhere, 0);
    let repeated: u64 = unlisted.repeated.iter().map(|(_, count)| count).sum();
    assert_eq!(repeated, 1199 - 1024);
    let said = sim.gpu.reports().into_iter();
    let said = said.filter(|report| report.kind == ReportKind::FindingsOmitted);
    assert_eq!(said.count(), 1);
}

#[run_by(expect("two_readers"), |sim|)]
fn both_of_two_readers_are_found() {
    let [one, other, writer] = [(); 3].map(|()| sim.stream());
    let (memory, a, b) = (zeros(sim, BYTES), zeros(sim, BYTES), zeros(sim, BYTES));
    launch(sim, "read", one, &[memory, a]);
    launch(sim, "read", other, &[memory, b]);
    sim.stream_wait_event(writer, sim.recorded(other)).unwrap();
    // Waits for the second reader only.
    fill(sim, memory, writer);
    // Not ordered after either reader.
    fill(sim, memory, sim.stream());
}

#[run_by(expect("recorded_too_early"), |sim|)]
fn a_wait_covers_what_was_recorded_and_nothing_later() {
    let (one, other) = (sim.stream(), sim.stream());
    let memory = zeros(sim, 2 * BYTES);
    fill(sim, memory, one);
    let event = sim.recorded(one);
    fill(sim, memory.offset(BYTES as u64), one);
    sim.stream_wait_event(other, event).unwrap();
    fill(sim, memory, other);
    fill(sim, memory.offset(BYTES as u64), other);
}

#[test]
fn ranges_are_told_apart_to_the_byte() {
    let parts = |sim: &SimHarness, bytes| {
        let (one, other) = (sim.stream(), sim.stream());
        let memory = zeros(sim, BYTES);
        sim.fill(memory, 1, bytes, one);
        sim.fill(memory.offset(101), 1, 50, other);
    };
    clean(|sim| parts(sim, 101));
    expect("one_byte", |sim| parts(sim, 102));
}

#[test]
fn adjacent_bytes_with_different_readers_are_one_range_of_a_report() {
    let sim = SimHarness::new(SimConfig::new());
    let [writer, reader, racer] = [(); 3].map(|()| sim.stream());
    let (memory, copied) = (zeros(&sim, BYTES), zeros(&sim, BYTES));
    fill(&sim, memory, writer);
    sim.stream_wait_event(reader, sim.recorded(writer)).unwrap();
    sim.copy_device_to_device_async(copied, memory, 100, reader)
        .unwrap();
    fill(&sim, memory, racer);
    sim.context_synchronize().unwrap();
    let findings = sim.gpu.findings();
    let memory = findings.iter().flat_map(|finding| &finding.memory);
    let ranges: Vec<_> = memory.flat_map(|memory| memory.ranges.clone()).collect();
    assert_eq!(ranges, [0..BYTES as u64, 0..100], "{findings:?}");
}

#[run_by(expect("copies"), |sim|)]
fn a_copy_races_at_both_ends() {
    let [one, other, third] = [(); 3].map(|()| sim.stream());
    let (from, to) = (zeros(sim, BYTES), zeros(sim, BYTES));
    sim.copy_device_to_device_async(to, from, BYTES, one)
        .unwrap();
    fill(sim, from, other);
    fill(sim, to, third);
}

/// A held operation delays the race check of the operations after it, but only up to a limit on
/// their number.
#[test]
fn much_work_is_judged_ahead_of_an_operation_that_is_held() {
    let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Eager));
    let [held, one, other] = [(); 3].map(|()| sim.stream());
    let [memory, apart, elsewhere] = [(); 3].map(|()| zeros(&sim, BYTES));
    let hold = sim.hold(held);
    fill(&sim, apart, held);
    fill(&sim, memory, one);
    fill(&sim, memory, other);
    assert!(
        sim.gpu.findings().is_empty(),
        "an operation before them has not run"
    );
    for _ in 0..20_000 {
        fill(&sim, elsewhere, other);
    }
    let [race] = &sim.gpu.findings()[..] else {
        panic!("expected one race, found {:?}", sim.gpu.findings().len());
    };
    assert_eq!(race.earlier.as_ref().unwrap().operation, Some(6));
    hold.release();
    sim.context_synchronize().unwrap();
}
