//! Scenarios A16 and D2: out of memory, memory limits, and memory statistics.

#![allow(unsafe_code, reason = "opens devices of a recording driver")]

use millstream::{error::OutOfMemory, memory::MemoryStats, sim::Rules};

use crate::scenarios::{outsiders::Outsiders, prelude::*};

const MIB: usize = 1 << 20;

/// Creates a simulated GPU with this much memory, behind a recording driver.
fn setup(memory_bytes: usize, schedule: Schedule, rules: Rules) -> (Gpu, Arc<Calls>, Device) {
    let config = SimConfig::new().memory_bytes(memory_bytes as u64);
    let gpu = Gpu::new(config.schedule(schedule).rules(rules));
    let calls = Arc::new(Calls::over(gpu.driver()));
    let device = open(&calls, 0).expect("the device opens");
    (gpu, calls, device)
}

/// Runs a test under every schedule, with and without the driver's reuse of memory across streams
/// (rule 35).
fn with_little_memory(memory_bytes: usize, run: impl Fn(&Gpu, &Calls, &Device)) {
    for schedule in schedules(1..3) {
        for rules in [Rules::observed(), Rules::strict()] {
            // Under the strict reading of rule 29 (allocations, fills and copies are barriers) a
            // hold would block all streams.
            let rules = Rules {
                implicit_synchronisation: Rules::observed().implicit_synchronisation,
                ..rules
            };
            let _watch = Watch::over(format!("{schedule:?}, {rules:?}"));
            let (gpu, calls, device) = setup(memory_bytes, schedule, rules);
            run(&gpu, &calls, &device);
            assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
        }
    }
}

fn refused<T>(result: Result<T>) -> OutOfMemory {
    match result.map(drop) {
        Err(Error::OutOfMemory(full)) => full,
        other => panic!("out of memory was expected: {other:?}"),
    }
}

#[run_by(with_little_memory(8 * MIB), |gpu, _, device|)]
pub(crate) fn a16_an_allocation_waits_for_memory_that_is_about_to_be_freed() {
    let outsiders = Outsiders::default();
    let [s1, s2] = outsiders.streams(gpu, device);
    let old = s1.zeros::<u8>(6 * MIB).unwrap();
    let hold = gpu.hold(s1.as_raw());
    drop(s1.download(&old).unwrap());
    drop(old);
    thread::scope(|scope| {
        let new = scope.spawn(|| s2.upload(&vec![5_u8; 6 * MIB]));
        thread::yield_now();
        outsiders.work();
        drop(hold);
        let new = new.join().unwrap().unwrap();
        assert_eq!(s2.values(new.slice(6 * MIB - 3..)).unwrap(), [5; 3]);
    });
}

#[run_by(with_little_memory(10 * MIB), |gpu, _, device|)]
pub(crate) fn a16_an_allocation_does_not_wait_for_a_gate_while_other_memory_is_free() {
    let outsiders = Outsiders::default();
    let [s1, s2, s3, s4] = outsiders.streams(gpu, device);
    let behind_gate = s1.upload(&vec![1_u8; 2 * MIB]).unwrap();
    let used = s2.upload(&vec![2_u8; 6 * MIB]).unwrap();
    outsiders.work();
    let hold = gpu.hold(s1.as_raw());
    let idle = gpu.hold(s4.as_raw());
    drop(s1.download(&behind_gate).unwrap());
    // Dropped in this order, because the driver may make an allocation wait for frees on other
    // streams, the oldest first.
    drop(used);
    drop(behind_gate);
    let new = s3.upload(&vec![3_u8; 7 * MIB]).unwrap();
    assert_eq!(s3.values(new.slice(..2)).unwrap(), [3; 2]);
    assert!(!s1.is_idle().unwrap(), "the gate is still closed");
    drop((hold, idle));
}

#[run_by(with_little_memory(10 * MIB), |gpu, _, device|)]
pub(crate) fn a16_an_allocation_does_not_wait_for_frees_that_would_not_suffice() {
    let outsiders = Outsiders::default();
    let [s2, s1] = outsiders.streams(gpu, device);
    let kept = s2.zeros::<u8>(5 * MIB).unwrap();
    let dropped = s1.zeros::<u8>(2 * MIB).unwrap();
    let hold = gpu.hold(s1.as_raw());
    drop(s1.download(&dropped).unwrap());
    drop(dropped);
    let full = refused(s2.zeros::<u8>(6 * MIB));
    assert_eq!(full.requested_bytes, 6 * MIB as u64);
    assert_eq!(full.allocated_bytes, 5 * MIB as u64);
    assert_eq!(
        (full.limit_bytes, full.total_bytes),
        (None, 10 * MIB as u64)
    );
    assert!(full.used_bytes >= 5 * MIB as u64 && full.reserved_bytes >= full.used_bytes);
    assert_says(&full, "6291456 bytes requested, 5242880 in arrays;");
    assert!(!s1.is_idle().unwrap(), "the gate is still closed");
    drop((hold, kept));
}

