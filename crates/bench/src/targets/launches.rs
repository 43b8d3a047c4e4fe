//! T1, T2 and T3: the host's time for a launch with three operands.

use anyhow::Result;
use millstream::{LaunchConfig, Stream};

use crate::{
    kernels::sums,
    raw::{RawEvent, RawKernel, RawMemory, RawStream},
    report::{Goal, Row},
    rig::Rig,
    rival::Rival,
    timing::{Contender, Effort, medians},
};

const ELEMENTS: usize = 256;
const BYTES: usize = ELEMENTS * size_of::<f32>();
/// Batches that fit a stream's queue together with waits and records (rule 54).
const EFFORT: Effort = Effort {
    rounds: 160,
    batch: 200,
};

/// Raw streams and operands.
struct RawWork {
    kernel: RawKernel,
    streams: [RawStream; 2],
    events: [RawEvent; 2],
    operands: [RawMemory; 3],
}

impl RawWork {
    fn new(rig: &Rig) -> Result<Self> {
        let raw = &rig.raw;
        Ok(Self {
            kernel: raw.vecadd()?,
            streams: [raw.stream()?, raw.stream()?],
            events: [raw.event()?, raw.event()?],
            operands: [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?],
        })
    }

    fn launch(&self, stream: usize) -> Result<()> {
        let operands = self.operands.each_ref();
        self.streams[stream].vecadd(self.kernel, operands, ELEMENTS as u64)
    }

    /// A launch that the other stream's next one waits for.
    fn launch_for(&self, stream: usize, other: usize) -> Result<()> {
        self.launch(stream)?;
        self.streams[stream].record(&self.events[stream])?;
        self.streams[other].wait_for(&self.events[stream])
    }

    fn rest(&self) -> Result<()> {
        self.streams[0].synchronize()?;
        self.streams[1].synchronize()
    }

    fn contender(&self) -> Contender<'_> {
        Contender::new(|| self.launch(0), || self.rest())
    }
}

/// T1.
pub(crate) fn one_stream(rig: &Rig) -> Result<Vec<Row>> {
    let raw = RawWork::new(rig)?;
    let kernels = sums::load(&rig.device)?;
    let stream = rig.device.stream()?;
    let (a, b) = (stream.zeros(ELEMENTS)?, stream.zeros(ELEMENTS)?);
    let mut c = stream.zeros(ELEMENTS)?;
    let ours = Contender::new(
        || {
            Ok(kernels.vecadd(
                &stream,
                LaunchConfig::linear(ELEMENTS),
                &a,
                &b,
                &mut c,
                ELEMENTS as u64,
            )?)
        },
        || Ok(stream.synchronize()?),
    );
    let what = "launch, one stream in use";
    let [ours, by_hand] = medians(rig, EFFORT, [ours, raw.contender()])?;
    let mut rows = vec![Row::times(
        "T1",
        what,
        "ns",
        ours,
        by_hand,
        Goal::AtMost(1.03),
    )];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    for (who, second) in [
        ("cudarc, its only stream", false),
        ("cudarc, any other", true),
    ] {
        let rival = Rival::open()?;
        let stream = if second {
            rival.stream()?
        } else {
            rival.default_stream()
        };
        let (a, b) = (stream.alloc_zeros(ELEMENTS)?, stream.alloc_zeros(ELEMENTS)?);
        let mut c = stream.alloc_zeros(ELEMENTS)?;
        let theirs = Contender::new(
            || rival.vecadd(&stream, &a, &b, &mut c),
            || Ok(stream.synchronize()?),
        );
        let [theirs, by_hand] = medians(rig, EFFORT, [theirs, raw.contender()])?;
        rows.push(Row::times("T1", what, "ns", theirs, by_hand, Goal::None).by(who));
    }
    Ok(rows)
}

/// T2.
pub(crate) fn shared(rig: &Rig) -> Result<Vec<Row>> {
    let raw = RawWork::new(rig)?;
    let kernels = sums::load(&rig.device)?;
    let (first, second) = (rig.device.stream()?, rig.device.stream()?);
    let (a, b) = (second.zeros(ELEMENTS)?, second.zeros(ELEMENTS)?);
    let mut c = second.zeros(ELEMENTS)?;
    let ours = Contender::new(
        || {
            Ok(kernels.vecadd(
                &first,
                LaunchConfig::linear(ELEMENTS),
                &a,
                &b,
                &mut c,
                ELEMENTS as u64,
            )?)
        },
        || Ok(first.synchronize()?),
    );
    let what = "launch, operands shared with a second stream";
    let [ours, by_hand] = medians(rig, EFFORT, [ours, raw.contender()])?;
    let mut rows = vec![Row::times(
        "T2",
        what,
        "ns",
        ours,
        by_hand,
        Goal::AtMost(1.08),
    )];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let (first, second) = (rival.stream()?, rival.stream()?);
    let (a, b) = (second.alloc_zeros(ELEMENTS)?, second.alloc_zeros(ELEMENTS)?);
    let mut c = second.alloc_zeros(ELEMENTS)?;
    let theirs = Contender::new(
        || rival.vecadd(&first, &a, &b, &mut c),
        || Ok(first.synchronize()?),
    );
    let [theirs, by_hand] = medians(rig, EFFORT, [theirs, raw.contender()])?;
    rows.push(Row::times("T2", what, "ns", theirs, by_hand, Goal::None).by("cudarc"));
    Ok(rows)
}

