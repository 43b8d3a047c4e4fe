//! `f16` and `bf16`: roundings of casts, functions and random numbers, fused and unfused, and sums
//! in wider types.

use millstream_region::region;

use crate::differential::{host_element::CastFrom, prelude::*, value::Exact};

trait Half:
    Float
    + Number
    + Exact
    + CastFrom<f64>
    + CastFrom<f32>
    + CastFrom<u64>
    + CastFrom<i64>
    + CastFrom<i32>
{
    /// The distance from 1 to the next number.
    const EPSILON: f64;
    /// The maximum of numbers on the host whose functions are compared.
    const LARGE: f32;
    fn of_bits(bits: u16) -> Self;
    fn of_single(value: f32) -> Self;
    fn single(self) -> f32;
}

macro_rules! halves {
    ($($type:ty: $large:literal;)*) => {$(
        impl Half for $type {
            const EPSILON: f64 = <$type>::EPSILON.to_f64_const();
            const LARGE: f32 = $large;

            fn of_bits(bits: u16) -> Self {
                Self::from_bits(bits)
            }

            fn of_single(value: f32) -> Self {
                Self::from_f32(value)
            }

            fn single(self) -> f32 {
                self.to_f32()
            }
        }
    )*};
}

halves! {
    f16: 6e4;
    bf16: 1e30;
}

/// Compares the bits of elements, with all NaNs equal.
fn assert_same<T: Exact + std::fmt::Debug>(found: &Array1<T>, expected: &Array1<T>) {
    assert_eq!(found.len(), expected.len());
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(
            found.bits(),
            expected.bits(),
            "at {at}: {found:?} is not {expected:?}"
        );
    }
}

/// Ties of all kinds, and numbers that are just beside them, beyond the digits of `f32`.
fn casts_round_once<T: Half>(device: &millstream::Device) -> Outcome {
    let finite = (0..0x7c00_u16).step_by(37).map(T::of_bits);
    let mut doubles = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300];
    for number in finite {
        let (number, next) = (f64::from(number.single()), T::EPSILON * 0.5);
        let tie = number * (1.0 + next);
        for near in [number, tie, tie * (1.0 + 1e-12), -tie * (1.0 - 1e-12)] {
            doubles.push(near);
        }
    }
    let doubles = Array1::from(doubles);
    let singles = doubles.mapv(|number| number as f32);
    let longs: Array1<u64> = (0..64)
        .flat_map(|bit| [1 << bit, (1 << bit) + (1 << bit >> 9), u64::MAX >> bit])
        .flat_map(|number: u64| [number, number.wrapping_add(1), number.wrapping_sub(1)])
        .collect();
    let signed = longs.mapv(|number| number as i64);
    let words = longs.mapv(|number| number as i32);
    let (of_doubles, of_singles, of_longs, of_signed, of_words) = evaluate(device, |g| {
        (
            g.array(&doubles).cast::<T>(),
            g.array(&singles).cast::<T>(),
            g.array(&longs).cast::<T>(),
            g.array(&signed).cast::<T>(),
            g.array(&words).cast::<T>(),
        )
    })?;
    assert_same(&of_doubles, &doubles.mapv(T::cast_from));
    assert_same(&of_singles, &singles.mapv(T::cast_from));
    assert_same(&of_longs, &longs.mapv(T::cast_from));
    assert_same(&of_signed, &signed.mapv(T::cast_from));
    assert_same(&of_words, &words.mapv(T::cast_from));
    Ok(())
}

/// Numbers of both signs and of all magnitudes.
fn numbers<T: Half>() -> Array1<T> {
    let bits = (0..0x7f00_u16).step_by(97);
    bits.flat_map(|bits| [bits, bits | 0x8000])
        .map(T::of_bits)
        .filter(|number| number.single().abs() < T::LARGE)
        .collect()
}

fn functions_are_rounded<T: Half>(device: &millstream::Device) -> Outcome {
    let x = numbers::<T>();
    let wide = x.mapv(T::single);
    macro_rules! functions {
        ($($function:ident)*) => {
            let ($($function,)*) = evaluate(device, |g| {
                let (x, wide) = (g.array(&x), g.array(&wide));
                ($((x.$function(), wide.$function()),)*)
            })?;
            $(assert_same(&$function.0, &$function.1.mapv(T::of_single));)*
        };
    }
    functions!(exp ln sin tanh erf round);
    let (cubes, wide_cubes, legs, wide_legs) = evaluate(device, |g| {
        let (x, wide) = (g.array(&x), g.array(&wide));
        (x.powi(3), wide.powi(3), x.hypot(T::ONE), wide.hypot(1.0))
    })?;
    assert_same(&cubes, &wide_cubes.mapv(T::of_single));
    assert_same(&legs, &wide_legs.mapv(T::of_single));
    let infinite = evaluate(device, |g| g.array(&x).is_infinite())?;
    assert_eq!(infinite, wide.mapv(f32::is_infinite));
    Ok(())
}

