//! T15: ten operations on each element of a large array, which a region does in one kernel.

use anyhow::Result;
use millstream::Device;
use millstream_region::{Array, Region, RegionExt, region};
use ndarray::{Ix1, s};

use crate::{
    report::{Goal, Row},
    rig::Rig,
    timing::{Contender, Effort, gb_per_s, medians},
};

const ELEMENTS: usize = 1 << 26;
/// What is read and written.
const BYTES: usize = 2 * ELEMENTS * size_of::<f32>();
/// Regions in a row, each on the result of the one before.
const ROW: usize = 8;
const EFFORT: Effort = Effort {
    rounds: 16,
    batch: 1,
};
const SMALL: Effort = Effort {
    rounds: 64,
    batch: 50,
};

/// The ten operations.
#[region]
pub(crate) fn ten(x: &Array<f32, Ix1>) -> Array<f32, Ix1> {
    let y = ((x * 1.5 + 0.25).abs() * 0.5 - 0.125).relu();
    -((y + x) * x).minimum(100.0) + 1.0
}

/// Ones.
#[region]
fn ones(g: &Region, count: usize) -> Array<f32, Ix1> {
    g.ones(count)
}

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let device = &rig.device;
    let start = ones(device, ELEMENTS)?.wait()?;
    let fused = Contender::complete(|| {
        let mut x = ten(device, &start)?.wait()?;
        for _ in 1..ROW {
            x = ten(device, &x)?.wait()?;
        }
        Ok(arrive(device, &x)?)
    });
    let raw = rig.raw.stream()?;
    let (source, target) = (rig.raw.memory(BYTES / 2)?, rig.raw.memory(BYTES / 2)?);
    let copied = Contender::complete(|| {
        for _ in 0..ROW {
            raw.copy(&target, &source, BYTES / 2)?;
        }
        raw.synchronize()
    });
    let [fused, copied] =
        medians(rig, EFFORT, [fused, copied])?.map(|ns| gb_per_s(ROW * BYTES, ns));
    let what = "ten operations on 2^26 f32";
    let row = Row::times("T15", what, "GB/s", fused, copied, Goal::AtLeast(0.8));

    let few = ones(device, 1024)?.wait()?;
    let small = Contender::new(
        || {
            drop(ten(device, &few)?.wait()?);
            Ok(())
        },
        || Ok(arrive(device, &few)?),
    );
    let [host_ns] = medians(rig, SMALL, [small])?;
    let host = Row::judged(
        "T15",
        "host time of such a region",
        "ns",
        host_ns,
        Goal::None,
    );
    Ok(vec![
        row.noting("raw: the driver's copy on the device"),
        host,
    ])
}

/// Waits until an array's elements are there.
fn arrive(device: &Device, array: &Array<f32, Ix1>) -> millstream_region::Result<()> {
    device
        .region(|g| g.array(array).slice(s![..1]))?
        .wait()
        .map(drop)
}
