//! T10: upload, kernel and download of many chunks on three streams, as one would write it, against
//! its slowest stage alone.

use anyhow::Result;
use millstream::{Buffer, Device, LaunchConfig, Pinned, StagingOptions, Stream};

use crate::{
    by_hand::Pipeline,
    kernels::sums,
    raw::{RawHost, RawKernel, RawMemory, RawStream},
    report::{Goal, Row},
    rig::Rig,
    timing::{Contender, Effort, medians},
};

const CHUNKS: usize = 32;
const STREAMS: usize = 3;
const EFFORT: Effort = Effort {
    rounds: 16,
    batch: 1,
};
/// The least part of the slowest stage's throughput.
const GOAL: Goal = Goal::AtLeast(0.95);

pub(crate) fn measure(rig: &Rig) -> Result<Vec<Row>> {
    let elements = if rig.device.is_simulated() {
        256 << 10
    } else {
        4 << 20
    };
    let mut rows = Vec::new();
    let pinned = Locked::new(&rig.device, elements)?;
    rows.extend(pinned.measure(rig)?);
    rows.extend(pageable(rig, elements)?);
    Ok(rows)
}

/// The row of a pipeline whose stages took this long alone.
fn row(what: &str, whole: f64, stages: [f64; 3]) -> Row {
    let (which, slowest) = ["upload", "kernel", "download"]
        .into_iter()
        .zip(stages)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("there are three");
    let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
    Row::times("T10", what, "chunks/s", per_s(whole), per_s(slowest), GOAL)
        .noting(&format!("raw: the slowest stage alone, {which}"))
}

/// Work whose host memory is page-locked: nothing but the device is in the way.
struct Locked {
    kernels: sums::Kernels,
    streams: Vec<Stream>,
    elements: usize,
    sources: Vec<Pinned<f32>>,
}

impl Locked {
    fn new(device: &Device, elements: usize) -> Result<Self> {
        Ok(Self {
            kernels: sums::load(device)?,
            streams: (0..STREAMS)
                .map(|_| device.stream())
                .collect::<Result<_, _>>()?,
            elements,
            sources: (0..CHUNKS)
                .map(|_| device.pinned(elements))
                .collect::<Result<_, _>>()?,
        })
    }

    fn stream(&self, chunk: usize) -> &Stream {
        &self.streams[chunk % STREAMS]
    }

    fn wait(&self) -> Result<()> {
        Ok(self.streams.iter().try_for_each(Stream::synchronize)?)
    }

    fn compute(
        &self,
        stream: &Stream,
        input: &Buffer<f32>,
        output: &mut Buffer<f32>,
    ) -> Result<()> {
        let grid = LaunchConfig::linear(self.elements);
        Ok(self
            .kernels
            .vecadd(stream, grid, input, input, output, self.elements as u64)?)
    }

    fn measure(&self, rig: &Rig) -> Result<[Row; 2]> {
        let device = &rig.device;
        let mut targets: Vec<Pinned<f32>> = (0..CHUNKS)
            .map(|_| device.pinned(self.elements))
            .collect::<Result<_, _>>()?;
        let mut landed: Vec<Pinned<f32>> = (0..CHUNKS)
            .map(|_| device.pinned(self.elements))
            .collect::<Result<_, _>>()?;
        let first = &self.streams[0];
        let input = first.zeros(self.elements)?;
        let (mut scratch, mut output) = (first.zeros(self.elements)?, first.zeros(self.elements)?);
        let whole = Contender::complete(|| {
            for (chunk, (source, target)) in self.sources.iter().zip(&mut targets).enumerate() {
                let stream = self.stream(chunk);
                let mut input = stream.zeros(self.elements)?;
                let mut output = stream.zeros(self.elements)?;
                stream.copy(source, &mut input)?;
                self.compute(stream, &input, &mut output)?;
                stream.copy(&output, target)?;
            }
            self.wait()
        });
        let upload = Contender::complete(|| {
            for source in &self.sources {
                first.copy(source, &mut scratch)?;
            }
            self.wait()
        });
        let kernel = Contender::complete(|| {
            for _ in 0..CHUNKS {
                self.compute(first, &input, &mut output)?;
            }
            self.wait()
        });
        let download = Contender::complete(|| {
            for target in &mut landed {
                first.copy(&input, target)?;
            }
            self.wait()
        });
        let by_hand = ByHand::new(rig, self.elements)?;
        let by_hand = Contender::complete(|| by_hand.run());
        let contenders = [whole, upload, kernel, download, by_hand];
        let [whole, stages @ .., by_hand] = medians(rig, EFFORT, contenders)?;
        let what = "upload, kernel, download of 32 chunks, pinned";
        let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
        let beside = "the same, against three raw streams with memory of their own";
        Ok([
            row(what, whole, stages),
            Row::times(
                "T10",
                beside,
                "chunks/s",
                per_s(whole),
                per_s(by_hand),
                Goal::None,
            ),
        ])
    }
}

