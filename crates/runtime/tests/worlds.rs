//! Worlds of several processes: the test program starts itself again for each rank, with the
//! variables that a launcher would set.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use millstream::world::World;

/// The time within which everything succeeds.
const LONG: Duration = Duration::from_secs(60);

/// The variables of every launcher, which a child must not inherit.
const INHERITED: [&str; 20] = [
    "MILLSTREAM_RANK",
    "MILLSTREAM_WORLD_SIZE",
    "MILLSTREAM_LOCAL_RANK",
    "MILLSTREAM_ADDRESS",
    "MILLSTREAM_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_STEP_NODELIST",
];

/// Starts this program as one rank, with variables and a deadline in milliseconds.
fn start(variables: &[(&str, String)], deadline_ms: u64) -> Child {
    let mut command = Command::new(env::current_exe().expect("the test's own program"));
    command.args(["--exact", "inner_rank", "--include-ignored", "--nocapture"]);
    for name in INHERITED {
        command.env_remove(name);
    }
    command.env("WORLDS_DEADLINE_MS", deadline_ms.to_string());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the process starts")
}

/// Returns the line of the output that begins with `result `, without that word.
fn result(child: Child) -> String {
    let output = child.wait_with_output().expect("the process ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("result "));
    let line = line.map(ToOwned::to_owned);
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns a value for `MASTER_PORT` whose next port is free.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port() - 1
}

#[test]
#[ignore = "a rank of the other tests"]
fn inner_rank() {
    println!();
    match inner() {
        Ok(text) => println!("result {text}"),
        Err(error) => println!("result {error}"),
    }
}

/// Exchanges a value with every other rank, and returns all of them.
fn inner() -> millstream::Result<String> {
    let deadline = env::var("WORLDS_DEADLINE_MS").expect("the parent sets it");
    let deadline = Duration::from_millis(deadline.parse().expect("a number"));
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

/// Variables of rank `rank` of `size`, as one launcher sets them.
type Launcher = fn(rank: usize, size: usize, port: u16) -> Vec<(&'static str, String)>;

fn torchrun(rank: usize, size: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("MASTER_ADDR", "localhost".to_owned()),
        ("MASTER_PORT", port.to_string()),
    ]
}

fn open_mpi(rank: usize, size: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string()),
        ("MASTER_PORT", port.to_string()),
    ]
}

fn slurm(rank: usize, size: usize, port: u16) -> Vec<(&'static str, String)> {
    vec![
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_NTASKS", size.to_string()),
        ("SLURM_LOCALID", rank.to_string()),
        ("SLURM_STEP_NODELIST", "localhost".to_owned()),
        ("MASTER_PORT", port.to_string()),
    ]
}

#[test]
fn processes_of_every_launcher_meet() {
    let launchers: [(&str, Launcher); 3] = [
        ("torchrun", torchrun),
        ("mpirun", open_mpi),
        ("srun", slurm),
    ];
    for (name, launcher) in launchers {
        let port = port();
        let deadline = LONG.as_millis() as u64;
        let ranks: Vec<Child> = (0..3)
            .map(|rank| start(&launcher(rank, 3, port), deadline))
            .collect();
        for rank in ranks {
            assert_eq!(result(rank), "[[0, 0], [1, 1], [2, 2]]", "{name}");
        }
    }
}

#[test]
fn a_process_that_is_missing_is_named_by_the_others() {
    let port = port();
    let began = Instant::now();
    // Rank 0 waits longer, so that rank 2 can ask it.
    let first = start(&torchrun(0, 3, port), 3000);
    let last = start(&torchrun(2, 3, port), 1500);
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
    let first = start(&torchrun(0, 2, port), 2000);
    let other = start(&torchrun(1, 3, port), LONG.as_millis() as u64);
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
    let text = result(start(&variables, 1000));
    let expected = format!(
        "rank 0 cannot serve the other ranks at 127.0.0.1:{}: ",
        port + 1
    );
    assert!(text.starts_with(&expected), "{text}");
}