#[run_by(with_little_memory(100 * MIB), |_, calls, device|)]
fn a_memory_limit_is_checked_before_the_driver_is_called() {
    let stream = device.stream().unwrap();
    device.set_memory_limit(Some(1000));
    let first = stream.zeros::<u8>(600).unwrap();
    let second = stream.zeros::<u8>(400).unwrap();
    calls.forget();
    let full = refused(stream.zeros::<u8>(1));
    assert_eq!(
        (full.allocated_bytes, full.limit_bytes),
        (1000, Some(1000)),
        "{full}"
    );
    assert_says(&full, "1000 in arrays of at most 1000;");
    assert_eq!(calls.count("mem_alloc_async"), 0);
    drop(first);
    let third = stream.zeros::<u8>(600).unwrap();
    let other = device.clone();
    assert_eq!(
        refused(other.stream().unwrap().zeros::<u8>(1)).limit_bytes,
        Some(1000)
    );
    device.set_memory_limit(Some(10));
    drop((second, third));
    assert!(stream.zeros::<u8>(10).is_ok());
    refused(stream.zeros::<u8>(11));
    device.set_memory_limit(None);
    assert!(stream.zeros::<u8>(MIB).is_ok());
    assert_eq!(device.memory_stats().unwrap().allocations, 0);
}

/// A program that copies, fills and frees on two streams; returns the computed values.
fn program(device: &Device) -> Result<(Vec<u32>, Vec<f64>)> {
    const N: usize = 300_000;
    let (s1, s2) = (device.stream()?, device.stream()?);
    let ones = s1.upload(&vec![1_u32; N])?;
    let mut copies: Vec<Buffer<u32>> = Vec::new();
    for at in 0..3 {
        let mut copy = s2.zeros(N)?;
        s2.copy(copies.last().unwrap_or(&ones), &mut copy)?;
        s1.fill(copy.slice_mut(at..=at), 7)?;
        copies.push(copy);
    }
    let last = copies.pop().expect("three were made");
    drop(copies);
    let mut wide = s1.zeros::<f64>(N)?;
    s1.fill(wide.slice_mut(1..), 0.5)?;
    let downloads = (s2.download(last.slice(..5))?, s2.download(wide.slice(..3))?);
    drop((last, wide));
    let again = s1.upload(&vec![2_u32; N])?;
    drop((again, ones));
    Ok((downloads.0.wait()?, downloads.1.wait()?))
}

/// Runs the program with this much memory, then lifts the bound and checks that nothing stays
/// allocated; returns whether it fitted.
fn program_within(budget: usize, device: &Device, set: impl Fn(Option<usize>)) -> bool {
    let expected = (vec![7, 7, 7, 1, 1], vec![0.0, 0.5, 0.5]);
    set(Some(budget));
    let fits = match program(device) {
        Ok(values) => {
            assert_eq!(values, expected, "{budget} bytes");
            true
        }
        result => {
            let full = refused(result);
            assert!(full.requested_bytes > 0, "{full}");
            false
        }
    };
    set(None);
    let memory = device.memory_stats().unwrap();
    assert_eq!(
        (memory.allocations, memory.allocated_bytes),
        (0, 0),
        "{budget} bytes"
    );
    fits
}

#[test]
fn d02_a_limit_that_is_swept_down_to_nothing() {
    for schedule in schedules(1..3) {
        let (gpu, _calls, device) = setup(1000 * MIB, schedule, Rules::observed());
        let mut outcomes = Vec::new();
        for budget in (0..=12 * MIB).rev().step_by(MIB / 2) {
            let _watch = Watch::over(format!("{budget} bytes, {schedule:?}"));
            outcomes.push(program_within(budget, &device, |budget| {
                device.set_memory_limit(budget.map(|budget| budget as u64));
            }));
            assert!(
                program(&device).is_ok(),
                "the program succeeds without a limit"
            );
        }
        assert!(outcomes[0] && !outcomes[outcomes.len() - 1]);
        assert!(
            outcomes.is_sorted_by(|a, b| a >= b),
            "a smaller limit must not succeed where a larger one failed: {outcomes:?}"
        );
        assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
    }
}

