//! D1: every driver call of a program fails. Each run ends in a typed error or with the correct
//! values, without hangs, panics, races or leaks.

use std::{
    panic::{Location, resume_unwind},
    sync::atomic::AtomicU64,
};

use millstream::kernel::{self, Argument, DriverStream};

use crate::scenarios::{
    instrumented::instrumented_gpu,
    loops::{one_thread, words},
    prelude::*,
    random::{program, run},
    sweep::{CODES, KINDS_OF_CODES, Subject},
};

const PROGRAMS: u64 = 20;
const STEPS: usize = 16;
/// The number of threads, more than one for each core: a run sleeps while the reactor still holds
/// its device.
const THREADS: usize = 4;
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
    sweep_programs(PROGRAMS);
}

#[test]
#[ignore = "minutes; cargo test -- --ignored d01"]
fn d01_every_driver_call_of_many_programs_may_fail() {
    sweep_programs(10 * PROGRAMS);
}

fn sweep_programs(programs: u64) {
    let next = AtomicU64::new(0);
    let runs = AtomicUsize::new(0);
    thread::scope(|scope| {
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= programs {
                    break;
                }
                let drawn = program(seed, STEPS, false);
                let run = |_: &Gpu, devices: &[Device]| run(devices, None, &drawn);
                let subject = Subject {
                    sizes: sizes_of(seed as usize),
                    ..Subject::new(format!("program {seed}"), schedule_of(seed), &run)
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
            let run = |_: &Gpu, devices: &[Device]| large_upload(devices, len);
            let subject = Subject {
                sizes,
                ..Subject::new("large upload", schedule, &run)
            };
            subject.sweep();
        }
    }
}

/// Records, replays, changes and steps through graphs.
#[allow(unsafe_code, reason = "makes a call that stays within its operand")]
fn graphs(devices: &[Device]) -> Result<()> {
    let (device, stream) = (&devices[0], devices[0].stream()?);
    let (ones, twos) = (stream.upload(&[1_u32; N])?, stream.upload(&[2_u32; N])?);
    let mut sum = stream.zeros::<u32>(N)?;
    let record = |sum: &mut Buffer<u32>, r: &GraphRecorder, first: u32| -> Result<()> {
        let (one, other) = (r.stream()?, r.stream()?);
        let mut inside = one.upload(&[0_u32; N])?;
        one.copy(&ones, &mut inside)?;
        let target = inside.as_raw().offset(8);
        let call = |to: DriverStream<'_>| {
            let four = FillPattern::U32(4);
            // SAFETY: the call fills two elements of the array, which is an operand.
            unsafe {
                to.driver
                    .memset_async(to.context, target, four, 2, to.stream)
            }
        };
        let mut part = inside.slice_mut(2..4);
        let operands = [Argument::write(&mut part)];
        // SAFETY: the call uses its operand alone, on the given stream.
        unsafe { kernel::enqueue("library", &one, &operands, Location::caller(), call) }?;
        other.fill(inside.slice_mut(..1), first)?;
        other.copy(&inside, sum)
    };
    let mut graph = device.record("graph", |r| record(&mut sum, r, 7))?;
    drop(stream.upload(&[9_u32; N])?);
    graph.replay(&stream)?;
    assert_eq!(stream.values(sum.slice(..5))?, [7, 1, 4, 4, 1]);
    graph.swap(&ones, &twos)?;
    device.stream()?.fill(&mut sum, 0)?;
    graph.replay_times(&stream, 2)?;
    assert_eq!(stream.values(sum.slice(..5))?, [7, 2, 4, 4, 2]);
    graph.update(|r| record(&mut sum, r, 8))?;
    graph.replay(&stream)?;
    let updated = stream.download(sum.slice(..2))?;
    graph.replay_stepwise(&stream)?;
    let mut plain = device.record("plain", |r| r.stream()?.fill(&mut sum, 3))?;
    let instance = plain.instance()?;
    plain.update(|r| r.stream()?.fill(sum.slice_mut(1..), 4))?;
    instance.replay(&stream)?;
    plain.replay(&stream)?;
    drop((plain, instance, graph));
    assert_eq!(updated.wait()?, [8, 1]);
    assert_eq!(stream.values(sum.slice(..2))?, [3, 4]);
    Ok(())
}

