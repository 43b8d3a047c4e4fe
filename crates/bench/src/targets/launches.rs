//! T1, T2, T3 and T17: the host's time for a launch with three operands, and for lending one.

use crate::{
    raw::{RawEvent, RawKernel, RawMemory, RawStream},
    report::Goal::AtMost,
    targets::prelude::*,
};

const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
const N: u64 = ELEMENTS as u64;

const T1: Target = host("T1", "launch, one stream in use", 1.02);
const T2: Target = host("T2", "launch, operands shared with a second stream", 1.03);
const T3: Target = host("T3", "ping-pong between two streams, a pair", 1.06);
const AFTER: &str = "two launches, the second on another stream and after the first";
const ONE_EDGE: Target = host("T3", AFTER, 1.06);
const HAND_OVER: &str = "hand-over to another library's stream and back";
const T17: Target = host("T17", HAND_OVER, 1.5);

/// The host's time for a call.
const fn host(target: &'static str, what: &'static str, most: f64) -> Target {
    Target(target, what, "ns", AtMost(most))
}

/// A batch fits in a stream's queue together with its waits and records, because a full queue
/// blocks the host (rule 54).
const SAMPLE_SIZE: SampleSize = SampleSize::of(160, 200);

/// Streams, events and operands of raw driver calls.
struct RawWork {
    kernel: RawKernel,
    streams: [RawStream; 2],
    events: [RawEvent; 2],
    operands: [RawMemory; 3],
}

impl RawWork {
    fn new(harness: &Harness) -> Result<Self> {
        let raw = &harness.raw;
        Ok(Self {
            kernel: raw.vecadd()?,
            streams: [raw.stream()?, raw.stream()?],
            events: [raw.event()?, raw.event()?],
            operands: [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?],
        })
    }

    fn launch(&self, stream: usize) -> Result<()> {
        let operands = self.operands.each_ref();
        self.streams[stream].launch(self.kernel, operands, N)
    }

    /// Enqueues a launch that the other stream's next launch waits for.
    fn launch_for(&self, stream: usize, other: usize) -> Result<()> {
        self.launch(stream)?;
        self.streams[stream].record(&self.events[stream])?;
        self.streams[other].wait_for(&self.events[stream])
    }

    /// Enqueues a launch on the first stream, and hands its operands to the second and back.
    fn hand_over(&self) -> Result<()> {
        self.launch_for(0, 1)?;
        self.streams[1].record(&self.events[1])?;
        self.streams[0].wait_for(&self.events[1])
    }

    fn drain(&self) -> Result<()> {
        self.streams[0].synchronize()?;
        self.streams[1].synchronize()
    }

    fn variant(&self) -> Variant<'_> {
        Variant::new(|| self.launch(0), || self.drain())
    }
}

/// Measures T1, launches on a single stream.
pub(crate) fn one_stream(harness: &Harness) -> Result<Vec<Row>> {
    let rivals = [
        ("cudarc, its only stream", true),
        ("cudarc, any other", false),
    ];
    launches(harness, &T1, false, &rivals)
}

/// Measures T2, launches whose operands a second stream has used.
pub(crate) fn shared(harness: &Harness) -> Result<Vec<Row>> {
    launches(harness, &T2, true, &[("cudarc", false)])
}

/// Measures launches on one stream, whose operands another stream has used if `is_shared`. Each row
/// of cudarc says whether the launches are on its default stream.
fn launches(
    harness: &Harness,
    target: &Target,
    is_shared: bool,
    rivals: &[(&str, bool)],
) -> Result<Vec<Row>> {
    let raw = RawWork::new(harness)?;
    let kernels = sums::load(&harness.device)?;
    let stream = harness.device.stream()?;
    let other = is_shared.then(|| harness.device.stream()).transpose()?;
    let user = other.as_ref().unwrap_or(&stream);
    let (a, b) = (user.zeros(ELEMENTS)?, user.zeros(ELEMENTS)?);
    let mut c = user.zeros(ELEMENTS)?;
    let ours = Variant::new(
        || Ok(kernels.vecadd(&stream, ELEMENTS, &a, &b, &mut c, N)?),
        || Ok(stream.synchronize()?),
    );
    let [ours, baseline] = medians(harness, SAMPLE_SIZE, [ours, raw.variant()])?;
    let mut rows = vec![target.row(ours, baseline)];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    for &(who, is_default) in rivals {
        let cudarc = Cudarc::open()?;
        let stream = match is_default {
            true => cudarc.default_stream(),
            false => cudarc.stream()?,
        };
        let other = is_shared.then(|| cudarc.stream()).transpose()?;
        let user = other.as_ref().unwrap_or(&stream);
        let inputs = [user.alloc_zeros(ELEMENTS)?, user.alloc_zeros(ELEMENTS)?];
        let mut c = user.alloc_zeros(ELEMENTS)?;
        let with_cudarc = Variant::new(
            || cudarc.launch(&stream, &inputs, &mut c),
            || Ok(stream.synchronize()?),
        );
        let [with_cudarc, baseline] = medians(harness, SAMPLE_SIZE, [with_cudarc, raw.variant()])?;
        rows.push(target.by(who, with_cudarc, baseline));
    }
    Ok(rows)
}

