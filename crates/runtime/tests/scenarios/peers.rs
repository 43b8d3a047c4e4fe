//! Scenarios of arrays shared by streams of two devices that access each other's memory: copies
//! over the link between them, and the order of everything that uses the arrays. Kernels with
//! operands on the other device are in `peers_kernels`.
//!
//! On a machine with one GPU they are excluded by name.

use millstream::View;

use crate::scenarios::{
    arrays::{drop_in_use, hand_over, ordered_on_the_overlap, read_together},
    counts::implied_order,
    harness::Ask,
    prelude::*,
};

/// Runs a scenario with the harness's device and each other one, after their peer access is set up:
/// loading the probe's module would wait for a gate.
pub(crate) fn scenario(run: impl Fn(&Harness, &Device) -> Result<()>) {
    everywhere(|harness| {
        for other in &harness.others() {
            let status = harness.device.peer_status(other).unwrap();
            assert_eq!(status, PeerStatus::Direct);
            run(harness, other).unwrap();
        }
    });
}

/// As [`scenario`], with every driver call recorded.
pub(crate) fn counted(run: impl Fn(&Harness, &Device, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls: &Arc<Calls>| {
        for other in &harness.others_counted(calls) {
            let status = harness.device.peer_status(other).unwrap();
            assert_eq!(status, PeerStatus::Direct);
            run(harness, other, calls).unwrap();
        }
    });
}

/// As [`scenario`], on streams of both devices.
pub(crate) fn scenario_on<const N: usize, const M: usize>(
    run: impl Fn(&Harness, &Device, [Stream; N], [Stream; M]) -> Result<()>,
) {
    scenario(|harness, second| run(harness, second, harness.streams(), streams(second)));
}

/// As [`counted`], on streams of both devices.
pub(crate) fn counted_on<const N: usize, const M: usize>(
    run: impl Fn(&Harness, &Device, &Calls, [Stream; N], [Stream; M]) -> Result<()>,
) {
    counted(|harness, second, calls| {
        run(harness, second, calls, harness.streams(), streams(second))
    });
}

pub(crate) fn streams<const N: usize>(device: &Device) -> [Stream; N] {
    std::array::from_fn(|_| device.stream().expect("a stream"))
}

/// Copies an array to a new one on the stream's device.
pub(crate) fn copied<T: bytemuck::Pod>(stream: &Stream, from: &Buffer<T>) -> Result<Buffer<T>> {
    let mut to = stream.zeros::<T>(from.len())?;
    stream.copy(from, &mut to)?;
    Ok(to)
}

/// Downloads a part of an array through a copy on the stream's device.
pub(crate) fn read_over<T: bytemuck::Pod>(
    stream: &Stream,
    part: View<'_, T>,
) -> Result<Pending<Vec<T>>> {
    let mut over = stream.zeros::<T>(part.len())?;
    stream.copy(part, &mut over)?;
    stream.download(&over)
}

/// Asserts that every one of these is still behind a closed gate.
#[track_caller]
pub(crate) fn assert_all_pending(harness: &Harness, pending: &[&dyn Ask]) {
    for pending in pending {
        harness.assert_pending(*pending);
    }
}

#[run_by(scenario_on, |harness, _, [s1], [t2, t3]|)]
fn p01_a01_copies_to_another_device_wait_for_the_writer_and_run_together() -> Result<()> {
    let read = |stream: &Stream, a: &Buffer<u32>| stream.download(&copied(stream, a)?);
    // On a GPU copies of one direction between two devices share a queue, so that one that
    // waits holds up those enqueued after it (rule 39).
    read_together(harness, [&s1, &t2, &t3], [1, 7, 7], on_gpu(), read)
}

