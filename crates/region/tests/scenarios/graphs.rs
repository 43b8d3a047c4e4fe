//! G16: regions whose plan was met before are replayed as graphs.

#![allow(
    clippy::type_complexity,
    reason = "a region function returns two arrays"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use millstream::{
    Device,
    driver::{DriverError, ResultCode},
    sim::{Gpu, SimConfig},
};
use millstream_region::{Array, Error, RegionExt, Result, UsageErrorKind, region};
use ndarray::{Array1, Array2, Axis, Ix1, Ix2};

use crate::scenarios::{
    calls::Calls,
    harness::{everywhere_counted, once_counted},
};

const CALLS: usize = 3;

/// Takes several kernels: a product, a reduction of everything, a scan.
#[region]
fn step(
    x: &Array<f32, Ix2>,
    w: &Array<f32, Ix2>,
    scale: f32,
) -> (Array<f32, Ix2>, Array<f32, Ix1>) {
    let y = (x * scale).dot(w);
    let centred = &y - &y.sum();
    let sums = centred.sum_axis(Axis(0)).cumsum(Axis(0));
    (centred, sums)
}

fn host(rows: usize, columns: usize, from: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((row * 7 + column * 3 + from) % 11) as f32 * 0.25 - 1.0
    })
}

fn on_device(device: &Device, rows: usize, columns: usize, from: usize) -> Array<f32, Ix2> {
    Array::from_host(device, &host(rows, columns, from)).expect("an array")
}

