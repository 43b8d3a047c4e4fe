//! Joins of functions of the same elements: one kernel computes the parts, each in its place, and
//! chains of such joins are planned in linear time.

use millstream_region::{Region, concatenate, stack};

use crate::fusion::prelude::*;

type Matrix<T> = Array<T, Ix2>;

fn numbers(length: usize) -> Array1<f32> {
    Array1::from_shape_fn(length, |at| (at * 37 % 101) as f32 / 8.0 - 6.0)
}

/// Computes a Walsh–Hadamard transform.
fn transform(g: &Region, x: &Array<f32, Ix1>) -> Matrix<f32> {
    let (x, length) = (g.array(x), x.len());
    let mut x: Matrix<f32> = x.into_shape_with_order((1, length));
    while x.shape()[1] > 1 {
        let half = x.shape()[1] / 2;
        let (a, b) = (x.slice(s![.., ..half]), x.slice(s![.., half..]));
        x = concatenate(Axis(0), &[&a + &b, &a - &b]).unwrap();
    }
    x
}

fn transformed(x: &Array1<f32>) -> Array2<f32> {
    let mut x = x.clone().into_shape_with_order((1, x.len())).unwrap();
    while x.ncols() > 1 {
        let (a, b) = x.view().split_at(Axis(1), x.ncols() / 2);
        x = ndarray::concatenate(Axis(0), &[(&a + &b).view(), (&a - &b).view()]).unwrap();
    }
    x
}

#[test]
fn a_chain_of_butterflies_takes_a_kernel_for_two_steps() {
    for steps in [1, 2, 3, 6, 11] {
        let x = numbers(1 << steps);
        Counted::somewhere(|counted| {
            let on_device = counted.array(&x);
            let (found, work) = counted.region(|g| transform(g, &on_device));
            assert_eq!(found, transformed(&x));
            assert_eq!(work.kernels, usize::div_ceil(steps, 2), "{steps}");
        });
    }
}

type Complex = (Array1<f64>, Array1<f64>);

fn fft(g: &Region, (re, im): (&Array1<f64>, &Array1<f64>)) -> [Matrix<f64>; 2] {
    let n = re.len();
    let row = |x: &Array1<f64>| g.array(x).into_shape_with_order((1, n));
    let (mut re, mut im): (Matrix<f64>, Matrix<f64>) = (row(re), row(im));
    let mut m = 1;
    while m < n {
        let h = n / m / 2;
        let (a, b) = (re.slice(s![.., ..h]), re.slice(s![.., h..]));
        let (c, d) = (im.slice(s![.., ..h]), im.slice(s![.., h..]));
        let w = g.arange(0.0, m as f64, 1.0) * (-std::f64::consts::PI / m as f64);
        let (wr, wi) = (w.cos().insert_axis(Axis(1)), w.sin().insert_axis(Axis(1)));
        let (tr, ti) = (&wr * &b - &wi * &d, &wr * &d + &wi * &b);
        re = concatenate(Axis(0), &[&a + &tr, &a - &tr]).unwrap();
        im = concatenate(Axis(0), &[&c + &ti, &c - &ti]).unwrap();
        m *= 2;
    }
    [re, im]
}

/// The same on the host.
fn fft_of_host((re, im): &Complex) -> Complex {
    let n = re.len();
    if n == 1 {
        return (re.clone(), im.clone());
    }
    let part = |first: isize| {
        let of = |x: &Array1<f64>| x.slice(s![first..;2]).to_owned();
        fft_of_host(&(of(re), of(im)))
    };
    let (even, odd) = (part(0), part(1));
    let angle = |at: usize| (at % (n / 2)) as f64 * -2.0 * std::f64::consts::PI / n as f64;
    let sign = |at: usize| if at < n / 2 { 1.0 } else { -1.0 };
    let (wr, wi) = (|at| f64::cos(angle(at)), |at| f64::sin(angle(at)));
    let re = |at: usize| {
        let k = at % (n / 2);
        even.0[k] + sign(at) * (wr(at) * odd.0[k] - wi(at) * odd.1[k])
    };
    let im = |at: usize| {
        let k = at % (n / 2);
        even.1[k] + sign(at) * (wr(at) * odd.1[k] + wi(at) * odd.0[k])
    };
    (Array1::from_shape_fn(n, re), Array1::from_shape_fn(n, im))
}

#[test]
fn a_fourier_transform_takes_few_kernels_for_each_step() {
    for (bits, kernels) in [(1, 1), (4, 6), (7, 11), (12, 18)] {
        let n = 1 << bits;
        let re = Array1::from_shape_fn(n, |at| (at * 7 % 5) as f64);
        let im = Array1::from_shape_fn(n, |at| (at * 11 % 13) as f64 - 6.0);
        let expected = fft_of_host(&(re.clone(), im.clone()));
        Counted::somewhere(|counted| {
            let ((found_re, found_im), work) = counted.region(|g| {
                let [re, im] = fft(g, (&re, &im));
                (re.flatten(), im.flatten())
            });
            let errors = (&found_re - &expected.0, &found_im - &expected.1);
            let largest = |x: &Array1<f64>| x.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            assert!(largest(&errors.0).max(largest(&errors.1)) < 1e-9, "{n}");
            assert!(work.kernels <= kernels, "{n}: {work:?}");
        });
    }
}

