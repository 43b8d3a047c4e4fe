//! How fast several threads copy ordinary memory.

use std::{sync::Barrier, thread, time::Instant};

use super::chunk::{Stores, copy};
use crate::timing::{gb_per_s, median};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];

/// Prints GB/s for each number of threads and both ways to store.
pub(crate) fn print(quick: bool) {
    let bytes = if quick { 32 << 20 } else { 256 << 20 };
    let source = vec![1_u8; bytes];
    let mut target = vec![2_u8; bytes];
    for stores in [Stores::Plain, Stores::NonTemporal] {
        for threads in THREADS {
            let samples = (0..8)
                .map(|_| copy_ns(&mut target, &source, threads, stores))
                .collect();
            let speed = gb_per_s(bytes, median(samples));
            println!(
                "copy of {} MiB, {threads:2} threads, {stores:?}: {speed:.1} GB/s",
                bytes >> 20
            );
        }
    }
    let samples = (0..8).map(|_| fresh_ns(bytes)).collect();
    println!(
        "new zeroed memory, every page touched: {:.1} GB/s",
        gb_per_s(bytes, median(samples))
    );
}

/// The time of a copy whose threads begin together, in nanoseconds.
fn copy_ns(target: &mut [u8], source: &[u8], threads: usize, stores: Stores) -> f64 {
    let part = source.len().div_ceil(threads);
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = target
            .chunks_mut(part)
            .zip(source.chunks(part))
            .map(|(target, source)| {
                scope.spawn(|| {
                    start.wait();
                    copy(target, source, stores);
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        for worker in workers {
            worker.join().expect("no worker panics");
        }
        began.elapsed().as_nanos() as f64
    })
}

fn fresh_ns(bytes: usize) -> f64 {
    let began = Instant::now();
    let mut fresh = vec![0_u8; bytes];
    for page in fresh.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&mut fresh);
    began.elapsed().as_nanos() as f64
}
