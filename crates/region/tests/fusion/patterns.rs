//! Kernels of whole steps of programs: the game of life, conjugate gradients, bodies under gravity,
//! and a layer of a network.

use millstream_region::ProductPrecision;
use ndarray::{ArrayView2, arr0};

use crate::fusion::prelude::*;

const SIDE: usize = 48;

/// A program with two results.
type Body = fn(&Array<f32, Ix2>) -> [Array<f32, Ix2>; 2];

/// Returns the size of so many elements of `f32`.
fn bytes(elements: usize) -> u64 {
    4 * elements as u64
}

fn matrix(rows: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, SIDE), |(row, column)| {
        ((row * 37 + column * 61) % 101) as f32 / 64.0 - 0.75
    })
}

/// Returns the part of an array of cells around which there are eight neighbours, moved by so many
/// rows and columns.
fn moved(x: &Array<f32, Ix2>, rows: isize, columns: isize) -> Array<f32, Ix2> {
    let end = SIDE as isize - 1;
    x.slice(s![1 + rows..end + rows, 1 + columns..end + columns])
}

/// Returns whether a cell lives, and how many neighbours do.
fn around(x: ArrayView2<'_, f32>, row: usize, column: usize) -> (bool, usize) {
    let all = x.slice(s![row - 1..=row + 1, column - 1..=column + 1]);
    let own = x[[row, column]] == 1.0;
    (
        own,
        all.iter().filter(|&&cell| cell == 1.0).count() - usize::from(own),
    )
}

#[run_by(Counted::everywhere, |counted|)]
fn a_step_of_the_game_of_life_is_one_kernel() {
    let host = matrix(SIDE).mapv(|x| if x > 0.1 { 1.0 } else { 0.0 });
    let mut expected = host.clone();
    for row in 1..SIDE - 1 {
        for column in 1..SIDE - 1 {
            let (lives, neighbours) = around(host.view(), row, column);
            let stays = neighbours == 3 || (lives && neighbours == 2);
            expected[[row, column]] = if stays { 1.0 } else { 0.0 };
        }
    }
    let x = counted.array(&host);
    let (found, work) = counted.region(|g| {
        let x = g.array(&x);
        let others = [(-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)];
        let first = moved(&x, -1, -1);
        let neighbours =
            (others.iter()).fold(first, |sum, &(row, column)| sum + moved(&x, row, column));
        let survives = neighbours.equal(2.0) & moved(&x, 0, 0).equal(1.0);
        let lives = neighbours.equal(3.0) | survives;
        let mut next = x.clone();
        let mut inner = next.slice_mut(s![1..SIDE - 1, 1..SIDE - 1]);
        inner.assign(&lives.cast::<f32>());
        next
    });
    assert_eq!(found, expected);
    assert_eq!((work.kernels, work.bytes_written), (1, bytes(SIDE * SIDE)));
}

/// The product, the sum over it, two vectors with the sum over one of them, and the last vector.
/// Quotients of sums are computed where they are used.
#[run_by(Counted::everywhere, |counted|)]
fn a_step_of_conjugate_gradients_is_four_kernels() {
    let line = Array1::from_shape_fn(SIDE, |at| (at % 7) as f32 / 4.0 - 0.5);
    let a = counted.array(&matrix(SIDE));
    let [p, r, x] = [1.0, 2.0, 3.0].map(|scale| counted.array(&(&line * scale)));
    let before = counted.array(&arr0(1.5_f32));
    let (_, work) = counted.region(|g| {
        let (a, p, r, x) = (g.array(&a), g.array(&p), g.array(&r), g.array(&x));
        let before = g.array(&before);
        let q = a.dot(&p);
        let alpha = &before / &(&p * &q).sum();
        let x = &x + &(&p * &alpha);
        let r = &r - &(&q * &alpha);
        let after = (&r * &r).sum();
        let p = &r + &(&p * &(&after / &before));
        (Keep(x), Keep(r), Keep(p), Keep(after))
    });
    assert_eq!(work.kernels, 4, "{work:?}");
    // Four vectors and two sums.
    assert_eq!(work.bytes_written, bytes(4 * SIDE + 2));
}

/// The distances, and the sums over them with the velocities and the positions.
#[run_by(Counted::everywhere, |counted|)]
fn a_step_of_bodies_under_gravity_is_two_kernels() {
    let (places, speeds) = (matrix(3), matrix(3) * 0.5);
    let [p, v] = [&places, &speeds].map(|x| counted.array(x));
    let (_, work) = counted.region(|g| {
        let (p, v) = (g.array(&p), g.array(&v));
        let all = (3, SIDE, SIDE);
        let others = p.insert_axis(Axis(1)).broadcast(all);
        let apart = others - &p.insert_axis(Axis(2)).broadcast(all);
        let squares = apart.pow2().sum_axis(Axis(0)) + 1e-3;
        let cubes = 1.0 / (&squares * &squares.sqrt());
        let pull = &apart * &cubes.insert_axis(Axis(0)).broadcast(all);
        let v = &v + &(pull.sum_axis(Axis(2)) * 0.01);
        (Keep(&p + &(&v * 0.01)), Keep(v))
    });
    let written = bytes(SIDE * SIDE + 2 * 3 * SIDE);
    assert_eq!((work.kernels, work.bytes_written), (2, written), "{work:?}");
}