#[test]
fn d02_a_device_whose_memory_is_swept_down_to_nothing() {
    for schedule in schedules(1..3) {
        for rules in [Rules::observed(), Rules::strict()] {
            let mut outcomes = Vec::new();
            for budget in (0..=12 * MIB).rev().step_by(MIB / 2) {
                let _watch = Watch::over(format!("{budget} bytes, {schedule:?}, {rules:?}"));
                let (gpu, _calls, device) = setup(budget, schedule, rules);
                outcomes.push(program_within(budget, &device, |_| ()));
                // SAFETY: the device keeps its context alive.
                unsafe { gpu.driver().context_synchronize(device.as_raw()) }.unwrap();
                device.trim().unwrap();
                let memory = device.memory_stats().unwrap();
                assert_eq!(
                    (memory.used_bytes, memory.reserved_bytes),
                    (0, 0),
                    "{budget} bytes"
                );
                assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
            }
            assert!(outcomes[0] && !outcomes[outcomes.len() - 1]);
        }
    }
}

#[run_by(everywhere, |harness|)]
fn memory_statistics_return_to_their_initial_values() {
    let device = &harness.device;
    let memory = || -> MemoryStats { device.memory_stats().unwrap() };
    let before = memory();
    let stream = harness.stream();
    let buffer = stream.upload(&[1_u32; 1000]).unwrap();
    let empty = stream.zeros::<u32>(0).unwrap();
    let during = memory();
    assert_eq!(during.allocated_bytes - before.allocated_bytes, 4000);
    assert_eq!(during.allocations - before.allocations, 1);
    assert!(during.used_bytes >= 4000 && during.page_locked_bytes > 0);
    let pinned = device.pinned::<u8>(5000).unwrap();
    let held = memory();
    assert_eq!(held.page_locked_bytes - held.page_locked_kept_bytes, 8192);
    drop((buffer, empty, pinned));
    stream.synchronize().unwrap();
    let after = memory();
    assert_eq!(after.allocated_bytes, before.allocated_bytes);
    assert_eq!(after.allocations, before.allocations);
    assert!(after.allocated_peak_bytes >= before.allocated_bytes + 4000);
    assert_eq!(after.page_locked_bytes, after.page_locked_kept_bytes);
    device.trim().unwrap();
    if !on_gpu() {
        let trimmed = memory();
        assert_eq!((trimmed.used_bytes, trimmed.reserved_bytes), (0, 0));
        assert_eq!(trimmed.page_locked_bytes, 0);
    }
}

#[run_by(with_little_memory(1000 * MIB), |gpu, calls, device|)]
fn page_locked_memory_is_bounded_and_freed_only_when_idle() {
    let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
    const LIMIT: usize = 64 << 10;
    device.set_staging_limit(LIMIT as u64);
    let target = s1.zeros::<u8>(LIMIT).unwrap();
    let gated = gpu.hold(s1.as_raw());
    // These downloads stay pending, and their blocks are the oldest of their sizes.
    for len in [4096, 8192] {
        drop(s1.download(target.slice(..len)).unwrap());
    }
    // Each block can be reused once the other stream is done with it.
    let mut sizes_bytes = 0;
    for len in [4096, 8192, 16384, 32768] {
        sizes_bytes += len;
        for value in 0..30_u8 {
            let array = s2.upload(&vec![value; len]).unwrap();
            let read = s2.download(array.slice(len - 2..)).unwrap();
            assert_eq!(read.wait().unwrap(), [value; 2]);
            let memory = device.memory_stats().unwrap();
            assert!(
                memory.page_locked_bytes <= (LIMIT + sizes_bytes) as u64,
                "{len} bytes, {value}: {memory:?}"
            );
        }
    }
    assert_eq!(calls.count("host_free"), 0, "the gate is closed");
    device.trim().unwrap();
    assert_eq!(calls.count("host_free"), 0, "the gate is still closed");
    drop(gated);
    for stream in [&s1, &s2] {
        stream.synchronize().unwrap();
    }
    // This fits once smaller blocks are freed.
    let large = device.pinned::<u8>(LIMIT).unwrap();
    assert!(calls.count("host_free") > 0);
    assert_eq!(
        device.memory_stats().unwrap().page_locked_bytes,
        LIMIT as u64
    );
    drop(large);
    device.trim().unwrap();
    assert_eq!(device.memory_stats().unwrap().page_locked_bytes, 0);
    assert_eq!(s1.values(&target).unwrap(), vec![0; LIMIT]);
}
