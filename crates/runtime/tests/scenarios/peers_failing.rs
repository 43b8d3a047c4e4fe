//! Scenarios of several devices of which one is lost, and of pairs without peer access or with a
//! driver whose peer access loses data. All run on the simulated device.

#![allow(unsafe_code, reason = "launches a kernel that faults")]

use std::{
    fmt::Debug,
    mem,
    sync::{Arc, mpsc},
    time::Duration,
};

use millstream::{
    Device, Error, LaunchConfig, PeerStatus, Result, Stream, UsageErrorKind,
    sim::{Gpu, Link, Links, PeerPool, Schedule, SimConfig},
};
use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    dispatcher::{Dispatch, with_default},
    field::{Field, Visit},
    span,
};

use crate::{
    arrays::sums,
    harness::{Harness, Watch, everywhere_simulated, gate_kernel},
    peers::{N, copied, streams},
};

const SCHEDULES: [Schedule; 5] = [
    Schedule::Timed,
    Schedule::Eager,
    Schedule::Lazy,
    Schedule::Random(1),
    Schedule::Random(2),
];

/// Enqueues a kernel that reads an unallocated address.
fn fault(stream: &Stream) {
    let kernels = gate_kernel::load(&stream.device()).unwrap();
    // SAFETY: violated on purpose; on the simulated device an unallocated address is only an error.
    unsafe { kernels.gate(stream, LaunchConfig::new([1, 1, 1], [1, 1, 1]), 64) }.unwrap();
}

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
            assert!(location.file().ends_with("peers_failing.rs"), "{location}");
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
    for schedule in SCHEDULES {
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

fn open<const N: usize>(gpu: &Gpu) -> [Device; N] {
    std::array::from_fn(|at| Device::open_simulated(gpu, at as i32).expect("a device opens"))
}

#[test]
fn p03_everything_computed_from_a_lost_device_is_invalid_until_it_is_overwritten() {
    each_route(|gpu, is_direct, on_target| {
        let [lost, device, third] = open(gpu);
        let [s] = streams(&lost);
        let [t1, t2] = streams(&device);
        let [u] = streams(&third);
        let kernels = sums::load(&device).unwrap();
        let mut source = s.upload(&[1.0_f32; N]).unwrap();
        let untouched = s.upload(&[3.0_f32; N]).unwrap();
        let old = copied(&t1, &source).unwrap();
        assert_eq!(t1.download(&old).unwrap().wait().unwrap(), [1.0; N]);
        let [mut target, mut sum, mut read, mut partly] =
            [(); 4].map(|()| t1.zeros::<f32>(N).unwrap());
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
        assert_eq!(t2.download(&old).unwrap().wait().unwrap(), [1.0; N]);
        let mut other = t1.zeros::<f32>(N).unwrap();
        assert_poisoned(t1.copy(&sum, &mut other), "copy", &lost);
        assert_poisoned(u.copy(&sum, &mut further), "copy", &lost);
        let computed = kernels.vecadd(&t1, config, &target, &old, &mut other, N as u64);
        assert_poisoned(computed, "copy", &lost);
        let computed = kernels.vecadd(&t1, config, &old, &old, &mut target, N as u64);
        assert_poisoned(computed, "copy", &lost);
        assert_eq!(t1.download(&other).unwrap().wait().unwrap(), [0.0; N]);
        // Memory of the lost device itself is an error of that device.
        let refused = t1.copy(&untouched, &mut other);
        assert!(
            matches!(refused, Err(Error::DeviceLost { .. })),
            "{refused:?}"
        );

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
        assert_eq!(t1.download(&partly).unwrap().wait().unwrap(), [2.0; N]);
        assert_eq!(t1.download(&other).unwrap().wait().unwrap(), [7.0; N]);
        assert_eq!(u.download(&further).unwrap().wait().unwrap(), [1.0; N]);
        assert_eq!(*pinned.read().unwrap(), [1.0; N]);
        assert_eq!(*managed.read().unwrap(), [1.0; N]);
    });
}

#[test]
fn p03_a_completed_copy_survives_the_loss_of_its_source() {
    each_route(|gpu, _, on_target| {
        let [lost, device] = open(gpu);
        let ([s], [t]) = (streams(&lost), streams(&device));
        let source = s.upload(&[1.0_f32; N]).unwrap();
        // The completion of one target's copy was seen by a wait, the other's by the stream's.
        let [mut waited, mut unseen] = [(); 2].map(|()| t.zeros::<f32>(N).unwrap());
        for target in [&mut waited, &mut unseen] {
            let copying = if on_target { &t } else { &s };
            copying.copy(&source, target).unwrap();
        }
        assert_eq!(t.download(&waited).unwrap().wait().unwrap(), [1.0; N]);
        let later = t.download(&unseen).unwrap();
        t.synchronize().unwrap();
        assert_eq!(later.wait().unwrap(), [1.0; N]);
        fault(&s);
        assert!(matches!(s.synchronize(), Err(Error::DeviceLost { .. })));
        drop((source, s, lost));
        for array in [&waited, &unseen] {
            assert_eq!(t.download(array).unwrap().wait().unwrap(), [1.0; N]);
        }
        assert_eq!(
            t.download(copied(&t, &waited).unwrap())
                .unwrap()
                .wait()
                .unwrap(),
            [1.0; N]
        );
    });
}

#[test]
fn p03_the_loss_of_the_device_that_writes_another_devices_memory_makes_it_invalid() {
    for schedule in SCHEDULES {
        let _watch = Watch::over(format!("{schedule:?}"));
        let gpu = Gpu::new(SimConfig::new().devices(2).schedule(schedule));
        let [lost, device] = open(&gpu);
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
        assert_eq!(t.download(&by_kernel).unwrap().wait().unwrap(), [3.0; N]);
    }
}

/// Returns the reason for which a pair is staged.
#[track_caller]
fn staged(status: PeerStatus) -> Arc<str> {
    match status {
        PeerStatus::Staged { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Copies in both directions, from streams of both devices, in one and two dimensions, and asserts
/// the values.
fn copies_are_right(harness: &Harness, second: &Device) -> Result<()> {
    const ROWS: usize = 30;
    let n = harness.large_len() / ROWS * ROWS;
    let numbers: Vec<u32> = (0..n as u32).collect();
    for (from, to) in [(&harness.device, second), (second, &harness.device)] {
        let ([s], [t]) = (streams(from), streams(to));
        for copying in [&s, &t] {
            let source = s.upload(&numbers)?;
            let [mut target, mut table] = [t.zeros::<u32>(n)?, t.zeros::<u32>(n)?];
            copying.copy(&source, &mut target)?;
            let cols = n / ROWS;
            copying.copy_2d(
                source.view_2d(ROWS, cols)?.rect(1..4, 2..7)?,
                table.view_2d_mut(ROWS, cols)?.rect_mut(1..4, 2..7)?,
            )?;
            drop(source);
            assert!(t.download(&target)?.wait()? == numbers);
            let found = t.download(&table)?.wait()?;
            for (at, &value) in found.iter().enumerate() {
                let is_copied = (1..4).contains(&(at / cols)) && (2..7).contains(&(at % cols));
                assert_eq!(value, if is_copied { at as u32 } else { 0 });
            }
        }
    }
    Ok(())
}

/// Asserts that kernels are refused the memory of another device, and that nothing is enqueued.
fn kernels_are_refused(harness: &Harness, second: &Device) -> Result<()> {
    let ([s], [t]) = (harness.streams(), streams(second));
    let kernels = sums::load(second)?;
    let mut a = s.upload(&vec![1.0_f32; N])?;
    let mut sum = t.zeros::<f32>(N)?;
    for refused in [a.peer(second).map(drop), a.peer_mut(second).map(drop)] {
        let Err(Error::Usage(usage_error)) = refused else {
            panic!("{refused:?}");
        };
        let UsageErrorKind::NoPeerAccess { from, to, reason } = usage_error.problem() else {
            panic!("{usage_error}");
        };
        assert_eq!(*from, second.to_string());
        assert_eq!(*to, harness.device.to_string());
        assert_eq!(reason[..], *staged(second.peer_status(&harness.device)?));
    }
    let refused = kernels.vecadd(&t, N, &a, &a, &mut sum, N as u64);
    let Err(Error::Usage(usage_error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(
        usage_error.problem(),
        UsageErrorKind::OtherDevice { operand: 0, .. }
    ));
    assert!(usage_error.to_string().contains("peer(&device)?"));
    assert_eq!(t.download(&sum)?.wait()?, [0.0; N]);
    // On its own device the view is an operand like any other.
    let view = a.peer(&harness.device)?;
    let mut own = s.zeros::<f32>(N)?;
    sums::load(&harness.device)?.vecadd(&s, N, &view, &view, &mut own, N as u64)?;
    assert_eq!(s.download(&own)?.wait()?, [2.0; N]);
    Ok(())
}

#[test]
fn p04_without_peer_access_copies_are_staged_and_kernels_refused() {
    everywhere_simulated(
        |config| config.links(Links::all(Link::NoPeerAccess)),
        |harness| {
            let second = harness.second();
            let reason = staged(harness.device.peer_status(&second).unwrap());
            assert!(reason.contains("cannot access memory of"), "{reason}");
            copies_are_right(harness, &second).unwrap();
            kernels_are_refused(harness, &second).unwrap();
        },
    );
}

/// A subscriber that collects the text of this library's warnings and errors.
struct Collecting(Mutex<mpsc::Sender<(Level, String)>>);

/// The text of an event's fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Collecting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        if event.metadata().target().starts_with("millstream") && level <= Level::WARN {
            let mut text = Text::default();
            event.record(&mut text);
            let _ = self.0.lock().send((level, mem::take(&mut text.0)));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The time limit within which an event is delivered.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn p05_the_probe_finds_a_driver_whose_peer_access_loses_data() {
    everywhere_simulated(
        |config| config.peer_pool(PeerPool::Zeros),
        |harness| {
            let second = harness.second();
            // The first use is a copy.
            copies_are_right(harness, &second).unwrap();
            let reason = staged(harness.device.peer_status(&second).unwrap());
            assert!(reason.contains("gave wrong data"), "{reason}");
            assert_eq!(reason, staged(second.peer_status(&harness.device).unwrap()));
            kernels_are_refused(harness, &second).unwrap();
            copies_are_right(harness, &second).unwrap();
        },
    );
}

#[test]
fn p05_a_staged_pair_is_logged_once() {
    for config in [
        SimConfig::new().peer_pool(PeerPool::Zeros),
        SimConfig::new().links(Links::all(Link::NoPeerAccess)),
    ] {
        let gpu = Gpu::new(config.devices(2));
        let (tell, told) = mpsc::channel();
        with_default(&Dispatch::new(Collecting(Mutex::new(tell))), || {
            let [one, other] = open(&gpu);
            let ([s], [t]) = (streams(&one), streams(&other));
            let source = s.upload(&[1.0_f32; N]).unwrap();
            for _ in 0..3 {
                assert!(!other.peer_status(&one).unwrap().is_direct());
                let copy = copied(&t, &source).unwrap();
                assert_eq!(t.download(&copy).unwrap().wait().unwrap(), [1.0; N]);
            }
            // The loss of a device is logged after everything before it.
            fault(&s);
            assert!(s.synchronize().is_err());
        });
        let (level, text) = told.recv_timeout(TOLD_WITHIN).expect("a warning");
        assert_eq!(level, Level::WARN);
        for part in ["staged", "device 0", "device 1"] {
            assert!(text.contains(part), "{text}");
        }
        let (_, text) = told.recv_timeout(TOLD_WITHIN).expect("the loss");
        assert!(!text.contains("staged"), "said twice: {text}");
        assert!(text.contains("lost"), "{text}");
    }
}