/// A product in another precision is another value, also where the plan is recalled.
#[run_by(Counted::everywhere, |counted|)]
fn products_of_two_precisions_are_two_kernels() {
    let x = counted.array(&matrix(SIDE));
    for _ in 0..4 {
        let (_, work) = counted.region(|g| {
            let x = g.array(&x);
            let in_tf32 = x.dot_with(&x, ProductPrecision::Tf32);
            (Keep(x.dot(&x)), Keep(in_tf32), Keep(x.matmul(&x)))
        });
        assert_eq!(work.kernels, 2, "{work:?}");
    }
}

/// The product of two other matrices, a residual, is read like other arrays.
#[run_by(Counted::everywhere, |counted|)]
fn products_with_a_residual_are_two_kernels() {
    let x = counted.array(&matrix(SIDE));
    let (_, work) = counted.region(|g| {
        let x = g.array(&x);
        let column = x.column(0).insert_axis(Axis(1));
        Keep(x.dot(&x) * 0.5 + &column + &x.dot(&x.t()))
    });
    let written = bytes(2 * SIDE * SIDE);
    assert_eq!((work.kernels, work.bytes_written), (2, written), "{work:?}");
}

/// The kernel that sums the partial products computes the epilogue.
#[run_by(Counted::everywhere, |counted|)]
fn a_split_product_with_an_epilogue_is_two_kernels() {
    let host = Array2::from_shape_fn((8, 1100), |(row, column)| (row + column) as f32 / 64.0);
    let x = counted.array(&host);
    let (_, work) = counted.region(|g| {
        let x = g.array(&x);
        Keep((x.dot(&x.t()) - 3.0).relu())
    });
    // Partial products of two ranges, and the results.
    assert_eq!((work.kernels, work.bytes_written), (2, bytes(3 * 8 * 8)));
}

/// A product that is a result itself, that two kernels use, or that is read transposed is stored.
#[run_by(Counted::everywhere, |counted|)]
fn a_product_that_is_needed_elsewhere_is_stored() {
    let x = counted.array(&matrix(SIDE));
    let kernels = |body: Body| {
        let (_, work) = counted.region(|g| {
            let [one, two] = body(&g.array(&x));
            (Keep(one), Keep(two))
        });
        work.kernels
    };
    let requested = kernels(|x| {
        let product = x.dot(x);
        [&product + 1.0, product]
    });
    let turned = kernels(|x| {
        let product = x.dot(x);
        [&product + &product.t(), x + 1.0]
    });
    assert_eq!((requested, turned), (2, 3));
}

/// Both results read the same array, so that one kernel computes them, which reads the product.
#[run_by(Counted::everywhere, |counted|)]
fn a_function_of_a_product_stays_with_its_siblings() {
    let x = counted.array(&matrix(SIDE));
    let (_, work) = counted.region(|g| {
        let x = g.array(&x);
        (Keep(&x * 2.0), Keep(x.dot(&x) + &x))
    });
    let written = bytes(3 * SIDE * SIDE);
    assert_eq!((work.kernels, work.bytes_written), (2, written), "{work:?}");
}

/// Two sums over all but the channels, each computed once for a channel, and the result: the
/// deviations are computed for the variance and again for the result.
#[run_by(Counted::everywhere, |counted|)]
fn a_normalisation_of_channels_is_three_kernels() {
    let shape = (6, 5, 50);
    let host = Array3::from_shape_fn(shape, |(i, j, k)| ((i + 2 * j + 3 * k) % 7) as f32);
    let x = counted.array(&host);
    let (_, work) = counted.region(|g| {
        let x = g.array(&x);
        let axes = [Axis(0), Axis(2)];
        let apart = &x - x.mean_keepdims(&axes);
        let variance = apart.pow2().mean_keepdims(&axes);
        apart / (variance + 1e-5).sqrt()
    });
    assert_eq!(
        (work.kernels, work.bytes_written),
        (3, bytes(host.len() + 2 * 5))
    );
}

/// The greatest, the sum of powers, and the powers again with their division: the functions for an
/// element take no longer than a write and a read.
#[run_by(Counted::everywhere, |counted|)]
fn a_softmax_of_columns_is_three_kernels_that_store_no_powers() {
    let x = counted.array(&matrix(SIDE));
    let (_, work) = counted.region(|g| {
        let x = g.array(&x);
        let powers = (&x - x.max_keepdims(&[Axis(0)])).exp();
        &powers / powers.sum_keepdims(&[Axis(0)])
    });
    assert_eq!(work.kernels, 3);
    // The result, the extrema and the sums, with the parts of these.
    assert!(work.bytes_written < bytes(3 * SIDE * SIDE / 2), "{work:?}");
}
