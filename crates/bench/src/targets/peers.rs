//! T13: copies from one GPU to another: large ones in one and in both directions, the host's time
//! of small ones, and the first use of a pair.

use std::{process::Command, sync::Arc, time::Instant};

use anyhow::{bail, ensure};
use millstream::{PeerStatus, driver::cuda::Cuda};

use crate::{raw::Raw, targets::prelude::*};

const BYTES: usize = 1 << 30;
const SMALL_BYTES: usize = 4 << 10;
const LARGE: SampleSize = SampleSize::of(16, 1);
const SMALL: SampleSize = SampleSize::of(80, 100);
/// The number of processes that use a pair for the first time, each way.
const FIRST_USES: usize = 3;

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    if harness.raw.driver().device_count()? < 2 {
        return Ok(vec![Row::absent("T13", "GPU to GPU", "needs two GPUs")]);
    }
    let mut rows = vec![first_uses()?];
    let second = Device::open(Select::Cuda(1)).context("cannot open the second GPU")?;
    let status = harness.device.peer_status(&second)?;
    if let PeerStatus::Staged { reason } = status {
        bail!("the GPUs have no peer access: {reason}");
    }
    let other = Raw::open(harness.raw.driver().clone(), 1)?;
    rows.push(large(harness, &second, &other, false)?);
    rows.push(large(harness, &second, &other, true)?);
    rows.push(small(harness, &second, &other)?);
    Ok(rows)
}

/// Measures a copy of 1 GiB, or one in each direction at once.
fn large(harness: &Harness, second: &Device, other: &Arc<Raw>, both: bool) -> Result<Row> {
    let (from, to) = (harness.device.stream()?, second.stream()?);
    let source = from.zeros::<u8>(BYTES)?;
    let mut target = to.zeros::<u8>(BYTES)?;
    let back_source = to.zeros::<u8>(BYTES)?;
    let mut back_target = from.zeros::<u8>(BYTES)?;
    let ours = Variant::complete(|| {
        from.copy(&source, &mut target)?;
        if both {
            to.copy(&back_source, &mut back_target)?;
        }
        from.synchronize()?;
        Ok(to.synchronize()?)
    });
    let raw = &harness.raw;
    let (one, two) = (raw.stream()?, other.stream()?);
    let (raw_source, raw_target) = (raw.memory(BYTES)?, other.memory(BYTES)?);
    let (raw_back_source, raw_back_target) = (other.memory(BYTES)?, raw.memory(BYTES)?);
    let baseline = Variant::complete(|| {
        one.copy_peer(&raw_target, &raw_source, BYTES)?;
        if both {
            two.copy_peer(&raw_back_target, &raw_back_source, BYTES)?;
        }
        one.synchronize()?;
        two.synchronize()
    });
    let (bytes, what) = match both {
        false => (BYTES, "GPU to GPU, 1 GiB"),
        true => (2 * BYTES, "GPU to GPU, 1 GiB in each direction at once"),
    };
    let [ours, baseline] = medians(harness, LARGE, [ours, baseline])?.map(|ns| gb_per_s(bytes, ns));
    let row = Row::times("T13", what, "GB/s", ours, baseline, Goal::AtLeast(0.99));
    Ok(row.with_note("raw: with peer access on"))
}

/// Measures the host's time for enqueuing a small copy.
fn small(harness: &Harness, second: &Device, other: &Arc<Raw>) -> Result<Row> {
    let from = harness.device.stream()?;
    let source = from.zeros::<u8>(SMALL_BYTES)?;
    let mut target = second.stream()?.zeros::<u8>(SMALL_BYTES)?;
    let ours = Variant::new(
        || Ok(from.copy(&source, &mut target)?),
        || Ok(from.synchronize()?),
    );
    let raw = harness.raw.stream()?;
    let (raw_source, raw_target) = (harness.raw.memory(SMALL_BYTES)?, other.memory(SMALL_BYTES)?);
    let baseline = Variant::new(
        || raw.copy_peer(&raw_target, &raw_source, SMALL_BYTES),
        || raw.synchronize(),
    );
    let [ours, baseline] = medians(harness, SMALL, [ours, baseline])?;
    let what = "GPU to GPU, 4 KiB, host";
    let goal = Goal::AtMost(1.05);
    Ok(Row::times("T13", what, "ns", ours, baseline, goal))
}

/// Compares the first use of a pair, probe included, with the driver calls alone, in processes of
/// their own.
fn first_uses() -> Result<Row> {
    let program = std::env::current_exe()?;
    let run = |way: &str| -> Result<f64> {
        let output = Command::new(&program).args(["first-use", way]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "first-use {way}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let ns = text.trim().parse::<f64>();
        ns.with_context(|| format!("first-use {way} printed {text:?}"))
    };
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..FIRST_USES {
        ours.push(run("ours")?);
        raw.push(run("raw")?);
    }
    let [ours, raw] = [ours, raw].map(median);
    // 5 ms are allowed for the probe.
    let goal = Goal::AtMost(1.2 + 5e6 / raw);
    let what = "first use of a pair of GPUs";
    let row = Row::times("T13", what, "ns", ours, raw, goal);
    Ok(row.with_note("goal: 1.2 times the raw calls and 5 ms"))
}

/// Allocates memory from the pool of a GPU.
fn held(ordinal: i32) -> Result<millstream::Buffer<u8>> {
    Ok(Device::open(Select::Cuda(ordinal))?
        .stream()?
        .zeros(1 << 20)?)
}

/// Uses the first two GPUs as a pair for the first time, and prints the time.
pub(crate) fn first_use(way: &str) -> Result<()> {
    let ns = match way {
        "ours" => {
            let [one, two] = [0, 1].map(|ordinal| Device::open(Select::Cuda(ordinal)));
            let (one, two) = (one?, two?);
            let _arrays = (held(0)?, held(1)?);
            let start = Instant::now();
            one.peer_status(&two)?;
            start.elapsed()
        }
        "raw" => {
            let driver = Cuda::load()?;
            let one = Raw::open(driver.clone(), 0)?;
            let two = Raw::open(driver, 1)?;
            // Turning access on takes longer for a pool that holds memory.
            let _arrays = (held(0)?, held(1)?);
            let start = Instant::now();
            one.enable_peer_access(&two)?;
            start.elapsed()
        }
        way => bail!("`{way}` is neither `ours` nor `raw`"),
    };
    println!("{}", ns.as_nanos());
    Ok(())
}
