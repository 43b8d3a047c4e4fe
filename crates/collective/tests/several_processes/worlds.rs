//! Worlds: processes meet at a port that no other world serves.

use std::net::TcpListener;

use crate::several_processes::{
    prelude::*,
    processes::{Launcher, open_mpi, slurm, start},
};

/// Exchanges a value with every other rank, and returns all of them.
pub(crate) fn program() -> millstream::Result<String> {
    let world = World::from_env()?;
    let (rank, size) = (world.rank(), world.size());
    let store = world.rendezvous(LONG)?;
    let device = world.local_device()?;
    let stream = device.stream()?;
    let own = stream.upload(&[rank as u8, world.local_rank() as u8])?;
    store.set(&format!("from/{rank}"), &stream.download(&own)?.wait()?)?;
    let mut all = Vec::new();
    for other in 0..size {
        all.push(store.get(&format!("from/{other}"), LONG)?);
    }
    store.set(&format!("done/{rank}"), &[])?;
    if rank == 0 {
        for other in 0..size {
            store.get(&format!("done/{other}"), LONG)?;
        }
    }
    Ok(format!("{all:?}"))
}

#[test]
fn processes_of_every_launcher_meet() {
    let launchers: [(&str, Launcher); 3] = [
        ("torchrun", torchrun),
        ("mpirun", open_mpi),
        ("srun", slurm),
    ];
    for (name, launcher) in launchers {
        for rank in start_all("meet", launcher, 3) {
            assert_eq!(result(rank), "[[0, 0], [1, 1], [2, 2]]", "{name}");
        }
    }
}

#[test]
fn two_worlds_cannot_serve_at_one_port() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port() - 1;
    let mut variables = torchrun(0, 2, port);
    variables.iter_mut().for_each(|(name, value)| {
        if *name == "MASTER_ADDR" {
            "127.0.0.1".clone_into(value);
        }
    });
    let text = result(start("meet", &variables));
    let expected = format!(
        "rank 0 cannot serve the other ranks at 127.0.0.1:{}: ",
        port + 1
    );
    assert!(text.starts_with(&expected), "{text}");
}
