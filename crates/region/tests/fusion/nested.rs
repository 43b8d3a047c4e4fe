//! Reductions of reductions: one kernel computes the inner results where the outer one needs them,
//! in the order of a kernel of their own, and stores none of them.

use half::f16;
use millstream_region::Number;

use crate::fusion::prelude::*;

/// The squares of the distances of points, or of what else differs between the rows of two arrays.
fn distances(x: &Array<f32, Ix2>, y: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let apart = x.insert_axis(Axis(1)) - y.insert_axis(Axis(0));
    apart.pow2().sum_axis(Axis(2))
}

#[run_by(Counted::everywhere, |counted|)]
fn the_nearest_of_some_points_is_one_kernel() {
    for (rows, others, axes) in [(70, 40, 3), (9, 300, 2), (40, 2_100, 3), (33, 50, 7)] {
        let (x, y) = (matrix((rows, axes)), matrix((others, axes)) * 0.75);
        let expected = Array1::from_shape_fn(rows, |row| {
            let apart = |other: usize| &x.row(row) - &y.row(other);
            let square = |other: usize| apart(other).iter().map(|x| x * x).sum::<f32>();
            let best = (1..others).fold(0, |best, other| match square(other) < square(best) {
                true => other,
                false => best,
            });
            best as i64
        });
        let [x, y] = [&x, &y].map(|host| counted.array(host));
        let (nearest, work) =
            counted.region(|g| distances(&g.array(&x), &g.array(&y)).argmin_axis(Axis(1)));
        assert_eq!(nearest, expected, "{rows} x {others} x {axes}");
        assert_eq!((work.kernels, work.bytes_written), (1, 8 * rows as u64));
    }
}

/// Products with a vector compute their factors, in whichever order the matrix is in memory.
#[run_by(Counted::everywhere, |counted|)]
fn a_product_with_a_vector_is_one_kernel() {
    let host = matrix((70, 300));
    let (line, short) = (host.row(0).to_owned(), host.column(0).to_owned());
    let (m, v, w) = (
        counted.array(&host),
        counted.array(&line),
        counted.array(&short),
    );
    let rows = counted.array(&ndarray::arr1(&[3_i64, 5]));
    type Product = fn(&Array<f32, Ix2>, &Array<f32, Ix1>, &Array<f32, Ix1>) -> Array<f32, Ix1>;
    let products: [(Product, Array1<f32>); 5] = [
        (|m, v, _| (m * 2.0).dot(v), (&host * 2.0).dot(&line)),
        (
            |m, _, w| m.t().dot(&(w * 2.0)),
            host.t().dot(&(&short * 2.0)),
        ),
        (|m, _, w| w.dot(m), short.dot(&host)),
        (|m, v, _| v.dot(&m.t()), host.dot(&line)),
        (
            |_, v, _| v.dot(v).insert_axis(Axis(0)),
            ndarray::arr1(&[line.dot(&line)]),
        ),
    ];
    for (number, (product, expected)) in products.into_iter().enumerate() {
        let (found, work) = counted.region(|g| product(&g.array(&m), &g.array(&v), &g.array(&w)));
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs().max(1.0);
        assert!(
            found.iter().zip(&expected).all(near),
            "{number}: {found} {expected}"
        );
        assert_eq!(work.kernels, 1, "{number}");
    }
    let (_, work) = counted.region(|g| {
        let chosen = g.array(&m).select(Axis(0), &g.array(&rows));
        chosen.dot(&g.array(&v))
    });
    assert_eq!((work.kernels, work.bytes_written), (1, 8));
}

