//! Variances of columns and of whole arrays: one kernel, which reads each element once. Their
//! values are tested in `differential::variances`.

use crate::fusion::prelude::*;

fn far_from_zero(rows: usize, columns: usize) -> Array2<f32> {
    matrix((rows, columns)) + 1003.0
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
            let (_, work) = counted.work(|_| x.var(1.0).to_host().unwrap());
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
            let (_, work) = counted.work(|_| x.var_axis(Axis(0), 0.0).sqrt().to_host().unwrap());
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

#[run_by(Counted::everywhere, |counted|)]
fn means_and_variances_of_columns_are_one_kernel() {
    let host = far_from_zero(200, 100);
    let (x, _) = upload(counted, &host);
    let (_, work) = counted.region(|g| {
        let x = g.array(&x) * 2.0 + 1.0;
        (x.mean_axis(Axis(0)), x.std_axis(Axis(0), 1.0))
    });
    assert_eq!(work.kernels, 1);
}

#[run_by(Counted::everywhere, |counted|)]
fn a_variance_of_few_long_rows_is_one_kernel() {
    let host = far_from_zero(3, 20_000);
    let (x, bytes) = upload(counted, &host);
    let (_, work) = counted.work(|_| x.std_axis(Axis(1), 0.0).to_host().unwrap());
    assert_eq!(work.kernels, 1);
    assert!((bytes..bytes + 2048).contains(&work.bytes_read), "{work:?}");
}