/// Runs `step` and downloads its results.
fn results(
    device: &Device,
    x: &Array<f32, Ix2>,
    w: &Array<f32, Ix2>,
    scale: f32,
) -> Result<(Array2<f32>, Array1<f32>)> {
    let (y, sums) = step(device, x, w, scale)?.wait()?;
    Ok((y.to_host()?, sums.to_host()?))
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_a_region_called_in_a_loop_from_two_threads_with_two_shapes_is_replayed() {
    let device = &harness.device;
    let shapes = [(5, 8), (9, 4)];
    let run = |turn: usize| -> Result<()> {
        let (rows, inner) = shapes[turn % 2];
        let w = on_device(device, inner, 6, turn);
        let xs = [0, 1].map(|from| on_device(device, rows, inner, from));
        let first = [
            results(device, &xs[0], &w, 0.5)?,
            results(device, &xs[1], &w, 2.0)?,
        ];
        for call in 0..8 {
            let scale = [0.5, 2.0][call % 2];
            let again = results(device, &xs[call % 2], &w, scale)?;
            assert_eq!(again, first[call % 2], "call {call} of shape {turn}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| (0..2).try_for_each(run));
        (1..3).try_for_each(run).unwrap();
        other.join().unwrap().unwrap();
    });
    assert!(calls.count("graph_launch") >= 20, "{:?}", calls.counts());
    let made = calls.count("graph_instantiate");
    assert!((2..=8).contains(&made), "{made} graphs");
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_results_that_stay_on_the_device_are_not_overwritten_by_later_calls() {
    let device = &harness.device;
    let w = on_device(device, 8, 6, 0);
    let mut kept = Vec::new();
    for call in 0..CALLS + 5 {
        let x = on_device(device, 5, 8, call);
        kept.push((
            x.clone(),
            step(device, &x, &w, 1.5).unwrap().wait().unwrap(),
        ));
    }
    assert!(calls.count("graph_launch") >= 4, "{:?}", calls.counts());
    device.set_cache_limit(0);
    for (x, (y, sums)) in kept {
        // Another scalar type of plan: the same operations, one at a time.
        let one = Array::from_host(device, &(x.to_host().unwrap() * 1.5)).unwrap();
        let y_alone = Array::from_host(device, &one.dot(&w).to_host().unwrap()).unwrap();
        let total = y_alone.sum().to_host().unwrap();
        let expected = y_alone.to_host().unwrap() - total[()];
        assert_eq!(y.to_host().unwrap(), expected);
        let centred = Array::from_host(device, &expected).unwrap();
        let expected = centred.sum_axis(Axis(0)).to_host().unwrap();
        let expected = Array::from_host(device, &expected).unwrap();
        assert_eq!(
            sums.to_host().unwrap(),
            expected.cumsum(Axis(0)).to_host().unwrap()
        );
    }
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_graphs_are_evicted_when_memory_is_short() {
    let device = &harness.device;
    let (x, w) = (on_device(device, 5, 8, 1), on_device(device, 8, 6, 0));
    let first = results(device, &x, &w, 0.5).unwrap();
    let again = |times: usize| {
        for _ in 0..times {
            assert_eq!(results(device, &x, &w, 0.5).unwrap(), first);
        }
    };
    again(CALLS);
    let made = calls.count("graph_instantiate");
    assert_eq!(made, 1, "{:?}", calls.counts());
    let used = device.memory_stats().unwrap().allocated_bytes;
    device.set_memory_limit(Some(used + 4096));
    let stream = device.stream().unwrap();
    assert!(stream.zeros::<u8>(1 << 20).is_err(), "beyond the limit");
    device.set_memory_limit(None);
    again(CALLS);
    assert_eq!(calls.count("graph_instantiate"), 2, "it is made again");
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_an_index_out_of_bounds_is_reported_by_a_replay() {
    /// Takes several kernels, of which the first checks indices.
    #[region]
    fn gathered(x: &Array2<f32>, w: &Array2<f32>, index: &Array1<i64>) -> Array2<f32> {
        let picked = x.select(Axis(0), index);
        let y = picked.dot(w);
        &y - &y.sum() + &y.sum_axis(Axis(0)).cumsum(Axis(0))
    }
    let device = &harness.device;
    let (x, w) = (host(5, 8, 1), host(8, 6, 0));
    let valid = Array1::from(vec![4_i64, 0, 2]);
    let first = gathered(device, &x, &w, &valid).unwrap().wait().unwrap();
    for call in 0..CALLS + 3 {
        let again = gathered(device, &x, &w, &valid).unwrap().wait().unwrap();
        assert_eq!(again, first);
        let wrong = Array1::from(vec![4_i64, call as i64 + 5, 2]);
        let failed = gathered(device, &x, &w, &wrong).unwrap().wait();
        let Err(Error::Usage(error)) = failed else {
            panic!("{failed:?}");
        };
        assert!(matches!(
            error.problem(),
            UsageErrorKind::Index { index: Some(index), axis: 0, length: 5 }
                if *index == call as i64 + 5
        ));
    }
    assert!(calls.count("graph_launch") >= 4, "{:?}", calls.counts());
}

#[run_by(once_counted, |harness, calls: &Calls|)]
fn g16_every_failing_driver_call_of_a_graph_leaves_the_results_right() {
    let device = &harness.device;
    let w = on_device(device, 8, 6, 0);
    let failures = [
        ("graph_create", ResultCode::INVALID_VALUE),
        ("graph_add_node", ResultCode::INVALID_VALUE),
        ("graph_instantiate", ResultCode::OUT_OF_MEMORY),
        ("graph_exec_set_node", ResultCode::INVALID_VALUE),
        ("graph_launch", ResultCode::INVALID_VALUE),
    ];
    for (rows, (call, code)) in (3..).zip(failures) {
        // The number of rows makes another plan for each call.
        let x = on_device(device, rows, 8, 1);
        let first = results(device, &x, &w, 0.5).unwrap();
        let failed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failed);
        calls.fail(move |made| {
            let fails = made == call && count.fetch_add(1, Ordering::Relaxed) == 0;
            fails.then(|| DriverError::new(call, code))
        });
        for _ in 0..CALLS + 2 {
            assert_eq!(results(device, &x, &w, 0.5).unwrap(), first, "{call}");
        }
        calls.fail_no_more();
        assert!(failed.load(Ordering::Relaxed) > 0, "{call} was never made");
    }
}

#[test]
fn g16_a_replay_takes_no_more_time_than_its_kernels() {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).expect("the device opens");
    let driver = gpu.driver();
    let x = Array::from_host(&device, &host(1, 64, 0)).expect("an array");
    for kernels in 3..12 {
        let time = |_| {
            let before = driver.now_ns();
            let scanned = device.region(|g| {
                let scans = (0..kernels).fold(g.array(&x), |x, _| x.cumsum(Axis(1)) * 0.5);
                scans.sum()
            });
            scanned.unwrap().wait().unwrap();
            driver.now_ns() - before
        };
        let times: Vec<u64> = (0..CALLS + 4).map(time).collect();
        let (eager, replayed) = (times[1], times[CALLS + 3]);
        assert!(replayed < eager, "{kernels} kernels: {times:?}");
    }
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_a_prepared_region_runs_its_kernels_with_other_arguments() {
    let device = &harness.device;
    let w = on_device(device, 8, 6, 0);
    let mut runs = 0;
    let x = on_device(device, 5, 8, 0);
    let prepared = device
        .prepare(&x, |_, x| {
            runs += 1;
            let y = (x * 0.5).dot(&w);
            let centred = &y - &y.sum();
            let sums = centred.sum_axis(Axis(0)).cumsum(Axis(0));
            (centred, sums)
        })
        .unwrap();
    calls.forget();
    let mut kept = Vec::new();
    for from in 0..6 {
        let x = on_device(device, 5, 8, from);
        kept.push((x.clone(), prepared.call(&x).unwrap()));
    }
    assert_eq!(calls.count("graph_launch"), 6, "{:?}", calls.counts());
    assert_eq!(calls.count("launch_kernel"), 0, "{:?}", calls.counts());
    device.set_region_graphs(false);
    for (x, (y, sums)) in kept {
        let expected = results(device, &x, &w, 0.5).unwrap();
        assert_eq!((y.to_host().unwrap(), sums.to_host().unwrap()), expected);
    }
    let other = on_device(device, 4, 8, 0);
    let Err(Error::Usage(error)) = prepared.call(&other) else {
        panic!("an argument of another shape is accepted");
    };
    assert!(matches!(error.problem(), UsageErrorKind::Shapes { .. }));
    drop(prepared);
    assert_eq!(runs, 1);
}

#[test]
fn g16_a_region_that_cannot_be_prepared_says_why() {
    let device = Device::simulated().unwrap();
    let x = on_device(&device, 5, 8, 0);
    let updated = device.prepare(&x, |_, x| {
        let mut y = x.clone();
        y.slice_mut(ndarray::s![0, ..]).fill(1.0);
        y
    });
    let itself = device.prepare(&x, |_, x| x.clone());
    for refused in [updated, itself] {
        let Err(Error::Usage(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.operation(), "prepare");
        assert!(matches!(error.problem(), UsageErrorKind::Argument { .. }));
    }
}

/// Takes three kernels, two of which scan a row that several blocks share.
#[region]
fn scanned_twice(x: &Array<f32, Ix1>) -> (Array<f32, Ix1>, f32) {
    let once = x.cumsum(Axis(0));
    let twice = once.cumsum(Axis(0));
    let least = (&twice - &once).min();
    (twice, least)
}

#[run_by(everywhere_counted, |harness, calls|)]
fn g16_a_replayed_scan_does_not_take_the_totals_of_an_earlier_call() {
    for call in 0..CALLS + 3 {
        let element = |at: usize| ((at + call) % 3) as f32 - 1.0;
        let host: Array1<f32> = (0..9000).map(element).collect();
        let x = Array::from_host(&harness.device, &host).unwrap();
        let (twice, least) = scanned_twice(&harness.device, &x).unwrap().wait().unwrap();
        let mut once = host;
        once.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
        let mut expected = once.clone();
        expected.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
        let differences = (&expected - &once).into_iter();
        assert_eq!(twice.to_host().unwrap(), expected, "call {call}");
        assert_eq!(
            least,
            differences.fold(f32::INFINITY, f32::min),
            "call {call}"
        );
    }
    assert!(calls.count("graph_launch") >= 3, "{:?}", calls.counts());
}
