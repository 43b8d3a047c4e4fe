//! Drivers that fail or panic in the middle of an operation: nothing hangs, no ordering is lost,
//! and the device keeps working.

use std::{
    array,
    collections::BTreeMap,
    sync::{Mutex, atomic::AtomicU64},
};

use crate::scenarios::{calls::Failure, instrumented::instrumented_devices, prelude::*};

/// A program with two streams, arrays of every kind, kernels, copies, downloads and drops; returns
/// the computed values.
fn program(device: &Device) -> Result<(Vec<f32>, Vec<f64>, Vec<f32>)> {
    let timeline = device.timeline()?;
    let kernels = sums::load(device)?;
    let (s1, s2) = (device.stream()?, device.stream()?);
    let mut pinned = device.pinned_from(&[2.0_f32; N])?;
    let ones = s1.upload(&[1.0_f32; N])?;
    let mut sum = s2.zeros::<f32>(N)?;
    let event = s1.record()?;
    s2.wait_for(&event)?;
    s2.copy(&pinned, &mut sum)?;
    let mut next = s1.zeros::<f32>(N)?;
    kernels.vecadd(&s1, N, &ones, &sum, &mut next, N as u64)?;
    drop(s1.download(&sum)?);
    drop(sum);
    let mut wide = s1.zeros::<f64>(N)?;
    s2.fill(wide.slice_mut(1..), 1.7)?;
    s1.fill(next.slice_mut(..1), 9.0)?;
    s2.copy(&next, &mut pinned)?;
    let both = (s2.download(&next)?, s1.download(&wide)?);
    drop((next, wide, ones));
    let first = pollster::block_on(both.0)?;
    let second = both.1.wait()?;
    timeline.finish()?;
    let third = pinned.read()?.to_vec();
    Ok((first, second, third))
}

fn expected() -> (Vec<f32>, Vec<f64>, Vec<f32>) {
    let mut sum = vec![3.0; N];
    sum[0] = 9.0;
    let mut wide = vec![1.7; N];
    wide[0] = 0.0;
    (sum.clone(), wide, sum)
}

/// Opens a single simulated device with an instrumented driver.
fn setup(schedule: Schedule) -> (Gpu, Arc<Calls>, Device) {
    let (gpu, calls, mut devices) = instrumented_devices(schedule, 1, Links::default());
    (gpu, calls, devices.remove(0))
}

/// Makes the `number`th `call` from now on fail; returns a count of those calls.
fn fail_one(
    calls: &Calls,
    call: &'static str,
    number: usize,
    code: ResultCode,
) -> Arc<AtomicUsize> {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    calls.fail(move |name| {
        let hit = name == call && counter.fetch_add(1, Ordering::Relaxed) + 1 == number;
        hit.then(|| DriverError::new(call, code))
    });
    made
}

/// Makes the `number`th call from now on that `is_meant` accepts panic; returns a count of those
/// calls.
fn panic_once(
    calls: &Calls,
    is_meant: impl Fn(&str) -> bool + Send + Sync + 'static,
    number: usize,
) -> Arc<AtomicUsize> {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    calls.fail(move |name| {
        let hit = is_meant(name) && counter.fetch_add(1, Ordering::Relaxed) + 1 == number;
        assert!(!hit, "{name} panics, as the test wants");
        None
    });
    made
}

/// Returns the number of times that the program makes each call.
fn calls_made() -> BTreeMap<&'static str, usize> {
    let (_gpu, calls, device) = setup(Schedule::Timed);
    calls.forget();
    assert_eq!(program(&device).expect("nothing fails"), expected());
    calls.counts()
}

#[test]
fn a_free_deferred_until_the_device_closes_leaks_no_stream() {
    let (gpu, calls, device) = setup(Schedule::Timed);
    let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
    let buffer = s1.upload(&[1_u8; N]).unwrap();
    let hold = gpu.hold(s1.as_raw());
    // Neither stream is ordered after the other's copy, so the free needs another stream.
    drop(s2.download(&buffer).unwrap());
    drop(s1.download(&buffer).unwrap());
    fail_one(&calls, "stream_create", 1, ResultCode::INVALID_VALUE);
    drop(buffer);
    assert_eq!(
        calls.count("mem_free_async"),
        0,
        "the free must be deferred"
    );
    drop((s1, s2, device));
    assert_eq!(calls.count("mem_free_async"), 1);
    drop(hold);
    assert_nothing_left(&gpu);
}