#[test]
fn long_chains_are_planned_in_linear_time() {
    let device = Device::simulated().unwrap();
    let pending = device.region(|g| {
        let zeros = Array1::zeros(1 << 16);
        let [re, im] = fft(g, (&zeros, &zeros));
        let explanation = g.explain(&(re.flatten(), im.flatten())).unwrap();
        assert!(explanation.kernels().len() <= 24);
        let mut x: Matrix<f32> = g.ones((1, 64));
        for _ in 0..64 {
            let (a, b) = (x.slice(s![.., ..32]), x.slice(s![.., 32..]));
            let parts = [&a + &b, &a - &b];
            x = concatenate(Axis(1), &parts).unwrap();
        }
        let explanation = g.explain(&x).unwrap();
        assert!(explanation.kernels().len() <= 32);
    });
    pending.unwrap().wait().unwrap();
}

/// Joins functions of an array, and a part without elements.
#[test]
fn parts_of_every_size_and_type_are_stored_in_their_places() {
    macro_rules! check {
        ($type:ident, $counted:expr, $shape:expr, $axis:expr) => {
            let x = matrix($shape).mapv(|x| (x * 16.0) as $type);
            let on_device = $counted.array(&x);
            // Once more the plan is recalled, and from the third call on it may be replayed.
            for _ in 0..4 {
                let (found, work) = $counted.region(|g| {
                    let x = g.array(&on_device);
                    let none = match $axis {
                        0 => x.slice(s![..0, ..]),
                        _ => x.slice(s![.., ..0]),
                    };
                    let parts = [&x + &x, none.to_owned(), &x - 2 as $type, x.clone()];
                    concatenate(Axis($axis), &parts).unwrap()
                });
                let parts = [&x + &x, &x - 2 as $type, x.clone()];
                let parts = parts.each_ref().map(|part| part.view());
                assert_eq!(found, ndarray::concatenate(Axis($axis), &parts).unwrap());
                assert_eq!(work.kernels, 1);
            }
        };
    }
    for shape in [(1, 8), (8, 1), (4, 8), (3, 4), (5, 6), (3, 7)] {
        for axis in [0, 1] {
            Counted::somewhere(|counted| {
                check!(f32, counted, shape, axis);
                check!(f64, counted, shape, axis);
                check!(i8, counted, shape, axis);
                check!(i64, counted, shape, axis);
            });
        }
    }
}

#[test]
fn stacked_results_of_adam_are_one_kernel_that_accesses_each_array_once() {
    for length in [64, 63, 1026] {
        let [p, g, m] = [0, 1, 2].map(|shift| numbers(length + shift).slice_move(s![shift..]));
        let v = m.mapv(|x| x * x);
        Counted::everywhere(|counted| {
            let arrays = [&p, &g, &m, &v].map(|x| counted.array(x));
            let step = |[p, g, m, v]: [&Array<f32, Ix1>; 4]| {
                let m = m * 0.9 + g * 0.1;
                let v = v * 0.99 + g * g * 0.01;
                let p = p - (&m * 0.001 / (v.sqrt() + 1e-8));
                [p, m, v]
            };
            let (found, work) = counted.work(|_| {
                let [p, g, m, v] = &arrays;
                stack(Axis(0), &step([p, g, m, v]))
                    .unwrap()
                    .to_host()
                    .unwrap()
            });
            let unit = 4 * length as u64;
            assert_eq!(work, Work::of(1, 4 * unit, 3 * unit));
            let (apart, _) = counted.work(|_| {
                let [p, g, m, v] = &arrays;
                step([p, g, m, v]).map(|x| x.to_host().unwrap())
            });
            assert_eq!(
                found,
                ndarray::stack(Axis(0), &apart.each_ref().map(|x| x.view())).unwrap()
            );
        });
    }
}

#[test]
fn stacked_means_and_variances_are_one_kernel() {
    for (shape, axis) in [((40, 12), 0), ((12, 40), 1), ((6, 900), 1), ((300, 70), 0)] {
        let x = matrix(shape);
        Counted::somewhere(|counted| {
            let on_device = counted.array(&x);
            let (mean, variance) = counted.result(|g| {
                (
                    g.array(&on_device).mean_axis(Axis(axis)),
                    g.array(&on_device).var_axis(Axis(axis), 0.0),
                )
            });
            for along in [0, 1] {
                let (found, work) = counted.region(|g| {
                    let x = g.array(&on_device);
                    let parts = [x.mean_axis(Axis(axis)), x.var_axis(Axis(axis), 0.0)];
                    stack(Axis(along), &parts).unwrap()
                });
                let expected = ndarray::stack(Axis(along), &[mean.view(), variance.view()]);
                assert_eq!(found, expected.unwrap(), "{shape:?}, {axis}");
                assert_eq!(work.kernels, 1, "{shape:?}, {axis}");
            }
        });
    }
}
