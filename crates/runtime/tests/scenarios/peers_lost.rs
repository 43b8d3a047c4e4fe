//! Scenarios of several devices of which one is lost, while others copy from it or it writes their
//! memory. All run on the simulated device.

use std::fmt::Debug;

use crate::scenarios::{
    peers::{copied, streams},
    prelude::*,
    two_devices::on_two,
};

/// Asserts that the result is the error of memory that `operation` of this file would have filled
/// with data of the device.
#[track_caller]
fn assert_poisoned<T: Debug>(result: Result<T>, by: &str, lost: &Device) {
    match result {
        Err(Error::Poisoned {
            operation,
            location,
            device,
            ..
        }) => {
            assert_eq!(operation, by);
            assert!(location.file().ends_with("peers_lost.rs"), "{location}");
            assert_eq!(device, lost.to_string());
        }
        other => panic!("not the error of invalid contents: {other:?}"),
    }
}

/// Runs a scenario under several schedules, with direct and with staged copies.
///
/// The arguments of `run` are the devices, whether copies are direct, and whether they are to run
/// on the target's device.
fn each_route(run: impl Fn(&Gpu, bool, bool)) {
    for schedule in schedules(1..3) {
        for link in [Link::NvLink, Link::NoPeerAccess] {
            for on_target in [false, true] {
                let _watch = Watch::over(format!("{schedule:?}, {link:?}, {on_target}"));
                let config = SimConfig::new().devices(3).schedule(schedule);
                let gpu = Gpu::new(config.links(Links::all(link)));
                run(&gpu, link != Link::NoPeerAccess, on_target);
            }
        }
    }
}

/// Opens the first devices of a simulated machine.
pub(crate) fn open<const N: usize>(gpu: &Gpu) -> [Device; N] {
    std::array::from_fn(|at| Device::open_simulated(gpu, at as i32).expect("a device opens"))
}

