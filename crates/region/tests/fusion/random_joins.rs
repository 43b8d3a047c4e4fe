//! Random joins, slices and updates of each other, in few kernels and with each value stored: the
//! bits must be the same.

use millstream_region::{concatenate, stack};

use crate::fusion::prelude::*;

type Matrix = Array<f32, Ix2>;

/// The greatest number of elements of a value that a larger one is made of.
const ELEMENTS_MAX: usize = 600;

/// Returns the start and the end of a random part of an axis, sometimes without elements.
fn part(random: &mut Pcg64Mcg, length: usize) -> (isize, isize) {
    let start = below(random, length + 1);
    let end = start + below(random, length - start + 1);
    (start as isize, end as isize)
}

/// Replaces a random part of a matrix, or a row or a column of it.
fn update(random: &mut Pcg64Mcg, x: &mut Matrix, values: &Matrix) {
    let (rows, columns) = x.dim();
    let ((top, bottom), (left, right)) = (part(random, rows), part(random, columns));
    let mut area = match below(random, 3) {
        0 => x.slice_mut(s![top..bottom, left..right]),
        1 if rows > 0 => x.slice_mut(s![..1, ..]),
        _ => x.slice_mut(s![.., left..right;2]),
    };
    let shape = area.get().dim();
    match below(random, 3) {
        0 => area.fill(below(random, 100) as f32),
        1 => area *= 0.5,
        _ if shape.0 <= values.dim().0 && shape.1 <= values.dim().1 => {
            let (rows, columns) = (shape.0 as isize, shape.1 as isize);
            area.assign(&(values.slice(s![..rows, ..columns]) + 3.0));
        }
        _ => area += 1.0,
    }
}

/// Returns a function of two matrices, of which the first has elements.
fn step(random: &mut Pcg64Mcg, a: &Matrix, b: &Matrix) -> Matrix {
    let (rows, columns) = a.dim();
    let is_small = a.len() + b.len() <= ELEMENTS_MAX;
    let axis = below(random, 2);
    let half = a.shape()[axis] as isize / 2;
    let halves = match axis {
        0 => (a.slice(s![..half, ..]), a.slice(s![half..2 * half, ..])),
        _ => (a.slice(s![.., ..half]), a.slice(s![.., half..2 * half])),
    };
    let other = Axis(below(random, 2));
    match below(random, 9) {
        0 | 1 if is_small => {
            let (a, b) = (halves.0, halves.1);
            concatenate(other, &[&a + &b, (&a - &b) * 0.5, &a * &b]).unwrap()
        }
        2 => concatenate(Axis(axis), &[&halves.1 * 2.0, halves.0.clone()]).unwrap(),
        3 if is_small && a.dim() == b.dim() => {
            let all = stack(other, &[a.tanh(), a - b]).unwrap();
            all.into_shape_with_order((2 * rows, columns))
        }
        4 if is_small && a.shape()[1 - axis] == b.shape()[1 - axis] => {
            concatenate(Axis(axis), &[a.clone(), b + 1.0, halves.0]).unwrap()
        }
        5 => a.t().to_owned(),
        6 => a - &(a.sum_keepdims(&[other]) * 0.125),
        7 => a * 0.75 + 1.0,
        _ => {
            let mut x = a.clone();
            for _ in 0..1 + below(random, 6) {
                update(random, &mut x, b);
            }
            x
        }
    }
}

/// Computes random functions of two arrays. `cut` stores each value, or does nothing.
fn program((x, y): (&Matrix, &Matrix), seed: u64, cut: &dyn Fn(&Matrix)) -> [Matrix; 4] {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let mut all = vec![x.clone(), y.clone()];
    for _ in 0..3 + below(random, 12) {
        let newest = all.len() - 1;
        let a = all[newest - below(random, all.len().min(3))].clone();
        let b = all[below(random, all.len())].clone();
        let next = step(random, &a, &b);
        if !next.is_empty() {
            cut(&next);
            all.push(next);
        }
    }
    let mut pick = || all[all.len() - 1 - below(random, all.len().min(5))].clone();
    let (p, q, r, moments) = (pick(), pick(), pick(), pick());
    let axis = Axis(usize::from(seed.is_multiple_of(3)));
    let moments = [moments.mean_axis(axis), moments.var_axis(axis, 0.0)];
    [p, q, r, stack(axis, &moments).unwrap()]
}

fn check(counted: &Counted, seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(!seed);
    let shapes = [(8, 8), (1, 32), (6, 5), (16, 4), (3, 40), (2, 2)];
    let shape = shapes[below(random, shapes.len())];
    let mut host =
        || Array2::from_shape_simple_fn(shape, || below(random, 512) as f32 / 256.0 - 1.0);
    let (x, y) = (host(), host());
    let pending = counted.device.region(|region| {
        let [p, q, r, s] = program((&region.array(&x), &region.array(&y)), seed, &|_| {});
        (p, q, r, s)
    });
    let found = pending.unwrap().wait().unwrap();
    let on_device = (counted.array(&x), counted.array(&y));
    let cut = |array: &Matrix| drop(array.to_host().unwrap());
    let stored = program((&on_device.0, &on_device.1), seed, &cut);
    for (found, stored) in [found.0, found.1, found.2, found.3].iter().zip(&stored) {
        assert_eq!(
            found.mapv(f32::to_bits),
            stored.to_host().unwrap().mapv(f32::to_bits),
            "{shape:?}, MILLSTREAM_SEED={seed}"
        );
    }
}

#[test]
fn random_joins_and_updates_give_the_bits_of_stored_values() {
    Counted::somewhere(|counted| seeds(30).for_each(|seed| check(counted, seed)));
}
