//! Variances of columns and of whole arrays: one kernel, which reads each element once.

use crate::fusion::prelude::*;

fn far_from_zero(rows: usize, columns: usize) -> Array2<f32> {
    matrix((rows, columns)) + 1003.0
}

/// Returns the variance of numbers, computed in two passes as `f64`.
fn variance(numbers: impl Iterator<Item = f32> + Clone, ddof: f64) -> f64 {
    let wide = numbers.map(f64::from);
    let count = wide.clone().count() as f64;
    let mean = wide.clone().sum::<f64>() / count;
    wide.map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - ddof)
}

fn assert_near(found: f32, expected: f64) {
    let error = (f64::from(found) - expected).abs();
    assert!(error <= 1e-7 * expected, "{found} is not {expected}");
}

/// Returns an array on the device, and its size in bytes.
fn upload(counted: &Counted, host: &Array2<f32>) -> (Array<f32, Ix2>, u64) {
    let x = counted.array(host);
    (x, 4 * host.len() as u64)
}

#[test]
fn a_variance_of_everything_is_one_kernel() {
    // Longer than a row kernel takes; with one block for a result, and with several.
    for (rows, columns) in [(100, 90), (400, 300)] {
        let host = far_from_zero(rows, columns);
        Counted::everywhere(|counted| {
            let (x, bytes) = upload(counted, &host);
            let (found, work) = counted.work(|_| x.var(1.0).to_host().unwrap());
            assert_near(found.into_scalar(), variance(host.iter().copied(), 1.0));
            assert_eq!(work.kernels, 1);
            // Partial results have five words of 64 bits.
            let partials = (rows * columns).div_ceil(1 << 14) as u64 * 40;
            let read = bytes..=bytes + partials + 1024;
            assert!(read.contains(&work.bytes_read), "{work:?}");
            assert!(work.bytes_written <= partials + 1024, "{work:?}");
        });
    }
}

#[test]
fn a_variance_of_columns_is_one_kernel() {
    // One thread for each column, with as many elements as it takes at once and more; and several
    // threads for each.
    for (rows, columns) in [(5, 300), (20, 300), (400, 300)] {
        let host = far_from_zero(rows, columns);
        Counted::everywhere(|counted| {
            let (x, bytes) = upload(counted, &host);
            let (found, work) =
                counted.work(|_| x.var_axis(Axis(0), 0.0).sqrt().to_host().unwrap());
            for (&found, column) in found.iter().zip(host.columns()) {
                assert_near(found, variance(column.iter().copied(), 0.0).sqrt());
            }
            assert_eq!(work.kernels, 1);
            let splits = rows.div_ceil(32) as u64;
            let partials = if splits > 1 { splits * 300 * 40 } else { 0 };
            let read = bytes..=bytes + partials + 1024;
            assert!(read.contains(&work.bytes_read), "{work:?}");
            let written = 4 * 300 + partials..=4 * 300 + partials + 1024;
            assert!(written.contains(&work.bytes_written), "{work:?}");
        });
    }
}

#[test]
fn means_and_variances_of_columns_are_one_kernel() {
    let host = far_from_zero(200, 100);
    Counted::everywhere(|counted| {
        let (x, _) = upload(counted, &host);
        let (found, work) = counted.region(|g| {
            let x = g.array(&x) * 2.0 + 1.0;
            (x.mean_axis(Axis(0)), x.std_axis(Axis(0), 1.0))
        });
        for (column, found) in host.columns().into_iter().zip(found.0.iter().zip(&found.1)) {
            let doubled = column.iter().map(|x| x * 2.0 + 1.0);
            let sum: f64 = doubled.clone().map(f64::from).sum();
            assert_near(*found.0, sum / 200.0);
            assert_near(*found.1, variance(doubled, 1.0).sqrt());
        }
        assert_eq!(work.kernels, 1);
    });
}

#[test]
fn a_variance_of_few_long_rows_is_one_kernel() {
    let host = far_from_zero(3, 20_000);
    Counted::everywhere(|counted| {
        let (x, bytes) = upload(counted, &host);
        let (found, work) = counted.work(|_| x.std_axis(Axis(1), 0.0).to_host().unwrap());
        for (&found, row) in found.iter().zip(host.rows()) {
            assert_near(found, variance(row.iter().copied(), 0.0).sqrt());
        }
        assert_eq!(work.kernels, 1);
        assert!((bytes..bytes + 2048).contains(&work.bytes_read), "{work:?}");
    });
}