/// The forces between bodies, which are three products with the masses, and prices of options: each
/// a kernel that computes what its results share once.
#[run_by(Counted::everywhere, |counted|)]
fn results_that_share_costly_values_are_one_kernel() {
    let bodies = counted.array(&matrix((60, 3)));
    let (_, work) = counted.region(|g| {
        let places = g.array(&bodies);
        let apart = [0, 1, 2].map(|axis| {
            let x = places.column(axis);
            x.insert_axis(Axis(0)) - x.insert_axis(Axis(1))
        });
        let squares = apart[0].pow2() + apart[1].pow2() + apart[2].pow2() + 0.01;
        let [x, y, z] = apart.map(|d| (d * squares.powf(-1.25)).dot(&places.column(0)));
        (Keep(x), Keep(y), Keep(z))
    });
    assert_eq!((work.kernels, work.bytes_written), (1, 4 * 180));
    let prices = counted.array(&matrix((40, 30)).mapv(|x| x + 4.0));
    let (_, work) = counted.region(|g| {
        let x = g.array(&prices);
        let (high, low) = ((x.ln() * 0.5).erf(), (x.ln() * 0.25).erf() * (-&x).exp());
        (Keep(&x * &high - &low), Keep(&x * (1.0 - &high) + low))
    });
    assert_eq!((work.kernels, work.bytes_written), (1, 4 * 2_400));
}

/// One after another, the second element would be lost beside the first. By halves, as the threads
/// of a kernel of its own combine them, the first meets the third.
#[run_by(Counted::everywhere, |counted|)]
fn an_inner_sum_has_the_order_of_a_kernel_of_its_own() {
    let (large, small) = (f16::from_f32(32_768.0), f16::from_f32(1.0 / 1024.0));
    let row = [large, small, -large, small, f16::ZERO];
    let (x, y) = (
        Array2::from_shape_fn((40, 5), |(_, at)| row[at]),
        Array2::from_elem((9, 5), f16::ONE),
    );
    let [x, y] = [&x, &y].map(|host: &Array2<f16>| counted.array(host));
    let (sums, work) = counted.region(|g| {
        let products = g.array(&x).insert_axis(Axis(1)) * g.array(&y).insert_axis(Axis(0));
        products.sum_axis(Axis(2)).max_axis(Axis(1))
    });
    assert_eq!(sums, Array1::from_elem(40, small + small));
    assert_eq!(work.kernels, 1);
}

/// As any sum, that of negative zeros is +0.
#[run_by(Counted::everywhere, |counted|)]
fn an_inner_sum_of_negative_zeros_is_a_positive_zero() {
    let (x, y) = (Array2::from_elem((40, 3), -0.0_f32), Array2::ones((9, 3)));
    let [x, y] = [&x, &y].map(|host| counted.array(host));
    let (least, work) = counted.region(|g| {
        let products = g.array(&x).insert_axis(Axis(1)) * g.array(&y).insert_axis(Axis(0));
        products.sum_axis(Axis(2)).min_axis(Axis(1))
    });
    assert!(least.iter().all(|zero| zero.is_sign_positive()));
    assert_eq!(work.kernels, 1);
}

/// Elements in memory that neighbouring threads would read far apart from each other.
#[run_by(Counted::everywhere, |counted|)]
fn inner_results_of_longer_rows_in_memory_are_stored() {
    let kernels = [4, 5].map(|axes| {
        let x = counted.array(&Array3::<f32>::ones((20, 30, axes)));
        let (_, work) = counted.region(|g| g.array(&x).sum_axis(Axis(2)).max_axis(Axis(1)));
        work.kernels
    });
    assert_eq!(kernels, [1, 2]);
}

/// A type with random elements.
trait Random: Number {
    fn of(random: &mut Pcg64Mcg) -> Self;
}

macro_rules! random {
    ($($element:ty, $random:ident => $value:expr;)*) => {$(
        impl Random for $element {
            fn of($random: &mut Pcg64Mcg) -> Self {
                $value
            }
        }
    )*};
}

