//! T5: allocating and dropping 1 MiB.

#![allow(unsafe_code, reason = "allocates uninitialised arrays")]

use anyhow::Result;

use crate::{
    cudarc::Cudarc,
    harness::Harness,
    report::{Goal, Row},
    timing::{SampleSize, Variant, medians},
};

const BYTES: usize = 1 << 20;
const SAMPLE_SIZE: SampleSize = SampleSize {
    rounds: 160,
    batch: 100,
};

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let stream = harness.device.stream()?;
    let raw = harness.raw.stream()?;
    let baseline = |fill| {
        let raw = &raw;
        Variant::new(
            move || raw.allocate_and_free(BYTES, fill),
            move || raw.synchronize(),
        )
    };
    let ours = Variant::new(
        || Ok(stream.zeros::<u8>(BYTES).map(drop)?),
        || Ok(stream.synchronize()?),
    );
    // SAFETY: nothing reads it.
    let empty = || Ok(unsafe { stream.uninit::<u8>(BYTES) }.map(drop)?);
    let empty = Variant::new(empty, || Ok(stream.synchronize()?));
    let variants = [ours, baseline(true), empty, baseline(false)];
    let [ours, filled, empty, bare] = medians(harness, SAMPLE_SIZE, variants)?;
    let mut rows = vec![
        Row::times(
            "T5",
            "allocate, fill with zeros, drop: 1 MiB",
            "ns",
            ours,
            filled,
            Goal::None,
        ),
        Row::times(
            "T5",
            "allocate, drop: 1 MiB",
            "ns",
            empty,
            bare,
            Goal::AtMost(0.3),
        ),
    ];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let stream = cudarc.stream()?;
    let with_cudarc = Variant::new(
        || Ok(stream.alloc_zeros::<u8>(BYTES).map(drop)?),
        || Ok(stream.synchronize()?),
    );
    let [with_cudarc, filled] = medians(harness, SAMPLE_SIZE, [with_cudarc, baseline(true)])?;
    let what = "allocate, fill with zeros, drop: 1 MiB";
    rows.push(Row::times("T5", what, "ns", with_cudarc, filled, Goal::None).by("cudarc"));
    Ok(rows)
}
