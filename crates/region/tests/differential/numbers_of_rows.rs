//! Long rows, which larger blocks keep.

use millstream_testkit::share;

use crate::differential::prelude::*;

/// Returns small integers, of which all sums are exact.
fn matrix(rows: usize, columns: usize) -> Array2<f32> {
    let number = |(row, column)| ((row * 37 + column * 61) % 31) as f32;
    Array2::from_shape_fn((rows, columns), number)
}

/// Compares functions of rows, and reductions of rows, with those of the host.
fn check_rows(device: &Device, rows: usize, columns: usize) -> Outcome {
    let (host, what) = (matrix(rows, columns), format!("{rows} x {columns}"));
    let weights = Array1::from_shape_fn(columns, |column| (column % 3) as f32);
    let (products, differences, (sums, places)) = evaluate(device, |g| {
        let (x, weights, axis) = (g.array(&host), g.array(&weights), Axis(1));
        let weighted = &x * &weights;
        let from_most = &x - &x.max_keepdims(&[axis]);
        (
            &x * &weighted.sum_keepdims(&[axis]),
            &x - &from_most.min_keepdims(&[axis]),
            (weighted.sum_axis(axis) + 1.0, x.argmax_axis(axis)),
        )
    })?;
    let rows = host.rows().into_iter().enumerate();
    for (at, row) in rows {
        let sum = (&row * &weights).sum();
        let most = row.fold(f32::MIN, |most, &x| most.max(x));
        let least = row.fold(f32::MAX, |least, &x| least.min(x - most));
        assert_eq!(products.row(at), row.mapv(|x| x * sum), "{what}, row {at}");
        assert_eq!(differences.row(at), row.mapv(|x| x - least), "{what}");
        assert_eq!(sums[at], sum + 1.0, "{what}, row {at}");
        let place = row.iter().position(|&x| x == most);
        assert_eq!(Some(places[at] as usize), place, "{what}, row {at}");
    }
    Ok(())
}

/// Blocks of 512 and of 1,024 threads, with and without threads beyond the end of the row, and rows
/// that are too long.
#[test]
fn larger_blocks_keep_rows() -> Outcome {
    let sizes = [
        (128, 8_193),
        (129, 8_200),
        (128, 16_384),
        (128, 16_388),
        (128, 16_389),
        (130, 32_768),
        (128, 32_772),
    ];
    for (number, (rows, columns)) in share::cases(sizes.into_iter().enumerate(), 7) {
        // The first is checked for races within kernels.
        let configuration = configuration(if number == 0 { 3 } else { 5 });
        let device = configuration.open()?;
        check_rows(&device, rows, columns)?;
        configuration.close(device)?;
    }
    Ok(())
}