/// Measures T3, launches that alternate between two streams.
pub(crate) fn ping_pong(harness: &Harness) -> Result<Vec<Row>> {
    // A launch takes up to three entries of a queue here.
    let sample_size = SAMPLE_SIZE.in_batches_of(100);
    let raw = RawWork::new(harness)?;
    let baseline = || {
        Variant::new(
            || {
                raw.launch_for(0, 1)?;
                raw.launch_for(1, 0)
            },
            || raw.drain(),
        )
    };
    let kernels = sums::load(&harness.device)?;
    let streams = [harness.device.stream()?, harness.device.stream()?];
    let (a, b) = (streams[0].zeros(ELEMENTS)?, streams[0].zeros(ELEMENTS)?);
    let mut c = streams[0].zeros(ELEMENTS)?;
    let ours = Variant::new(
        || {
            for stream in &streams {
                kernels.vecadd(stream, ELEMENTS, &a, &b, &mut c, N)?;
            }
            Ok(())
        },
        || Ok(streams.iter().try_for_each(Stream::synchronize)?),
    );
    let [ours, raw_ns] = medians(harness, sample_size, [ours, baseline()])?;
    let mut rows = vec![T3.row(ours, raw_ns), one_edge(harness, sample_size, &raw)?];
    if harness.device.is_simulated() {
        return Ok(rows);
    }
    let cudarc = Cudarc::open()?;
    let streams = [cudarc.stream()?, cudarc.stream()?];
    let inputs = [
        streams[0].alloc_zeros(ELEMENTS)?,
        streams[0].alloc_zeros(ELEMENTS)?,
    ];
    let mut c = streams[0].alloc_zeros(ELEMENTS)?;
    let with_cudarc = Variant::new(
        || {
            streams
                .iter()
                .try_for_each(|stream| cudarc.launch(stream, &inputs, &mut c))
        },
        || Ok(streams.iter().try_for_each(|stream| stream.synchronize())?),
    );
    let [with_cudarc, raw_ns] = medians(harness, sample_size, [with_cudarc, baseline()])?;
    rows.push(T3.by("cudarc", with_cudarc, raw_ns));
    Ok(rows)
}

/// Measures a launch and another on a second stream that depends on it. No array is written twice
/// in a batch, so the first stream never waits for the second.
fn one_edge(harness: &Harness, sample_size: SampleSize, raw: &RawWork) -> Result<Row> {
    let baseline = Variant::new(
        || {
            raw.launch_for(0, 1)?;
            raw.launch(1)
        },
        || raw.drain(),
    );
    let kernels = sums::load(&harness.device)?;
    let streams = [harness.device.stream()?, harness.device.stream()?];
    let a = streams[0].zeros(ELEMENTS)?;
    let arrays = || {
        (0..sample_size.batch)
            .map(|_| streams[0].zeros(ELEMENTS))
            .collect::<Result<Vec<_>, _>>()
    };
    let (mut between, mut last) = (arrays()?, arrays()?);
    let mut turn = 0;
    let ours = Variant::new(
        || {
            let (between, last) = (&mut between[turn], &mut last[turn]);
            turn = (turn + 1) % sample_size.batch;
            kernels.vecadd(&streams[0], ELEMENTS, &a, &a, &mut *between, N)?;
            Ok(kernels.vecadd(&streams[1], ELEMENTS, &*between, &a, last, N)?)
        },
        || Ok(streams.iter().try_for_each(Stream::synchronize)?),
    );
    let [ours, baseline] = medians(harness, sample_size, [ours, baseline])?;
    Ok(ONE_EDGE.row(ours, baseline))
}

/// Measures T17, the hand-over of an array to the stream of another library and back.
pub(crate) fn hand_over(harness: &Harness) -> Result<Vec<Row>> {
    // A hand-over takes up to two more entries of each queue.
    let sample_size = SAMPLE_SIZE.in_batches_of(60);
    let raw = RawWork::new(harness)?;
    let kernels = sums::load(&harness.device)?;
    let (ours, theirs) = (harness.device.stream()?, harness.device.stream()?);
    let (a, b) = (ours.zeros(ELEMENTS)?, ours.zeros(ELEMENTS)?);
    let (mut lent, mut own) = (ours.zeros(ELEMENTS)?, ours.zeros(ELEMENTS)?);
    let drain = || {
        theirs.synchronize()?;
        Ok(ours.synchronize()?)
    };
    let with_lease = Variant::new(
        || {
            kernels.vecadd(&ours, ELEMENTS, &a, &b, &mut lent, N)?;
            drop(lent.lend_mut(&theirs)?);
            Ok(())
        },
        drain,
    );
    let alone = Variant::new(
        || Ok(kernels.vecadd(&ours, ELEMENTS, &a, &b, &mut own, N)?),
        drain,
    );
    let with_events = Variant::new(|| raw.hand_over(), || raw.drain());
    let variants = [with_lease, alone, with_events, raw.variant()];
    let [with_lease, alone, with_events, raw_alone] = medians(harness, sample_size, variants)?;
    let row = T17.row(with_lease - alone, with_events - raw_alone);
    Ok(vec![row.with_note(
        "raw: two records and two waits; both without the launch between",
    )])
}
