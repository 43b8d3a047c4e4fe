//! C7: after any failure of a region, and after its result is dropped or leaked, the host's arrays
//! are unchanged, all memory is freed, and the device still works.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use millstream::{
    driver::DeviceOrdinal,
    memory::MemoryStats,
    sim::{Fault, Links, Schedule},
};
use millstream_region::{Pending, Result};
use millstream_testkit::share;

use crate::scenarios::{
    configurations::Sizes,
    harness::{CLOSED_WITHIN, Watch},
    instrumented::instrumented_devices,
    prelude::*,
    sweep::Subject,
};

const N: usize = 1500;

fn scenario(run: impl Fn(&Harness) -> Result<()>) {
    everywhere(|harness| run(harness).unwrap());
}

fn ramp() -> Array1<f32> {
    Array1::from_shape_fn(N, |index| index as f32)
}

/// Waits until all memory of the regions since `before` is freed, which the reactor may do.
#[track_caller]
fn assert_given_back(harness: &Harness, before: &MemoryStats) {
    let dropped = Instant::now();
    loop {
        let now = harness
            .device
            .memory_stats()
            .expect("the device is not lost");
        if (now.allocations, now.allocated_bytes) == (before.allocations, before.allocated_bytes) {
            return;
        }
        assert!(
            dropped.elapsed() < CLOSED_WITHIN,
            "memory that is not freed: {now:?}"
        );
        thread::yield_now();
    }
}

/// Changes both of its arguments.
#[region]
fn halve(x: &mut Array1<f32>, sum: &mut Vec<f32>) -> f32 {
    *x *= 0.5;
    *sum = x.sum().insert_axis(ndarray::Axis(0));
    x.max()
}

/// Asserts that the device works, and that all memory is freed.
#[track_caller]
fn assert_works(harness: &Harness, before: &MemoryStats) {
    let (mut x, mut sum) = (ramp(), vec![0.0]);
    let most = halve(&harness.device, &mut x, &mut sum)
        .expect("the device works")
        .wait();
    assert_eq!(most.expect("the device works"), (N - 1) as f32 / 2.0);
    assert_eq!((x, sum), (ramp() * 0.5, vec![562_125.0]));
    assert_given_back(harness, before);
}

/// Adds arrays of incompatible shapes, after other operations.
#[region]
fn mistaken(x: &mut Array1<f32>, y: &Array1<f32>) -> f32 {
    *x += 1.0;
    let sum = x.sum();
    *x = &*x + y;
    sum
}

#[run_by(scenario, |harness|)]
fn c07_a_usage_error_changes_nothing() -> Result<()> {
    let before = harness.device.memory_stats()?;
    let (mut x, y) = (ramp(), array![1.0, 2.0]);
    let line = line!() + 1;
    let Err(Error::Usage(usage_error)) = mistaken(&harness.device, &mut x, &y).map(drop) else {
        panic!("the shapes are incompatible, but the region succeeds");
    };
    assert!(
        matches!(usage_error.problem(), UsageErrorKind::Shapes { .. }),
        "{usage_error}"
    );
    assert!(
        usage_error.location().line() < line,
        "it is the line in the body"
    );
    assert_eq!(x, ramp());
    assert_given_back(harness, &before);
    assert_works(harness, &before);
    Ok(())
}

/// Runs out of memory, after other operations.
#[region]
fn gives_up(g: &Region, x: &mut Array1<f32>) -> Result<f32> {
    *x += 1.0;
    let sum = x.sum();
    g.device().stream()?.zeros::<u8>(1 << 50)?;
    Ok(sum)
}

/// Contains a region that fails.
#[region]
fn passes_on(g: &Region, x: &Array1<f32>) -> Result<f32> {
    let mut x = x.clone();
    Ok(gives_up(g, &mut x)? * 2.0)
}

#[run_by(scenario, |harness|)]
fn c07_an_error_of_the_body_changes_nothing() -> Result<()> {
    let before = harness.device.memory_stats()?;
    let mut x = ramp();
    for result in [
        gives_up(&harness.device, &mut x).map(drop),
        passes_on(&harness.device, &x).map(drop),
    ] {
        let full = matches!(
            result,
            Err(Error::Device(millstream::Error::OutOfMemory(_)))
        );
        assert!(full, "{result:?}");
    }
    assert_eq!(x, ramp());
    assert_given_back(harness, &before);
    assert_works(harness, &before);
    Ok(())
}

#[region]
fn panics(x: &mut Array1<f32>, y: &Array1<f32>) -> f32 {
    *x += y;
    // This enqueues much of the work before the panic.
    for _ in 0..300 {
        *x += 1.0;
    }
    panic!("in the middle");
}

