//! Nodes of graphs for the host, events and memory, and conditional nodes with several bodies.

#![allow(unsafe_code, reason = "calls the simulated driver as a program does")]

use std::sync::atomic::Ordering;

use millstream_driver::{CaptureMode, GraphHandle, GraphNodeHandle};
use millstream_sim::{BranchKind, ProgramNode, RepeatedFunction};

use crate::rules::prelude::*;

/// Calls an unsafe method of the simulated GPU in the harness's context.
macro_rules! call {
    ($sim:ident.$method:ident($($argument:expr),*)) => {
        // SAFETY: the simulator checks handles and addresses, and no host memory is involved.
        unsafe { $sim.gpu.$method($sim.context, $($argument),*) }
    };
}

fn add(
    sim: &SimHarness,
    graph: GraphHandle,
    after: &[GraphNodeHandle],
    node: &ProgramNode<'_>,
) -> GraphNodeHandle {
    call!(sim.graph_add_program_node(graph, after, node)).unwrap()
}

/// Returns a host function that adds to a counter.
fn counting(counter: &Arc<AtomicU32>, more: u32) -> RepeatedFunction {
    let counter = Arc::clone(counter);
    RepeatedFunction {
        function: Arc::new(move || {
            counter.fetch_add(more, Ordering::Relaxed);
        }),
        tag: [0; 2],
    }
}

/// Fills memory in a graph that records an event, and outside of it behind the event or not.
fn filled_behind_a_graph(sim: &SimHarness, waits: bool) {
    let (inside, outside) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc(64).unwrap();
    let event = sim.event();
    let graph = sim.graph_create().unwrap();
    let first = sim.graph_add(graph, &[], &fill(memory, 1, 64)).unwrap();
    add(sim, graph, &[first], &ProgramNode::Record(event));
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, inside).unwrap();
    if waits {
        sim.stream_wait_event(outside, event).unwrap();
    }
    sim.memset_async(memory, millstream_driver::FillPattern::U8(2), 64, outside)
        .unwrap();
    sim.context_synchronize().unwrap();
}

/// Fills memory on a stream that records an event, and in a graph behind the event or not.
fn filled_in_a_graph(sim: &SimHarness, waits: bool) {
    let (inside, outside) = (sim.stream(), sim.stream());
    let memory = sim.mem_alloc(64).unwrap();
    let event = sim.event();
    let graph = sim.graph_create().unwrap();
    let wait = waits.then(|| add(sim, graph, &[], &ProgramNode::Wait(event)));
    let node = fill(memory, 2, 64);
    sim.graph_add(graph, wait.as_slice(), &node).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.memset_async(memory, millstream_driver::FillPattern::U8(1), 64, outside)
        .unwrap();
    sim.event_record(event, outside).unwrap();
    sim.graph_launch(exec, inside).unwrap();
    sim.context_synchronize().unwrap();
    if waits {
        assert_eq!(sim.read(memory, 64, sim.stream()), [2; 64]);
    }
}

#[test]
fn event_nodes_order_the_graph_with_other_streams() {
    for program in [filled_behind_a_graph, filled_in_a_graph] {
        each_schedule(|sim| {
            program(sim, true);
            sim.assert_clean();
        });
        let sim = SimHarness::new(SimConfig::new());
        program(&sim, false);
        sim.assert_reported(ReportKind::Race, &["fill"]);
    }
}

