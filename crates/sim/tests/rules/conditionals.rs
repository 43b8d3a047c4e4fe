//! Conditional nodes of graphs.

use millstream_driver::ConditionalKind;

use crate::rules::prelude::*;

#[run_by(with_stream, |sim, stream|)]
fn a_loop_in_a_loop_starts_anew_in_each_iteration() {
    let kernels = Kernels::load(sim);
    let (outer_left, inner_left, sum) = (words(sim, &[3]), words(sim, &[0]), words(sim, &[0]));
    let graph = sim.graph_create().unwrap();
    let (outer, inner) = (
        sim.graph_condition(graph, 1).unwrap(),
        sim.graph_condition(graph, 0).unwrap(),
    );
    let kind = ConditionalKind::While;
    let around = sim.graph_add_conditional(graph, &[], outer, kind).unwrap();
    let fresh = kernel(sim, around.body, &[], kernels.add, [inner_left.as_raw(), 2]);
    let ready = kernel(sim, around.body, &[fresh], kernels.set, [inner.as_raw(), 1]);
    let within = sim
        .graph_add_conditional(around.body, &[ready], inner, kind)
        .unwrap();
    let added = kernel(sim, within.body, &[], kernels.add, [sum.as_raw(), 1]);
    kernel(
        sim,
        within.body,
        &[added],
        kernels.count,
        [inner_left.as_raw(), inner.as_raw()],
    );
    kernel(
        sim,
        around.body,
        &[within.node],
        kernels.count,
        [outer_left.as_raw(), outer.as_raw()],
    );
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    assert_eq!(word(sim, sum), 6);
    sim.assert_clean();
}

#[run_by(with_stream, |sim, stream|)]
fn a_condition_set_outside_its_graph_is_a_fault_with_the_reason() {
    let kernels = Kernels::load(sim);
    let (elsewhere, graph) = (sim.graph_create().unwrap(), sim.graph_create().unwrap());
    let condition = sim.graph_condition(elsewhere, 1).unwrap();
    kernel(sim, graph, &[], kernels.set, [condition.as_raw(), 1]);
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    sim.stream_synchronize(stream)
        .fails(ResultCode::LAUNCH_FAILED);
    let words = ["cudaGraphSetConditional", "no condition of the graph"];
    sim.assert_reported(ReportKind::KernelFault, &words);
}
