//! T11: the replay of a graph of kernels in a line.

#![allow(unsafe_code, reason = "sets the length of a kernel within its arrays")]

use std::cell::{Cell, RefCell};

use crate::{raw::RawGraph, targets::prelude::*};

const COMPLETE_SWAPS: &str = "change of all 100 kernels to the replay's completion";
const MEMORY: Target = Target(
    "T11",
    "memory of a graph, against the most that the same run takes eagerly",
    "bytes",
    Goal::AtMost(1.0),
);
const ELEMENTS: usize = 1024;
const NODES: usize = 100;
/// The number of replays of one batch, few enough for a stream's queue (rule 54).
const SAMPLE_SIZE: SampleSize = SampleSize::of(160, 10);

/// Measures replays, and changes of one kernel between them, against the driver's own calls.
pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let raw = &harness.raw;
    let bytes = ELEMENTS * size_of::<f32>();
    let operands = [raw.memory(bytes)?, raw.memory(bytes)?, raw.memory(bytes)?];
    let their_stream = raw.stream()?;
    let theirs = RawGraph::new(raw, raw.vecadd()?, operands.each_ref(), NODES)?;
    // Of two kernels, so that the one that is changed has a name of its own.
    let changed = RawGraph::new(raw, raw.vecadd()?, operands.each_ref(), 1)?;

    let kernels = sums::load(&harness.device)?;
    let stream = harness.device.stream()?;
    let (a, b) = (stream.zeros(ELEMENTS)?, stream.zeros(ELEMENTS)?);
    let mut c = stream.zeros(ELEMENTS)?;
    let mut record = |count: usize| {
        harness.device.record("launches", |r| {
            let recorded = r.stream()?;
            let config = LaunchConfig::linear(ELEMENTS);
            (0..count).try_for_each(|_| {
                kernels.vecadd(&recorded, config, &a, &b, &mut c, ELEMENTS as u64)
            })
        })
    };
    let ours = record(NODES)?;
    let single = RefCell::new(record(1)?);
    let their_drain = || their_stream.synchronize();
    let our_drain = || Ok(stream.synchronize()?);
    let row = |what: &str, times: [f64; 2], most: f64| {
        Row::times("T11", what, "ns", times[0], times[1], Goal::AtMost(most))
    };

    let once = SAMPLE_SIZE.in_batches_of(1);
    let complete = [
        Variant::complete(|| {
            ours.replay(&stream)?;
            our_drain()
        }),
        Variant::complete(|| {
            theirs.launch(&their_stream)?;
            their_drain()
        }),
    ];
    let complete = medians(harness, once, complete)?;
    let replays = [
        Variant::new(|| Ok(ours.replay(&stream)?), our_drain),
        Variant::new(|| theirs.launch(&their_stream), their_drain),
    ];
    let replays = medians(harness, SAMPLE_SIZE, replays)?;
    let several = [
        Variant::new(
            || Ok(ours.replay_times(&stream, SAMPLE_SIZE.batch)?),
            our_drain,
        ),
        Variant::new(
            || (0..SAMPLE_SIZE.batch).try_for_each(|_| theirs.launch(&their_stream)),
            their_drain,
        ),
    ];
    let several = medians(harness, once, several)?;
    let several = several.map(|ns| ns / SAMPLE_SIZE.batch as f64);
    let n = ELEMENTS as u64;
    let changes = [
        Variant::new(
            || {
                let mut graph = single.borrow_mut();
                // SAFETY: the arrays have this length.
                unsafe { graph.node("vecadd")?.set_scalar(3, n) }?;
                Ok(graph.replay(&stream)?)
            },
            our_drain,
        ),
        Variant::new(
            || {
                changed.set_first(n)?;
                changed.launch(&their_stream)
            },
            their_drain,
        ),
    ];
    let changes = medians(harness, SAMPLE_SIZE, changes)?;
    let all = RefCell::new(ours);
    let (spare, n) = (stream.zeros(ELEMENTS)?, ELEMENTS as u64);
    let is_swapped = Cell::new(false);
    let our_swap = || {
        let mut graph = all.borrow_mut();
        match is_swapped.replace(!is_swapped.get()) {
            false => graph.swap(&a, &spare)?,
            true => graph.swap(&spare, &a)?,
        }
        Ok(graph.replay(&stream)?)
    };
    let their_swap = || {
        theirs.set_all(n)?;
        theirs.launch(&their_stream)
    };
    let swaps = [
        Variant::new(our_swap, our_drain),
        Variant::new(their_swap, their_drain),
    ];
    let swaps = medians(harness, SAMPLE_SIZE, swaps)?;
    let complete_swaps = [
        Variant::complete(|| {
            our_swap()?;
            our_drain()
        }),
        Variant::complete(|| {
            their_swap()?;
            their_drain()
        }),
    ];
    let complete_swaps = medians(harness, once, complete_swaps)?;
    let bytes = bytes_held(harness)?;
    Ok(vec![
        row("graph of 100 kernels, launch to completion", complete, 1.01),
        row("graph of 100 kernels, host time of a replay", replays, 1.1),
        row("the same, of one of ten replays at once", several, 1.02),
        row("change of a kernel's argument, and a replay", changes, 1.1),
        row("change of all 100 kernels, and a replay", swaps, 1.1),
        row(COMPLETE_SWAPS, complete_swaps, 1.05),
        MEMORY.row(bytes[0] as f64, bytes[1] as f64),
    ])
}

/// The number of layers of the program whose memory is compared.
const LAYERS: usize = 8;
const TEMPORARY_BYTES: usize = 1 << 20;

/// Returns the bytes that a graph of layers with temporary arrays holds, and the most that are
/// allocated when the layers run eagerly.
fn bytes_held(harness: &Harness) -> Result<[u64; 2]> {
    let stream = harness.device.stream()?;
    let before = harness.device.memory_stats()?.allocated_bytes;
    let mut most = 0;
    layers(&stream, || {
        let now = harness.device.memory_stats()?.allocated_bytes;
        most = most.max(now - before);
        Ok(())
    })?;
    let graph = harness
        .device
        .record("layers", |r| layers(&r.stream()?, || Ok(())))?;
    Ok([graph.figures().body_bytes, most])
}

/// Runs layers, each from one temporary array to another, and calls `look` when both exist.
fn layers(
    stream: &Stream,
    mut look: impl FnMut() -> millstream::Result<()>,
) -> millstream::Result<()> {
    let mut input = stream.zeros::<u8>(TEMPORARY_BYTES)?;
    for _ in 0..LAYERS {
        let mut output = stream.zeros::<u8>(TEMPORARY_BYTES)?;
        stream.copy(&input, &mut output)?;
        look()?;
        input = output;
    }
    Ok(())
}
