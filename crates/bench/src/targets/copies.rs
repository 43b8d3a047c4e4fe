//! T6 and T7: large copies from and to pageable memory, until they are complete.

use crate::{
    report::Goal::{self, AtLeast},
    targets::prelude::*,
};

const SAMPLE_SIZE: SampleSize = SampleSize::of(16, 1);

const T6: Target = rate("T6", "upload, pageable, against the driver's", AtLeast(5.5));
const T6_PINNED: Target = rate("T6", "upload, pageable, against pinned", AtLeast(0.8));
const T7: Target = rate(
    "T7",
    "download to a slice, against the driver's",
    AtLeast(3.0),
);
const T7_PINNED: Target = rate("T7", "download to a slice, against pinned", AtLeast(0.9));
const T7_FRESH: Target = rate("T7", "download to a new Vec, both", Goal::None);

const fn rate(target: &'static str, what: &'static str, goal: Goal) -> Target {
    Target(target, what, "GB/s", goal)
}

pub(crate) fn upload(harness: &Harness) -> Result<Vec<Row>> {
    let bytes = harness.large_bytes();
    let source = vec![1_u8; bytes];
    let stream = harness.device.stream()?;
    let mut target = stream.zeros::<u8>(bytes)?;
    let ours = Variant::complete(|| {
        stream.upload_into(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let raw = harness.raw.stream()?;
    let raw_target = harness.raw.memory(bytes)?;
    let [pageable, pinned] = [harness.raw.pageable(bytes), harness.raw.pinned(bytes)?];
    let baseline = |source| {
        let (raw, raw_target) = (&raw, &raw_target);
        Variant::complete(move || {
            raw.upload(raw_target, source, bytes)?;
            raw.synchronize()
        })
    };
    let variants = [ours, baseline(&pageable), baseline(&pinned)];
    let [ours, driver, locked] =
        medians(harness, SAMPLE_SIZE, variants)?.map(|ns| gb_per_s(bytes, ns));
    let mut rows = vec![T6.row(ours, driver), T6_PINNED.row(ours, locked)];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let stream = cudarc.stream()?;
    let mut target = stream.alloc_zeros::<u8>(bytes)?;
    let with_cudarc = Variant::complete(|| {
        stream.memcpy_htod(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let [with_cudarc, driver] = medians(harness, SAMPLE_SIZE, [with_cudarc, baseline(&pageable)])?
        .map(|ns| gb_per_s(bytes, ns));
    rows.push(T6.by("cudarc", with_cudarc, driver));
    Ok(rows)
}

pub(crate) fn download(harness: &Harness) -> Result<Vec<Row>> {
    let bytes = harness.large_bytes();
    let stream = harness.device.stream()?;
    let source = stream.zeros::<u8>(bytes)?;
    let mut target = vec![1_u8; bytes];
    let ours = Variant::complete(|| {
        let finished = harness
            .device
            .scope(|scope| scope.download(&stream, &source, &mut target));
        Ok(finished?)
    });
    let ours_fresh = Variant::complete(|| Ok(stream.download(&source)?.wait().map(drop)?));
    let raw = harness.raw.stream()?;
    let raw_source = harness.raw.memory(bytes)?;
    let [pageable, pinned] = [harness.raw.pageable(bytes), harness.raw.pinned(bytes)?];
    let baseline = |target| {
        let (raw, raw_source) = (&raw, &raw_source);
        Variant::complete(move || {
            raw.download(target, raw_source, bytes)?;
            raw.synchronize()
        })
    };
    let fresh_baseline = Variant::complete(|| {
        let fresh = harness.raw.pageable(bytes);
        raw.download(&fresh, &raw_source, bytes)?;
        raw.synchronize()
    });
    let variants = [
        ours,
        ours_fresh,
        baseline(&pageable),
        fresh_baseline,
        baseline(&pinned),
    ];
    let [ours, ours_fresh, driver, driver_fresh, locked] =
        medians(harness, SAMPLE_SIZE, variants)?.map(|ns| gb_per_s(bytes, ns));
    let mut rows = vec![
        T7.row(ours, driver),
        T7_PINNED.row(ours, locked),
        T7_FRESH.row(ours_fresh, driver_fresh),
    ];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let stream = cudarc.stream()?;
    let source = stream.alloc_zeros::<u8>(bytes)?;
    let with_cudarc = Variant::complete(|| {
        stream.memcpy_dtoh(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let [with_cudarc, driver] = medians(harness, SAMPLE_SIZE, [with_cudarc, baseline(&pageable)])?
        .map(|ns| gb_per_s(bytes, ns));
    rows.push(T7.by("cudarc", with_cudarc, driver));
    Ok(rows)
}