/// The same without Millstream: each stream has memory of its own, so that nothing has to be waited
/// for.
struct ByHand {
    kernel: RawKernel,
    streams: Vec<(RawStream, [RawMemory; 2])>,
    hosts: Vec<[RawHost; 2]>,
    elements: usize,
}

impl ByHand {
    fn new(rig: &Rig, elements: usize) -> Result<Self> {
        let raw = &rig.raw;
        let bytes = elements * size_of::<f32>();
        let stream = |_| Ok((raw.stream()?, [raw.memory(bytes)?, raw.memory(bytes)?]));
        Ok(Self {
            kernel: raw.vecadd()?,
            streams: (0..STREAMS).map(stream).collect::<Result<_>>()?,
            hosts: (0..CHUNKS)
                .map(|_| Ok([raw.pinned(bytes)?, raw.pinned(bytes)?]))
                .collect::<Result<_>>()?,
            elements,
        })
    }

    fn run(&self) -> Result<()> {
        let bytes = self.elements * size_of::<f32>();
        for (chunk, [source, target]) in self.hosts.iter().enumerate() {
            let (stream, [input, output]) = &self.streams[chunk % STREAMS];
            stream.upload(input, source, bytes)?;
            stream.vecadd(self.kernel, [input, input, output], self.elements as u64)?;
            stream.download(target, output, bytes)?;
        }
        self.streams
            .iter()
            .try_for_each(|(stream, _)| stream.synchronize())
    }
}

/// The same with ordinary slices and vectors.
fn pageable(rig: &Rig, elements: usize) -> Result<Vec<Row>> {
    let device = &rig.device;
    let kernels = sums::load(device)?;
    let streams: Vec<Stream> = (0..STREAMS)
        .map(|_| device.stream())
        .collect::<Result<_, _>>()?;
    let source = vec![1.0_f32; elements];
    let n = elements as u64;
    let first = &streams[0];
    let input = first.zeros::<f32>(elements)?;
    let (mut scratch, mut output) = (first.zeros::<f32>(elements)?, first.zeros::<f32>(elements)?);
    let whole = Contender::complete(|| {
        let mut results = Vec::new();
        for chunk in 0..CHUNKS {
            let stream = &streams[chunk % STREAMS];
            let input = stream.upload(&source)?;
            let mut output = stream.zeros(elements)?;
            kernels.vecadd(
                stream,
                LaunchConfig::linear(elements),
                &input,
                &input,
                &mut output,
                n,
            )?;
            results.push(stream.download(&output)?);
        }
        for result in results {
            drop(result.wait()?);
        }
        Ok(())
    });
    let upload = Contender::complete(|| {
        for _ in 0..CHUNKS {
            first.upload_into(&source, &mut scratch)?;
        }
        Ok(first.synchronize()?)
    });
    let kernel = Contender::complete(|| {
        for _ in 0..CHUNKS {
            kernels.vecadd(
                first,
                LaunchConfig::linear(elements),
                &input,
                &input,
                &mut output,
                n,
            )?;
        }
        Ok(first.synchronize()?)
    });
    let download = Contender::complete(|| {
        let results = (0..CHUNKS)
            .map(|_| first.download(&input))
            .collect::<Result<Vec<_>, _>>()?;
        for result in results {
            drop(result.wait()?);
        }
        Ok(())
    });
    let what = "upload, kernel, download of 32 chunks, pageable";
    if device.is_simulated() {
        let [whole, stages @ ..] = medians(rig, EFFORT, [whole, upload, kernel, download])?;
        return Ok(vec![row(what, whole, stages)]);
    }
    // With as many threads and in the same chunks. No virtual time could tell how fast threads
    // copy.
    let StagingOptions {
        threads,
        chunk_bytes,
        ..
    } = StagingOptions::default();
    let chunk_len = chunk_bytes / size_of::<f32>();
    let [mut to_new, mut to_kept] = [
        Pipeline::new(&rig.raw, threads, chunk_len)?,
        Pipeline::new(&rig.raw, threads, chunk_len)?,
    ];
    let sources = [source.as_slice(); CHUNKS];
    // One by one: a copy of a vector would touch its memory.
    let targets = || -> Vec<Vec<f32>> { (0..CHUNKS).map(|_| vec![0.0; elements]).collect() };
    let mut kept = targets();
    let to_new = Contender::complete(|| to_new.run(&sources, &mut targets()));
    let to_kept = Contender::complete(|| to_kept.run(&sources, &mut kept));
    let contenders = [whole, upload, kernel, download, to_new, to_kept];
    let [whole, upload, kernel, download, to_new, to_kept] = medians(rig, EFFORT, contenders)?;
    let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
    let beside = |what: &str, by_hand: f64| {
        let (whole, by_hand) = (per_s(whole), per_s(by_hand));
        Row::times("T10", what, "chunks/s", whole, by_hand, Goal::None)
    };
    Ok(vec![
        row(what, whole, [upload, kernel, download]),
        beside(
            "the same, against threads that stage by hand, to new vectors",
            to_new,
        ),
        beside(
            "the same, against threads that stage by hand, to vectors used again",
            to_kept,
        ),
    ])
}
