//! Uploads and downloads of pageable memory in many chunks: the time of capture, the target of each
//! chunk, and the page-locked memory used.

use std::{pin::Pin, sync::Barrier};

use crate::scenarios::prelude::*;

/// The chunk size of [`Sizes::Odd`].
const CHUNK: usize = 4093;
/// The chunk size of [`Sizes::Tiny`].
const TINY_CHUNK: usize = 1024;
/// Lengths around the boundaries of chunks, subchunks and small copies, for all sizes.
const LENGTHS: [usize; 22] = [
    1,
    99,
    101,
    200,
    201,
    257,
    299,
    300,
    301,
    700,
    701,
    1000,
    1001,
    TINY_CHUNK,
    TINY_CHUNK + 1,
    2 * TINY_CHUNK + 1,
    CHUNK - 1,
    CHUNK,
    CHUNK + 1,
    3 * CHUNK,
    9 * CHUNK + 7,
    64 << 10,
];

/// Creates a simulated GPU whose device copies in these sizes, behind a recording driver.
fn setup(schedule: Schedule, sizes: Sizes) -> (Gpu, Arc<Calls>, Device) {
    let gpu = Gpu::new(SimConfig::new().schedule(schedule));
    let calls = Arc::new(Calls::over(gpu.driver()));
    let device = open(&calls, 0).expect("the device opens");
    assert!(
        sizes.set(&device, false),
        "the sizes must be set before the first copy"
    );
    (gpu, calls, device)
}

fn under_every_schedule(run: impl Fn(&Gpu, &Calls, Device)) {
    for schedule in schedules(1..3) {
        for sizes in [Sizes::Odd, Sizes::tiny(0), Sizes::tiny(1)] {
            let _watch = Watch::over(format!("{schedule:?}, {sizes}"));
            let (gpu, calls, device) = setup(schedule, sizes);
            run(&gpu, &calls, device);
            assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
            assert_nothing_left(&gpu);
        }
    }
}

