//! Kernels that wait for another kernel, for the host, or for nothing that can come.

use millstream_sim::ReplayStatus;

use crate::rules::{prelude::*, sim_harness::SCHEDULES};

pub(crate) const POLLING: &str = include_str!("polling.ptx");

/// A flag with a datum behind it, the result, and two streams.
struct Scene<'a> {
    sim: &'a SimHarness,
    flag: DevicePtr,
    result: DevicePtr,
    streams: [StreamHandle; 2],
}

impl<'a> Scene<'a> {
    fn new(sim: &'a SimHarness) -> Self {
        Self {
            sim,
            flag: words(sim, &[0, 0]),
            result: words(sim, &[0]),
            streams: [sim.stream(), sim.stream()],
        }
    }

    fn launch(&self, name: &str, stream: usize, args: &[Arg]) {
        let function = self.sim.kernel(POLLING, name);
        let stream = self.streams[stream];
        self.sim.launch(function, (1, 1), stream, args).unwrap();
    }

    fn wait(&self) {
        self.launch("wait", 0, &self.args());
    }

    fn set(&self) {
        self.launch("set", 1, &self.args());
    }

    fn args(&self) -> [Arg; 2] {
        [Arg::Pointer(self.flag), Arg::Pointer(self.result)]
    }

    fn result(&self) -> u32 {
        u32::from_le_bytes(
            self.sim
                .read(self.result, 4, self.streams[0])
                .try_into()
                .unwrap(),
        )
    }
}

/// Runs a program under every schedule, and again with the token of the run.
fn each_schedule_and_replay<R: PartialEq + std::fmt::Debug>(program: impl Fn(&SimHarness) -> R) {
    for schedule in SCHEDULES {
        let config = SimConfig::new().timeline(true).schedule(schedule);
        let run = |config| {
            let sim = SimHarness::new(config);
            let result = program(&sim);
            let reports = sim.gpu.reports();
            (
                result,
                reports,
                sim.gpu.timeline(),
                sim.gpu.replay_token(),
                sim,
            )
        };
        let first = run(config.clone());
        for again in [
            run(config),
            run(SimConfig::new().timeline(true).replay(first.3.clone())),
        ] {
            assert_eq!(first.0, again.0, "{schedule:?}");
            assert_eq!((&first.1, &first.2), (&again.1, &again.2), "{schedule:?}");
            assert_eq!(first.3, again.3, "{schedule:?}");
            let status = again.4.gpu.replay_status();
            assert!(
                matches!(status, ReplayStatus::NotAsked | ReplayStatus::Exactly),
                "{schedule:?} {status:?}"
            );
        }
    }
}

#[test]
fn n7_a_kernel_waits_for_a_kernel_of_another_stream() {
    each_schedule_and_replay(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        scene.set();
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 42);
        sim.assert_clean();
    });
}

#[test]
fn n7_a_kernel_waits_for_a_flag_that_the_host_sets_without_a_call() {
    each_schedule_and_replay(|sim| {
        let scene = Scene::new(sim);
        let flag = sim.pinned(8);
        flag.fill(0);
        let args = [Arg::Pointer(flag.address()), Arg::Pointer(scene.result)];
        scene.launch("wait", 0, &args);
        assert!(sim.pending(scene.streams[0]));
        flag.write(&[1, 0, 0, 0, 41, 0, 0, 0]);
        sim.stream_synchronize(scene.streams[0]).unwrap();
        assert_eq!(scene.result(), 42);
        sim.assert_clean();
    });
}

#[test]
fn n7_a_kernel_that_nothing_can_wake_fails_at_once_with_both_places() {
    each_schedule_and_replay(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        scene.launch("set", 0, &scene.args());
        let start = std::time::Instant::now();
        sim.stream_synchronize(scene.streams[0])
            .fails(ResultCode::LAUNCH_TIMEOUT);
        assert!(start.elapsed() < Duration::from_secs(5));
        let words = [
            "kernel `wait`, operation",
            "line 14 of the PTX",
            "waits for a change of byte 0 of allocation 1",
            "cuStreamSynchronize",
            "kernel `set`, operation",
        ];
        sim.assert_reported(ReportKind::KernelFault, &words);
    });
}

#[test]
fn two_kernels_that_take_turns_both_end() {
    each_schedule_and_replay(|sim| {
        let scene = Scene::new(sim);
        let turn = |stream, number| {
            scene.launch(
                "turns",
                stream,
                &[Arg::Pointer(scene.flag), Arg::U32(number)],
            );
        };
        turn(0, 1);
        turn(1, 0);
        sim.context_synchronize().unwrap();
        assert!(word(sim, scene.flag) >= 100);
        sim.assert_clean();
    });
}

#[test]
fn a_flag_orders_what_follows_both_kernels_and_a_plain_flag_races() {
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        // It reads the datum too, behind the kernel that has waited.
        let copy = sim.pinned(4);
        let datum = scene.flag.offset(4);
        sim.download(copy, datum, scene.streams[0]).unwrap();
        scene.set();
        sim.context_synchronize().unwrap();
        assert_eq!(copy.read(), [41, 0, 0, 0]);
        sim.assert_clean();
    });
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        scene.launch("wait_plainly", 0, &scene.args());
        scene.launch("set_plainly", 1, &scene.args());
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 42);
        sim.assert_reported(
            ReportKind::Race,
            &["kernel `wait_plainly`", "kernel `set_plainly`"],
        );
    });
}

