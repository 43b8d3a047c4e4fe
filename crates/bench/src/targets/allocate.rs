//! T5: allocating and dropping 1 MiB.

#![allow(unsafe_code, reason = "allocates uninitialised arrays")]

use crate::targets::prelude::*;

const BYTES: usize = 1 << 20;
const FILLED: Target = Target(
    "T5",
    "allocate, fill with zeros, drop: 1 MiB",
    "ns",
    Goal::None,
);
const T5: Target = Target("T5", "allocate, drop: 1 MiB", "ns", Goal::AtMost(0.3));
const SAMPLE_SIZE: SampleSize = SampleSize::of(160, 100);

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
    let mut rows = vec![FILLED.row(ours, filled), T5.row(empty, bare)];
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
    rows.push(FILLED.by("cudarc", with_cudarc, filled));
    Ok(rows)
}
