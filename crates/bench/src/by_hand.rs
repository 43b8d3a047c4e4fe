//! Upload, kernel and download of ordinary memory by hand, without Millstream: as fast as threads,
//! page-locked chunks and the driver let it go. Each thread takes pieces of its own all the way,
//! which only a kernel that works element by element allows.

use std::{sync::Arc, thread};

use anyhow::Result;

use crate::{
    chunk::{Chunk, Stores},
    raw::{Raw, RawKernel, RawMemory, RawStream},
};

/// Pieces that each thread has on their way.
const SLOTS: usize = 2;

/// A piece of the source, and where its sums belong.
type Piece<'a> = (&'a [f32], &'a mut [f32]);

/// What one piece needs on its way.
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

    /// Sends a piece on its way there and back.
    fn send(&mut self, kernel: RawKernel, source: &[f32]) -> Result<()> {
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
        stream.vecadd(kernel, [input, input, output], source.len() as u64)?;
        down.download(stream, output, 0, bytes)
    }

    /// Waits for the piece, and copies it to where it belongs.
    fn land(&mut self, target: &mut [f32]) -> Result<()> {
        self.down
            .empty(bytemuck::cast_slice_mut(target), Stores::NonTemporal)
    }
}

/// Threads that double numbers on the device.
pub(crate) struct Pipeline {
    kernel: RawKernel,
    lanes: Vec<[Slot; SLOTS]>,
    piece_len: usize,
}

impl Pipeline {
    /// A pipeline of so many threads, whose pieces have so many elements.
    pub(crate) fn new(raw: &Arc<Raw>, threads: usize, piece_len: usize) -> Result<Self> {
        let slot = || Slot::new(raw, piece_len * size_of::<f32>());
        Ok(Self {
            kernel: raw.vecadd()?,
            lanes: (0..threads)
                .map(|_| Ok([slot()?, slot()?]))
                .collect::<Result<_>>()?,
            piece_len,
        })
    }

    /// Doubles each source, in the vector that has its place.
    pub(crate) fn run(&mut self, sources: &[&[f32]], targets: &mut [Vec<f32>]) -> Result<()> {
        let mut shares: Vec<Vec<Piece<'_>>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let pieces = sources.iter().zip(targets).flat_map(|(source, target)| {
            source
                .chunks(self.piece_len)
                .zip(target.chunks_mut(self.piece_len))
        });
        for (number, piece) in pieces.enumerate() {
            let turn = number % shares.len();
            shares[turn].push(piece);
        }
        let kernel = self.kernel;
        thread::scope(|scope| {
            let workers: Vec<_> = self
                .lanes
                .iter_mut()
                .zip(shares)
                .map(|(slots, share)| scope.spawn(move || carry(slots, kernel, share)))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().expect("no worker panics"))
        })
    }
}

/// Carries pieces there and back, the next sent before the last has landed.
fn carry(slots: &mut [Slot; SLOTS], kernel: RawKernel, pieces: Vec<Piece<'_>>) -> Result<()> {
    let mut targets: [Option<&mut [f32]>; SLOTS] = [const { None }; SLOTS];
    let turns = (0..SLOTS).cycle();
    for ((source, target), turn) in pieces.into_iter().zip(turns.clone()) {
        if let Some(before) = targets[turn].replace(target) {
            slots[turn].land(before)?;
        }
        slots[turn].send(kernel, source)?;
    }
    for (slot, target) in slots.iter_mut().zip(targets) {
        if let Some(target) = target {
            slot.land(target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;

    #[test]
    fn what_comes_back_is_doubled_and_in_its_place() {
        let rig = Rig::simulated(true).unwrap();
        let sources: Vec<Vec<f32>> = (0..5)
            .map(|from| (from * 1000..).take(2500).map(|n| n as f32).collect())
            .collect();
        let borrowed: Vec<&[f32]> = sources.iter().map(Vec::as_slice).collect();
        for threads in [1, 3] {
            // Pieces that do not divide the source.
            let mut pipeline = Pipeline::new(&rig.raw, threads, 700).unwrap();
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
