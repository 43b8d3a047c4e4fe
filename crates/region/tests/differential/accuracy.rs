//! Accuracy of rounded results: sums, products and functions of floats are compared with more exact
//! ones, within stated bounds.

use crate::differential::prelude::*;

/// Returns random numbers from −2^20 to 2^20 with widely varying exponents.
fn numbers(rng: &mut Pcg32, count: usize) -> Vec<f64> {
    let mut number = || {
        let fraction = f64::from(rng.next_u32()) / 4_294_967_296.0 - 0.5;
        fraction * 2.0_f64.powi((rng.next_u32() % 42) as i32 - 20)
    };
    (0..count).map(|_| number()).collect()
}

/// Returns the sum with Neumaier's compensation, and the sum of the magnitudes.
fn exact_sum(numbers: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut lost, mut size) = (0.0_f64, 0.0, 0.0);
    for number in numbers {
        let next = sum + number;
        lost += if sum.abs() >= number.abs() {
            (sum - next) + number
        } else {
            (number - next) + sum
        };
        sum = next;
        size += number.abs();
    }
    (sum + lost, size)
}

/// Asserts that a value is within one rounding of the exact one, plus a small fraction of the sum
/// of magnitudes.
#[track_caller]
fn assert_near(found: f64, exact: f64, size: f64) {
    let bound = UNIT_F32 * exact.abs() + size * 1e-14;
    assert!((found - exact).abs() <= bound, "{found} {exact}");
}

/// Asserts the same of a sum of `f64`, which compensates the rounding errors of its additions.
#[track_caller]
fn assert_exact(found: f64, exact: f64, size: f64) {
    let bound = UNIT_F64 * exact.abs() + size * 1e-28;
    assert!((found - exact).abs() <= bound, "{found} {exact}");
}

const UNIT_F32: f64 = 6.0e-8;
const UNIT_F64: f64 = 1.2e-16;

#[test]
fn sums_are_accurate_to_the_last_rounding() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(5);
    for (seed, shape) in [(40, 7), (3, 1000), (1, 100_000), (2000, 40), (1, 1)]
        .into_iter()
        .enumerate()
    {
        let wide = Array2::from_shape_vec(shape, numbers(&mut rng, shape.0 * shape.1))?;
        let narrow = wide.mapv(|x| x as f32);
        let configuration = configuration(seed as u64);
        let device = configuration.open()?;
        let (rows, narrow_rows, columns, means, wide_means) = evaluate(&device, |g| {
            let (wide, narrow) = (g.array(&wide), g.array(&narrow));
            (
                wide.sum_axis(Axis(1)),
                narrow.sum_axis(Axis(1)),
                wide.sum_axis(Axis(0)),
                narrow.mean_axis(Axis(0)),
                wide.mean_axis(Axis(0)),
            )
        })?;
        for (at, (&found, &narrow_found)) in rows.iter().zip(&narrow_rows).enumerate() {
            let (exact, size) = exact_sum(wide.row(at).iter().copied());
            assert_exact(found, exact, size);
            let (exact, size) = exact_sum(narrow.row(at).iter().map(|&x| x.into()));
            assert_near(narrow_found.into(), exact, size);
        }
        for (at, (&found, &mean)) in columns.iter().zip(&means).enumerate() {
            let (exact, size) = exact_sum(wide.column(at).iter().copied());
            assert_exact(found, exact, size);
            // The quotient is rounded, too.
            let mean_error = (wide_means[at] - exact / shape.0 as f64).abs();
            assert!(mean_error <= 2.0 * UNIT_F64 * (exact.abs() + size * 1e-12));
            let (exact, size) = exact_sum(narrow.column(at).iter().map(|&x| x.into()));
            let count = shape.0 as f64;
            assert_near(mean.into(), exact / count, size / count);
        }
        configuration.close(device)?;
    }
    Ok(())
}

#[test]
fn cumulative_sums_are_accurate_to_the_last_rounding() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(6);
    for (seed, count) in [1, 64, 65, 1023, 1025, 4097, 50_000]
        .into_iter()
        .enumerate()
    {
        let wide = Array1::from_vec(numbers(&mut rng, count));
        let narrow = wide.mapv(|x| x as f32);
        let configuration = configuration(seed as u64);
        let device = configuration.open()?;
        let (found, narrow_found) = evaluate(&device, |g| {
            (
                g.array(&wide).cumsum(Axis(0)),
                g.array(&narrow).cumsum(Axis(0)),
            )
        })?;
        let step = (count / 50).max(1);
        for end in (1..=count).step_by(step).chain([count]) {
            let (exact, size) = exact_sum(wide.iter().take(end).copied());
            let found = found[end - 1];
            assert_exact(found, exact, size);
            let (exact, size) = exact_sum(narrow.iter().take(end).map(|&x| x.into()));
            let found = narrow_found[end - 1].into();
            assert_near(found, exact, size);
        }
        configuration.close(device)?;
    }
    Ok(())
}

type Function = (
    &'static str,
    fn(&Array<f32, Ix1>) -> Array<f32, Ix1>,
    fn(f64) -> f64,
);

/// Functions with their `f64` equivalents on the host, which serve as exact values.
const FUNCTIONS: [Function; 19] = [
    ("exp", |x| x.exp(), f64::exp),
    ("exp2", |x| x.exp2(), f64::exp2),
    ("exp_m1", |x| x.exp_m1(), f64::exp_m1),
    ("ln", |x| x.ln(), f64::ln),
    ("ln_1p", |x| x.ln_1p(), f64::ln_1p),
    ("log2", |x| x.log2(), f64::log2),
    ("log10", |x| x.log10(), f64::log10),
    ("cbrt", |x| x.cbrt(), f64::cbrt),
    ("sin", |x| x.sin(), f64::sin),
    ("cos", |x| x.cos(), f64::cos),
    ("tan", |x| x.tan(), f64::tan),
    ("asin", |x| x.asin(), f64::asin),
    ("acos", |x| x.acos(), f64::acos),
    ("atan", |x| x.atan(), f64::atan),
    ("sinh", |x| x.sinh(), f64::sinh),
    ("cosh", |x| x.cosh(), f64::cosh),
    ("tanh", |x| x.tanh(), f64::tanh),
    ("powf", |x| x.powf(2.5), |x| x.powf(2.5)),
    ("hypot", |x| x.hypot(3.0), |x| x.hypot(3.0)),
];

/// Compares each function, fused with other operations in one kernel, with its value in `f64`.
#[test]
fn functions_in_fused_kernels_are_accurate() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(7);
    for (seed, (name, function, exact)) in FUNCTIONS.into_iter().enumerate() {
        let x: Array1<f32> = numbers(&mut rng, 300)
            .into_iter()
            .map(|x| (x % 30.0) as f32)
            .collect();
        let configuration = configuration(seed as u64);
        let device = configuration.open()?;
        let found = evaluate(&device, |g| function(&(g.array(&x) * 0.5)) + 0.0)?;
        for (&x, &found) in x.iter().zip(&found) {
            let exact = exact(f64::from(x * 0.5));
            let rounded = exact as f32;
            if rounded.is_nan() || rounded.is_infinite() {
                assert!(
                    found.is_nan() == rounded.is_nan() && (rounded.is_nan() || found == rounded),
                    "{name} {x}"
                );
                continue;
            }
            let unit = f64::from(rounded.abs().next_up() - rounded.abs());
            assert!(
                (f64::from(found) - exact).abs() <= 4.0 * unit,
                "{name}({x}): {found} {exact}"
            );
        }
        configuration.close(device)?;
    }
    Ok(())
}