#[run_by(scenario_on, |harness, _, [s1, s2], [t1, t2]|)]
fn p01_a02_a_writer_waits_for_every_reader_of_either_device() -> Result<()> {
    // The writer is on the array's device, then on the other, where it is a copy back.
    for on_other in [false, true] {
        let mut a = s1.upload(&vec![1_u32; N])?;
        let twos = t2.upload(&vec![2_u32; N])?;
        t2.synchronize()?;
        let gate = harness.gate(&t1);
        let slow = t1.download(&copied(&t1, &a)?)?;
        assert_eq!(s2.values(&a)?, [1; N], "the fast second reader");
        if on_other {
            t2.copy(&twos, &mut a)?;
        } else {
            s2.fill(&mut a, 2)?;
        }
        let written = s2.download(&a)?;
        harness.open_pending(gate, &written);
        assert_eq!(slow.wait()?, [1; N], "the slow reader saw the write");
        assert_eq!(written.wait()?, [2; N]);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, _, [s1, s2], [t1, t2]|)]
fn p01_a03_p02_disjoint_halves_are_written_from_two_devices_at_once() -> Result<()> {
    let twos = t1.upload(&vec![2_u32; N])?;
    t1.synchronize()?;
    // Each half in turn is the one that is held.
    for held in [&s1, &t1] {
        let mut a = s1.zeros::<u32>(2 * N)?;
        s1.synchronize()?;
        let gate = harness.gate(held);
        let (mut left, mut right) = a.split_at_mut(N);
        both(|| s1.fill(&mut left, 1), || t1.copy(&twos, &mut right))?;
        let (free, values) = if std::ptr::eq(held, &s1) {
            (a.slice(N..), [2; N])
        } else {
            (a.slice(..N), [1; N])
        };
        let mut over = t2.zeros::<u32>(N)?;
        t2.copy(free, &mut over)?;
        assert_eq!(
            t2.values(&over)?,
            values,
            "a half must not wait for the other"
        );
        assert_eq!(
            harness.opened(gate, s2.download(&a)?),
            [[1; N], [2; N]].concat()
        );
    }
    Ok(())
}

#[run_by(scenario_on, |harness, _, [s1], [t2, t3]|)]
fn p01_a04_overlapping_ranges_are_ordered_exactly_on_the_overlap_across_devices() -> Result<()> {
    let twos = t2.upload(&[2_u8; 40])?;
    t2.synchronize()?;
    ordered_on_the_overlap(
        harness,
        &s1,
        [0, 1, 2],
        |part| t2.copy(&twos, part),
        |part| read_over(&t3, part),
    )
}

#[run_by(scenario, |harness, second|)]
fn p01_a04_rectangles_are_ordered_exactly_on_the_overlap_across_devices() -> Result<()> {
    const ROWS: usize = 8;
    const COLS: usize = 16;
    let [s1] = harness.streams();
    let [t1, t2] = streams(second);
    let mut table = s1.zeros::<u16>(ROWS * COLS)?;
    let mut over = t2.zeros::<u16>(ROWS * COLS)?;
    s1.synchronize()?;
    t2.synchronize()?;
    let gate = harness.gate(&s1);
    let left = table.view_2d_mut(ROWS, COLS)?.rect_mut(.., ..8)?;
    s1.fill_2d(left, 5)?;
    // The right columns are not being written, the others are.
    let right = table.view_2d(ROWS, COLS)?;
    t1.copy_2d(
        right.rect(.., 8..)?,
        over.view_2d_mut(ROWS, COLS)?.rect_mut(.., 8..)?,
    )?;
    let free = over.view_2d(ROWS, COLS)?.rect(.., 8..)?;
    assert_eq!(t1.download_2d(free)?.wait()?, [0; ROWS * 8]);
    t2.copy_2d(
        table.view_2d(ROWS, COLS)?.rect(2..6, 7..9)?,
        over.view_2d_mut(ROWS, COLS)?.rect_mut(2..6, 7..9)?,
    )?;
    let part = over.view_2d(ROWS, COLS)?.rect(2..6, 7..9)?;
    assert_eq!(
        harness.opened(gate, t2.download_2d(part)?),
        [5, 0].repeat(4)
    );
    Ok(())
}

#[test]
fn p01_a06_a_thread_returns_an_array_without_synchronising_to_another_device() {
    scenario(|harness, second| hand_over(harness, &harness.stream(), &second.stream()?));
}

