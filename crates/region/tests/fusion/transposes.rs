//! Transposed arrays within element-wise kernels: tiles in shared memory, with the results of the
//! host.

use millstream_region::concatenate;
use ndarray::Array4;

use crate::fusion::prelude::*;

fn matrix((rows, columns): (usize, usize)) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        (row * 1000 + column) as f32 / 8.0
    })
}

/// Whole tiles, parts of tiles along one axis and both, and axes that are too short for tiles.
const SHAPES: [(usize, usize); 6] = [(64, 96), (33, 64), (32, 100), (70, 41), (31, 200), (200, 7)];

#[test]
fn a_transposed_array_and_another_are_each_read_once() {
    for shape in SHAPES {
        let (x, y) = (matrix(shape), matrix((shape.1, shape.0)) * 3.0);
        Counted::everywhere(|counted| {
            let (on_x, on_y) = (counted.array(&x), counted.array(&y));
            let (found, work) = counted.work(|_| (on_x.t() + &on_y).to_host().unwrap());
            assert_eq!(found, &x.t() + &y, "{shape:?}");
            let bytes = (4 * shape.0 * shape.1) as u64;
            assert_eq!((work.kernels, work.bytes_written), (1, bytes), "{shape:?}");
            if shape.0 % 32 == 0 && shape.1 % 32 == 0 {
                assert_eq!(work.bytes_read, 2 * bytes, "{shape:?}");
            }
        });
    }
}

#[run_by(Counted::everywhere, |counted|)]
fn several_transposed_arrays_of_several_types_are_read_by_one_kernel() {
    let shape = (45, 77);
    let x = matrix(shape);
    let (doubles, bytes) = (x.mapv(f64::from), x.mapv(|element| element as u8));
    let (longs, truths) = (x.mapv(|element| element as i64 * 3), x.mapv(|e| e > 2000.0));
    let on = counted.array(&x);
    let (d, b) = (counted.array(&doubles), counted.array(&bytes));
    let (l, t) = (counted.array(&longs), counted.array(&truths));
    let (found, work) = counted.region(|g| {
        let (x, d, b) = (g.array(&on), g.array(&d), g.array(&b));
        let (l, t) = (g.array(&l), g.array(&t));
        // One more than a kernel has tiles for.
        let sum = x.t().cast::<f64>() + d.t() * 2.0 + b.t().cast::<f64>();
        let sum = sum + l.t().cast::<f64>();
        t.t().where_cond(sum, x.t().cast::<f64>() - 1.0)
    });
    let expected = Array2::from_shape_fn((shape.1, shape.0), |(row, column)| {
        let at = [column, row];
        if truths[at] {
            doubles[at] * 3.0 + f64::from(bytes[at]) + longs[at] as f64
        } else {
            doubles[at] - 1.0
        }
    });
    assert_eq!(found, expected);
    assert_eq!(work.kernels, 1);
}

#[run_by(Counted::everywhere, |counted|)]
fn axes_between_and_before_the_transposed_ones_have_tiles_of_their_own() {
    let x = Array3::from_shape_fn((2, 40, 33), |(a, b, c)| (a * 10_000 + b * 100 + c) as f32);
    let y = Array4::from_shape_fn((34, 2, 3, 35), |(a, b, c, d)| {
        (a * 1000 + b * 300 + c * 100 + d) as i32
    });
    let (on_x, on_y) = (counted.array(&x), counted.array(&y));
    let (found, work) = counted.region(|g| {
        let (x, y) = (g.array(&on_x), g.array(&on_y));
        // The source of the second is computed, and its axes are reversed.
        let moved = (&y * 2 + 1).permuted_axes([3, 1, 2, 0]);
        (
            x.permuted_axes([0, 2, 1]) * 2.0,
            moved.slice(ndarray::s![..;-1, .., .., ..;-1]),
        )
    });
    assert_eq!(found.0, x.clone().permuted_axes([0, 2, 1]) * 2.0);
    let mut moved = (&y * 2 + 1).permuted_axes([3, 1, 2, 0]);
    moved.invert_axis(Axis(0));
    moved.invert_axis(Axis(3));
    assert_eq!(found.1, moved);
    assert_eq!(work.kernels, 2);
}

#[run_by(Counted::everywhere, |counted|)]
fn a_copy_of_a_transposed_array_reads_and_writes_each_element_once() {
    let x = matrix((96, 64));
    let on_x = counted.array(&x);
    let (found, work) = counted.work(|_| on_x.t().to_host().unwrap());
    assert_eq!(found, x.t());
    let bytes = 4 * 96 * 64;
    let expected = Work::of(1, bytes, bytes);
    assert_eq!(work, expected);
}

#[test]
fn parts_of_a_join_may_be_functions_of_a_transposed_array() {
    for shape in SHAPES {
        let x = matrix(shape);
        let parts = [&x.t() * 2.0, &x.t() + 1.0];
        let parts = parts.each_ref().map(|part| part.view());
        let joined = ndarray::concatenate(Axis(0), &parts).unwrap();
        Counted::everywhere(|counted| {
            let on_x = counted.array(&x);
            let parts = [on_x.t() * 2.0, on_x.t() + 1.0];
            let found = concatenate(Axis(0), &parts).unwrap().to_host();
            assert_eq!(found.unwrap(), joined, "{shape:?}");
        });
    }
}
