//! Several results of one kernel: siblings over the same inputs, and several reductions together.

use ndarray::ArrayView1;

use crate::fusion::prelude::*;

const N: usize = 1000;
const BYTES: u64 = 4 * N as u64;

fn ramp(length: usize) -> Array1<f32> {
    Array1::from_shape_fn(length, |index| ((index * 61) % 97) as f32 / 128.0 + 0.25)
}

/// Returns the sums of columns, added as `f64` and rounded once.
fn device_sum(x: &Array2<f32>) -> Array1<f32> {
    let sum = |column: ArrayView1<'_, f32>| -> f64 {
        column.iter().map(|&element| f64::from(element)).sum()
    };
    Array1::from_iter(x.columns().into_iter().map(|column| sum(column) as f32))
}

/// Returns the new moments and the step of an Adam optimiser.
macro_rules! adam {
    ($m:expr, $v:expr, $g:expr) => {{
        let m = $m * 0.9 + $g * 0.1;
        let v = $v * 0.999 + $g * $g * 0.001;
        let step = &m * 0.01 / ((&v * 1.25).sqrt() + 1e-8);
        (m, v, step)
    }};
}

#[run_by(Counted::everywhere, |counted|)]
fn three_results_of_adam_are_one_kernel() {
    let [m, v, g] = [3, 5, 7].map(|factor| ramp(N).mapv(|x| x * factor as f32 / 8.0));
    let on_host = |m: f32, v: f32, g: f32| {
        let m = m * 0.9 + g * 0.1;
        let v = v * 0.999 + g * g * 0.001;
        (m, v, m * 0.01 / ((v * 1.25).sqrt() + 1e-8))
    };
    let [m_there, v_there, g_there] = [&m, &v, &g].map(|array| counted.array(array));
    let (found, work) = counted.region(|region| {
        let [m, v, g] = [&m_there, &v_there, &g_there].map(|array| region.array(array));
        adam!(&m, &v, &g)
    });
    for at in 0..N {
        let expected = on_host(m[at], v[at], g[at]);
        assert_eq!((found.0[at], found.1[at], found.2[at]), expected);
    }
    assert_eq!(
        (work.kernels, work.bytes_read, work.bytes_written),
        (1, 3 * BYTES, 3 * BYTES)
    );
}

#[test]
fn minimum_maximum_and_sum_of_one_array_are_one_kernel_that_reads_it_once() {
    // A part of a warp, one block, and several blocks.
    for length in [20, 5000, 100_000] {
        let host = ramp(length);
        Counted::everywhere(|counted| {
            let x = counted.array(&host);
            let (found, work) = counted.region(|region| {
                let x = region.array(&x);
                (x.min(), x.max(), x.sum())
            });
            let sum: f64 = host.iter().map(|&element| f64::from(element)).sum();
            assert_eq!(found.0[()], host.iter().copied().fold(f32::MAX, f32::min));
            assert_eq!(found.1[()], host.iter().copied().fold(f32::MIN, f32::max));
            assert_eq!(found.2[()], sum as f32);
            assert_eq!(work.kernels, 1);
            // Besides the array, the partial results of at most seven blocks and the counter. The
            // 32 parts of a block that could compute short rows read the same one, with 32 elements
            // of which the last repeat.
            let rest = work.bytes_read - 4 * length as u64;
            let again = if length == 20 {
                4 * (32 * 32 - 20)
            } else {
                7 * 16 + 4
            };
            assert!(rest <= again, "{work:?}");
        });
    }
}

