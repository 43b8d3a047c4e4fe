//! What bounds a pipeline of ordinary memory. Each byte is read and written by a processor and read by the device on its way
//! up, and written by the device and read and written by a processor on its way down, all at once: so the memory of the host
//! may be the slowest part, though neither the processors nor the device are when alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::chunk::{Chunk, Stores};
use crate::{
    by_hand::Pipeline,
    raw::{Raw, RawMemory, RawStream},
    rig::Rig,
    timing::{Contender, Effort, gb_per_s, medians},
};

const THREADS: [usize; 5] = [2, 4, 8, 12, 16];
const CHUNK_BYTES: usize = 4 << 20;
/// What each thread has of ordinary memory: more than its part of the caches.
const OWN_CHUNKS: usize = 8;
/// Chunks that the device copies in turn before anyone waits: more than the caches hold for it.
const AHEAD: usize = 16;
const EFFORT: Effort = Effort { rounds: 8, batch: 1 };
/// The pipeline's chunks: as many and as large as those of T10.
const PIPELINE_CHUNKS: usize = 32;
const PIPELINE_LEN: usize = 4 << 20;

/// Bytes that went each way: by processors to page-locked memory and from it, and by the device up and down.
#[derive(Default)]
struct Counts {
    filled: AtomicUsize,
    emptied: AtomicUsize,
    uploaded: AtomicUsize,
    downloaded: AtomicUsize,
}

impl Counts {
    fn all(&self) -> [&AtomicUsize; 4] {
        [&self.filled, &self.emptied, &self.uploaded, &self.downloaded]
    }
}

/// Prints GB/s of copies by processors both ways, by the device both ways, of both at once, and of the pipeline by hand.
pub(crate) fn print(rig: &Rig) -> Result<()> {
    let window = Duration::from_millis(300);
    let [_, _, up, down] = speeds(&rig.raw, 0, true, window, CHUNK_BYTES)?;
    println!("device alone: up {up:.1}, down {down:.1} GB/s");
    for threads in THREADS {
        for by_device in [false, true] {
            let [to, from, up, down] = speeds(&rig.raw, threads, by_device, window, CHUNK_BYTES)?;
            print!("{threads:2} threads, half each way: to page-locked {to:.1}, from page-locked {from:.1}");
            if by_device {
                print!("; device at once: up {up:.1}, down {down:.1}");
            }
            println!(" GB/s");
        }
    }
    let source = vec![1.0_f32; PIPELINE_LEN];
    let sources = [source.as_slice(); PIPELINE_CHUNKS];
    let bytes = PIPELINE_CHUNKS * size_of_val(source.as_slice());
    for threads in THREADS {
        print!("pipeline by hand, {threads:2} threads, GB/s each way to new vectors / to the same again:");
        for piece_kib in [512, 1 << 10, 2 << 10, 4 << 10] {
            let [new, again] = pipelines(rig, threads, (piece_kib << 10) / size_of::<f32>(), &sources)?;
            let [new, again] = [new, again].map(|ns| gb_per_s(bytes, ns));
            print!("  {piece_kib} KiB {new:.1} / {again:.1}");
        }
        println!();
    }
    Ok(())
}

/// The time of the pipeline, to new vectors and to vectors that were used before, in nanoseconds.
fn pipelines(rig: &Rig, threads: usize, piece_len: usize, sources: &[&[f32]]) -> Result<[f64; 2]> {
    let mut pipelines = [
        Pipeline::new(&rig.raw, threads, piece_len)?,
        Pipeline::new(&rig.raw, threads, piece_len)?,
    ];
    let [first, second] = &mut pipelines;
    let targets = || -> Vec<Vec<f32>> { sources.iter().map(|source| vec![0.0; source.len()]).collect() };
    let mut kept = targets();
    let new = Contender::complete(|| first.run(sources, &mut targets()));
    let again = Contender::complete(|| second.run(sources, &mut kept));
    medians(rig, EFFORT, [new, again])
}

