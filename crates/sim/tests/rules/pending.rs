//! Pending operations: the cost of one does not grow with their number.

use std::time::Instant;

use millstream_driver::CaptureMode;

use crate::rules::prelude::*;

/// The number of operations whose time is taken together.
const BATCH: usize = 5000;

/// Returns the processor time of this thread, which the machine's other load does not change, or
/// the time where the system does not report it.
fn processor_time(since: Instant) -> Duration {
    // Linux updates the processor time of a running thread when the thread yields.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let busy_ns = text
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    busy_ns.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

/// Returns the times of eight batches of calls of `enqueue`, and the time of waiting for all.
fn times(sim: &SimHarness, enqueue: &mut dyn FnMut(usize)) -> (Vec<Duration>, Duration) {
    let began = Instant::now();
    let batches = (0..8).map(|batch| {
        let start = processor_time(began);
        (0..BATCH).for_each(|at| enqueue(batch * BATCH + at));
        processor_time(began) - start
    });
    let batches = batches.collect();
    let start = processor_time(began);
    sim.context_synchronize().unwrap();
    (batches, processor_time(began) - start)
}

/// Fails if the last operations took much longer than the first ones, three times in a row.
fn assert_flat(
    what: &str,
    schedule: Schedule,
    run: impl Fn(&SimHarness) -> (Vec<Duration>, Duration),
) {
    let grown = (0..3).map(|_| {
        let (batches, waited) = run(&SimHarness::new(SimConfig::new().schedule(schedule)));
        let first = batches[0].max(batches[1]).as_secs_f64();
        let last = batches[6].min(batches[7]).max(waited / 16).as_secs_f64();
        last / first
    });
    let grown = grown.fold(f64::INFINITY, f64::min);
    assert!(
        grown < 2.0,
        "{what}, {schedule}: the last took {grown:.1} times as long as the first"
    );
}

fn each_stream(sim: &SimHarness, count: usize) -> Vec<StreamHandle> {
    (0..count).map(|_| sim.stream()).collect()
}

#[test]
fn the_cost_of_an_operation_does_not_grow_with_those_that_are_pending() {
    for schedule in [Schedule::Timed, Schedule::Lazy] {
        for streams in [1, 16] {
            assert_flat(&format!("fills on {streams} streams"), schedule, |sim| {
                let (memory, streams) = (
                    sim.mem_alloc(4 * streams).unwrap(),
                    each_stream(sim, streams),
                );
                times(sim, &mut |at| {
                    let (at, stream) = (at % streams.len(), streams[at % streams.len()]);
                    let target = memory.offset(4 * at as u64);
                    sim.fill(target, 1, 4, stream);
                })
            });
        }
        assert_flat("graph launches among records", schedule, |sim| {
            let (memory, stream) = (sim.mem_alloc(4).unwrap(), sim.stream());
            let graph = sim.graph_create().unwrap();
            sim.graph_add(graph, &[], &fill(memory, 1, 4)).unwrap();
            let exec = sim.graph_instantiate(graph).unwrap();
            let event = sim.event();
            let times = times(sim, &mut |at| match at % 4 {
                0 => sim.graph_launch(exec, stream).unwrap(),
                _ => sim.event_record(event, stream).unwrap(),
            });
            destroy(sim, graph, exec);
            times
        });
        assert_flat("queries of a stream with pending work", schedule, |sim| {
            let (memory, stream) = (sim.mem_alloc(4).unwrap(), sim.stream());
            times(sim, &mut |_| {
                sim.fill(memory, 1, 4, stream);
                sim.pending(stream);
            })
        });
    }
    assert_flat("host functions", Schedule::Lazy, |sim| {
        let stream = sim.stream();
        times(sim, &mut |_| sim.host_function(stream, || ()))
    });
    // The checks of the second stream wait for the first one's until there are too many.
    assert_flat("launches beside a blocked stream", Schedule::Eager, |sim| {
        let [blocked, free] = [sim.stream(), sim.stream()];
        let (memory, mut hold) = (sim.mem_alloc(4).unwrap(), Some(sim.hold(blocked)));
        sim.stream_begin_capture(free, CaptureMode::ThreadLocal)
            .unwrap();
        let of_graph = sim.mem_alloc_async(4, free).unwrap();
        let fill = |target, stream| sim.fill(target, 1, 4, stream);
        fill(of_graph, free);
        sim.mem_free_async(of_graph, free).unwrap();
        let graph = sim.stream_end_capture(free).unwrap();
        let exec = sim.graph_instantiate(graph).unwrap();
        let times = times(sim, &mut |at| {
            fill(memory, blocked);
            sim.graph_launch(exec, free).unwrap();
            hold.take_if(|_| at + 1 == 8 * BATCH);
        });
        destroy(sim, graph, exec);
        times
    });
    // The same number of nodes in each batch, in ever longer chains.
    assert_flat("nodes of a graph in a row", Schedule::Lazy, |sim| {
        let (memory, stream) = (sim.mem_alloc(4).unwrap(), sim.stream());
        let began = Instant::now();
        let batches = (0..8).map(|batch| {
            let graph = sim.graph_create().unwrap();
            (0..40 << batch).fold(Vec::new(), |after, _| {
                vec![sim.graph_add(graph, &after, &fill(memory, 1, 4)).unwrap()]
            });
            let exec = sim.graph_instantiate(graph).unwrap();
            let start = processor_time(began);
            (0..128 >> batch).for_each(|_| sim.graph_launch(exec, stream).unwrap());
            sim.context_synchronize().unwrap();
            let taken = processor_time(began) - start;
            destroy(sim, graph, exec);
            taken
        });
        (batches.collect(), Duration::ZERO)
    });
}
