//! Races between the nodes of a graph, and between graphs and the work around them.

use millstream_driver::{CaptureMode, FillPattern, GraphHandle, GraphNodeHandle};

use crate::races::{
    harness::graphs::{copy, fill},
    prelude::*,
};

/// Makes a graph that fills an array and copies it, with or without the edge between the two.
fn fill_and_copy(sim: &SimHarness, edge: bool) -> (GraphHandle, [DevicePtr; 2]) {
    let (a, b) = (zeros(sim, BYTES), zeros(sim, BYTES));
    let graph = {
        let _label = Label::new("decode");
        sim.graph_create().unwrap()
    };
    let label = Label::new("first");
    let first = sim.graph_add(graph, &[], &fill(a, 1, BYTES)).unwrap();
    drop(label);
    let after: &[GraphNodeHandle] = if edge { &[first] } else { &[] };
    let _label = Label::new("second");
    sim.graph_add(graph, after, &copy(b, a, BYTES)).unwrap();
    (graph, [a, b])
}

fn launch(sim: &SimHarness, graph: GraphHandle, stream: StreamHandle) {
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, stream).unwrap();
}

#[test]
fn a_missing_edge_between_two_nodes_is_found_and_names_both() {
    expect("graph_nodes", |sim| {
        let (graph, _) = fill_and_copy(sim, false);
        launch(sim, graph, sim.stream());
    });
    clean(|sim| {
        let (graph, _) = fill_and_copy(sim, true);
        launch(sim, graph, sim.stream());
    });
}

#[test]
fn a_graph_and_another_stream_need_an_event() {
    let program = |sim: &SimHarness, edge: bool| {
        let (one, other) = (sim.stream(), sim.stream());
        let (graph, [a, _]) = fill_and_copy(sim, true);
        launch(sim, graph, one);
        if edge {
            sim.stream_wait_event(other, sim.recorded(one)).unwrap();
        }
        sim.fill(a, 2, BYTES, other);
    };
    expect("graph_and_stream", |sim| program(sim, false));
    clean(|sim| program(sim, true));
}

#[test]
fn launches_of_one_executable_graph_are_ordered_and_those_of_two_are_not() {
    clean(|sim| {
        let (graph, _) = fill_and_copy(sim, true);
        let exec = sim.graph_instantiate(graph).unwrap();
        for _ in 0..3 {
            sim.graph_launch(exec, sim.stream()).unwrap();
        }
    });
    expect("two_executable_graphs", |sim| {
        let (graph, _) = fill_and_copy(sim, true);
        for _ in 0..2 {
            launch(sim, graph, sim.stream());
        }
    });
}

/// A use of a graph's memory that its free does not allow.
#[derive(Clone, Copy, PartialEq)]
enum LateUse {
    /// A node behind the free.
    Behind,
    /// A node without order to the free, which runs first.
    Before,
    /// A node without order to the free, which runs last.
    Beside,
    /// An operation in the stream of the launch, behind it.
    Outside,
}

/// Captures the allocation, a fill and the free of memory, and launches the graph twice.
fn fill_of_graph_memory(sim: &SimHarness, late: Option<LateUse>) {
    let (stream, branch) = (sim.stream(), sim.stream());
    let _label = Label::new("temporary");
    sim.stream_begin_capture(stream, CaptureMode::Relaxed)
        .unwrap();
    let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
    let fill = |stream| {
        let pattern = FillPattern::U8(1);
        sim.memset_async(memory, pattern, BYTES, stream).unwrap();
    };
    fill(stream);
    sim.stream_wait_event(branch, sim.recorded(stream)).unwrap();
    if late == Some(LateUse::Before) {
        fill(branch);
    }
    sim.mem_free_async(memory, stream).unwrap();
    match late {
        Some(LateUse::Behind) => fill(stream),
        Some(LateUse::Beside) => fill(branch),
        _ => {}
    }
    sim.stream_wait_event(stream, sim.recorded(branch)).unwrap();
    let graph = sim.stream_end_capture(stream).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    for _ in 0..2 {
        sim.graph_launch(exec, stream).unwrap();
        if late == Some(LateUse::Outside) {
            fill(stream);
        }
    }
}

#[test]
fn a_use_of_a_graphs_memory_behind_its_free_is_found_and_names_both_nodes() {
    clean(|sim| fill_of_graph_memory(sim, None));
    for (late, name) in [
        (LateUse::Behind, "graph_memory_behind_free"),
        (LateUse::Before, "graph_memory_before_free"),
        (LateUse::Beside, "graph_memory_beside_free"),
        (LateUse::Outside, "graph_memory_outside"),
    ] {
        expect(name, |sim| fill_of_graph_memory(sim, Some(late)));
    }
}

#[test]
fn memory_that_a_graph_leaves_allocated_is_freed_by_a_stream_or_by_the_host() {
    let program = |sim: &SimHarness, by_host: bool, late: bool| {
        let stream = sim.stream();
        let _label = Label::new("left");
        sim.stream_begin_capture(stream, CaptureMode::Relaxed)
            .unwrap();
        let memory = sim.mem_alloc_async(BYTES, stream).unwrap();
        let graph = sim.stream_end_capture(stream).unwrap();
        let exec = sim.graph_instantiate(graph).unwrap();
        let fill = || {
            let pattern = FillPattern::U8(1);
            sim.memset_async(memory, pattern, BYTES, stream).unwrap();
        };
        for _ in 0..2 {
            sim.graph_launch(exec, stream).unwrap();
            fill();
            match by_host {
                true => sim.mem_free(memory).unwrap(),
                false => sim.mem_free_async(memory, stream).unwrap(),
            }
        }
        if late {
            fill();
        }
    };
    clean(|sim| program(sim, false, false));
    clean(|sim| program(sim, true, false));
    expect("graph_memory_freed_by_stream", |sim| {
        program(sim, false, true);
    });
    expect("graph_memory_freed_by_host", |sim| {
        program(sim, true, true);
    });
}
