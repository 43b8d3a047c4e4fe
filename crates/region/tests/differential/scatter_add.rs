//! Additions of values to elements at indices: of many to few elements, which blocks add up in
//! shared memory first, and of floats to many.

use millstream_region::Number;

use crate::differential::prelude::*;

/// The shapes of the elements and of the values, and the axis of the indices: one element, as few
/// as a warp has threads, rows of several elements, elements of several rows, and as many elements
/// as blocks add up.
const SHAPES: [([usize; 2], [usize; 2], usize); 5] = [
    ([1, 1], [5000, 1], 0),
    ([32, 1], [4099, 1], 0),
    ([5, 6], [2003, 6], 0),
    ([3, 7], [3, 3001], 1),
    ([512, 8], [16_500, 8], 0),
];

fn indices(shape: [usize; 2], axis: usize, length: usize) -> Array2<i64> {
    let of = |(row, column): (usize, usize)| {
        let at = if axis == 0 { row } else { row * 31 + column };
        (at * 7919 % 10_007 % length) as i64
    };
    Array2::from_shape_fn(shape, of)
}

/// Returns the elements after adding each value to the one with its index, in order.
fn added<T: Copy, W>(
    base: &Array2<T>,
    (index, axis): (&Array2<i64>, usize),
    values: &Array2<T>,
    widen: impl Fn(T) -> W,
    add: impl Fn(&mut W, T),
) -> Array2<W> {
    let mut sums = base.mapv(widen);
    for ((at, &index), &value) in index.indexed_iter().zip(values) {
        let mut at = [at.0, at.1];
        at[axis] = index as usize;
        add(&mut sums[at], value);
    }
    sums
}

fn on_device<T: Number>(
    device: &millstream::Device,
    base: &Array2<T>,
    (index, axis): (&Array2<i64>, usize),
    values: &Array2<T>,
) -> millstream_region::Result<Array2<T>> {
    evaluate(device, |g| {
        let (base, index): (Array<T, Ix2>, _) = (g.array(base), g.array(index));
        base.scatter_add(Axis(axis), &index, &g.array(values))
    })
}

