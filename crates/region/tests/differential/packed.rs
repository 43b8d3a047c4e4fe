//! Packed elements: masks, indices and rows whose number only the device knows, compared with
//! `ndarray`.

use millstream_region::{Packed, Unpacked, region};

use crate::differential::{
    prelude::*,
    usage_errors::{fails, usage_error},
};

/// Masks of several lengths: of none, of all, and of some elements.
fn masks() -> Vec<Array1<bool>> {
    let lengths = [0, 1, 2, 7, 64, 1000, 5000];
    let of_length = |length: usize| {
        [1, 2, 3, usize::MAX].map(|every| {
            Array1::from_shape_fn(length, |at| {
                every != usize::MAX && (at * 7 + 3) % every == 0
            })
        })
    };
    lengths.into_iter().flat_map(of_length).collect()
}

fn selected<T: Clone>(x: &Array1<T>, mask: &Array1<bool>) -> Array1<T> {
    let pairs = x.iter().zip(mask).filter(|(_, is_selected)| **is_selected);
    pairs.map(|(element, _)| element.clone()).collect()
}

/// Returns numbers with all special values; their bits are compared.
fn numbers(length: usize) -> Array1<f32> {
    let special = [f32::NAN, -0.0, 0.0, f32::INFINITY, -f32::INFINITY, 1e-40];
    Array1::from_shape_fn(length, |at| match at % 11 {
        special_at @ 0..6 => special[special_at],
        _ => (at * 37 % 101) as f32 / 4.0 - 9.0,
    })
}

#[run_by(everywhere, |device|)]
fn masks_select_elements() -> Outcome {
    for mask in masks() {
        let x = numbers(mask.len());
        let truth = mask.mapv(|is_selected| !is_selected);
        let (found, filled, count, (indices, of_truth)) = evaluate(device, |g| {
            let (x, mask, truth) = (g.array(&x), g.array(&mask), g.array(&truth));
            let (packed, others) = (
                x.compress(&mask),
                (mask.flatnonzero(), truth.compress(&mask)),
            );
            (packed.clone(), packed.to_array(-7.0), packed.len(), others)
        })?;
        let expected = selected(&x, &mask);
        let bits = |x: &Array1<f32>| x.mapv(f32::to_bits);
        assert_eq!(bits(&found), bits(&expected));
        let all = Array1::from_iter(0..mask.len() as i64);
        assert_eq!(indices, selected(&all, &mask));
        assert_eq!(of_truth, selected(&truth, &mask));
        assert_eq!(count[()], expected.len() as i64);
        let mut whole = Array1::from_elem(mask.len(), -7.0);
        whole.slice_mut(s![..expected.len()]).assign(&expected);
        assert_eq!(bits(&filled), bits(&whole));
    }
    Ok(())
}

/// Reductions, functions and further masks see the elements of the length alone.
#[run_by(everywhere, |device|)]
fn operations_see_the_length_alone() -> Outcome {
    for mask in masks() {
        let x = Array1::from_shape_fn(mask.len(), |at| (at * 37 % 101) as i32 - 50);
        let y = x.mapv(|x| f64::from(x) / 8.0);
        let results = evaluate(device, |g| {
            let (x, y, mask) = (g.array(&x), g.array(&y), g.array(&mask));
            let (p, q) = (x.compress(&mask), y.compress(&mask));
            let twice = p.compress(&q.greater(1.0));
            let truth = p.greater_equal(0);
            (
                (p.sum(), p.product(), q.mean(), q.sum()),
                (truth.sum(), truth.any(), truth.all()),
                (
                    &p * 2 - &p.sum(),
                    -(q.cast::<f32>() + 0.5).abs(),
                    (&p % 7) | 1,
                ),
                (twice.clone(), twice.compress(&twice.equal(45)).len()),
            )
        })?;
        let (p, q) = (selected(&x, &mask), selected(&y, &mask));
        let ((sum, product, mean, wide), (count, any, all), (scaled, other, odd), (twice, few)) =
            results;
        assert_eq!(sum[()], p.sum());
        assert_eq!(product[()], p.fold(1, |a: i32, b| a.wrapping_mul(*b)));
        assert_eq!(wide[()], q.sum());
        assert!(
            q.mean()
                .map_or(mean[()].is_nan(), |expected| mean[()] == expected)
        );
        assert_eq!(count[()], p.iter().filter(|x| **x >= 0).count() as i64);
        assert_eq!(any[()], p.iter().any(|x| *x >= 0));
        assert_eq!(all[()], p.iter().all(|x| *x >= 0));
        assert_eq!(scaled, &p * 2 - p.sum());
        assert_eq!(other, q.mapv(|x| -(x as f32 + 0.5).abs()));
        assert_eq!(odd, p.mapv(|x| (x % 7) | 1));
        let large = selected(&p, &q.mapv(|q| q > 1.0));
        assert_eq!(few[()], large.iter().filter(|x| **x == 45).count() as i64);
        assert_eq!(twice, large);
    }
    Ok(())
}