/// Makes a call, and once more if it has failed.
fn twice<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    match call() {
        Err(Error::Driver(_) | Error::OutOfMemory(_)) => call(),
        outcome => outcome,
    }
}

/// Repeats each call that fails: a graph is as before then, so the same call works.
fn repeated_graphs(devices: &[Device]) -> Result<()> {
    let (device, stream) = (&devices[0], twice(|| devices[0].stream())?);
    let (ones, twos) = (
        twice(|| stream.upload(&[1_u32; N]))?,
        twice(|| stream.upload(&[2_u32; N]))?,
    );
    let mut sum = twice(|| stream.zeros::<u32>(N))?;
    let step = |sum: &mut Buffer<u32>, r: &GraphRecorder, first: u32| -> Result<()> {
        let recorded = r.stream()?;
        let mut inside = recorded.zeros::<u32>(N)?;
        recorded.copy(&ones, &mut inside)?;
        recorded.fill(inside.slice_mut(..1), first)?;
        recorded.copy(&inside, sum)
    };
    let read = |sum: &Buffer<u32>| twice(|| stream.download(sum.slice(..2))?.wait());
    let mut graph = twice(|| device.record("graph", |r| step(&mut sum, r, 7)))?;
    twice(|| graph.replay(&stream))?;
    assert_eq!(read(&sum)?, [7, 1]);
    twice(|| graph.swap(&ones, &twos))?;
    twice(|| graph.replay(&stream))?;
    assert_eq!(read(&sum)?, [7, 2]);
    // The same nodes with another argument and another array, and then other nodes.
    twice(|| graph.update(|r| step(&mut sum, r, 8)))?;
    twice(|| graph.replay(&stream))?;
    assert_eq!(read(&sum)?, [8, 1]);
    twice(|| graph.update(|r| r.stream()?.fill(&mut sum, 3)))?;
    let outer = twice(|| device.record("outer", |r| graph.replay(&r.stream()?)))?;
    twice(|| outer.replay(&stream))?;
    assert_eq!(read(&sum)?, [3, 3]);
    Ok(())
}

#[test]
fn g09_a_call_of_a_graph_works_when_it_is_repeated_after_a_failure() {
    let subject = Subject::new("repeated graphs", Schedule::Lazy, &|_, devices| {
        repeated_graphs(devices)
    });
    for code in [ResultCode::OUT_OF_MEMORY, ResultCode::UNKNOWN] {
        subject.sweep_once_with(code);
    }
}

#[test]
fn g09_every_driver_call_of_recording_replay_and_update_may_fail() {
    thread::scope(|scope| {
        for code in KINDS_OF_CODES {
            scope.spawn(move || {
                let subject = Subject::new("graphs", Schedule::Lazy, &|_, devices| graphs(devices));
                subject.sweep_with(&[code]);
            });
        }
    });
}

/// Records and replays a loop, with conditional nodes and by the host.
fn loops(devices: &[Device]) -> Result<()> {
    let (device, stream) = (&devices[0], devices[0].stream()?);
    let kernels = words::load(device)?;
    let mut left = stream.upload(&[2_u32])?;
    let mut sum = stream.zeros::<u32>(1)?;
    let mut graph = device.record("loop", |r| {
        r.while_loop(&mut left, 3, |body, left| {
            kernels.count(&body.stream()?, one_thread(), left, &mut sum)
        })
    })?;
    graph.replay(&stream)?;
    stream.fill(&mut left, 9)?;
    graph.replay_stepwise(&stream)?;
    let reported = stream.download(&sum)?.wait();
    let is_limit = matches!(reported, Err(Error::LoopLimit { .. }));
    if !is_limit {
        reported?;
        panic!("the limit is not reported");
    }
    graph.update(|r| r.stream()?.fill(&mut left, 0))?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&sum)?, [5]);
    Ok(())
}

#[test]
fn g09_every_driver_call_of_a_loop_may_fail() {
    let subject = Subject::new("loops", Schedule::Lazy, &|_, devices| loops(devices));
    subject.sweep_with(&KINDS_OF_CODES);
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
    let value = other.values(&again)?;
    assert_eq!((value[0], &value[1..]), (4, &vec![3; len - 1][..]));
    Ok(())
}