#[run_by(each_schedule_and_stream, |sim, stream|)]
fn a_condition_selects_one_of_several_bodies_or_none() {
    let kernels = Kernels::load(sim);
    let cases = [
        (BranchKind::IfElse, 2, [10, 1, 1]),
        (BranchKind::Switch, 2, [1, 10, 0]),
    ];
    for (kind, bodies, expected) in cases {
        let sum = words(sim, &[0]);
        let graph = sim.graph_create().unwrap();
        let condition = sim.graph_condition(graph, 0).unwrap();
        let arguments = |value| [condition.as_raw(), value];
        let set = kernel(sim, graph, &[], kernels.set, arguments(0));
        let of = (kind, bodies);
        let (_, bodies) = call!(sim.graph_add_branches(graph, &[set], condition, of)).unwrap();
        for (body, more) in bodies.iter().zip([1, 10]) {
            kernel(sim, *body, &[], kernels.add, [sum.as_raw(), more]);
        }
        let mut total = 0;
        for (value, more) in (0..).zip(expected) {
            // The kernel cannot be changed in a graph with conditional nodes by an update.
            let exec = sim.graph_instantiate(graph).unwrap();
            let params = arguments(value);
            let params = params.each_ref().map(|it| std::ptr::from_ref(it).cast());
            let one = (kernels.set, crate::rules::harness::graphs::ONE_THREAD);
            // SAFETY: the kernel has a parameter of 8 bytes and one of 4.
            unsafe { sim.graph_set_kernel(exec, set, one, &params) }.unwrap();
            sim.graph_launch(exec, stream).unwrap();
            sim.stream_synchronize(stream).unwrap();
            total += more;
            assert_eq!(word(sim, sum), total, "{kind:?}, {value}");
            sim.graph_exec_destroy(exec).unwrap();
        }
        sim.graph_destroy(graph).unwrap();
    }
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn a_body_has_no_nodes_for_the_host_events_or_memory() {
    let counter = Arc::default();
    let graph = sim.graph_create().unwrap();
    let condition = sim.graph_condition(graph, 0).unwrap();
    let of = (BranchKind::IfElse, 1);
    let (_, bodies) = call!(sim.graph_add_branches(graph, &[], condition, of)).unwrap();
    let nodes = [
        ProgramNode::Host(counting(&counter, 1)),
        ProgramNode::Record(sim.event()),
        ProgramNode::Wait(sim.event()),
    ];
    for node in &nodes {
        let refused = call!(sim.graph_add_program_node(bodies[0], &[], node)).unwrap_err();
        assert_eq!(refused.code(), ResultCode::INVALID_VALUE);
        assert_contains(&refused.to_string(), "body");
    }
    let device = crate::rules::sim_harness::DEVICE;
    let refused = call!(sim.graph_add_allocation(bodies[0], &[], device, 64)).unwrap_err();
    assert_eq!(refused.code(), ResultCode::INVALID_VALUE);
}

#[run_by(with_stream, |sim, stream|)]
fn a_graph_that_a_stream_captures_into_stays_until_the_capture_ends() {
    let graph = sim.graph_create().unwrap();
    let condition = sim.graph_condition(graph, 0).unwrap();
    let of = (BranchKind::Switch, 2);
    let (node, bodies) = call!(sim.graph_add_branches(graph, &[], condition, of)).unwrap();
    let mode = CaptureMode::Relaxed;
    call!(sim.stream_begin_capture_into(stream, bodies[1], &[], mode)).unwrap();
    assert_eq!(
        sim.graph_destroy(graph).unwrap_err().code(),
        ResultCode::INVALID_VALUE
    );
    assert_eq!(
        call!(sim.graph_remove_node(node)).unwrap_err().code(),
        ResultCode::INVALID_VALUE
    );
    let function = counting(&Arc::default(), 1);
    assert_eq!(
        call!(sim.launch_repeated_function(stream, &function))
            .unwrap_err()
            .code(),
        ResultCode::STREAM_CAPTURE_UNSUPPORTED
    );
    assert_eq!(
        sim.stream_end_capture(stream).unwrap_err().code(),
        ResultCode::STREAM_CAPTURE_INVALIDATED
    );
    call!(sim.graph_remove_node(node)).unwrap();
    sim.graph_destroy(graph).unwrap();
    assert_eq!(sim.gpu.live_object_counts().graphs, 0);
}
