//! Variances in one pass, of columns and of long arrays, against exact sums: also where the mean is
//! much larger than the deviations, and where one element is far from all others.

use millstream_testkit::share;
use ndarray::{Array1, Array2, Axis, array};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use crate::differential::{
    Outcome,
    configurations::{configuration, everywhere},
    evaluate,
};

/// The bound of a variance's relative error before it is rounded to its type.
const BOUND: f64 = 1.0 / (1_u64 << 46) as f64;

/// A common divisor of all numbers.
const UNIT: f64 = 1.0 / (1_u64 << 32) as f64;

/// Returns the variance of multiples of the unit. Their sum and `n` times each deviation are exact,
/// and squares are added in pairs, so that the error is some 2⁻⁵⁰ at most.
fn variance(numbers: &[f64], ddof: f64) -> f64 {
    let in_units = |&x: &f64| {
        let units = x / UNIT;
        assert_eq!(units, units.trunc(), "{x:e} is a multiple of the unit");
        units as i128
    };
    let sum: i128 = numbers.iter().map(in_units).sum();
    let count = numbers.len();
    let square = |x: &f64| {
        let deviation = (in_units(x) * count as i128 - sum) as f64 / count as f64 * UNIT;
        deviation * deviation
    };
    let mut squares: Vec<f64> = numbers.iter().map(square).collect();
    while squares.len() > 1 {
        squares = squares.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
    squares[0] / (count as f64 - ddof)
}

fn assert_double(found: f64, expected: f64) {
    let error = (found - expected).abs() / expected;
    assert!(error <= BOUND, "{found:e} is off {expected:e} by {error:e}");
}

fn assert_single(found: f32, expected: f64) {
    let half_a_unit = f64::from(found.next_up() - found) / 2.0;
    let error = (f64::from(found) - expected).abs();
    let bound = half_a_unit + BOUND * expected;
    assert!(error <= bound, "{found:e} is not {expected:e}");
}

/// Returns multiples of the unit around a centre, and one number far from it.
fn numbers(
    shape: (usize, usize),
    (centre, width, outlier): (f64, f64, Option<f64>),
    rng: &mut Pcg32,
) -> Array2<f64> {
    let steps = width / UNIT;
    let number = || centre + (f64::from(rng.next_u32()) / 4_294_967_296.0 * steps).floor() * UNIT;
    let mut all = Array2::from_shape_simple_fn(shape, number);
    if let Some(outlier) = outlier {
        all.row_mut(0).fill(outlier);
    }
    all
}

/// Few elements of a column, as many as a thread has, several threads with few partial results and
/// with many; a block for everything, and several.
const SHAPES: [(usize, usize); 6] = [(3, 7), (8, 5), (29, 40), (301, 33), (1500, 32), (131, 130)];

#[test]
fn variances_in_one_pass_are_within_their_bound() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(5);
    let mut seed = 0;
    for shape in SHAPES {
        // The last digits of a mean of 2^30 are 2^-22, so that numbers of f64 keep the unit.
        for (centre, width, outlier) in [
            (0.0, 8.0, None),
            (1e9, 1e-3, None),
            (-1e9, 1e-6, Some(-1e9 + 0.5)),
            (0.25, 1e-3, Some(1e6)),
        ] {
            let x = numbers(shape, (centre, width, outlier), &mut rng);
            // Rounded numbers of f32 are multiples of the unit, too.
            let single = numbers(shape, (centre / 4096.0, 1e4 * width, outlier), &mut rng)
                .mapv(|x| (x * 16.0).round() as f32 / 16.0);
            seed += 1;
            let configuration = configuration(seed);
            let device = configuration.open()?;
            let ((all, columns), (std, stds), of_single, single_stds) = evaluate(&device, |g| {
                let (x, single) = (g.array(&x), g.array(&single));
                let of_single = (single.var(1.0), single.var_axis(Axis(0), 0.0));
                let middle = single.insert_axis(Axis(1)).insert_axis(Axis(3));
                (
                    (x.var(0.0), x.var_axis(Axis(0), 1.0)),
                    (x.std(0.0), x.std_axis(Axis(0), 1.0)),
                    of_single,
                    middle.std_axis(Axis(0), 0.0).flatten(),
                )
            })?;
            let wide = single.mapv(f64::from);
            // Fewer elements are a row, whose mean is computed first, and rounded.
            if x.len() > 8192 {
                let everything = variance(&x.iter().copied().collect::<Vec<_>>(), 0.0);
                assert_double(all.into_scalar(), everything);
                assert_double(std.into_scalar(), everything.sqrt());
                let all: Vec<f64> = wide.iter().copied().collect();
                assert_single(of_single.0.into_scalar(), variance(&all, 1.0));
            }
            for (column, (&var, &std)) in x.columns().into_iter().zip(columns.iter().zip(&stds)) {
                let expected = variance(&column.to_vec(), 1.0);
                assert_double(var, expected);
                assert_double(std, expected.sqrt());
            }
            let of_columns = of_single.1.iter().zip(&single_stds);
            for (column, (&var, &std)) in wide.columns().into_iter().zip(of_columns) {
                let expected = variance(&column.to_vec(), 0.0);
                if expected > 0.0 {
                    assert_single(var, expected);
                    assert_single(std, expected.sqrt());
                } else {
                    assert_eq!((var, std), (0.0, 0.0));
                }
            }
            configuration.close(device)?;
        }
    }
    Ok(())
}