#[test]
fn blocks_wait_with_one_thread_at_a_barrier_and_for_a_fill() {
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        let function = sim.kernel(POLLING, "wait_in_blocks");
        let args = scene.args();
        sim.launch(function, (3, 64), scene.streams[0], &args)
            .unwrap();
        sim.fill(scene.flag, 1, 4, scene.streams[1]);
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 3 * 64);
    });
}

#[test]
fn a_kernel_waits_for_a_host_function_and_for_other_threads_of_the_host() {
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        let flag = sim.pinned(8);
        flag.fill(0);
        let args = [Arg::Pointer(flag.address()), Arg::Pointer(scene.result)];
        scene.launch("wait", 0, &args);
        sim.host_function(scene.streams[1], move || {
            flag.write(&[1, 0, 0, 0, 41, 0, 0, 0])
        });
        sim.stream_synchronize(scene.streams[0]).unwrap();
        assert_eq!(scene.result(), 42);
        // A thread that has never called the driver writes, and another one launches.
        flag.fill(0);
        scene.launch("wait", 0, &args);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                flag.write(&[1, 0, 0, 0, 50, 0, 0, 0]);
            });
            sim.stream_synchronize(scene.streams[0]).unwrap();
        });
        assert_eq!(scene.result(), 51);
        scene.wait();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                scene.set();
            });
            sim.stream_synchronize(scene.streams[0]).unwrap();
        });
        assert_eq!(scene.result(), 42);
        sim.assert_clean();
    });
}

#[test]
fn the_host_waits_for_an_answer_in_memory_without_a_call() {
    for schedule in [Schedule::Timed, Schedule::Eager] {
        let sim = SimHarness::new(SimConfig::new().schedule(schedule));
        let scene = Scene::new(&sim);
        let (flag, answer) = (sim.pinned(8), sim.pinned(4));
        flag.fill(0);
        answer.fill(0);
        let args = [Arg::Pointer(flag.address()), Arg::Pointer(answer.address())];
        scene.launch("wait", 0, &args);
        // The timed schedule starts it once its latency has passed.
        while sim.gpu.virtual_time_ns() < 1_000_000 {
            assert!(sim.pending(scene.streams[0]));
        }
        flag.write(&[1, 0, 0, 0, 41, 0, 0, 0]);
        let start = std::time::Instant::now();
        while answer.read() != [42, 0, 0, 0] {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::yield_now();
        }
        sim.context_synchronize().unwrap();
        sim.assert_clean();
    }
}

#[test]
fn a_host_that_queries_lets_kernels_wait_for_each_other() {
    each_schedule_and_replay(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        for _ in 0..50 {
            assert!(sim.pending(scene.streams[0]));
        }
        scene.set();
        while sim.pending(scene.streams[0]) {}
        assert_eq!(scene.result(), 42);
    });
}

#[test]
fn branches_of_a_graph_wait_for_each_other_and_bodies_for_nothing() {
    each_schedule(|sim| {
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
    });
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

#[test]
fn a_kernel_that_waits_on_a_stream_with_a_full_queue_fails_at_once() {
    each_schedule_with(SimConfig::new().queue_operations_max(2), |sim| {
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
    });
}

#[test]
fn kernels_of_two_devices_and_with_a_heap_wait() {
    each_schedule_with(SimConfig::new().devices(2), |sim| {
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
    });
}

#[test]
fn memory_that_is_freed_under_a_poll_is_a_fault() {
    each_schedule(|sim| {
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
    });
}

#[test]
fn r63_the_strict_reading_reports_a_kernel_that_another_one_has_to_wake() {
    for strict in [false, true] {
        let rules = if strict {
            Rules::strict()
        } else {
            Rules::observed()
        };
        let config = SimConfig::new().rules(rules).schedule(Schedule::Eager);
        let sim = SimHarness::new(config);
        let scene = Scene::new(&sim);
        scene.wait();
        scene.set();
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 42);
        if strict {
            let words = [
                "kernel `wait`, operation",
                "line 14 of the PTX",
                "kernel `set`, operation",
                "relies on two kernels running together",
            ];
            sim.assert_reported(ReportKind::ReliesOnConcurrency, &words);
        } else {
            sim.assert_clean();
        }
    }
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
fn a_host_that_pauses_for_long_counts_as_blocked() {
    each_schedule(|sim| {
        let scene = Scene::new(sim);
        scene.wait();
        while sim.gpu.virtual_time_ns() < 1_000_000 {
            assert!(sim.pending(scene.streams[0]));
        }
        sim.gpu.pause(Duration::from_secs(1));
        assert!(sim.pending(scene.streams[0]));
        sim.gpu.pause(Duration::from_secs(9));
        sim.stream_query(scene.streams[0])
            .fails(ResultCode::LAUNCH_TIMEOUT);
    });
}
