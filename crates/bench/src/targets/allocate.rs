//! T5: an allocation of 1 MiB that is dropped again.

#![allow(unsafe_code, reason = "makes arrays without a content")]

use anyhow::Result;

use crate::{
    report::{Goal, Row},
    rig::Rig,
    rival::Rival,
    timing::{Contender, Effort, medians},
};

const BYTES: usize = 1 << 20;
const EFFORT: Effort = Effort {
    rounds: 160,
    batch: 100,
};

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let stream = rig.device.stream()?;
    let raw = rig.raw.stream()?;
    let by_hand = |fill| {
        let raw = &raw;
        Contender::new(
            move || raw.allocate_and_free(BYTES, fill),
            move || raw.synchronize(),
        )
    };
    let ours = Contender::new(
        || Ok(stream.zeros::<u8>(BYTES).map(drop)?),
        || Ok(stream.synchronize()?),
    );
    // SAFETY: nothing reads it.
    let empty = || Ok(unsafe { stream.uninit::<u8>(BYTES) }.map(drop)?);
    let empty = Contender::new(empty, || Ok(stream.synchronize()?));
    let contenders = [ours, by_hand(true), empty, by_hand(false)];
    let [ours, filled, empty, bare] = medians(rig, EFFORT, contenders)?;
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
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let stream = rival.stream()?;
    let theirs = Contender::new(
        || Ok(stream.alloc_zeros::<u8>(BYTES).map(drop)?),
        || Ok(stream.synchronize()?),
    );
    let [theirs, filled] = medians(rig, EFFORT, [theirs, by_hand(true)])?;
    let what = "allocate, fill with zeros, drop: 1 MiB";
    rows.push(Row::times("T5", what, "ns", theirs, filled, Goal::None).by("cudarc"));
    Ok(rows)
}