macro_rules! extremes {
    ($($type:ty: $least:expr, $greatest:expr;)*) => {
        /// The minimum of no elements is the greatest value, and the maximum the least.
        #[run_by(everywhere, |device|)]
        fn extremes_of_packed_elements() -> Outcome {
            $({
                let one = <$type as Number>::from_small(1);
                let none = ($greatest, $least);
                for (capacity, last, expected) in [(0, 0, none), (5, 0, none), (5, 3, (one, one))] {
                    let x = Array1::from_elem(capacity as usize, one);
                    let found = evaluate(device, |g| {
                        let mask = g.arange(0_i64, capacity, 1).less(last);
                        let packed = g.array(&x).compress(&mask);
                        (packed.min(), packed.max())
                    })?;
                    assert_eq!((found.0[()], found.1[()]), expected);
                }
            })*
            Ok(())
        }
    };
}

extremes! {
    f16: f16::NEG_INFINITY, f16::INFINITY;
    bf16: bf16::NEG_INFINITY, bf16::INFINITY;
    f32: f32::NEG_INFINITY, f32::INFINITY;
    f64: f64::NEG_INFINITY, f64::INFINITY;
    i8: i8::MIN, i8::MAX;
    i16: i16::MIN, i16::MAX;
    i32: i32::MIN, i32::MAX;
    i64: i64::MIN, i64::MAX;
    u8: u8::MIN, u8::MAX;
    u16: u16::MIN, u16::MAX;
    u32: u32::MIN, u32::MAX;
    u64: u64::MIN, u64::MAX;
}

#[run_by(everywhere, |device|)]
fn rows_and_indices_of_matrices() -> Outcome {
    for shape in [(0, 3), (5, 4), (40, 33), (7, 0)] {
        let x = Array2::from_shape_fn(shape, |(i, j)| ((i * 31 + j * 17) % 13) as i32 - 6);
        let ((rows, columns, pairs), elements, taken, total) = evaluate(device, |g| {
            let x = g.array(&x);
            let mask = x.greater(2);
            let [rows, columns] = &mask.nonzero()[..] else {
                unreachable!("a matrix has two axes")
            };
            let even = x.sum_axis(Axis(1)) % 2;
            let taken = x.take(&even.equal(0).flatnonzero());
            let indices = (rows.clone(), columns.clone(), mask.argwhere());
            (indices, x.compress(&mask), taken.clone(), taken.sum())
        })?;
        let expected: Vec<_> = x.indexed_iter().filter(|(_, x)| **x > 2).collect();
        let of = |axis: usize| {
            expected
                .iter()
                .map(|((i, j), _)| [*i, *j][axis] as i64)
                .collect()
        };
        assert_eq!(
            [rows.to_vec(), columns.to_vec()],
            [of(0), of(1)] as [Vec<i64>; 2]
        );
        assert_eq!(
            [pairs.column(0), pairs.column(1)],
            [rows.view(), columns.view()]
        );
        assert!(elements.iter().eq(expected.iter().map(|(_, x)| *x)));
        let even: Vec<usize> = (0..shape.0).filter(|&i| x.row(i).sum() % 2 == 0).collect();
        let expected = x.select(Axis(0), &even);
        assert_eq!((total[()], taken), (expected.sum(), expected));
    }
    Ok(())
}