#[test]
fn several_reductions_of_columns_share_their_kernels() {
    let cases = [(30, 50, 1), (400, 50, 1), (1500, 50, 2), (100, 20_000, 1)];
    for (rows, columns, kernels) in share::cases(cases, 2) {
        let host = matrix((rows, columns));
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let (found, work) = counted.region(|region| {
                let x = region.array(&x);
                (
                    x.sum_axis(Axis(0)),
                    x.max_axis(Axis(0)),
                    (&x * &x).sum_axis(Axis(0)),
                )
            });
            let greatest = host.fold_axis(Axis(0), f32::MIN, |a, b| a.max(*b));
            assert_eq!(found.0, device_sum(&host));
            assert_eq!(found.1, greatest);
            assert_eq!(found.2, device_sum(&(&host * &host)));
            assert_eq!(work.kernels, kernels, "{rows} x {columns}");
            let elements = (4 * rows * columns) as u64;
            assert!(work.bytes_read < elements + elements / 4, "{work:?}");
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn functions_of_sums_that_are_results_are_in_the_kernel_of_the_sums() {
    let host = matrix((300, 40));
    let other = ramp(40);
    let x = counted.array(&host);
    let y = counted.array(&other);
    let (found, work) = counted.region(|region| {
        let (x, y) = (region.array(&x), region.array(&y));
        let sums = x.sum_axis(Axis(0));
        let doubled = &sums * 2.0 + &y;
        let greatest = x.max_axis(Axis(0));
        let halved = &greatest / &doubled - &y;
        (sums, doubled, greatest, halved)
    });
    let sums = device_sum(&host);
    let doubled = &sums * 2.0 + &other;
    let greatest = host.fold_axis(Axis(0), f32::MIN, |a, b| a.max(*b));
    let halved = &greatest / &doubled - &other;
    assert_eq!((found.0, found.1), (sums, doubled));
    assert_eq!((found.2, found.3), (greatest, halved));
    assert_eq!(work.kernels, 1);
    assert!(work.bytes_written >= 4 * 4 * 40, "{work:?}");
}

/// A function that does not depend on a reduction is in a group with one that does, and another
/// function of the result is not.
#[run_by(Counted::everywhere, |counted|)]
fn functions_beside_those_of_a_result_are_in_its_kernel() {
    let host = ndarray::arr0(6_i64);
    let (found, work) = counted.region(|region| {
        let x: Array<i64, _> = region.array(&host);
        let inverted = !&x;
        let least = x.argmin();
        let is_greater = x.greater_equal(&least);
        let all = &inverted | &least;
        (inverted, is_greater, all)
    });
    let inverted = ndarray::arr0(!6_i64);
    assert_eq!(found, (inverted.clone(), ndarray::arr0(true), inverted));
    assert_eq!(work.kernels, 1);
}

/// Elements of the sums or of another array that are not at the position of a sum.
#[test]
fn functions_of_sums_elsewhere_have_their_own_kernel() {
    let host = Array2::from_shape_fn((300, 40), |(row, column)| (row % 7 + column) as f32);
    let sums = device_sum(&host);
    for other in [None, Some(ramp(40))] {
        Counted::everywhere(|counted| {
            let x = counted.array(&host);
            let y = other.as_ref().map(|y| counted.array(y));
            let (found, work) = counted.region(|region| {
                let sums = region.array(&x).sum_axis(Axis(0));
                let moved = y.as_ref().map_or(sums.clone(), |y| region.array(y));
                let turned = &sums + &moved.slice(s![..;-1]);
                (sums, turned)
            });
            let moved = other.as_ref().unwrap_or(&sums);
            assert_eq!(found.1, &sums + &moved.slice(s![..;-1]));
            assert_eq!((&found.0, work.kernels), (&sums, 2));
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn a_result_that_depends_on_another_through_a_reduction_has_its_own_kernel() {
    // Longer than a row kernel takes.
    let host = ramp(10_000);
    let x = counted.array(&host);
    let ((powers, rest), work) = counted.region(|region| {
        let powers = region.array(&x).exp();
        let rest = &powers - &powers.sum();
        (powers, rest)
    });
    let sum: f64 = powers.iter().map(|&element| f64::from(element)).sum();
    assert_eq!(rest, &powers - sum as f32);
    // The powers, their sum, and the rest.
    assert_eq!(work.kernels, 3);
}

#[run_by(Counted::everywhere, |counted|)]
fn pairs_of_results_that_depend_on_each_other_are_not_both_grouped() {
    let (x, y) = (ramp(N), ramp(N + 1));
    let sum = |array: &Array1<f32>| {
        let sum: f64 = array.iter().map(|&element| f64::from(element)).sum();
        sum as f32
    };
    let (a, c) = (&x * 2.0, &y * 3.0);
    let expected = (&x + sum(&c), &y + sum(&a));
    let (found, work) = counted.region(|region| {
        let (x, y) = (region.array(&x), region.array(&y));
        // Together, the first and the third would wait for the second and the fourth.
        let a = &x * 2.0;
        let c = &y * 3.0;
        (&x + &c.sum(), &y + &a.sum(), a, c)
    });
    assert_eq!(
        (found.0, found.1, found.2, found.3),
        (expected.0.clone(), expected.1.clone(), a.clone(), c.clone())
    );
    // Each product with its sum, and both sums of arrays.
    assert_eq!(work.kernels, 4);
}

#[run_by(Counted::everywhere, |counted|)]
fn results_of_a_shifted_neighbour_are_not_computed_twice_in_one_kernel() {
    let host = ramp(N);
    let (found, work) = counted.region(|region| {
        let powers = region.array(&host).exp();
        let shifted = &powers + &powers.slice(s![..;-1]);
        (powers, shifted)
    });
    assert_eq!(found.1, &found.0 + &found.0.slice(s![..;-1]));
    assert_eq!((work.kernels, work.bytes_written), (2, 2 * BYTES));
}

#[run_by(Counted::everywhere, |counted|)]
fn results_of_several_types_are_one_kernel() {
    let host = ramp(N);
    let x = counted.array(&host);
    let (found, work) = counted.region(|region| {
        let x = region.array(&x);
        (x.greater(0.5), x.cast::<f64>() * 0.1, x.cast::<u8>(), -&x)
    });
    assert_eq!(found.0, host.mapv(|x| x > 0.5));
    assert_eq!(found.1, host.mapv(|x| f64::from(x) * 0.1));
    assert_eq!(found.2, host.mapv(|x| x as u8));
    assert_eq!(found.3, -&host);
    assert_eq!((work.kernels, work.bytes_read), (1, BYTES));
}
