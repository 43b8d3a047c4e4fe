//! T13: a large copy from one GPU to another.

use anyhow::{Context, Result};
use millstream::{Device, Select};

use crate::{
    cudarc,
    harness::Harness,
    raw::Raw,
    report::{Goal, Row},
    timing::{SampleSize, Variant, gb_per_s, medians},
};

const BYTES: usize = 1 << 30;
const SAMPLE_SIZE: SampleSize = SampleSize {
    rounds: 16,
    batch: 1,
};
const WHAT: &str = "GPU to GPU, 1 GiB";

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let driver = harness.raw.driver();
    if driver.device_count()? < 2 {
        return Ok(vec![Row::absent("T13", WHAT, "needs two GPUs")]);
    }
    let second = Device::open(Select::Cuda(1)).context("cannot open the second GPU")?;
    let (from, to) = (harness.device.stream()?, second.stream()?);
    let source = from.zeros::<u8>(BYTES)?;
    let mut target = to.zeros::<u8>(BYTES)?;
    let ours = Variant::complete(|| {
        from.copy(&source, &mut target)?;
        from.synchronize()?;
        Ok(to.synchronize()?)
    });
    let other = Raw::open(driver.clone(), 1)?;
    cudarc::enable_peer_access()?;
    let (raw_source, raw_target) = (harness.raw.memory(BYTES)?, other.memory(BYTES)?);
    let raw = harness.raw.stream()?;
    let baseline = Variant::complete(|| raw.copy_across(&raw_target, &raw_source, BYTES));
    let [ours, baseline] =
        medians(harness, SAMPLE_SIZE, [ours, baseline])?.map(|ns| gb_per_s(BYTES, ns));
    let row = Row::times("T13", WHAT, "GB/s", ours, baseline, Goal::AtLeast(0.97));
    Ok(vec![row.with_note("raw: with peer access on")])
}
