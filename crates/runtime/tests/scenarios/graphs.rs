//! Scenarios G, and A13: graphs that are recorded once and replayed.

use crate::scenarios::prelude::*;

/// Records `target = source + source`, through an array that is made inside.
pub(crate) fn doubling(
    harness: &Harness,
    source: &Buffer<f32>,
    target: &mut Buffer<f32>,
) -> Result<Graph> {
    let kernels = sums::load(&harness.device)?;
    harness.record("doubling", |r| {
        let stream = r.stream()?;
        let mut sum = stream.zeros::<f32>(source.len())?;
        kernels.vecadd(&stream, N, source, source, &mut sum, N as u64)?;
        stream.copy(&sum, target)
    })
}

fn counting(harness: &Harness, x: &mut Buffer<f32>, ones: &Buffer<f32>) -> Result<Graph> {
    let kernels = sums::load(&harness.device)?;
    harness.record("counting", |r| increment(&kernels, &r.stream()?, x, ones))
}

/// Adds an array to another through a temporary array.
pub(crate) fn increment(
    kernels: &sums::Kernels,
    stream: &Stream,
    x: &mut Buffer<f32>,
    ones: &Buffer<f32>,
) -> Result<()> {
    let mut sum = stream.zeros::<f32>(x.len())?;
    kernels.vecadd(stream, N, &*x, ones, &mut sum, x.len() as u64)?;
    stream.copy(&sum, x)
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
pub(crate) fn a13_a_recording_and_a_replay_are_ordered_with_pending_work() -> Result<()> {
    let mut a = s1.upload(&vec![1.0_f32; N])?;
    let mut b = s1.zeros::<f32>(N)?;
    // Before any gate is closed, because loading waits for running kernels on a GPU.
    sums::load(&harness.device)?;
    let gate = harness.gate(&s2);
    s2.fill(&mut a, 7.0)?;
    let graph = doubling(harness, &a, &mut b)?;
    graph.replay(&s3)?;
    assert_eq!(harness.opened(gate, s1.download(&b)?), [14.0; N]);

    let gate = harness.gate(&s3);
    graph.replay(&s3)?;
    s1.fill(&mut a, 3.0)?;
    assert_eq!(harness.opened(gate, s2.download(&a)?), [3.0; N]);
    assert_eq!(s2.values(&b)?, [14.0; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn g01_a_graph_keeps_operands_whose_handles_are_dropped() -> Result<()> {
    let a = s1.upload(&vec![2.0_f32; N])?;
    let mut b = s1.zeros::<f32>(N)?;
    let graph = doubling(harness, &a, &mut b)?;
    drop(a);
    // Arrays of the size of the dropped one take no memory that the graph uses.
    let others: Vec<_> = (0..4)
        .map(|_| s2.upload(&vec![9.0_f32; N]))
        .collect::<Result<_>>()?;
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    drop(graph);
    let value = s2.download(&b)?;
    drop(b);
    let more = s2.upload(&vec![8.0_f32; N])?;
    gate.open();
    assert_eq!(value.wait()?, [4.0; N]);
    assert_eq!(s2.values(&more)?, [8.0; N]);
    for other in &others {
        assert_eq!(s1.values(other)?, [9.0; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn g02_a_graph_is_dropped_while_a_replay_is_in_flight() -> Result<()> {
    let a = s1.upload(&vec![2.0_f32; N])?;
    let mut b = s1.zeros::<f32>(N)?;
    let graph = doubling(harness, &a, &mut b)?;
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    let value = s1.download(&b)?;
    drop(graph);
    harness.assert_pending(&value);
    // Arrays of the size of the graph's own memory.
    let fresh: Vec<_> = (0..3)
        .map(|_| s2.upload(&vec![5.0_f32; N]))
        .collect::<Result<_>>()?;
    gate.open();
    assert_eq!(value.wait()?, [4.0; N]);
    for array in &fresh {
        assert_eq!(s2.values(array)?, [5.0; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
fn g03_a_write_between_two_replays_is_seen_by_the_second_alone() -> Result<()> {
    let mut a = s1.upload(&vec![1.0_f32; N])?;
    let mut b = s1.zeros::<f32>(N)?;
    let graph = doubling(harness, &a, &mut b)?;
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    let first = s3.download(&b)?;
    s2.upload_into(&vec![5.0; N], &mut a)?;
    graph.replay(&s1)?;
    let second = s3.download(&b)?;
    s2.fill(&mut b, 0.0)?;
    graph.replay(&s3)?;
    gate.open();
    assert_eq!(first.wait()?, [2.0; N]);
    assert_eq!(second.wait()?, [10.0; N]);
    assert_eq!(s2.values(&b)?, [10.0; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn g04_two_threads_that_replay_one_graph_lose_no_update() -> Result<()> {
    const EACH: usize = 5;
    let stream = harness.stream();
    let mut x = stream.zeros::<f32>(N)?;
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let graph = counting(harness, &mut x, &ones)?;
    let replay =
        |stream: Stream| -> Result<()> { (0..EACH).try_for_each(|_| graph.replay(&stream)) };
    let [s1, s2] = harness.streams();
    thread::scope(|scope| {
        let threads = [s1, s2].map(|stream| scope.spawn(|| replay(stream)));
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread does not panic"))
    })?;
    assert_eq!(stream.values(&x)?, [2.0 * EACH as f32; N]);
    assert_eq!(graph.figures().launches, 2 * EACH as u64);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn g05_instances_overlap_and_graphs_that_share_memory_do_not() -> Result<()> {
    let a = s1.upload(&vec![1.0_f32; N])?;
    let (mut b, mut c) = (s1.zeros::<f32>(N)?, s1.zeros::<f32>(N)?);
    let graph = doubling(harness, &a, &mut b)?;
    let mut second = graph.instance()?;
    second.swap(&b, &mut c)?;
    // Orders the second stream after the uploads of the first, in front of the gate.
    second.replay(&s2)?;
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    second.replay(&s2)?;
    // The replay of the second does not wait for that of the first.
    assert_eq!(s2.values(&c)?, [2.0; N]);
    assert_eq!(harness.opened(gate, s1.download(&b)?), [2.0; N]);

    let kernels = sums::load(&harness.device)?;
    let sharing = harness.device.record_sharing(&graph, "sharing", |r| {
        let stream = r.stream()?;
        let mut sum = stream.zeros::<f32>(N)?;
        kernels.vecadd(&stream, N, &a, &a, &mut sum, N as u64)?;
        stream.copy(&sum, &mut c)
    })?;
    assert_eq!(
        sharing.figures().body_bytes,
        graph.figures().body_bytes,
        "one memory serves both"
    );
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    sharing.replay(&s2)?;
    assert_eq!(harness.opened(gate, s2.download(&c)?), [2.0; N]);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
fn g06_a_replay_on_one_half_of_an_array_does_not_wait_for_the_other() -> Result<()> {
    let mut a = s1.zeros::<u32>(2 * N)?;
    let graph = harness.record("half", |r| r.stream()?.fill(a.slice_mut(..N), 1))?;
    graph.replay(&s2)?;
    s2.fill(a.slice_mut(N..), 2)?;
    let gate = harness.gate(&s1);
    s1.fill(a.slice_mut(N..), 3)?;
    calls.forget();
    graph.replay(&s2)?;
    let half = s2.download(a.slice(..N))?;
    harness.assert_count(calls, "stream_wait_event", 0);
    assert_eq!(calls.count("graph_launch"), 1);
    assert_eq!(half.wait()?, [1; N]);
    gate.open();
    assert_eq!(s2.values(a.slice(N..))?, [3; N]);
    // The other half is written while a replay is pending.
    let gate = harness.gate(&s2);
    graph.replay(&s2)?;
    calls.forget();
    s1.fill(a.slice_mut(N..), 4)?;
    let other_half = s1.download(a.slice(N..))?;
    harness.assert_count(calls, "stream_wait_event", 0);
    assert_eq!(other_half.wait()?, [4; N]);
    assert_eq!(harness.opened(gate, s1.download(a.slice(..N))?), [1; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
#[allow(unsafe_code, reason = "sets the length of a kernel within its arrays")]
fn g07_changes_between_two_replays_leave_the_first_as_it_was() -> Result<()> {
    let (one, five) = (s1.upload(&vec![1.0_f32; N])?, s1.upload(&vec![5.0_f32; N])?);
    let mut b = s1.zeros::<f32>(N)?;
    let mut graph = doubling(harness, &one, &mut b)?;
    let gate = harness.gate(&s1);
    graph.replay(&s1)?;
    let first = s1.download(&b)?;
    graph.swap(&one, &five)?;
    graph.replay(&s1)?;
    let swapped = s1.download(&b)?;
    // SAFETY: the arrays are longer.
    unsafe { graph.node("vecadd")?.set_scalar(3, 7_u64) }?;
    graph.replay(&s1)?;
    let set = s1.download(&b)?;
    graph.update(|r| r.stream()?.fill(&mut b, 3.0))?;
    drop(five);
    graph.replay(&s1)?;
    let updated = s2.download(&b)?;
    gate.open();
    assert_eq!(first.wait()?, [2.0; N]);
    assert_eq!(swapped.wait()?, [10.0; N]);
    let set = set.wait()?;
    assert_eq!((&set[..7], &set[7..]), (&[10.0; 7][..], &[0.0; N - 7][..]));
    assert_eq!(updated.wait()?, [3.0; N]);
    assert_eq!(graph.figures().updates, 3);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn g07_an_update_with_equal_nodes_changes_the_graph_and_another_makes_it_again() -> Result<()> {
    let (mut x, mut y) = (stream.zeros::<u32>(N)?, stream.zeros::<u32>(N)?);
    let mut graph = harness.record("fill", |r| r.stream()?.fill(&mut x, 1))?;
    graph.replay(&stream)?;
    calls.forget();
    graph.update(|r| r.stream()?.fill(&mut y, 2))?;
    graph.replay(&stream)?;
    assert_eq!(calls.count("graph_exec_set_node"), 1);
    assert_eq!(calls.count("graph_instantiate"), 0);
    calls.forget();
    graph.update(|r| {
        let recorded = r.stream()?;
        recorded.fill(&mut y, 4)?;
        recorded.fill(x.slice_mut(..3), 5)
    })?;
    graph.replay(&stream)?;
    graph.replay(&stream)?;
    assert_eq!(calls.count("graph_exec_set_node"), 0);
    assert_eq!(calls.count("graph_instantiate"), 1);
    assert_eq!(stream.values(x.slice(..4))?, [5, 5, 5, 1]);
    assert_eq!(stream.values(&y)?, [4; N]);
    Ok(())
}

#[run_by(counted_scenario, |harness, calls|)]
fn g07_an_update_of_most_nodes_is_made_at_once_and_keeps_earlier_changes() -> Result<()> {
    const ARRAYS: usize = 20;
    let stream = harness.stream();
    let mut arrays: [Buffer<u32>; ARRAYS] =
        std::array::from_fn(|_| stream.zeros(N).expect("an array"));
    let fill = |stream: &Stream, arrays: &mut [Buffer<u32>], value: &dyn Fn(usize) -> u32| {
        let mut numbered = arrays.iter_mut().enumerate();
        numbered.try_for_each(|(at, array)| stream.fill(array, value(at)))
    };
    let mut graph = harness.record("fills", |r| fill(&r.stream()?, &mut arrays, &|_| 1))?;
    let mut expect = |value: &dyn Fn(usize) -> u32, counts: [usize; 3]| -> Result<()> {
        calls.forget();
        graph.update(|r| fill(&r.stream()?, &mut arrays, value))?;
        graph.replay(&stream)?;
        let names = ["graph_exec_set_node", "graph_set_node", "graph_exec_update"];
        assert_eq!(names.map(|name| calls.count(name)), counts);
        for (at, array) in arrays.iter().enumerate() {
            let found = stream.values(array.slice(..1))?;
            assert_eq!(found, [value(at)], "array {at}");
        }
        Ok(())
    };
    expect(&|at| if at < 2 { 2 } else { 1 }, [2, 0, 0])?;
    // All but one, which was set before: the template gets that one, too.
    expect(&|at| if at == 0 { 2 } else { 3 }, [0, 20, 1])?;
    expect(
        &|at| {
            if at == 7 {
                4
            } else if at == 0 {
                2
            } else {
                3
            }
        },
        [1, 0, 0],
    )?;
    expect(&|at| at as u32 + 10, [0, 20, 1])
}

#[run_by(scenario_on, |harness, [stream]|)]
fn g07_a_swap_that_is_not_possible_leaves_the_graph_as_it_was() -> Result<()> {
    let (mut one, short) = (stream.upload(&vec![1.0_f32; N])?, stream.zeros::<f32>(3)?);
    let mut b = stream.zeros::<f32>(N)?;
    let mut graph = doubling(harness, &one, &mut b)?;
    let lengths = problem(graph.swap(&one, &short));
    assert_is!(lengths, UsageErrorKind::Length { .. });
    assert_says(&problem(graph.swap(&short, &short)), "does not use");
    let part = problem(graph.swap(one.slice(1..), b.slice(1..)));
    assert!(part.to_string().contains("whole arrays"), "{part}");
    let managed = harness.device.managed::<f32>(N)?;
    assert_says(&problem(graph.swap(&one, &managed)), "the host");
    graph.replay(&stream)?;
    assert_eq!(stream.values(&b)?, [2.0; N]);
    // Operands of the same graph change places.
    graph.swap(&mut one, &b)?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&one)?, [4.0; N]);
    assert_eq!(stream.values(&b)?, [2.0; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn g10_a_new_input_array_is_never_silently_replaced_by_the_recorded_one() -> Result<()> {
    let mut input = s1.upload(&vec![1.0_f32; N])?;
    let mut output = s1.zeros::<f32>(N)?;
    let mut graph = doubling(harness, &input, &mut output)?;
    graph.replay(&s1)?;
    assert_eq!(s1.values(&output)?, [2.0; N]);
    // A new array under the old name: the graph still reads the old one, so it is named.
    let new = s2.upload(&vec![4.0_f32; N])?;
    graph.swap(&input, &new)?;
    input = new;
    graph.replay(&s1)?;
    assert_eq!(s1.values(&output)?, [8.0; N]);
    // New contents in the same array.
    s2.upload_into(&vec![6.0; N], &mut input)?;
    graph.replay(&s1)?;
    assert_eq!(s1.values(&output)?, [12.0; N]);
    // An array that the graph does not know is refused.
    let stranger = s1.zeros::<f32>(N)?;
    assert!(graph.swap(&stranger, &input).is_err());
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn g11_memory_given_out_after_a_recording_is_none_of_the_graphs() -> Result<()> {
    let a = s1.upload(&vec![1.0_f32; N])?;
    let mut b = s1.zeros::<f32>(N)?;
    let graph = doubling(harness, &a, &mut b)?;
    for round in 0..3 {
        let value = round as f32;
        let arrays: Vec<_> = (0..4)
            .map(|_| s2.upload(&vec![value; N]))
            .collect::<Result<_>>()?;
        graph.replay(&s1)?;
        for array in &arrays {
            assert_eq!(s2.values(array)?, [value; N]);
        }
        assert_eq!(s1.values(&b)?, [2.0; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn g13_a_stepwise_replay_gives_the_same_values() -> Result<()> {
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let (mut x, mut y) = (stream.zeros::<f32>(N)?, stream.zeros::<f32>(N)?);
    let at_once = counting(harness, &mut x, &ones)?;
    let stepwise = counting(harness, &mut y, &ones)?;
    for _ in 0..3 {
        at_once.replay(&stream)?;
        stepwise.replay_stepwise(&stream)?;
    }
    stepwise.replay(&stream)?;
    at_once.replay_stepwise(&stream)?;
    assert_eq!(stream.values(&x)?, [4.0; N]);
    assert_eq!(stream.values(&y)?, [4.0; N]);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [stream]|)]
fn g13_replaying_several_times_is_one_operation() -> Result<()> {
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let mut x = stream.zeros::<f32>(N)?;
    let graph = counting(harness, &mut x, &ones)?;
    calls.forget();
    graph.replay_times(&stream, 10)?;
    assert_eq!(calls.count("graph_launch"), 10);
    graph.replay_times(&stream, 0)?;
    assert_eq!(stream.values(&x)?, [10.0; N]);
    assert_eq!(graph.figures().launches, 10);
    Ok(())
}
