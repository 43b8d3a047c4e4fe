//! Scenarios with two devices. On a machine with one GPU they are excluded by name.

#![allow(unsafe_code, reason = "simulates foreign code")]

use millstream::{
    driver::{DeviceOrdinal, cuda::Cuda},
    sim::Fault,
};

use crate::scenarios::{harness::LARGE_LEN, prelude::*};

/// Runs a scenario with the harness's device and each other one.
pub(crate) fn scenario(run: impl Fn(&Harness, &Device) -> Result<()>) {
    everywhere(|harness| {
        for other in &harness.others() {
            assert!(harness.device != *other);
            run(harness, other).unwrap();
        }
    });
}

/// Runs a scenario on the usual devices, which access each other's memory, and on simulated ones
/// that do not, so that copies are staged through the host.
fn on_both_routes(run: impl Fn(&Harness, &Device) -> Result<()>) {
    scenario(&run);
    let without_access = |config: SimConfig| config.links(Links::all(Link::NoPeerAccess));
    everywhere_simulated(without_access, |harness| {
        for other in &harness.others() {
            let status = harness.device.peer_status(other).unwrap();
            assert!(!status.is_direct(), "{status:?}");
            run(harness, other).unwrap();
        }
    });
}

/// The schedules without random choices.
pub(crate) const PLAIN: [Schedule; 3] = [Schedule::Timed, Schedule::Eager, Schedule::Lazy];

/// Runs a test on two simulated devices under each of these schedules.
pub(crate) fn on_two(
    schedules: impl IntoIterator<Item = Schedule>,
    test: impl Fn(&Gpu, [Device; 2]),
) {
    for schedule in schedules {
        println!("{schedule:?}");
        let _watch = Watch::over(format!("{schedule:?}"));
        let gpu = Gpu::new(SimConfig::new().devices(2).schedule(schedule));
        let devices = [0, 1].map(|ordinal| Device::open_simulated(&gpu, ordinal).unwrap());
        test(&gpu, devices);
    }
}

pub(crate) fn rising(len: usize, from: u32) -> Vec<u32> {
    (from..).take(len).collect()
}

/// Returns a stream of the source's and one of the target's device, and whether the copy is
/// enqueued on the target's: first on the target's, then on the source's.
fn either(harness: &Harness, second: &Device) -> Result<[(Stream, Stream, bool); 2]> {
    let stream = || Ok::<_, Error>((harness.stream(), second.stream()?));
    let (a, b) = (stream()?, stream()?);
    Ok([(a.0, a.1, true), (b.0, b.1, false)])
}

#[run_by(on_both_routes, |harness, second|)]
fn b03_a_copy_between_devices_is_right_behind_a_gate_on_either() -> Result<()> {
    let n = harness.large_len();
    for (s1, s2, on_target) in either(harness, second)? {
        let copying = if on_target { &s2 } else { &s1 };
        for gated in [&s1, &s2] {
            let mut source = s1.upload(&rising(n, 1))?;
            let mut target = s2.zeros::<u32>(n)?;
            let gate = harness.gate(gated);
            s1.fill(source.slice_mut(..5), 9)?;
            copying.copy(&source, &mut target)?;
            // The source is overwritten after the copy that reads it, and freed.
            harness.stream().fill(&mut source, 0)?;
            drop(source);
            let arrived = s2.download(&target)?;
            harness.assert_pending(&arrived);
            drop(target);
            gate.open();
            let mut expected = rising(n, 1);
            expected[..5].fill(9);
            assert!(arrived.wait()? == expected);
        }
    }
    Ok(())
}

#[run_by(on_both_routes, |harness, second|)]
fn b03_a_copy_between_devices_waits_for_no_work_but_its_own() -> Result<()> {
    let n = harness.large_len();
    for (s1, s2, on_target) in either(harness, second)? {
        let copying = if on_target { &s2 } else { &s1 };
        let source = s1.upload(&rising(n, 7))?;
        let mut target = s2.zeros::<u32>(n)?;
        let (other1, other2) = (harness.stream(), second.stream()?);
        // A reader of the source and a stream of the target's device, both blocked.
        let gates = [harness.gate(&other1), harness.gate(&other2)];
        let held = other1.download(&source)?;
        copying.copy(&source, &mut target)?;
        assert!(s2.values(&target)? == rising(n, 7));
        drop(gates);
        assert!(held.wait()? == rising(n, 7));
    }
    Ok(())
}

