//! Kernels of long sessions, whose oldest nodes are evaluated while later ones are recorded.

use std::thread;

use millstream_region::Region;

use crate::fusion::prelude::*;

const N: usize = 64;

fn ramp() -> Array1<f32> {
    Array1::from_shape_fn(N, |index| index as f32 / 64.0)
}

/// Plans nodes that are dropped at once, with a new constant each.
fn plan_and_drop(x: &Array<f32, Ix1>, count: usize) {
    for number in 0..count {
        let _unused = x + number as f32;
    }
}

/// Asserts that a pattern takes this many kernels after any number of other nodes.
#[track_caller]
fn assert_kernels(kernels: usize, pattern: impl Fn(&Region, &Array<f32, Ix1>) -> Array<f32, Ix1>) {
    let x = ramp();
    Counted::everywhere(|counted| {
        let mut first = None;
        // The oldest of 512 nodes are evaluated, at every place in the pattern.
        for before in (0..440).step_by(55).chain((440..540).step_by(3)) {
            let (found, work) = counted.region(|g| {
                let x = g.array(&x);
                plan_and_drop(&x, before / 2);
                pattern(g, &x)
            });
            assert_eq!(work.kernels, kernels, "after {before} nodes");
            assert_eq!(&found, first.get_or_insert_with(|| found.clone()));
        }
    });
}

#[test]
fn a_softmax_takes_as_many_kernels_after_any_number_of_nodes() {
    assert_kernels(1, |_, x| {
        let powers = (x - &x.max_keepdims(&[Axis(0)])).exp();
        &powers / &powers.sum_keepdims(&[Axis(0)])
    });
}

#[test]
fn a_long_expression_is_one_kernel_after_any_number_of_nodes() {
    assert_kernels(1, |_, x| {
        let mut y = x.clone();
        for number in 0..60 {
            y = &(&y * 0.5) + &(x - number as f32 * 0.25);
        }
        y
    });
}

#[test]
fn a_function_of_a_sum_is_fused_with_it_after_any_number_of_nodes() {
    assert_kernels(1, |_, x| (x * x).sum_keepdims(&[Axis(0)]).sqrt() * 2.0);
}

#[test]
fn constants_in_a_long_session_are_not_stored() {
    assert_kernels(1, |g, x| {
        let ones = g.ones::<f32, _>(N);
        plan_and_drop(x, 300);
        ones + x
    });
}

#[run_by(Counted::everywhere, |counted|)]
fn a_long_loop_is_one_kernel_for_many_steps_and_runs_while_it_is_recorded() {
    const STEPS: usize = 4000;
    let x = ramp();
    let expected = x.mapv(|x| (0..STEPS).fold(x, |y, _| y * 0.5 + x));
    let (found, work) = counted.region(|g| {
        let x = g.array(&x);
        let mut y = x.clone();
        for _ in 0..STEPS {
            y = &(&y * 0.5) + &x;
        }
        // All but the last nodes are enqueued already.
        let enqueued = counted.calls.counts()["launch_kernel"];
        assert!(enqueued >= STEPS * 2 / 256 - 3, "{enqueued}");
        y
    });
    assert_eq!(found, expected);
    // A multiplication and an addition in each step.
    assert_eq!(work.kernels, (STEPS * 2).div_ceil(256), "{work:?}");
    assert_eq!(work.bytes_written, (work.kernels * N * 4) as u64);
}

#[run_by(Counted::everywhere, |counted|)]
fn arrays_that_are_kept_over_many_nodes_are_computed_once() {
    let x = ramp();
    let expected = x.mapv(|x| x * 3.0 + 1.0);
    let (found, work) = counted.region(|g| {
        let x = g.array(&x);
        let kept: Vec<_> = (0..5).map(|number| &(&x * 3.0) + number as f32).collect();
        plan_and_drop(&x, 400);
        (Keep(kept[0].clone()), kept[1].clone())
    });
    assert_eq!(found.1, expected);
    // Those that are not requested are not computed.
    assert_eq!((work.kernels, work.bytes_written), (1, 2 * 4 * N as u64));
}

#[test]
fn a_kernel_of_the_greatest_size_is_generated_on_a_small_stack() {
    let small = thread::Builder::new().stack_size(1 << 20);
    let run = || {
        assert_kernels(1, |_, x| {
            let mut y = x.clone();
            for number in 0..127 {
                y = (&y + number as f32).slice(ndarray::s![..;-1]);
            }
            y
        });
    };
    small.spawn(run).unwrap().join().unwrap();
}
