//! Kernels that wait in graphs, in contexts that end, on several devices, and with checks of races.

use crate::rules::{
    prelude::*,
    waiting::{POLLING, Scene},
};

#[run_by(each_schedule, |sim|)]
fn branches_of_a_graph_wait_for_each_other_and_bodies_for_nothing() {
    let scene = Scene::new(sim);
    let [wait, set] = ["wait", "set"].map(|name| sim.kernel(POLLING, name));
    let args = [scene.flag.as_raw(), scene.result.as_raw()];
    let graph = sim.graph_create().unwrap();
    kernel(sim, graph, &[], wait, args);
    kernel(sim, graph, &[], set, args);
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, scene.streams[0]).unwrap();
    sim.stream_synchronize(scene.streams[0]).unwrap();
    assert_eq!(scene.result(), 42);
    destroy(sim, graph, exec);
    sim.assert_clean();
    sim.fill(scene.flag, 0, 8, scene.streams[0]);
    let graph = sim.graph_create().unwrap();
    let condition = sim.graph_condition(graph, 1).unwrap();
    let kind = millstream_driver::ConditionalKind::If;
    let node = sim
        .graph_add_conditional(graph, &[], condition, kind)
        .unwrap();
    kernel(sim, node.body, &[], wait, args);
    kernel(sim, graph, &[], set, args);
    let exec = sim.graph_instantiate(graph).unwrap();
    sim.graph_launch(exec, scene.streams[0]).unwrap();
    // Unless the other node ran first.
    if sim.stream_synchronize(scene.streams[0]).is_err() {
        let words = ["kernel `wait`", "no other operation runs beside a body"];
        sim.assert_reported(ReportKind::KernelFault, &words);
    }
}

#[test]
fn a_kernel_that_waits_is_lost_with_its_context_and_fails_when_that_ends() {
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        let fails = sim.kernel(SET, "fails");
        sim.launch(fails, (1, 1), scene.streams[1], &[]).unwrap();
        sim.stream_synchronize(scene.streams[1])
            .fails(ResultCode::LAUNCH_FAILED);
        sim.stream_synchronize(scene.streams[0])
            .fails(ResultCode::LAUNCH_FAILED);
        assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    });
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        let _ = sim.stream_destroy(scene.streams[0]);
        sim.release_context().unwrap();
        sim.assert_reported(
            ReportKind::KernelFault,
            &["waits for a change", "cuDevicePrimaryCtxRelease"],
        );
        assert_eq!(sim.gpu.live_object_counts().pending_operations, 0);
    });
    // A program may end while a kernel waits.
    each_schedule(|sim| Scene::new(sim).wait());
}

#[run_by(each_schedule_with(SimConfig::new().queue_operations_max(2)), |sim|)]
fn a_kernel_that_waits_on_a_stream_with_a_full_queue_fails_at_once() {
    let scene = Scene::new(sim);
    scene.wait();
    scene.launch("set", 0, &scene.args());
    let set = sim.kernel(POLLING, "set");
    let args = scene.args();
    sim.launch(set, (1, 1), scene.streams[0], &args)
        .fails(ResultCode::LAUNCH_TIMEOUT);
    sim.assert_reported(
        ReportKind::KernelFault,
        &["the host waits in cuLaunchKernel"],
    );
}

#[run_by(each_schedule_with(SimConfig::new().devices(2)), |sim|)]
fn kernels_of_two_devices_and_with_a_heap_wait() {
    let scene = Scene::new(sim);
    let other = sim.on_device(1);
    let flag = sim.managed(8);
    flag.fill(0);
    let args = [Arg::Pointer(flag.address()), Arg::Pointer(scene.result)];
    scene.launch("wait_with_block", 0, &args);
    let set = other.kernel(POLLING, "set");
    other.launch(set, (1, 1), other.stream(), &args).unwrap();
    sim.stream_synchronize(scene.streams[0]).unwrap();
    assert_eq!(scene.result(), 42);
    assert_eq!(sim.gpu.printf_output(), "begin\n");
    sim.assert_clean();
}

#[run_by(each_schedule, |sim|)]
fn memory_that_is_freed_under_a_poll_is_a_fault() {
    let scene = Scene::new(sim);
    let flag = sim.mem_alloc_async(8, scene.streams[1]).unwrap();
    sim.fill(flag, 0, 8, scene.streams[1]);
    sim.stream_synchronize(scene.streams[1]).unwrap();
    let args = [Arg::Pointer(flag), Arg::Pointer(scene.result)];
    scene.launch("wait", 0, &args);
    while sim.gpu.virtual_time_ns() < 1_000_000 {
        assert!(sim.pending(scene.streams[0]));
    }
    sim.mem_free_async(flag, scene.streams[1]).unwrap();
    let _ = sim.stream_synchronize(scene.streams[1]);
    sim.stream_synchronize(scene.streams[0])
        .fails(ResultCode::ILLEGAL_ADDRESS);
    sim.assert_reported(ReportKind::FreeInFlight, &["kernel `wait`"]);
}

#[test]
fn a_check_of_races_within_kernels_goes_up_to_the_first_wait() {
    let config = SimConfig::new().kernel_race_check(true);
    each_schedule_with(config, |sim| {
        let scene = Scene::new(sim);
        let function = sim.kernel(POLLING, "wait_in_blocks");
        let args = scene.args();
        sim.launch(function, (3, 64), scene.streams[0], &args)
            .unwrap();
        scene.set();
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 3 * 64);
        sim.assert_clean();
    });
}

#[test]
fn accesses_before_a_wait_and_at_the_end_of_a_long_loop_are_checked() {
    for name in ["store_and_wait", "store_late"] {
        let sim = SimHarness::new(SimConfig::new().schedule(Schedule::Eager));
        let scene = Scene::new(&sim);
        scene.launch(name, 0, &scene.args());
        sim.fill(scene.result, 0, 4, scene.streams[1]);
        if name == "store_and_wait" {
            scene.set();
        }
        sim.context_synchronize().unwrap();
        sim.assert_reported(ReportKind::Race, &[name, "fill"]);
    }
}