#[region]
fn kept(x: &Array1<f32>, least: f32) -> (Packed<f32>, Packed<i64>) {
    let mask = x.greater(least);
    (x.compress(&mask), mask.flatnonzero())
}

#[region]
fn both(x: &Packed<f32>, y: Packed<i64>) -> (Unpacked<f32>, Vec<i64>, f32) {
    (x + y.cast::<f32>(), y.to_array(-1), x.mean())
}

/// Packed elements stay on the device, go into other regions, and have one length there.
#[run_by(everywhere, |device|)]
fn packed_elements_stay_on_the_device() -> Outcome {
    let x = array![5.0_f32, -1.0, 7.0, 0.0, 9.0];
    let (values, indices) = kept(device, &x, 0.5)?.wait()?;
    assert_eq!(values.to_host()?, array![5.0, 7.0, 9.0]);
    let (sums, all, mean) = both(device, &values, &indices)?.wait()?;
    assert_eq!((sums, mean), (array![5.0, 9.0, 13.0], 7.0));
    assert_eq!(all, [0, 2, 4, -1, -1]);
    // Outside of regions, and in a prepared one.
    assert_eq!((&values * 2.0).sum().item()?, 42.0);
    let x = Array::from_host(device, &x)?;
    let prepared = device.prepare(&x, |_, x| x.compress(&x.greater(0.5)))?;
    for _ in 0..3 {
        assert_eq!(prepared.call(&x)?.to_host()?, array![5.0, 7.0, 9.0]);
    }
    // From the third call on, the region is a graph.
    for least in [-2.0, 0.5, 8.0, 0.5, 6.0] {
        let sum = evaluate(device, |g| {
            let x = g.array(&x);
            (x.compress(&x.greater(least)) * 2.0).sum()
        })?;
        let host = x.to_host()?;
        let expected: f32 = host.iter().filter(|x| **x > least).sum();
        assert_eq!(sum[()], 2.0 * expected, "{least}");
    }
    Ok(())
}

#[rustfmt::skip]
#[run_by(everywhere, |device|)]
fn usage_errors_of_packed_elements() -> Outcome {
    let (x, y) = (array![1.0_f32, -2.0, 3.0], array![1.0_f32, 2.0]);
    let packed = |g: &Region, least: f32| { let x = g.array(&x); x.compress(&x.greater(least)) };
    let differ = "the lengths of packed operands may differ";
    fails!(device, "add", |g| packed(g, 0.0) + packed(g, -3.0), differ);
    fails!(device, "compress", |g| packed(g, 0.0).compress(&packed(g, -3.0).less(5.0)), differ);
    let shapes = "compress: incompatible shapes [3] and [2]";
    fails!(device, "compress", |g| g.array(&x).compress(&g.array(&y).greater(0.0)), shapes);
    // An index beyond the end counts only within the length.
    let indices = array![1_i64, 99, 0, -5];
    let taken = |least: i64| {
        device.region(|g| {
            let (x, indices) = (g.array(&x), g.array(&indices));
            let mask = indices.greater_equal(least) & indices.less(50);
            x.take(&indices.compress(&mask))
        })
    };
    assert_eq!(taken(0)?.wait()?, array![-2.0, 1.0]);
    let wrong = usage_error(taken(-9)?.wait());
    assert!(wrong.to_string().contains("index -5 is out"), "{wrong}");
    Ok(())
}
