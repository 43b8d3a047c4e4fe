//! Random results over common inputs, in kernels with several outputs and with each value stored:
//! the bits must be the same.

use crate::fusion::prelude::*;

/// The results of a program: arrays of the inputs' shape, reductions of all elements or of columns,
/// and one that depends on other results.
type Results = (
    Array<f32, Ix2>,
    Array<f32, Ix2>,
    Array<f32, Ix2>,
    Array<f32, Ix1>,
    Array<f32, Ix1>,
    Array<f32, Ix1>,
);

/// Computes random functions of two arrays. `cut` stores each value, or does nothing.
fn program(
    (x, y): (&Array<f32, Ix2>, &Array<f32, Ix2>),
    seed: u64,
    cut: &dyn Fn(&Array<f32, Ix2>),
) -> Results {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let mut all = vec![x.clone(), y.clone()];
    for _ in 0..4 + below(random, 10) {
        let [a, b] = [0; 2].map(|_| all[below(random, all.len())].clone());
        let next = match below(random, 9) {
            0 => &a + &b,
            1 => &a * 0.75,
            2 => (&a - &b).tanh(),
            3 => &a + &b.slice(s![..;-1, ..]),
            4 => &a - &b.sum(),
            5 => &a * &b.max_axis(Axis(0)),
            6 => a.greater(&b).where_cond(&b, 0.25),
            7 => &a + &b.slice(s![.., 1..2]),
            _ => a.minimum(&b).exp(),
        };
        cut(&next);
        all.push(next);
    }
    let mut pick = || all[all.len() - 1 - below(random, all.len().min(6))].clone();
    let (p, q, r) = (pick(), pick(), pick());
    let (axis, other) = (Axis(usize::from(seed.is_multiple_of(4))), pick());
    let (sum, most) = (p.sum_axis(axis), other.max_axis(axis) * 0.5);
    let scaled = (&sum * 0.125).tanh() + &q.min_axis(axis);
    (p, q, r, sum, most, scaled)
}

/// The elements of a program's results.
type Elements = ([Array2<f32>; 3], [Array1<f32>; 3]);

fn together(device: &Device, hosts: [&Array2<f32>; 2], seed: u64) -> Elements {
    let pending = device.region(|region| {
        let [x, y] = hosts.map(|host| region.array(host));
        program((&x, &y), seed, &|_| {})
    });
    let found = pending.unwrap().wait().unwrap();
    ([found.0, found.1, found.2], [found.3, found.4, found.5])
}

fn one_by_one(device: &Device, hosts: [&Array2<f32>; 2], seed: u64) -> Elements {
    let [x, y] = hosts.map(|host| Array::from_host(device, host).unwrap());
    let cut = |array: &Array<f32, Ix2>| drop(array.to_host().unwrap());
    let found = program((&x, &y), seed, &cut);
    (
        [found.0, found.1, found.2].map(|array| array.to_host().unwrap()),
        [found.3, found.4, found.5].map(|array| array.to_host().unwrap()),
    )
}

fn check(counted: &Counted, seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(!seed);
    let shapes = [(7, 5), (40, 3), (130, 8), (3, 200), (70, 64), (260, 140)];
    let shape = shapes[below(random, shapes.len())];
    let mut host =
        || Array2::from_shape_simple_fn(shape, || below(random, 512) as f32 / 256.0 - 1.0);
    let (x, y) = (host(), host());
    let found = together(&counted.device, [&x, &y], seed);
    let stored = one_by_one(&counted.device, [&x, &y], seed);
    let what = format!("{shape:?}, MILLSTREAM_SEED={seed}");
    for (found, stored) in found.0.iter().zip(&stored.0) {
        assert_eq!(
            found.mapv(f32::to_bits),
            stored.mapv(f32::to_bits),
            "{what}"
        );
    }
    for (found, stored) in found.1.iter().zip(&stored.1) {
        assert_eq!(
            found.mapv(f32::to_bits),
            stored.mapv(f32::to_bits),
            "{what}"
        );
    }
}

#[test]
fn random_results_of_common_inputs_give_the_bits_of_stored_values() {
    Counted::somewhere(|counted| seeds(10).for_each(|seed| check(counted, seed)));
}