#[run_by(each_route, |gpu, is_direct, on_target|)]
fn p03_everything_computed_from_a_lost_device_is_invalid_until_it_is_overwritten() {
    let [lost, device, third] = open(gpu);
    let [s] = streams(&lost);
    let [t1, t2] = streams(&device);
    let [u] = streams(&third);
    let kernels = sums::load(&device).unwrap();
    let mut source = s.upload(&[1.0_f32; N]).unwrap();
    let untouched = s.upload(&[3.0_f32; N]).unwrap();
    let old = copied(&t1, &source).unwrap();
    assert_eq!(t1.values(&old).unwrap(), [1.0; N]);
    let [mut target, mut sum, mut read, mut partly] = [(); 4].map(|()| t1.zeros::<f32>(N).unwrap());
    let mut pinned = device.pinned::<f32>(N).unwrap();
    let mut managed = device.managed::<f32>(N).unwrap();
    let config = LaunchConfig::linear(N);

    let hold = gpu.hold(s.as_raw());
    fault(&s);
    // Orders the readers after the fault.
    s.fill(source.slice_mut(..1), 1.0).unwrap();
    let copying = if on_target { &t1 } else { &s };
    copying.copy(&source, &mut target).unwrap();
    copying
        .copy(source.slice(..9), partly.slice_mut(..9))
        .unwrap();
    if is_direct {
        let source = source.peer(&device).unwrap();
        kernels
            .vecadd(&t2, config, &source, &old, &mut read, N as u64)
            .unwrap();
    }
    kernels
        .vecadd(&t2, config, &target, &old, &mut sum, N as u64)
        .unwrap();
    let mut further = copied(&u, &sum).unwrap();
    t1.copy(&target, &mut pinned).unwrap();
    t1.copy(&target, &mut managed).unwrap();
    let begun = [
        t1.download(&target).unwrap(),
        t2.download(&sum).unwrap(),
        u.download(&further).unwrap(),
        t1.download(partly.slice(..9)).unwrap(),
        t1.download(&managed).unwrap(),
    ];
    let begun_read = is_direct.then(|| t2.download(&read).unwrap());
    let valid = t2.download(&old).unwrap();
    drop(hold);

    for pending in begun {
        assert_poisoned(pending.wait(), "copy", &lost);
    }
    if let Some(pending) = begun_read {
        assert_poisoned(pending.wait(), "vecadd", &lost);
        assert_poisoned(t1.download(&read).map(drop), "vecadd", &lost);
    }
    assert_poisoned(pinned.read().map(drop), "copy", &lost);
    assert_poisoned(managed.read().map(drop), "copy", &lost);
    assert_poisoned(
        pollster::block_on(pinned.read_async()).map(drop),
        "copy",
        &lost,
    );
    assert!(lost.lost().is_some());
    assert!(device.lost().is_none() && third.lost().is_none());
    assert!(matches!(s.synchronize(), Err(Error::DeviceLost { .. })));

    // Later uses are refused, and what was valid stays so.
    assert_eq!(valid.wait().unwrap(), [1.0; N]);
    assert_eq!(t2.values(&old).unwrap(), [1.0; N]);
    let mut other = t1.zeros::<f32>(N).unwrap();
    assert_poisoned(t1.copy(&sum, &mut other), "copy", &lost);
    assert_poisoned(u.copy(&sum, &mut further), "copy", &lost);
    let computed = kernels.vecadd(&t1, config, &target, &old, &mut other, N as u64);
    assert_poisoned(computed, "copy", &lost);
    let computed = kernels.vecadd(&t1, config, &old, &old, &mut target, N as u64);
    assert_poisoned(computed, "copy", &lost);
    assert_eq!(t1.values(&other).unwrap(), [0.0; N]);
    // Memory of the lost device itself is an error of that device.
    assert_lost(t1.copy(&untouched, &mut other));

    // A part overwritten does not make the array valid, all of it does.
    t1.fill(target.slice_mut(..N - 1), 2.0).unwrap();
    t1.fill(partly.slice_mut(..9), 2.0).unwrap();
    assert_poisoned(t1.download(target.slice(..5)).map(drop), "copy", &lost);
    assert_poisoned(t1.download(&partly).map(drop), "copy", &lost);
    t1.fill(&mut target, 2.0).unwrap();
    t1.fill(&mut partly, 2.0).unwrap();
    t2.upload_into(&[5.0; N], &mut sum).unwrap();
    t1.copy(&old, &mut pinned).unwrap();
    t2.copy(&old, &mut managed).unwrap();
    u.copy(&old, &mut further).unwrap();
    kernels
        .vecadd(&t2, config, &target, &sum, &mut other, N as u64)
        .unwrap();
    assert_eq!(t1.values(&partly).unwrap(), [2.0; N]);
    assert_eq!(t1.values(&other).unwrap(), [7.0; N]);
    assert_eq!(u.values(&further).unwrap(), [1.0; N]);
    assert_eq!(*pinned.read().unwrap(), [1.0; N]);
    assert_eq!(*managed.read().unwrap(), [1.0; N]);
}

#[run_by(each_route, |gpu, _, on_target|)]
fn p03_a_completed_copy_survives_the_loss_of_its_source() {
    let [lost, device] = open(gpu);
    let ([s], [t]) = (streams(&lost), streams(&device));
    let source = s.upload(&[1.0_f32; N]).unwrap();
    // The completion of one target's copy was seen by a wait, the other's by the stream's.
    let [mut waited, mut unseen] = [(); 2].map(|()| t.zeros::<f32>(N).unwrap());
    for target in [&mut waited, &mut unseen] {
        let copying = if on_target { &t } else { &s };
        copying.copy(&source, target).unwrap();
    }
    assert_eq!(t.values(&waited).unwrap(), [1.0; N]);
    let later = t.download(&unseen).unwrap();
    t.synchronize().unwrap();
    assert_eq!(later.wait().unwrap(), [1.0; N]);
    fault(&s);
    assert!(matches!(s.synchronize(), Err(Error::DeviceLost { .. })));
    drop((source, s, lost));
    for array in [&waited, &unseen] {
        assert_eq!(t.values(array).unwrap(), [1.0; N]);
    }
    assert_eq!(t.values(copied(&t, &waited).unwrap()).unwrap(), [1.0; N]);
}

