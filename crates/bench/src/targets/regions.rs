//! T15: ten operations on each element of a large array, which a region fuses into one kernel.

use millstream_region::{Region, region};
use ndarray::Ix1;

use crate::targets::prelude::*;

/// The number of elements on a GPU, and on a simulated device, whose figures do not count.
const ELEMENTS: [usize; 2] = [1 << 26, 1 << 16];
/// The number of consecutive regions, each applied to the previous result.
const REPETITIONS: usize = 8;
const SAMPLE_SIZE: SampleSize = SampleSize::of(16, 1);
const SMALL: SampleSize = SampleSize::of(64, 50);

#[region]
pub(crate) fn ten_operations(x: &Array<f32, Ix1>) -> Array<f32, Ix1> {
    let y = ((x * 1.5 + 0.25).abs() * 0.5 - 0.125).relu();
    -((y + x) * x).minimum(100.0) + 1.0
}

#[region]
fn ones(g: &Region, count: usize) -> Array<f32, Ix1> {
    g.ones(count)
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let device = &harness.device;
    let elements = ELEMENTS[usize::from(device.is_simulated())];
    // The number of bytes read and written.
    let bytes = 2 * elements * size_of::<f32>();
    let start = ones(device, elements)?.wait()?;
    let fused = Variant::complete(|| {
        let mut x = ten_operations(device, &start)?.wait()?;
        for _ in 1..REPETITIONS {
            x = ten_operations(device, &x)?.wait()?;
        }
        Ok(wait_for_elements(device, &x)?)
    });
    let raw = harness.raw.stream()?;
    let (source, target) = (
        harness.raw.memory(bytes / 2)?,
        harness.raw.memory(bytes / 2)?,
    );
    let copied = Variant::complete(|| {
        for _ in 0..REPETITIONS {
            raw.copy(&target, &source, bytes / 2)?;
        }
        raw.synchronize()
    });
    let [fused, copied] =
        medians(harness, SAMPLE_SIZE, [fused, copied])?.map(|ns| gb_per_s(REPETITIONS * bytes, ns));
    let what = "ten operations on 2^26 f32";
    let row = Row::times("T15", what, "GB/s", fused, copied, Goal::AtLeast(0.98));

    let few = ones(device, 1024)?.wait()?;
    let small = Variant::new(
        || {
            drop(ten_operations(device, &few)?.wait()?);
            Ok(())
        },
        || Ok(wait_for_elements(device, &few)?),
    );
    let [host_ns] = medians(harness, SMALL, [small])?;
    let host = Row::judged(
        "T15",
        "host time of such a region",
        "ns",
        host_ns,
        Goal::None,
    );
    Ok(vec![
        row.with_note("raw: the driver's copy on the device"),
        host,
    ])
}

/// Waits until an array's elements have been computed.
fn wait_for_elements(device: &Device, array: &Array<f32, Ix1>) -> millstream_region::Result<()> {
    device
        .region(|g| g.array(array).slice(s![..1]))?
        .wait()
        .map(drop)
}