fn rising(len: usize, from: usize) -> Vec<u8> {
    (from..).take(len).map(|n| (n % 251) as u8).collect()
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b02_every_length_arrives_though_its_source_changes_at_once() -> Result<()> {
    for len in LENGTHS {
        let gate = harness.gate(&s1);
        let mut source = rising(len, 1);
        let a = s1.upload(&source)?;
        source.fill(0xEE);
        let owned = s1.upload_owned(rising(len, 2))?;
        let (there, first) = (s2.download(&a)?, s1.download(&owned)?);
        let mut target = vec![0; len];
        gate.open();
        harness
            .device
            .scope(|scope| scope.download(&s2, &owned, &mut target))?;
        assert!(there.wait()? == rising(len, 1), "{len}");
        assert!(
            first.wait()? == rising(len, 2) && target == rising(len, 2),
            "{len}"
        );
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b01_a_download_in_chunks_is_as_old_as_its_call() -> Result<()> {
    let mut a = s1.upload(&rising(9 * CHUNK, 1))?;
    let gate = harness.gate(&s1);
    let old = s1.download(&a)?;
    s2.fill(&mut a, 7)?;
    let new = s2.download(&a)?;
    harness.assert_pending(&old);
    harness.open_pending(gate, &new);
    assert!(new.wait()? == vec![7; 9 * CHUNK]);
    assert!(
        old.wait()? == rising(9 * CHUNK, 1),
        "a later write overtook it"
    );
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a07_a_download_in_chunks_waits_for_no_later_work() -> Result<()> {
    let a = stream.upload(&rising(9 * CHUNK, 1))?;
    let [blocking, polled] = [stream.download(&a)?, stream.download(&a)?];
    let gate = harness.gate(&stream);
    assert!(blocking.wait()? == rising(9 * CHUNK, 1));
    assert!(pollster::block_on(polled)? == rising(9 * CHUNK, 1));
    gate.open();
    Ok(())
}

#[run_by(under_every_schedule, |gpu, _, device|)]
fn b08_a_download_may_be_dropped_with_some_of_its_chunks_copied_out() {
    for polls in 0..12 {
        let stream = device.stream().unwrap();
        let a = stream.upload(&rising(9 * CHUNK, polls)).unwrap();
        let mut pending = stream.download(&a).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut arrived = None;
        for _ in 0..polls {
            if let Poll::Ready(values) = Pin::new(&mut pending).poll(&mut context) {
                arrived = Some(values.unwrap());
                break;
            }
            gpu.driver().pause(Duration::from_micros(1));
        }
        drop(pending);
        assert!(arrived.is_none_or(|values| values == rising(9 * CHUNK, polls)));
        let b = stream.upload(&rising(9 * CHUNK, polls + 1)).unwrap();
        let values = stream.values(&b).unwrap();
        assert!(values == rising(9 * CHUNK, polls + 1));
    }
}

#[run_by(under_every_schedule, |gpu, _, device|)]
fn a_download_larger_than_the_staging_limit_stays_within_it() {
    const LIMIT: u64 = 64 << 10;
    device.set_staging_limit(LIMIT);
    let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
    let len = 100 * CHUNK + 3;
    let mut a = s1.upload(&rising(len, 1)).unwrap();
    let hold = gpu.hold(s1.as_raw());
    let pending = thread::scope(|scope| {
        let call = scope.spawn(|| s1.download(&a));
        thread::sleep(Duration::from_millis(3));
        assert!(
            !call.is_finished(),
            "the download exceeds the staging limit, so the call must block"
        );
        drop(hold);
        call.join().unwrap().unwrap()
    });
    assert!(device.memory_stats().unwrap().page_locked_bytes <= LIMIT);
    s2.fill(&mut a, 9).unwrap();
    assert!(pending.wait().unwrap() == rising(len, 1));
    let mut target = vec![0; len];
    device
        .scope(|scope| scope.download(&s1, &a, &mut target))
        .unwrap();
    assert!(target == vec![9; len]);
    assert!(device.memory_stats().unwrap().page_locked_bytes <= LIMIT);
}

#[run_by(under_every_schedule, |_, _, device|)]
fn an_upload_larger_than_the_staging_limit_stays_within_it() {
    const LIMIT: u64 = 32 << 10;
    device.set_staging_limit(LIMIT);
    let stream = device.stream().unwrap();
    for from in 0..3 {
        let a = stream.upload(&rising(100 * CHUNK + 3, from)).unwrap();
        assert!(device.memory_stats().unwrap().page_locked_bytes <= LIMIT);
        let tail = stream.download(a.slice(99 * CHUNK..)).unwrap();
        assert!(tail.wait().unwrap() == rising(CHUNK + 3, from + 99 * CHUNK));
    }
}

#[run_by(under_every_schedule, |_, _, device|)]
fn further_downloads_work_while_earlier_ones_hold_all_page_locked_memory() {
    device.set_staging_limit(16 << 10);
    let stream = device.stream().unwrap();
    let a = stream.upload(&rising(20 * CHUNK, 1)).unwrap();
    let held: Vec<_> = (0..3).map(|_| stream.download(&a).unwrap()).collect();
    for pending in held.into_iter().rev() {
        assert!(pending.wait().unwrap() == rising(20 * CHUNK, 1));
    }
}

#[run_by(scenario_on, |_, [stream]|)]
fn downloading_into_a_vector_keeps_its_allocation() -> Result<()> {
    let a = stream.upload(&rising(3 * CHUNK, 1))?;
    let mut target = Vec::with_capacity(4 * CHUNK);
    target.push(0);
    let address = target.as_ptr();
    for len in [3 * CHUNK, 0, CHUNK, 5] {
        target = stream.download_into(a.slice(..len), target)?.wait()?;
        assert!(target == rising(len, 1) && target.as_ptr() == address);
    }
    let elsewhere = Device::simulated()?.stream()?;
    let (refused, source) = rejected(elsewhere.download_into(&a, target));
    assert_eq!(source.as_ptr(), address, "the error returns the vector");
    let refused = problem::<()>(Err(refused));
    assert_is!(refused, UsageErrorKind::OtherDevice { .. });
    Ok(())
}

#[run_by(under_every_schedule, |_, _, device|)]
fn many_threads_transfer_concurrently() {
    const THREADS: usize = 6;
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (device, start) = (&device, &start);
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                start.wait();
                for round in 0..4 {
                    let expected = rising(20 * CHUNK + thread, round);
                    let a = stream.upload(&expected).unwrap();
                    let owned = stream.upload_owned(expected.clone()).unwrap();
                    let back = (
                        stream.download(&a).unwrap(),
                        stream.download(&owned).unwrap(),
                    );
                    assert!(back.1.wait().unwrap() == expected);
                    assert!(pollster::block_on(back.0).unwrap() == expected);
                }
            });
        }
    });
}

