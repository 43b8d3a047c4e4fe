//! Managed memory: tracked by byte range like all memory, and accessed by the host through guards.

use millstream::array::Advice;

use crate::scenarios::prelude::*;

#[run_by(scenario, |harness|)]
fn kernels_copies_and_the_host_share_managed_memory() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let [s1, s2] = harness.streams();
    let mut a = harness.device.managed::<f32>(N)?;
    assert_eq!(*a.read()?, [0.0; N]);
    a.write()?.fill(2.0);
    let mut b = harness.device.managed::<f32>(N)?;
    kernels.vecadd(&s1, N, &a, &a, &mut b, N as u64)?;
    let buffer = s2.upload(&[1.0_f32; N])?;
    s2.copy(buffer.slice(..10), b.slice_mut(..10))?;
    let arrived = s1.download(&b)?;
    let mut expected = [4.0; N];
    expected[..10].fill(1.0);
    assert_eq!(*b.read()?, expected);
    b.write()?[N - 1] = 9.0;
    assert_eq!(arrived.wait()?, expected);
    s1.fill(b.slice_mut(5..6), 7.0)?;
    let host = pollster::block_on(b.read_range_async(4..7))?;
    assert_eq!(*host, [1.0, 7.0, 1.0]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn a07_the_host_waits_for_the_bytes_it_wants_and_not_for_what_comes_later() -> Result<()> {
    let mut table = harness.device.managed::<u32>(N)?;
    s1.fill(table.slice_mut(..700), 1)?;
    let mut behind = s1.zeros::<u32>(N)?;
    let gates = [harness.gate(&s1), harness.gate(&s2)];
    s1.fill(&mut behind, 3)?;
    s2.fill(table.slice_mut(700..), 2)?;
    assert_eq!(*table.read_range(..700)?, [1; 700], "no gate is in the way");
    table.write_range(..10)?.fill(5);
    thread::scope(|scope| {
        let whole = scope.spawn(|| table.read().map(|values| values.to_vec()));
        thread::sleep(Duration::from_millis(2));
        if harness.gates_hold() {
            assert!(!whole.is_finished(), "the second half is behind a gate");
        }
        drop(gates);
        let values = whole.join().unwrap()?;
        assert_eq!((values[9], values[10], values[700]), (5, 1, 2));
        Ok(())
    })
}

#[run_by(scenario_on, |harness, [s1, s2, s3]|)]
pub(crate) fn a04_managed_ranges_are_ordered_exactly_on_the_overlap() -> Result<()> {
    let mut table = harness.device.managed::<u32>(N)?;
    let gate = harness.gate(&s1);
    s1.fill(table.slice_mut(..500), 1)?;
    s2.fill(table.slice_mut(500..), 2)?;
    assert_eq!(s2.values(table.slice(500..))?, [2; 1000]);
    s3.fill(table.slice_mut(499..501), 3)?;
    assert_eq!(
        harness.opened(gate, s3.download(table.slice(498..502))?),
        [1, 3, 3, 2]
    );
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn prefetches_and_advice_change_no_value_and_keep_the_order() -> Result<()> {
    let mut table = harness.device.managed::<u64>(N)?;
    let advice = [
        Advice::ReadMostly(true),
        Advice::ReadMostly(false),
        Advice::PreferDevice,
        Advice::PreferHost,
        Advice::PreferNothing,
        Advice::AccessedByDevice(true),
        Advice::AccessedByDevice(false),
        Advice::AccessedByHost(true),
        Advice::AccessedByHost(false),
    ];
    for advice in advice {
        table.advise(advice)?;
    }
    table.write()?.fill(6);
    s1.prefetch(table.slice(1..9))?;
    let gate = harness.gate(&s2);
    s2.fill(&mut table, 8)?;
    s1.prefetch(&table)?;
    s1.prefetch_to_host(table.slice(..3))?;
    s1.prefetch(table.slice(..0))?;
    let behind = s1.record()?;
    harness.open_pending(gate, &behind);
    assert_eq!(*table.read()?, [8; N]);

    let buffer = s1.zeros::<u8>(4)?;
    let refused = problem(s1.prefetch(&buffer));
    assert_eq!(refused, UsageErrorKind::NotManaged);
    let elsewhere = millstream::Device::simulated()?.stream()?;
    let refused = problem(elsewhere.prefetch(&table));
    assert_is!(refused, UsageErrorKind::OtherDevice { .. });
    Ok(())
}

#[test]
fn b12_managed_memory_dropped_in_flight_is_given_out_again_and_never_freed_while_the_device_works()
{
    everywhere_counted(|harness, calls| {
        let [s1, s2] = harness.streams();
        let mut first = harness.device.managed::<u32>(N).unwrap();
        let address = first.as_raw();
        let gate = harness.gate(&s1);
        s1.fill(&mut first, 1).unwrap();
        drop(first);
        let mut second = harness.device.managed::<u32>(N).unwrap();
        if harness.gates_hold() {
            assert_ne!(
                second.as_raw(),
                address,
                "the old memory is still being written"
            );
        }
        s2.fill(&mut second, 2).unwrap();
        assert_eq!(*second.read().unwrap(), [2; N]);
        if harness.gates_hold() {
            assert_eq!(
                calls.count("mem_free"),
                0,
                "mem_free would wait for the gate"
            );
        }
        gate.open();
        s1.synchronize().unwrap();
        drop(second);
        let made = calls.count("mem_alloc_managed");
        let third = harness.device.managed::<u32>(N - 1).unwrap();
        assert_eq!(
            calls.count("mem_alloc_managed"),
            made,
            "the cached memory is large enough to be reused"
        );
        assert_eq!(
            *third.read().unwrap(),
            [0; N - 1],
            "reused memory is zeroed"
        );
    });
}

#[run_by(scenario_on, |harness, [s1]|)]
fn b15_managed_arrays_of_no_and_of_one_element() -> Result<()> {
    let mut none = harness.device.managed::<u64>(0)?;
    assert!(none.is_empty() && none.read()?.is_empty() && none.write()?.is_empty());
    s1.fill(&mut none, 1)?;
    none.advise(Advice::PreferHost)?;
    let mut one = harness.device.managed::<u8>(1)?;
    s1.fill(&mut one, 3)?;
    assert_eq!(*one.read()?, [3]);
    assert!(one.read_range(..2).is_err() && one.write_range(2..).is_err());
    let huge = harness.device.managed::<u64>(usize::MAX / 4);
    assert!(matches!(huge.map(drop), Err(Error::Usage(_))));
    if !on_gpu() {
        let too_much = harness.device.managed::<u8>(1 << 50);
        assert!(matches!(too_much.map(drop), Err(Error::OutOfMemory(_))));
    }
    Ok(())
}