/// T3.
pub(crate) fn ping_pong(rig: &Rig) -> Result<Vec<Row>> {
    // A launch is up to three entries of a queue here.
    let effort = Effort {
        batch: 100,
        ..EFFORT
    };
    let raw = RawWork::new(rig)?;
    let by_hand = || {
        Contender::new(
            || {
                raw.launch_for(0, 1)?;
                raw.launch_for(1, 0)
            },
            || raw.rest(),
        )
    };
    let kernels = sums::load(&rig.device)?;
    let streams = [rig.device.stream()?, rig.device.stream()?];
    let (a, b) = (streams[0].zeros(ELEMENTS)?, streams[0].zeros(ELEMENTS)?);
    let mut c = streams[0].zeros(ELEMENTS)?;
    let ours = Contender::new(
        || {
            for stream in &streams {
                kernels.vecadd(
                    stream,
                    LaunchConfig::linear(ELEMENTS),
                    &a,
                    &b,
                    &mut c,
                    ELEMENTS as u64,
                )?;
            }
            Ok(())
        },
        || Ok(streams.iter().try_for_each(Stream::synchronize)?),
    );
    let what = "ping-pong between two streams, a pair";
    let [ours, raw_ns] = medians(rig, effort, [ours, by_hand()])?;
    let mut rows = vec![
        Row::times("T3", what, "ns", ours, raw_ns, Goal::AtMost(1.06)),
        one_edge(rig, effort, &raw)?,
    ];
    if rig.device.is_simulated() {
        return Ok(rows);
    }
    let rival = Rival::open()?;
    let streams = [rival.stream()?, rival.stream()?];
    let (a, b) = (
        streams[0].alloc_zeros(ELEMENTS)?,
        streams[0].alloc_zeros(ELEMENTS)?,
    );
    let mut c = streams[0].alloc_zeros(ELEMENTS)?;
    let theirs = Contender::new(
        || {
            streams
                .iter()
                .try_for_each(|stream| rival.vecadd(stream, &a, &b, &mut c))
        },
        || Ok(streams.iter().try_for_each(|stream| stream.synchronize())?),
    );
    let [theirs, raw_ns] = medians(rig, effort, [theirs, by_hand()])?;
    rows.push(Row::times("T3", what, "ns", theirs, raw_ns, Goal::None).by("cudarc"));
    Ok(rows)
}

/// A launch, and one on another stream that needs it. Nothing is written twice in a batch, so
/// nothing waits the other way.
fn one_edge(rig: &Rig, effort: Effort, raw: &RawWork) -> Result<Row> {
    let by_hand = Contender::new(
        || {
            raw.launch_for(0, 1)?;
            raw.launch(1)
        },
        || raw.rest(),
    );
    let kernels = sums::load(&rig.device)?;
    let streams = [rig.device.stream()?, rig.device.stream()?];
    let a = streams[0].zeros(ELEMENTS)?;
    let arrays = || {
        (0..effort.batch)
            .map(|_| streams[0].zeros(ELEMENTS))
            .collect::<Result<Vec<_>, _>>()
    };
    let (mut between, mut last) = (arrays()?, arrays()?);
    let mut turn = 0;
    let ours = Contender::new(
        || {
            let (between, last) = (&mut between[turn], &mut last[turn]);
            turn = (turn + 1) % effort.batch;
            let grid = LaunchConfig::linear(ELEMENTS);
            kernels.vecadd(&streams[0], grid, &a, &a, &mut *between, ELEMENTS as u64)?;
            Ok(kernels.vecadd(&streams[1], grid, &*between, &a, last, ELEMENTS as u64)?)
        },
        || Ok(streams.iter().try_for_each(Stream::synchronize)?),
    );
    let [ours, by_hand] = medians(rig, effort, [ours, by_hand])?;
    let what = "two launches, the second on another stream and after the first";
    Ok(Row::times("T3", what, "ns", ours, by_hand, Goal::None))
}
