//! Several processes of one program, each with its own device, that add their arrays.
//!
//! ```sh
//! cargo build -p ranks
//! mpirun -n 2 target/debug/ranks
//! srun -n 2 target/debug/ranks
//! torchrun --no-python --nproc-per-node 2 target/debug/ranks
//! ```

use millstream::Result;
use millstream_collective::{Reduce, world::World};

/// The number of elements of each rank.
const COUNT: usize = 1000;

fn main() -> Result<()> {
    let world = World::from_env()?;
    let (rank, size) = (world.rank(), world.size());
    println!(
        "rank {rank} of {size}, local rank {} ({})",
        world.local_rank(),
        world.source()
    );
    let device = world.local_device()?;
    let collectives = world.collectives(&device)?; // returns when all ranks are connected

    let stream = device.stream()?;
    let mut numbers = stream.zeros::<u64>(COUNT)?;
    stream.fill(&mut numbers, rank as u64 + 1)?;
    collectives.all_reduce(&mut [&mut numbers], Reduce::Sum)?;
    let total: u64 = stream.download(&numbers)?.wait()?.iter().sum();
    println!("rank {rank} of {size} on {}: {total}", device.name());
    collectives.close()
}
