//! Reductions of long contiguous rows, whose threads read 16 bytes at once where rows are aligned.

use crate::fusion::prelude::*;

/// The rows are aligned for 16 bytes of `f32` or not, and one block computes each, or several.
const SHAPES: [(usize, usize); 4] = [(3, 8196), (2, 8197), (2, 16_390), (1, 50_004)];

fn bytes((rows, length): (usize, usize)) -> Array2<u8> {
    Array2::from_shape_fn((rows, length), |(row, at)| {
        ((row * 37 + at * 61) % 251) as u8
    })
}

#[test]
fn sums_and_extrema_of_long_rows_are_those_of_the_host() {
    for shape in SHAPES {
        let host = bytes(shape);
        let floats = host.mapv(|byte| f32::from(byte) / 16.0 - 7.0);
        let doubles = floats.mapv(f64::from);
        Counted::everywhere(|counted| {
            let (bytes, single, double) = (
                counted.array(&host),
                counted.array(&floats),
                counted.array(&doubles),
            );
            let (found, work) = counted.region(|region| {
                let axis = Axis(1);
                let (single, double) = (region.array(&single), region.array(&double));
                let bytes = region.array(&bytes);
                (
                    (&single * 2.0).sum_axis(axis),
                    single.argmax_axis(axis),
                    double.sum_axis(axis),
                    bytes.max_axis(axis),
                    bytes.cast::<f32>().greater(&single).all_axis(axis),
                )
            });
            let sums = doubles.sum_axis(Axis(1));
            let first_greatest = |row: ndarray::ArrayView1<'_, f32>| {
                let most = row.iter().copied().fold(f32::MIN, f32::max);
                row.iter().position(|&element| element == most).unwrap() as i64
            };
            let positions: Array1<i64> = floats.rows().into_iter().map(first_greatest).collect();
            assert_eq!(found.0, sums.mapv(|sum| (2.0 * sum) as f32), "{shape:?}");
            assert_eq!(found.1, positions, "{shape:?}");
            assert_eq!(found.2, sums, "{shape:?}");
            assert_eq!(
                found.3,
                host.map_axis(Axis(1), |row| *row.iter().max().unwrap())
            );
            assert_eq!(found.4, Array1::from_elem(shape.0, true), "{shape:?}");
            // The two functions of the singles are one kernel, those of the bytes another.
            assert!(work.kernels <= 4, "{work:?}");
        });
    }
}