#[test]
fn no_thread_hangs_after_a_driver_panic() {
    let enqueuing = [
        "mem_alloc_async",
        "memset_async",
        "copy_host_to_device_async",
        "copy_device_to_host_async",
        "copy_device_to_device_async",
        "launch_kernel",
        "stream_wait_event",
        "event_record",
    ];
    let made = calls_made();
    for call in enqueuing {
        for number in 1..=made[call].min(10) {
            let name = format!("panic in {call} no. {number}");
            let _watch = Watch::over(name.clone());
            let (gpu, calls, device) = setup(Schedule::Timed);
            panic_once(&calls, move |name| name == call, number);
            let panicked = catch_unwind(AssertUnwindSafe(|| program(&device)));
            assert!(panicked.is_err(), "{name}");
            assert_eq!(program(&device).expect(&name), expected(), "{name}");
            assert!(gpu.reports().is_empty(), "{name}: {:#?}", gpu.reports());
        }
    }
}

fn in_reactor() -> bool {
    thread::current().name() == Some("millstream-reactor")
}

/// Makes the `number`th call that `is_meant` accepts panic while a future is pending.
fn assert_survives(is_meant: impl Fn(&str) -> bool + Send + Sync + 'static, number: usize) {
    let (gpu, calls, device) = setup(Schedule::Timed);
    let stream = device.stream().unwrap();
    let buffer = stream.upload(&[1_u8; N]).unwrap();
    let hold = gpu.hold(stream.as_raw());
    let download = stream.download(&buffer).unwrap();
    let made = panic_once(&calls, is_meant, number);
    let waiter = thread::spawn(move || pollster::block_on(download));
    while made.load(Ordering::Relaxed) < number {
        thread::yield_now();
    }
    drop(hold);
    assert_eq!(waiter.join().unwrap().unwrap(), [1; N]);
}

#[test]
fn a_driver_panic_in_a_reactor_query_does_not_fail_the_future() {
    let _watch = Watch::over(String::from("panic of a query"));
    for _ in 0..2 {
        assert_survives(|_| in_reactor(), 1);
    }
}

#[test]
fn a_driver_panic_between_reactor_queries_does_not_fail_the_future() {
    for call in ["now_ns", "pause"] {
        let _watch = Watch::over(format!("panic of {call}"));
        assert_survives(move |name| name == call && in_reactor(), 2);
    }
}

#[test]
fn a_sync_point_that_failed_to_record_is_recorded_by_the_next_operation() {
    let (gpu, calls, device) = setup(Schedule::Timed);
    let stream = device.stream().unwrap();
    let mut buffer = stream.upload(&[1_u8; N]).unwrap();
    let download = stream.download(&buffer).unwrap();
    fail_one(&calls, "event_create", 1, ResultCode::INVALID_VALUE);
    assert!(matches!(stream.fill(&mut buffer, 2), Err(Error::Driver(_))));
    calls.fail_no_more();
    stream.fill(&mut buffer, 3).unwrap();
    let hold = gpu.hold(stream.as_raw());
    for _ in 0..1000 {
        if download.is_ready().unwrap() {
            break;
        }
        calls.pause(Duration::from_micros(20));
    }
    assert!(
        download.is_ready().unwrap(),
        "it waits for work submitted later"
    );
    drop(hold);
    assert_eq!(download.wait().unwrap(), [1; N]);
}

#[test]
fn an_uploads_source_is_retained_when_completion_queries_fail() {
    let (gpu, calls, device) = setup(Schedule::Timed);
    let stream = device.stream().unwrap();
    let hold = gpu.hold(stream.as_raw());
    let source: Arc<[u8]> = Arc::from(vec![7; 2 << 20]);
    let buffer = stream.upload_owned(Arc::clone(&source)).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let failures = Arc::clone(&asked);
    calls.fail(move |call| {
        call.ends_with("_query").then(|| {
            failures.fetch_add(1, Ordering::Relaxed);
            DriverError::new(call, ResultCode::UNKNOWN)
        })
    });
    let asking = Instant::now();
    while asked.load(Ordering::Relaxed) < 3 && asking.elapsed() < Duration::from_secs(1) {
        thread::yield_now();
    }
    calls.fail_no_more();
    assert_eq!(Arc::strong_count(&source), 2, "the upload is still pending");
    drop(hold);
    assert_eq!(stream.values(&buffer).unwrap(), *source);
}

