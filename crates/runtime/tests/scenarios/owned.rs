//! Owned uploads, and vectors registered as page-locked memory.

use bytes::Bytes;

use crate::scenarios::{outsiders::wait_until, prelude::*};

/// The length of a source that may be captured at once.
const SMALL: usize = 1500;

fn rising(len: usize, from: u32) -> Vec<u32> {
    (from..).take(len).collect()
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b02_an_owned_source_is_uploaded_behind_a_gate_from_wherever_it_lies() -> Result<()> {
    for len in [0, SMALL, harness.large_len()] {
        let expected = rising(len, 1);
        let mut target = s1.zeros::<u32>(len)?;
        let gate = harness.gate(&s1);
        let shared: Arc<[u32]> = Arc::from(expected.as_slice());
        let arrays = [
            s1.upload_owned(expected.clone())?,
            s1.upload_owned(expected.clone().into_boxed_slice())?,
            s1.upload_owned(Arc::clone(&shared))?,
            s1.upload_owned(Arc::new(expected.clone()))?,
        ];
        let bytes = s1.upload_owned(Bytes::from(vec![7_u8; len * 2]))?;
        let back = s1.upload_owned_into(expected.clone(), &mut target)?;
        drop(shared);
        gate.open();
        for array in arrays {
            assert!(s2.values(&array)? == expected, "{len}");
        }
        assert!(s2.values(&bytes)? == vec![7; len * 2]);
        assert!(s2.values(&target)? == expected);
        assert!(back.wait()? == expected, "the source comes back");
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn an_owned_source_is_released_when_its_upload_completes() -> Result<()> {
    let len = harness.large_len();
    let source: Arc<[u32]> = Arc::from(rising(len, 3));
    let gate = harness.gate(&s1);
    let target = s1.upload_owned(Arc::clone(&source))?;
    let mut copy = s2.zeros::<u32>(len)?;
    s2.copy(&target, &mut copy)?;
    drop(target);
    if harness.gates_hold() {
        assert_eq!(
            Arc::strong_count(&source),
            2,
            "the pending upload holds the source"
        );
    }
    gate.open();
    assert!(s2.values(&copy)? == *source);
    wait_until(|| Arc::strong_count(&source) == 1);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b08_a_dropped_owned_upload_goes_on_and_frees_its_source() -> Result<()> {
    let len = harness.large_len();
    let source = Arc::new(rising(len, 3));
    let mut target = s1.zeros::<u32>(len)?;
    let gate = harness.gate(&s1);
    drop(s1.upload_owned_into(Arc::clone(&source), &mut target)?);
    harness.leaks();
    std::mem::forget(s1.upload_owned_into(Arc::new(rising(len, 4)), &mut target)?);
    gate.open();
    assert!(s2.values(&target)? == rising(len, 4));
    wait_until(|| Arc::strong_count(&source) == 1);
    Ok(())
}

#[run_by(everywhere_counted, |harness, calls|)]
fn b10_owned_uploads_that_are_never_awaited_stay_bounded() {
    let stream = harness.stream();
    let rounds = if on_gpu() { 1_000_000 } else { 300 };
    let mut target = stream.zeros::<u32>(SMALL).unwrap();
    calls.forget();
    for round in 0..rounds {
        drop(
            stream
                .upload_owned_into(vec![round as u32; SMALL], &mut target)
                .unwrap(),
        );
    }
    assert_eq!(stream.values(&target).unwrap(), [rounds as u32 - 1; SMALL]);
    // Blocks of 8 KiB in a pool of at most 256 MiB.
    assert!(
        calls.count("host_alloc") <= rounds.min(32_768) + 1,
        "{:?}",
        calls.counts()
    );
}

#[test]
fn pending_owned_sources_stay_bounded() {
    // Runs under one schedule only, because it needs much memory.
    let gpu = Gpu::new(SimConfig::new());
    let _watch = Watch::over(String::from("owned sources in waiting"));
    let stream = Device::open_simulated(&gpu, 0).unwrap().stream().unwrap();
    let mut target = stream.zeros::<u8>(100 << 20).unwrap();
    let source = Bytes::from(vec![5_u8; 100 << 20]);
    let hold = gpu.hold(stream.as_raw());
    thread::scope(|scope| {
        let uploads = scope.spawn(|| {
            for _ in 0..3 {
                drop(
                    stream
                        .upload_owned_into(source.clone(), &mut target)
                        .unwrap(),
                );
            }
        });
        thread::sleep(Duration::from_millis(50));
        assert!(
            !uploads.is_finished(),
            "300 MiB of sources exceed the limit, so the call must block"
        );
        drop(hold);
        uploads.join().unwrap();
    });
    stream.synchronize().unwrap();
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[run_by(scenario_on, |_, [stream]|)]
fn b13_a_source_that_is_not_taken_comes_back_with_the_error() -> Result<()> {
    let mut target = stream.zeros::<u32>(3)?;
    let (refused, source) = rejected(stream.upload_owned_into(vec![1, 2, 3, 4], &mut target));
    assert_eq!(source, [1, 2, 3, 4]);
    assert_eq!(problem::<()>(Err(refused)), unequal(4, 3));

    let elsewhere = Device::simulated()?.stream()?;
    let (refused, source) = rejected(elsewhere.upload_owned_into(vec![1, 2, 3], &mut target));
    let refused = problem::<()>(Err(refused));
    assert_is!(refused, UsageErrorKind::OtherDevice { operand: 0, .. });
    drop(stream.upload_owned_into(source, &mut target)?);
    assert_eq!(stream.values(&target)?, [1, 2, 3]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b11_a_registered_vector_is_read_and_written_between_copies() -> Result<()> {
    for len in [1, SMALL] {
        let mut pinned = Pinned::register(&harness.device, rising(len, 1))?;
        let mut target = s1.zeros::<u32>(len)?;
        let gate = harness.gate(&s1);
        s1.copy(&pinned, &mut target)?;
        assert_eq!(
            pinned.read()?[0],
            1,
            "a host read does not wait for a copy that reads"
        );
        gate.open();
        pinned.write()?.fill(9);
        assert!(s2.values(&target)? == rising(len, 1));
        s2.copy(&target, &mut pinned)?;
        assert!(*pinned.read()? == rising(len, 1));
        assert!(pinned.into_vec()? == rising(len, 1));
    }
    assert!(
        Pinned::register(&harness.device, Vec::<u64>::new())?
            .into_vec()?
            .is_empty()
    );
    Ok(())
}

/// Asserts that a registered vector is returned without a copy: at once, or on a GPU after the
/// devices of earlier scenarios are closed.
pub(crate) fn comes_back_itself(device: &Device) -> Result<()> {
    let closing = Instant::now();
    loop {
        let vector = rising(SMALL, 1);
        let address = vector.as_ptr();
        let vector = Pinned::register(device, vector)?.into_vec()?;
        if vector.as_ptr() == address {
            return Ok(());
        }
        assert!(
            on_gpu() && closing.elapsed() < CLOSED_WITHIN,
            "the vector was copied although the device is idle"
        );
        thread::sleep(Duration::from_micros(200));
    }
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn a_registered_vector_is_returned_itself_on_an_idle_device_and_as_a_copy_otherwise() -> Result<()>
{
    if harness.device.stream()?.is_idle()? && s1.is_idle()? && s2.is_idle()? {
        comes_back_itself(&harness.device)?;
    }
    let vector = rising(SMALL, 1);
    let address = vector.as_ptr();
    let pinned = Pinned::register(&harness.device, vector)?;
    let mut target = s1.zeros::<u32>(SMALL)?;
    s1.copy(&pinned, &mut target)?;
    s1.synchronize()?;
    let gate = harness.gate(&s2);
    let copy = pinned.into_vec()?;
    if harness.gates_hold() {
        assert_ne!(
            copy.as_ptr(),
            address,
            "unregistering it would wait for the gate"
        );
    }
    assert!(copy == rising(SMALL, 1));
    gate.open();
    Ok(())
}

#[run_by(everywhere_counted, |harness, calls|)]
fn b12_a_registered_vector_dropped_in_flight_is_unlocked_when_the_device_is_idle() {
    let [s1, s2] = harness.streams();
    let pinned = Pinned::register(&harness.device, rising(SMALL, 5)).unwrap();
    let mut target = s2.zeros::<u32>(SMALL).unwrap();
    let gate = harness.gate(&s1);
    s1.copy(&pinned, &mut target).unwrap();
    drop(pinned);
    let other = Pinned::register(&harness.device, rising(SMALL, 6)).unwrap();
    if harness.gates_hold() {
        assert_eq!(
            calls.count("host_unregister"),
            0,
            "it would wait for the gate"
        );
    }
    gate.open();
    assert_eq!(s2.values(&target).unwrap(), rising(SMALL, 5));
    drop((other, target));
    for _ in 0..1000 {
        // Registering checks whether the device is idle.
        drop(Pinned::register(&harness.device, rising(SMALL, 7)).unwrap());
        if calls.count("host_unregister") >= 2 {
            return;
        }
        calls.pause(Duration::from_millis(1));
    }
    panic!(
        "the vectors stayed registered on an idle device: {:?}",
        calls.counts()
    );
}

#[run_by(everywhere_counted, |harness, calls|)]
fn b13_a_vector_that_cannot_be_registered_comes_back_with_the_error() {
    calls.fail(|call| {
        let hit = call == "host_register";
        hit.then(|| DriverError::new("cuMemHostRegister", ResultCode::OUT_OF_MEMORY))
    });
    let (error, source) = rejected(Pinned::register(&harness.device, rising(SMALL, 5)));
    assert_is!(error, Error::Driver(_));
    assert_eq!(source, rising(SMALL, 5));
    calls.fail_no_more();
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn awaited_guards_wait_only_for_conflicting_copies() -> Result<()> {
    let mut pinned = harness.device.pinned::<u32>(SMALL)?;
    let source = s1.upload(&rising(SMALL, 2))?;
    let (gate, other) = (harness.gate(&s1), harness.gate(&s2));
    s1.copy(&source, &mut pinned)?;
    // Later work on the stream, which the guard must not wait for.
    let behind = harness.gate(&s1);
    thread::scope(|scope| {
        let guard = scope
            .spawn(|| pollster::block_on(async { pinned.read_async().await.map(|v| v.to_vec()) }));
        thread::sleep(Duration::from_millis(2));
        if harness.gates_hold() {
            assert!(!guard.is_finished());
        }
        gate.open();
        assert_eq!(guard.join().unwrap()?, rising(SMALL, 2));
        Ok::<_, Error>(())
    })?;
    drop(other);
    behind.open();
    pollster::block_on(pinned.write_async())?.fill(1);
    assert_eq!(*pinned.read()?, [1; SMALL]);
    Ok(())
}
