//! Recordings of graphs: the edges that are found, the memory of arrays that are made inside, the
//! operations that can be recorded, and those that are refused.

use millstream::graph::{GraphOptions, Order};

use crate::scenarios::{graphs::increment, prelude::*};

#[run_by(scenario_on, |harness, [stream]|)]
fn operations_of_two_recorded_streams_are_ordered_by_their_bytes() -> Result<()> {
    let (mut x, mut y) = (stream.zeros::<u32>(N)?, stream.zeros::<u32>(N)?);
    let mut z = stream.zeros::<u32>(N)?;
    let graph = harness.record("diamond", |r| {
        let (a, b) = (r.stream()?, r.stream()?);
        a.fill(&mut x, 1)?;
        a.copy(&x, &mut y)?; // edge from the fill
        b.copy(&x, &mut z)?; // edge from the fill, none from the copy
        b.copy(y.slice(..9), z.slice_mut(..9)) // edges from both copies
    })?;
    let figures = graph.figures();
    assert_eq!((figures.nodes, figures.edges), (4, 4), "{}", graph.to_dot());
    for edge in ["0 -> 1", "0 -> 2", "1 -> 3", "2 -> 3"] {
        assert!(graph.to_dot().contains(edge), "{}", graph.to_dot());
    }
    graph.replay(&stream)?;
    assert_eq!(stream.values(&z)?, [1; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn arrays_of_a_recording_share_memory_once_they_are_dropped() -> Result<()> {
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let kernels = sums::load(&harness.device)?;
    let bytes = 4 * N as u64;
    let mut found = Vec::new();
    for options in [GraphOptions::new(), GraphOptions::new().reuse(false)] {
        let mut x = stream.zeros::<f32>(N)?;
        let graph = harness.device.record_with("three", options, |r| {
            let recorded = r.stream()?;
            (0..3).try_for_each(|_| increment(&kernels, &recorded, &mut x, &ones))
        })?;
        graph.replay(&stream)?;
        graph.replay(&stream)?;
        assert_eq!(stream.values(&x)?, [6.0; N]);
        found.push(graph.figures().body_bytes);
    }
    assert_eq!(found, [bytes, 3 * bytes]);
    // Without an order by streams, arrays of their own.
    let mut x = stream.zeros::<f32>(N)?;
    let options = GraphOptions::new().order(Order::Data);
    let graph = harness.device.record_with("data", options, |r| {
        let recorded = r.stream()?;
        (0..3).try_for_each(|_| increment(&kernels, &recorded, &mut x, &ones))
    })?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [3.0; N]);
    assert_eq!(graph.figures().body_bytes, 3 * bytes);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn arrays_that_leave_a_recording_are_zeros_before_the_first_replay() -> Result<()> {
    let mut kept = None;
    let graph = harness.record("leaving", |r| {
        let stream = r.stream()?;
        let mut array = stream.upload(&vec![3_u32; N])?;
        stream.fill(array.slice_mut(..1), 4)?;
        kept = Some(array);
        Ok(())
    })?;
    let mut kept = kept.expect("the closure ran");
    assert_eq!(s1.values(&kept)?, [0; N]);
    graph.replay(&s1)?;
    let first = s2.download(&kept)?;
    s2.fill(&mut kept, 9)?;
    graph.replay(&s1)?;
    let second = s2.download(&kept)?;
    for value in [first.wait()?, second.wait()?] {
        assert_eq!((value[0], &value[1..]), (4, &[3; N - 1][..]));
    }
    drop(graph);
    assert_eq!(s1.values(&kept)?[1], 3);
    Ok(())
}

/// Asserts that a call is refused in a recording.
#[track_caller]
fn assert_refused<T>(what: &str, result: Result<T>) {
    let refused = problem(result);
    assert!(
        matches!(refused, UsageErrorKind::Recording { .. }),
        "{what}: {refused}"
    );
}

#[run_by(scenario, |harness|)]
fn a_recording_refuses_what_a_graph_cannot_contain_and_loses_nothing() -> Result<()> {
    let device = &harness.device;
    let stream = device.stream()?;
    let mut x = stream.upload(&vec![1_u32; N])?;
    let mut pinned = device.pinned::<u32>(N)?;
    let mut managed = device.managed::<u32>(N)?;
    let event = stream.record()?;
    let mut left = None;
    let graph = device.record("refusals", |r| {
        let recorded = r.stream()?;
        recorded.fill(x.slice_mut(..1), 5)?;
        assert_refused("a download", recorded.download(&x));
        assert_refused("a copy to the host", recorded.copy(&x, &mut pinned));
        assert_refused("a copy from the host", recorded.copy(&pinned, &mut x));
        assert_refused("managed memory", recorded.fill(&mut managed, 3));
        assert_refused("an event", recorded.record());
        assert_refused("a wait", recorded.wait_for(&event));
        assert_refused("a wait of the host", recorded.synchronize());
        assert_refused("a question", recorded.is_idle());
        recorded.fill(x.slice_mut(1..2), 6)?;
        left = Some(recorded);
        Ok(())
    })?;
    graph.replay(&stream)?;
    let value = stream.values(&x)?;
    assert_eq!((&value[..2], &value[2..]), (&[5, 6][..], &[1; N - 2][..]));
    assert_eq!(graph.figures().nodes, 2);
    // A stream that outlives its recording is an ordinary one.
    let left = left.expect("the closure ran");
    left.fill(&mut x, 7)?;
    assert_eq!(left.values(&x)?, [7; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn a_recorded_replay_becomes_nodes_in_the_memory_of_its_graph() -> Result<()> {
    let device = &harness.device;
    let kernels = sums::load(device)?;
    let ones = s1.upload(&vec![1.0_f32; N])?;
    let mut x = s1.zeros::<f32>(N)?;
    let mut y = s1.zeros::<f32>(N)?;
    let mut twos = s1.upload(&vec![2.0_f32; N])?;
    let mut inner = device.record("inner", |r| {
        let recorded = r.stream()?;
        let data = recorded.upload(&vec![0.5_f32; N])?; // a constant of the graph
        increment(&kernels, &recorded, &mut x, &ones)?;
        increment(&kernels, &recorded, &mut x, &data)
    })?;
    let mut outer = device.record("outer", |r| {
        let (one, other) = (r.stream()?, r.stream()?);
        one.fill(&mut x, 10.0)?;
        inner.replay(&other)?; // edge from the fill
        inner.replay_times(&one, 2)?;
        other.copy(&x, &mut y)?; // edge from the last
        inner.replay_stepwise(&other)
    })?;
    assert_eq!(outer.figures().nodes, 2 + 4 * inner.figures().nodes);
    assert_eq!(outer.figures().body_bytes, 0, "it has no memory of its own");
    let second = outer.instance()?;
    assert!(second.figures().body_bytes > 0);
    // Changes of the inner graph, and its end, leave the outer one as it is.
    inner.swap(&ones, &twos)?;
    let gate = harness.gate(&s1);
    outer.replay(&s1)?;
    inner.replay(&s2)?;
    let after = s2.download(&x)?;
    gate.open();
    assert_eq!(after.wait()?, [10.0 + 4.0 * 1.5 + 2.5; N]);
    assert_eq!(s1.values(&y)?, [14.5; N]);
    inner.update(|r| r.stream()?.fill(&mut x, 3.0))?;
    drop(inner);
    let strangers = [(); 3].map(|()| s2.upload(&vec![9.0_f32; N]));
    s2.fill(&mut twos, 0.0)?;
    for graph in [&outer, &second] {
        graph.replay(&s2)?;
        assert_eq!(s1.values(&x)?, [16.0; N]);
    }
    outer.update(|r| second.replay(&r.stream()?))?;
    drop(second);
    outer.replay_stepwise(&s1)?;
    assert_eq!(s2.values(&y)?, [14.5; N]);
    for stranger in strangers {
        assert_eq!(s2.values(&stranger?)?, [9.0; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn a_graph_and_a_recorded_replay_of_it_exclude_each_other() -> Result<()> {
    let device = &harness.device;
    let (mut x, mut y) = (s1.zeros::<u32>(N)?, s1.zeros::<u32>(N)?);
    let mut inner = device.record("inner", |r| {
        let recorded = r.stream()?;
        let mut temporary = recorded.zeros::<u32>(N)?;
        recorded.fill(&mut temporary, 5)?;
        recorded.copy(&temporary, &mut x)
    })?;
    let outer = device.record("outer", |r| inner.replay(&r.stream()?))?;
    // From here on they have nothing but the temporary array in common.
    inner.swap(&x, &mut y)?;
    let gate = harness.gate(&s1);
    outer.replay(&s1)?;
    inner.replay(&s2)?;
    assert_eq!(harness.opened(gate, s2.download(&y)?), [5; N]);
    assert_eq!(s1.values(&x)?, [5; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn graphs_that_share_memory_keep_their_temporaries_apart_in_a_recorded_replay() -> Result<()> {
    let device = &harness.device;
    let mut x = stream.zeros::<u32>(N)?;
    let mut y = stream.zeros::<u32>(N)?;
    let inner = device.record("inner", |r| {
        let recorded = r.stream()?;
        let mut temporary = recorded.zeros::<u32>(N)?;
        recorded.fill(&mut temporary, 5)?;
        recorded.copy(&temporary, &mut x)
    })?;
    let outer = device.record_sharing(&inner, "outer", |r| {
        let recorded = r.stream()?;
        let mut temporary = recorded.zeros::<u32>(N)?;
        recorded.fill(&mut temporary, 8)?;
        inner.replay(&recorded)?;
        recorded.copy(&temporary, &mut y)
    })?;
    outer.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [5; N]);
    assert_eq!(stream.values(&y)?, [8; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn an_error_or_a_panic_in_a_recording_leaves_everything_as_it_was() -> Result<()> {
    let device = &harness.device;
    let stream = device.stream()?;
    let mut x = stream.upload(&vec![1_u32; N])?;
    let mut graph = device.record("fill", |r| r.stream()?.fill(&mut x, 2))?;
    let failing = |r: &GraphRecorder| {
        let recorded = r.stream()?;
        let inside = recorded.zeros::<u32>(N)?;
        recorded.copy(&inside, &mut x)?;
        recorded.download(&inside).map(drop)
    };
    assert_refused("the recording", device.record("failing", failing));
    let failing = |r: &GraphRecorder| r.stream()?.synchronize();
    assert_refused("the update", graph.update(failing));
    let panicking = catch_unwind(AssertUnwindSafe(|| {
        device.record("panicking", |r| {
            r.stream()?.fill(&mut x, 3)?;
            panic!("in a recording")
        })
    }));
    assert!(panicking.is_err());
    assert_eq!(stream.values(&x)?, [1; N]);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [2; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn threads_record_on_streams_of_one_recording() -> Result<()> {
    let device = &harness.device;
    let stream = device.stream()?;
    let mut x = stream.zeros::<u32>(4 * N)?;
    let graph = device.record("threads", |r| {
        thread::scope(|scope| {
            let parts: Vec<_> = x.chunks_mut(N).zip(1..).collect();
            let threads: Vec<_> = parts
                .into_iter()
                .map(|(part, value)| {
                    let recorded = r.stream()?;
                    Ok(scope.spawn(move || recorded.fill(part, value)))
                })
                .collect::<Result<_>>()?;
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("the thread does not panic"))
        })
    })?;
    assert_eq!(graph.figures().edges, 0);
    graph.replay(&stream)?;
    let found = stream.values(&x)?;
    let expected: Vec<u32> = (1..=4).flat_map(|value| vec![value; N]).collect();
    assert_eq!(found, expected);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn every_kind_of_operation_can_be_recorded() -> Result<()> {
    let device = &harness.device;
    let stream = device.stream()?;
    let mut table = stream.zeros::<u16>(20 * 10)?;
    let mut numbers = stream.upload(&(0..100).collect::<Vec<u64>>())?;
    let graph = device.record("kinds", |r| {
        let recorded = r.stream()?;
        recorded.fill(&mut numbers, 0x0102_0304_0506_0708)?;
        recorded.upload_into(&[1_u64, 2, 3, 4, 5], numbers.slice_mut(..5))?;
        recorded.copy_within(&mut numbers, ..50, 1)?;
        recorded.copy_within(&mut numbers, 60..70, 80)?;
        recorded.fill_2d(table.view_2d_mut(20, 10)?.rect_mut(3..17, 2..5)?, 9_u16)?;
        recorded.upload_2d(
            &[1, 2, 3, 4],
            2,
            table.view_2d_mut(20, 10)?.rect_mut(..2, ..2)?,
        )?;
        let owned = recorded.upload_owned(Arc::<[u16]>::from([7, 8]))?;
        recorded.copy(&owned, table.slice_mut(198..))
    })?;
    for _ in 0..2 {
        graph.replay(&stream)?;
        stream.fill(numbers.slice_mut(50..), 1)?;
    }
    graph.replay(&stream)?;
    let found = stream.values(&numbers)?;
    assert_eq!(found[..7], [1, 1, 2, 3, 4, 5, 0x0102_0304_0506_0708]);
    assert!(
        found[6..]
            .iter()
            .all(|&value| value == 0x0102_0304_0506_0708)
    );
    let found = stream.values(&table)?;
    for (at, &value) in found.iter().enumerate() {
        let expected = match (at / 10, at % 10) {
            (0, 0) => 1,
            (0, 1) => 2,
            (1, 0) => 3,
            (1, 1) => 4,
            (3..17, 2..5) => 9,
            (19, 8) => 7,
            (19, 9) => 8,
            _ => 0,
        };
        assert_eq!(value, expected, "element {at}");
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a_launch_config_of_a_recorded_kernel_is_checked() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let mut x = stream.zeros::<f32>(N)?;
    let ones = stream.upload(&vec![1.0_f32; N])?;
    let config = LaunchConfig::new([1, 1, 1], [2048, 1, 1]);
    let refused = harness.record("too large", |r| {
        kernels.vecadd(&r.stream()?, config, &ones, &ones, &mut x, N as u64)
    });
    assert_is!(problem(refused), UsageErrorKind::LaunchConfig { .. });
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn an_array_of_a_recorded_rectangle_can_be_swapped() -> Result<()> {
    let (ones, twos) = (stream.upload(&[1_u8; 100])?, stream.upload(&[2_u8; 100])?);
    let mut target = stream.zeros::<u8>(100)?;
    let mut graph = harness.record("rows", |r| {
        let (from, to) = (ones.view_2d(10, 10)?, target.view_2d_mut(10, 10)?);
        r.stream()?
            .copy_2d(from.rect(.., ..2)?, to.rect_mut(.., 1..3)?)
    })?;
    graph.replay(&stream)?;
    let before = stream.download(&target)?;
    graph.swap(&ones, &twos)?;
    graph.replay(&stream)?;
    let rows = |value| [0, value, value, 0, 0, 0, 0, 0, 0, 0].repeat(10);
    assert_eq!(before.wait()?, rows(1));
    assert_eq!(stream.values(&target)?, rows(2));
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn an_updated_graph_keeps_no_memory_that_it_does_not_use() -> Result<()> {
    let mut x = stream.zeros::<u32>(N)?;
    let mut graph = harness.record("upload", |r| r.stream()?.upload_into(&[0; N], &mut x))?;
    let bytes = graph.figures().body_bytes;
    let mut values = Vec::new();
    for value in 1..5 {
        graph.update(|r| r.stream()?.upload_into(&[value; N], &mut x))?;
        graph.replay(&stream)?;
        values.push(stream.download(&x)?);
    }
    assert_eq!(graph.figures().body_bytes, bytes);
    for (found, value) in values.into_iter().zip(1..) {
        assert_eq!(found.wait()?, [value; N]);
    }
    Ok(())
}
