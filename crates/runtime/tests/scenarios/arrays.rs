//! Scenarios A: arrays shared between streams, threads and handles.

use std::{fmt::Debug, rc::Rc};

use bytemuck::Pod;
use millstream::{View, ViewMut};

use crate::scenarios::{
    peers::{assert_all_pending, copied},
    prelude::*,
};

millstream::kernels! {
    /// A kernel that adds arrays.
    // SAFETY: the signature is that of vecadd in vecadd.cu; for any grid, its threads stride over
    // `n` elements of each array and access no others.
    pub(crate) unsafe mod sums from include_str!("../../../../kernels/vecadd.ptx") {
        /// Computes `c[i] = a[i] + b[i]`.
        pub(crate) safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
            requires a.len() >= n, b.len() >= n, c.len() >= n;
    }
}

/// Fills an array on the first stream behind a gate, and reads it on the two others, which find
/// `expected`. If copies are queued, one that waits may hold up the others.
pub(crate) fn read_together<T: Pod + Debug + PartialEq>(
    harness: &Harness,
    [s1, s2, s3]: [&Stream; 3],
    [before, value, expected]: [T; 3],
    are_queued: bool,
    read: impl Fn(&Stream, &Buffer<T>) -> Result<Pending<Vec<T>>>,
) -> Result<()> {
    let expected = vec![expected; N];
    let mut a = s1.upload(&[before; N])?;
    let gate = harness.gate(s1);
    s1.fill(&mut a, value)?;
    let (second, third) = (read(s2, &a)?, read(s3, &a)?);
    assert_all_pending(harness, &[&second, &third]);
    gate.open();
    assert_eq!(second.wait()?, expected);
    assert_eq!(third.wait()?, expected);

    let gate = harness.gate(s2);
    let held = read(s2, &a)?;
    if !are_queued {
        let third = read(s3, &a)?.wait()?;
        assert_eq!(third, expected, "one reader must not wait for the other");
    }
    let own = s1.values(&a)?;
    assert_eq!(own, vec![value; N], "nor one on the array's own stream");
    assert_eq!(harness.opened(gate, held), expected);
    Ok(())
}

#[run_by(scenario_on, |harness, streams: [_; 3]|)]
pub(crate) fn a01_readers_wait_for_the_writer_and_run_together() -> Result<()> {
    let read = |stream: &Stream, a: &Buffer<u32>| stream.download(a);
    read_together(harness, streams.each_ref(), [1, 7, 7], false, read)
}

