//! Scenarios of setting up peer access: pairs of devices that have none, a driver whose peer access
//! loses data, and several threads at once. All run on the simulated device.

use std::{fmt::Debug, sync::mpsc::RecvTimeoutError};

use millstream::sim::PeerPool;
use parking_lot::Mutex;
use tracing::{
    Level,
    dispatcher::with_default,
    field::{Field, Visit},
};

use crate::scenarios::{
    instrumented::instrumented_devices,
    peers::{copied, streams},
    peers_lost::open,
    prelude::*,
    subscribers::listening,
};

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
            assert!(t.values(&target)? == numbers);
            let found = t.values(&table)?;
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
        let usage_error = usage_error(refused);
        let UsageErrorKind::NoPeerAccess { from, to, reason } = usage_error.problem() else {
            panic!("{usage_error}");
        };
        assert_eq!(*from, second.to_string());
        assert_eq!(*to, harness.device.to_string());
        assert_eq!(reason[..], *staged(second.peer_status(&harness.device)?));
    }
    let refused = kernels.vecadd(&t, N, &a, &a, &mut sum, N as u64);
    let usage_error = usage_error(refused);
    assert_is!(
        usage_error.problem(),
        UsageErrorKind::OtherDevice { operand: 0, .. }
    );
    assert!(usage_error.to_string().contains("peer(&device)?"));
    assert_eq!(t.values(&sum)?, [0.0; N]);
    // On its own device the view is an operand like any other.
    let view = a.peer(&harness.device)?;
    let mut own = s.zeros::<f32>(N)?;
    sums::load(&harness.device)?.vecadd(&s, N, &view, &view, &mut own, N as u64)?;
    assert_eq!(s.values(&own)?, [2.0; N]);
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

/// The text of an event's fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
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
        let tell = Mutex::new(tell);
        let collecting = listening(move |event| {
            let level = *event.metadata().level();
            if level <= Level::WARN {
                let mut text = Text::default();
                event.record(&mut text);
                let _ = tell.lock().send((level, mem::take(&mut text.0)));
            }
        });
        with_default(&collecting, || {
            let [one, other] = open(&gpu);
            let ([s], [t]) = (streams(&one), streams(&other));
            let source = s.upload(&[1.0_f32; N]).unwrap();
            for _ in 0..3 {
                assert!(!other.peer_status(&one).unwrap().is_direct());
                let copy = copied(&t, &source).unwrap();
                assert_eq!(t.values(&copy).unwrap(), [1.0; N]);
            }
        });
        drop(collecting);
        // The channel ends with the last event that was logged for the subscriber.
        let mut events = Vec::new();
        loop {
            match told.recv_timeout(TOLD_WITHIN) {
                Ok(event) => events.push(event),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the subscriber is kept: {events:?}"),
            }
        }
        let [(level, text)] = &events[..] else {
            panic!("expected one event, found {events:?}");
        };
        assert_eq!(*level, Level::WARN);
        for part in ["staged", "device 0", "device 1"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn p01_threads_that_need_a_pair_at_once_set_it_up_once() {
    const DEVICES: usize = 4;
    const THREADS: usize = 8;
    let _watch = Watch::over(String::from("pairs of four devices"));
    let links = Links::default();
    let (gpu, calls, devices) = instrumented_devices(Schedule::Timed, DEVICES as u32, links);
    calls.forget();
    thread::scope(|scope| {
        for first in 0..THREADS {
            let devices = &devices;
            // Each thread meets the pairs in another order, half of them the other way round.
            let work = move || {
                for at in 0..DEVICES * DEVICES {
                    let pair = (first * 5 + at) % (DEVICES * DEVICES);
                    let (from, to) = (pair / DEVICES, pair % DEVICES);
                    if from == to {
                        continue;
                    }
                    let ([s], [t]) = (streams(&devices[from]), streams(&devices[to]));
                    let source = s.upload(&[pair as u32; 100]).unwrap();
                    let copy = copied(&t, &source).unwrap();
                    assert_eq!(t.values(&copy).unwrap(), [pair as u32; 100]);
                }
            };
            scope.spawn(work);
        }
    });
    let ordered_pairs = DEVICES * (DEVICES - 1);
    for call in ["context_enable_peer_access", "pool_set_access"] {
        assert_eq!(
            calls.count(call),
            ordered_pairs,
            "{call}: {:?}",
            calls.counts()
        );
    }
    // Only kernels over a link are probed by a module's kernel.
    assert_eq!(calls.count("module_load"), 0, "{:?}", calls.counts());
    drop(devices);
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[test]
fn a_staged_copy_that_fails_leaves_invalid_contents_invalid() {
    let links = Links::all(Link::NoPeerAccess);
    let (gpu, calls, devices) = instrumented_devices(Schedule::Eager, 3, links);
    let ([s], [t], [u]) = (
        streams(&devices[0]),
        streams(&devices[1]),
        streams(&devices[2]),
    );
    let (source, good) = (
        s.upload(&[1_u32; N]).unwrap(),
        u.upload(&[2_u32; N]).unwrap(),
    );
    let mut target = t.zeros::<u32>(N).unwrap();
    let hold = gpu.hold(s.as_raw());
    fault(&s);
    t.copy(&source, &mut target).unwrap();
    drop(hold);
    let poisoned = |target: &Buffer<u32>| matches!(t.download(target), Err(Error::Poisoned { .. }));
    assert!(matches!(s.synchronize(), Err(Error::DeviceLost { .. })));
    assert!(poisoned(&target));
    for call in ["copy_device_to_host_async", "copy_host_to_device_async"] {
        calls.fail(move |name| {
            (name == call).then(|| DriverError::new(name, ResultCode::OUT_OF_MEMORY))
        });
        assert!(t.copy(&good, &mut target).is_err(), "{call}");
        calls.fail_no_more();
        assert!(poisoned(&target), "{call}");
    }
    t.copy(&good, &mut target).unwrap();
    assert_eq!(t.values(&target).unwrap(), [2; N]);
}
