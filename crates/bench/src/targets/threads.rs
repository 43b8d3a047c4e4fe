//! T12: sixteen threads, each launching on its own stream, with two operands that all of them read.

use std::{sync::Barrier, thread};

use anyhow::Result;
use millstream::LaunchConfig;

use crate::{
    cudarc::Cudarc,
    harness::Harness,
    kernels::sums,
    report::{Goal, Row},
    timing::{SampleSize, Variant, medians},
};

const THREADS: usize = 16;
/// The launches of a thread in a batch, which fit in its stream's queue together with records.
const LAUNCHES: usize = 200;
const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const SAMPLE_SIZE: SampleSize = SampleSize {
    rounds: 40,
    batch: 1,
};

/// Calls `launch` `LAUNCHES` times for each of `workers`, each on its own thread, all starting
/// together.
fn all_at_once<W: Send>(
    workers: &mut [W],
    launch: impl Fn(&mut W) -> Result<()> + Sync,
) -> Result<()> {
    let start = Barrier::new(workers.len());
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let (start, launch) = (&start, &launch);
                scope.spawn(move || {
                    start.wait();
                    (0..LAUNCHES).try_for_each(|_| launch(worker))
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no worker panics"))
    })
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let kernels = sums::load(&harness.device)?;
    let first = harness.device.stream()?;
    let (a, b) = (first.zeros(ELEMENTS)?, first.zeros(ELEMENTS)?);
    let mut workers = Vec::new();
    for _ in 0..THREADS {
        let stream = harness.device.stream()?;
        let target = stream.zeros(ELEMENTS)?;
        workers.push((stream, target));
    }
    let ours = Variant::new(
        || {
            all_at_once(&mut workers, |(stream, target)| {
                let grid = LaunchConfig::linear(ELEMENTS);
                Ok(kernels.vecadd(stream, grid, &a, &b, target, ELEMENTS as u64)?)
            })
        },
        || harness.raw.synchronize(),
    );
    let raw = &harness.raw;
    let kernel = raw.vecadd()?;
    let (raw_a, raw_b) = (raw.memory(BYTES)?, raw.memory(BYTES)?);
    let mut raw_workers = Vec::new();
    for _ in 0..THREADS {
        raw_workers.push((raw.stream()?, raw.memory(BYTES)?));
    }
    let operands = (&raw_a, &raw_b);
    let mut baseline = || {
        all_at_once(&mut raw_workers, |(stream, target)| {
            stream.launch(kernel, [operands.0, operands.1, target], ELEMENTS as u64)
        })
    };
    let launches = |ns: f64| (THREADS * LAUNCHES) as f64 * 1e9 / ns;
    let [ours, baseline_per_s] = medians(
        harness,
        SAMPLE_SIZE,
        [ours, Variant::new(&mut baseline, || raw.synchronize())],
    )?
    .map(launches);
    let what = "16 threads on 16 streams, two operands shared";
    let mut rows = vec![Row::times(
        "T12",
        what,
        "launches/s",
        ours,
        baseline_per_s,
        Goal::AtLeast(0.97),
    )];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let first = cudarc.stream()?;
    let inputs = [first.alloc_zeros(ELEMENTS)?, first.alloc_zeros(ELEMENTS)?];
    let mut workers = Vec::new();
    for _ in 0..THREADS {
        let stream = cudarc.stream()?;
        let target = stream.alloc_zeros(ELEMENTS)?;
        workers.push((stream, target));
    }
    let with_cudarc = Variant::new(
        || {
            all_at_once(&mut workers, |(stream, target)| {
                cudarc.launch(stream, &inputs, target)
            })
        },
        || raw.synchronize(),
    );
    let [with_cudarc, baseline_per_s] = medians(
        harness,
        SAMPLE_SIZE,
        [
            with_cudarc,
            Variant::new(&mut baseline, || raw.synchronize()),
        ],
    )?
    .map(launches);
    rows.push(
        Row::times(
            "T12",
            what,
            "launches/s",
            with_cudarc,
            baseline_per_s,
            Goal::None,
        )
        .by("cudarc"),
    );
    Ok(rows)
}