/// Doubles the elements of `from` on a stream of another device: over the link, or if the devices
/// cannot access each other's memory, after a copy. Returns the result, on the stream's device.
fn double_elsewhere(stream: &Stream, from: &Buffer<f32>) -> Result<Buffer<f32>> {
    let (device, len) = (stream.device(), from.len());
    let kernels = sums::load(&device)?;
    let mut to = stream.zeros::<f32>(len)?;
    match from.peer(&device) {
        Ok(from) => kernels.vecadd(stream, len, &from, &from, &mut to, len as u64)?,
        Err(error) => {
            check_refused(error)?;
            let mut copy = stream.zeros::<f32>(len)?;
            stream.copy(from, &mut copy)?;
            kernels.vecadd(stream, len, &copy, &copy, &mut to, len as u64)?;
        }
    }
    Ok(to)
}

/// Returns the error unless it says that the devices cannot access each other's memory.
fn check_refused(error: Error) -> Result<()> {
    match &error {
        Error::Usage(usage_error)
            if matches!(usage_error.problem(), UsageErrorKind::NoPeerAccess { .. }) =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

/// Launches kernels that read and write memory of another device, and copies rows between the two.
fn kernels_and_rows(devices: &[Device], rows: usize) -> Result<()> {
    const COLS: usize = 10;
    let len = rows * COLS;
    let (one, other) = (devices[0].stream()?, devices[1].stream()?);
    let source = one.upload(&vec![3.0_f32; len])?;
    let sum = double_elsewhere(&other, &source)?;
    drop(source);
    // The first half of each row, back to the first device.
    let mut table = one.zeros::<f32>(len)?;
    one.copy_2d(
        sum.view_2d(rows, COLS)?.rect(.., ..COLS / 2)?,
        table.view_2d_mut(rows, COLS)?.rect_mut(.., ..COLS / 2)?,
    )?;
    let kernels = sums::load(&devices[1])?;
    let mut first = table.slice_mut(..1);
    match first.peer_mut(&devices[1]) {
        Ok(mut first) => kernels.vecadd(&other, 1, &sum, &sum, &mut first, 1)?,
        Err(error) => {
            check_refused(error)?;
            one.fill(&mut first, 12.0)?;
        }
    }
    let mut managed = devices[0].managed::<f32>(len)?;
    kernels.vecadd(&other, len, &sum, &sum, &mut managed, len as u64)?;
    drop(sum);
    let found = one.values(&table)?;
    for (at, &value) in found.iter().enumerate() {
        let expected = match at {
            0 => 12.0,
            _ if at % COLS < COLS / 2 => 6.0,
            _ => 0.0,
        };
        assert_eq!(value, expected, "element {at}");
    }
    assert_eq!(*managed.read()?, vec![12.0; len]);
    Ok(())
}

/// Makes every call of a program with two devices fail, over their link and without one.
fn sweep_two_devices(name: &str, run: impl Fn(&[Device], usize) -> Result<()>, len: usize) {
    let staged = Links::all(Link::NoPeerAccess);
    // Staged copies have one chunk, and two with the last one short.
    let cases = [
        (Schedule::Timed, Links::default(), Sizes::Own, len),
        (Schedule::Eager, staged.clone(), Sizes::Own, len),
        (Schedule::Lazy, staged, Sizes::tiny(0), 300.min(len)),
        (Schedule::Random(1), Links::default(), Sizes::Own, len),
    ];
    for (schedule, links, sizes, len) in cases {
        let subject = Subject {
            name: String::from(name),
            schedule,
            devices: 2,
            links,
            sizes,
            run: &|_, devices| run(devices, len),
        };
        subject.sweep_with(&KINDS_OF_CODES);
    }
}

#[test]
fn d01_every_driver_call_of_copies_between_devices_may_fail() {
    sweep_two_devices("copies between devices", there_and_back, N);
}

#[test]
fn d01_every_driver_call_of_kernels_with_memory_of_another_device_may_fail() {
    sweep_two_devices("kernels and rows", kernels_and_rows, 30);
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
