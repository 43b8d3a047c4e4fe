//! T6 and T7: large copies from and to pageable memory, until they are complete.

use anyhow::Result;

use crate::{
    report::{Goal, Row},
    rig::Rig,
    rival::Rival,
    timing::{Contender, Effort, gb_per_s, medians},
};

const EFFORT: Effort = Effort {
    rounds: 16,
    batch: 1,
};

/// T6.
pub(crate) fn upload(rig: &Rig) -> Result<Vec<Row>> {
    let bytes = rig.large_bytes();
    let source = vec![1_u8; bytes];
    let stream = rig.device.stream()?;
    let mut target = stream.zeros::<u8>(bytes)?;
    let ours = Contender::complete(|| {
        stream.upload_into(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let raw = rig.raw.stream()?;
    let raw_target = rig.raw.memory(bytes)?;
    let [pageable, pinned] = [rig.raw.pageable(bytes), rig.raw.pinned(bytes)?];
    let by_hand = |source| {
        let (raw, raw_target) = (&raw, &raw_target);
        Contender::complete(move || {
            raw.upload(raw_target, source, bytes)?;
            raw.synchronize()
        })
    };
    let contenders = [ours, by_hand(&pageable), by_hand(&pinned)];
    let [ours, driver, locked] = medians(rig, EFFORT, contenders)?.map(|ns| gb_per_s(bytes, ns));
    let mut rows = vec![
        Row::times(
            "T6",
            "upload, pageable, against the driver's",
            "GB/s",
            ours,
            driver,
            Goal::AtLeast(5.5),
        ),
        Row::times(
            "T6",
            "upload, pageable, against pinned",
            "GB/s",
            ours,
            locked,
            Goal::AtLeast(0.8),
        ),
    ];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let stream = rival.stream()?;
    let mut target = stream.alloc_zeros::<u8>(bytes)?;
    let theirs = Contender::complete(|| {
        stream.memcpy_htod(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let [theirs, driver] =
        medians(rig, EFFORT, [theirs, by_hand(&pageable)])?.map(|ns| gb_per_s(bytes, ns));
    let what = "upload, pageable, against the driver's";
    rows.push(Row::times("T6", what, "GB/s", theirs, driver, Goal::None).by("cudarc"));
    Ok(rows)
}

/// T7.
pub(crate) fn download(rig: &Rig) -> Result<Vec<Row>> {
    let bytes = rig.large_bytes();
    let stream = rig.device.stream()?;
    let source = stream.zeros::<u8>(bytes)?;
    let mut target = vec![1_u8; bytes];
    let ours = Contender::complete(|| {
        let landed = rig
            .device
            .scope(|scope| scope.download(&stream, &source, &mut target));
        Ok(landed?)
    });
    let ours_fresh = Contender::complete(|| Ok(stream.download(&source)?.wait().map(drop)?));
    let raw = rig.raw.stream()?;
    let raw_source = rig.raw.memory(bytes)?;
    let [pageable, pinned] = [rig.raw.pageable(bytes), rig.raw.pinned(bytes)?];
    let by_hand = |target| {
        let (raw, raw_source) = (&raw, &raw_source);
        Contender::complete(move || {
            raw.download(target, raw_source, bytes)?;
            raw.synchronize()
        })
    };
    let fresh_by_hand = Contender::complete(|| {
        let fresh = rig.raw.pageable(bytes);
        raw.download(&fresh, &raw_source, bytes)?;
        raw.synchronize()
    });
    let contenders = [
        ours,
        ours_fresh,
        by_hand(&pageable),
        fresh_by_hand,
        by_hand(&pinned),
    ];
    let [ours, ours_fresh, driver, driver_fresh, locked] =
        medians(rig, EFFORT, contenders)?.map(|ns| gb_per_s(bytes, ns));
    let mut rows = vec![
        Row::times(
            "T7",
            "download to a slice, against the driver's",
            "GB/s",
            ours,
            driver,
            Goal::AtLeast(2.7),
        ),
        Row::times(
            "T7",
            "download to a slice, against pinned",
            "GB/s",
            ours,
            locked,
            Goal::AtLeast(0.75),
        ),
        Row::times(
            "T7",
            "download to a new Vec, both",
            "GB/s",
            ours_fresh,
            driver_fresh,
            Goal::None,
        ),
    ];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let stream = rival.stream()?;
    let source = stream.alloc_zeros::<u8>(bytes)?;
    let theirs = Contender::complete(|| {
        stream.memcpy_dtoh(&source, &mut target)?;
        Ok(stream.synchronize()?)
    });
    let [theirs, driver] =
        medians(rig, EFFORT, [theirs, by_hand(&pageable)])?.map(|ns| gb_per_s(bytes, ns));
    let what = "download to a slice, against the driver's";
    rows.push(Row::times("T7", what, "GB/s", theirs, driver, Goal::None).by("cudarc"));
    Ok(rows)
}
