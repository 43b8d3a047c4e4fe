//! Reductions with many results: of many rows by a warp each, and of columns that several blocks
//! share, the last of which combines their partial results.

use std::cell::RefCell;

use millstream_testkit::share;

use crate::differential::prelude::*;

fn number(at: usize) -> f64 {
    (at * 7919 % 65_521) as f64 / 977.0 - 30.0
}

/// A warp does the work of a block, to the bit. Products of `f64` are rounded at each step, so that
/// another order gives other bits.
#[test]
fn many_rows_have_the_bits_of_few() -> Outcome {
    for (rows, length) in share::cases([(8192, 257), (8195, 300), (8200, 1000)], 2) {
        let x = Array2::from_shape_fn((rows, length), |(row, column)| {
            number(row * 1009 + column) as f32
        });
        let few = x.slice(s![..200, ..]).to_owned();
        let configuration = configuration(5);
        let device = configuration.open()?;
        let reduced = |x: &Array2<f32>| {
            evaluate(&device, |g| {
                let (x, axis) = (g.array(x), Axis(1));
                let wide = x.cast::<f64>();
                (
                    (wide.sum_axis(axis), (&wide * &wide).sum_axis(axis).sqrt()),
                    (&wide * 1e-3 + 1.0).product_axis(axis),
                    (x.min_axis(axis), x.max_axis(axis)),
                    (x.argmin_axis(axis), x.argmax_axis(axis)),
                    (x.less(-29.0).any_axis(axis), x.cast::<i32>().sum_axis(axis)),
                )
            })
        };
        let (all, first) = (reduced(&x)?, reduced(&few)?);
        let bits = |x: &Array1<f64>| x.slice(s![..200]).mapv(f64::to_bits);
        assert_eq!(bits(&all.0.0), bits(&first.0.0));
        assert_eq!(bits(&all.0.1), bits(&first.0.1));
        assert_eq!(bits(&all.1), bits(&first.1));
        assert_eq!(all.3.0.slice(s![..200]), first.3.0);
        assert_eq!(all.3.1.slice(s![..200]), first.3.1);
        for (at, row) in x.rows().into_iter().enumerate() {
            let least = row.iter().copied().fold(f32::MAX, f32::min);
            let greatest = row.iter().copied().fold(f32::MIN, f32::max);
            assert_eq!((all.2.0[at], all.2.1[at]), (least, greatest), "{at}");
            assert_eq!(all.4.0[at], row.iter().any(|&x| x < -29.0), "{at}");
            let sum: i32 = row.iter().map(|&x| x as i32).sum();
            assert_eq!(all.4.1[at], sum, "{at}");
        }
        configuration.close(device)?;
    }
    Ok(())
}

/// Smaller blocks do the work of a larger one, to the bit. Sums of `f32` as `f64` are rounded, so
/// that another order gives other bits.
#[test]
fn row_kernels_of_many_rows_have_the_bits_of_few() -> Outcome {
    let sizes = [(12_672, 257), (12_700, 300), (12_690, 1000), (12_680, 1023)];
    for (rows, length) in share::cases(sizes, 2) {
        let x = Array2::from_shape_fn((rows, length), |(row, column)| {
            number(row * 1009 + column) as f32 / 8.0
        });
        let configuration = configuration(5);
        let device = configuration.open()?;
        let of_rows = |x: &Array2<f32>| {
            evaluate(&device, |g| {
                let (x, axis) = (g.array(x), [Axis(1)]);
                let powers = (&x - &x.max_keepdims(&axis)).exp();
                let deviation = &x - &x.mean_keepdims(&axis);
                let variance = deviation.pow2().mean_keepdims(&axis);
                (
                    &powers / &powers.sum_keepdims(&axis),
                    &deviation / &(&variance + 1e-5).sqrt(),
                    &x / &(&x.pow2().mean_keepdims(&axis) + 1e-5).sqrt(),
                )
            })
        };
        let bits = |x: &Array2<f32>| x.mapv(f32::to_bits);
        let all = of_rows(&x)?;
        for part in [s![..100, ..], s![rows - 100.., ..]] {
            let few = of_rows(&x.slice(part).to_owned())?;
            let of_all = |x: &Array2<f32>| bits(&x.slice(part).to_owned());
            assert_eq!(of_all(&all.0), bits(&few.0), "{length}");
            assert_eq!(of_all(&all.1), bits(&few.1), "{length}");
            assert_eq!(of_all(&all.2), bits(&few.2), "{length}");
        }
        configuration.close(device)?;
    }
    Ok(())
}

