//! T19: reductions, functions of rows and a stencil over at least 256 MiB, beside the driver's copy
//! on the device: bytes that one pass over memory moves, per second.

use std::any::Any;

use millstream_region::{Element, Keep};
use ndarray::{Axis, Dimension, IntoDimension, Ix1, Ix3};

use crate::targets::prelude::*;

/// The number of consecutive regions.
const REPETITIONS: usize = 4;
const SAMPLE_SIZE: SampleSize = SampleSize::of(10, 1);
/// The least share of the copy's bandwidth where one pass is the minimum.
const GOAL: Goal = Goal::AtLeast(0.95);
/// The same for running results along columns, and for rows of 65,536 elements.
const SCANS: Goal = Goal::AtLeast(0.9);
const LONG_ROWS: Goal = Goal::AtLeast(0.7);

const CUBE: [usize; 3] = [4_096, 128, 128];
const SQUARE: [usize; 2] = [8_192, 8_192];

/// A result that is still on the device.
type Held = Box<dyn Any>;

/// A function of one array of `f32`.
struct Work<'a> {
    what: &'static str,
    goal: Goal,
    /// The number of elements of the array.
    elements: usize,
    /// The number of times that one pass moves each element: 1 to read it, 2 to write it as well.
    units: usize,
    call: Box<dyn FnMut() -> Result<Held> + 'a>,
}

/// The fraction of the length of the first axis that a simulated device gets.
const SIMULATED: usize = 1024;

/// Returns the work of a function on an array of ones, of which one pass moves each element
/// `units` times.
fn work<'a, D: Dimension + 'static, T: Element, E: Dimension + 'static>(
    device: &'a Device,
    what: &'static str,
    (shape, units): (impl IntoDimension<Dim = D>, usize),
    goal: Goal,
    function: impl Fn(&Array<f32, D>) -> Array<T, E> + 'a,
) -> Result<Work<'a>> {
    let mut shape = shape.into_dimension();
    if device.is_simulated() {
        shape[0] = shape[0].div_ceil(SIMULATED);
    }
    let elements = shape.size();
    let x = device.region(|g| Keep(g.ones::<f32, D>(shape)))?.wait()?;
    Ok(Work {
        what,
        goal,
        elements,
        units,
        call: Box::new(move || {
            let pending = device.region(|g| Keep(function(&g.array(&x))))?;
            Ok(Box::new(pending.wait()?))
        }),
    })
}

fn softmax(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let powers = (x - &x.max_keepdims(&[Axis(1)])).exp();
    &powers / &powers.sum_keepdims(&[Axis(1)])
}

fn normalised(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let deviation = x - &x.mean_keepdims(&[Axis(1)]);
    let variance = deviation.pow2().mean_keepdims(&[Axis(1)]);
    &deviation / &(&variance + 1e-5).sqrt()
}

/// Returns the sum of exponentials of each inner element and its four neighbours.
fn star(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    let (powers, rows, columns) = (x.exp(), x.nrows(), x.ncols());
    let (inner, beside) = (1..rows - 1, 1..columns - 1);
    powers.slice(s![inner.clone(), beside.clone()])
        + powers.slice(s![inner.clone(), ..columns - 2])
        + powers.slice(s![inner, 2..])
        + powers.slice(s![..rows - 2, beside.clone()])
        + powers.slice(s![2.., beside])
}

/// The works, each of which is made when its turn comes, because the arrays are large.
type Make = for<'a> fn(&'a Device) -> Result<Work<'a>>;

/// Lists works: the name, the shape, the number of times that one pass moves each element, the
/// function, and the goal.
macro_rules! works {
    ($($what:literal, $shape:expr, $units:literal, $goal:expr, $function:expr;)*) => {
        &[$(|device| work(device, $what, ($shape, $units), $goal, $function),)*]
    };
}