#[run_by(scenario, |harness|)]
fn c07_a_panic_in_the_body_changes_nothing() -> Result<()> {
    let before = harness.device.memory_stats()?;
    let (mut x, y) = (ramp(), ramp());
    let caught = catch_unwind(AssertUnwindSafe(|| {
        panics(&harness.device, &mut x, &y).map(drop)
    }));
    assert_eq!(
        caught.err().and_then(|panic| panic.downcast_ref().copied()),
        Some("in the middle")
    );
    assert_eq!(x, ramp());
    assert_given_back(harness, &before);
    assert_works(harness, &before);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn c07_a_dropped_result_changes_nothing() -> Result<()> {
    let before = harness.device.memory_stats()?;
    let (mut x, mut sum) = (ramp(), vec![0.0]);
    drop(halve(&harness.device, &mut x, &mut sum)?);
    assert_eq!((&x, &sum), (&ramp(), &vec![0.0]));
    assert_given_back(harness, &before);
    let has_come = {
        let mut pending = pin!(halve(&harness.device, &mut x, &mut sum)?);
        let mut context = Context::from_waker(Waker::noop());
        match pending.as_mut().poll(&mut context) {
            Poll::Ready(result) => result.map(|_| true)?,
            Poll::Pending => false,
        }
    };
    if has_come {
        (x, sum) = (ramp(), vec![0.0]);
    }
    assert_eq!((&x, &sum), (&ramp(), &vec![0.0]));
    assert_given_back(harness, &before);
    assert_works(harness, &before);
    Ok(())
}

#[run_by(scenario, |harness|)]
fn c07_a_leaked_result_changes_nothing() -> Result<()> {
    harness.leaks();
    let (mut x, mut sum) = (ramp(), vec![0.0]);
    mem::forget(halve(&harness.device, &mut x, &mut sum)?);
    // The host may use its arrays again, although the device is still running.
    x[0] = 7.0;
    sum.push(8.0);
    let before = harness.device.memory_stats()?;
    assert_works(harness, &before);
    assert_eq!((x[0], x[1], &sum[..]), (7.0, 1.0, &[0.0, 8.0][..]));
    Ok(())
}

#[run_by(scenario, |harness|)]
fn c07_running_out_of_memory_changes_nothing() -> Result<()> {
    let before = harness.device.memory_stats()?;
    let (mut x, mut sum) = (ramp(), vec![0.0]);
    let mut refused = 0;
    // A little more memory each time, until it suffices.
    for room in (0_u64..).step_by(1000) {
        harness
            .device
            .set_memory_limit(Some(before.allocated_bytes + room));
        match halve(&harness.device, &mut x, &mut sum) {
            Ok(pending) => {
                pending.wait()?;
                break;
            }
            Err(Error::Device(millstream::Error::OutOfMemory(_))) => refused += 1,
            Err(other) => return Err(other),
        }
        assert_eq!((&x, &sum), (&ramp(), &vec![0.0]));
        assert_given_back(harness, &before);
    }
    harness.device.set_memory_limit(None);
    assert!(refused > 6, "one array alone has 6,000 bytes");
    assert_eq!((x, sum), (ramp() * 0.5, vec![562_125.0]));
    assert_works(harness, &before);
    Ok(())
}

#[region]
fn within(g: &Region, x: &mut Array1<f32>) {
    let mut host = array![1.0_f32, 2.0];
    double(g, &mut host);
    double(g, x);
}

#[region]
fn double(x: &mut Array1<f32>) {
    *x *= 2.0;
}

#[run_by(scenario, |harness|)]
fn c07_a_nested_region_cannot_change_a_host_array() -> Result<()> {
    let mut x = ramp();
    let error = within(&harness.device, &mut x).map(drop).unwrap_err();
    assert!(
        error.to_string().contains("of an array of that region"),
        "{error}"
    );
    assert_eq!(x, ramp());
    Ok(())
}

#[test]
fn c07_a_lost_device_changes_nothing() {
    for schedule in [
        Schedule::Timed,
        Schedule::Eager,
        Schedule::Lazy,
        Schedule::Random(1),
        Schedule::Random(2),
    ] {
        let _watch = Watch::over(format!("{schedule:?}"));
        let (gpu, _, devices) = instrumented_devices(schedule, 1, Links::default());
        let (mut x, mut sum) = (ramp(), vec![0.0]);
        let pending = halve(&devices[0], &mut x, &mut sum).expect("the device is not lost yet");
        gpu.inject(Fault::nth(1).losing(DeviceOrdinal::from_raw(0), ResultCode::ILLEGAL_ADDRESS));
        let is_lost =
            |error: &Error| matches!(error, Error::Device(millstream::Error::DeviceLost { .. }));
        let next = double(&devices[0], &mut ramp()).map(drop).unwrap_err();
        assert!(is_lost(&next), "{next}");
        match pending.wait() {
            Ok(_) => assert_eq!(
                (x, sum),
                (ramp() * 0.5, vec![562_125.0]),
                "it was all there before"
            ),
            Err(error) => {
                assert!(is_lost(&error), "{error}");
                assert_eq!((x, sum), (ramp(), vec![0.0]));
            }
        }
        drop(devices);
        assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
    }
}

/// Runs a region, and returns its error after asserting that the host's arrays are unchanged.
fn program(devices: &[Device]) -> millstream::Result<()> {
    let (mut x, mut sum) = (ramp(), vec![0.0]);
    let result = halve(&devices[0], &mut x, &mut sum).and_then(Pending::wait);
    match result {
        Ok(most) => {
            assert_eq!(most, (N - 1) as f32 / 2.0);
            assert_eq!((x, sum), (ramp() * 0.5, vec![562_125.0]));
            Ok(())
        }
        Err(Error::Device(error)) => {
            assert_eq!((x, sum), (ramp(), vec![0.0]));
            Err(error)
        }
        Err(other) => panic!("the region is valid, but fails with: {other}"),
    }
}

#[test]
fn c07_every_driver_call_of_a_region_may_fail() {
    for schedule in share::cases([Schedule::Timed, Schedule::Lazy], 2) {
        let subject = Subject {
            name: String::from("a region"),
            schedule,
            devices: 1,
            links: Links::default(),
            sizes: Sizes::Own,
            run: &|_, devices| program(devices),
        };
        assert!(subject.sweep() > 12);
    }
}
