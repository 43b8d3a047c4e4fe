//! Kernels that wait for another kernel, for the host, or for nothing that can come.

use millstream_sim::ReplayStatus;

use crate::rules::{prelude::*, sim_harness::SCHEDULES};

pub(crate) const POLLING: &str = include_str!("polling.ptx");

/// A flag with a datum behind it, the result, and two streams.
pub(crate) struct Scene<'a> {
    sim: &'a SimHarness,
    pub(crate) flag: DevicePtr,
    pub(crate) result: DevicePtr,
    pub(crate) streams: [StreamHandle; 2],
}

impl<'a> Scene<'a> {
    pub(crate) fn new(sim: &'a SimHarness) -> Self {
        Self {
            sim,
            flag: words(sim, &[0, 0]),
            result: words(sim, &[0]),
            streams: [sim.stream(), sim.stream()],
        }
    }

    pub(crate) fn launch(&self, name: &str, stream: usize, args: &[Arg]) {
        let function = self.sim.kernel(POLLING, name);
        let stream = self.streams[stream];
        self.sim.launch(function, (1, 1), stream, args).unwrap();
    }

    pub(crate) fn wait(&self) {
        self.launch("wait", 0, &self.args());
    }

    pub(crate) fn set(&self) {
        self.launch("set", 1, &self.args());
    }

    pub(crate) fn args(&self) -> [Arg; 2] {
        [Arg::Pointer(self.flag), Arg::Pointer(self.result)]
    }

    pub(crate) fn result(&self) -> u32 {
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

#[run_by(each_schedule_and_replay, |sim|)]
fn n7_a_kernel_waits_for_a_kernel_of_another_stream() {
    let scene = Scene::new(sim);
    scene.wait();
    scene.set();
    sim.context_synchronize().unwrap();
    assert_eq!(scene.result(), 42);
    // The polls are not counted, but for those before the kernel was found to wait.
    assert!(sim.gpu.kernel_stats().warp_instructions < 1000);
    sim.assert_clean();
}

#[run_by(each_schedule_and_replay, |sim|)]
fn n7_a_kernel_waits_for_a_flag_that_the_host_sets_without_a_call() {
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
}

#[run_by(each_schedule_and_replay, |sim|)]
fn n7_a_kernel_that_nothing_can_wake_fails_at_once_with_both_places() {
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
}

#[run_by(each_schedule_and_replay, |sim|)]
fn two_kernels_that_take_turns_both_end() {
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

#[run_by(each_schedule, |sim|)]
fn blocks_wait_with_one_thread_at_a_barrier_and_for_a_fill() {
    let scene = Scene::new(sim);
    let function = sim.kernel(POLLING, "wait_in_blocks");
    let args = scene.args();
    sim.launch(function, (3, 64), scene.streams[0], &args)
        .unwrap();
    sim.fill(scene.flag, 1, 4, scene.streams[1]);
    sim.context_synchronize().unwrap();
    assert_eq!(scene.result(), 3 * 64);
}

#[run_by(each_schedule, |sim|)]
fn a_kernel_waits_for_a_host_function_and_for_other_threads_of_the_host() {
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

#[run_by(each_schedule_and_replay, |sim|)]
fn a_host_that_queries_lets_kernels_wait_for_each_other() {
    let scene = Scene::new(sim);
    scene.wait();
    for _ in 0..50 {
        assert!(sim.pending(scene.streams[0]));
    }
    scene.set();
    while sim.pending(scene.streams[0]) {}
    assert_eq!(scene.result(), 42);
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

#[run_by(each_schedule, |sim|)]
fn a_host_that_pauses_for_long_counts_as_blocked() {
    let scene = Scene::new(sim);
    scene.wait();
    while sim.gpu.virtual_time_ns() < 1_000_000 {
        assert!(sim.pending(scene.streams[0]));
    }
    sim.gpu.pause(Duration::from_secs(1));
    assert!(sim.pending(scene.streams[0]));
    sim.gpu.pause(Duration::from_secs(9));
    sim.gpu.pause(Duration::from_secs(1));
    sim.stream_query(scene.streams[0])
        .fails(ResultCode::LAUNCH_TIMEOUT);
}

#[test]
fn a_replay_sees_a_write_of_the_host_when_the_run_before_saw_it() {
    let run = |config, early: bool| {
        let sim = SimHarness::new(config);
        let scene = Scene::new(&sim);
        let flag = sim.pinned(8);
        flag.fill(0);
        let args = [Arg::Pointer(flag.address()), Arg::Pointer(scene.result)];
        scene.launch("wait", 0, &args);
        let set = || flag.write(&[1, 0, 0, 0, 41, 0, 0, 0]);
        if early {
            set();
        }
        let pending = [(); 5].map(|()| sim.pending(scene.streams[0]));
        set();
        sim.stream_synchronize(scene.streams[0]).unwrap();
        (
            pending,
            scene.result(),
            sim.gpu.replay_token(),
            sim.gpu.replay_status(),
        )
    };
    let first = run(SimConfig::new().schedule(Schedule::Eager), false);
    assert_eq!((first.0, first.1), ([true; 5], 42));
    // The write comes earlier, as that of another thread may.
    let again = run(SimConfig::new().replay(first.2.clone()), true);
    assert_eq!((again.0, again.1, again.2), ([true; 5], 42, first.2));
    assert_eq!(again.3, ReplayStatus::Exactly);
}

#[test]
fn an_exhaustive_search_ends_with_kernels_that_wait() {
    let mut search = millstream_sim::Search::new();
    while let Some(gpu) = search.next_gpu(&SimConfig::new()) {
        let sim = SimHarness::over(gpu);
        let scene = Scene::new(&sim);
        scene.wait();
        scene.set();
        sim.context_synchronize().unwrap();
        assert_eq!(scene.result(), 42);
    }
    assert!(search.is_complete() && search.runs() > 1);
}

#[run_by(by_default, |sim|)]
fn blocks_on_all_cores_wait_by_plain_loads() {
    let scene = Scene::new(sim);
    let function = sim.kernel(POLLING, "wait_plainly");
    sim.launch(function, (3, 32), scene.streams[0], &scene.args())
        .unwrap();
    while sim.gpu.virtual_time_ns() < 1_000_000 {
        assert!(sim.pending(scene.streams[0]));
    }
    scene.launch("set_plainly", 1, &scene.args());
    sim.context_synchronize().unwrap();
    assert_eq!(scene.result(), 42);
}
