//! Scenarios B: copies and host memory.

use crate::scenarios::prelude::*;

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b01_a_download_behind_a_gate_gives_its_value_only_when_complete() -> Result<()> {
    let mut a = s1.upload(&vec![1_u16; N])?;
    for stream in [&s1, &s2] {
        let gate = harness.gate(stream);
        stream.fill(&mut a, 2)?;
        let mut value = stream.download(&a)?;
        if harness.gates_hold() {
            let early = value.try_take()?;
            assert!(
                early.is_none(),
                "the destination can be reached before it is complete"
            );
        }
        gate.open();
        assert_eq!(value.wait()?, [2; N]);
        s1.fill(&mut a, 1)?;
    }

    let mut pinned = harness.device.pinned::<u16>(N)?;
    let gate = harness.gate(&s1);
    s1.fill(&mut a, 3)?;
    s1.copy(&a, &mut pinned)?;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let guard = scope.spawn(|| {
            let values = pinned.read().map(|values| values.to_vec());
            drop(sender);
            values
        });
        let early = receiver.try_recv() != Err::<(), _>(mpsc::TryRecvError::Empty);
        assert!(!early || !harness.gates_hold(), "the guard waits");
        gate.open();
        assert_eq!(guard.join().unwrap()?, [3; N]);
        Ok(())
    })
}

