//! Graphs: explicit nodes, executable graphs and updates (rules 46 to 48).

#![allow(unsafe_code, reason = "passes the arguments of kernels")]

use std::{collections::BTreeSet, ffi::c_void};

use millstream_driver::{ConditionalKind, GraphHandle, GraphNode, GraphNodeHandle};
use millstream_sim::race::Label;

use crate::rules::{
    harness::graphs::{ONE_THREAD, copy},
    prelude::*,
    sim_harness::Result,
};

fn fill_and_copy(
    sim: &SimHarness,
    a: DevicePtr,
    b: DevicePtr,
    value: u8,
) -> (GraphHandle, [GraphNodeHandle; 2]) {
    let graph = sim.graph_create().unwrap();
    let first = sim.graph_add(graph, &[], &fill(a, value, 64)).unwrap();
    let second = sim.graph_add(graph, &[first], &copy(b, a, 64)).unwrap();
    (graph, [first, second])
}

#[test]
fn independent_nodes_run_in_any_order() {
    let mut orders = BTreeSet::new();
    for seed in 0..8 {
        let config = SimConfig::new()
            .schedule(Schedule::Random(seed))
            .timeline(true);
        let sim = SimHarness::new(config);
        let stream = sim.stream();
        let memory = sim.mem_alloc(64).unwrap();
        let graph = sim.graph_create().unwrap();
        for part in 0..2 {
            sim.graph_add(graph, &[], &fill(memory.offset(part * 32), 1, 32))
                .unwrap();
        }
        let exec = sim.graph_instantiate(graph).unwrap();
        sim.graph_launch(exec, stream).unwrap();
        sim.stream_synchronize(stream).unwrap();
        let fills: Vec<_> = sim
            .gpu
            .timeline()
            .into_iter()
            .filter(|span| span.what.contains("fill"))
            .map(|span| span.what)
            .collect();
        assert_eq!(fills.len(), 2);
        orders.insert(fills);
    }
    assert_eq!(orders.len(), 2, "both orders: {orders:?}");
}

