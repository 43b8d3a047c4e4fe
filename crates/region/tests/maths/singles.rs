//! The accuracy of single precision, against double precision on the host.
//!
//! What is compared with is within one unit of double precision, of which a unit of single
//! precision has 2^29: good enough to tell the correctly rounded single in all but one of some
//! hundred million cases, and then it is next to it.

use std::{ops::Range, thread};

use crate::{
    device,
    functions::{ONE, One, TWO, Two},
    measure::{Worst, all_well},
    points,
};

/// What is between two bit patterns: a prime, so that all low bits come up.
const STEP: usize = 16_411;

fn look(function: &One, points: &[f32]) -> Worst {
    let mut worst = Worst::default();
    let results: Vec<f32> = device::one(function.single, points);
    for (x, got) in points.iter().zip(results) {
        worst.note_single(got, (function.reference)(f64::from(*x)), || {
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
        worst.note_single(got, value, || format!("{x:e}, {y:e}: {got:e}"));
    }
    worst
}

#[test]
fn singles_of_one_operand_are_as_accurate_as_cuda_says() {
    let mut points = points::patterns(0..1 << 32, STEP);
    points.extend(points::near());
    all_well(
        ONE.iter()
            .map(|function| look(function, &points).verdict(function.single, function.limits.0)),
    );
}

#[test]
fn singles_of_two_operands_are_as_accurate_as_cuda_says() {
    let (x, y) = points::pairs(15_000);
    all_well(TWO.iter().map(|function| {
        look_at_pairs(function, &x, &y).verdict(function.single, function.limits.0)
    }));
}

/// How many points go to the device at once.
const CHUNK: u64 = 1 << 22;

#[test]
#[ignore = "an hour on a simulated device, minutes on a GPU; cargo test -- --ignored every_single"]
fn every_single_is_as_accurate_as_cuda_says() {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = (1u64 << 32).div_ceil(threads);
    all_well(ONE.iter().map(|function| {
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
        worst.verdict(function.single, function.limits.0)
    }));
}
