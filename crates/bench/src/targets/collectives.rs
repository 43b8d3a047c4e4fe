//! T16: all-reduce of two GPUs, by NCCL through the library, by NCCL directly, and by the library's
//! own kernels and copies.

use std::sync::Arc;

use millstream::Buffer;
use millstream_collective::{Collectives, Reduce, nccl};

use crate::{
    raw::{Raw, RawComms},
    targets::prelude::*,
};

const LARGE: usize = (256 << 20) / size_of::<f32>();
const SMALL: usize = (8 << 10) / size_of::<f32>();
const LARGE_SAMPLE: SampleSize = SampleSize::of(24, 4);
const SMALL_SAMPLE: SampleSize = SampleSize::of(80, 20);

/// The goal of the host's time for a small all-reduce.
const GOAL: Goal = Goal::AtMost(1.1);

/// The arrays of the library's variants.
struct Arrays([Buffer<f32>; 2]);

impl Arrays {
    fn new(devices: &[Device; 2], len: usize) -> Result<Self> {
        let streams = [devices[0].stream()?, devices[1].stream()?];
        Ok(Self([streams[0].zeros(len)?, streams[1].zeros(len)?]))
    }

    fn all_reduce(&mut self, collectives: &Collectives) -> Result<()> {
        let [one, two] = &mut self.0;
        Ok(collectives.all_reduce(&mut [one, two], Reduce::Sum)?)
    }
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let what = "all-reduce on two GPUs";
    if harness.raw.driver().device_count()? < 2 {
        return Ok(vec![Row::absent("T16", what, "needs two GPUs")]);
    }
    let library = match nccl::load() {
        Ok(library) => library,
        Err(error) => return Ok(vec![Row::absent("T16", what, error.to_string())]),
    };
    let second = Device::open(Select::Cuda(1)).context("cannot open the second GPU")?;
    let devices = [harness.device.clone(), second];
    let other = Raw::open(harness.raw.driver().clone(), 1)?;
    let comms =
        [false, true].map(|blocks| RawComms::new(library.clone(), &[&harness.raw, &other], blocks));
    let [comms, blocking] = comms;
    let (comms, blocking) = (comms?, blocking?);
    let by_nccl = Collectives::by_nccl(&devices)?;
    let direct = Collectives::direct(&devices)?;
    let large = "all-reduce, 256 MiB";
    Ok(vec![
        compare(
            harness,
            &other,
            &comms,
            &devices,
            &by_nccl,
            (large, LARGE, Goal::AtMost(0.9)),
        )?,
        compare(
            harness,
            &other,
            &comms,
            &devices,
            &direct,
            (large, LARGE, Goal::AtMost(0.75)),
        )?
        .by("own kernels"),
        small(harness, &other, &comms, &devices, &by_nccl, GOAL)?,
        small(harness, &other, &comms, &devices, &direct, GOAL)?.by("own kernels"),
        small(harness, &other, &blocking, &devices, &by_nccl, Goal::None)?
            .with_note("raw: with blocking communicators"),
    ])
}

/// Waits until both devices are idle.
fn wait(harness: &Harness, other: &Raw) -> Result<()> {
    harness.raw.synchronize()?;
    other.synchronize()
}

/// Compares the time to completion with that of NCCL alone. Both wait until the devices are idle.
fn compare(
    harness: &Harness,
    other: &Arc<Raw>,
    comms: &RawComms,
    devices: &[Device; 2],
    collectives: &Collectives,
    (what, len, goal): (&str, usize, Goal),
) -> Result<Row> {
    let mut arrays = Arrays::new(devices, len)?;
    let ours = Variant::complete(|| {
        arrays.all_reduce(collectives)?;
        wait(harness, other)
    });
    let (one, two) = (harness.raw.stream()?, other.stream()?);
    let memory = [harness.raw.memory(4 * len)?, other.memory(4 * len)?];
    let baseline = Variant::complete(|| {
        comms.all_reduce([(&memory[0], &one), (&memory[1], &two)], len)?;
        wait(harness, other)
    });
    let [ours, raw] = medians(harness, LARGE_SAMPLE, [ours, baseline])?;
    Ok(Row::times("T16", what, "ns", ours, raw, goal))
}

/// Compares the host's time for enqueuing with that of NCCL alone.
fn small(
    harness: &Harness,
    other: &Arc<Raw>,
    comms: &RawComms,
    devices: &[Device; 2],
    collectives: &Collectives,
    goal: Goal,
) -> Result<Row> {
    let mut arrays = Arrays::new(devices, SMALL)?;
    let ours = Variant::new(|| arrays.all_reduce(collectives), || wait(harness, other));
    let (one, two) = (harness.raw.stream()?, other.stream()?);
    let memory = [harness.raw.memory(4 * SMALL)?, other.memory(4 * SMALL)?];
    let baseline = Variant::new(
        || comms.all_reduce([(&memory[0], &one), (&memory[1], &two)], SMALL),
        || wait(harness, other),
    );
    let [ours, raw] = medians(harness, SMALL_SAMPLE, [ours, baseline])?;
    let what = "all-reduce, 8 KiB, host";
    Ok(Row::times("T16", what, "ns", ours, raw, goal))
}
