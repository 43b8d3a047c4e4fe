//! Scenarios of kernels with operands on another device: views of its pool memory, and managed
//! memory. On a machine with one GPU they are excluded by name.

use millstream::ViewMut;

use crate::scenarios::{
    arrays::{ordered_on_the_overlap, read_together},
    configurations::all_simulated,
    peers::{assert_all_pending, copied, counted_on, read_over, scenario_on},
    prelude::*,
};

/// Returns twice the elements of an array on any device, in a new array on the stream's.
fn doubled(stream: &Stream, from: &Buffer<f32>) -> Result<Buffer<f32>> {
    let device = stream.device();
    let kernels = sums::load(&device)?;
    let (mut to, from) = (stream.zeros::<f32>(from.len())?, from.peer(&device)?);
    let len = to.len();
    kernels.vecadd(stream, len, &from, &from, &mut to, len as u64)?;
    Ok(to)
}

/// Writes twice the elements of an array on the stream's device to a part of one on any device.
fn double_into(stream: &Stream, from: &Buffer<f32>, mut to: ViewMut<'_, f32>) -> Result<()> {
    let device = stream.device();
    let kernels = sums::load(&device)?;
    let len = to.len();
    let mut to = to.peer_mut(&device)?;
    kernels.vecadd(stream, len, from, from, &mut to, len as u64)
}

#[run_by(counted_on, |harness, second, calls, [s1], [t1]|)]
pub(crate) fn a15_a_kernel_reads_pool_memory_of_another_device() -> Result<()> {
    // Allocated before the pair is set up, and after it.
    let (kernels, before) = (sums::load(second)?, s1.upload(&vec![3.0_f32; N])?);
    assert_eq!(harness.device.peer_status(second)?, PeerStatus::Direct);
    let after = s1.upload(&vec![4.0_f32; N])?;
    let mut sum = t1.zeros::<f32>(N)?;
    let config = LaunchConfig::linear(N);
    calls.forget();
    let refused = kernels.vecadd(&t1, config, &before, &after, &mut sum, N as u64);
    let usage_error = usage_error(refused);
    assert_is!(
        usage_error.problem(),
        UsageErrorKind::OtherDevice { operand: 0, .. }
    );
    assert_says(&usage_error, "peer(&device)?");
    // One of two is not enough.
    let (before, after) = (before, after.peer(second)?);
    let refused = kernels.vecadd(&t1, config, &before, &after, &mut sum, N as u64);
    assert_is!(refused, Err(Error::Usage(_)));
    assert_eq!(calls.count("launch_kernel"), 0, "{:?}", calls.counts());
    assert_eq!(t1.values(&sum)?, [0.0; N]);
    let before = before.peer(second)?;
    kernels.vecadd(&t1, config, &before, &after, &mut sum, N as u64)?;
    assert_eq!(t1.values(&sum)?, [7.0; N]);
    assert_eq!(calls.count("launch_kernel"), 1, "{:?}", calls.counts());
    Ok(())
}

