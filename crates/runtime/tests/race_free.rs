//! Random programs over streams, small ranges of arrays, and memory that the host accesses: the
//! simulated device's race checker reports nothing, under any schedule.

#![allow(unsafe_code, reason = "opts out of ordering wrongly, on purpose")]

use std::ops::Range;

use millstream::{
    Buffer, Device, Pinned, Result, Stream,
    driver::Driver,
    sim::{Gpu, ReportKind, Schedule, SimConfig},
};

use millstream_testkit::{configurations::schedules, sizes::Sizes};

const BYTES: usize = 256;
const ARRAYS: usize = 6;
const STREAMS: usize = 4;
const STEPS: usize = 60;
const PROGRAMS: u64 = 40;

struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    /// Draws a range of at most six of `bytes` bytes, so that many ranges overlap by one.
    fn part(&mut self, bytes: usize) -> Range<usize> {
        let from = self.below(bytes - 6);
        from..from + 1 + self.below(6)
    }
}

fn step<const LEN: usize>(
    draws: &mut Draws,
    stream: &Stream,
    arrays: &mut [Buffer<u8>],
    pinned: &mut Pinned<u8>,
) -> Result<()> {
    let (at, part) = (draws.below(ARRAYS), draws.part(LEN));
    match draws.below(12) {
        0 | 1 => stream.fill(arrays[at].slice_mut(part), draws.below(256) as u8)?,
        2 => {
            let mut copy = stream.zeros::<u8>(part.len())?;
            stream.copy(arrays[at].slice(part), &mut copy)?;
        }
        3 => drop(stream.download(arrays[at].slice(part))?),
        4 => arrays[at] = stream.upload(&[7; LEN])?,
        10 => {
            arrays[at] = stream
                .upload_owned(vec![7; LEN])
                .map_err(|rejected| rejected.error)?
        }
        5 => drop(stream.download(&arrays[at])?.wait()?),
        6 => stream.copy(&arrays[at], &mut *pinned)?,
        7 => stream.copy(&*pinned, &mut arrays[at])?,
        8 => drop(pinned.read()?),
        9 => drop(pinned.write()?),
        _ => {
            let (last, others) = arrays.split_last_mut().expect("there are arrays");
            stream.copy(
                others[at % (ARRAYS - 1)].slice(part.clone()),
                last.slice_mut(part),
            )?;
        }
    }
    Ok(())
}

/// Asserts that random programs over arrays of `LEN` bytes have no races, under several schedules.
fn race_nowhere<const LEN: usize>(sizes_of: impl Fn(u64) -> Sizes) {
    for schedule in schedules(1..2) {
        for seed in 0..PROGRAMS {
            let gpu = Gpu::new(SimConfig::new().schedule(schedule));
            let device = Device::open_simulated(&gpu, 0).unwrap();
            if seed % 2 == 0 {
                // With no cache, dropped memory is freed at once.
                device.set_cache_limit(0);
            }
            let sizes = sizes_of(seed);
            assert!(
                sizes.set(&device, true),
                "the sizes must be set before the first copy"
            );
            let streams: Vec<_> = (0..STREAMS).map(|_| device.stream().unwrap()).collect();
            let mut draws = Draws(seed);
            let mut pinned = device.pinned::<u8>(LEN).unwrap();
            let mut arrays: Vec<_> = (0..ARRAYS)
                .map(|_| streams[0].zeros::<u8>(LEN).unwrap())
                .collect();
            for _ in 0..STEPS {
                let stream = &streams[draws.below(STREAMS)];
                step::<LEN>(&mut draws, stream, &mut arrays, &mut pinned).unwrap();
            }
            drop(arrays);
            streams
                .iter()
                .for_each(|stream| stream.synchronize().unwrap());
            let findings = gpu.findings();
            assert!(
                findings.is_empty(),
                "program {seed} under {schedule:?} in {sizes}: {}",
                findings[0]
            );
        }
    }
}

#[test]
fn random_programs_are_race_free() {
    race_nowhere::<BYTES>(|seed| Sizes::asked(seed as usize).unwrap_or(Sizes::Own));
}

#[test]
fn random_programs_are_race_free_with_many_chunks_and_few_blocks() {
    // Three chunks, the last one short; the cache limit is as large as 26 arrays.
    race_nowhere::<2500>(|seed| Sizes::tiny(seed as usize));
}

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
    assert!(
        earlier.ends_with(&format!("race_free.rs:{write}")),
        "{earlier}"
    );
    assert!(later.ends_with(&format!("race_free.rs:{read}")), "{later}");
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
            site.ends_with(&format!(
                "`read` at crates/runtime/tests/race_free.rs:{read}"
            )),
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
            site.ends_with(&format!(
                "`write` at crates/runtime/tests/race_free.rs:{write}"
            )),
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
    let site = format!("at crates/runtime/tests/race_free.rs:{made}");
    assert!(finding.to_string().contains(&site), "{finding}");
}
