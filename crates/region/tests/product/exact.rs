//! Reference sums of products, in plain Rust and with more precision than the kernels.

use std::fmt::Display;

use bytemuck::Pod;
use half::{bf16, f16};
use millstream_region::Number;
use rand_core::RngCore;

/// A numeric type under test.
pub(crate) trait Case: Number + Pod + Send + Sync {
    /// The filler between the elements of a factor: a kernel that adds it gets a wrong sum.
    const JUNK: Self;

    fn random(rng: &mut dyn RngCore) -> Self;

    /// Describes the error of `found` as the sum of these products, each rounded at most
    /// `roundings` times.
    fn describe_error(products: &[(Self, Self)], roundings: f64, found: Self) -> Option<String>;
}

/// Returns the maximum number of roundings per element, as documented in `product`.
pub(crate) fn roundings(k: usize) -> f64 {
    k.min(128 + k.div_ceil(128)) as f64
}

/// Returns the rounded sum of two numbers and its exact error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Returns the distance of `found` from the sum of products, computed in twice the precision of
/// `f64`, and the sum of their magnitudes.
fn distance(products: impl Iterator<Item = (f64, f64)>, found: f64) -> (f64, f64) {
    let (mut high, mut low, mut magnitudes) = (0.0, 0.0, 0.0);
    for (a, b) in products {
        let product = a * b;
        let (sum, error) = two_sum(high, product);
        high = sum;
        low += error + a.mul_add(b, -product);
        magnitudes += product.abs();
    }
    (((high - found) + low).abs(), magnitudes)
}

/// Returns a random number of either sign, with a magnitude over several powers of two.
fn random_f64(rng: &mut dyn RngCore) -> f64 {
    let fraction = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
    fraction * f64::from(1 << (rng.next_u32() % 8))
}

/// Describes the error of a sum that is off by more than its roundings allow: those of relative
/// error `unit` altogether, and a last one.
fn describe_float_error<T: Copy + Into<f64> + Display>(
    products: &[(T, T)],
    found: T,
    unit: f64,
    of_rounding: f64,
) -> Option<String> {
    let pairs = products.iter().map(|&(a, b)| (a.into(), b.into()));
    let (distance, magnitudes) = distance(pairs, found.into());
    // The exact bound, with the terms in u² that the documentation leaves out.
    let bound = unit / (1.0 - unit) * magnitudes + of_rounding;
    // This also rejects NaN.
    let within = distance <= bound;
    (!within).then(|| format!("{found} is {distance:e} off, of {bound:e} allowed"))
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Case for $float {
            const JUNK: Self = <$float>::NAN;

            fn random(rng: &mut dyn RngCore) -> Self {
                random_f64(rng) as $float
            }

            fn describe_error(
                products: &[(Self, Self)],
                roundings: f64,
                found: Self,
            ) -> Option<String> {
                let unit = roundings * f64::from(<$float>::EPSILON) / 2.0;
                describe_float_error(products, found, unit, 0.0)
            }
        }
    )*};
}
floats!(f32, f64);

/// Floats of 16 bits, with this number as the distance between the subnormal ones. Sums are rounded
/// as `f32` and then once to the type.
macro_rules! half_floats {
    ($($half:ty: $smallest:expr;)*) => {$(
        impl Case for $half {
            const JUNK: Self = <$half>::NAN;

            fn random(rng: &mut dyn RngCore) -> Self {
                <$half>::from_f64(random_f64(rng))
            }

            fn describe_error(
                products: &[(Self, Self)],
                roundings: f64,
                found: Self,
            ) -> Option<String> {
                // The last rounding: half a unit of the number found, or half a subnormal one.
                let unit = f64::from(<$half>::EPSILON) / 2.0;
                let of_rounding = (unit * f64::from(found).abs()).max($smallest / 2.0);
                let unit = roundings * f64::from(f32::EPSILON) / 2.0;
                describe_float_error(products, found, unit, of_rounding)
            }
        }
    )*};
}
half_floats! {
    f16: f64::from(f16::from_bits(1));
    bf16: f64::from(bf16::from_bits(1));
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Case for $integer {
            const JUNK: Self = 77;

            fn random(rng: &mut dyn RngCore) -> Self {
                rng.next_u64() as $integer
            }

            fn describe_error(products: &[(Self, Self)], _: f64, found: Self) -> Option<String> {
                let sum = products
                    .iter()
                    .fold(0, |sum: $integer, (a, b)| sum.wrapping_add(a.wrapping_mul(*b)));
                (sum != found).then(|| format!("{found} instead of {sum}"))
            }
        }
    )*};
}
integers!(i32, i64, u8);
