//! Worlds: processes meet, and say which of them are missing or wrong.

use std::{env, net::TcpListener, process::Child};

use crate::several_processes::{
    prelude::*,
    processes::{Launcher, open_mpi, port, slurm, start},
};

/// The variable with a rank's deadline in milliseconds.
const DEADLINE: &str = "WORLDS_DEADLINE_MS";

/// Starts one rank that waits for the others for at most `deadline_ms`.
fn meet(variables: &[(&'static str, String)], deadline_ms: u64) -> Child {
    let mut variables = variables.to_vec();
    variables.push((DEADLINE, deadline_ms.to_string()));
    start("meet", &variables)
}

/// Exchanges a value with every other rank, and returns all of them.
pub(crate) fn program() -> millstream::Result<String> {
    let deadline = env::var(DEADLINE).map_or(LONG, |deadline| {
        Duration::from_millis(deadline.parse().expect("a number"))
    });
    let world = World::from_env()?;
    let (rank, size) = (world.rank(), world.size());
    let store = world.rendezvous(deadline)?;
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
fn a_process_that_is_missing_is_named_by_the_others() {
    let port = port();
    let began = Instant::now();
    // Rank 0 waits longer, so that rank 2 can ask it.
    let first = meet(&torchrun(0, 3, port), 3000);
    let last = meet(&torchrun(2, 3, port), 1500);
    let expected = format!(
        "1 of 3 ranks have not connected to localhost:{} within 1.5s: 1",
        port + 1
    );
    assert_eq!(result(last), expected);
    let text = result(first);
    assert!(text.contains("within 3s: 1"), "{text}");
    assert!(began.elapsed() < LONG);
}

#[test]
fn processes_with_different_world_sizes_are_told() {
    let port = port();
    let first = meet(&torchrun(0, 2, port), 2000);
    let other = meet(&torchrun(1, 3, port), LONG.as_millis() as u64);
    let expected = format!(
        "rank 1 has a world of 3 ranks, but rank 0 at localhost:{} has one of 2",
        port + 1
    );
    assert_eq!(result(other), expected);
    let text = result(first);
    assert!(text.contains("1 of 2 ranks have not connected"), "{text}");
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
    let text = result(meet(&variables, 1000));
    let expected = format!(
        "rank 0 cannot serve the other ranks at 127.0.0.1:{}: ",
        port + 1
    );
    assert!(text.starts_with(&expected), "{text}");
}