#[run_by(under_every_schedule, |_, _, device|)]
fn one_stream_takes_small_uploads_from_several_threads() {
    let stream = device.stream().unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let stream = &stream;
            scope.spawn(move || {
                for round in 0..50 {
                    let expected = rising(1 + (round * 37 + thread) % 300, round + thread);
                    let a = stream.upload(&expected).unwrap();
                    assert!(stream.values(&a).unwrap() == expected);
                }
            });
        }
    });
}

#[test]
fn small_uploads_on_a_busy_stream_share_blocks_and_their_events() {
    let gpu = Gpu::new(SimConfig::new());
    let calls = Arc::new(Calls::over(gpu.driver()));
    let device = open(&calls, 0).unwrap();
    let stream = device.stream().unwrap();
    let mut target = stream.zeros::<u8>(4096).unwrap();
    let hold = gpu.hold(stream.as_raw());
    calls.forget();
    for round in 0..256 {
        stream
            .upload_into(&[round as u8; 4096], &mut target)
            .unwrap();
    }
    // A block of 256 KiB holds 64 of them; an event is recorded after each full block.
    assert_eq!(calls.count("copy_host_to_device_async"), 256);
    assert_eq!(calls.count("host_alloc"), 4);
    assert_eq!(calls.count("event_record"), 3);
    drop(hold);
    assert_eq!(stream.values(&target).unwrap(), [255; 4096]);
}

#[run_by(under_every_schedule, |gpu, calls, device|)]
fn staging_blocks_are_reused_on_a_stream_that_is_never_idle() {
    let stream = device.stream().unwrap();
    let mut target = stream.zeros::<u8>(64 * CHUNK).unwrap();
    calls.forget();
    stream
        .upload_into(&rising(64 * CHUNK, 1), &mut target)
        .unwrap();
    stream.synchronize().unwrap();
    let hold = gpu.hold(stream.as_raw());
    // The first upload's blocks are free, whatever is enqueued on the stream since.
    stream
        .upload_into(&rising(64 * CHUNK, 2), &mut target)
        .unwrap();
    let pieces = calls.count("copy_host_to_device_async") / 2;
    assert!(calls.count("host_alloc") <= pieces, "{:?}", calls.counts());
    drop(hold);
    assert!(stream.values(&target).unwrap() == rising(64 * CHUNK, 2));
}

#[run_by(under_every_schedule, |gpu, _, device|)]
fn retained_sources_stay_within_their_limit() {
    device.set_kept_sources_limit(5 * CHUNK);
    let stream = device.stream().unwrap();
    let mut target = stream.zeros::<u8>(2 * CHUNK).unwrap();
    let hold = gpu.hold(stream.as_raw());
    thread::scope(|scope| {
        let uploads = scope.spawn(|| {
            for from in 0..3 {
                drop(
                    stream
                        .upload_owned_into(rising(2 * CHUNK, from), &mut target)
                        .unwrap(),
                );
            }
        });
        thread::sleep(Duration::from_millis(3));
        assert!(
            !uploads.is_finished(),
            "three sources exceed the limit, so the call must block"
        );
        drop(hold);
        uploads.join().unwrap();
    });
    assert!(stream.values(&target).unwrap() == rising(2 * CHUNK, 2));
}