#[run_by(on_both_routes, |harness, second|)]
fn b03_a_copy_between_devices_keeps_the_order_of_its_stream() -> Result<()> {
    let n = harness.large_len();
    for (s1, s2, on_target) in either(harness, second)? {
        let copying = if on_target { &s2 } else { &s1 };
        let mut source = s1.upload(&rising(n, 3))?;
        let mut target = s2.zeros::<u32>(n)?;
        // The operation that delays the copy is on the other device.
        let gate = harness.gate(if on_target { &s1 } else { &s2 });
        if on_target {
            s1.fill(source.slice_mut(..1), 3)?;
        } else {
            s2.fill(&mut target, 0)?;
        }
        copying.copy(&source, &mut target)?;
        let behind = copying.record()?;
        harness.open_pending(gate, &behind);
        behind.wait()?;
        assert!(s2.values(&target)? == rising(n, 3));
    }
    Ok(())
}

#[run_by(on_both_routes, |harness, second|)]
fn b03_parts_and_lengths_of_copies_between_devices() -> Result<()> {
    let (s1, s2) = (harness.stream(), second.stream()?);
    let source = s1.upload(&[1_u8, 2, 3, 4, 5])?;
    let mut target = s2.zeros::<u8>(4)?;
    s2.copy(source.slice(1..4), target.slice_mut(1..))?;
    s2.copy(source.slice(..0), target.slice_mut(..0))?;
    assert_eq!(s2.values(&target)?, [0, 2, 3, 4]);
    let refused = problem(s2.copy(&source, &mut target));
    assert_eq!(refused, unequal(5, 4));
    let refused = problem(s2.download(&source));
    assert_is!(refused, UsageErrorKind::OtherDevice { operand: 0, .. });
    assert_eq!(s2.values(&target)?, [0, 2, 3, 4]);
    Ok(())
}

#[run_by(on_both_routes, |harness, second|)]
fn b03_devices_may_close_while_a_copy_between_them_is_pending() -> Result<()> {
    let n = harness.large_len();
    let (s1, s2) = (harness.stream(), second.stream()?);
    let mut target = s1.zeros::<u32>(n)?;
    let source = s2.upload(&rising(n, 5))?;
    let gate = harness.gate(&s1);
    s1.copy(&source, &mut target)?;
    let arrived = s1.download(&target)?;
    drop((source, s2, target, s1));
    gate.open();
    assert!(arrived.wait()? == rising(n, 5));
    Ok(())
}

/// Makes the device's context current on a GPU, as foreign code on the thread may do at any time.
fn foreign_code(device: &Device) {
    if on_gpu() {
        let cuda = Cuda::load().expect("the driver loaded before");
        // SAFETY: the context lives as long as the device.
        unsafe { cuda.make_current(device.as_raw()) }.expect("a live context");
    }
}

#[run_by(scenario, |harness, second|)]
fn foreign_code_may_make_another_devices_context_current() -> Result<()> {
    for (ours, other) in [(&harness.device, second), (second, &harness.device)] {
        foreign_code(other);
        let (s1, s2) = (ours.stream()?, ours.stream()?);
        foreign_code(other);
        let mut array = s1.zeros::<f32>(1000)?;
        let mut sum = s2.zeros::<f32>(1000)?;
        foreign_code(other);
        s1.fill(&mut array, 5.0)?;
        foreign_code(other);
        // An event is recorded on one stream, and the other waits for it.
        s2.fill(array.slice_mut(..500), 6.0)?;
        foreign_code(other);
        let event = s2.record()?;
        s1.wait_for(&event)?;
        foreign_code(other);
        let kernels = sums::load(ours)?;
        foreign_code(other);
        kernels.vecadd(&s1, 1000, &array, &array, &mut sum, 1000)?;
        foreign_code(other);
        let mut pinned = ours.pinned::<f32>(1000)?;
        s2.copy(&sum, &mut pinned)?;
        foreign_code(other);
        let found = s1.values(&sum)?;
        assert_eq!((found[0], found[999]), (12.0, 10.0));
        assert_eq!(*pinned.read()?, *found);
        foreign_code(other);
        drop((array, sum, pinned, event, s1, s2));
        if on_gpu() {
            let cuda = Cuda::load().expect("the driver loaded before");
            let current = cuda.current_context().expect("the driver answers");
            assert_eq!(
                current,
                other.as_raw(),
                "other code finds its own context current"
            );
        }
    }
    Ok(())
}

