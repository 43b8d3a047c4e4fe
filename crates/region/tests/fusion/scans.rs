//! Scans of expressions: the kernels of the scan compute the expression, with the bits of a scan of
//! the stored expression.

use crate::fusion::prelude::*;

/// Rows that one thread scans, one block, and several blocks; with and without whole vectors.
const SHAPES: [(usize, usize); 6] = [
    (40, 60),
    (3, 1000),
    (2, 1001),
    (2, 6000),
    (1, 9001),
    (1, 20_000),
];

/// Returns the bits of two scans of expressions, after storing the expressions if `is_stored`.
fn scans(x: &Array<f32, Ix2>, is_stored: bool) -> (Array2<u32>, Array2<u64>) {
    let (weighted, doubles) = ((x * 0.3).abs() - x, x.cast::<f64>() * x.cast::<f64>());
    if is_stored {
        drop((weighted.to_host().unwrap(), doubles.to_host().unwrap()));
    }
    let sums = weighted.cumsum(Axis(1)).to_host().unwrap();
    let products = doubles.cumsum(Axis(1)).to_host().unwrap();
    (sums.mapv(f32::to_bits), products.mapv(f64::to_bits))
}

#[test]
fn a_scan_of_an_expression_has_the_kernels_of_a_scan() {
    for shape in share::cases(SHAPES, 2) {
        let host = matrix(shape);
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let (stored, of_stored) = counted.work(|_| scans(&x, true));
            let (found, work) = counted.work(|_| scans(&x, false));
            assert_eq!(found, stored, "{shape:?}");
            assert_eq!(work.kernels + 2, of_stored.kernels, "{shape:?}");
            assert_eq!(work.kernels, 2, "{shape:?}");
            if shape.1 % 4 == 0 && shape.1 > 512 {
                let bytes = (4 * shape.0 * shape.1) as u64;
                // The tiles of a row of f32, and of one of f64.
                let (tiles, totals) = if shape.1 > 4096 {
                    ([8192, 4096], 4096)
                } else {
                    ([1024, 1024], 0)
                };
                // The last threads of a tile read the last elements again.
                let of_tile = |tile| (4 * shape.0 * shape.1.next_multiple_of(tile)) as u64;
                let read = tiles.map(of_tile).iter().sum::<u64>() + totals;
                assert!((2 * bytes..=read).contains(&work.bytes_read), "{work:?}");
                let written = 3 * bytes..=3 * bytes + totals;
                assert!(written.contains(&work.bytes_written), "{work:?}");
            }
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn a_costly_expression_is_computed_within_the_kernel_of_a_scan() {
    for shape in [(2, 1000), (1, 20_000)] {
        let x = counted.array(&matrix(shape));
        let (_, work) = counted.work(|_| x.exp().cumsum(Axis(1)).to_host().unwrap());
        assert_eq!(work.kernels, 1, "{shape:?}");
    }
}

/// Columns that one thread scans, one block, and several blocks; of tiles of all widths, with
/// columns and rows beyond the end.
const COLUMNS: [[usize; 3]; 11] = [
    [1, 1, 5],
    [1, 40, 60],
    [2, 13, 3],
    [1, 100, 33],
    [3, 200, 10],
    [1, 600, 32],
    [2, 700, 20],
    [1, 5000, 3],
    [1, 3000, 7],
    [2, 9000, 2],
    [1, 9000, 16],
];

#[test]
fn a_scan_of_columns_is_one_kernel() {
    for shape in share::cases(COLUMNS, 2) {
        // The sums are exact.
        let host = Array3::from_shape_fn(shape, |(a, b, c)| {
            ((a * 11 + b * 37 + c * 61) % 101) as f32 / 16.0 - 3.0
        });
        let running = |f: &dyn Fn(f32, f32) -> f32, x: &Array3<f32>| {
            let mut x = x.clone();
            x.accumulate_axis_inplace(Axis(1), |&before, element| *element = f(before, *element));
            x
        };
        Counted::somewhere(|counted| {
            let x = counted.array(&host);
            let (sums, work) = counted.work(|_| x.cumsum(Axis(1)).to_host().unwrap());
            assert_eq!(work.kernels, 1, "{shape:?}");
            assert_eq!(sums, running(&|a, b| a + b, &host), "{shape:?}");
            let function = |x: &Array<f32, Ix3>| (x * 0.5 - x).cummax(Axis(1));
            let (most, work) = counted.work(|_| function(&x).to_host().unwrap());
            assert_eq!(work.kernels, 1, "{shape:?}");
            let of = host.mapv(|x| x * 0.5 - x);
            assert_eq!(most, running(&|a, b| a.max(b), &of), "{shape:?}");
        });
    }
}
