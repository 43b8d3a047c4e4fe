//! T12: sixteen threads, each launching on its own stream, with two operands that all of them read.

use std::{sync::Barrier, thread};

use crate::{report::Goal::AtLeast, targets::prelude::*};

const THREADS: usize = 16;
const T12: Target = Target(
    "T12",
    "16 threads on 16 streams, two operands shared",
    "launches/s",
    AtLeast(0.97),
);
/// The launches of a thread in a batch, which fit in its stream's queue together with records.
const LAUNCHES: usize = 200;
const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const SAMPLE_SIZE: SampleSize = SampleSize::of(40, 1);

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
    let raw_calls = Variant::new(&mut baseline, || raw.synchronize());
    let [ours, baseline_per_s] = medians(harness, SAMPLE_SIZE, [ours, raw_calls])?.map(launches);
    let mut rows = vec![T12.row(ours, baseline_per_s)];
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
    let baseline = Variant::new(&mut baseline, || raw.synchronize());
    let [with_cudarc, baseline_per_s] =
        medians(harness, SAMPLE_SIZE, [with_cudarc, baseline])?.map(launches);
    rows.push(T12.by("cudarc", with_cudarc, baseline_per_s));
    Ok(rows)
}