#[test]
fn many_integers_are_added_to_few_elements() -> Outcome {
    for (elements, shape, axis) in SHAPES {
        let index = indices(shape, axis, elements[axis]);
        let number = |(row, column): (usize, usize)| row * 0x0123_4567 + column * 0x89ab_cdef;
        let (base, values) = (
            Array2::from_shape_fn(elements, |at| number(at) as u64),
            Array2::from_shape_fn(shape, |at| number(at) as u64),
        );
        let wide = added(
            &base,
            (&index, axis),
            &values,
            |x| x,
            |sum, x| {
                *sum = sum.wrapping_add(x);
            },
        );
        let narrow = |x: &Array2<u64>| x.mapv(|x| x as i32);
        let bytes = |x: &Array2<u64>| x.mapv(|x| x as u8);
        everywhere(|device| {
            let index = (&index, axis);
            assert_eq!(on_device(device, &base, index, &values)?, wide);
            let found = on_device(device, &narrow(&base), index, &narrow(&values))?;
            assert_eq!(found, narrow(&wide));
            let found = on_device(device, &bytes(&base), index, &bytes(&values))?;
            assert_eq!(found, bytes(&wide));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn many_floats_are_added_within_the_bound() -> Outcome {
    for (elements, shape, axis) in SHAPES {
        let index = indices(shape, axis, elements[axis]);
        let number = |(row, column): (usize, usize)| {
            ((row * 7919 + column * 104_729) % 65_521) as f64 / 977.0 - 30.0
        };
        let (base, values) = (
            Array2::from_shape_fn(elements, number),
            Array2::from_shape_fn(shape, number),
        );
        let sizes = added(&base, (&index, axis), &values, f64::abs, |sum, x| {
            *sum += x.abs()
        });
        let sums = added(&base, (&index, axis), &values, |x| x, |sum, x| *sum += x);
        let count = values.len() as f64;
        let singles = |x: &Array2<f64>| x.mapv(|x| x as f32);
        let wide = |x: &Array2<f64>| x.mapv(|x| f64::from(x as f32));
        let of_singles = added(
            &wide(&base),
            (&index, axis),
            &wide(&values),
            |x| x,
            |sum, x| {
                *sum += x;
            },
        );
        everywhere(|device| {
            let found = on_device(device, &base, (&index, axis), &values)?;
            // Twice the bound of a sum in any order, because both sums are rounded.
            for ((found, sum), size) in found.iter().zip(&sums).zip(&sizes) {
                let bound = 2.0 * count * f64::EPSILON * size;
                assert!((found - sum).abs() <= bound, "{found} is not {sum}");
            }
            let found = on_device(device, &singles(&base), (&index, axis), &singles(&values))?;
            // Rounded once, at the end.
            for ((&found, sum), size) in found.iter().zip(&of_singles).zip(&sizes) {
                let half = f64::from(f32::EPSILON) / 2.0 * sum.abs();
                let bound = half + 2.0 * count * f64::EPSILON * size;
                assert!(
                    (f64::from(found) - sum).abs() <= bound,
                    "{found} is not {sum}"
                );
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// As `f32`, each addition is rounded; as `f64`, the sum is rounded once.
#[test]
fn floats_are_added_to_many_elements_within_their_bounds() -> Outcome {
    let number = |(row, column): (usize, usize)| {
        ((row * 7919 + column * 104_729) % 65_521) as f32 / 977.0 - 30.0
    };
    let (base, values) = (
        Array2::from_shape_fn((3000, 2), number),
        Array2::from_shape_fn((9000, 2), |(row, column)| number((row + 77, column))),
    );
    // The first elements get a thousand values each.
    let index = indices([9000, 2], 0, 3000).mapv(|at| if at % 3 == 0 { at % 6 } else { at });
    let halves = |x: &Array2<f32>| x.mapv(f16::from_f32);
    let wide = |x: &Array2<f32>| x.mapv(f64::from);
    let of_halves = |x: &Array2<f32>| halves(x).mapv(f64::from);
    let add = |base: &Array2<f64>, values: &Array2<f64>| {
        added(base, (&index, 0), values, |x| x, |sum, x| *sum += x)
    };
    let sums = add(&wide(&base), &wide(&values));
    let sizes = add(&wide(&base).abs(), &wide(&values).abs());
    let counts = add(&Array2::zeros((3000, 2)), &Array2::ones((9000, 2)));
    let sums_of_halves = add(&of_halves(&base), &of_halves(&values));
    everywhere(|device| {
        let (short, wide, half, integers) = evaluate(device, |g| {
            let (own, index, values) = (g.array(&base), g.array(&index), g.array(&values));
            let (short, of_short) = (own.cast::<f16>(), values.cast::<f16>());
            (
                own.scatter_add(Axis(0), &index, &values),
                own.scatter_add_in_f64(Axis(0), &index, &values),
                short.scatter_add(Axis(0), &index, &of_short),
                (own.cast::<i64>()).scatter_add_in_f64(Axis(0), &index, &values.cast::<i64>()),
            )
        })?;
        for (at, &sum) in sums.indexed_iter() {
            let rounded = counts[at] * f64::from(f32::EPSILON) / 2.0 * sizes[at];
            let error = (f64::from(short[at]) - sum).abs();
            assert!(error <= rounded, "{} is not {sum}", short[at]);
            let bound = f64::from(f32::EPSILON) / 2.0 * sum.abs() + 1e-12 * sizes[at];
            let error = (f64::from(wide[at]) - sum).abs();
            assert!(error <= bound, "{} is not {sum}", wide[at]);
            let (sum, half) = (sums_of_halves[at], f64::from(half[at]));
            assert!(
                (half - sum).abs() <= sum.abs() / 2048.0,
                "{half} is not {sum}"
            );
        }
        let trunc = |x: &Array2<f32>| x.mapv(|x| x as i64);
        let expected = added(
            &trunc(&base),
            (&index, 0),
            &trunc(&values),
            |x| x,
            |sum, x| *sum += x,
        );
        assert_eq!(integers, expected);
        Ok(())
    })
}

#[run_by(everywhere, |device|)]
fn many_zeros_keep_the_sign_of_few_elements() -> Outcome {
    let base = ndarray::array![[-0.0], [-0.0], [-0.0], [0.0], [1.0]];
    let count = 6000;
    let index = Array2::from_shape_fn((count, 1), |(at, _)| [0, 1, 3, 4][at % 4]);
    let values = Array2::from_shape_fn((count, 1), |(at, _)| match at % 4 {
        1 => 0.0,
        _ => -0.0,
    });
    let found = on_device(device, &base, (&index, 0), &values)?;
    let bits: Vec<u64> = found.iter().map(|x: &f64| x.to_bits()).collect();
    let expected = [-0.0_f64, 0.0, -0.0, 0.0, 1.0].map(f64::to_bits);
    assert_eq!(bits, expected);
    Ok(())
}

#[run_by(everywhere, |device|)]
fn an_invalid_index_among_many_is_an_error() -> Outcome {
    let base = Array2::<f32>::ones((4, 1));
    let values = Array2::<f32>::ones((5000, 1));
    for wrong in [-1, 4, i64::MAX, i64::MIN] {
        let mut index = Array2::from_shape_fn((5000, 1), |(at, _)| (at % 4) as i64);
        index[[4321, 0]] = wrong;
        let error = on_device(device, &base, (&index, 0), &values);
        let text = error.expect_err("the index is out of bounds").to_string();
        assert!(text.contains("index"), "{text}");
    }
    Ok(())
}