#[run_by(with_stream, |sim, stream|)]
fn r48_a_node_of_freed_memory_fails_when_it_runs_and_is_named() {
    let memory = sim.mem_alloc(64).unwrap();
    let graph = {
        let _label = Label::new("decode");
        sim.graph_create().unwrap()
    };
    sim.graph_add(graph, &[], &GraphNode::Empty).unwrap();
    sim.graph_add(graph, &[], &fill(memory, 1, 64)).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.mem_free(memory).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(ReportKind::CopyFault, &["node 2 of graph `decode`", "fill"]);
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn a_changed_node_concerns_later_launches_only() {
    let kernels = Kernels::load(sim);
    let (sum, a) = (words(sim, &[0]), sim.mem_alloc(64).unwrap());
    let graph = sim.graph_create().unwrap();
    let added = kernel(sim, graph, &[], kernels.add, [sum.as_raw(), 1]);
    let filled = sim.graph_add(graph, &[added], &fill(a, 1, 64)).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    let hold = sim.hold(stream);
    sim.graph_launch(exec, stream).unwrap();
    let args = [sum.as_raw(), 10];
    let params = args
        .each_ref()
        .map(|arg| std::ptr::from_ref(arg).cast::<c_void>());
    // SAFETY: each parameter has at most 8 bytes.
    unsafe { sim.graph_set_kernel(exec, added, (kernels.add, ONE_THREAD), &params) }.unwrap();
    sim.graph_set(exec, filled, &fill(a, 2, 32)).unwrap();
    hold.release();
    sim.stream_synchronize(stream).unwrap();
    assert_eq!((word(sim, sum), sim.read(a, 64, stream)), (1, vec![1; 64]));
    sim.graph_launch(exec, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    let mut expected = vec![2; 32];
    expected.extend([1; 32]);
    assert_eq!((word(sim, sum), sim.read(a, 64, stream)), (11, expected));
    // The graph keeps its own operations.
    let again = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(again, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    assert_eq!((word(sim, sum), sim.read(a, 64, stream)), (12, vec![1; 64]));
    sim.assert_clean();
}

#[run_by(with_stream, |sim, stream|)]
fn a_copy_of_rows_is_changed_by_an_update_only() {
    let (a, b) = (sim.mem_alloc(64).unwrap(), sim.mem_alloc(64).unwrap());
    let rows = |target, source| {
        GraphNode::Copy(Copy2d {
            source: Side2d::device(source, 16),
            target: Side2d::device(target, 16),
            width_bytes: 8,
            height: 4,
        })
    };
    let make = |target, source| {
        let graph = sim.graph_create().unwrap();
        let node = sim.graph_add(graph, &[], &rows(target, source)).unwrap();
        (graph, node)
    };
    sim.fill(a, 1, 64, stream);
    sim.fill(b, 2, 64, stream);
    let ((graph, node), (back, _)) = (make(b, a), make(a, b));
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_set(exec, node, &rows(a, b))
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::BadArgument, &["copy of several rows"]);
    sim.graph_exec_update(exec, back).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    let expected = [[2; 8], [1; 8]].concat().repeat(4);
    assert_eq!(sim.read(a, 64, stream), expected);
}

#[run_by(with_stream, |sim, stream|)]
fn an_update_takes_the_parameters_of_a_graph_of_the_same_topology() {
    let (a, b) = (sim.mem_alloc(64).unwrap(), sim.mem_alloc(64).unwrap());
    let (graph, _) = fill_and_copy(sim, a, b, 1);
    let exec = sim.graph_instantiate(graph).unwrap();
    let (same, _) = fill_and_copy(sim, b, a, 2);
    sim.graph_exec_update(exec, same).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    assert_eq!(sim.read(a, 64, stream), [2; 64]);

    let (longer, _) = fill_and_copy(sim, a, b, 3);
    sim.graph_add(longer, &[], &GraphNode::Empty).unwrap();
    let refused = sim.graph_exec_update(exec, longer).unwrap_err();
    assert_eq!(refused.code(), ResultCode::GRAPH_EXEC_UPDATE_FAILURE);
    assert_contains(&refused.to_string(), "topology");

    let other = sim.graph_create().unwrap();
    let first = sim.graph_add(other, &[], &fill(a, 3, 64)).unwrap();
    let second = sim.graph_add(other, &[first], &fill(b, 3, 64)).unwrap();
    let refused = sim.graph_exec_update(exec, other).unwrap_err();
    assert_eq!(refused.graph_node(), Some(second));
    assert_contains(&refused.to_string(), "kind of a node");
    // A refused update changes nothing.
    sim.graph_launch(exec, stream).unwrap();
    assert_eq!(sim.read(a, 64, stream), [2; 64]);
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn wrong_graphs_are_refused_with_the_reason() {
    let memory = sim.mem_alloc(64).unwrap();
    let (graph, other) = (sim.graph_create().unwrap(), sim.graph_create().unwrap());
    let node = sim.graph_add(graph, &[], &GraphNode::Empty).unwrap();
    let second = sim.graph_add(graph, &[node], &GraphNode::Empty).unwrap();
    let foreign = sim.graph_add(other, &[], &GraphNode::Empty).unwrap();
    let invalid = |answer: Result<()>| answer.fails(ResultCode::INVALID_VALUE);
    invalid(
        sim.graph_add(graph, &[foreign], &GraphNode::Empty)
            .map(drop),
    );
    sim.assert_reported(
        ReportKind::BadArgument,
        &["belongs to graph 2, not graph 1"],
    );
    invalid(
        sim.graph_add(graph, &[node, node], &GraphNode::Empty)
            .map(drop),
    );
    sim.assert_reported(ReportKind::BadArgument, &["named twice"]);
    invalid(sim.graph_add(graph, &[], &fill(memory, 1, 65)).map(drop));
    sim.assert_reported(ReportKind::OutOfBounds, &["65 bytes"]);
    invalid(sim.graph_add_dependencies(graph, &[(node, second)]));
    sim.assert_reported(ReportKind::BadArgument, &["exists already"]);
    invalid(sim.graph_add_dependencies(graph, &[(node, node)]));
    sim.graph_add_dependencies(graph, &[(second, node)])
        .unwrap();
    let cycle = sim.graph_instantiate(graph).unwrap_err();
    assert_eq!(cycle.code(), ResultCode::INVALID_VALUE);
    assert_eq!(cycle.graph_node(), Some(node));
    assert_contains(&cycle.to_string(), "cycle");
    sim.graph_destroy(other).unwrap();
    invalid(sim.graph_destroy(other));
    sim.assert_reported(ReportKind::DeadHandle, &["graph 2"]);

    let looping = sim.graph_create().unwrap();
    let condition = sim.graph_condition(looping, 0).unwrap();
    let kind = ConditionalKind::If;
    let conditional = sim
        .graph_add_conditional(looping, &[], condition, kind)
        .unwrap();
    invalid(
        sim.graph_add_conditional(looping, &[], condition, kind)
            .map(drop),
    );
    sim.assert_reported(
        ReportKind::BadArgument,
        &["another conditional node has it"],
    );
    invalid(sim.graph_destroy(conditional.body));
    sim.graph_clone(looping).fails(ResultCode::NOT_SUPPORTED);
}

#[run_by(by_default, |sim|)]
fn graphs_left_alive_are_listed() {
    let graph = sim.graph_create().unwrap();
    let condition = sim.graph_condition(graph, 0).unwrap();
    // The body belongs to its node.
    sim.graph_add_conditional(graph, &[], condition, ConditionalKind::If)
        .unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    let kinds: Vec<_> = sim
        .gpu
        .live_objects()
        .iter()
        .map(|object| object.kind)
        .collect();
    assert_eq!(kinds, [LiveKind::Graph, LiveKind::ExecutableGraph]);
    let counts = sim.gpu.live_object_counts();
    assert_eq!((counts.graphs, counts.executable_graphs), (1, 1));
    destroy(sim, graph, exec);
    assert!(sim.gpu.live_objects().is_empty());
    sim.graph_launch(exec, sim.stream())
        .fails(ResultCode::INVALID_VALUE);
    sim.assert_reported(ReportKind::DeadHandle, &["executable graph 1"]);
}

#[test]
fn every_graph_call_can_fail_once_and_leaves_nothing() {
    let program = |sim: &SimHarness| {
        let (stream, memory) = (sim.stream_create(true, 0)?, sim.mem_alloc(64)?);
        let graph = sim.graph_create()?;
        let node = sim.graph_add(graph, &[], &fill(memory, 1, 64))?;
        let exec = sim.graph_instantiate(graph)?;
        sim.graph_set(exec, node, &fill(memory, 2, 64))?;
        sim.graph_exec_update(exec, graph)?;
        sim.graph_upload(exec, stream)?;
        sim.graph_launch(exec, stream)?;
        sim.stream_synchronize(stream)
    };
    let mut failed = Vec::new();
    for call in 1.. {
        let sim = SimHarness::new(SimConfig::new());
        sim.gpu.inject(Fault::nth(call));
        let outcome = program(&sim);
        if sim.gpu.faults_injected() == 0 {
            outcome.unwrap();
            break;
        }
        failed.push(outcome.unwrap_err().call());
        sim.assert_clean();
    }
    let graph_calls = [
        "cuGraphCreate",
        "cuGraphAddMemsetNode",
        "cuGraphInstantiateWithParams",
        "cuGraphExecMemsetNodeSetParams",
        "cuGraphExecUpdate",
        "cuGraphUpload",
        "cuGraphLaunch",
    ];
    for call in graph_calls {
        assert!(failed.contains(&call), "{call} is not among {failed:?}");
    }
}

#[test]
fn a_graph_costs_less_than_its_operations_one_by_one() {
    let duration_ns = |in_graph: bool| {
        let sim = SimHarness::new(SimConfig::new());
        let stream = sim.stream();
        let kernels = Kernels::load(&sim);
        let sum = words(&sim, &[0]);
        let args = [sum.as_raw(), 1];
        let graph = sim.graph_create().unwrap();
        let mut after = Vec::new();
        for _ in 0..100 {
            after = vec![kernel(&sim, graph, &after, kernels.add, args)];
        }
        let exec = sim.graph_instantiate(graph).unwrap();
        let from_ns = sim.gpu.virtual_time_ns();
        if in_graph {
            sim.graph_launch(exec, stream).unwrap();
        } else {
            for _ in 0..100 {
                let args = [Arg::Pointer(sum), Arg::U32(1)];
                sim.launch(kernels.add, (1, 1), stream, &args).unwrap();
            }
        }
        sim.stream_synchronize(stream).unwrap();
        sim.gpu.virtual_time_ns() - from_ns
    };
    let (graph_ns, eager_ns) = (duration_ns(true), duration_ns(false));
    // Measured on an H200: 100 and 433 µs.
    assert!((90_000..120_000).contains(&graph_ns), "{graph_ns}");
    assert!((340_000..470_000).contains(&eager_ns), "{eager_ns}");
}
