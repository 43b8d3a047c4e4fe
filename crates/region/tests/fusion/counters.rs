//! Counters of blocks, which sessions take over from earlier ones instead of filling new ones.

use std::sync::atomic::{AtomicBool, Ordering};

use millstream::driver::{DriverError, ResultCode};
use millstream_region::Error;

use crate::fusion::prelude::*;

/// So many elements that several blocks share the result of a reduction.
const N: usize = 100_000;

fn ramp() -> Array1<i32> {
    Array1::from_shape_fn(N, |index| (index % 201) as i32)
}

/// Returns the sum of an array, which a region computes, and the numbers of fills and allocations.
fn sum(counted: &Counted, x: &Array<i32, Ix1>) -> Result<(i32, usize, usize), Error> {
    counted.calls.forget();
    let pending = counted.device.region(|g| g.array(x).sum())?;
    let sum = pending.wait()?[()];
    let counts = counted.calls.counts();
    let of = |call| counts.get(call).copied().unwrap_or(0);
    Ok((sum, of("memset_async"), of("mem_alloc_async")))
}

#[run_by(Counted::everywhere, |counted|)]
fn counters_are_filled_once_for_sessions_that_follow_each_other() {
    let host = ramp();
    let x = counted.array(&host);
    let of_call: Vec<_> = (0..4).map(|_| sum(counted, &x).unwrap()).collect();
    let (first, later) = of_call.split_first().unwrap();
    assert_eq!((first.0, first.1), (host.sum(), 1));
    for call in later {
        assert_eq!(*call, (host.sum(), 0, 0));
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn sessions_at_the_same_time_have_counters_of_their_own() {
    let (host, other) = (ramp(), ramp().mapv(|x| x * 3));
    let x = counted.array(&host);
    let y = counted.array(&other);
    for _ in 0..3 {
        let begin = |x: &Array<i32, Ix1>| counted.device.region(|g| g.array(x).sum()).unwrap();
        let pending = [&x, &y, &x, &y].map(begin);
        let sums = pending.map(|pending| pending.wait().unwrap()[()]);
        let (of_x, of_y) = (host.sum(), other.sum());
        assert_eq!(sums, [of_x, of_y, of_x, of_y]);
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn replays_and_prepared_regions_take_counters_over() {
    let host = ramp();
    let x = counted.array(&host);
    let totals = |x: &Array<i32, Ix1>| {
        let sum = x.sum();
        let least = (x + &sum).min();
        let most = (x - &least).max();
        (sum, least, most)
    };
    let sum = host.sum();
    let (least, greatest) = (host.iter().min().unwrap(), host.iter().max().unwrap());
    let expected = (sum, least + sum, greatest - least - sum);
    let mut replays = 0;
    for call in 0..6 {
        counted.calls.forget();
        let pending = counted.device.region(|g| totals(&g.array(&x))).unwrap();
        let found = pending.wait().unwrap();
        assert_eq!((found.0[()], found.1[()], found.2[()]), expected);
        let counts = counted.calls.counts();
        replays += counts.get("graph_launch").copied().unwrap_or(0);
        if call > 3 {
            assert_eq!(counts.get("memset_async"), None, "call {call}");
        }
    }
    assert!(replays > 2, "{replays}");
}

#[run_by(Counted::everywhere, |counted|)]
fn counters_of_a_launch_that_failed_are_filled_again() {
    let host = ramp();
    let x = counted.array(&host);
    let is_first = AtomicBool::new(true);
    sum(counted, &x).unwrap();
    counted.calls.fail(move |call| {
        let fails = call == "launch_kernel" && is_first.swap(false, Ordering::Relaxed);
        let error = DriverError::new("cuLaunchKernel", ResultCode::LAUNCH_OUT_OF_RESOURCES);
        fails.then_some(error)
    });
    assert!(sum(counted, &x).is_err());
    let (found, fills, _) = sum(counted, &x).unwrap();
    assert_eq!((found, fills), (host.sum(), 1));
    let (found, fills, _) = sum(counted, &x).unwrap();
    assert_eq!((found, fills), (host.sum(), 0));
}