#[run_by(each_route, |gpu, _, on_target|)]
fn p03_a_copy_that_is_made_again_spoils_nothing_computed_from_the_first() {
    let [lost, device] = open(gpu);
    let [s] = streams(&lost);
    let [t1, t2] = streams(&device);
    let mut source = s.upload(&[1.0_f32; N]).unwrap();
    let mut target = t1.zeros::<f32>(N).unwrap();
    let copying = if on_target { &t1 } else { &s };
    let (mut before, mut hold) = (None, None);
    for faults in [false, false, true] {
        if faults {
            hold = Some(gpu.hold(s.as_raw()));
            fault(&s);
            // Orders the copy after the fault.
            s.fill(source.slice_mut(..1), 1.0).unwrap();
        }
        copying.copy(&source, &mut target).unwrap();
        if !faults {
            before = Some(copied(&t1, &target).unwrap());
            s.synchronize().unwrap();
            t1.synchronize().unwrap();
        }
    }
    // Does not wait for the last copy.
    let before = before.unwrap();
    let begun = t2.download(&before).unwrap();
    assert_eq!(begun.wait().unwrap(), [1.0; N]);
    drop(hold);
    let last = t1.download(&target).and_then(|last| last.wait());
    assert_poisoned(last, "copy", &lost);
}

#[run_by(on_two(schedules(1..3)), |gpu, [lost, device]|)]
fn p03_the_loss_of_the_device_that_writes_another_devices_memory_makes_it_invalid() {
    let ([s], [t]) = (streams(&lost), streams(&device));
    let kernels = sums::load(&lost).unwrap();
    let ones = s.upload(&[1.0_f32; N]).unwrap();
    let [mut by_copy, mut by_kernel] = [(); 2].map(|()| t.zeros::<f32>(N).unwrap());
    lost.peer_status(&device).unwrap();
    let hold = gpu.hold(s.as_raw());
    fault(&s);
    s.copy(&ones, &mut by_copy).unwrap();
    let mut view = by_kernel.peer_mut(&lost).unwrap();
    kernels
        .vecadd(&s, N, &ones, &ones, &mut view, N as u64)
        .unwrap();
    let begun = [
        t.download(&by_copy).unwrap(),
        t.download(&by_kernel).unwrap(),
    ];
    drop(hold);
    for (pending, by) in begun.into_iter().zip(["copy", "vecadd"]) {
        assert_poisoned(pending.wait(), by, &lost);
    }
    assert!(device.lost().is_none());
    t.fill(&mut by_kernel, 3.0).unwrap();
    assert_eq!(t.values(&by_kernel).unwrap(), [3.0; N]);
}

#[run_by(on_two(schedules(1..3)), |gpu, [lost, device]|)]
fn p03_data_that_arrived_earlier_does_not_hide_what_arrives_later() {
    let ([s], [t1, t2, t3]) = (streams(&lost), streams(&device));
    let early = s.upload(&[1.0_f32; N]).unwrap();
    let mut late = s.upload(&[2.0_f32; N]).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| t1.zeros::<f32>(N).unwrap());
    assert!(device.peer_status(&lost).unwrap().is_direct());
    s.synchronize().unwrap();

    let (before_fault, before_copies) = (gpu.hold(s.as_raw()), gpu.hold(t1.as_raw()));
    fault(&s);
    s.fill(late.slice_mut(..1), 2.0).unwrap();
    t1.copy(&early, &mut first).unwrap();
    t1.copy(&late, &mut second).unwrap();
    // Its result depends on both copies, and it is written beside the second's.
    t2.copy(first.slice(..9), second.slice_mut(..9)).unwrap();
    drop(before_copies);
    let arrived = t3.download(&first).unwrap();
    assert_eq!(arrived.wait().unwrap(), [1.0; N]);
    drop(before_fault);
    assert!(s.synchronize().is_err());
    assert!(lost.lost().is_some());
    assert_poisoned(t2.download(&second).map(drop), "copy", &lost);
}