/// Makes the next `call` fail after it has been forwarded.
fn fail_after(calls: &Calls, call: &'static str) {
    let failed = AtomicUsize::new(0);
    calls.fail_so(move |name| {
        let hit = name == call && failed.fetch_add(1, Ordering::Relaxed) == 0;
        hit.then(|| Failure::Afterwards(DriverError::new(call, ResultCode::UNKNOWN)))
    });
}

#[test]
fn a_staging_block_of_a_failed_call_is_not_reused_before_its_copy_completes() {
    let (gpu, calls, device) = setup(Schedule::Timed);
    let [s1, s2] = array::from_fn(|_| device.stream().unwrap());
    let mut buffer = s1.upload(&[1_u8; N]).unwrap();
    s1.synchronize().unwrap();

    let hold = gpu.hold(s1.as_raw());
    fail_after(&calls, "copy_host_to_device_async");
    assert_is!(s1.upload_into(&[2; N], &mut buffer), Err(Error::Driver(_)));
    calls.fail_no_more();
    let other = s2.upload(&[9_u8; N]).unwrap();
    drop(hold);
    assert_eq!(s1.values(&buffer).unwrap(), [2; N]);
    assert_eq!(s2.values(&other).unwrap(), [9; N]);

    let hold = gpu.hold(s1.as_raw());
    fail_after(&calls, "copy_device_to_host_async");
    assert!(matches!(s1.download(&buffer), Err(Error::Driver(_))));
    calls.fail_no_more();
    let taken: Vec<_> = (0..4)
        .map(|_| device.pinned_from(&[9_u8; N]).unwrap())
        .collect();
    drop(hold);
    s1.synchronize().unwrap();
    for pinned in &taken {
        assert_eq!(*pinned.read().unwrap(), [9; N]);
    }
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[test]
fn a_staging_block_that_a_lost_device_may_write_is_not_reused() {
    let staged = Links::all(Link::NoPeerAccess);
    let (gpu, calls, devices) = instrumented_devices(Schedule::Timed, 2, staged);
    let [one, other] = [0, 1].map(|at: usize| devices[at].stream().unwrap());
    let source = one.upload(&[1_u8; N]).unwrap();
    let mut target = other.zeros::<u8>(N).unwrap();
    one.synchronize().unwrap();
    let hold = gpu.hold(one.as_raw());
    // The copy to the staging block is enqueued before the device is reported lost.
    fail_one(&calls, "event_record", 1, ResultCode::ILLEGAL_ADDRESS);
    assert_lost(one.copy(&source, &mut target));
    calls.fail_no_more();
    // Gives the reactor time to see that no host thread waits any more.
    thread::sleep(Duration::from_millis(20));
    let mut pinned = devices[1].pinned::<u8>(N).unwrap();
    pinned.write().unwrap().fill(9);
    drop(hold);
    for _ in 0..10 {
        calls.pause(Duration::from_millis(1));
    }
    assert_eq!(*pinned.read().unwrap(), [9; N]);
}

#[test]
fn a_probe_of_peer_access_that_ends_early_leaks_no_memory() {
    let (gpu, calls, devices) = instrumented_devices(Schedule::Timed, 2, Links::default());
    calls.fail(|call| {
        let fails = ["copy_device_to_host_async", "stream_wait_event"].contains(&call);
        fails.then(|| DriverError::new(call, ResultCode::UNKNOWN))
    });
    let status = devices[0].peer_status(&devices[1]).unwrap();
    assert_is!(status, PeerStatus::Staged { .. });
    calls.fail_no_more();
    drop(devices);
    assert_nothing_left(&gpu);
}

#[test]
fn an_access_after_a_failed_write_waits_for_the_previous_write() {
    for behind_it in [false, true] {
        let (gpu, calls, device) = setup(Schedule::Eager);
        let [s1, s2, s3] = array::from_fn(|_| device.stream().unwrap());
        let mut shared = s1.zeros::<u32>(N).unwrap();
        let mut other = s2.zeros::<u32>(N).unwrap();
        let hold = gpu.hold(s1.as_raw());
        let hold_of_2 = gpu.hold(s2.as_raw());
        s2.fill(&mut other, 1).unwrap();
        s1.fill(&mut shared, 7).unwrap();
        // The write fails before its stream waits for any event, so ordering after it implies no
        // other order.
        fail_one(&calls, "stream_wait_event", 1, ResultCode::INVALID_VALUE);
        assert!(matches!(s2.fill(&mut shared, 8), Err(Error::Driver(_))));
        calls.fail_no_more();
        let second = if behind_it {
            // A wait for the earlier work of the stream, which also covers the failed write.
            let second = s3.download(&other).unwrap();
            drop(hold_of_2);
            second
        } else {
            drop(hold_of_2);
            s2.download(&other).unwrap()
        };
        assert_eq!(second.wait().unwrap(), [1; N]);
        let download = s3.download(&shared).unwrap();
        assert!(
            !download.is_ready().unwrap(),
            "the first write is still held"
        );
        drop(hold);
        assert_eq!(download.wait().unwrap(), [7; N]);
        assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
    }
}

#[test]
fn a_failed_wait_delays_neither_an_operand_that_was_read_nor_later_work_of_its_stream() {
    let _watch = Watch::over(String::from("a failed wait"));
    let (gpu, calls, device) = setup(Schedule::Eager);
    let [s1, s2, s3] = array::from_fn(|_| device.stream().unwrap());
    let mut shared = s1.zeros::<u32>(N).unwrap();
    let mut idle = s2.upload(&[1_u32; N]).unwrap();
    s2.synchronize().unwrap();
    let _hold = gpu.hold(s1.as_raw());
    s1.fill(&mut shared, 7).unwrap();
    fail_one(&calls, "stream_wait_event", 1, ResultCode::INVALID_VALUE);
    assert!(matches!(s2.copy(&idle, &mut shared), Err(Error::Driver(_))));
    calls.fail_no_more();
    assert_eq!(s3.values(&idle).unwrap(), [1; N]);
    s2.fill(&mut idle, 2).unwrap();
    assert_eq!(s3.values(&idle).unwrap(), [2; N]);
}

#[test]
fn randomly_failing_calls_on_many_threads_cause_no_race() {
    const ROUNDS: usize = 60;
    for seed in 0..12_u64 {
        let name = format!("failing calls, seed {seed}");
        let _watch = Watch::over(name.clone());
        let (gpu, calls, device) = setup(Schedule::Random(seed));
        let kernels = sums::load(&device).unwrap();
        let home = device.stream().unwrap();
        let ones = home.upload(&[1.0_f32; N]).unwrap();
        // Each array with the current values of its halves.
        let arrays: [_; 3] =
            array::from_fn(|_| Mutex::new((home.zeros::<f32>(N).unwrap(), [0.0_f32; 2])));
        let draws = AtomicU64::new(seed);
        calls.fail(move |call| {
            // A step of splitmix64; one call in 16 fails.
            let mut draw = draws.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (draw >> 60 == 0).then(|| DriverError::new(call, ResultCode::INVALID_VALUE))
        });
        thread::scope(|scope| {
            for number in 0..4 {
                let (kernels, device, ones, arrays) = (&kernels, &device, &ones, &arrays);
                let work = move |round: usize| -> Result<()> {
                    let (one, other) = (device.stream()?, device.thread_stream()?);
                    let mut arrays = [
                        &arrays[(number + round) % 3],
                        &arrays[(number + round + 1) % 3],
                    ];
                    arrays.sort_by_key(|array| std::ptr::from_ref(*array));
                    let [mut first, mut second] = arrays.map(|array| array.lock().unwrap());
                    let ((first, first_halves), (second, second_halves)) =
                        (&mut *first, &mut *second);
                    let mut made = one.zeros::<f32>(N)?;
                    kernels.vecadd(&one, N, &*first, ones, &mut made, N as u64)?;
                    let (mut left, right) = second.split_at_mut(N / 2);
                    other.copy(made.slice(..N / 2), &mut left)?;
                    second_halves[0] = first_halves[0] + 1.0;
                    drop(made);
                    one.fill(right, round as f32)?;
                    second_halves[1] = round as f32;
                    let download = other.download(&*second)?;
                    one.fill(&mut *first, number as f32)?;
                    *first_halves = [number as f32; 2];
                    if round.is_multiple_of(3) {
                        let values = download.wait()?;
                        let (left, right) = values.split_at(N / 2);
                        assert!(
                            left.iter().all(|&value| value == second_halves[0]),
                            "{left:?}"
                        );
                        assert!(
                            right.iter().all(|&value| value == second_halves[1]),
                            "{right:?}"
                        );
                    }
                    Ok(())
                };
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // Most rounds fail at some call.
                        let _ = work(round);
                    }
                });
            }
        });
        calls.fail_no_more();
        assert!(device.lost().is_none(), "{name}");
        assert_eq!(program(&device).expect(&name), expected(), "{name}");
        drop((arrays, ones));
        home.synchronize().unwrap();
        assert!(gpu.reports().is_empty(), "{name}: {:#?}", gpu.reports());
    }
}
