//! Accuracy in single precision, compared with double precision on the host.
//!
//! The reference is within one unit of double precision, and a unit of single precision has 2^29 of
//! those. It therefore determines the correctly rounded single in all but one of some hundred
//! million cases, where it gives a neighbour.

use std::{ops::Range, thread};

use crate::maths::{
    device,
    functions::{ONE, One, TWO, Two},
    measure::{Worst, assert_within_limits},
    points,
};

/// The distance between the tested bit patterns: a prime, so that all combinations of low bits
/// occur.
const STEP: usize = 16_411;

fn look(function: &One, points: &[f32]) -> Worst {
    let mut worst = Worst::default();
    let results: Vec<f32> = device::one(function.single, points);
    for (x, got) in points.iter().zip(results) {
        worst.record_single(got, (function.reference)(f64::from(*x)), || {
            format!("{x:e} ({:#x}): {got:e}", x.to_bits())
        });
    }
    worst
}

fn look_at_pairs(function: &Two, x: &[f32], y: &[f32]) -> Worst {
    let mut worst = Worst::default();
    let results: Vec<f32> = device::two(function.single, x, y);
    for ((x, y), got) in x.iter().zip(y).zip(results) {
        let value = (function.reference)(f64::from(*x), f64::from(*y));
        worst.record_single(got, value, || format!("{x:e}, {y:e}: {got:e}"));
    }
    worst
}

#[test]
fn singles_of_one_operand_are_as_accurate_as_cuda_says() {
    let mut points = points::patterns(0..1 << 32, STEP);
    points.extend(points::near());
    assert_within_limits(
        ONE.iter().map(|function| {
            look(function, &points).check_limit(function.single, function.limits.0)
        }),
    );
}

#[test]
fn singles_of_two_operands_are_as_accurate_as_cuda_says() {
    let (x, y) = points::pairs(15_000);
    assert_within_limits(TWO.iter().map(|function| {
        look_at_pairs(function, &x, &y).check_limit(function.single, function.limits.0)
    }));
}

/// The number of points that are evaluated in one launch.
const CHUNK: u64 = 1 << 22;

#[test]
#[ignore = "an hour on a simulated device, minutes on a GPU; cargo test -- --ignored every_single"]
fn every_single_is_as_accurate_as_cuda_says() {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = (1u64 << 32).div_ceil(threads);
    assert_within_limits(ONE.iter().map(|function| {
        let part = |range: Range<u64>| {
            let mut worst = Worst::default();
            for first in range.clone().step_by(CHUNK as usize) {
                let chunk = first..(first + CHUNK).min(range.end);
                worst.join(look(function, &points::patterns(chunk, 1)));
            }
            worst
        };
        let mut worst = Worst::default();
        thread::scope(|scope| {
            let parts = (0..threads).map(|n| n * share..((n + 1) * share).min(1 << 32));
            let running: Vec<_> = parts.map(|range| scope.spawn(|| part(range))).collect();
            for part in running {
                worst.join(part.join().unwrap());
            }
        });
        worst.check_limit(function.single, function.limits.0)
    }));
}
