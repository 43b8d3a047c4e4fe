//! P11: collectives between processes give the results of one process with as many devices.

use std::{
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
};

use half::{bf16, f16};
use millstream::{Buffer, Result, sim::SimConfig};
use millstream_collective::CollectiveElement;

use crate::several_processes::{
    prelude::*,
    processes::{Launcher, open_mpi, slurm},
};

/// An element type, and the reductions that it has.
trait Element: CollectiveElement + Debug {
    const REDUCTIONS: &'static [Reduce];

    fn value(rank: usize, index: usize) -> Self;
}

const INTEGERS: [Reduce; 4] = [Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max];
const FLOATS: [Reduce; 5] = [
    Reduce::Sum,
    Reduce::Prod,
    Reduce::Min,
    Reduce::Max,
    Reduce::Avg,
];

macro_rules! elements {
    ($($type:ty, $reductions:expr, $from_f64:expr;)*) => {
        $(
            impl Element for $type {
                const REDUCTIONS: &'static [Reduce] = &$reductions;

                fn value(rank: usize, index: usize) -> Self {
                    $from_f64(((index * 37 + rank * 101) % 1009) as f64 * 0.37)
                }
            }
        )*
    };
}

elements! {
    f32, FLOATS, |value| value as f32;
    f64, FLOATS, |value| value;
    i32, INTEGERS, |value| value as i32;
    i64, INTEGERS, |value| value as i64;
    u32, INTEGERS, |value| value as u32;
    u64, INTEGERS, |value| value as u64;
    f16, FLOATS, f16::from_f64;
    bf16, FLOATS, bf16::from_f64;
}

/// The local ranks of a group, with a stream of each.
struct Ranks<'a> {
    collectives: &'a Collectives,
    streams: &'a [Stream],
    /// A hash of each result, of each local rank, with a name.
    results: Vec<Vec<String>>,
}

impl Ranks<'_> {
    fn arrays<T: Element>(&self, len: usize) -> Result<Vec<Buffer<T>>> {
        let array = |(rank, stream): (usize, &Stream)| {
            let values: Vec<T> = (0..len).map(|index| T::value(rank, index)).collect();
            stream.upload(&values)
        };
        let ranks = self.collectives.local_ranks();
        ranks.into_iter().zip(self.streams).map(array).collect()
    }

    /// Adds the contents of the local ranks' arrays to the results.
    fn note<T: Element>(&mut self, name: &str, arrays: &[Buffer<T>]) -> Result<()> {
        for ((array, stream), results) in arrays.iter().zip(self.streams).zip(&mut self.results) {
            let contents = format!("{:?}", stream.download(array)?.wait()?);
            let mut hasher = DefaultHasher::new();
            contents.hash(&mut hasher);
            results.push(format!("{name}={:x}", hasher.finish()));
        }
        Ok(())
    }

    fn run<T: Element>(&mut self) -> Result<()> {
        let name = std::any::type_name::<T>();
        let (collectives, size) = (self.collectives, self.collectives.ranks());
        for &reduce in T::REDUCTIONS {
            for len in [1, 1003] {
                let mut arrays = self.arrays::<T>(len)?;
                collectives.all_reduce(&mut arrays.iter_mut().collect::<Vec<_>>(), reduce)?;
                self.note(&format!("all_reduce {len} {name} {reduce:?}"), &arrays)?;
            }
            let (sources, mut targets) = (self.arrays::<T>(5 * size)?, self.arrays::<T>(5)?);
            let references: Vec<_> = sources.iter().collect();
            let mut written: Vec<_> = targets.iter_mut().collect();
            collectives.reduce_scatter(&references, &mut written, reduce)?;
            self.note(&format!("reduce_scatter {name} {reduce:?}"), &targets)?;
            for root in 0..size {
                let mut arrays = self.arrays::<T>(7)?;
                let mut written: Vec<_> = arrays.iter_mut().collect();
                collectives.reduce(root, &mut written, reduce)?;
                self.note(&format!("reduce {root} {name} {reduce:?}"), &arrays)?;
            }
        }
        let (sources, mut targets) = (self.arrays::<T>(9)?, self.arrays::<T>(9 * size)?);
        let references: Vec<_> = sources.iter().collect();
        collectives.all_gather(&references, &mut targets.iter_mut().collect::<Vec<_>>())?;
        self.note(&format!("all_gather {name}"), &targets)?;
        // The rank 0 has no elements.
        let lengths: Vec<usize> = (0..size).map(|rank| 3 * rank).collect();
        let (sources, mut targets) = (
            self.arrays::<T>(3 * size)?,
            self.arrays::<T>(lengths.iter().sum())?,
        );
        let ranks = collectives.local_ranks().into_iter();
        let parts: Vec<_> = ranks
            .zip(&sources)
            .map(|(rank, source)| source.slice(..lengths[rank]))
            .collect();
        let mut written: Vec<_> = targets.iter_mut().collect();
        collectives.all_gather_uneven(&lengths, &parts, &mut written)?;
        self.note(&format!("all_gather_uneven {name}"), &targets)?;
        let (sources, mut targets) = (self.arrays::<T>(3 * size)?, self.arrays::<T>(3 * size)?);
        let references: Vec<_> = sources.iter().collect();
        collectives.all_to_all(&references, &mut targets.iter_mut().collect::<Vec<_>>())?;
        self.note(&format!("all_to_all {name}"), &targets)?;
        for root in 0..size {
            let mut arrays = self.arrays::<T>(11)?;
            collectives.broadcast(root, &mut arrays.iter_mut().collect::<Vec<_>>())?;
            self.note(&format!("broadcast {root} {name}"), &arrays)?;
        }
        // A ring, in which rank i sends 4 + i elements.
        let sources = self.arrays::<T>(4 + size)?;
        let mut targets = self.arrays::<T>(4 + size)?;
        let ranks = collectives.local_ranks();
        collectives.group(|group| {
            for ((&rank, source), target) in ranks.iter().zip(&sources).zip(&mut targets) {
                let before = (rank + size - 1) % size;
                group.send(rank, (rank + 1) % size, source.slice(..4 + rank))?;
                group.recv(rank, before, target.slice_mut(..4 + before))?;
            }
            Ok(())
        })?;
        self.note(&format!("ring {name}"), &targets)
    }

    /// Fits a line to each rank's points by gradients that all ranks average.
    fn train(&mut self) -> Result<()> {
        let ranks = self.collectives.local_ranks();
        let mut weights = vec![[0.0_f64; 2]; ranks.len()];
        let mut gradients: Vec<Buffer<f64>> = Vec::new();
        for _ in 0..20 {
            gradients.clear();
            for ((&rank, [a, b]), stream) in ranks.iter().zip(&weights).zip(self.streams) {
                let points = (0..8).map(|index| f64::from(index) / 8.0 + rank as f64);
                let slopes = points.map(|x| {
                    let error = a * x + b - (3.0 * x - 1.0);
                    [error * x, error]
                });
                let sum = slopes.fold([0.0; 2], |sum, next| [sum[0] + next[0], sum[1] + next[1]]);
                gradients.push(stream.upload(&sum)?);
            }
            let mut written: Vec<_> = gradients.iter_mut().collect();
            self.collectives.all_reduce(&mut written, Reduce::Avg)?;
            for ((weights, gradient), stream) in
                weights.iter_mut().zip(&gradients).zip(self.streams)
            {
                let gradient = stream.download(gradient)?.wait()?;
                weights
                    .iter_mut()
                    .zip(gradient)
                    .for_each(|(weight, slope)| *weight -= slope / 60.0);
            }
        }
        assert!(
            weights.iter().all(|known| *known == weights[0]),
            "{weights:?}"
        );
        self.note("training", &gradients)
    }
}

