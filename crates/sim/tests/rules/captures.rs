//! Captures of streams into graphs (rules 40 to 45): what the conformance tests do not show.

use std::thread;

use millstream_driver::{
    CaptureMode, CaptureStatus, GraphHandle, GraphNode, ResultCode, StreamHandle,
};
use millstream_sim::race::Label;

use crate::rules::{
    graph_harness::{Kernels, destroy, word, words},
    sim_harness::{Arg, Fails, SimHarness, assert_contains, by_default, each_schedule},
};

const LOCAL: CaptureMode = CaptureMode::ThreadLocal;

fn capturing(sim: &SimHarness) -> StreamHandle {
    let stream = sim.stream();
    sim.stream_begin_capture(stream, LOCAL).unwrap();
    stream
}

/// Asserts that the capture of a stream was made invalid, and that the stream works afterwards.
fn assert_invalid(sim: &SimHarness, stream: StreamHandle) {
    let info = sim.stream_capture_info(stream).unwrap();
    assert_eq!(info.status, CaptureStatus::Invalidated);
    let ended = sim.stream_end_capture(stream).unwrap_err();
    assert_eq!(ended.code(), ResultCode::STREAM_CAPTURE_INVALIDATED);
    assert_contains(&ended.to_string(), "made invalid by cu");
    assert_eq!(sim.gpu.live_object_counts().graphs, 0);
    sim.stream_synchronize(stream).unwrap();
    sim.assert_clean();
}

fn launch(sim: &SimHarness, graph: GraphHandle, stream: StreamHandle) {
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    sim.stream_synchronize(stream).unwrap();
    destroy(sim, graph, exec);
}

#[run_by(by_default, |sim|)]
fn a_launch_on_a_capturing_stream_becomes_a_child() {
    let kernels = Kernels::load(sim);
    let sum = words(sim, &[0]);
    let stream = capturing(sim);
    let args = [Arg::Pointer(sum), Arg::U32(1)];
    sim.launch(kernels.add, (1, 1), stream, &args).unwrap();
    let inner = sim.stream_end_capture(stream).unwrap();
    let exec = sim.graph_instantiate(inner).unwrap();
    sim.stream_begin_capture(stream, LOCAL).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    sim.graph_launch(exec, stream).unwrap();
    let outer = sim.stream_end_capture(stream).unwrap();
    destroy(sim, inner, exec);
    launch(sim, outer, stream);
    assert_eq!(word(sim, sum), 2);
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn nodes_can_be_added_to_a_capture_by_hand() {
    let memory = words(sim, &[1, 1]);
    let stream = capturing(sim);
    sim.fill_words(memory, 2, 1, stream);
    let active = sim.stream_capture_info(stream).unwrap().active.unwrap();
    assert_eq!(active.dependencies.len(), 1);
    let after = &active.dependencies;
    let copy = crate::rules::harness::graphs::copy(memory.offset(4), memory, 4);
    let node = sim.graph_add(active.graph, after, &copy).unwrap();
    sim.stream_set_capture_dependencies(stream, &[node])
        .unwrap();
    sim.fill_words(memory, 3, 1, stream);
    // The graph belongs to the capture until it ends.
    sim.graph_destroy(active.graph)
        .fails(ResultCode::INVALID_VALUE);
    let graph = sim.stream_end_capture(stream).unwrap();
    assert_eq!(graph, active.graph);
    launch(sim, graph, stream);
    assert_eq!((word(sim, memory), word(sim, memory.offset(4))), (3, 2));
    sim.stream_set_capture_dependencies(stream, &[])
        .fails(ResultCode::ILLEGAL_STATE);
}

#[run_by(by_default, |sim|)]
fn r40_a_capture_ends_on_its_stream() {
    let (stream, other) = (capturing(sim), sim.stream());
    let fork = sim.recorded(stream);
    sim.stream_wait_event(other, fork).unwrap();
    sim.stream_end_capture(other)
        .fails(ResultCode::STREAM_CAPTURE_UNMATCHED);
    assert_invalid(sim, stream);
    assert_eq!(
        sim.stream_capture_info(other).unwrap().status,
        CaptureStatus::None
    );
}

#[run_by(by_default, |sim|)]
fn r41_a_branch_that_is_not_joined_fails_the_capture() {
    let memory = words(sim, &[0]);
    let (stream, other) = (capturing(sim), sim.stream());
    let fork = sim.recorded(stream);
    sim.stream_wait_event(other, fork).unwrap();
    sim.fill_words(memory, 1, 1, other);
    let error = sim.stream_end_capture(stream).unwrap_err();
    assert_eq!(error.code(), ResultCode::STREAM_CAPTURE_UNJOINED);
    assert_contains(&error.to_string(), "stream 2");
    assert_eq!(sim.gpu.live_object_counts().graphs, 0);
    sim.stream_synchronize(other).unwrap();
    assert_eq!(word(sim, memory), 0);
}

#[run_by(by_default, |sim|)]
fn r41_a_capture_does_not_wait_for_another_one() {
    let (one, other) = (capturing(sim), capturing(sim));
    let event = sim.recorded(one);
    sim.stream_wait_event(other, event)
        .fails(ResultCode::STREAM_CAPTURE_MERGE);
    assert_invalid(sim, one);
    assert_invalid(sim, other);
    // The capture of the event is over.
    sim.stream_wait_event(one, event)
        .fails(ResultCode::INVALID_VALUE);
    sim.event_synchronize(event)
        .fails(ResultCode::INVALID_VALUE);
}

#[run_by(by_default, |sim|)]
fn r42_the_legacy_stream_is_forbidden_while_a_blocking_stream_captures() {
    let memory = words(sim, &[0, 0]);
    let implicit = ResultCode::STREAM_CAPTURE_IMPLICIT;
    let legacy = StreamHandle::LEGACY;
    let stream = sim.blocking_stream();
    sim.stream_begin_capture(stream, LOCAL).unwrap();
    // Asking about the capture does it no harm.
    sim.stream_capture_info(legacy).fails(implicit);
    let info = sim.stream_capture_info(stream).unwrap();
    assert_eq!(info.status, CaptureStatus::Active);
    sim.copy_device_to_device(memory, memory.offset(4), 4)
        .fails(implicit);
    assert_invalid(sim, stream);
}

#[run_by(by_default, |sim|)]
fn r44_a_thread_in_relaxed_mode_makes_unsafe_calls() {
    let outside = sim.recorded(sim.stream());
    let before = sim.gpu.exchange_capture_mode(CaptureMode::Relaxed);
    let stream = capturing(sim);
    sim.event_query(outside).unwrap();
    sim.graph_destroy(sim.stream_end_capture(stream).unwrap())
        .unwrap();
    // In thread-local mode the captures of other threads do not matter.
    sim.stream_begin_capture(stream, CaptureMode::Global)
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            sim.gpu.exchange_capture_mode(CaptureMode::ThreadLocal);
            sim.mem_alloc(64).unwrap();
        });
    });
    assert_eq!(sim.gpu.exchange_capture_mode(before), CaptureMode::Relaxed);
    sim.event_query(outside)
        .fails(ResultCode::STREAM_CAPTURE_UNSUPPORTED);
    assert_invalid(sim, stream);
}