#[test]
fn variances_of_equal_elements_are_zero() -> Outcome {
    for shape in SHAPES {
        let x = Array2::from_elem(shape, 0.1);
        let single = Array2::from_elem(shape, 1e30_f32);
        everywhere(|device| {
            let found = evaluate(device, |g| {
                let (x, single) = (g.array(&x), g.array(&single));
                (x.var_axis(Axis(0), 0.0), single.var_axis(Axis(0), 0.0))
            })?;
            assert_eq!(found.0, Array1::<f64>::zeros(shape.1));
            assert_eq!(found.1, Array1::<f32>::zeros(shape.1));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn variances_of_numbers_that_are_not_finite_are_nan() -> Outcome {
    for rows in [1, 5, 70, 1000] {
        let mut x = Array2::from_shape_fn((rows, 40), |(row, column)| (row + column) as f64);
        for (column, wrong) in [(1, f64::NAN), (17, f64::INFINITY), (18, f64::NEG_INFINITY)] {
            x[[rows / 2, column]] = wrong;
        }
        let x32 = x.mapv(|x| x as f32);
        everywhere(|device| {
            let (vars, stds) = evaluate(device, |g| {
                let (x, x32) = (g.array(&x), g.array(&x32));
                (x.var_axis(Axis(0), 0.0), x32.std_axis(Axis(0), 0.0))
            })?;
            for column in 0..40 {
                let is_nan = [1, 17, 18].contains(&column);
                assert_eq!(
                    (vars[column].is_nan(), stds[column].is_nan()),
                    (is_nan, is_nan)
                );
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A difference of squares or a square of a sum would overflow; and threads without elements have a
/// mean of 0, far from that of the others.
#[run_by(everywhere, |device|)]
fn variances_of_large_and_small_numbers_do_not_overflow() -> Outcome {
    let (low, high) = (1e160, 1e160 * (1.0 + 8.0 * f64::EPSILON));
    let x = Array2::from_shape_fn((50, 40), |(row, _)| [low, high][row % 2]);
    let far = array![[3e38_f32], [-3e38]];
    let (stds, nothing, far) = evaluate(device, |g| {
        let x = g.array(&x);
        let far = g.array(&far).broadcast((2, 40)).std_axis(Axis(0), 0.0);
        (x.std_axis(Axis(0), 0.0), x.var_axis(Axis(0), 50.0), far)
    })?;
    for ((&std, &nothing), &far) in stds.iter().zip(&nothing).zip(&far) {
        assert_double(std, (high - low) / 2.0);
        assert_eq!((nothing, far), (f64::INFINITY, 3e38));
    }
    Ok(())
}

/// Rows of a row kernel, longer rows, and arrays that several blocks share.
#[test]
fn variances_have_no_jump_at_the_length_of_a_row_kernel() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(7);
    let near = |found: f64, expected: f64| {
        let (error, bound) = ((found - expected).abs(), expected * 2_f64.powi(-21));
        assert!(error <= bound, "{found:e} is off {expected:e}");
    };
    let shapes = [(1, 2), (3, 100), (1, 8192), (1, 8193), (2, 8192)];
    for shape in shapes.into_iter().chain(share::cases([(130, 8200)], 4)) {
        for (centre, width) in share::cases([(1e6, 8.0), (-3e4, 0.25), (0.0, 1.0)], 3) {
            let x = numbers(shape, (centre * 64.0, width * 1e-3, None), &mut rng);
            let single = numbers(shape, (centre, width, None), &mut rng);
            let single = single.mapv(|x| (x * 16.0).round() as f32 / 16.0);
            everywhere(|device| {
                let (std, of_single, of_double) = evaluate(device, |g| {
                    let (x, single) = (g.array(&x), g.array(&single));
                    let of_double = x.var_axis(Axis(1), 0.0);
                    (x.std(0.0), single.var_axis(Axis(1), 1.0), of_double)
                })?;
                let all: Vec<f64> = x.iter().copied().collect();
                near(std.into_scalar().powi(2), variance(&all, 0.0));
                for (row, (&found, &double)) in of_single.iter().zip(&of_double).enumerate() {
                    let wide = single.row(row).mapv(f64::from).to_vec();
                    near(f64::from(found), variance(&wide, 1.0));
                    near(double, variance(&x.row(row).to_vec(), 0.0));
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Deviations that `f32` cannot hold, or whose squares overflow or vanish as `f32`.
#[run_by(everywhere, |device|)]
fn variances_of_rows_neither_overflow_nor_vanish_before_they_are_rounded() -> Outcome {
    let rows = [
        [3e38_f32, 3e38, -3e38, -3e38],
        [1e25, -1e25, 1e25, -1e25],
        [2e-30, 0.0, 2e-30, 0.0],
    ];
    let rows = ndarray::arr2(&rows);
    let wide = array![[1e200_f64, -1e200, 1e200, 2e200]];
    let odd = array![[1.0_f32, f32::NAN, 2.0], [f32::INFINITY, 1.0, 1.0]];
    let (stds, wide, odd) = evaluate(device, |g| {
        let of = |x: &Array2<f32>| g.array(x).std_axis(Axis(1), 0.0);
        (of(&rows), g.array(&wide).var(0.0), of(&odd))
    })?;
    for (found, expected) in stds.iter().zip([3e38, 1e25, 1e-30]) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{stds}");
    }
    assert_eq!(wide[()], f64::INFINITY);
    assert!(odd.iter().all(|std| std.is_nan()), "{odd}");
    Ok(())
}

/// In every order of a reduction: part of a warp, a thread, a block, several blocks, and several
/// threads with few partial results and with many. Partial sums of a third of the elements are
/// beyond `f32`.
#[test]
fn sums_of_single_precision_overflow_only_when_they_are_rounded() -> Outcome {
    for (rows, length) in [(1, 6), (5, 27), (1, 600), (3, 99_999), (40, 999), (40, 30)] {
        let third = length / 3;
        let number = |at: usize| match at {
            0 => 3e38_f32,
            at if at < third => 2e38,
            at if at < 2 * third - 1 => -2e38,
            _ => 0.0,
        };
        let along = Array2::from_shape_fn((rows, length), |(_, at)| number(at));
        let down = along.t().to_owned();
        everywhere(|device| {
            let (all, of_rows, of_columns, last) = evaluate(device, |g| {
                let (along, down) = (g.array(&along), g.array(&down));
                let last = along.cumsum(Axis(1)).slice(ndarray::s![.., -1..]).flatten();
                (
                    along.slice(ndarray::s![..1, ..]).sum(),
                    along.sum_axis(Axis(1)),
                    down.sum_axis(Axis(0)),
                    last,
                )
            })?;
            assert_eq!(all[()], 3e38);
            for sums in [of_rows, of_columns, last] {
                assert!(
                    sums.iter().all(|&sum| sum == 3e38),
                    "{rows}, {length}: {sums}"
                );
            }
            Ok(())
        })?;
    }
    Ok(())
}
