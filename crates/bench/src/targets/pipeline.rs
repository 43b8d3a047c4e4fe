//! T10: upload, kernel and download of many chunks on three streams, in straightforward code,
//! against the slowest stage alone.

use millstream::{Buffer, Pinned, StagingOptions};

use crate::{
    baseline::Pipeline,
    raw::{RawHost, RawKernel, RawMemory, RawStream},
    targets::prelude::*,
};

const BESIDE_STREAMS: Target = rate(
    "the same, against three raw streams, each with its own memory",
    Goal::AtLeast(0.98),
);
const NEW: &str = "the same, against raw staging threads, to new vectors";
const TO_NEW: Target = rate(NEW, Goal::None);
const REUSED: &str = "the same, against raw staging threads, to reused vectors";
const TO_REUSED: Target = rate(REUSED, Goal::AtLeast(0.9));

const fn rate(what: &'static str, goal: Goal) -> Target {
    Target("T10", what, "chunks/s", goal)
}

const CHUNKS: usize = 32;
const STREAMS: usize = 3;
const SAMPLE_SIZE: SampleSize = SampleSize::of(16, 1);

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let elements = match harness.device.is_simulated() {
        true if harness.quick => 16 << 10,
        true => 256 << 10,
        false => 4 << 20,
    };
    let mut rows = Vec::new();
    let pinned = PinnedWork::new(&harness.device, elements)?;
    rows.extend(pinned.measure(harness)?);
    rows.extend(pageable(harness, elements)?);
    Ok(rows)
}

/// Creates the row of a pipeline, given the times of its stages alone.
fn row(what: &str, whole: f64, stages: [f64; 3]) -> Row {
    let (which, slowest) = ["upload", "kernel", "download"]
        .into_iter()
        .zip(stages)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("there are three");
    let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
    let (whole, slowest) = (per_s(whole), per_s(slowest));
    Row::times("T10", what, "chunks/s", whole, slowest, Goal::None)
        .with_note(&format!("raw: the slowest stage alone, {which}"))
}

/// Allocates the page-locked memory of all chunks.
fn chunks(device: &Device, elements: usize) -> Result<Vec<Pinned<f32>>> {
    let chunks = (0..CHUNKS).map(|_| Ok(device.pinned(elements)?));
    chunks.collect()
}

/// The pipeline with page-locked host memory, limited by the device alone.
struct PinnedWork {
    kernels: sums::Kernels,
    streams: Vec<Stream>,
    elements: usize,
    sources: Vec<Pinned<f32>>,
}