#[run_by(scenario_on, |harness, [s1, s2, s3, s4]|)]
pub(crate) fn a02_a_writer_waits_for_every_reader() -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    let gate = harness.gate(&s2);
    let slow = s2.download(&a)?;
    assert_eq!(s3.values(&a)?, [1; N], "the fast second reader");
    s4.fill(&mut a, 2)?;
    let written = s4.download(&a)?;
    harness.open_pending(gate, &written);
    assert_eq!(slow.wait()?, [1; N], "the slow reader saw the write");
    assert_eq!(written.wait()?, [2; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
pub(crate) fn a03_disjoint_halves_are_written_side_by_side_from_two_threads() -> Result<()> {
    let mut a = s1.zeros::<u32>(2 * N)?;
    s1.synchronize()?;
    let gate = harness.gate(&s1);
    let (mut left, mut right) = a.split_at_mut(N);
    both(|| s1.fill(&mut left, 1), || s2.fill(&mut right, 2))?;
    assert_eq!(
        s2.values(a.slice(N..))?,
        [2; N],
        "the right half must not wait"
    );
    assert_eq!(
        harness.opened(gate, s3.download(&a)?),
        [[1; N], [2; N]].concat()
    );
    Ok(())
}

/// Fills the first 60 of 100 elements on a stream behind a gate, overwrites the middle by
/// `overwrite`, and reads parts: only those wait that overlap with what is written.
pub(crate) fn ordered_on_the_overlap<T: Pod + Debug + PartialEq>(
    harness: &Harness,
    s1: &Stream,
    [before, first, second]: [T; 3],
    overwrite: impl Fn(ViewMut<'_, T>) -> Result<()>,
    read: impl Fn(View<'_, T>) -> Result<Pending<Vec<T>>>,
) -> Result<()> {
    let mut a = s1.upload(&[before; 100])?;
    s1.synchronize()?;
    let gate = harness.gate(s1);
    s1.fill(a.slice_mut(..60), first)?;
    let right = read(a.slice(60..))?.wait()?;
    assert_eq!(right, [before; 40], "these are not being written");
    overwrite(a.slice_mut(40..80))?;
    let right = read(a.slice(80..))?.wait()?;
    assert_eq!(right, [before; 20], "these are not being written either");
    let (left, middle) = (read(a.slice(..40))?, read(a.slice(79..80))?);
    assert_all_pending(harness, &[&left, &middle]);
    gate.open();
    assert_eq!(middle.wait()?, [second]);
    assert_eq!(left.wait()?, [first; 40]);
    let whole = [vec![first; 40], vec![second; 40], vec![before; 20]].concat();
    assert_eq!(s1.values(&a)?, whole);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
pub(crate) fn a04_overlapping_ranges_are_ordered_exactly_on_the_overlap() -> Result<()> {
    ordered_on_the_overlap(
        harness,
        &s1,
        [0, 1, 2],
        |part| s2.fill(part, 2_u8),
        |part| s3.download(part),
    )
}

/// Makes arrays in a thread and in a task, and reads copies of them on a stream of either device.
pub(crate) fn hand_over(harness: &Harness, producer: &Stream, consumer: &Stream) -> Result<()> {
    let make = |value| -> Result<_> {
        let mut a = producer.zeros::<u32>(N)?;
        producer.fill(&mut a, value)?;
        Ok(a)
    };
    let gate = harness.gate(producer);
    let a = thread::scope(|scope| scope.spawn(|| make(5)).join().unwrap())?;
    let copy = copied(consumer, &a)?;
    assert_eq!(harness.opened(gate, consumer.download(&copy)?), [5; N]);

    let gate = harness.gate(producer);
    let a = pollster::block_on(async { make(6) })?;
    let arrives = if consumer.device() == producer.device() {
        consumer.download(&a)?
    } else {
        consumer.download(&copied(consumer, &a)?)?
    };
    harness.open_pending(gate, &arrives);
    assert_eq!(pollster::block_on(arrives)?, [6; N]);
    Ok(())
}

#[test]
pub(crate) fn a06_a_thread_returns_an_array_without_synchronising() {
    scenario(|harness| hand_over(harness, &harness.stream(), &harness.stream()));
}

#[run_by(scenario_on, |harness, [s1]|)]
pub(crate) fn a07_a_host_read_does_not_wait_for_later_work_of_the_stream() -> Result<()> {
    let a = s1.upload(&vec![3_u32; N])?;
    let value = s1.download(&a)?;
    let gate = harness.gate(&s1);
    let mut other = s1.zeros::<u32>(N)?;
    s1.fill(&mut other, 1)?;
    let later = s1.download(&other)?;
    assert_eq!(value.wait()?, [3; N]);
    harness.open_pending(gate, &later);
    assert_eq!(later.wait()?, [1; N]);

    let mut pinned = harness.device.pinned::<u32>(N)?;
    s1.copy(&a, &mut pinned)?;
    let gate = harness.gate(&s1);
    s1.fill(&mut other, 2)?;
    assert_eq!(
        *pinned.read()?,
        [3; N],
        "a guard waits for its copies alone"
    );
    gate.open();
    Ok(())
}

/// Drops an array while copies to both streams, each behind a gate, read it.
pub(crate) fn drop_in_use(harness: &Harness, streams: [&Stream; 2]) -> Result<()> {
    let other = harness.stream();
    for slow in 0..2 {
        let a = streams[0].upload(&vec![4_u32; N])?;
        let mut copies = [streams[0].zeros::<u32>(N)?, streams[1].zeros::<u32>(N)?];
        // An array's first use on another stream may wait for later work; here that use is
        // complete.
        assert_eq!(streams[1].values(&copied(streams[1], &a)?)?, [4; N]);
        let mut gates = streams.map(|stream| Some(harness.gate(stream)));
        for (stream, copy) in streams.iter().zip(&mut copies) {
            stream.copy(&a, copy)?;
        }
        drop(a);
        let mut same_size = other.zeros::<u32>(N)?;
        other.fill(&mut same_size, 9)?;
        assert_eq!(
            other.values(&same_size)?,
            [9; N],
            "the new array must not wait for another stream"
        );
        for user in [1 - slow, slow] {
            drop(gates[user].take());
            assert_eq!(streams[user].values(&copies[user])?, [4; N]);
        }
    }
    Ok(())
}

#[run_by(scenario_on, |harness, streams: [_; 2]|)]
pub(crate) fn a08_dropping_an_array_in_use_does_not_block_and_frees_after_its_uses() -> Result<()> {
    drop_in_use(harness, streams.each_ref())
}

#[run_by(scenario, |harness|)]
pub(crate) fn a09_dropping_the_stream_before_the_array_keeps_the_free_ordered() -> Result<()> {
    for is_written in [false, true] {
        let [s1, s2] = harness.streams();
        let mut a = s1.upload(&vec![4_u32; N])?;
        let mut copy = s2.zeros::<u32>(N)?;
        let gate = harness.gate(&s1);
        s1.copy(&a, &mut copy)?;
        drop(s1);
        if is_written {
            s2.fill(&mut a, 5)?;
        }
        drop(a);
        let same_size = s2.upload(&vec![9_u32; N])?;
        assert_eq!(harness.opened(gate, s2.download(&copy)?), [4; N]);
        assert_eq!(s2.values(&same_size)?, [9; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
pub(crate) fn a12_the_same_array_twice_in_one_launch() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let numbers: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let a = s1.upload(&numbers)?;
    let mut doubled = s2.zeros::<f32>(N)?;
    kernels.vecadd(&s2, N, &a, &a, &mut doubled, N as u64)?;
    let expected: Vec<f32> = numbers.iter().map(|n| n + n).collect();
    assert_eq!(s1.values(&doubled)?, expected);

    // Reading and writing the same array in one launch does not compile (see the documentation
    // of `kernels!`); its disjoint halves are separate operands.
    let mut both = s1.upload(&[1.0_f32, 2.0, 0.0, 0.0])?;
    let (mut low, mut high) = both.split_at_mut(2);
    kernels.vecadd(&s2, 2, &low, &low, &mut high, 2)?;
    kernels.vecadd(&s1, 2, &high, &high, &mut low, 2)?;
    assert_eq!(s2.values(&both)?, [4.0, 8.0, 2.0, 4.0]);
    Ok(())
}

#[run_by(scenario, |harness|)]
pub(crate) fn a20_the_same_device_opened_twice_is_one() -> Result<()> {
    let again: Device = harness.open_again();
    assert_eq!(again, harness.device);
    let [s1] = harness.streams();
    let s2 = again.stream()?;
    let mut a = s1.zeros::<u32>(N)?;
    let gate = harness.gate(&s1);
    s1.fill(&mut a, 8)?;
    assert_eq!(harness.opened(gate, s2.download(&a)?), [8; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
pub(crate) fn a21_an_array_outlives_the_other_stream_that_uses_it() -> Result<()> {
    let a = s1.upload(&vec![4_u32; N])?;
    let mut copy = s1.zeros::<u32>(N)?;
    let gate = harness.gate(&s2);
    s2.copy(&a, &mut copy)?;
    // From here on only one stream exists.
    drop(s2);
    drop(a);
    let same_size = s1.upload(&vec![9_u32; N])?;
    assert_eq!(
        s1.values(&same_size)?,
        [9; N],
        "the new array must not wait for another stream"
    );
    assert_eq!(harness.opened(gate, s1.download(&copy)?), [4; N]);
    assert_eq!(s1.values(&same_size)?, [9; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn arrays_behind_smart_pointers_are_operands() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let shared = Arc::new(s1.upload(&vec![2.0_f32; N])?);
    let local = Rc::new(s2.upload(&vec![3.0_f32; N])?);
    let mut boxed = Box::new(s1.zeros::<f32>(N)?);
    kernels.vecadd(&s2, (6, 256), &shared, &*local, &mut boxed, N as u64)?;
    let owned = Arc::clone(&shared);
    kernels.vecadd(&s1, N, owned, &local, &mut *boxed, N as u64)?;
    assert_eq!(s2.values(&boxed)?, [5.0; N]);
    s2.copy(&shared, &mut boxed)?;
    s2.fill(boxed.slice_mut(1..), 7.0)?;
    let pinned = Arc::new(harness.device.pinned_from(&[9.0_f32])?);
    s1.copy(&pinned, boxed.slice_mut(..1))?;
    // The last handle is dropped while the operations may be pending.
    drop((shared, local, pinned));
    let mut expected = vec![7.0; N];
    expected[0] = 9.0;
    assert_eq!(s2.values(&boxed)?, expected);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn launch_configurations_convert_from_numbers_and_tuples() -> Result<()> {
    let (stream, kernels) = (harness.stream(), sums::load(&harness.device)?);
    let a = stream.upload(&vec![1.0_f32; N])?;
    let mut c = stream.zeros::<f32>(N)?;
    let mut sum = |config: LaunchConfig| {
        stream.fill(&mut c, 0.0)?;
        kernels.vecadd(&stream, config, &a, &a, &mut c, N as u64)?;
        assert_eq!(stream.values(&c)?, [2.0; N], "{config:?}");
        Ok::<_, Error>(())
    };
    for config in [
        N.into(),
        1500.into(),
        (2, 64).into(),
        ((2, 1), 32, 100).into(),
        ([3, 2, 1], (7, 1, 1)).into(),
    ] {
        sum(config)?;
    }
    let refused = problem(kernels.vecadd(&stream, -1, &a, &a, &mut c, 0));
    assert_is!(refused, UsageErrorKind::LaunchConfig { .. });
    kernels.vecadd(&stream, 0, &a, &a, &mut c, N as u64)?;
    Ok(())
}