/// Runs everything, and returns the results of each local rank.
fn everything(collectives: &Collectives, streams: &[Stream]) -> Result<Vec<Vec<String>>> {
    let mut ranks = Ranks {
        collectives,
        streams,
        results: vec![Vec::new(); streams.len()],
    };
    ranks.run::<f32>()?;
    ranks.run::<f64>()?;
    ranks.run::<i32>()?;
    ranks.run::<i64>()?;
    ranks.run::<u32>()?;
    ranks.run::<u64>()?;
    ranks.run::<f16>()?;
    ranks.run::<bf16>()?;
    ranks.train()?;
    Ok(ranks.results)
}

/// Runs everything as one process of a world.
pub(crate) fn program() -> Result<String> {
    let world = World::from_env()?;
    let device = world.local_device()?;
    let collectives = world.collectives(&device)?;
    assert_eq!(collectives.backend(), "NCCL");
    assert_eq!(collectives.local_ranks(), [world.rank()]);
    let results = everything(&collectives, &[device.stream()?])?;
    collectives.close()?;
    Ok(results[0].join(";"))
}

/// Checks that a world of `size` processes computes the same as one process.
fn check(size: usize, launcher: Launcher) {
    let processes = start_all("everything", launcher, size);
    let count = u32::try_from(size).expect("few devices");
    let gpu = Gpu::new(SimConfig::new().devices(count));
    let ordinals = 0..count.cast_signed();
    let devices: Vec<Device> = ordinals
        .map(|ordinal| Device::open_simulated(&gpu, ordinal).expect("a device"))
        .collect();
    let streams: Vec<Stream> = devices
        .iter()
        .map(|device| device.stream().expect("a stream"))
        .collect();
    let collectives = Collectives::direct(&devices).expect("a group");
    let expected = everything(&collectives, &streams).expect("everything works");
    for (rank, (process, expected)) in processes.into_iter().zip(expected).enumerate() {
        let text = result(process);
        let results: Vec<&str> = text.split(';').collect();
        assert_eq!(results, expected, "rank {rank}");
    }
}

#[test]
fn p11_two_processes_compute_what_one_process_computes() {
    check(2, torchrun);
    check(2, open_mpi);
}

#[test]
fn p11_three_processes_compute_what_one_process_computes() {
    check(3, slurm);
}