impl PinnedWork {
    fn new(device: &Device, elements: usize) -> Result<Self> {
        Ok(Self {
            kernels: sums::load(device)?,
            streams: (0..STREAMS)
                .map(|_| device.stream())
                .collect::<Result<_, _>>()?,
            elements,
            sources: chunks(device, elements)?,
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
        let n = self.elements;
        Ok(self
            .kernels
            .vecadd(stream, n, input, input, output, n as u64)?)
    }

    fn measure(&self, harness: &Harness) -> Result<[Row; 2]> {
        let device = &harness.device;
        let (mut targets, mut finished) = (
            chunks(device, self.elements)?,
            chunks(device, self.elements)?,
        );
        let first = &self.streams[0];
        let input = first.zeros(self.elements)?;
        let (mut scratch, mut output) = (first.zeros(self.elements)?, first.zeros(self.elements)?);
        let whole = Variant::complete(|| {
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
        let upload = Variant::complete(|| {
            for source in &self.sources {
                first.copy(source, &mut scratch)?;
            }
            self.wait()
        });
        let kernel = Variant::complete(|| {
            for _ in 0..CHUNKS {
                self.compute(first, &input, &mut output)?;
            }
            self.wait()
        });
        let download = Variant::complete(|| {
            for target in &mut finished {
                first.copy(&input, target)?;
            }
            self.wait()
        });
        let baseline = RawPipeline::new(harness, self.elements)?;
        let baseline = Variant::complete(|| baseline.run());
        let variants = [whole, upload, kernel, download, baseline];
        let [whole, stages @ .., baseline] = medians(harness, SAMPLE_SIZE, variants)?;
        let what = "upload, kernel, download of 32 chunks, pinned";
        let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
        Ok([
            row(what, whole, stages),
            BESIDE_STREAMS.row(per_s(whole), per_s(baseline)),
        ])
    }
}

/// The pipeline in raw driver calls. Each stream has its own memory, so that streams never wait for
/// each other.
struct RawPipeline {
    kernel: RawKernel,
    streams: Vec<(RawStream, [RawMemory; 2])>,
    hosts: Vec<[RawHost; 2]>,
    elements: usize,
}

impl RawPipeline {
    fn new(harness: &Harness, elements: usize) -> Result<Self> {
        let raw = &harness.raw;
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
            stream.launch(self.kernel, [input, input, output], self.elements as u64)?;
            stream.download(target, output, bytes)?;
        }
        self.streams
            .iter()
            .try_for_each(|(stream, _)| stream.synchronize())
    }
}

/// Measures the pipeline with ordinary slices and vectors.
fn pageable(harness: &Harness, elements: usize) -> Result<Vec<Row>> {
    let device = &harness.device;
    let kernels = sums::load(device)?;
    let streams: Vec<Stream> = (0..STREAMS)
        .map(|_| device.stream())
        .collect::<Result<_, _>>()?;
    let source = vec![1.0_f32; elements];
    let n = elements as u64;
    let first = &streams[0];
    let input = first.zeros::<f32>(elements)?;
    let (mut scratch, mut output) = (first.zeros::<f32>(elements)?, first.zeros::<f32>(elements)?);
    let whole = Variant::complete(|| {
        let mut results = Vec::new();
        for chunk in 0..CHUNKS {
            let stream = &streams[chunk % STREAMS];
            let input = stream.upload(&source)?;
            let mut output = stream.zeros(elements)?;
            kernels.vecadd(stream, elements, &input, &input, &mut output, n)?;
            results.push(stream.download(&output)?);
        }
        for result in results {
            drop(result.wait()?);
        }
        Ok(())
    });
    let upload = Variant::complete(|| {
        for _ in 0..CHUNKS {
            first.upload_into(&source, &mut scratch)?;
        }
        Ok(first.synchronize()?)
    });
    let kernel = Variant::complete(|| {
        for _ in 0..CHUNKS {
            kernels.vecadd(first, elements, &input, &input, &mut output, n)?;
        }
        Ok(first.synchronize()?)
    });
    let download = Variant::complete(|| {
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
        let [whole, stages @ ..] =
            medians(harness, SAMPLE_SIZE, [whole, upload, kernel, download])?;
        return Ok(vec![row(what, whole, stages)]);
    }
    // The baseline uses as many threads and chunks of the same size. On a simulated device it is
    // left out, because virtual time does not include the threads' copies.
    let StagingOptions {
        threads,
        chunk_bytes,
        ..
    } = StagingOptions::default();
    let chunk_len = chunk_bytes / size_of::<f32>();
    let [mut to_new, mut to_reused] = [
        Pipeline::new(&harness.raw, threads, chunk_len)?,
        Pipeline::new(&harness.raw, threads, chunk_len)?,
    ];
    let sources = [source.as_slice(); CHUNKS];
    // The vectors are created one by one, because cloning a vector would touch its memory.
    let targets = || -> Vec<Vec<f32>> { (0..CHUNKS).map(|_| vec![0.0; elements]).collect() };
    let mut kept = targets();
    let to_new = Variant::complete(|| to_new.run(&sources, &mut targets()));
    let to_reused = Variant::complete(|| to_reused.run(&sources, &mut kept));
    let variants = [whole, upload, kernel, download, to_new, to_reused];
    let [whole, upload, kernel, download, to_new, to_reused] =
        medians(harness, SAMPLE_SIZE, variants)?;
    let per_s = |ns: f64| CHUNKS as f64 * 1e9 / ns;
    Ok(vec![
        row(what, whole, [upload, kernel, download]),
        TO_NEW.row(per_s(whole), per_s(to_new)),
        TO_REUSED.row(per_s(whole), per_s(to_reused)),
    ])
}
