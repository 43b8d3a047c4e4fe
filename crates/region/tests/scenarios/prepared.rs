//! G16: prepared regions use the memory of earlier results again, once nothing refers to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::{Buffer, driver::DriverError};
use millstream_region::{Prepared, Result};

use crate::scenarios::{harness::once_counted, prelude::*};

const N: usize = 1500;

type Floats = Array<f32, Ix1>;

fn host(from: usize) -> Array1<f32> {
    Array1::from_shape_fn(N, |at| ((at + from) % 7) as f32 - 3.0)
}

fn on_device(device: &Device, from: usize) -> Floats {
    Array::from_host(device, &host(from)).expect("an array")
}

/// Prepares a scan of twice the argument, in two kernels with a temporary array between them.
fn prepared(device: &Device) -> Prepared<Floats, Floats> {
    let scan = device.prepare(&on_device(device, 0), |_, x| {
        (x * 2.0).cumsum(Axis(0)).cumsum(Axis(0))
    });
    scan.expect("the region is a graph")
}

/// Returns what the prepared region computes.
fn expected(x: &Array1<f32>) -> Array1<f32> {
    let mut y = x * 2.0;
    for _ in 0..2 {
        y.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
    }
    y
}

fn counted_scenario(run: impl Fn(&Harness, &Calls) -> Result<()>) {
    everywhere_counted(|harness, calls| {
        // Each array that is allocated or freed is then a call of the driver.
        harness.device.set_cache_limit(0);
        run(harness, calls).unwrap();
    });
}

/// Asserts that no memory of the device was allocated or freed.
#[track_caller]
fn assert_same_memory(calls: &Calls) {
    for call in ["mem_alloc_async", "mem_free_async"] {
        assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
    }
}

#[run_by(counted_scenario, |harness, calls|)]
fn g16_a_prepared_region_allocates_nothing_once_its_results_are_dropped() -> Result<()> {
    let scan = prepared(&harness.device);
    let xs = [0, 1].map(|from| on_device(&harness.device, from));
    // One result is kept while the next is computed.
    let mut y = scan.call(&xs[0])?;
    y = scan.call(&y)?;
    drop(mem::replace(&mut y, scan.call(&xs[1])?));
    calls.forget();
    for _ in 0..6 {
        let next = scan.call(&xs[1])?;
        y = next;
    }
    assert_same_memory(calls);
    assert_eq!(calls.count("graph_launch"), 6);
    assert_eq!(y.to_host()?, expected(&host(1)));
    // Each result is the next argument.
    y = scan.call(&on_device(&harness.device, 3))?;
    calls.forget();
    for _ in 1..4 {
        y = scan.call(&y)?;
    }
    assert_same_memory(calls);
    let mut iterated = host(3);
    for _ in 0..4 {
        let again = harness.device.region(|g| {
            let x = g.array(&iterated) * 2.0;
            x.cumsum(Axis(0)).cumsum(Axis(0))
        })?;
        iterated = again.wait()?;
    }
    assert_eq!(y.to_host()?, iterated);
    Ok(())
}

#[run_by(counted_scenario, |harness, calls|)]
fn g16_memory_of_a_dropped_result_is_written_behind_its_last_reader() -> Result<()> {
    let [stream, other] = harness.streams();
    let scan = prepared(&harness.device);
    let xs = [0, 1].map(|from| on_device(&harness.device, from));
    let mut copy = stream.zeros::<f32>(N)?;
    drop(scan.call(&xs[1])?);
    let first = scan.call(&xs[0])?;
    let gate = harness.gate(&stream);
    calls.forget();
    stream.copy(first.resident()?.view(), &mut copy)?;
    drop(first);
    let second = scan.call(&xs[1])?;
    assert_same_memory(calls);
    let second = second.into_buffer()?;
    let second = other.download(&second)?;
    harness.assert_pending(&second);
    gate.open();
    assert_eq!(second.wait()?, expected(&host(1)).to_vec());
    let copy = other.download(&copy)?.wait()?;
    assert_eq!(copy, expected(&host(0)).to_vec());
    Ok(())
}

#[run_by(counted_scenario, |harness, _|)]
fn g16_memory_of_a_result_that_is_still_used_is_not_written() -> Result<()> {
    let device = &harness.device;
    let stream = harness.stream();
    let scan = prepared(device);
    let xs: Vec<_> = (0..7).map(|from| on_device(device, from)).collect();
    // Of more than two calls at a time, the region forgets the memory of the first.
    let call_others = || -> Result<()> {
        for x in &xs[3..] {
            drop(scan.call(x)?);
            drop((scan.call(x)?, scan.call(x)?));
        }
        Ok(())
    };
    // After its array is dropped, a graph reads the memory.
    let one = scan.call(&xs[0])?;
    let mut target: Buffer<f32> = stream.zeros(N)?;
    let memory = one.resident()?;
    let graph = device.record("copy", |r| r.stream()?.copy(memory.view(), &mut target))?;
    drop((memory, one));
    call_others()?;
    graph.replay(&stream)?;
    let found = stream.download(&target)?.wait()?;
    assert_eq!(found, expected(&host(0)).to_vec());
    // A view reads it.
    let two = scan.call(&xs[1])?;
    let reversed = two.slice(s![..;-1]);
    drop(two);
    call_others()?;
    let backwards = expected(&host(1)).slice_move(s![..;-1]);
    assert_eq!(reversed.to_host()?, backwards);
    // A handle to the memory is left.
    let three = scan.call(&xs[2])?;
    let memory = three.resident()?;
    drop(three);
    call_others()?;
    let found = stream.download(memory.view())?.wait()?;
    assert_eq!(found, expected(&host(2)).to_vec());
    Ok(())
}

