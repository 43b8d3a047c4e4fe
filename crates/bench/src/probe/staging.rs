//! Copies by way of page-locked chunks: with how many threads, in chunks of which size, and from which size on it pays.

use std::thread;

use anyhow::Result;

use super::chunk::{Chunk, Stores};
use crate::{
    raw::{RawMemory, RawStream},
    rig::Rig,
    timing::{Contender, Effort, gb_per_s, medians},
};

const SMALL: Effort = Effort {
    rounds: 80,
    batch: 100,
};
const LARGE: Effort = Effort { rounds: 8, batch: 1 };
/// Chunks that each thread fills and empties in turn.
const CHUNKS_PER_THREAD: usize = 2;

/// Prints the host's time for small uploads: by the driver from pageable memory, and by way of page-locked memory.
pub(crate) fn print_small(rig: &Rig) -> Result<()> {
    let raw = &rig.raw;
    let stream = raw.stream()?;
    for bytes in (8..=20).step_by(2).map(|shift| 1_usize << shift) {
        let target = raw.memory(bytes)?;
        let (pageable, pinned) = (raw.pageable(bytes), raw.pinned(bytes)?);
        let source = vec![1_u8; bytes];
        let mut chunks = (0..SMALL.batch)
            .map(|_| Chunk::new(raw, bytes))
            .collect::<Result<Vec<_>>>()?;
        let mut turn = 0;
        let rest = || stream.synchronize();
        let by_driver = Contender::new(|| stream.upload(&target, &pageable, bytes), rest);
        let by_hand = Contender::new(
            || {
                turn = (turn + 1) % chunks.len();
                chunks[turn].fill(&source, Stores::Plain)?;
                chunks[turn].upload(&stream, &target, 0, bytes)
            },
            rest,
        );
        let locked = Contender::new(|| stream.upload(&target, &pinned, bytes), rest);
        let [by_driver, by_hand, locked] = medians(rig, SMALL, [by_driver, by_hand, locked])?;
        println!(
            "{bytes:8} bytes: pageable {by_driver:.0} ns, copied to pinned with query and record {by_hand:.0} ns, \
             pinned {locked:.0} ns"
        );
    }
    Ok(())
}

/// Which way a large copy goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Upload,
    Download,
}

/// Prints GB/s of large copies by hand, for each number of threads, size of chunks and way to store.
pub(crate) fn print_large(rig: &Rig) -> Result<()> {
    let memory = rig.raw.memory(rig.large_bytes())?;
    let mut host = vec![1_u8; rig.large_bytes()];
    for way in [Way::Upload, Way::Download] {
        for stores in [Stores::Plain, Stores::NonTemporal] {
            for threads in [1, 2, 4, 8, 12, 16] {
                print!("{way:?}, {threads:2} threads, {stores:?}:");
                for chunk_kib in [256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10] {
                    let mut lanes = Lane::several(rig, threads, chunk_kib << 10)?;
                    let speed = speed(rig, &mut lanes, way, stores, &memory, &mut host)?;
                    print!("  {chunk_kib} KiB {speed:.1}");
                }
                println!(" GB/s");
            }
        }
    }
    Ok(())
}

/// GB/s of a copy of all of `host`.
fn speed(
    rig: &Rig,
    lanes: &mut [Lane],
    way: Way,
    stores: Stores,
    memory: &RawMemory,
    host: &mut [u8],
) -> Result<f64> {
    let bytes = host.len();
    let whole = Contender::complete(|| all(lanes, way, stores, memory, host));
    let [ns] = medians(rig, LARGE, [whole])?;
    Ok(gb_per_s(bytes, ns))
}

/// What goes up comes down again, in chunks that do not divide it.
#[cfg(test)]
pub(super) fn copies_work_both_ways(rig: &Rig) -> Result<()> {
    let bytes = 100_000;
    let memory = rig.raw.memory(bytes)?;
    let sent: Vec<u8> = (0..=255).cycle().take(bytes).collect();
    for threads in [1, 3] {
        let mut lanes = Lane::several(rig, threads, 7 << 10)?;
        let mut host = sent.clone();
        speed(
            rig,
            &mut lanes,
            Way::Upload,
            Stores::NonTemporal,
            &memory,
            &mut host,
        )?;
        host.fill(0);
        speed(rig, &mut lanes, Way::Download, Stores::Plain, &memory, &mut host)?;
        anyhow::ensure!(host == sent, "{threads} threads do not bring back what they sent");
    }
    Ok(())
}

/// What one thread works with.
struct Lane {
    stream: RawStream,
    chunk_bytes: usize,
    chunks: Vec<Chunk>,
}

impl Lane {
    fn several(rig: &Rig, threads: usize, chunk_bytes: usize) -> Result<Vec<Self>> {
        let lane = |_| {
            Ok(Self {
                stream: rig.raw.stream()?,
                chunk_bytes,
                chunks: (0..CHUNKS_PER_THREAD)
                    .map(|_| Chunk::new(&rig.raw, chunk_bytes))
                    .collect::<Result<_>>()?,
            })
        };
        (0..threads).map(lane).collect()
    }

    fn upload(&mut self, memory: &RawMemory, at: usize, host: &[u8], stores: Stores) -> Result<()> {
        for (number, part) in host.chunks(self.chunk_bytes).enumerate() {
            let chunk = &mut self.chunks[number % CHUNKS_PER_THREAD];
            chunk.fill(part, stores)?;
            chunk.upload(&self.stream, memory, at + number * self.chunk_bytes, part.len())?;
        }
        self.stream.synchronize()
    }

    fn download(&mut self, memory: &RawMemory, at: usize, host: &mut [u8], stores: Stores) -> Result<()> {
        let chunk_bytes = self.chunk_bytes;
        let lengths: Vec<usize> = host.chunks(chunk_bytes).map(<[u8]>::len).collect();
        let ask = |lane: &mut Self, number: usize| match lengths.get(number) {
            Some(&bytes) => {
                let chunk = &mut lane.chunks[number % CHUNKS_PER_THREAD];
                chunk.download(&lane.stream, memory, at + number * chunk_bytes, bytes)
            }
            None => Ok(()),
        };
        (0..CHUNKS_PER_THREAD).try_for_each(|number| ask(self, number))?;
        for (number, part) in host.chunks_mut(chunk_bytes).enumerate() {
            self.chunks[number % CHUNKS_PER_THREAD].empty(part, stores)?;
            ask(self, number + CHUNKS_PER_THREAD)?;
        }
        Ok(())
    }
}

/// Copies everything, each lane an equal part on a thread of its own.
fn all(lanes: &mut [Lane], way: Way, stores: Stores, memory: &RawMemory, host: &mut [u8]) -> Result<()> {
    let part = host.len().div_ceil(lanes.len());
    thread::scope(|scope| {
        let workers: Vec<_> = lanes
            .iter_mut()
            .zip(host.chunks_mut(part))
            .enumerate()
            .map(|(number, (lane, host))| {
                scope.spawn(move || match way {
                    Way::Upload => lane.upload(memory, number * part, host, stores),
                    Way::Download => lane.download(memory, number * part, host, stores),
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })
}
