//! Functions of floats of 16 bits: of every operand, they give the rounded result of the function
//! of `f32`, and sums, differences and products of `f16` that of the exact one.

use half::{bf16, f16};
use millstream::{Device, Select};
use millstream_region::{Array, Float, RegionExt};
use ndarray::{Array1, Ix1};

/// Returns all bit patterns, in an order that makes pairs of any two.
fn patterns(factor: u32) -> Array1<u16> {
    (0..1 << 16)
        .map(|n: u32| n.wrapping_mul(factor) as u16)
        .collect()
}

/// Compares results, of which all NaN are equal.
fn assert_equal<T: Float>(what: &str, x: &Array1<T>, got: &Array1<T>, expected: &Array1<T>)
where
    f64: From<T>,
{
    let bits = |value: T| match f64::from(value) {
        number if number.is_nan() => None,
        number => Some(number.to_bits()),
    };
    let differ = |n: &usize| bits(got[*n]) != bits(expected[*n]);
    let first = (0..x.len()).find(differ);
    let first = first.map(|n| [x[n], got[n], expected[n]].map(f64::from));
    assert_eq!(
        first, None,
        "{what}: the operand, the result and the expected one"
    );
}

type Of<T> = fn(&Array<T, Ix1>) -> Array<T, Ix1>;

fn compare_with_singles<T: Float>(of_bits: fn(u16) -> T)
where
    f64: From<T>,
{
    let functions: [(&str, Of<T>, Of<f32>); 2] = [
        ("erf", Array::erf, Array::erf),
        ("tanh", Array::tanh, Array::tanh),
    ];
    let device = Device::open(Select::Auto).unwrap();
    let host = patterns(1).mapv(of_bits);
    for (name, of_half, of_single) in functions {
        let pending = device.region(|g| {
            let x = g.array(&host);
            (of_half(&x), of_single(&x.cast()).cast::<T>())
        });
        let (got, expected) = pending.unwrap().wait().unwrap();
        assert_equal(name, &host, &got, &expected);
    }
}

#[test]
fn functions_of_all_halves_are_those_of_singles_rounded() {
    compare_with_singles(f16::from_bits);
    compare_with_singles(bf16::from_bits);
}

#[test]
fn arithmetic_of_halves_is_rounded_once() {
    let device = Device::open(Select::Auto).unwrap();
    for factor in [1, 3, 40_503, 52_429] {
        let (x, y) = (
            patterns(1).mapv(f16::from_bits),
            patterns(factor).mapv(f16::from_bits),
        );
        let pending = device.region(|g| {
            let (x, y) = (g.array(&x), g.array(&y));
            (&x + &y, &x - &y, &x * &y)
        });
        let (sum, difference, product) = pending.unwrap().wait().unwrap();
        for (name, got, of) in [
            ("sum", sum, (|a, b| a + b) as fn(f64, f64) -> f64),
            ("difference", difference, |a, b| a - b),
            ("product", product, |a, b| a * b),
        ] {
            // `f16::from_f64` ignores low digits; rounding to `f32` before does no harm.
            let exact = |n: usize| f16::from_f32(of(x[n].to_f64(), y[n].to_f64()) as f32);
            assert_equal(name, &x, &got, &(0..x.len()).map(exact).collect());
        }
    }
}
