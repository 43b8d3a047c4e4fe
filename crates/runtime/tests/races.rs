//! Races and stale reads that a wrong use of unsafe code makes: the simulated device's race checker
//! reports each with its lines. `programs` shows that it reports nothing else.

#![allow(unsafe_code, reason = "opts out of ordering wrongly, on purpose")]

use millstream::{
    Buffer, Device,
    driver::Driver,
    sim::{Gpu, ReportKind, Schedule, SimConfig},
};

const BYTES: usize = 256;

#[test]
fn a_wrong_unordered_access_is_reported_with_both_lines() {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).unwrap();
    let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mut array = one.zeros::<u8>(BYTES).unwrap();
    one.synchronize().unwrap();
    let (write, read) = (line!() + 1, line!() + 4);
    one.fill(array.slice_mut(10..20), 1).unwrap();
    // SAFETY: violated on purpose. The simulated device is unharmed, and the values read are not
    // used.
    let values = other.download(unsafe { array.unordered() }).unwrap();
    values.wait().unwrap();
    one.synchronize().unwrap();
    let findings = gpu.findings();
    let [race] = &findings[..] else {
        panic!("one race: {findings:?}");
    };
    assert_eq!(race.kind, ReportKind::Race);
    let ranges = &race.memory.as_ref().unwrap().ranges;
    assert_eq!((ranges.len(), ranges[0].clone()), (1, 10..20));
    let site = |party: &millstream::sim::race::Party| party.site.clone().unwrap();
    let (earlier, later) = (site(race.earlier.as_ref().unwrap()), site(&race.later));
    assert!(earlier.ends_with(&format!("races.rs:{write}")), "{earlier}");
    assert!(later.ends_with(&format!("races.rs:{read}")), "{later}");
}

/// Copies `array` to host memory through the driver, on a stream that the runtime does not track.
fn copy_behind_its_back(gpu: &Gpu, device: &Device, array: &Buffer<u8>, target: *mut u8) {
    let context = device.as_raw();
    // SAFETY: the context is alive.
    let stream = unsafe { gpu.stream_create(context, true, 0) }.unwrap();
    // SAFETY: both have `BYTES` bytes and live until the device is synchronised. That the host does
    // not access the target meanwhile is what the tests violate; the simulated device is unharmed.
    unsafe { gpu.copy_device_to_host_async(context, target, array.as_raw(), BYTES, stream) }
        .unwrap();
}

/// Synchronises the context through the driver, including untracked work.
fn settle(gpu: &Gpu, device: &Device) {
    // SAFETY: the context is alive.
    unsafe { gpu.context_synchronize(device.as_raw()) }.unwrap();
}

/// Returns the source location of the only finding, a race with the host.
fn only_host_race(gpu: &Gpu) -> String {
    let findings = gpu.findings();
    let [race] = &findings[..] else {
        panic!("one race: {findings:?}");
    };
    assert_eq!(race.kind, ReportKind::HostRace);
    race.later.site.clone().unwrap()
}

#[test]
fn a_guard_during_an_untracked_copy_is_reported_with_its_line() {
    for schedule in [Schedule::Eager, Schedule::Lazy] {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let array = device.stream().unwrap().upload(&[7; BYTES]).unwrap();
        settle(&gpu, &device);
        let mut pinned = device.pinned::<u8>(BYTES).unwrap();
        let target = pinned.write().unwrap().as_mut_ptr();
        copy_behind_its_back(&gpu, &device, &array, target);
        let read = line!() + 1;
        drop(pinned.read().unwrap());
        settle(&gpu, &device);
        let site = only_host_race(&gpu);
        assert!(
            site.ends_with(&format!("`read` at crates/runtime/tests/races.rs:{read}")),
            "{site}"
        );
    }
}

#[test]
fn an_untracked_copy_during_a_guard_is_reported_with_the_guards_line() {
    for schedule in [Schedule::Eager, Schedule::Lazy] {
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let array = device.stream().unwrap().upload(&[7; BYTES]).unwrap();
        settle(&gpu, &device);
        let mut managed = device.managed::<u8>(BYTES).unwrap();
        let write = line!() + 1;
        let mut guard = managed.write().unwrap();
        copy_behind_its_back(&gpu, &device, &array, guard.as_mut_ptr());
        assert!(gpu.findings().is_empty(), "the guard came first");
        drop(guard);
        settle(&gpu, &device);
        let site = only_host_race(&gpu);
        assert!(
            site.ends_with(&format!("`write` at crates/runtime/tests/races.rs:{write}")),
            "{site}"
        );
    }
}

#[test]
fn reading_a_dropped_arrays_old_contents_is_reported() {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).unwrap();
    let stream = device.stream().unwrap();
    let first = stream.upload(&[7_u8; BYTES]).unwrap();
    let address = first.as_raw();
    drop(first);
    let made = line!() + 3;
    // SAFETY: violated on purpose. The simulated device is unharmed, and the values read are not
    // used.
    let next = unsafe { stream.uninit::<u8>(BYTES) }.unwrap();
    assert_eq!(next.as_raw(), address, "it is the same memory");
    stream.download(&next).unwrap().wait().unwrap();
    let findings = gpu.findings();
    let [finding] = &findings[..] else {
        panic!("one finding: {findings:?}");
    };
    assert_eq!(finding.kind, ReportKind::UninitialisedRead);
    let site = format!("at crates/runtime/tests/races.rs:{made}");
    assert!(finding.to_string().contains(&site), "{finding}");
}
