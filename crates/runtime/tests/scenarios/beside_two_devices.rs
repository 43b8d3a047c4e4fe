//! Page-locked memory of one device in copies of another, and timelines of several devices. On a
//! machine with one GPU they are excluded by name.

use millstream::timeline::{TimedOperation, Timelines};

use crate::scenarios::{
    prelude::*,
    two_devices::{PLAIN, lose, on_two, rising, scenario},
};

/// Runs a scenario with a stream of each device and page-locked memory of the other.
fn with_foreign_host_memory(run: impl Fn(&Harness, &Stream, Pinned<u32>) -> Result<()>) {
    scenario(|harness, other| {
        let elements = rising(harness.large_len(), 1);
        let allocated = harness.device.pinned_from(&elements)?;
        run(harness, &other.stream()?, allocated)?;
        run(
            harness,
            &harness.stream(),
            Pinned::register(other, elements)?,
        )
    });
}

#[run_by(with_foreign_host_memory, |harness, stream, mut pinned|)]
fn page_locked_memory_of_another_device_is_an_operand_of_copies() -> Result<()> {
    let n = pinned.len();
    let mut target = stream.zeros::<u32>(n)?;
    let gate = harness.gate(stream);
    stream.copy(&pinned, &mut target)?;
    // The host waits for the copy that reads, and then for one that writes.
    thread::scope(|scope| {
        let writer = scope.spawn(|| pinned.write_range(..1).map(|mut first| first[0] = 7));
        thread::sleep(Duration::from_millis(2));
        assert!(!writer.is_finished() || !harness.gates_hold());
        gate.open();
        writer.join().unwrap()
    })?;
    assert!(stream.values(&target)? == rising(n, 1));
    stream.fill(&mut target, 5)?;
    stream.copy(target.slice(..3), pinned.slice_mut(4..7))?;
    assert_eq!(pinned.read()?[..8], [7, 2, 3, 4, 5, 5, 5, 8]);
    let rows = pinned.slice(4..8).view_2d(2, 2)?;
    stream.copy_2d(rows, target.view_2d_pitched_mut(2, 2, 3)?)?;
    assert_eq!(stream.values(target.slice(..5))?, [5, 5, 5, 5, 8]);
    stream.copy(pinned.slice(..0), target.slice_mut(..0))?;
    // Dropped during a copy, it is not used again yet.
    let gate = harness.gate(stream);
    stream.copy(&pinned, &mut target)?;
    drop(pinned);
    for device in harness.others().into_iter().chain([harness.device.clone()]) {
        drop(device.pinned_from(&rising(n, 1000))?);
    }
    gate.open();
    assert_eq!(stream.values(&target)?[3..9], [4, 5, 5, 5, 8, 9]);
    Ok(())
}

#[run_by(scenario, |harness, second|)]
fn the_owner_of_page_locked_memory_is_ordered_with_copies_of_another_device() -> Result<()> {
    let n = harness.large_len();
    let (s1, s2) = (harness.stream(), second.stream()?);
    let mut pinned = second.pinned::<u32>(n)?;
    let mut there = s2.upload(&rising(n, 1))?;
    let mut here = s1.zeros::<u32>(n)?;
    let gate = harness.gate(&s2);
    s2.copy(&there, &mut pinned)?;
    s1.copy(&pinned, &mut here)?;
    s2.fill(&mut there, 9)?;
    s2.copy(&there, &mut pinned)?;
    let found = s1.download(&here)?;
    harness.assert_pending(&found);
    gate.open();
    assert!(found.wait()? == rising(n, 1));
    assert_eq!(*pinned.read()?, vec![9; n]);
    Ok(())
}

