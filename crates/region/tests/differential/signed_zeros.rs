//! Signed zeros: −0 is less than +0 in every minimum and maximum, in every kind of generated kernel
//! and in any order.

use crate::differential::{prelude::*, value::Exact};

/// Shapes that are reduced along each axis by one thread per result, several threads, a block and
/// several blocks, and scanned by a thread, a block and several blocks per row.
const SHAPES: [(usize, usize); 5] = [(9, 30), (70, 50), (3, 1000), (2, 40_000), (1, 5)];

trait Real: Number + Exact + millstream_region::Float {}
impl Real for f32 {}
impl Real for f64 {}

/// Returns zeros of random signs. One array in two also contains other numbers.
fn zeros<T: Real>(rng: &mut Pcg32, shape: (usize, usize)) -> Array2<T> {
    let has_others = rng.next_u32().is_multiple_of(2);
    Array2::from_shape_simple_fn(shape, || {
        let small = match rng.next_u32() % 64 {
            0 if has_others => 1,
            1 if has_others => -1,
            _ => 0,
        };
        let sign = T::from_small(if rng.next_u32().is_multiple_of(2) {
            1
        } else {
            -1
        });
        T::from_small(small).times(sign)
    })
}

/// Returns the bits of a row's reduction, and the position of the first element with these bits.
fn expected<T: Real>(reduce: Reduce, row: &[T]) -> (u64, i64) {
    let best = row[1..]
        .iter()
        .fold(row[0], |best, &x| best.join(reduce, x))
        .bits();
    let first = row.iter().position(|x| x.bits() == best);
    (
        best,
        first.expect("the extremum is an element of the row") as i64,
    )
}

fn signed_zeros<T: Real>() -> Outcome {
    let mut rng = Pcg32::seed_from_u64(9);
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let (x, y) = (zeros::<T>(&mut rng, shape), zeros::<T>(&mut rng, shape));
        let configuration = configuration(seed as u64);
        let device = configuration.open()?;
        for axis in [Axis(0), Axis(1)] {
            // Read from memory, and computed within the kernel.
            for is_fused in [false, true] {
                let ((min, max), (argmin, argmax), (cummin, cummax), each) =
                    evaluate(&device, |g| {
                        let (x, y) = (g.array(&x), g.array(&y));
                        let x = if is_fused { -(-x) } else { x };
                        (
                            (x.min_axis(axis), x.max_axis(axis)),
                            (x.argmin_axis(axis), x.argmax_axis(axis)),
                            (x.cummin(axis), x.cummax(axis)),
                            (x.minimum(&y), y.minimum(&x), x.maximum(&y), y.maximum(&x)),
                        )
                    })?;
                for (at, row) in x.lanes(axis).into_iter().enumerate() {
                    let (row, what) = (
                        row.to_vec(),
                        format!("row {at} along {axis:?} of {shape:?}"),
                    );
                    let least = (min[at].bits(), argmin[at]);
                    let greatest = (max[at].bits(), argmax[at]);
                    assert_eq!(least, expected(Reduce::Minimum, &row), "least of {what}");
                    assert_eq!(
                        greatest,
                        expected(Reduce::Maximum, &row),
                        "greatest of {what}"
                    );
                }
                for (reduce, found) in [(Reduce::Minimum, &cummin), (Reduce::Maximum, &cummax)] {
                    let mut expected = x.clone();
                    expected
                        .accumulate_axis_inplace(axis, |&before, x| *x = before.join(reduce, *x));
                    assert_eq!(
                        bits(found),
                        bits(&expected),
                        "{reduce:?} along {axis:?} of {shape:?}"
                    );
                }
                let of = |function: Binary| {
                    let pairs = x.iter().zip(&y);
                    pairs
                        .map(|(&x, &y)| x.binary(function, y).bits())
                        .collect::<Vec<_>>()
                };
                for found in [&each.0, &each.1] {
                    assert_eq!(bits(found), of(Binary::Minimum));
                }
                for found in [&each.2, &each.3] {
                    assert_eq!(bits(found), of(Binary::Maximum));
                }
            }
        }
        configuration.close(device)?;
    }
    Ok(())
}

fn bits<T: Real>(array: &Array2<T>) -> Vec<u64> {
    array.iter().map(|x| x.bits()).collect()
}

#[test]
fn clamp_treats_negative_zero_as_less() -> Outcome {
    let device = configuration(0).open()?;
    let x = ndarray::array![-1.0_f32, -0.0, 0.0, 1.0, f32::NAN];
    let (above, below, between, relu) = evaluate(&device, |g| {
        let x = g.array(&x);
        (
            x.clamp(0.0, 2.0),
            x.clamp(-2.0, -0.0),
            x.clamp(-0.0, 0.0),
            x.relu(),
        )
    })?;
    let bits = |found: ndarray::Array1<f32>| found.mapv(Exact::bits).to_vec();
    let expected = |values: [f32; 5]| values.map(Exact::bits).to_vec();
    assert_eq!(bits(above), expected([0.0, 0.0, 0.0, 1.0, f32::NAN]));
    assert_eq!(bits(below), expected([-1.0, -0.0, -0.0, -0.0, f32::NAN]));
    assert_eq!(bits(between), expected([-0.0, -0.0, 0.0, 0.0, f32::NAN]));
    assert_eq!(bits(relu), expected([0.0, 0.0, 0.0, 1.0, f32::NAN]));
    Ok(())
}

#[test]
fn signed_zeros_of_f32() -> Outcome {
    signed_zeros::<f32>()
}

#[test]
fn signed_zeros_of_f64() -> Outcome {
    signed_zeros::<f64>()
}