#[run_by(each_schedule, |sim|)]
fn r45_memory_allocated_in_a_capture_belongs_to_the_graph() {
    let result = words(sim, &[0]);
    let before = sim.gpu.live_object_counts().device_bytes;
    let stream = capturing(sim);
    let memory = {
        let _label = Label::new("temporary");
        sim.mem_alloc_async(64, stream).unwrap()
    };
    sim.fill_words(memory, 7, 16, stream);
    sim.copy_device_to_device_async(result, memory, 4, stream)
        .unwrap();
    sim.mem_free_async(memory, stream).unwrap();
    let graph = sim.stream_end_capture(stream).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_clone(graph).fails(ResultCode::NOT_SUPPORTED);
    sim.graph_launch(exec, stream).unwrap();
    // The memory has one address, and lives until the launch is complete.
    destroy(sim, graph, exec);
    sim.stream_synchronize(stream).unwrap();
    assert_eq!(word(sim, result), 7);
    assert_eq!(sim.gpu.live_object_counts().device_bytes, before);
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn calls_that_a_capture_cannot_hold_are_refused() {
    let memory = words(sim, &[0]);
    let graph = sim.graph_create().unwrap();
    sim.graph_add(graph, &[], &GraphNode::Empty).unwrap();
    let exec = sim.graph_instantiate(graph).unwrap();
    let unsupported = ResultCode::STREAM_CAPTURE_UNSUPPORTED;
    let stream = capturing(sim);
    sim.try_host_function(stream, || ()).fails(unsupported);
    let _ = sim.stream_end_capture(stream);
    sim.stream_begin_capture(stream, LOCAL).unwrap();
    sim.graph_upload(exec, stream).fails(unsupported);
    let _ = sim.stream_end_capture(stream);
    sim.stream_begin_capture(stream, LOCAL).unwrap();
    sim.mem_free_async(memory, stream).fails(unsupported);
    let _ = sim.stream_end_capture(stream);
    // Nothing was freed.
    assert_eq!(word(sim, memory), 0);
    destroy(sim, graph, exec);
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn a_destroyed_stream_leaves_its_branch_in_the_capture_to_be_joined_or_not() {
    let memory = words(sim, &[0]);
    for joined in [true, false] {
        let (origin, branch) = (capturing(sim), sim.stream());
        // Work from before the capture keeps the stream alive until it has run.
        let hold = sim.hold(branch);
        let fork = sim.recorded(origin);
        sim.stream_wait_event(branch, fork).unwrap();
        sim.fill_words(memory, 7, 1, branch);
        let join = sim.recorded(branch);
        sim.stream_destroy(branch).unwrap();
        drop(hold);
        if joined {
            sim.stream_wait_event(origin, join).unwrap();
        }
        sim.event_destroy(join).unwrap();
        let ended = sim.stream_end_capture(origin);
        if joined {
            launch(sim, ended.unwrap(), origin);
            assert_eq!(word(sim, memory), 7);
        } else {
            ended.fails(ResultCode::STREAM_CAPTURE_UNJOINED);
        }
        assert_eq!(sim.gpu.live_object_counts().graphs, 0);
    }
    sim.assert_clean();
}

#[run_by(by_default, |sim|)]
fn a_capture_ends_without_a_graph_when_its_origin_is_destroyed() {
    let (origin, other) = (sim.stream(), sim.stream());
    sim.stream_begin_capture(origin, CaptureMode::Global)
        .unwrap();
    let event = sim.event();
    sim.event_record(event, origin).unwrap();
    sim.stream_wait_event(other, event).unwrap();
    sim.stream_destroy(origin).unwrap();
    let info = sim.stream_capture_info(other).unwrap();
    assert_eq!(info.status, CaptureStatus::None);
    // The mode of the capture forbids this while the capture lasts.
    let memory = sim.mem_alloc(4).unwrap();
    sim.fill_words(memory, 0, 1, other);
    sim.stream_synchronize(other).unwrap();
    assert_eq!(word(sim, memory), 0);
    assert_eq!(sim.gpu.live_object_counts().graphs, 0);
    sim.assert_clean();
}
