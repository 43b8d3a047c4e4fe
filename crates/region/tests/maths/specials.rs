//! Special values: NaNs, infinities, signed zeros and the ends of the range give the host's
//! results.

use std::{
    fmt::{Debug, LowerExp},
    hint::black_box,
};

use millstream_region::{Array, RegionExt};
use ndarray::{Array1, Ix1};

use crate::maths::{
    device,
    functions::{ONE, TWO},
    measure::{Ranked, Worst, assert_within_limits},
    points,
};

const MAGNITUDES: [f64; 16] = [
    0.0,
    0.3,
    0.5,
    0.75,
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
    7.0,
    1000.0,
    1001.0,
    16_777_215.0,
    1e30,
    f64::INFINITY,
    f64::NAN,
];

/// Returns numbers of single precision with both signs, including the ends of its range.
fn singles() -> Vec<f32> {
    let ends = [
        1e-45,
        3e-45,
        f32::MIN_POSITIVE,
        f32::MIN_POSITIVE.next_down(),
        f32::MAX,
    ];
    let magnitudes = MAGNITUDES.iter().map(|x| *x as f32).chain(ends);
    magnitudes.flat_map(|x| [x, -x]).collect()
}

fn doubles() -> Vec<f64> {
    let ends = [
        5e-324,
        1e-323,
        f64::MIN_POSITIVE,
        f64::MIN_POSITIVE.next_down(),
        f64::MAX,
        9_007_199_254_740_991.0,
    ];
    MAGNITUDES
        .iter()
        .copied()
        .chain(ends)
        .flat_map(|x| [x, -x])
        .collect()
}

fn square<T: Copy>(numbers: &[T]) -> (Vec<T>, Vec<T>) {
    numbers
        .iter()
        .flat_map(|x| numbers.iter().map(|y| (*x, *y)))
        .unzip()
}

/// Compares a function's results with those of the host.
fn compare<P: Debug, R: Copy + Into<Ranked> + LowerExp>(
    operands: impl IntoIterator<Item = P>,
    results: Vec<R>,
    host: impl Fn(&P) -> R,
) -> Worst {
    let mut worst = Worst::default();
    for (operands, got) in operands.into_iter().zip(results) {
        let host = host(&operands);
        worst.record(got.into(), host.into(), 0.0, || {
            format!("{operands:?}: {got:e}, on the host {host:e}")
        });
    }
    worst
}

#[test]
fn special_values_of_one_operand_match_the_host() {
    let (singles, doubles) = (singles(), doubles());
    assert_within_limits(ONE.iter().flat_map(|function| {
        let got = device::one(function.single, &singles);
        let single = compare(&singles, got, |x| (function.host_single)(**x));
        let got = device::one(function.double, &doubles);
        let double = compare(&doubles, got, |x| (function.reference)(**x));
        // The host's function may be off by one unit, too.
        [
            single.check_limit(function.single, function.limits.0 + 1),
            double.check_limit(function.double, function.limits.1 + 1),
        ]
    }));
}

#[test]
fn special_values_of_two_operands_match_the_host() {
    let (a, b) = square(&singles());
    let (x, y) = square(&doubles());
    assert_within_limits(TWO.iter().flat_map(|function| {
        let got = device::two(function.single, &a, &b);
        let single = compare(a.iter().zip(&b), got, |(a, b)| {
            (function.host_single)(**a, **b)
        });
        let got = device::two(function.double, &x, &y);
        let double = compare(x.iter().zip(&y), got, |(x, y)| {
            (function.reference)(**x, **y)
        });
        [
            single.check_limit(function.single, function.limits.0 + 1),
            double.check_limit(function.double, function.limits.1 + 1),
        ]
    }));
}

/// Powers by some values are computed by quotients, products and roots.
#[test]
fn powers_by_usual_values_are_as_accurate_as_others() {
    let device = millstream::Device::simulated().unwrap();
    let singles = [singles(), points::patterns(0..1 << 32, 40_009)].concat();
    let (on_host, wide_on_host) = (Array1::from(singles), Array1::from(doubles()));
    for exponent in [-2.0, -1.5, -1.0, -0.5, 0.5, 2.0, 3.0] {
        let found = device.region(|g| {
            let (x, y) = (g.array(&on_host), g.array(&wide_on_host));
            (x.powf(exponent as f32), y.powf(exponent))
        });
        let (single, double) = found.unwrap().wait().unwrap();
        let single = compare(&on_host, single.to_vec(), |x| {
            f64::from(**x).powf(exponent) as f32
        });
        let double = compare(&wide_on_host, double.to_vec(), |x| x.powf(exponent));
        let name = format!("powf({exponent})");
        assert_within_limits([single.check_limit(&name, 2), double.check_limit(&name, 3)]);
    }
}

/// Kernels of regions contain the instructions of short functions in place of a call.
#[test]
fn functions_in_place_give_the_bits_of_calls() {
    let device = millstream::Device::simulated().unwrap();
    let x = Array1::from([singles(), points::patterns(0..1 << 32, 400_009)].concat());
    type InPlace = fn(&Array<f32, Ix1>) -> Array<f32, Ix1>;
    let functions: [(&'static str, InPlace); 14] = [
        ("ms_exp_f32", |x| x.exp()),
        ("ms_exp2_f32", |x| x.exp2()),
        ("ms_exp_m1_f32", |x| x.exp_m1()),
        ("ms_ln_f32", |x| x.ln()),
        ("ms_ln_1p_f32", |x| x.ln_1p()),
        ("ms_log2_f32", |x| x.log2()),
        ("ms_log10_f32", |x| x.log10()),
        ("ms_asin_f32", |x| x.asin()),
        ("ms_acos_f32", |x| x.acos()),
        ("ms_atan_f32", |x| x.atan()),
        ("ms_cosh_f32", |x| x.cosh()),
        ("ms_tanh_f32", |x| x.tanh()),
        ("ms_erf_f32", |x| x.erf()),
        ("ms_sigmoid_f32", |x| x.sigmoid()),
    ];
    for (name, in_place) in functions {
        let found = device.region(|g| in_place(&g.array(&x)));
        let called: Vec<f32> = device::one(name, x.as_slice().unwrap());
        for ((x, found), called) in x.iter().zip(found.unwrap().wait().unwrap()).zip(called) {
            let is_same = found.to_bits() == called.to_bits() || found.is_nan() && called.is_nan();
            assert!(is_same, "{name}({x:e}): {found:e}, called {called:e}");
        }
    }
}

#[test]
fn integer_powers_match_the_host_to_the_bit() {
    let exponents = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        10,
        -10,
        31,
        100,
        -127,
        1000,
        -1001,
        i32::MAX,
        i32::MIN,
    ];
    let bases: Vec<f64> = doubles()
        .into_iter()
        .chain([1.000_001, 0.999_9, -1.01, 1.1e-5, 123.456])
        .collect();
    let (x, n): (Vec<f64>, Vec<i32>) = bases
        .iter()
        .flat_map(|x| exponents.map(|n| (*x, n)))
        .unzip();
    let narrow: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let got = device::two("ms_powi_f64", &x, &n);
    let double = compare(x.iter().zip(&n), got, |(x, n)| {
        black_box(**x).powi(black_box(**n))
    });
    let got = device::two("ms_powi_f32", &narrow, &n);
    let single = compare(narrow.iter().zip(&n), got, |(x, n)| {
        black_box(**x).powi(black_box(**n))
    });
    assert_within_limits([
        double.check_limit("ms_powi_f64", 0),
        single.check_limit("ms_powi_f32", 0),
    ]);
}