#[run_by(scenario_on, |harness, [s1]|)]
fn b02_the_source_of_an_upload_may_be_overwritten_and_freed_at_once() -> Result<()> {
    for len in [1, N, 3 * harness.large_len()] {
        let gate = harness.gate(&s1);
        let mut source: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let a = s1.upload(&source)?;
        source.fill(0xEE);
        drop(source);
        let value = s1.download(&a)?;
        gate.open();
        assert!(
            value
                .wait()?
                .iter()
                .enumerate()
                .all(|(n, &byte)| byte == n as u8)
        );
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b04_a_completion_on_one_stream_does_not_wait_for_another() -> Result<()> {
    let a = s1.upload(&vec![1_u32; N])?;
    let other = s2.upload(&vec![2_u32; N])?;
    let gate = harness.gate(&s2);
    let held = s2.download(&other)?;
    s1.synchronize()?;
    assert_eq!(s1.values(&a)?, [1; N]);
    let b = s1.zeros::<u32>(N)?;
    drop(a);
    assert_eq!(s1.values(&b)?, [0; N]);
    harness.open_pending(gate, &held);
    assert_eq!(held.wait()?, [2; N]);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn b05_two_threads_with_default_settings_overlap() -> Result<()> {
    let stream = harness.device.thread_stream()?;
    let gate = harness.gate(&stream);
    let a = stream.upload(&vec![1_u32; N])?;
    let held = stream.download(&a)?;
    let other = || -> Result<_> {
        let stream = harness.device.thread_stream()?;
        let a = stream.upload(&vec![2_u32; N])?;
        stream.download(&a)?.wait()
    };
    let value = thread::scope(|scope| scope.spawn(other).join().unwrap())?;
    assert_eq!(
        value, [2; N],
        "the other thread's work goes on behind the gate"
    );
    harness.open_pending(gate, &held);
    assert_eq!(held.wait()?, [1; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b08_dropping_a_pending_download_neither_blocks_nor_corrupts() -> Result<()> {
    let a = s1.upload(&vec![1_u32; N])?;
    let gate = harness.gate(&s1);
    drop(s1.download(&a)?);
    let b = s2.upload(&vec![2_u32; N])?;
    assert_eq!(s2.values(&b)?, [2; N], "its memory must not be reused yet");
    gate.open();
    assert_eq!(s1.values(&a)?, [1; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b11_a_pinned_array_waits_for_what_is_in_its_way_alone() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let mut pinned = harness.device.pinned_from(&vec![1_u32; N])?;
    let gate = harness.gate(&s1);
    s1.copy(&pinned, &mut a)?;
    assert_eq!(
        *pinned.read()?,
        [1; N],
        "reading beside a copy that reads is allowed"
    );
    let value = s2.download(&a)?;
    gate.open();
    pinned.write()?.fill(9);
    assert_eq!(
        value.wait()?,
        [1; N],
        "a write of the host waits until the copy has read"
    );
    Ok(())
}

#[run_by(scenario_on, |harness, [s1]|)]
fn b12_a_pinned_array_dropped_in_flight_is_not_handed_out_again_yet() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let pinned = harness.device.pinned_from(&vec![1_u32; N])?;
    let gate = harness.gate(&s1);
    s1.copy(&pinned, &mut a)?;
    drop(pinned);
    let other = harness.device.pinned_from(&vec![7_u32; N])?;
    gate.open();
    assert_eq!(s1.values(&a)?, [1; N]);
    assert_eq!(*other.read()?, [7; N]);
    Ok(())
}

/// Enqueues uploads of `len` bytes whose arrays are dropped at once, and checks how much memory
/// they hold meanwhile.
fn upload_and_forget_about_it(schedule: Schedule, uploads: usize, len: usize) -> Result<()> {
    /// The size of the page-locked pool at which it waits for pending copies instead of growing.
    const PINNED_BYTES_MAX: u64 = 256 << 20;
    let _watch = Watch::over(format!("b10 {schedule:?}"));
    let gpu = Gpu::new(SimConfig::new().schedule(schedule));
    let stream = Device::open_simulated(&gpu, 0)?.stream()?;
    let source = vec![7_u8; len];
    for number in 0..uploads {
        drop(stream.upload(&source)?);
        if !number.is_multiple_of(100) {
            // Counting takes time proportional to the objects held.
            continue;
        }
        let held = gpu.live_object_counts();
        assert!(held.pinned_bytes <= PINNED_BYTES_MAX, "{held:?}");
        assert!(
            held.device_bytes <= PINNED_BYTES_MAX + len as u64,
            "{held:?}"
        );
    }
    let last = stream.upload(&source)?;
    assert_eq!(stream.values(&last)?, source);
    drop((last, stream));
    assert_nothing_left(&gpu);
    Ok(())
}

#[test]
fn b10_uploads_that_are_never_waited_for_hold_bounded_memory() -> Result<()> {
    for schedule in [Schedule::Timed, Schedule::Lazy, Schedule::Random(3)] {
        upload_and_forget_about_it(schedule, 400, 1 << 20)?;
        upload_and_forget_about_it(schedule, 500, 100)?;
    }
    Ok(())
}

#[test]
#[ignore = "minutes long; cargo test -- --ignored b10"]
fn b10_a_million_uploads_hold_bounded_memory() -> Result<()> {
    for _ in 0..10 {
        upload_and_forget_about_it(Schedule::Timed, 100_000, 100)?;
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn ranges_of_a_pinned_array_wait_for_their_own_copies_alone() -> Result<()> {
    let ones = s1.upload(&vec![1_u16; N])?;
    let mut pinned = harness.device.pinned::<u16>(2 * N)?;
    let gate = harness.gate(&s1);
    let (left, mut right) = pinned.split_at_mut(N);
    s1.copy(&ones, left)?;
    // An array of the first stream would make the second wait for the gate.
    s2.copy(&s2.upload(&[1_u16, 1])?, right.slice_mut(1..3))?;
    assert_eq!(pinned.read_range(N..N + 4)?[..], [0, 1, 1, 0]);
    pinned.write_range(N..)?.fill(8);
    let mut half = Box::pin(pinned.write_range_async(N - 1..));
    let polled = half.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() || !harness.gates_hold());
    drop((polled, half));
    gate.open();
    pollster::block_on(pinned.write_range_async(N - 1..))?[0] = 4;
    assert_eq!(pinned.read_range(N - 2..N + 1)?[..], [1, 4, 8]);
    let mut two = s1.zeros::<u16>(2)?;
    s1.copy(pinned.slice(N - 2..).slice(1..3), &mut two)?;
    assert_eq!(s1.values(&two)?, [4, 8]);
    let wrong = out_of_range(5..2 * N + 1, 2 * N);
    assert_eq!(problem(pinned.read_range(5..2 * N + 1).map(drop)), wrong);
    assert_eq!(problem(pinned.try_slice(5..2 * N + 1)), wrong);
    let mut nothing = harness.device.pinned::<u16>(0)?;
    s1.copy(ones.slice(..0), nothing.view_mut())?;
    assert!(nothing.write_range(..)?.is_empty() && nothing.slice(..).is_empty());
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn a_wait_with_a_timeout_ends_with_the_value_or_keeps_it_pending() -> Result<()> {
    for len in [0, N, 3 * harness.large_len()] {
        let array = stream.upload(&vec![7_u8; len])?;
        let gate = harness.gate(&stream);
        let mut value = stream.download(&array)?;
        for timeout in [Duration::ZERO, Duration::from_micros(300)] {
            if harness.gates_hold() && len > 0 {
                assert!(value.wait_timeout(timeout)?.is_none());
            }
        }
        gate.open();
        assert!(value.wait_timeout(Duration::MAX)? == Some(vec![7; len]));
        let again = catch_unwind(AssertUnwindSafe(|| value.wait_timeout(Duration::MAX)));
        assert!(again.is_err(), "the value was taken");
    }
    Ok(())
}

#[test]
fn the_timeout_of_a_wait_is_for_all_chunks_of_a_download() -> Result<(), Error> {
    let stream = Device::simulated()?.stream()?;
    let array = stream.zeros::<u8>(16 << 20)?;
    let mut value = stream.download(&array)?;
    // Longer than a chunk takes, and shorter than all.
    assert!(value.wait_timeout(Duration::from_micros(200))?.is_none());
    assert_eq!(value.wait()?.len(), 16 << 20);
    Ok(())
}

#[run_by(once, |harness|)]
fn usage_errors_of_transfers_name_the_line_of_the_call() -> Result<()> {
    let (stream, device) = (harness.stream(), &harness.device);
    let (a, mut b) = (stream.upload(&[1_u32; 4])?, stream.zeros::<u32>(3)?);
    let (here, mut there) = (device.pinned::<u32>(4)?, device.pinned::<u32>(4)?);
    let other = Device::simulated()?.stream()?;
    let mut target = [0; 3];
    let first = line!();
    let errors = [
        usage_error(stream.copy(&a, &mut b)),
        usage_error(stream.copy(&here, &mut there)),
        usage_error(stream.copy_within(&mut b, 1.., 2)),
        usage_error(stream.upload_into(&[1; 5], &mut b)),
        usage_error(stream.copy_2d(a.view_2d(2, 2)?, b.view_2d_mut(1, 3)?)),
        usage_error(stream.prefetch(&a)),
        usage_error(device.scope(|scope| scope.download(&stream, &a, &mut target))),
        usage_error(device.record("g", |g| g.stream()?.download(&a).map(drop))),
        usage_error(other.fill(&mut b, 1)),
        usage_error(other.download(&a)),
        usage_error(other.fill_2d(b.view_2d_mut(1, 3)?, 1)),
        usage_error(other.download_2d(a.view_2d(2, 2)?)),
        usage_error(other.upload_2d(&[1; 3], 3, b.view_2d_mut(1, 3)?)),
        usage_error(
            other
                .download_into(&a, vec![])
                .map_err(|rejected| rejected.error),
        ),
        usage_error(
            other
                .upload_owned_into(vec![1; 3], &mut b)
                .map_err(|r| r.error),
        ),
        usage_error(other.record()?.elapsed_since(&stream.record()?)),
    ];
    let mut before = first;
    for error in &errors {
        let location = error
            .location()
            .unwrap_or_else(|| panic!("no line: {error}"));
        let line = location.line();
        assert!(before < line && line < line!(), "{error}");
        assert_says(
            error,
            &format!("(crates/runtime/tests/scenarios/host_memory.rs:{line}"),
        );
        before = line;
    }
    Ok(())
}