#[run_by(scenario, |harness, second|)]
fn page_locked_memory_is_no_operand_beside_an_array_of_another_device_or_of_another_driver()
-> Result<()> {
    let stream = harness.stream();
    let mut foreign = second.stream()?.zeros::<u32>(4)?;
    let pinned = second.pinned::<u32>(4)?;
    let error = problem(stream.copy(&pinned, &mut foreign));
    assert_is!(error, UsageErrorKind::OtherDevice { operand: 1, .. });
    let mut array = stream.zeros::<u32>(4)?;
    let recorded = harness.record("g", |graph| graph.stream()?.copy(&pinned, &mut array));
    assert_is!(problem(recorded), UsageErrorKind::Recording { .. });
    let other = Device::simulated()?.pinned::<u32>(4)?;
    let rows = array.view_2d_mut(2, 2)?;
    for error in [
        problem(stream.copy_2d(other.view_2d(2, 2)?, rows)),
        problem(stream.copy(&other, &mut array)),
    ] {
        assert_is!(error, UsageErrorKind::OtherDevice { operand: 0, .. });
    }
    Ok(())
}

#[run_by(on_two(PLAIN), |gpu, [here, there]|)]
fn a_copy_to_page_locked_memory_by_a_lost_device_leaves_an_error_for_its_reader() {
    let (s1, s2) = (here.stream().unwrap(), there.stream().unwrap());
    let source = s2.upload(&[3_u32; 4]).unwrap();
    let mut pinned = here.pinned_from(&[1_u32; 4]).unwrap();
    let hold = gpu.hold(s2.as_raw());
    s2.copy(&source, &mut pinned).unwrap();
    lose(gpu, 1);
    assert_lost(s2.synchronize());
    drop(hold);
    assert!(pinned.read().is_err());
    let mut target = s1.zeros::<u32>(4).unwrap();
    let copied = s1.copy(&pinned, &mut target);
    assert!(copied.and_then(|()| s1.values(&target)).is_err());
    // The owner never waits for the lost device to use the memory again.
    drop(pinned);
    here.set_staging_limit(0);
    assert_eq!(
        *here.pinned_from(&[4_u32; 4]).unwrap().read().unwrap(),
        [4; 4]
    );
    assert_eq!(s1.values(s1.upload(&[5_u8; 99]).unwrap()).unwrap(), [5; 99]);
}

#[run_by(scenario, |harness, second|)]
fn timelines_of_several_devices_have_one_clock() -> Result<()> {
    let (s1, s2) = (harness.stream(), second.stream()?);
    let timelines = Timelines::begin(&[harness.device.clone(), second.clone()])?;
    let n = harness.large_len();
    let source = s1.upload(&rising(n, 1))?;
    let mut target = s2.zeros::<u32>(n)?;
    s2.copy(&source, &mut target)?;
    assert!(s2.values(&target)? == rising(n, 1));
    let traces = timelines.finish()?;
    let of_first = &traces.traces[0].operations;
    for later in &traces.traces[1].operations {
        let awaited =
            |earlier: &&TimedOperation| later.waits.contains(&(earlier.stream, earlier.sequence));
        for earlier in of_first.iter().filter(awaited) {
            let start_ns = later.time_ns.start + 20_000;
            assert!(start_ns >= earlier.time_ns.end, "{later:?} {earlier:?}");
        }
    }
    let file = traces.to_chrome_trace();
    assert_eq!(file.matches("\"process_name\"").count(), 2, "{file}");
    assert!(
        file.contains("\"pid\":1") && file.contains("\"pid\":2"),
        "{file}"
    );
    let twice = problem(Timelines::begin(&[second.clone(), second.clone()]));
    assert_is!(
        twice,
        UsageErrorKind::RepeatedDevice {
            first: 0,
            second: 1,
            ..
        }
    );
    let elsewhere = problem(Timelines::begin(&[second.clone(), Device::simulated()?]));
    assert_is!(elsewhere, UsageErrorKind::OtherDriver { rank: 1, .. });
    assert_is!(problem(Timelines::begin(&[])), UsageErrorKind::NoDevices);
    Ok(())
}
