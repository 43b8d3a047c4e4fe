//! T8: uploads of 4 KiB from pageable memory, measured as the host's time per call.

use crate::{report::Goal::AtMost, targets::prelude::*};

const BYTES: usize = 4 << 10;
const T8: Target = Target("T8", "upload of 4 KiB, pageable", "ns", AtMost(0.9));
const SAMPLE_SIZE: SampleSize = SampleSize::of(160, 100);

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let source = vec![1_u8; BYTES];
    let stream = harness.device.stream()?;
    let mut target = stream.zeros::<u8>(BYTES)?;
    let ours = Variant::new(
        || Ok(stream.upload_into(&source, &mut target)?),
        || Ok(stream.synchronize()?),
    );
    let raw = harness.raw.stream()?;
    let (raw_target, raw_source) = (harness.raw.memory(BYTES)?, harness.raw.pageable(BYTES));
    let baseline = || {
        Variant::new(
            || raw.upload(&raw_target, &raw_source, BYTES),
            || raw.synchronize(),
        )
    };
    let [ours, raw_ns] = medians(harness, SAMPLE_SIZE, [ours, baseline()])?;
    let mut rows = vec![T8.row(ours, raw_ns)];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let stream = cudarc.stream()?;
    let mut target = stream.alloc_zeros::<u8>(BYTES)?;
    let with_cudarc = Variant::new(
        || Ok(stream.memcpy_htod(&source, &mut target)?),
        || Ok(stream.synchronize()?),
    );
    let [with_cudarc, raw_ns] = medians(harness, SAMPLE_SIZE, [with_cudarc, baseline()])?;
    rows.push(T8.by("cudarc", with_cudarc, raw_ns));
    Ok(rows)
}
