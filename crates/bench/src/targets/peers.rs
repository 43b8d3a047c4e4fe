//! T13: a large copy from one GPU to another.

use anyhow::{Context, Result};
use millstream::{Device, Select};

use crate::{
    raw::Raw,
    report::{Goal, Row},
    rig::Rig,
    rival,
    timing::{Contender, Effort, gb_per_s, medians},
};

const BYTES: usize = 1 << 30;
const EFFORT: Effort = Effort {
    rounds: 16,
    batch: 1,
};
const WHAT: &str = "GPU to GPU, 1 GiB";

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let driver = rig.raw.driver();
    if driver.device_count()? < 2 {
        return Ok(vec![Row::absent("T13", WHAT, "needs two GPUs")]);
    }
    let second = Device::open(Select::Cuda(1)).context("cannot open the second GPU")?;
    let (from, to) = (rig.device.stream()?, second.stream()?);
    let source = from.zeros::<u8>(BYTES)?;
    let mut target = to.zeros::<u8>(BYTES)?;
    let ours = Contender::complete(|| {
        from.copy(&source, &mut target)?;
        from.synchronize()?;
        Ok(to.synchronize()?)
    });
    let other = Raw::open(driver.clone(), 1)?;
    rival::enable_peer_access()?;
    let (raw_source, raw_target) = (rig.raw.memory(BYTES)?, other.memory(BYTES)?);
    let raw = rig.raw.stream()?;
    let by_hand = Contender::complete(|| raw.copy_across(&raw_target, &raw_source, BYTES));
    let [ours, by_hand] = medians(rig, EFFORT, [ours, by_hand])?.map(|ns| gb_per_s(BYTES, ns));
    let row = Row::times("T13", WHAT, "GB/s", ours, by_hand, Goal::AtLeast(0.97));
    Ok(vec![row.noting("raw: with peer access on")])
}
