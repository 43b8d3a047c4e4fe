//! G12: loops and conditions in graphs.

use std::sync::{Mutex, atomic::AtomicU32};

use millstream::graph::GraphOptions;

use crate::scenarios::prelude::*;

millstream::kernels! {
    // SAFETY: the kernels run in one thread, by their clauses, and access the first word of each
    // array.
    pub(crate) unsafe mod words from PTX {
        /// Decrements `left` and increments `sum`.
        pub(crate) safe fn count(left: &mut [u32], sum: &mut [u32])
            requires left.len() >= 1, sum.len() >= 1,
                grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.x * grid.block.y * grid.block.z == 1;
        /// Sets `sum` to `2 * sum + 1`.
        pub(crate) safe fn grow(sum: &mut [u32])
            requires sum.len() >= 1, grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.x * grid.block.y * grid.block.z == 1;
    }
}

const PTX: &str = include_str!("loops.ptx");

/// The time in which another thread's work would come between the steps of a replay.
const GRACE: Duration = Duration::from_millis(10);

pub(crate) fn one_thread() -> LaunchConfig {
    LaunchConfig::new([1, 1, 1], [1, 1, 1])
}

/// Records a loop that counts `left` down, in at most `most` iterations.
fn counting(
    kernels: &words::Kernels,
    r: &GraphRecorder,
    most: u32,
    left: &mut Buffer<u32>,
    sum: &mut Buffer<u32>,
) -> Result<()> {
    r.while_loop(left, most, |body, left| {
        kernels.count(&body.stream()?, one_thread(), left, sum)
    })
}

fn without_conditional_nodes(calls: &Calls) {
    calls.fail(|call| {
        (call == "graph_condition").then(|| DriverError::new(call, ResultCode::NOT_SUPPORTED))
    });
}

pub(crate) fn with_and_without_conditional_nodes(run: impl Fn(&Harness) -> Result<()>) {
    counted_scenario(|harness, _| run(harness));
    counted_scenario(|harness, calls| {
        without_conditional_nodes(calls);
        let outcome = run(harness);
        calls.fail_no_more();
        outcome
    });
}