#[test]
fn a15_a_view_for_a_third_device_is_no_operand_of_the_second() {
    let gpu = Gpu::new(
        SimConfig::new()
            .devices(3)
            .links("nvlink:0-2;none".parse().unwrap()),
    );
    let [one, second, third] = [0, 1, 2].map(|at| Device::open_simulated(&gpu, at).unwrap());
    let a = one.stream().unwrap().upload(&[1.0_f32; N]).unwrap();
    let view = a.peer(&third).unwrap();
    for (device, works) in [(&third, true), (&one, true), (&second, false)] {
        let (stream, kernels) = (device.stream().unwrap(), sums::load(device).unwrap());
        let mut sum = stream.zeros::<f32>(N).unwrap();
        let result = kernels.vecadd(&stream, N, &view, &view, &mut sum, N as u64);
        if works {
            result.unwrap();
            assert_eq!(stream.values(&sum).unwrap(), [2.0; N]);
        } else {
            assert!(matches!(&result, Err(Error::Usage(error))
                if matches!(error.problem(), UsageErrorKind::NoPeerAccess { .. })));
            assert_eq!(stream.values(&sum).unwrap(), [0.0; N]);
        }
    }
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[run_by(scenario_on, |harness, second, [s1], [t2, t3]|)]
fn p01_a01_kernels_of_another_device_wait_for_the_writer_and_run_together() -> Result<()> {
    sums::load(second)?;
    let read = |stream: &Stream, a: &Buffer<f32>| stream.download(&doubled(stream, a)?);
    read_together(harness, [&s1, &t2, &t3], [1.0, 7.0, 14.0], false, read)
}

#[run_by(scenario_on, |harness, second, [s1, s2], [t1, t2]|)]
fn p01_a02_a_writer_waits_for_the_kernels_of_another_device_and_a_kernel_for_the_readers()
-> Result<()> {
    sums::load(second)?;
    let twos = t2.upload(&vec![2.0_f32; N])?;
    let mut a = s1.upload(&vec![1.0_f32; N])?;
    t2.synchronize()?;
    let gate = harness.gate(&t1);
    let slow = t1.download(&doubled(&t1, &a)?)?;
    assert_eq!(
        t2.values(&doubled(&t2, &a)?)?,
        [2.0; N],
        "the fast second reader"
    );
    s2.fill(&mut a, 5.0)?;
    let written = s2.download(&a)?;
    harness.open_pending(gate, &written);
    assert_eq!(slow.wait()?, [2.0; N], "the slow reader saw the write");
    assert_eq!(written.wait()?, [5.0; N]);

    // The writer is a kernel on the other device, the slow reader on the array's own.
    let gate = harness.gate(&s1);
    let slow = s1.download(&a)?;
    assert_eq!(t1.values(&copied(&t1, &a)?)?, [5.0; N]);
    double_into(&t2, &twos, a.view_mut())?;
    let written = s2.download(&a)?;
    harness.open_pending(gate, &written);
    assert_eq!(
        slow.wait()?,
        [5.0; N],
        "the slow reader saw the kernel's write"
    );
    assert_eq!(written.wait()?, [4.0; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, second, [s1], [t2, t3]|)]
fn p01_a04_kernels_are_ordered_exactly_on_the_overlap_across_devices() -> Result<()> {
    sums::load(second)?;
    let ones = t2.upload(&[1.0_f32; 40])?;
    t2.synchronize()?;
    ordered_on_the_overlap(
        harness,
        &s1,
        [0.0, 9.0, 2.0],
        |part| double_into(&t2, &ones, part),
        |part| read_over(&t3, part),
    )
}

#[run_by(counted_on, |harness, second, calls, [s1, s2], [t1, t2]|)]
fn p02_a_kernel_and_a_fill_write_disjoint_halves_from_two_devices_at_once() -> Result<()> {
    sums::load(second)?;
    let ones = t1.upload(&vec![1.0_f32; N])?;
    t1.synchronize()?;
    for held in [&s1, &t1] {
        let mut a = s1.zeros::<f32>(2 * N)?;
        s1.synchronize()?;
        let gate = harness.gate(held);
        let (mut left, right) = a.split_at_mut(N);
        calls.forget();
        both(
            || s1.fill(&mut left, 1.0),
            || double_into(&t1, &ones, right),
        )?;
        harness.assert_count(calls, "stream_wait_event", 0); // neither waits for the other
        let free = if std::ptr::eq(held, &s1) {
            t2.values(&copied_part(&t2, &a, N)?)?
        } else {
            s2.values(a.slice(..N))?
        };
        let expected = if std::ptr::eq(held, &s1) { 2.0 } else { 1.0 };
        assert_eq!(free, [expected; N], "a half must not wait for the other");
        assert_eq!(
            harness.opened(gate, s2.download(&a)?),
            [[1.0; N], [2.0; N]].concat()
        );
    }
    Ok(())
}

/// Copies the array from `start` on to a new one on the stream's device.
fn copied_part(stream: &Stream, from: &Buffer<f32>, start: usize) -> Result<Buffer<f32>> {
    let mut to = stream.zeros::<f32>(from.len() - start)?;
    stream.copy(from.slice(start..), &mut to)?;
    Ok(to)
}

#[run_by(counted_on, |harness, second, calls, [s1], [t1, t2]|)]
pub(crate) fn a05_two_devices_use_columns_of_a_managed_array_at_once() -> Result<()> {
    let (here, there) = (sums::load(&harness.device)?, sums::load(second)?);
    let config = LaunchConfig::linear(N);
    let ones = s1.upload(&vec![1.0_f32; N])?;
    let twos = t1.upload(&vec![2.0_f32; N])?;
    // The array belongs to one device, then to the other.
    for owner in [&harness.device, second] {
        let mut table = owner.managed::<f32>(3 * N)?;
        table.write()?.fill(5.0);
        s1.synchronize()?;
        t1.synchronize()?;
        let gate = harness.gate(&s1);
        calls.forget();
        let (mut first, mut rest) = table.split_at_mut(N);
        here.vecadd(&s1, config, &ones, &ones, &mut first, N as u64)?;
        let mut column = rest.slice_mut(..N);
        there.vecadd(&t1, config, &twos, &twos, &mut column, N as u64)?;
        harness.assert_count(calls, "stream_wait_event", 0); // different columns
        let mut copy = t2.zeros::<f32>(N)?;
        there.vecadd(&t1, config, &column, &twos, &mut copy, N as u64)?;
        assert_eq!(
            t1.values(&copy)?,
            [6.0; N],
            "a column must not wait for another device's"
        );
        // The first column, which the first device is writing.
        there.vecadd(&t1, config, &first, &twos, &mut copy, N as u64)?;
        let same = t1.download(&copy)?;
        harness.assert_pending(&same);
        assert_eq!(calls.count("mem_prefetch_async"), 0, "{:?}", calls.counts());
        assert_eq!(calls.count("launch_kernel"), 4, "{:?}", calls.counts());
        gate.open();
        assert_eq!(same.wait()?, [4.0; N]);
        let expected = [[2.0; N], [4.0; N], [5.0; N]].concat();
        assert_eq!(*table.read()?, expected);
        // The other way round: the second device writes, the first waits for it.
        let gate = harness.gate(&t1);
        let mut column = table.slice_mut(2 * N..);
        there.vecadd(&t1, config, &twos, &twos, &mut column, N as u64)?;
        let mut sum = s1.zeros::<f32>(N)?;
        here.vecadd(&s1, config, &ones, &column, &mut sum, N as u64)?;
        assert_eq!(harness.opened(gate, s1.download(&sum)?), [5.0; N]);
        assert_eq!(table.read_range(2 * N..)?[0], 4.0);
    }
    Ok(())
}

#[run_by(scenario_on, |harness, second, [s1], [t1, t2]|)]
fn p06_an_array_is_dropped_while_kernels_and_copies_of_another_device_use_it() -> Result<()> {
    sums::load(second)?;
    let ones = t1.upload(&vec![1.0_f32; N])?;
    let a = s1.upload(&vec![4.0_f32; N])?;
    let mut written = s1.zeros::<f32>(N)?;
    let gates = [harness.gate(&t1), harness.gate(&t2)];
    let (sum, copy) = (doubled(&t1, &a)?, copied(&t2, &a)?);
    double_into(&t1, &ones, written.view_mut())?;
    drop((a, written));
    // Another allocation of the same size must not get the memory that is in use.
    let same_size = [s1.upload(&vec![9.0_f32; N])?, s1.upload(&vec![9.0_f32; N])?];
    for array in &same_size {
        assert_eq!(s1.values(array)?, [9.0; N]);
    }
    let (sum, copy) = (t1.download(&sum)?, t2.download(&copy)?);
    assert_all_pending(harness, &[&sum, &copy]);
    drop(gates);
    assert_eq!(sum.wait()?, [8.0; N]);
    assert_eq!(copy.wait()?, [4.0; N]);
    for array in &same_size {
        assert_eq!(s1.values(array)?, [9.0; N]);
    }
    Ok(())
}

#[test]
fn p06_a_device_closes_while_another_reads_its_memory_and_the_values_arrive() {
    for configuration in all_simulated(&|config| config) {
        let _watch = Watch::over(configuration.name.clone());
        let gpu = configuration.gpu.expect("it is simulated");
        let [one, other] = [0, 1].map(|at| Device::open_simulated(&gpu, at).unwrap());
        let (s, t) = (one.stream().unwrap(), other.stream().unwrap());
        let a = s.upload(&[4.0_f32; 100]).unwrap();
        let mut copy = t.zeros::<f32>(100).unwrap();
        one.peer_status(&other).unwrap();
        let hold = configuration.gates_hold.then(|| gpu.hold(t.as_raw()));
        t.copy(&a, &mut copy).unwrap();
        let sum = doubled(&t, &a).unwrap();
        drop((a, s, one));
        let begun = t.download(&copy).unwrap();
        drop(hold);
        assert_eq!(begun.wait().unwrap(), [4.0; 100]);
        assert_eq!(t.values(&sum).unwrap(), [8.0; 100]);
        drop((copy, sum, t, other));
        assert_nothing_left(&gpu);
    }
}

/// The number of objects whose orders of dropping are tested.
const OBJECTS: usize = 6;

/// Returns a permutation of `0..OBJECTS`; the numbers below `OBJECTS!` give all of them.
fn permutation(mut number: usize) -> Vec<usize> {
    let mut rest: Vec<_> = (0..OBJECTS).collect();
    let mut order = Vec::new();
    for left in (1..=OBJECTS).rev() {
        order.push(rest.remove(number % left));
        number /= left;
    }
    order
}

#[test]
fn p06_arrays_streams_and_devices_are_dropped_in_all_orders_while_work_is_pending() {
    // Coprime to the number of orders, so that consecutive runs differ in the first object.
    const STRIDE: usize = 7;
    let next = AtomicUsize::new(0);
    for configuration in all_simulated(&|config| config) {
        let _watch = Watch::over(configuration.name.clone());
        let gpu = configuration.gpu.expect("it is simulated");
        for _ in 0..8 {
            let order = permutation(STRIDE * next.fetch_add(1, Ordering::Relaxed));
            let [one, other] = [0, 1].map(|at| Device::open_simulated(&gpu, at).unwrap());
            let (s, t) = (one.stream().unwrap(), other.stream().unwrap());
            let a = s.upload(&[4.0_f32; 100]).unwrap();
            let mut b = t.zeros::<f32>(100).unwrap();
            one.peer_status(&other).unwrap();
            let holds = configuration
                .gates_hold
                .then(|| [&s, &t].map(|stream| gpu.hold(stream.as_raw())));
            t.copy(&a, &mut b).unwrap();
            let sum = doubled(&s, &b).unwrap();
            s.copy(&sum, &mut b).unwrap();
            drop(sum);
            let mut objects: Vec<Option<Box<dyn std::any::Any>>> = vec![
                Some(Box::new(a)),
                Some(Box::new(b)),
                Some(Box::new(s)),
                Some(Box::new(t)),
                Some(Box::new(one)),
                Some(Box::new(other)),
            ];
            for at in order {
                drop(objects[at].take());
            }
            drop(holds);
            assert_nothing_left(&gpu);
        }
    }
}