#[test]
fn columns_have_the_same_bits_under_every_schedule() -> Outcome {
    for (before, rows, columns) in [(1, 400, 50), (1, 66, 2100), (5, 200, 70), (1, 1000, 40)] {
        let x = Array3::from_shape_fn((before, rows, columns), |(a, b, c)| {
            number(a * 7 + b * 1009 + c)
        });
        let first = RefCell::new(None);
        everywhere(|device| {
            let (sums, halves, (least, greatest)) = evaluate(device, |g| {
                let (x, axis) = (g.array(&x), Axis(1));
                (
                    x.sum_axis(axis),
                    (x.cast::<f32>() * 0.5).sum_axis(axis),
                    (x.argmin_axis(axis), x.max_axis(axis)),
                )
            })?;
            for ((at, &sum), &half) in sums.indexed_iter().zip(&halves) {
                let column = x.slice(s![at.0, .., at.1]);
                let exact: f64 = column.sum();
                assert!((sum - exact).abs() < 1e-9, "{sum} is not {exact}");
                let exact: f64 = column.iter().map(|&x| f64::from(x as f32 * 0.5)).sum();
                let error = (f64::from(half) - exact).abs();
                assert!(error <= f64::from(f32::EPSILON) * exact.abs(), "{half}");
                let most = column.iter().copied().fold(f64::MIN, f64::max);
                let smallest = column.iter().copied().fold(f64::MAX, f64::min);
                let position = column.iter().position(|&x| x == smallest).unwrap();
                assert_eq!((least[at], greatest[at]), (position as i64, most));
            }
            let bits = (sums.mapv(f64::to_bits), halves.mapv(f32::to_bits));
            assert_eq!(*first.borrow_mut().get_or_insert(bits.clone()), bits);
            Ok(())
        })?;
    }
    Ok(())
}

/// The greatest integer is no better than the start of a minimum, nor the least than that of a
/// maximum, in every kind of kernel; some of their threads have no element.
#[test]
fn the_first_of_equal_extremes_is_found() -> Outcome {
    let shapes = [
        (3, 1),
        (9, 30),
        (70, 50),
        (40, 64),
        (3, 1000),
        (2, 40_000),
        (8200, 257),
        (40, 1000),
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let configuration = configuration(seed as u64);
        let device = configuration.open()?;
        for from in [0, 1] {
            let mut x = Array2::from_elem(shape, i32::MAX);
            let mut y = Array2::from_elem(shape, i32::MIN);
            // From the second element on, others are as far from the extremes as can be.
            x.slice_mut(s![.., ..from]).fill(i32::MIN);
            y.slice_mut(s![.., ..from]).fill(i32::MAX);
            for axis in [Axis(0), Axis(1)] {
                let (of_x, of_y) = evaluate(&device, |g| {
                    let (x, y) = (g.array(&x), g.array(&y));
                    (
                        (x.argmin_axis(axis), x.argmax_axis(axis)),
                        (y.argmin_axis(axis), y.argmax_axis(axis)),
                    )
                })?;
                let extreme = |array: &Array2<i32>, least: bool| -> Array1<i64> {
                    let line = |line: ndarray::ArrayView1<'_, i32>| {
                        let best = if least {
                            line.iter().min()
                        } else {
                            line.iter().max()
                        };
                        let best = *best.unwrap();
                        line.iter().position(|&x| x == best).unwrap() as i64
                    };
                    array.lanes(axis).into_iter().map(line).collect()
                };
                assert_eq!(of_x, (extreme(&x, true), extreme(&x, false)), "{shape:?}");
                assert_eq!(of_y, (extreme(&y, true), extreme(&y, false)), "{shape:?}");
            }
        }
        configuration.close(device)?;
    }
    Ok(())
}