/// GB/s of what processors copy to page-locked memory and from it, and of what the device copies up and down, all at once
/// for as long as the window lasts.
fn speeds(
    raw: &Arc<Raw>,
    threads: usize,
    by_device: bool,
    window: Duration,
    chunk_bytes: usize,
) -> Result<[f64; 4]> {
    let processors = (0..threads)
        .map(|_| Processor::new(raw, chunk_bytes))
        .collect::<Result<Vec<_>>>()?;
    let engines = (0..if by_device { 2 } else { 0 })
        .map(|_| Engine::new(raw, chunk_bytes))
        .collect::<Result<Vec<_>>>()?;
    let (counts, over) = (Counts::default(), AtomicBool::new(false));
    let (counts, over) = (&counts, &over);
    let began = Instant::now();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, mut processor) in processors.into_iter().enumerate() {
            workers.push(scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    processor.copy(number % 2 == 0, counts)?;
                }
                Ok(())
            }));
        }
        for (number, mut engine) in engines.into_iter().enumerate() {
            workers.push(scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    engine.copy(number == 0, counts)?;
                }
                Ok(())
            }));
        }
        thread::sleep(window);
        over.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .try_for_each(|worker| -> Result<()> { worker.join().expect("no worker panics") })
    })?;
    let ns = began.elapsed().as_nanos() as f64;
    Ok(counts
        .all()
        .map(|bytes| gb_per_s(bytes.load(Ordering::Relaxed), ns)))
}

/// A thread's own memory, ordinary and page-locked.
struct Processor {
    own: Vec<u8>,
    chunk: Chunk,
    chunk_bytes: usize,
}

impl Processor {
    fn new(raw: &Arc<Raw>, chunk_bytes: usize) -> Result<Self> {
        Ok(Self {
            own: vec![1; OWN_CHUNKS * chunk_bytes],
            chunk: Chunk::new(raw, chunk_bytes)?,
            chunk_bytes,
        })
    }

    /// Copies all of the ordinary memory to the chunk, part by part, or from it.
    fn copy(&mut self, fill: bool, counts: &Counts) -> Result<()> {
        let count = if fill { &counts.filled } else { &counts.emptied };
        for part in self.own.chunks_mut(self.chunk_bytes) {
            if fill {
                self.chunk.fill(part, Stores::Plain)?;
            } else {
                self.chunk.empty(part, Stores::NonTemporal)?;
            }
            count.fetch_add(part.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// One way of the device.
struct Engine {
    stream: RawStream,
    memory: RawMemory,
    chunks: Vec<Chunk>,
    chunk_bytes: usize,
}

impl Engine {
    fn new(raw: &Arc<Raw>, chunk_bytes: usize) -> Result<Self> {
        Ok(Self {
            stream: raw.stream()?,
            memory: raw.memory(chunk_bytes)?,
            chunks: (0..AHEAD)
                .map(|_| Chunk::new(raw, chunk_bytes))
                .collect::<Result<_>>()?,
            chunk_bytes,
        })
    }

    /// Copies all chunks to the device, or from it.
    fn copy(&mut self, up: bool, counts: &Counts) -> Result<()> {
        let (stream, bytes) = (&self.stream, self.chunk_bytes);
        let count = if up { &counts.uploaded } else { &counts.downloaded };
        for chunk in &mut self.chunks {
            if up {
                chunk.upload(stream, &self.memory, 0, bytes)?;
            } else {
                chunk.download(stream, &self.memory, 0, bytes)?;
            }
        }
        stream.synchronize()?;
        count.fetch_add(AHEAD * bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Everything goes each way that it is to go, and no other.
#[cfg(test)]
pub(super) fn all_ways_are_counted(rig: &Rig) -> Result<()> {
    let window = Duration::from_millis(5);
    for (threads, by_device) in [(0, true), (2, false), (2, true)] {
        let found = speeds(&rig.raw, threads, by_device, window, 4 << 10)?.map(|speed| speed > 0.0);
        let expected = [threads > 0, threads > 0, by_device, by_device];
        anyhow::ensure!(found == expected, "{threads} threads, {by_device}: {found:?}");
    }
    let source = vec![1.0; 1000];
    let times = pipelines(rig, 2, 300, &[source.as_slice(); 3])?;
    anyhow::ensure!(times.iter().all(|&ns| ns > 0.0), "{times:?}");
    Ok(())
}