#[test]
fn d03_the_loss_of_a_device_poisons_the_arrays_that_its_data_was_to_reach_and_no_other_device() {
    for schedule in schedules(1..3) {
        for (copy_first, on_target) in [(false, false), (false, true), (true, false), (true, true)]
        {
            let _watch = Watch::over(format!("{schedule:?}, {copy_first}, {on_target}"));
            let gpu = Gpu::new(SimConfig::new().devices(4).schedule(schedule));
            let n = LARGE_LEN;
            let devices =
                [0, 1, 2, 3].map(|ordinal| Device::open_simulated(&gpu, ordinal).unwrap());
            let [s0, s1, s2, s3] = devices.each_ref().map(|device| device.stream().unwrap());
            let mut source = s0.upload(&rising(n, 1)).unwrap();
            let mut target = s1.zeros::<u32>(n).unwrap();
            let mut further = s2.zeros::<u32>(n).unwrap();
            let mut arrived = None;
            let hold = gpu.hold(s0.as_raw());
            if !copy_first {
                fault(&s0);
                // Orders the copy after the fault, whichever stream reads the source.
                s0.fill(source.slice_mut(..1), 1).unwrap();
            }
            let mut copy = |hold| {
                if on_target { &s1 } else { &s0 }
                    .copy(&source, &mut target)
                    .unwrap();
                s2.copy(&target, &mut further).unwrap();
                arrived = Some((
                    s1.download(&target).unwrap(),
                    s2.download(&further).unwrap(),
                ));
                drop(hold);
            };
            if copy_first {
                copy(hold);
                for pending in <[_; 2]>::from(arrived.take().unwrap()) {
                    assert!(pending.wait().unwrap() == rising(n, 1));
                }
                fault(&s0);
            } else {
                copy(hold);
                for pending in <[_; 2]>::from(arrived.take().unwrap()) {
                    let result = pending.wait();
                    assert!(
                        matches!(
                            result,
                            Err(Error::Poisoned {
                                operation: "copy",
                                ..
                            })
                        ),
                        "a download succeeded although its data was never copied"
                    );
                }
            }
            assert!(matches!(s0.synchronize(), Err(Error::DeviceLost { .. })));
            for device in &devices[1..] {
                assert!(device.lost().is_none());
            }
            if !copy_first {
                // Every use is an error, and what was computed from it is as invalid as it is.
                let poisoned = |result: Result<()>| matches!(result, Err(Error::Poisoned { .. }));
                let mut sum = s1.zeros::<u32>(n).unwrap();
                assert!(poisoned(s1.copy(&target, &mut sum)));
                assert!(poisoned(s1.download(&target).map(drop)));
                assert!(poisoned(
                    s1.fill(target.slice_mut(..n / 2), 3)
                        .and_then(|()| { s1.download(&target).map(drop) })
                ));
                // Overwritten as a whole, they are valid again.
                s1.fill(&mut target, 4).unwrap();
                s2.upload_into(&rising(n, 9), &mut further).unwrap();
                assert!(s1.values(&target).unwrap() == vec![4; n]);
                assert!(s2.values(&further).unwrap() == rising(n, 9));
            }
            let works = s3
                .upload(&[1_u8])
                .and_then(|buffer| s3.download(&buffer)?.wait());
            assert_eq!(works.unwrap(), [1]);
            if copy_first {
                assert!(s1.values(&target).unwrap() == rising(n, 1));
            }
        }
    }
}

/// Loses the device with the next driver call.
pub(crate) fn lose(gpu: &Gpu, ordinal: i32) {
    let device = DeviceOrdinal::from_raw(ordinal);
    gpu.inject(Fault::nth(1).losing(device, ResultCode::ILLEGAL_ADDRESS));
}

#[run_by(on_two(PLAIN), |gpu, [here, there]|)]
fn d03_streams_of_one_device_that_were_ordered_through_a_lost_device_stay_ordered() {
    let [slow, stream] = [(); 2].map(|()| here.stream().unwrap());
    let other = there.stream().unwrap();
    let mut x = slow.zeros::<u32>(4).unwrap();
    let mut y = other.zeros::<u32>(4).unwrap();
    let mut z = stream.zeros::<u32>(4).unwrap();
    let hold = gpu.hold(slow.as_raw());
    slow.fill(&mut x, 9).unwrap();
    // The other device waits for the fill, and the second stream for the other device.
    other.copy(&x, &mut y).unwrap();
    stream.copy(&y, &mut z).unwrap();
    lose(gpu, 1);
    let found = stream.download(&x).unwrap();
    assert!(matches!(other.synchronize(), Err(Error::DeviceLost { .. })));
    drop(hold);
    assert_eq!(found.wait().unwrap(), [9; 4]);
}