fn fused_bits<T: Half>(device: &millstream::Device) -> Outcome {
    let x = numbers::<T>();
    let y = x.iter().rev().copied().collect::<Array1<T>>();
    let fused = device.region(|g| {
        let (x, y) = (g.array(&x), g.array(&y));
        ((&x * &y + &x).exp() - &y) / (x + T::ONE)
    })?;
    let (a, b) = (Array::from_host(device, &x)?, Array::from_host(device, &y)?);
    // Outside of a region, each download evaluates one operation.
    let stored = |array: Array<T, Ix1>| Array::from_host(device, &array.to_host()?);
    let sum = stored(&stored(&a * &b)? + &a)?;
    let difference = stored(&stored(sum.exp())? - &b)?;
    let unfused = difference / stored(&a + T::ONE)?;
    assert_same(&fused.wait()?, &unfused.to_host()?);
    Ok(())
}

/// A sum in the type itself would stay at the first number whose successor is 2 away.
fn sums_are_wider<T: Half>(device: &millstream::Device) -> Outcome {
    let count = 6000;
    let expected = T::of_single(count as f32);
    let ones = Array2::from_elem((2, count), T::ONE);
    let ((sum, dot, mean), (sums, products), cumulative, (variance, hundred)) =
        evaluate(device, |g| {
            let ones = g.array(&ones);
            let row = ones.row(0);
            (
                (row.sum(), row.dot(&row), row.mean()),
                (ones.sum_axis(Axis(1)), ones.dot(&ones.t())),
                row.cumsum(Axis(0)),
                (row.var(T::ZERO), (row * T::of_single(100.0)).mean()),
            )
        })?;
    assert_eq!(
        (sum[()], dot[()], mean[()], variance[()]),
        (expected, expected, T::ONE, T::ZERO)
    );
    // The sum of the elements is beyond the numbers of `f16`.
    assert_eq!(hundred[()].single(), 100.0);
    assert_eq!(sums, array![expected, expected]);
    assert_eq!(products, array![[expected, expected], [expected, expected]]);
    assert_eq!(
        cumulative,
        (1..=count)
            .map(|sum| T::of_single(sum as f32))
            .collect::<Array1<T>>()
    );
    Ok(())
}

fn uniform_is_below_1<T: Half>(device: &millstream::Device) -> Outcome {
    let (halves, singles, even) = evaluate(device, |g| {
        (
            g.uniform::<T, _>(4000, 7),
            g.uniform::<f32, _>(4000, 7),
            g.linspace(T::ZERO, T::ONE, 5),
        )
    })?;
    let mut rounded_up = 0;
    for (half, single) in halves.iter().zip(&singles) {
        let (number, digits) = (half.single(), T::EPSILON as f32);
        assert!(number < 1.0 && number <= *single && *single - number < digits);
        rounded_up += usize::from(T::of_single(*single).single() > *single);
    }
    assert!(
        rounded_up > 1000,
        "rounding to nearest differs: {rounded_up}"
    );
    assert_eq!(even.mapv(T::single), array![0.0, 0.25, 0.5, 0.75, 1.0]);
    Ok(())
}

/// Declares a test of both types for each function.
macro_rules! of_both {
    ($($name:ident: $test:ident;)*) => {$(
        #[test]
        fn $name() -> Outcome {
            everywhere(|device| {
                $test::<f16>(device)?;
                $test::<bf16>(device)
            })
        }
    )*};
}

of_both! {
    casts_to_half_floats_round_once: casts_round_once;
    functions_of_half_floats_are_those_of_f32_rounded: functions_are_rounded;
    half_floats_have_the_same_bits_fused_and_unfused: fused_bits;
    sums_of_half_floats_are_wider: sums_are_wider;
    uniform_half_floats_are_below_1: uniform_is_below_1;
}

#[region]
fn scaled(x: &Array1<f16>, factor: f16) -> (Array1<f16>, bf16) {
    let scaled = factor * x;
    let sum = scaled.cast::<bf16>().sum();
    (scaled, sum)
}

#[run_by(everywhere, |device|)]
fn regions_take_and_return_half_floats() -> Outcome {
    let x = array![1.5, -2.0, 0.25].mapv(f16::from_f32);
    let (found, sum) = scaled(device, &x, f16::from_f32(4.0))?.wait()?;
    assert_eq!(found, array![6.0, -8.0, 1.0].mapv(f16::from_f32));
    assert_eq!(sum, bf16::from_f32(-1.0));
    let stream = device.stream()?;
    let buffer = stream.upload(&found.to_vec())?;
    let from_buffer: Array<f16, Ix1> = Array::from_buffer(buffer, 3)?;
    assert_eq!(from_buffer.to_host()?, found);
    Ok(())
}
