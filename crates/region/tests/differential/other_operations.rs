//! Operations that random programs do not contain, compared with `ndarray` or with their
//! definitions.

use ndarray::arr0;

use crate::differential::{configurations::configurations, prelude::*};

#[run_by(everywhere, |device|)]
fn constructors() -> Outcome {
    let (floats, whole, line, eye, truth, empty) = evaluate(device, |g| {
        (
            g.arange(1.0_f32, 2.0, 0.25),
            g.arange(5_i64, -4, -3),
            g.linspace(0.0_f64, 1.0, 5),
            g.eye::<u8>(3),
            g.from_elem((2, 2), true),
            g.ones::<i32, _>((1, 0)),
        )
    })?;
    assert_eq!(floats, array![1.0, 1.25, 1.5, 1.75]);
    assert_eq!(whole, array![5, 2, -1]);
    assert_eq!(line, array![0.0, 0.25, 0.5, 0.75, 1.0]);
    assert_eq!(eye, Array2::<u8>::eye(3));
    assert_eq!(truth, array![[true, true], [true, true]]);
    assert_eq!(empty.shape(), [1, 0]);
    Ok(())
}

/// Returns numbers that include all special values.
fn numbers() -> Array1<f32> {
    array![
        0.0,
        -0.0,
        1.5,
        -90.0,
        180.0,
        f32::INFINITY,
        -f32::INFINITY,
        f32::NAN,
        f32::MAX,
        1e-40
    ]
}

fn same_bits(found: &Array1<f32>, expected: &Array1<f32>) {
    let bits = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
    assert_eq!(found.mapv(|x| bits(&x)), expected.mapv(|x| bits(&x)));
}

#[run_by(everywhere, |device|)]
fn composed_functions() -> Outcome {
    let x = numbers();
    let (infinite, finite, degrees, radians, changes, sigmoid) = evaluate(device, |g| {
        let x = g.array(&x);
        (
            x.is_infinite(),
            x.is_finite(),
            x.to_degrees(),
            x.to_radians(),
            x.diff(2, Axis(0)),
            x.sigmoid(),
        )
    })?;
    assert_eq!(infinite, x.mapv(f32::is_infinite));
    assert_eq!(finite, x.mapv(f32::is_finite));
    same_bits(&degrees, &x.mapv(f32::to_degrees));
    same_bits(&radians, &x.mapv(f32::to_radians));
    same_bits(&changes, &x.diff(2, Axis(0)));
    assert_eq!((sigmoid[0], sigmoid[5], sigmoid[6]), (0.5, 1.0, 0.0));
    Ok(())
}

/// More arrays than a kernel computes, of several lengths, some of them empty.
#[test]
fn many_arrays_are_joined() -> Outcome {
    let parts = |axis: usize, unit: usize| -> Vec<Array2<i16>> {
        let part = |number: usize| {
            let length = number % 4 * unit;
            let shape = if axis == 0 { (length, 6) } else { (5, length) };
            Array2::from_shape_fn(shape, |(i, j)| (number * 100 + i * 7 + j) as i16)
        };
        (0..60).map(part).collect()
    };
    for (axis, unit) in [(0, 1), (1, 1), (1, 4), (0, 2)] {
        let parts = parts(axis, unit);
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        let expected = ndarray::concatenate(Axis(axis), &views).expect("the shapes match");
        let wide = expected.mapv(f64::from);
        for configuration in configurations() {
            let device = configuration.open()?;
            let found = evaluate(&device, |g| {
                let parts: Vec<_> = parts.iter().map(|part| g.array(part)).collect();
                let wide: Vec<_> = parts.iter().map(|part| part.cast::<f64>()).collect();
                Ok((
                    concatenate(Axis(axis), &parts)?,
                    concatenate(Axis(axis), &wide)?,
                ))
            })?;
            assert_eq!(found, (expected.clone(), wide.clone()));
            configuration.close(device)?;
        }
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn rows_columns_and_vector_products() -> Outcome {
    let m = Array2::from_shape_fn((4, 6), |(i, j)| (i * 10 + j) as i32);
    let v = array![1, -2, 3, -4, 5, -6];
    let (row, column, diagonal, product, outer, flat, square) = evaluate(device, |g| {
        let (m, v) = (g.array(&m), g.array(&v));
        (
            m.row(2),
            m.column(5),
            m.diag(),
            m.dot(&v),
            v.outer(&v),
            m.slice(s![..;-2, 1..]).flatten(),
            v.dot(&v),
        )
    })?;
    assert_eq!((row, column), (m.row(2).to_owned(), m.column(5).to_owned()));
    assert_eq!((diagonal, product), (m.diag().to_owned(), m.dot(&v)));
    assert_eq!(outer, Array2::from_shape_fn((6, 6), |(i, j)| v[i] * v[j]));
    assert_eq!(
        flat,
        m.slice(s![..;-2, 1..])
            .iter()
            .copied()
            .collect::<Array1<_>>()
    );
    assert_eq!(square, arr0(v.dot(&v)));
    Ok(())
}

/// Counts the doublings until a power of two exceeds every element, reading a value of the device
/// in each iteration.
fn power_above<T: Float>(x: &Array<T, Ix1>) -> millstream_region::Result<usize> {
    let mut rounds = 0;
    let mut power = x.ones_like();
    while power.less(x).any().item()? {
        power *= T::from_whole(2);
        rounds += 1;
    }
    Ok(rounds)
}

#[run_by(everywhere, |device|)]
fn arrays_outside_regions() -> Outcome {
    let x = Array::from_host(device, &array![3.0_f32, 100.0])?;
    assert_eq!(power_above(&x)?, 7);
    let (twice, sum) = evaluate(device, |g| {
        let x = g.array(&x);
        (Keep(&x * 2.0), x.sum())
    })?;
    assert_eq!(sum, arr0(103.0));
    assert_eq!((twice + &x).to_host()?, array![9.0, 300.0]);
    Ok(())
}

/// Checks that operations, broadcasts, slices, a final reduction and functions of its result are
/// one kernel of one block.
#[test]
fn chains_are_one_kernel() -> Outcome {
    let (x, b) = (Array2::<f32>::ones((30, 20)), Array1::<f32>::ones(20));
    for configuration in configurations() {
        let device = configuration.open()?;
        let norm = evaluate(&device, |g| {
            let sum = g.array(&x) * 2.0 + g.array(&b);
            let part = sum.slice(s![..;-2, ..]);
            (&part * &part).sum().sqrt()
        })?;
        assert_eq!(norm, arr0((9.0_f32 * 300.0).sqrt()));
        assert!(
            configuration.blocks().is_none_or(|blocks| blocks == 1),
            "on {}",
            configuration.name
        );
    }
    Ok(())
}
