//! D1: every driver call of a program fails. Each run ends in a typed error or with the correct
//! values, without hangs, panics, races or leaks.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use millstream::{Device, Error, Result, driver::DriverError, sim::Schedule};

use crate::{
    configurations::Sizes,
    harness::assert_nothing_left,
    instrumented::{instrumented_gpu, open},
    random::{program, run},
    sweep::{CODES, Subject},
};

const PROGRAMS: u64 = 40;
const STEPS: usize = 16;
/// The number of threads, more than one for each core: a run sleeps while the reactor still holds
/// its device.
const THREADS: usize = 4;
const N: usize = 1500;

/// Returns the schedule of a program.
fn schedule_of(seed: u64) -> Schedule {
    match seed % 4 {
        0 => Schedule::Timed,
        1 => Schedule::Eager,
        2 => Schedule::Lazy,
        _ => Schedule::Random(seed),
    }
}

/// Returns the chunk sizes of a program: tiny ones for one in seven.
fn sizes_of(seed: usize) -> Sizes {
    let drawn = if seed % 7 == 1 {
        Sizes::tiny(seed / 4)
    } else {
        Sizes::Own
    };
    Sizes::asked(seed).unwrap_or(drawn)
}

#[test]
fn d01_every_driver_call_of_a_program_may_fail() {
    let next = AtomicU64::new(0);
    let runs = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= PROGRAMS {
                    break;
                }
                let drawn = program(seed, STEPS, false);
                let subject = Subject {
                    name: format!("program {seed}"),
                    schedule: schedule_of(seed),
                    devices: 1,
                    sizes: sizes_of(seed as usize),
                    run: &|devices| run(devices, None, &drawn),
                };
                runs.fetch_add(subject.sweep(), Ordering::Relaxed);
            }
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                resume_unwind(panic);
            }
        }
    });
    println!("{} runs", runs.into_inner());
}

/// A size in bytes above what an upload captures at once.
const LARGE: usize = (1 << 20) + 1;

/// Makes an upload that reads its source chunk by chunk.
fn large_upload(devices: &[Device], len: usize) -> Result<()> {
    let stream = devices[0].stream()?;
    let mut target = stream.zeros::<u8>(len + 1)?;
    let uploaded = stream.upload_owned_into(vec![7_u8; len], target.slice_mut(1..))?;
    let arrived = stream.download(target.slice(len - 9..))?;
    drop(target);
    assert_eq!(arrived.wait()?, [7; 10]);
    assert_eq!(uploaded.wait()?.len(), len);
    Ok(())
}

#[test]
fn d01_every_driver_call_of_a_large_upload_may_fail() {
    for schedule in [Schedule::Timed, Schedule::Lazy] {
        // One chunk, and five with the last one short.
        for (sizes, len) in [(Sizes::Own, LARGE), (Sizes::tiny(0), 4 * 1024 + 1)] {
            let subject = Subject {
                name: String::from("large upload"),
                schedule,
                devices: 1,
                sizes,
                run: &|devices| large_upload(devices, len),
            };
            subject.sweep();
        }
    }
}

/// Copies to another device and back, on streams of both.
fn there_and_back(devices: &[Device], len: usize) -> Result<()> {
    let (one, other) = (devices[0].stream()?, devices[1].stream()?);
    let source = one.upload(&vec![3_u32; len])?;
    let mut there = other.zeros::<u32>(len)?;
    other.copy(&source, &mut there)?;
    let mut back = one.zeros::<u32>(len)?;
    other.copy(&there, &mut back)?;
    drop((source, there));
    one.fill(back.slice_mut(..1), 4)?;
    let mut again = other.zeros::<u32>(len)?;
    one.copy(&back, &mut again)?;
    drop(back);
    let value = other.download(&again)?.wait()?;
    assert_eq!((value[0], &value[1..]), (4, &vec![3; len - 1][..]));
    Ok(())
}

#[test]
fn d01_every_driver_call_of_copies_between_devices_may_fail() {
    for schedule in [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
    ] {
        // One chunk, and two with the last one short.
        for (sizes, len) in [(Sizes::Own, N), (Sizes::tiny(0), 300)] {
            let subject = Subject {
                name: String::from("copies between devices"),
                schedule,
                devices: 2,
                sizes,
                run: &|devices| there_and_back(devices, len),
            };
            subject.sweep();
        }
    }
}

#[test]
fn d01_every_driver_call_of_opening_may_fail() {
    for code in CODES {
        for number in 1.. {
            let (gpu, calls) = instrumented_gpu(Schedule::Timed, 1);
            let made = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&made);
            calls.fail(move |call| {
                let hit = counter.fetch_add(1, Ordering::Relaxed) + 1 == number;
                hit.then(|| DriverError::new(call, code))
            });
            let opened = open(&calls, 0);
            calls.fail_no_more();
            match opened {
                Ok(device) if made.load(Ordering::Relaxed) < number => {
                    drop(device);
                    break;
                }
                Err(Error::Driver(error)) => assert_eq!(error.code(), code),
                other => panic!("call {number}, {code}: {other:?}"),
            }
            let again = open(&calls, 0).expect("the device opens now");
            large_upload(&[again], LARGE).expect("and it works");
            assert_nothing_left(&gpu);
        }
    }
}
