//! T20: the host time of the first call of a kernel, of which the driver compiles the text.
//!
//! Each round computes a softmax of other functions of its elements, whose text was never loaded
//! before, and calls it again: for other rows, for which the region is planned and lowered, but the
//! text is loaded already; and for the same array. The functions are drawn by the clock, so that no
//! text is in the driver's cache on disk either. The array is small, because a simulated device
//! computes on the calling thread. Its times are of the host, too, and not virtual.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use millstream_region::Keep;
use ndarray::Axis;

use crate::targets::prelude::*;

/// The maximum time of a first call in milliseconds, as the documentation of the crate `region`
/// states it.
const FIRST_CALL_MS: f64 = 60.0;
/// The maximum time in milliseconds of planning and lowering, which other shapes take, too.
const PLANNED_MS: f64 = 1.0;
/// The number of functions of each element.
const FUNCTIONS: usize = 10;
/// The number of rounds, of which the first is not counted.
const ROUNDS: u64 = 17;
const ROWS: usize = 2;
const COLUMNS: usize = 128;

/// Returns the softmax of functions that the digits of a number choose.
fn softmax(x: &Array<f32, Ix2>, mut number: u64) -> Array<f32, Ix2> {
    let mut x = x.clone();
    for _ in 0..FUNCTIONS {
        x = match number % 4 {
            0 => x.abs(),
            1 => x + 0.5,
            2 => x * 0.5,
            _ => x.minimum(2.0),
        };
        number /= 4;
    }
    let powers = (&x - &x.max_keepdims(&[Axis(1)])).exp();
    &powers / &powers.sum_keepdims(&[Axis(1)])
}

/// Returns the milliseconds until a function returns.
fn host_ms<T>(run: impl FnOnce() -> millstream_region::Result<T>) -> Result<f64> {
    let start = Instant::now();
    let result = run()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    drop(result);
    Ok(ms)
}

fn ones(device: &Device, rows: usize) -> Result<Array<f32, Ix2>> {
    Ok(device
        .region(|g| Keep(g.ones::<f32, _>((rows, COLUMNS))))?
        .wait()?)
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let device = &harness.device;
    let (x, longer) = (ones(device, ROWS)?, ones(device, ROWS + 1)?);
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    let [mut first, mut planned, mut other, mut again] = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let number = seed / 1_000 + round;
        let call = |x: &Array<f32, Ix2>| {
            host_ms(|| {
                device
                    .region(|g| Keep(softmax(&g.array(x), number)))?
                    .wait()
            })
        };
        planned.push(host_ms(|| {
            let explained = device.region(|g| {
                let result = softmax(&g.array(&x), number);
                g.explain(&result)?;
                Ok(Keep(g.array(&x)))
            });
            explained.map(drop)
        })?);
        first.push(call(&x)?);
        other.push(call(&longer)?);
        again.push(call(&x)?);
    }
    let counted = |mut times: Vec<f64>| median(times.split_off(1));
    let [first, planned, other, again] = [first, planned, other, again].map(counted);
    // Both also record the region and enqueue the kernel, as a repeated call does.
    let (lowered, loaded) = ((other - again).max(0.0), (first - other).max(0.0));
    let row = |what: &str, ms: f64, goal| Row::judged("T20", what, "ms", ms, goal);
    Ok(vec![
        row("first call of a kernel", first, Goal::AtMost(FIRST_CALL_MS)),
        row(
            "of it, planning and lowering",
            lowered,
            Goal::AtMost(PLANNED_MS),
        ),
        row("of it, loading", loaded, Goal::None),
        row("recording and planning alone", planned, Goal::None),
        row("repeated call", again, Goal::None),
    ])
}
