//! T19: reductions, functions of rows and a stencil over at least 256 MiB, beside the driver's copy
//! on the device: bytes that one pass over memory moves, per second.

use std::any::Any;

use anyhow::Result;
use millstream::Device;
use millstream_region::{Array, Element, Keep, RegionExt};
use ndarray::{Axis, Dimension, IntoDimension, Ix1, Ix2, Ix3, s};

use crate::{
    harness::Harness,
    report::{Goal, Row},
    timing::{SampleSize, Variant, gb_per_s, medians},
};

/// The number of consecutive regions.
const REPETITIONS: usize = 4;
const SAMPLE_SIZE: SampleSize = SampleSize {
    rounds: 10,
    batch: 1,
};
/// The least share of the copy's bandwidth where one pass is the minimum.
const GOAL: Goal = Goal::AtLeast(0.95);
/// The same for running results along columns, and for rows of 65,536 elements.
const SCANS: Goal = Goal::AtLeast(0.9);
const LONG_ROWS: Goal = Goal::AtLeast(0.7);

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
        goal: GOAL,
        elements,
        units,
        call: Box::new(move || {
            let pending = device.region(|g| Keep(function(&g.array(&x))))?;
            Ok(Box::new(pending.wait()?))
        }),
    })
}

/// Returns the work with another goal than [`GOAL`].
fn with_goal(goal: Goal, work: Result<Work<'_>>) -> Result<Work<'_>> {
    Ok(Work { goal, ..work? })
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

const WORKS: [Make; 23] = [
    |device| {
        work(device, "sum, 2^28", (1 << 28, 1), |x: &Array<_, Ix1>| {
            x.sum()
        })
    },
    |device| {
        work(
            device,
            "sum of rows, 65,537 x 1,023",
            ([65_537, 1_023], 1),
            sum_of_rows,
        )
    },
    |device| {
        work(
            device,
            "sum of rows, 1,024 x 65,536",
            ([1_024, 65_536], 1),
            sum_of_rows,
        )
    },
    |device| {
        work(
            device,
            "sum of rows, 2^21 x 32",
            ([1 << 21, 32], 1),
            sum_of_rows,
        )
    },
    |device| {
        work(
            device,
            "sum of rows, 2^20 x 63",
            ([1 << 20, 63], 1),
            sum_of_rows,
        )
    },
    |device| {
        work(
            device,
            "argmin of rows, 2^20 x 64",
            ([1 << 20, 64], 1),
            |x: &Array<_, Ix2>| x.argmin_axis(Axis(1)),
        )
    },
    |device| sum_along(device, "sum of 4,096 x 128 x 128, last axis", 2),
    |device| sum_along(device, "sum of 4,096 x 128 x 128, middle axis", 1),
    |device| sum_along(device, "sum of 4,096 x 128 x 128, first axis", 0),
    |device| {
        let what = "variance, 2^28";
        work(device, what, (1 << 28, 1), |x: &Array<_, Ix1>| x.var(0.0))
    },
    |device| {
        work(
            device,
            "variance of columns, 8,192 x 8,192",
            ([8_192, 8_192], 1),
            |x: &Array<_, Ix2>| x.var_axis(Axis(0), 0.0),
        )
    },
    |device| {
        work(
            device,
            "softmax, 65,537 x 1,023",
            ([65_537, 1_023], 2),
            softmax,
        )
    },
    |device| {
        let what = "cumulative sum of columns, 8,192 x 8,192";
        let function = |x: &Array<_, Ix2>| x.cumsum(Axis(0));
        with_goal(SCANS, work(device, what, ([8_192, 8_192], 2), function))
    },
    |device| {
        let what = "cumulative sum of columns, 2^20 x 64";
        let function = |x: &Array<_, Ix2>| x.cumsum(Axis(0));
        with_goal(SCANS, work(device, what, ([1 << 20, 64], 2), function))
    },
    |device| work(device, "softmax, 2^20 x 64", ([1 << 20, 64], 2), softmax),
    |device| {
        work(
            device,
            "layer normalisation, 65,537 x 1,023",
            ([65_537, 1_023], 2),
            normalised,
        )
    },
    |device| {
        work(
            device,
            "layer normalisation, 2^20 x 64",
            ([1 << 20, 64], 2),
            normalised,
        )
    },
    // Instructions may take longer than the accesses to memory.
    |device| {
        let what = "stencil of exp, 8,192 x 8,192";
        with_goal(Goal::None, work(device, what, ([8_192, 8_192], 2), star))
    },
    // A row fits in a multiprocessor, but no second one beside it.
    |device| {
        let what = "softmax, 4,096 x 16,384";
        work(device, what, ([4_096, 16_384], 2), softmax)
    },
    |device| {
        let what = "softmax, 2,048 x 32,768";
        work(device, what, ([2_048, 32_768], 2), softmax)
    },
    |device| {
        let what = "layer normalisation, 2,048 x 32,768";
        work(device, what, ([2_048, 32_768], 2), normalised)
    },
    // One pass is not the minimum: a row does not fit in a multiprocessor.
    |device| {
        let what = "softmax, 1,024 x 65,536";
        with_goal(LONG_ROWS, work(device, what, ([1_024, 65_536], 2), softmax))
    },
    |device| {
        let what = "layer normalisation, 1,024 x 65,536";
        with_goal(
            LONG_ROWS,
            work(device, what, ([1_024, 65_536], 2), normalised),
        )
    },
];

fn sum_of_rows(x: &Array<f32, Ix2>) -> Array<f32, Ix1> {
    x.sum_axis(Axis(1))
}

fn sum_along<'a>(device: &'a Device, what: &'static str, axis: usize) -> Result<Work<'a>> {
    work(
        device,
        what,
        ([4_096, 128, 128], 1),
        move |x: &Array<f32, Ix3>| x.sum_axis(Axis(axis)),
    )
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