#[run_by(scenario_on, |harness, second, [s1], [t1]|)]
fn p01_a07_a_host_read_does_not_wait_for_later_work_of_either_device() -> Result<()> {
    let a = s1.upload(&vec![3_u32; N])?;
    let mut other = s1.zeros::<u32>(N)?;
    let mut b = t1.zeros::<u32>(N)?;
    let mut pinned = second.pinned::<u32>(N)?;
    t1.copy(&a, &mut b)?;
    t1.copy(&b, &mut pinned)?;
    let value = t1.download(&b)?;
    let gates = [harness.gate(&s1), harness.gate(&t1)];
    s1.fill(&mut other, 1)?;
    let later = t1.download(&copied(&t1, &other)?)?;
    assert_eq!(value.wait()?, [3; N]);
    assert_eq!(*pinned.read()?, [3; N]);
    harness.assert_pending(&later);
    drop(gates);
    assert_eq!(later.wait()?, [1; N]);
    Ok(())
}

#[test]
fn p01_a08_p06_dropping_an_array_that_another_device_reads_does_not_block() {
    scenario(|harness, second| drop_in_use(harness, [&harness.stream(), &second.stream()?]));
}

#[run_by(scenario_on, |harness, _, [s1, s2], [t1, t2]|)]
fn p01_a09_dropping_the_stream_before_the_array_keeps_frees_ordered_across_devices() -> Result<()> {
    // The copy runs on the array's device, then on the other.
    for (copying, gated) in [(s1, s2.clone()), (t1, t2.clone())] {
        let a = s2.upload(&vec![4_u32; N])?;
        let mut copy = t2.zeros::<u32>(N)?;
        gated.synchronize()?;
        let gate = harness.gate(&copying);
        copying.copy(&a, &mut copy)?;
        drop(copying);
        drop(a);
        let same_size = s2.upload(&vec![9_u32; N])?;
        assert_eq!(s2.values(&same_size)?, [9; N]);
        assert_eq!(harness.opened(gate, t2.download(&copy)?), [4; N]);
        assert_eq!(s2.values(&same_size)?, [9; N]);
    }
    Ok(())
}

#[run_by(counted_on, |harness, _, calls, [s1], [t2, t3]|)]
fn p01_a19_an_order_that_others_imply_costs_no_second_wait_across_devices() -> Result<()> {
    implied_order(harness, calls, [&s1, &t2, &t3])?;
    assert_eq!(calls.count("copy_peer_async"), 2, "{:?}", calls.counts());
    Ok(())
}

#[run_by(counted_on, |harness, _, calls, [s1], [t1]|)]
fn p01_a_dependency_between_devices_costs_one_record_and_one_wait() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let mut b = t1.zeros::<u32>(N)?;
    for round in 0..4 {
        s1.fill(&mut a, round)?;
        t1.copy(&a, &mut b)?;
    }
    t1.synchronize()?;
    let gate = harness.gate(&s1);
    calls.forget();
    for round in 0..10 {
        // Waits for the copy of the round before, which reads the array. The first is complete.
        s1.fill(&mut a, round)?;
        t1.copy(&a, &mut b)?;
    }
    assert_eq!(calls.count("copy_peer_async"), 10, "{:?}", calls.counts());
    assert_eq!(calls.count("event_record"), 20, "{:?}", calls.counts());
    harness.assert_count(calls, "stream_wait_event", 19);
    gate.open();
    assert_eq!(t1.values(&b)?, [9; N]);
    Ok(())
}

#[run_by(counted_on, |_, _, calls, [s1], [t1]|)]
fn p01_work_of_one_device_costs_no_call_of_the_realm() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let mut b = t1.zeros::<u32>(N)?;
    t1.copy(&a, &mut b)?;
    assert_eq!(t1.values(&b)?, [0; N]);
    assert_eq!(s1.values(&a)?, [0; N]);
    calls.forget_once_quiet();
    for round in 0..10 {
        t1.fill(&mut b, round)?;
    }
    assert_eq!(calls.count("memset_async"), 10);
    for call in ["stream_wait_event", "event_query", "stream_query"] {
        assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
    }
    s1.fill(&mut a, 3)?;
    assert_eq!(t1.values(&b)?, [9; N]);
    Ok(())
}
