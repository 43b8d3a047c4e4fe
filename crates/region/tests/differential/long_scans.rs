//! Scans of rows and columns that many blocks share: the totals of tiles, of groups of 32 tiles,
//! and of sections of 32 groups are combined in a fixed order.

use crate::differential::prelude::*;

/// Products of `f64` are rounded at each step, so that another order gives other bits. Their totals
/// are published as words, and those of sums, which have two components, with flags.
#[test]
fn long_scans_have_the_same_bits_under_every_schedule() -> Outcome {
    let count = 150_000;
    let near_1 = |at: usize| 1.0 + ((at * 7919 % 1009) as f64 - 504.0) * 1e-6;
    let x: Array1<f64> = (0..count).map(near_1).collect();
    let first = std::cell::RefCell::new(None);
    everywhere(|device| {
        let (products, sums) = evaluate(device, |g| {
            let x = g.array(&x);
            (x.cumprod(Axis(0)), x.cumsum(Axis(0)))
        })?;
        let mut exact = 1.0;
        for (at, (&product, &factor)) in products.iter().zip(&x).enumerate() {
            exact *= factor;
            let error = (product / exact - 1.0).abs();
            assert!(error < 1e-11, "at {at}: {product} is not {exact}");
        }
        let bits = (products.mapv(f64::to_bits), sums.mapv(f64::to_bits));
        assert_eq!(*first.borrow_mut().get_or_insert(bits.clone()), bits);
        Ok(())
    })
}

/// The rows have more than a group of tiles, and the line more than a section.
#[run_by(in_one(5), |device|)]
fn long_scans_add_all_that_precedes() -> Outcome {
    let rows = Array2::from_shape_fn((3, 140_001), |(row, at)| {
        (at * (row + 3) % 201) as i32 - 100
    });
    let line: Array1<f64> = (0..2_150_000).map(|at| (at % 13) as f64 - 5.0).collect();
    // Without the race check within kernels, which `everywhere` has.
    let (sums, most, of_line) = evaluate(device, |g| {
        let rows = g.array(&rows);
        (
            rows.cumsum(Axis(1)),
            rows.cummax(Axis(1)),
            g.array(&line).cumsum(Axis(0)),
        )
    })?;
    let (mut expected, mut greatest) = (rows.clone(), rows);
    expected.accumulate_axis_inplace(Axis(1), |&before, sum| *sum += before);
    greatest.accumulate_axis_inplace(Axis(1), |&before, most| *most = before.max(*most));
    let mut expected_line = line;
    expected_line.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
    assert!(sums == expected && most == greatest && of_line == expected_line);
    Ok(())
}

/// Two groups of tiles, of columns beside each other and below each other.
#[test]
fn long_scans_of_columns_have_the_same_bits_under_every_schedule() -> Outcome {
    let near_1 = |at: usize| 1.0 + ((at * 7919 % 1009) as f64 - 504.0) * 1e-6;
    let x = Array3::from_shape_fn((2, 4_500, 18), |(a, b, c)| near_1((a * 4_500 + b) * 18 + c));
    let first = std::cell::RefCell::new(None);
    everywhere(|device| {
        let products = evaluate(device, |g| g.array(&x).cumprod(Axis(1)))?;
        let mut exact = x.clone();
        exact.accumulate_axis_inplace(Axis(1), |&before, product| *product *= before);
        for (product, exact) in products.iter().zip(&exact) {
            let error = (product / exact - 1.0).abs();
            assert!(error < 1e-11, "{product} is not {exact}");
        }
        let bits = products.mapv(f64::to_bits);
        assert_eq!(*first.borrow_mut().get_or_insert(bits.clone()), bits);
        Ok(())
    })
}

/// The columns have more than a section of tiles, or more than a group.
#[run_by(in_one(5), |device|)]
fn long_scans_of_columns_add_all_that_precedes() -> Outcome {
    let tall = Array2::from_shape_fn((140_000, 17), |(row, column)| {
        ((row * (column + 2)) % 13) as f64 - 5.0
    });
    let narrow = Array2::from_shape_fn((140_000, 3), |(row, column)| {
        (row * (column + 3) % 201) as i32 - 100
    });
    // Without the race check within kernels, which `everywhere` has.
    let (sums, of_narrow) = evaluate(device, |g| {
        let (tall, narrow) = (g.array(&tall), g.array(&narrow));
        (tall.cumsum(Axis(0)), narrow.cumsum(Axis(0)))
    })?;
    let (mut expected, mut expected_narrow) = (tall, narrow);
    expected.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
    expected_narrow.accumulate_axis_inplace(Axis(0), |&before, sum| *sum += before);
    assert!(sums == expected && of_narrow == expected_narrow);
    Ok(())
}
