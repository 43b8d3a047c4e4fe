//! Several processes of one program: each computes on its own device, and rank 0 adds the results.
//!
//! ```sh
//! cargo build -p ranks
//! mpirun -n 2 target/debug/ranks
//! srun -n 2 target/debug/ranks
//! torchrun --no-python --nproc-per-node 2 target/debug/ranks
//! ```

use std::time::Duration;

use millstream::{Result, world::World};

/// The time within which all ranks must start.
const START: Duration = Duration::from_secs(60);

/// The time within which every rank must have its result.
const RESULT: Duration = Duration::from_secs(60);

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
    let store = world.rendezvous(START)?;

    let stream = device.stream()?;
    let mut numbers = stream.zeros::<u64>(COUNT)?;
    stream.fill(&mut numbers, rank as u64 + 1)?;
    let sum: u64 = stream.download(&numbers)?.wait()?.iter().sum();
    store.set(&format!("sum/{rank}"), &sum.to_le_bytes())?;

    if rank == 0 {
        let mut total = 0;
        for other in 0..size {
            let bytes = store.get(&format!("sum/{other}"), RESULT)?;
            total += u64::from_le_bytes(bytes.try_into().expect("a sum has 8 bytes"));
        }
        store.set("total", &total.to_le_bytes())?;
        // Rank 0 serves the store, so it waits until the others have read the total.
        for other in 1..size {
            store.get(&format!("done/{other}"), RESULT)?;
        }
        println!("total of {size} ranks on {}: {total}", device.name());
    } else {
        let total = store.get("total", RESULT)?;
        let total = u64::from_le_bytes(total.try_into().expect("a total has 8 bytes"));
        println!("rank {rank} contributed {sum} of {total}");
        store.set(&format!("done/{rank}"), &[])?;
    }
    Ok(())
}
