//! The baseline for transfers of ordinary memory: upload, kernel and download without Millstream.
//!
//! It is as fast as threads, page-locked chunks and the driver allow. Each thread carries its own
//! chunks through all three stages, which is possible only because the kernel works element by
//! element.

use std::{sync::Arc, thread};

use anyhow::Result;

use crate::{
    chunk::{Chunk, Stores},
    raw::{Raw, RawKernel, RawMemory, RawStream},
};

/// The number of chunks in flight per thread.
const SLOTS: usize = 2;

/// A chunk of the source, and the part of the target for its results.
type ChunkSlices<'a> = (&'a [f32], &'a mut [f32]);

/// The stream and memory of one chunk in flight.
struct Slot {
    stream: RawStream,
    up: Chunk,
    down: Chunk,
    input: RawMemory,
    output: RawMemory,
}

impl Slot {
    fn new(raw: &Arc<Raw>, bytes: usize) -> Result<Self> {
        Ok(Self {
            stream: raw.stream()?,
            up: Chunk::new(raw, bytes)?,
            down: Chunk::new(raw, bytes)?,
            input: raw.memory(bytes)?,
            output: raw.memory(bytes)?,
        })
    }

    /// Enqueues a chunk's upload, kernel and download.
    fn enqueue(&mut self, kernel: RawKernel, source: &[f32]) -> Result<()> {
        let Self {
            stream,
            up,
            down,
            input,
            output,
        } = self;
        let bytes = size_of_val(source);
        up.fill(bytemuck::cast_slice(source), Stores::Plain)?;
        up.upload(stream, input, 0, bytes)?;
        stream.launch(kernel, [input, input, output], source.len() as u64)?;
        down.download(stream, output, 0, bytes)
    }

    /// Waits for the chunk in flight and copies its results to `target`.
    fn finish(&mut self, target: &mut [f32]) -> Result<()> {
        self.down
            .empty(bytemuck::cast_slice_mut(target), Stores::NonTemporal)
    }
}

/// A pool of threads that double numbers on the device.
pub(crate) struct Pipeline {
    kernel: RawKernel,
    worker_slots: Vec<[Slot; SLOTS]>,
    chunk_len: usize,
}

impl Pipeline {
    /// Creates a pipeline of `threads` threads whose chunks have `chunk_len` elements.
    pub(crate) fn new(raw: &Arc<Raw>, threads: usize, chunk_len: usize) -> Result<Self> {
        let slot = || Slot::new(raw, chunk_len * size_of::<f32>());
        Ok(Self {
            kernel: raw.vecadd()?,
            worker_slots: (0..threads)
                .map(|_| Ok([slot()?, slot()?]))
                .collect::<Result<_>>()?,
            chunk_len,
        })
    }

    /// Doubles the elements of each source into the target of the same index.
    pub(crate) fn run(&mut self, sources: &[&[f32]], targets: &mut [Vec<f32>]) -> Result<()> {
        let mut shares: Vec<Vec<ChunkSlices<'_>>> =
            self.worker_slots.iter().map(|_| Vec::new()).collect();
        let chunks = sources.iter().zip(targets).flat_map(|(source, target)| {
            source
                .chunks(self.chunk_len)
                .zip(target.chunks_mut(self.chunk_len))
        });
        for (number, chunk) in chunks.enumerate() {
            let turn = number % shares.len();
            shares[turn].push(chunk);
        }
        let kernel = self.kernel;
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .worker_slots
                .iter_mut()
                .zip(shares)
                .map(|(slots, share)| scope.spawn(move || process_chunks(slots, kernel, share)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("no thread panics"))
        })
    }
}

/// Processes a thread's chunks. A chunk is enqueued before the previous one has been copied back.
fn process_chunks(
    slots: &mut [Slot; SLOTS],
    kernel: RawKernel,
    chunks: Vec<ChunkSlices<'_>>,
) -> Result<()> {
    let mut targets: [Option<&mut [f32]>; SLOTS] = [const { None }; SLOTS];
    let turns = (0..SLOTS).cycle();
    for ((source, target), turn) in chunks.into_iter().zip(turns.clone()) {
        if let Some(before) = targets[turn].replace(target) {
            slots[turn].finish(before)?;
        }
        slots[turn].enqueue(kernel, source)?;
    }
    for (slot, target) in slots.iter_mut().zip(targets) {
        if let Some(target) = target {
            slot.finish(target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;

    #[test]
    fn results_are_doubled_and_in_order() {
        let harness = Harness::simulated(true).unwrap();
        let sources: Vec<Vec<f32>> = (0..5)
            .map(|from| (from * 1000..).take(2500).map(|n| n as f32).collect())
            .collect();
        let borrowed: Vec<&[f32]> = sources.iter().map(Vec::as_slice).collect();
        for threads in [1, 3] {
            // The chunk length does not divide the sources' length.
            let mut pipeline = Pipeline::new(&harness.raw, threads, 700).unwrap();
            for _ in 0..2 {
                let mut targets: Vec<Vec<f32>> = sources
                    .iter()
                    .map(|source| vec![0.0; source.len()])
                    .collect();
                pipeline.run(&borrowed, &mut targets).unwrap();
                for (source, target) in sources.iter().zip(&targets) {
                    assert!(source.iter().zip(target).all(|(x, y)| y == &(x + x)));
                }
            }
        }
    }
}
