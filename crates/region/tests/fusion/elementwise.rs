//! Chains of element-wise operations with shared operands.

use crate::fusion::prelude::*;

const N: usize = 1000;
const BYTES: u64 = 4 * N as u64;

fn ramp() -> Array1<f32> {
    Array1::from_shape_fn(N, |index| (index % 97) as f32 / 128.0)
}

/// Asserts that a function of one array takes this many kernels, which write one array each, and
/// that its result is that of the host, to the bit.
#[track_caller]
fn assert_chain(
    kernels: usize,
    on_device: impl Fn(&Array<f32, Ix1>) -> Array<f32, Ix1>,
    on_host: impl Fn(f32) -> f32,
) {
    assert_chain_of((kernels, kernels as u64), on_device, on_host);
}

/// Asserts the same of kernels that write this many arrays altogether.
#[track_caller]
fn assert_chain_of(
    (kernels, arrays): (usize, u64),
    on_device: impl Fn(&Array<f32, Ix1>) -> Array<f32, Ix1>,
    on_host: impl Fn(f32) -> f32,
) {
    let x = ramp();
    let expected = x.mapv(on_host);
    Counted::everywhere(|counted| {
        let (found, work) = counted.region(|g| on_device(&g.array(&x)));
        assert_eq!(found, expected);
        assert_eq!(work.kernels, kernels, "{work:?}");
        assert_eq!(work.bytes_written, arrays * BYTES, "{work:?}");
    });
}

#[test]
fn thirty_doublings_are_one_kernel() {
    let on_device = |x: &Array<f32, Ix1>| (0..30).fold(x.clone(), |y, _| &y + &y);
    assert_chain(1, on_device, |x| (0..30).fold(x, |y, _| y + y));
}

#[test]
fn twenty_fibonacci_steps_are_one_kernel() {
    let on_device = |x: &Array<f32, Ix1>| {
        let steps = (0..20).fold((x.clone(), x.clone()), |(a, b), _| (b.clone(), &a + &b));
        steps.1
    };
    let on_host = |x: f32| (0..20).fold((x, x), |(a, b), _| (b, a + b)).1;
    assert_chain(1, on_device, on_host);
}

fn logistic(x: &Array<f32, Ix1>, steps: usize) -> Array<f32, Ix1> {
    (0..steps).fold(x.clone(), |x, _| (&x * 3.5) * (1.0 - &x))
}

fn logistic_on_host(x: f32, steps: usize) -> f32 {
    (0..steps).fold(x, |x, _| (x * 3.5) * (1.0 - x))
}

#[test]
fn a_logistic_map_of_fifty_steps_is_one_kernel() {
    assert_chain(1, |x| logistic(x, 50), |x| logistic_on_host(x, 50));
}

/// Returns the number of steps before a point leaves the circle, of at most `steps`, on the device.
fn mandelbrot(re: &Array<f32, Ix1>, steps: usize) -> Array<f32, Ix1> {
    let im = re * 0.5;
    let (mut x, mut y) = (re.clone(), im.clone());
    let mut count = re * 0.0;
    for _ in 0..steps {
        let (xx, yy) = (&x * &x, &y * &y);
        count = &count + &(&xx + &yy).less(4.0).where_cond(1.0_f32, 0.0);
        y = &(&(&x * &y) * 2.0) + &im;
        x = &(&xx - &yy) + re;
    }
    count
}

fn mandelbrot_on_host(re: f32, steps: usize) -> f32 {
    let im = re * 0.5;
    let (mut x, mut y, mut count) = (re, im, re * 0.0);
    for _ in 0..steps {
        let (xx, yy) = (x * x, y * y);
        count += if xx + yy < 4.0 { 1.0 } else { 0.0 };
        y = x * y * 2.0 + im;
        x = xx - yy + re;
    }
    count
}

#[test]
fn twenty_mandelbrot_steps_are_one_kernel() {
    assert_chain(1, |x| mandelbrot(x, 20), |x| mandelbrot_on_host(x, 20));
}

#[test]
fn a_logistic_map_of_two_hundred_steps_is_cut_between_steps() {
    assert_chain(3, |x| logistic(x, 200), |x| logistic_on_host(x, 200));
}

#[test]
fn sixty_mandelbrot_steps_are_cut_between_steps() {
    // Two cuts of three values each, the first with the imaginary parts, which are kept for long,
    // and the result.
    assert_chain_of((4, 8), |x| mandelbrot(x, 60), |x| mandelbrot_on_host(x, 60));
}

#[run_by(Counted::everywhere, |counted|)]
fn a_function_of_a_row_is_stored_as_a_row() {
    let x = Array2::<f32>::zeros((64, 32));
    let row = Array1::from_shape_fn(32, |index| index as f32 / 64.0);
    let (found, work) = counted.region(|g| {
        let stretched = g.array(&row).exp().broadcast((64, 32));
        (&stretched + &g.array(&x), &stretched * 2.0)
    });
    assert_eq!(found.1, &found.0 * 2.0);
    // The row, and the two results.
    assert_eq!(
        (work.kernels, work.bytes_written),
        (3, 4 * (32 + 2 * 64 * 32))
    );
}

/// All lengths have one plan, and each has a graph of its own.
#[run_by(Counted::everywhere, |counted|)]
fn a_chain_of_three_kernels_is_replayed_for_each_length() {
    for length in [64, 100, 64, 260] {
        let host = Array1::from_shape_fn(length, |index| (index % 97) as f32 + 1.0);
        let x = counted.array(&host);
        let expected = (0..100).fold(host, |y, _| (y / 1.01).sqrt());
        for call in 1..=4 {
            let (found, work) = counted.work(|device| {
                let chain = |x| (0..100).fold(x, |y: Array<f32, Ix1>, _| (y / 1.01).sqrt());
                device
                    .region(|g| chain(g.array(&x)))
                    .unwrap()
                    .wait()
                    .unwrap()
            });
            assert_eq!(found, expected, "{length}");
            // The third call of a length records its graph.
            assert!(call < 4 || work.kernels == 0, "{length}: {work:?}");
        }
    }
}