const WORKS: &[Make] = works![
    "sum, 2^28", 1 << 28, 1, GOAL, |x: &Array<_, Ix1>| x.sum();
    "sum of rows, 65,537 x 1,023", [65_537, 1_023], 1, GOAL, sum_of_rows;
    "sum of rows, 1,024 x 65,536", [1_024, 65_536], 1, GOAL, sum_of_rows;
    "sum of rows, 2^21 x 32", [1 << 21, 32], 1, GOAL, sum_of_rows;
    "sum of rows, 2^20 x 63", [1 << 20, 63], 1, GOAL, sum_of_rows;
    "argmin of rows, 2^20 x 64", [1 << 20, 64], 1, GOAL, |x: &Array<_, Ix2>| x.argmin_axis(Axis(1));
    "sum of 4,096 x 128 x 128, last axis", CUBE, 1, GOAL, |x: &Array<_, Ix3>| x.sum_axis(Axis(2));
    "sum of 4,096 x 128 x 128, middle axis", CUBE, 1, GOAL, |x: &Array<_, Ix3>| x.sum_axis(Axis(1));
    "sum of 4,096 x 128 x 128, first axis", CUBE, 1, GOAL, |x: &Array<_, Ix3>| x.sum_axis(Axis(0));
    "variance, 2^28", 1 << 28, 1, GOAL, |x: &Array<_, Ix1>| x.var(0.0);
    "variance of columns, 8,192 x 8,192", SQUARE, 1, GOAL,
        |x: &Array<_, Ix2>| x.var_axis(Axis(0), 0.0);
    "softmax, 65,537 x 1,023", [65_537, 1_023], 2, GOAL, softmax;
    "cumulative sum of columns, 8,192 x 8,192", SQUARE, 2, SCANS, sums_of_columns;
    "cumulative sum of columns, 2^20 x 64", [1 << 20, 64], 2, SCANS, sums_of_columns;
    "softmax, 2^20 x 64", [1 << 20, 64], 2, GOAL, softmax;
    "layer normalisation, 65,537 x 1,023", [65_537, 1_023], 2, GOAL, normalised;
    "layer normalisation, 2^20 x 64", [1 << 20, 64], 2, GOAL, normalised;
    // Instructions may take longer than the accesses to memory.
    "stencil of exp, 8,192 x 8,192", SQUARE, 2, Goal::None, star;
    // A row fits in a multiprocessor, but no second one beside it.
    "softmax, 4,096 x 16,384", [4_096, 16_384], 2, GOAL, softmax;
    "softmax, 2,048 x 32,768", [2_048, 32_768], 2, GOAL, softmax;
    "layer normalisation, 2,048 x 32,768", [2_048, 32_768], 2, GOAL, normalised;
    // One pass is not the minimum: a row does not fit in a multiprocessor.
    "softmax, 1,024 x 65,536", [1_024, 65_536], 2, LONG_ROWS, softmax;
    "layer normalisation, 1,024 x 65,536", [1_024, 65_536], 2, LONG_ROWS, normalised;
];

fn sum_of_rows(x: &Array<f32, Ix2>) -> Array<f32, Ix1> {
    x.sum_axis(Axis(1))
}

fn sums_of_columns(x: &Array<f32, Ix2>) -> Array<f32, Ix2> {
    x.cumsum(Axis(0))
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    WORKS
        .iter()
        .map(|make| row(harness, make(&harness.device)?))
        .collect()
}

/// Measures one work beside a copy of its array.
fn row(harness: &Harness, mut work: Work<'_>) -> Result<Row> {
    let bytes = work.elements * size_of::<f32>();
    let (source, target) = (harness.raw.memory(bytes)?, harness.raw.memory(bytes)?);
    let raw = harness.raw.stream()?;
    let ours = Variant::complete(|| {
        let held: Vec<Held> = (0..REPETITIONS)
            .map(|_| (work.call)())
            .collect::<Result<_>>()?;
        harness.raw.synchronize()?;
        drop(held);
        Ok(())
    });
    let copied = Variant::complete(|| {
        for _ in 0..REPETITIONS {
            raw.copy(&target, &source, bytes)?;
        }
        raw.synchronize()
    });
    let [ours, copied] = medians(harness, SAMPLE_SIZE, [ours, copied])?;
    let (moved, of_copy) = (work.units * bytes, 2 * bytes);
    let row = Row::times(
        "T19",
        work.what,
        "GB/s",
        gb_per_s(REPETITIONS * moved, ours),
        gb_per_s(REPETITIONS * of_copy, copied),
        work.goal,
    );
    Ok(row.with_note("raw: the driver's copy on the device"))
}
