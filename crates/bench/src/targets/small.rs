//! T8: uploads of 4 KiB from pageable memory, host time of a call.

use anyhow::Result;

use crate::{
    report::{Goal, Row},
    rig::Rig,
    rival::Rival,
    timing::{Contender, Effort, medians},
};

const BYTES: usize = 4 << 10;
const EFFORT: Effort = Effort {
    rounds: 160,
    batch: 100,
};

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let source = vec![1_u8; BYTES];
    let stream = rig.device.stream()?;
    let mut target = stream.zeros::<u8>(BYTES)?;
    let ours = Contender::new(
        || Ok(stream.upload_into(&source, &mut target)?),
        || Ok(stream.synchronize()?),
    );
    let raw = rig.raw.stream()?;
    let (raw_target, raw_source) = (rig.raw.memory(BYTES)?, rig.raw.pageable(BYTES));
    let by_hand = || {
        Contender::new(
            || raw.upload(&raw_target, &raw_source, BYTES),
            || raw.synchronize(),
        )
    };
    let what = "upload of 4 KiB, pageable";
    let [ours, raw_ns] = medians(rig, EFFORT, [ours, by_hand()])?;
    let mut rows = vec![Row::times(
        "T8",
        what,
        "ns",
        ours,
        raw_ns,
        Goal::AtMost(1.1),
    )];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let stream = rival.stream()?;
    let mut target = stream.alloc_zeros::<u8>(BYTES)?;
    let theirs = Contender::new(
        || Ok(stream.memcpy_htod(&source, &mut target)?),
        || Ok(stream.synchronize()?),
    );
    let [theirs, raw_ns] = medians(rig, EFFORT, [theirs, by_hand()])?;
    rows.push(Row::times("T8", what, "ns", theirs, raw_ns, Goal::None).by("cudarc"));
    Ok(rows)
}