fn read(stream: &Stream, word: &Buffer<u32>) -> Result<u32> {
    Ok(stream.values(word)?[0])
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_a_loop_ends_by_its_flag_in_each_replay() -> Result<()> {
    let [stream, other] = harness.streams();
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[5_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    let mut copy = stream.zeros::<u32>(1)?;
    let graph = harness.record("loop", |r| {
        let recorded = r.stream()?;
        recorded.fill(&mut sum, 100)?;
        counting(&kernels, r, 50, &mut left, &mut sum)?;
        recorded.copy(&sum, &mut copy)
    })?;
    assert_eq!(graph.figures().nodes, 4);
    graph.replay(&stream)?;
    let first = other.download(&copy)?;
    other.fill(&mut left, 7)?;
    graph.replay(&other)?;
    assert_eq!(first.wait()?, [105]);
    assert_eq!(read(&stream, &copy)?, 107);
    // A flag that is not set.
    graph.replay(&stream)?;
    assert_eq!((read(&stream, &copy)?, read(&stream, &left)?), (100, 0));
    other.fill(&mut left, 3)?;
    graph.replay_stepwise(&stream)?;
    assert_eq!(read(&other, &copy)?, 103);
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_a_loop_that_ends_by_its_limit_is_reported_by_the_next_host_read() -> Result<()> {
    let [stream, other] = harness.streams();
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[9_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    let graph = harness.record("limited", |r| counting(&kernels, r, 4, &mut left, &mut sum))?;
    graph.replay(&stream)?;
    let mut derived = other.zeros::<u32>(1)?;
    other.copy(&sum, &mut derived)?;
    assert_is!(
        read(&other, &derived),
        Err(Error::LoopLimit {
            graph: "limited",
            replay: 1,
            iterations_max: 4,
            ..
        })
    );
    // It is reported once, and the values are those after four iterations.
    assert_eq!(read(&other, &derived)?, 4);
    assert_eq!((read(&stream, &left)?, read(&stream, &sum)?), (5, 4));
    // The second replay ends at its limit, too, and the third by its flag, in its first
    // iteration: the note is not lost.
    graph.replay(&stream)?;
    graph.replay(&other)?;
    assert!(matches!(read(&stream, &sum), Err(Error::LoopLimit { .. })));
    assert_eq!((read(&stream, &left)?, read(&stream, &sum)?), (0, 9));
    // A limit equal to the number of iterations is none that is reached.
    other.fill(&mut left, 4)?;
    graph.replay_times(&stream, 2)?;
    graph.replay_stepwise(&stream)?;
    assert_eq!((read(&stream, &left)?, read(&stream, &sum)?), (0, 13));
    Ok(())
}

/// Checks that a replay's limit is reported.
fn assert_limit<T: std::fmt::Debug>(read: Result<T>, expected: u64) {
    match read {
        Err(Error::LoopLimit { replay, .. }) => assert_eq!(replay, expected),
        other => panic!("the limit of replay {expected} is reported: {other:?}"),
    }
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_a_limit_is_reported_by_reads_of_the_replay_that_reached_it() -> Result<()> {
    let [stream, other] = harness.streams();
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[2_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    let graph = harness.record("limited", |r| counting(&kernels, r, 4, &mut left, &mut sum))?;
    graph.replay(&stream)?;
    let by_flag = stream.download(&sum)?;
    stream.fill(&mut left, 9)?;
    graph.replay(&stream)?;
    let by_limit = other.download(&sum)?;
    // Read when both are complete, the second first.
    assert_limit(by_limit.wait(), 2);
    assert_eq!(by_flag.wait()?, [2]);
    // Of two limits a read returns the last.
    stream.fill(&mut left, 9)?;
    graph.replay(&other)?;
    graph.replay(&stream)?;
    let both = stream.download(&sum)?;
    assert_limit(both.wait(), 4);
    assert_eq!((read(&stream, &left)?, read(&other, &sum)?), (1, 14));
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_of_the_replays_of_a_graph_that_reached_a_limit_a_read_returns_the_last() -> Result<()> {
    let [stream, other] = harness.streams();
    let mut flag = stream.upload(&[1_u32])?;
    let (mut x, mut copy) = (stream.zeros::<u32>(4)?, stream.zeros::<u32>(4)?);
    let mut record =
        |r: &GraphRecorder| r.while_loop(&mut flag, 2, |b, _| b.stream()?.fill(&mut x, 7));
    let device = &harness.device;
    device.record("endless", &mut record)?.replay(&stream)?;
    let graph = device.record("endless", &mut record)?;
    for round in 0..20 {
        graph.replay([&stream, &other][round % 2])?;
        stream.synchronize()?;
    }
    other.copy(&x, &mut copy)?;
    graph.replay(&stream)?;
    let [first, second] = [other.download(&x)?, stream.download(&x)?];
    assert_limit(first.wait(), 21);
    assert_eq!(second.wait()?, [7; 4]);
    assert_limit(stream.download(&copy)?.wait(), 20);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream, other]|)]
fn g12_work_of_other_threads_runs_before_or_behind_a_loop_that_the_host_runs() -> Result<()> {
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[6_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    without_conditional_nodes(calls);
    let graph = harness.record("host", |r| counting(&kernels, r, 50, &mut left, &mut sum));
    calls.fail_no_more();
    let graph = graph?;
    // At the third look the other thread begins, and gets some time.
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let (ended, looks) = (Mutex::new(ended), AtomicU32::new(0));
    calls.fail(move |call| {
        if call == "copy_device_to_host_async" && looks.fetch_add(1, Ordering::Relaxed) == 2 {
            begin.send(()).ok();
            ended.lock().unwrap().recv_timeout(GRACE).ok();
        }
        None
    });
    let target = &mut sum;
    let outcome = thread::scope(|scope| {
        let filling = scope.spawn(move || {
            begun.recv().expect("there are three looks");
            let filled = other.fill(target, 100);
            end.send(()).ok();
            filled
        });
        graph.replay(&stream)?;
        filling.join().expect("the thread does not panic")
    });
    calls.fail_no_more();
    outcome?;
    assert_eq!((read(&stream, &left)?, read(&stream, &sum)?), (0, 100));
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_loops_that_reach_their_limits_at_the_same_time_do_not_race() -> Result<()> {
    let stream = harness.stream();
    let mut flags = stream.upload(&[1_u32])?;
    let mut other_flag = stream.upload(&[1_u32])?;
    let (mut x, mut y) = (stream.zeros::<u32>(4)?, stream.zeros::<u32>(4)?);
    let graph = harness.record("two loops", |r| {
        r.while_loop(&mut flags, 2, |body, _| body.stream()?.fill(&mut x, 1))?;
        r.while_loop(&mut other_flag, 3, |body, _| body.stream()?.fill(&mut y, 2))
    })?;
    assert_eq!(graph.figures().edges, 0);
    graph.replay(&stream)?;
    assert_limit(stream.download(&x)?.wait(), 1);
    assert_eq!(stream.values(&x)?, [1; 4]);
    assert_eq!(stream.values(&y)?, [2; 4]);
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_bodies_contain_loops_conditions_and_memory_of_the_graph() -> Result<()> {
    let stream = harness.stream();
    let kernels = words::load(&harness.device)?;
    let mut outer = stream.upload(&[3_u32])?;
    let twos = stream.upload(&[2_u32])?;
    let mut rounds = stream.zeros::<u32>(1)?;
    let mut sum = stream.zeros::<u32>(1)?;
    let (mut never, zero) = (stream.zeros::<u32>(1)?, stream.zeros::<u32>(1)?);
    let graph = harness.record("nested", |r| {
        r.while_loop(&mut outer, 10, |r, outer| {
            let recorded = r.stream()?;
            let mut inner = recorded.zeros::<u32>(1)?;
            recorded.copy(&twos, &mut inner)?;
            counting(&kernels, r, 10, &mut inner, &mut sum)?;
            r.if_(&*outer, |r| {
                kernels.grow(&r.stream()?, one_thread(), &mut sum)
            })?;
            r.if_(&zero, |r| r.stream()?.fill(&mut never, 1))?;
            kernels.count(&recorded, one_thread(), outer, &mut rounds)
        })
    })?;
    let instance = graph.instance()?;
    // Each round: add 2, then double and add 1. From 0: 5, 15, 35; from 35: 75, 155, 315.
    graph.replay(&stream)?;
    assert_eq!((read(&stream, &sum)?, read(&stream, &rounds)?), (35, 3));
    stream.fill(&mut outer, 3)?;
    instance.replay(&stream)?;
    assert_eq!((read(&stream, &sum)?, read(&stream, &rounds)?), (315, 6));
    assert_eq!(read(&stream, &never)?, 0);
    assert!(graph.figures().body_bytes > 0);
    let dot = graph.to_dot();
    for part in ["at most 10 iterations", "once or never", "cluster_0."] {
        assert!(dot.contains(part), "{part}: {dot}");
    }
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_a_graph_with_a_loop_is_replayed_in_the_body_of_another_loop() -> Result<()> {
    let stream = harness.stream();
    let kernels = words::load(&harness.device)?;
    let mut outer = stream.upload(&[3_u32])?;
    let mut rounds = stream.zeros::<u32>(1)?;
    let mut left = stream.upload(&[2_u32])?;
    let (twos, mut sum) = (stream.upload(&[2_u32])?, stream.zeros::<u32>(1)?);
    let inner = harness.record("inner", |r| {
        r.stream()?.copy(&twos, &mut left)?;
        counting(&kernels, r, 2, &mut left, &mut sum)
    })?;
    let graph = harness.record("outer", |r| {
        r.while_loop(&mut outer, 2, |r, outer| {
            let recorded = r.stream()?;
            inner.replay(&recorded)?;
            kernels.count(&recorded, one_thread(), outer, &mut rounds)
        })
    })?;
    graph.replay(&stream)?;
    // The limit is that of the outer loop, whose number follows that of the inner one.
    assert_is!(
        read(&stream, &sum),
        Err(Error::LoopLimit {
            graph: "outer",
            iterations_max: 2,
            ..
        })
    );
    assert_eq!((read(&stream, &sum)?, read(&stream, &rounds)?), (4, 2));
    Ok(())
}

#[run_by(with_and_without_conditional_nodes, |harness|)]
fn g12_changes_reach_into_bodies() -> Result<()> {
    let stream = harness.stream();
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[2_u32])?;
    let (mut sum, mut other_sum) = (stream.zeros::<u32>(1)?, stream.zeros::<u32>(1)?);
    let mut other_left = stream.upload(&[3_u32])?;
    let mut graph = harness.record("changed", |r| counting(&kernels, r, 9, &mut left, &mut sum))?;
    graph.replay(&stream)?;
    graph.swap(&left, &mut other_left)?;
    graph.swap(&sum, &mut other_sum)?;
    graph.replay(&stream)?;
    assert_eq!((read(&stream, &sum)?, read(&stream, &other_sum)?), (2, 3));
    assert_says(&problem(graph.node("count")), "in the body");
    stream.fill(&mut left, 8)?;
    graph.update(|r| counting(&kernels, r, 5, &mut left, &mut sum))?;
    graph.replay(&stream)?;
    assert!(matches!(read(&stream, &sum), Err(Error::LoopLimit { .. })));
    assert_eq!((read(&stream, &left)?, read(&stream, &sum)?), (3, 7));
    graph.update(|r| r.stream()?.fill(&mut sum, 1))?;
    graph.replay(&stream)?;
    assert_eq!(read(&stream, &sum)?, 1);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn g12_the_host_may_enqueue_several_iterations_between_two_looks() -> Result<()> {
    let kernels = words::load(&harness.device)?;
    let mut left = stream.upload(&[4_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    let mut looks = Vec::new();
    for iterations in [0, 2] {
        stream.fill(&mut left, 4)?;
        without_conditional_nodes(calls);
        let options = GraphOptions::new().iterations_per_look(iterations);
        let graph = harness.device.record_with("looks", options, |r| {
            counting(&kernels, r, 100, &mut left, &mut sum)
        });
        calls.fail_no_more();
        calls.forget();
        graph?.replay(&stream)?;
        looks.push(calls.count("copy_device_to_host_async"));
        assert_eq!(read(&stream, &left)?, 0);
    }
    assert_eq!(looks, [5, 3]);
    assert_eq!(read(&stream, &sum)?, 8);
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn g12_a_body_that_fails_is_no_part_of_the_graph() -> Result<()> {
    let mut flag = stream.upload(&[1_u32])?;
    let (mut x, short) = (stream.zeros::<u32>(4)?, stream.zeros::<u32>(3)?);
    let graph = harness.record("failing", |r| {
        let outside = r.stream()?;
        let failed = r.while_loop(&mut flag, 3, |body, flag| {
            let inside = body.stream()?;
            inside.fill(flag, 0)?;
            assert_says(&problem(outside.fill(&mut x, 8)), "body's recorder");
            assert!(r.if_(&short, |_| Ok(())).is_err());
            inside.copy(&short, &mut x)
        });
        assert!(matches!(problem(failed), UsageErrorKind::Length { .. }));
        outside.fill(&mut x, 7)
    })?;
    assert_eq!(graph.figures().nodes, 1);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [7; 4]);
    assert_eq!(read(&stream, &flag)?, 1);
    Ok(())
}

#[run_by(once, |harness|)]
fn loops_that_cannot_be_recorded_are_refused() -> Result<()> {
    let stream = harness.stream();
    let mut flag = stream.upload(&[1_u32])?;
    let mut empty = stream.zeros::<u32>(0)?;
    let managed = harness.device.managed::<u32>(1)?;
    let elsewhere = millstream::Device::simulated()?;
    let mut far = elsewhere.stream()?.zeros::<u32>(1)?;
    let refused = |attempt: &mut dyn FnMut(&GraphRecorder) -> Result<()>| {
        problem(harness.record("refused", |r| attempt(r))).to_string()
    };
    let zero = refused(&mut |r| r.while_loop(&mut flag, 0, |_, _| Ok(())));
    assert!(zero.contains("at most 0 iterations"), "{zero}");
    let none = refused(&mut |r| r.while_loop(&mut empty, 1, |_, _| Ok(())));
    assert!(none.contains("has no element"), "{none}");
    let shared = refused(&mut |r| r.if_(&managed, |_| Ok(())));
    assert!(shared.contains("the host can use"), "{shared}");
    let other = refused(&mut |r| r.while_loop(&mut far, 1, |_, _| Ok(())));
    assert!(other.contains("flag"), "{other}");
    let download = refused(&mut |r| {
        r.while_loop(&mut flag, 1, |body, flag| {
            body.stream()?.download(&*flag)?.wait().map(drop)
        })
    });
    assert!(download.contains("behind the replay"), "{download}");
    Ok(())
}
