//! Means, variances and standard deviations of `f32`: computed as `f64`, and rounded once at the
//! end.

use crate::differential::prelude::*;

/// Means whose sums overflow `f32` are finite.
#[run_by(everywhere, |device|)]
fn means_do_not_overflow() -> Outcome {
    let large = array![[3e38_f32, 3e38], [-2e38, -3e38]];
    let (mean, means, kept) = evaluate(device, |g| {
        let large = g.array(&large);
        let kept = large.mean_keepdims(&[Axis(1)]);
        (large.row(0).mean(), large.mean_axis(Axis(1)), kept)
    })?;
    assert_eq!(mean.into_scalar(), 3e38);
    assert_eq!(means, array![3e38, -2.5e38]);
    assert_eq!(kept, array![[3e38], [-2.5e38]]);
    Ok(())
}

/// The lengths of the rows; with all lengths, there are 20,000 rows.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=9;
const ROWS: usize = 2500;

/// A common divisor of all numbers and of the rounded means.
const UNIT: f64 = 1.0 / (1_u64 << 60) as f64;

/// Returns a random number of either sign with 24 significant bits, up to 2^20 and a multiple of
/// 2^-20.
fn number(rng: &mut Pcg32) -> f32 {
    let significand = (rng.next_u32() >> 8) as f32;
    let scaled = significand * 2.0_f32.powi((rng.next_u32() % 17) as i32 - 20);
    if rng.next_u32().is_multiple_of(2) {
        scaled
    } else {
        -scaled
    }
}

/// Converts a number to units, exactly.
fn in_units(number: f32) -> i128 {
    let units = f64::from(number) / UNIT;
    assert_eq!(units, units.trunc(), "{number:e} is a multiple of the unit");
    units as i128
}

/// Returns whether `found` is the nearest `f32` to the mean, ties to even.
fn is_rounded_correctly(found: f32, row: &[f32]) -> bool {
    let (count, sum) = (
        row.len() as i128,
        row.iter().map(|&x| in_units(x)).sum::<i128>(),
    );
    let off = |candidate: f32| (in_units(candidate) * count - sum).abs();
    [found.next_up(), found.next_down()]
        .into_iter()
        .all(|other| {
            off(found) < off(other)
                || (off(found) == off(other) && found.to_bits().is_multiple_of(2))
        })
}

#[test]
fn short_means_are_correctly_rounded() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(10);
    for length in LENGTHS {
        let x = Array2::from_shape_simple_fn((ROWS, length), || number(&mut rng));
        let configuration = configuration(length as u64);
        let device = configuration.open()?;
        let (means, kept, columns) = evaluate(&device, |g| {
            let x = g.array(&x);
            (
                x.mean_axis(Axis(1)),
                x.mean_keepdims(&[Axis(1)]),
                x.t().mean_axis(Axis(0)),
            )
        })?;
        for (row, &mean) in x.rows().into_iter().zip(&means) {
            assert!(
                is_rounded_correctly(mean, &row.to_vec()),
                "{mean:e} of {row}"
            );
        }
        assert_eq!(kept, means.clone().insert_axis(Axis(1)));
        assert_eq!(columns, means);
        configuration.close(device)?;
    }
    Ok(())
}

#[test]
fn short_variances_are_rounded_once() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(11);
    for length in LENGTHS {
        let x = Array2::from_shape_simple_fn((200, length), || number(&mut rng));
        let configuration = configuration(length as u64);
        let device = configuration.open()?;
        let (vars, stds) = evaluate(&device, |g| {
            let x = g.array(&x);
            (x.var_axis(Axis(1), 1.0), x.std_axis(Axis(1), 0.0))
        })?;
        for ((row, &var), &std) in x.rows().into_iter().zip(&vars).zip(&stds) {
            let wide = |x: f32| f64::from(x);
            let count = length as f64;
            let mean = (row.iter().copied().map(wide).sum::<f64>() / count) as f32;
            let deviations = row.iter().map(|&x| wide(x - mean));
            let lost: f64 = deviations.clone().sum();
            let squares: f64 = deviations.map(|x| x * x).sum();
            let sum = squares - lost / count * lost;
            assert_eq!(var, (sum / (count - 1.0)) as f32, "variance of {row}");
            assert_eq!(
                std,
                (sum / count).sqrt() as f32,
                "standard deviation of {row}"
            );
        }
        configuration.close(device)?;
    }
    Ok(())
}