random! {
    f32, random => below(random, 4097) as f32 / 512.0 - 4.0;
    f64, random => below(random, 4097) as f64 * 1.1 - 2000.0;
    // Of many magnitudes, so that their sums depend on the order.
    f16, random => {
        let magnitude = (1 << below(random, 20)) as f32;
        f16::from_f32((below(random, 257) as f32 - 128.0) / magnitude)
    };
    i32, random => below(random, 2001) as i32 - 1000;
}

/// Reduces a reduction of random functions of arrays that are broadcast to each other. `cut` stores
/// an array, or does nothing.
fn program<T: Random>(
    [x, y, z]: &[Array<T, Ix3>; 3],
    order: &Array<i64, Ix1>,
    random: &mut Pcg64Mcg,
    cut: &dyn Fn(&Array<T, Ix2>),
) -> (Array<i64, Ix1>, Array<T, Ix1>) {
    let pair = match below(random, 4) {
        0 => x - y,
        1 => x.slice(s![..;-1, .., ..]) * y,
        2 => x.minimum(y),
        _ => &(y + z) * x,
    };
    let all = match below(random, 3) {
        0 => &pair * &pair,
        1 => pair + z.select(Axis(0), order),
        _ => pair - y.slice(s![.., ..;-1, ..]),
    };
    let axis = Axis([2, 2, 1, 0][below(random, 4)]);
    let inner = match below(random, 5) {
        0 | 1 => all.sum_axis(axis),
        2 => all.min_axis(axis),
        3 => all.product_axis(axis),
        _ => all.argmax_axis(axis).cast::<T>(),
    };
    cut(&inner);
    let moved = match below(random, 3) {
        0 => inner,
        1 => inner * T::of(random),
        _ => inner.slice(s![.., ..;-1]).maximum(T::of(random)),
    };
    let axis = Axis(below(random, 2));
    let summed = moved.sum_axis(axis);
    (moved.argmin_axis(axis), summed)
}

fn check<T: Random>(counted: &Counted, seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(!seed);
    let lengths = [1, 2, 3, 4, 5, 8, 9, 16, 17, 40, 300];
    let mut whole = [0; 3].map(|_| lengths[below(random, lengths.len())]);
    if whole.iter().product::<usize>() > 40_000 {
        whole[below(random, 3)] = 3;
    }
    let hosts = [0, 1, 2].map(|number| {
        let shape = whole.map(|length| match number > 0 && below(random, 2) == 0 {
            true => 1,
            false => length,
        });
        Array3::from_shape_simple_fn(shape, || T::of(random))
    });
    let rows = hosts[2].len_of(Axis(0));
    let order = Array1::from_shape_fn(rows, |row| (rows - 1 - row) as i64);
    let (order, arrays) = (
        counted.array(&order),
        hosts.map(|host| counted.array(&host)),
    );
    let run = |is_cut: bool| {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        eprintln!(
            "{:?} {whole:?}",
            arrays.each_ref().map(|a| a.shape().to_vec())
        );
        let pending = counted.device.region(|g| {
            let arrays = arrays.each_ref().map(|array| g.array(array));
            let cut = |array: &Array<T, Ix2>| {
                if is_cut {
                    drop(array.to_host().unwrap());
                }
            };
            program(&arrays, &g.array(&order), random, &cut)
        });
        pending.unwrap().wait().unwrap()
    };
    let ((least, sum), (stored_least, stored_sum)) = (run(false), run(true));
    let what = format!("{whole:?}, MILLSTREAM_SEED={seed}");
    assert_eq!(least, stored_least, "{what}");
    // With the signs of zeros, and NaN equal to itself.
    assert_eq!(format!("{sum:?}"), format!("{stored_sum:?}"), "{what}");
}

#[test]
fn random_inner_reductions_give_the_bits_of_stored_ones() {
    Counted::somewhere(|counted| {
        for seed in seeds(40) {
            match seed % 4 {
                0 => check::<f64>(counted, seed),
                1 => check::<f16>(counted, seed),
                2 => check::<i32>(counted, seed),
                _ => check::<f32>(counted, seed),
            }
        }
    });
}