#[run_by(counted_scenario, |harness, calls|)]
fn g16_a_result_gives_its_memory_away_without_a_copy() -> Result<()> {
    let device = &harness.device;
    let stream = harness.stream();
    let scan = prepared(device);
    let x = on_device(device, 2);
    drop(scan.call(&x)?);
    let y = scan.call(&x)?;
    calls.forget();
    let buffer = y.into_buffer()?;
    let mut updated = scan.call(&x)?;
    updated.slice_mut(s![..3]).fill(9.0);
    let updated = updated.into_buffer()?;
    let copies = calls.counts().into_iter();
    let copies = copies.filter(|(call, _)| call.contains("copy"));
    assert_eq!(copies.count(), 0, "{:?}", calls.counts());
    let again = scan.call(&x)?;
    let mut changed = expected(&host(2)).to_vec();
    assert_eq!(stream.download(&buffer)?.wait()?, changed);
    assert_eq!(again.to_host()?.to_vec(), changed);
    changed[..3].fill(9.0);
    assert_eq!(stream.download(&updated)?.wait()?, changed);
    Ok(())
}

#[run_by(counted_scenario, |harness, _|)]
fn g16_the_memory_of_a_prepared_region_is_given_back_when_it_is_short() -> Result<()> {
    let device = &harness.device;
    let scan = prepared(device);
    let x = on_device(device, 2);
    let before = device.memory_stats()?.allocated_bytes;
    let y = scan.call(&x)?;
    drop(scan.call(&x)?);
    let used = device.memory_stats()?.allocated_bytes;
    let bytes = (N * size_of::<f32>()) as u64;
    // Two results, and the memory of the temporaries.
    assert!(used - before >= 3 * bytes, "{before} {used}");
    device.set_memory_limit(Some(used));
    let stream = harness.stream();
    let other = stream.zeros::<f32>(2 * N)?;
    assert!(device.memory_stats()?.allocated_bytes <= used);
    device.set_memory_limit(None);
    assert_eq!(scan.call(&x)?.to_host()?, expected(&host(2)));
    assert_eq!(y.to_host()?, expected(&host(2)));
    drop((y, scan, other));
    let after = device.memory_stats()?.allocated_bytes;
    assert!(after <= before, "{before} {after}");
    Ok(())
}

#[run_by(counted_scenario, |harness, _|)]
fn g16_a_result_named_twice_and_one_in_the_memory_of_an_argument_stay_as_they_are() -> Result<()> {
    let device = &harness.device;
    let pair = device.prepare(&on_device(device, 0), |_, x| {
        let y = (x * 2.0).cumsum(Axis(0)).cumsum(Axis(0));
        (y.clone(), y.clone(), &y - x)
    })?;
    let mut kept = Vec::new();
    for from in 0..4 {
        let x = on_device(device, from);
        let (one, two, difference) = pair.call(&x)?;
        drop(one);
        kept.push((from, two, difference));
        drop(pair.call(&x)?);
    }
    for (from, two, difference) in kept {
        let y = expected(&host(from));
        assert_eq!(two.to_host()?, y);
        assert_eq!(difference.to_host()?, y - host(from));
    }
    let viewed = device.prepare(&on_device(device, 0), |_, x| {
        let y = (x * 2.0).cumsum(Axis(0)).cumsum(Axis(0));
        (y, x.into_shape_with_order((N, 1)))
    })?;
    let (first, second) = (on_device(device, 5), on_device(device, 6));
    let (_, same) = viewed.call(&first)?;
    let (y, _) = viewed.call(&second)?;
    drop(viewed.call(&second)?);
    assert_eq!(same.flatten().to_host()?, host(5));
    assert_eq!(y.to_host()?, expected(&host(6)));
    Ok(())
}

#[run_by(once_counted, |harness, calls|)]
fn g16_a_failing_call_of_the_driver_leaves_earlier_results_right() {
    let device = &harness.device;
    let (x, other) = (on_device(device, 1), on_device(device, 2));
    for (call, is_final) in [
        ("graph_exec_set_node", true),
        ("graph_launch", true),
        ("mem_alloc_async", false),
    ] {
        let scan = prepared(device);
        let first = scan.call(&x).unwrap();
        let failed = AtomicUsize::new(0);
        // Counted from here on, so that the memory is that of a second result.
        calls.fail(move |made| {
            let fails = made == call && failed.fetch_add(1, Ordering::Relaxed) == 0;
            fails.then(|| DriverError::new(call, ResultCode::INVALID_VALUE))
        });
        device.set_cache_limit(0);
        let second = scan.call(&other);
        assert!(second.is_err(), "{call}");
        calls.fail_no_more();
        assert_eq!(first.to_host().unwrap(), expected(&host(1)), "{call}");
        match scan.call(&other) {
            Ok(third) => {
                assert!(!is_final, "{call}");
                assert_eq!(third.to_host().unwrap(), expected(&host(2)));
            }
            Err(Error::Usage(error)) => {
                assert!(is_final, "{call}: {error}");
                assert!(matches!(error.problem(), UsageErrorKind::Argument { .. }));
            }
            Err(error) => panic!("{call}: {error}"),
        }
    }
}
