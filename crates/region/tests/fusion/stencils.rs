//! Stencils of functions: computed for each position that they read, or once for each element of a
//! tile in shared memory.

use crate::fusion::prelude::*;

/// The five positions of a star, with the middle first.
const STAR: [(usize, usize); 5] = [(1, 1), (1, 0), (1, 2), (0, 1), (2, 1)];

type Map = fn(&Array<f32, Ix2>) -> Array<f32, Ix2>;

fn matrix((rows, columns): (usize, usize)) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        ((row * 37 + column * 61) % 101) as f32 / 64.0 - 0.75
    })
}

/// Returns the sum of an array at some positions around each inner element.
fn stencil(values: &Array<f32, Ix2>, places: &[(usize, usize)]) -> Array<f32, Ix2> {
    let &[rows, columns] = values.shape() else {
        panic!("a matrix has two axes");
    };
    let parts = places
        .iter()
        .map(|&(row, column)| values.slice(s![row..row + rows - 2, column..column + columns - 2]));
    parts.reduce(|sum, part| sum + part).unwrap()
}

fn of_stored(values: &Array<f32, Ix2>, places: &[(usize, usize)]) -> Array2<f32> {
    drop(values.to_host().unwrap());
    stencil(values, places).to_host().unwrap()
}

/// A stencil computes its function at each of the positions while that takes no longer than to
/// store the results and to read them, and else once for each element that a block reads.
#[test]
fn a_stencil_of_few_exponentials_is_one_kernel() {
    const SIDE: usize = 40;
    let host = matrix((SIDE, SIDE));
    let (exp, sin): (Map, Map) = (|x| x.exp(), |x| x.sin());
    // A block of 256 threads reads 66 by 18 elements for 64 by 16 results, in five turns.
    let of_tiles = 4 * 3 * 5 * 256;
    let of_each = |count: u64| 4 * count * ((SIDE - 2) * (SIDE - 2)) as u64;
    for (map, count, bytes_read) in [
        (exp, 2, of_each(2)),
        (exp, 3, of_each(3)),
        (exp, 5, of_tiles),
        (sin, 5, of_tiles),
    ] {
        Counted::everywhere(|counted| {
            let x = counted.array(&host);
            let places = &STAR[..count];
            let (found, work) = counted.work(|_| stencil(&map(&x), places).to_host().unwrap());
            let expected = Work::of(1, bytes_read, 4 * ((SIDE - 2) * (SIDE - 2)) as u64);
            assert_eq!(work, expected, "{count}");
            assert_eq!(found, of_stored(&map(&x), places));
        });
    }
}

/// A block of 256 threads reads 66 by 18 elements for 64 by 16 results, in five turns, in the last
/// of which some threads read the last element again.
#[run_by(Counted::everywhere, |counted|)]
fn a_star_of_exponentials_takes_two_passes_and_edges() {
    let host = matrix((258, 258));
    let x = counted.array(&host);
    let (found, work) = counted.work(|_| stencil(&x.exp(), &STAR).to_host().unwrap());
    let expected = Work::of(1, 4 * 4 * 16 * 5 * 256, 4 * 256 * 256);
    assert_eq!(work, expected);
    assert_eq!(found, of_stored(&x.exp(), &STAR));
}

/// Lines have tiles of 1,024 elements, for which a block reads 1,028.
#[run_by(Counted::everywhere, |counted|)]
fn a_stencil_of_a_line_is_one_kernel() {
    let host = Array1::from_shape_fn(4100, |at| (at % 83) as f32 / 64.0);
    let shifted = |x: &Array<f32, Ix1>| {
        let parts = (0..5).map(|start| x.slice(s![start..start + 4096]));
        parts.reduce(|sum, part| sum + part).unwrap()
    };
    let x = counted.array(&host);
    let (found, work) = counted.work(|_| shifted(&x.exp()).to_host().unwrap());
    let expected = Work::of(1, 4 * 4 * 5 * 256, 4 * 4096);
    assert_eq!(work, expected);
    let values = x.exp();
    drop(values.to_host().unwrap());
    assert_eq!(found, shifted(&values).to_host().unwrap());
}

/// Asserts the number of kernels of a function of a matrix.
#[track_caller]
fn assert_kernels(kernels: usize, shape: (usize, usize), body: Map) {
    let host = matrix(shape);
    Counted::everywhere(|counted| {
        let x = counted.array(&host);
        let (_, work) = counted.work(|_| body(&x).to_host().unwrap());
        assert_eq!(work.kernels, kernels, "{work:?}");
    });
}

#[test]
fn a_function_that_something_else_reads_is_stored() {
    // It is a result itself.
    let host = matrix((40, 40));
    Counted::everywhere(|counted| {
        let x = counted.array(&host);
        let (_, work) = counted.region(|g| {
            let values = g.array(&x).exp();
            (stencil(&values, &STAR), values)
        });
        assert_eq!(work.kernels, 2, "{work:?}");
    });
    // The kernel of a sum, which stores it, needs it too.
    assert_kernels(2, (40, 40), |x| {
        let values = x.exp();
        stencil(&values, &STAR) * values.sum()
    });
}

#[test]
fn a_function_that_is_read_otherwise_than_by_shifts_is_stored() {
    // In another order.
    assert_kernels(2, (40, 40), |x| {
        let values = x.exp();
        stencil(&values, &STAR) + stencil(&values.slice(s![.., ..;-1]), &STAR)
    });
    // At distances greater than a tile.
    assert_kernels(2, (4, 6000), |x| {
        let values = x.exp();
        let parts = [0, 300, 600, 900, 1200].map(|start| values.slice(s![.., start..start + 4800]));
        parts.into_iter().reduce(|sum, part| sum + part).unwrap()
    });
}

/// Tiles have two axes.
#[run_by(Counted::everywhere, |counted|)]
fn a_star_along_three_axes_is_two_kernels() {
    let host = Array3::from_shape_fn((20, 20, 20), |(a, b, c)| ((a * 7 + b * 5 + c) % 31) as f32);
    let x = counted.array(&host);
    let (_, work) = counted.work(|_| {
        let values = x.exp();
        let part =
            |(a, b, c): (usize, usize, usize)| values.slice(s![a..a + 18, b..b + 18, c..c + 18]);
        let places = [(1, 1, 1), (0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 1, 0)];
        let parts = places.map(part).into_iter();
        parts
            .reduce(|sum, part| sum + part)
            .unwrap()
            .to_host()
            .unwrap()
    });
    assert_eq!(work.kernels, 2, "{work:?}");
}

/// Each kernel computes two steps: the function of the first in shared memory, and of the second
/// for the next kernel. The last reads the function of the last step.
#[run_by(Counted::everywhere, |counted|)]
fn six_steps_of_a_stencil_are_four_kernels() {
    let host = matrix((40, 75));
    let x = counted.array(&host);
    let step = |x: &Array<f32, Ix2>| stencil(&(x * 0.1).exp(), &STAR) * 0.2;
    let (found, work) = counted.work(|_| {
        let result = (0..6).fold(x.clone(), |x, _| step(&x));
        result.to_host().unwrap()
    });
    assert_eq!(work.kernels, 4, "{work:?}");
    let expected = (0..6).fold(x, |x, _| {
        let step = step(&x);
        drop(step.to_host().unwrap());
        step
    });
    assert_eq!(found, expected.to_host().unwrap());
}