#[test]
fn d03_an_operation_that_a_lost_device_was_to_follow_is_still_waited_for() {
    for lost_first in [false, true] {
        on_two(PLAIN, |gpu, [here, there]| {
            let [slow, stream] = [(); 2].map(|()| here.stream().unwrap());
            let other = there.stream().unwrap();
            let mut x = slow.zeros::<u32>(4).unwrap();
            let y = other.zeros::<u32>(4).unwrap();
            let hold = gpu.hold(slow.as_raw());
            slow.fill(&mut x, 9).unwrap();
            // Overwrites what the fill writes, on the other device.
            other.copy(&y, &mut x).unwrap();
            if lost_first {
                lose(gpu, 1);
                assert!(matches!(other.synchronize(), Err(Error::DeviceLost { .. })));
                drop((other, y, there));
            }
            stream.fill(&mut x, 3).unwrap();
            if !lost_first {
                lose(gpu, 1);
            }
            // Lets everything run that is not ordered behind the hold.
            stream.upload(&[1_u8]).unwrap();
            stream.is_idle().unwrap();
            drop(hold);
            slow.synchronize().unwrap();
            assert_eq!(stream.values(&x).unwrap(), [3; 4]);
        });
    }
}

#[run_by(scenario, |harness, second|)]
fn b12_frees_that_need_an_idle_device_do_not_wait_for_another_one() -> Result<()> {
    let device = &harness.device;
    let stream = harness.stream();
    let blocked = second.stream()?;
    let gate = harness.gate(&blocked);
    let mut elsewhere = blocked.zeros::<u32>(4)?;
    blocked.fill(&mut elsewhere, 7)?;

    drop(device.managed::<u32>(100)?);
    drop(device.managed::<u32>(10_000)?);
    let locked = Pinned::register(device, vec![3_u32; 50])?;
    assert_eq!(locked.into_vec()?, [3; 50]);
    drop(Pinned::register(device, vec![3_u32; 50])?);
    drop(Pinned::register(device, vec![4_u32; 50])?);
    let mut x = stream.zeros::<u32>(4)?;
    for value in 0..3 {
        let graph = device.record("a fill", |r| r.stream()?.fill(&mut x, value))?;
        graph.replay(&stream)?;
    }
    assert_eq!(stream.values(&x)?, [2; 4]);
    device.trim()?;
    assert_eq!(harness.opened(gate, blocked.download(&elsewhere)?), [7; 4]);
    Ok(())
}

#[run_by(everywhere, |harness|)]
fn b12_a_device_is_closed_and_opened_again_while_another_works() {
    let blocked = harness.stream();
    let mut kept = blocked.zeros::<u32>(4).unwrap();
    // Opened before the gate is closed, because on a GPU that loads a module.
    let mut closed_meanwhile = Some(harness.second());
    let gate = harness.gate(&blocked);
    blocked.fill(&mut kept, 5).unwrap();
    for round in 0..3 {
        let second = match closed_meanwhile.take() {
            Some(first) => first,
            None => harness.second(),
        };
        let stream = second.stream().unwrap();
        let n = harness.large_len();
        // Page-locked memory that stages the copies.
        let array = stream.upload(&rising(n, round)).unwrap();
        assert!(stream.values(&array).unwrap() == rising(n, round));
        drop(second.managed::<u32>(100 + n * round as usize).unwrap());
    }
    assert_eq!(
        harness.opened(gate, blocked.download(&kept).unwrap()),
        [5; 4]
    );
}

#[test]
fn d03_the_loss_of_a_device_keeps_no_other_from_freeing() {
    for is_closed in [false, true] {
        on_two(PLAIN, |gpu, [device, lost]| {
            // Opened through another driver, it keeps the context when the lost one is closed.
            let _again = open(&Arc::new(Calls::over(gpu.driver())), 1).unwrap();
            let stream = lost.stream().unwrap();
            let mut x = stream.zeros::<u32>(4).unwrap();
            let hold = gpu.hold(stream.as_raw());
            stream.fill(&mut x, 9).unwrap();
            lose(gpu, 1);
            assert_lost(stream.synchronize());
            let lost = Some((lost, stream, x)).filter(|_| !is_closed);
            drop(device.managed::<u32>(100).unwrap());
            assert_ne!(gpu.live_object_counts().managed_bytes, 0);
            device.trim().unwrap();
            assert_eq!(gpu.live_object_counts().managed_bytes, 0);
            drop((hold, lost));
        });
    }
}
